"""Every kernel family gives the same bits at sizes around its edges: threads, batches, instruction sets, modes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import nacre as nc
from nacre import nn
from nacre.base.dtypes import as_dtype
from nacre.compile.pipeline import compile_graph
from nacre.interpret.stage import stage
from nacre.native.engine import host_target
from nacre.native.pool import pool
from nacre.trace.value import make
from same_bits import canonical

F = nn.functional
Draw = Callable[[st.SearchStrategy[Any]], Any]
ISAS = [host_target().isa, *(["avx2"] if host_target().isa == "avx512" else [])]
THREADS = (1, 2, 5)
PATIENT = (HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture)


def near(*edges: int, least: int = 1) -> st.SearchStrategy[int]:
    """Sizes at edges and one to either side."""
    return st.sampled_from(sorted({max(least, e + d) for e in edges for d in (-1, 0, 1)}))


ROW = near(1, 6, 8, 12, 14, 16, 24, 64)  # rows of a product's tile, and of several
COLUMN = near(1, 8, 16, 32, 48, 64, 96, 256)  # vectors of a tile
CHAIN = near(1, 16, 32, 256, 512)  # restarts of a chain
CHANNEL = near(1, 8, 16, 32, 48)
PIXEL = near(2, 4, 7, 14, 16)
LENGTH = near(1, 8, 16, 32, 64, 128, 256, 1024)
FEW = st.integers(1, 3)


@dataclass(frozen=True)
class Family:
    """Functions that one family of kernels computes; `shapes` draws those of the operands."""

    name: str
    function: Callable[..., Any]
    shapes: Callable[[Draw], Sequence[tuple[int, ...]]]
    fast: bool = False
    dtypes: Sequence[str] = ("float32",)
    whole: Sequence[int] = field(default=())  # operands of whole numbers, and below what

    def operands(self, draw: Draw, count: int) -> list[list[np.ndarray]]:
        """Some examples of operands, of the same types."""
        shapes, dtype, seed = self.shapes(draw), draw(st.sampled_from(self.dtypes)), draw(st.integers(0, 99))
        rng = np.random.default_rng(seed)
        found: list[list[np.ndarray]] = []
        for _ in range(count):
            arrays = [rng.standard_normal(s).astype(as_dtype(dtype).numpy) for s in shapes]
            for k, limit in enumerate(self.whole):
                if limit:
                    arrays[k] = rng.integers(0, limit, shapes[k]).astype(np.int32)
            found.append(arrays)
        return found


def with_gradients(f: Callable[..., Any], count: int) -> Callable[..., Any]:
    """The result of f and its derivatives for the first operands, for a cotangent that comes last."""

    def results(*values: Any) -> tuple[Any, ...]:
        *xs, g = values
        derivatives = nc.grad(lambda *ys: nc.sum(f(*ys, *xs[count:]) * g), argnums=tuple(range(count)))(*xs[:count])
        return (f(*xs), *derivatives)

    return results


def matrices(order: str) -> Callable[[Draw], Sequence[tuple[int, ...]]]:
    """Shapes of two factors: NN, NT, TN."""

    def shapes(draw: Draw) -> Sequence[tuple[int, ...]]:
        m, n, k = draw(ROW), draw(COLUMN), draw(CHAIN)
        return [(k, m) if order[0] == "T" else (m, k), (n, k) if order[1] == "T" else (k, n)]

    return shapes


def turned(order: str) -> Callable[[Any, Any], Any]:
    def product(a: Any, b: Any) -> Any:
        return (a.T if order[0] == "T" else a) @ (b.T if order[1] == "T" else b)

    return product


def linear(x: Any, w: Any, b: Any, y: Any) -> Any:
    return y + nc.maximum(F.linear(x, w, b), 0)


def linear_shapes(draw: Draw) -> Sequence[tuple[int, ...]]:
    m, n, k = draw(ROW), draw(COLUMN), draw(CHAIN)
    return [(m, k), (n, k), (n,), (m, n)]


def vectors(draw: Draw) -> Sequence[tuple[int, ...]]:
    k = draw(CHAIN)
    return [(1, k), (draw(COLUMN), k)]


def images(axes: int, kernel: int, stride: int = 1, groups: int = 1, margin: int = 0) -> Callable[..., Any]:
    """Shapes of images, weights, and the cotangent of the result."""

    def shapes(draw: Draw) -> Sequence[tuple[int, ...]]:
        taken, made = (groups, groups) if groups > 4 else (groups * draw(CHANNEL), groups * draw(CHANNEL))
        size = [draw(PIXEL) + kernel for _ in range(axes)]
        out = [(n + 2 * margin - kernel) // stride + 1 for n in size]
        n = draw(FEW)
        return [(n, taken, *size), (made, taken // groups, *[kernel] * axes), (n, made, *out)]

    return shapes


def convolution(
    axes: int,
    kernel: int,
    stride: int = 1,
    groups: int = 1,
    margin: int = 0,
    fast: bool = False,
) -> Family:
    """A convolution, the derivatives of its images and weights."""
    function = (F.conv1d, F.conv2d, F.conv3d)[axes - 1]
    f = with_gradients(lambda x, w: function(x, w, stride=stride, groups=groups, padding=margin), 2)
    name = f"convolution {axes}d {kernel} stride {stride} groups {groups}{' fast' if fast else ''}"
    return Family(name, f, images(axes, kernel, stride, groups, margin), fast)


def attended(draw: Draw) -> Sequence[tuple[int, ...]]:
    t, d = draw(near(1, 8, 16, 64, 128)), draw(near(8, 16, 32, 64))
    return [(2, t, d)] * 4


def rows(draw: Draw) -> Sequence[tuple[int, ...]]:
    return [(draw(near(1, 4, 8, 16)), draw(LENGTH))]


def planes(draw: Draw) -> Sequence[tuple[int, ...]]:
    return [(draw(near(1, 8, 16)), draw(near(1, 3, 16, 64)), draw(near(1, 5, 16, 48)))]


def looked_up(draw: Draw) -> Sequence[tuple[int, ...]]:
    d, n = draw(near(1, 16, 48, 64)), draw(LENGTH)
    return [(5, d), (n,), (n, d)]


def chosen(x: Any, y: Any) -> Any:
    return nc.where(x > y, nc.exp(x), nc.tanh(y)) * x


def pooled(x: Any) -> Any:
    return F.max_pool2d(x, 3, 2, 1), F.avg_pool2d(x, 2)


FAMILIES = [
    *(
        Family(f"product {o}", turned(o), matrices(o), dtypes=("float32", "float64", "bfloat16"))
        for o in ("NN", "NT", "TN")
    ),
    Family("product of a row", lambda x, w: x @ w.T, vectors, dtypes=("float32", "float64", "bfloat16")),
    Family(
        "product with an ending, and gradients",
        with_gradients(linear, 3),
        lambda draw: [*(s := linear_shapes(draw)), s[-1]],
    ),
    convolution(1, 3, margin=1),
    convolution(2, 1),
    convolution(2, 3, margin=1),
    convolution(2, 3, 2, margin=1),
    convolution(2, 7, 2, margin=3),
    convolution(2, 3, groups=2),
    convolution(2, 3, groups=17, margin=1),
    convolution(3, 3),
    convolution(2, 3, margin=1, fast=True),
    Family("attention", with_gradients(F.scaled_dot_product_attention, 3), attended),
    Family(
        "causal attention", with_gradients(lambda *x: F.scaled_dot_product_attention(*x, is_causal=True), 3), attended
    ),
    Family(
        "causal attention fast",
        with_gradients(lambda *x: F.scaled_dot_product_attention(*x, is_causal=True), 3),
        attended,
        True,
    ),
    Family("pointwise", chosen, lambda draw: [rows(draw)[0]] * 2, dtypes=("float32", "float64", "float16")),
    Family(
        "sums",
        lambda x: (nc.sum(x), nc.sum(x, axis=0), nc.sum(x, axis=1), nc.mean(x, axis=(0, 2))),
        planes,
        dtypes=("float32", "float64", "float16"),
    ),
    Family("extremes", lambda x: (nc.max(x, axis=0), nc.argmin(x, axis=1), nc.argmax(x, axis=2)), planes),
    Family("running sums", lambda x: (nc.cumulative_sum(x, axis=0), nc.cumulative_sum(x, axis=1)), rows),
    Family("softmax", with_gradients(lambda x: F.softmax(x, -1), 1), lambda draw: [rows(draw)[0]] * 2),
    Family("layer norm", with_gradients(lambda x: F.layer_norm(x, x.shape[-1:]), 1), lambda draw: [rows(draw)[0]] * 2),
    Family("joined", lambda x, y: (nc.concat([x, y], axis=-1), nc.stack([x, y])), lambda draw: [rows(draw)[0]] * 2),
    Family("embedding", with_gradients(lambda w, i: F.embedding(i, w), 1), looked_up, whole=(0, 5)),
    Family("sorted", lambda x: (nc.sort(x, axis=-1), nc.argsort(x, axis=0)), rows),
    Family("pooling", pooled, lambda draw: [(1, draw(CHANNEL), draw(PIXEL) + 2, draw(PIXEL) + 2)]),
]


def listed(results: Any) -> list[Any]:
    return list(results) if isinstance(results, tuple) else [results]


def check(family: Family, draw: Draw) -> None:
    """Compare the bits of a family's results, however they are computed."""
    examples = [[nc.asarray(a) for a in arrays] for arrays in family.operands(draw, 2)]
    with nc.numerics("fast" if family.fast else "exact"):
        wanted = [list(map(canonical, listed(family.function(*values)))) for values in examples]
        trace = stage(lambda *xs: listed(family.function(*xs)), [x.type for x in examples[0]])
        compiled = [(isa, compile_graph(trace.graph, None, host_target(isa)).executable) for isa in ISAS]
        batch = nc.jit(nc.vmap(family.function))
    for isa, each in compiled:
        for threads in THREADS:
            pool().set_threads(threads)
            for values, bits in zip(examples, wanted, strict=True):
                buffers = each.run([x.content.address for x in (*values, *trace.captures)], {})
                found = [canonical(make(t, b)) for t, b in zip(each.output_types, buffers, strict=True)]
                assert found == bits, f"{isa}, {threads} threads"
    with nc.numerics("fast" if family.fast else "exact"):
        whole = listed(batch(*(nc.stack(xs) for xs in zip(*examples, strict=True))))
    for k, bits in enumerate(wanted):
        assert [canonical(y[k]) for y in whole] == bits, f"example {k} of a batch"


pytestmark = pytest.mark.usefixtures("divided")
families = pytest.mark.parametrize("family", FAMILIES, ids=lambda f: f.name)


@pytest.mark.sampled(4)
@families
@settings(max_examples=5, deadline=None, derandomize=True, database=None, suppress_health_check=PATIENT)
@given(data=st.data())
def test_some_sizes(family: Family, data: st.DataObject) -> None:
    check(family, data.draw)


@pytest.mark.slow
@families
@settings(max_examples=60, deadline=None, database=None, suppress_health_check=PATIENT)
@given(data=st.data())
def test_many_sizes(family: Family, data: st.DataObject) -> None:
    check(family, data.draw)
