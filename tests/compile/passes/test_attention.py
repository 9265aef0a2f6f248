"""Attention as one equation has the bits of its parts, for all masks, special values, sizes and instruction sets."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import nacre as nc
from nacre import nn
from nacre.api.primitives import contract, pointwise, view
from nacre.codegen.attention.plan import PanelModel, backward_cut
from nacre.compile.passes.attention import fuse_attention
from nacre.compile.passes.simplify import simplify
from nacre.compile.pipeline import compile_graph
from nacre.interpret.evaluate import to_numpy
from nacre.interpret.stage import stage
from nacre.ir.parse import parse
from nacre.native.engine import host_target
from nacre.native.pool import pool
from nacre.trace.value import make
from same_bits import canonical

F = nn.functional
Array = np.ndarray


@dataclass(frozen=True)
class Sizes:
    """Sizes around the edges of tiles, row panels, chains and chunks."""

    batch: tuple[int, ...]
    queries: int
    keys: int
    depth: int
    width: int

    def operands(self, draw: Callable[..., Array], dtype: Any = np.float32) -> list[nc.Tensor]:
        """Queries, keys, values, and cotangents of the result."""
        shapes = [
            (self.queries, self.depth),
            (self.keys, self.depth),
            (self.keys, self.width),
            (self.queries, self.width),
        ]
        return [nc.asarray(draw((*self.batch, *s)).astype(dtype)) for s in shapes]


def normal(seed: int) -> Callable[..., Array]:
    return np.random.default_rng(seed).standard_normal


def chosen(seed: int, values: Sequence[float]) -> Callable[..., Array]:
    """Samples of a few numbers."""
    rng = np.random.default_rng(seed)
    return lambda shape: rng.choice(np.array(values, np.float32), shape)


def both(mask: Any = None, causal: bool = False, scale: float | None = None) -> Callable[..., tuple[Any, ...]]:
    """Attention and its three derivatives for a given cotangent."""

    def results(q: Any, k: Any, v: Any, g: Any) -> tuple[Any, ...]:
        def loss(q: Any, k: Any, v: Any) -> Any:
            return nc.sum(F.scaled_dot_product_attention(q, k, v, mask, is_causal=causal, scale=scale) * g)

        out = F.scaled_dot_product_attention(q, k, v, mask, is_causal=causal, scale=scale)
        return (out, *nc.grad(loss, argnums=(0, 1, 2))(q, k, v))

    return results


def primitives(f: Callable[..., Any], *values: nc.Tensor) -> list[str]:
    """The primitives of a function's compiled graph."""
    return [e.primitive.name for e in equations(f, *values)]


def attended(causal: bool) -> Callable[..., Any]:
    return lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=causal)


def equations(f: Callable[..., Any], *values: nc.Tensor) -> Sequence[Any]:
    """The equations of a function's compiled graph."""
    return nc.jit(f).concrete(*values).compiled.simplified.equations


def assert_same(f: Callable[..., Any], values: list[nc.Tensor], isa: str | None = None) -> None:
    """Compiled with attention as one equation, f has the results of its parts one by one."""
    trace = stage(lambda *xs: list(f(*xs)), [x.type for x in values])
    compiled = compile_graph(trace.graph, None, host_target(isa))
    executable = compiled.executable
    assert [s.label for s in compiled.stages if s.label.startswith("attend")] == ["attend", "attend_grads"]
    wanted = list(map(canonical, f(*values)))
    for threads in (1, 2, 5):
        pool().set_threads(threads)
        buffers = executable.run([x.content.address for x in (*values, *trace.captures)], {})
        found = [canonical(make(t, b)) for t, b in zip(executable.output_types, buffers, strict=True)]
        assert found == wanted, f"{threads} threads: {[a == b for a, b in zip(found, wanted, strict=True)]}"


pytestmark = pytest.mark.usefixtures("divided")
ISAS = [host_target().isa, *(["avx2"] if host_target().isa == "avx512" else [])]
SIZES = [
    Sizes((), 5, 5, 3, 2),
    Sizes((2, 3), 70, 64, 40, 17),
    Sizes((1, 2), 300, 260, 20, 65),
    Sizes((1,), 20, 530, 9, 16),
    Sizes((1,), 530, 20, 260, 9),
    Sizes((2, 3), 1, 300, 64, 64),
    Sizes((2,), 8, 77, 300, 35),
]


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
def test_sizes(causal: bool, isa: str) -> None:
    for k, sizes in enumerate(SIZES):
        assert_same(both(causal=causal), sizes.operands(normal(k)), isa)


@pytest.mark.slow
@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
def test_many_sizes(causal: bool) -> None:
    rng = np.random.default_rng(5)
    for k in range(60):
        queries, keys, depth, width = (int(rng.choice([1, 7, 8, 9, 48, 63, 255, 256, 257, 520])) for _ in range(4))
        sizes = Sizes((2,), queries, keys, min(depth, 300), min(width, 300))
        assert_same(both(causal=causal), sizes.operands(normal(k)))


@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
def test_masks(causal: bool) -> None:
    sizes = Sizes((2, 3), 37, 50, 8, 8)
    rng = np.random.default_rng(1)
    shapes = [(37, 50), (2, 1, 1, 50), (2, 3, 37, 1), (2, 3, 37, 50), (50,)]
    for shape in shapes:
        assert_same(both(nc.asarray(rng.random(shape) > 0.3), causal), sizes.operands(normal(2)))
        assert_same(both(nc.asarray(rng.standard_normal(shape).astype(np.float32)), causal), sizes.operands(normal(2)))


@pytest.mark.parametrize("rare", [-np.inf, np.inf, np.nan])
def test_causal_with_rare_numbers_in_an_added_mask(rare: float) -> None:
    sizes, rng = Sizes((2, 2), 37, 300, 8, 8), np.random.default_rng(4)
    for shape in [(37, 300), (2, 1, 1, 300), (2, 2, 37, 1)]:
        mask = np.where(rng.random(shape) < 3 / 300, rare, rng.standard_normal(shape)).astype(np.float32)
        assert_same(both(nc.asarray(mask), True), sizes.operands(normal(2)))


def test_float64_and_negative_scale() -> None:
    operands = Sizes((2,), 40, 50, 8, 9).operands(normal(0), np.float64)
    assert_same(both(causal=True), operands)
    assert_same(both(scale=-0.3), operands)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
@pytest.mark.parametrize("dtype", [nc.float16, nc.bfloat16], ids=str)
def test_half_types_are_read_and_written_without_conversion(dtype: Any, causal: bool, isa: str) -> None:
    for k, sizes in enumerate([*SIZES[:3], Sizes((1,), 20, 530, 9, 16)]):
        operands = [x.astype(dtype) for x in sizes.operands(normal(k))]
        assert_same(both(causal=causal), operands, isa)
        if k == 1:
            (fuse_attention,) = (e for e in equations(attended(causal), *operands[:3]))
            assert [x.type.dtype for x in (*fuse_attention.inputs, *fuse_attention.outputs)] == [dtype] * 4


def test_half_keys_and_values_for_wide_queries() -> None:
    q, k, v, _ = Sizes((2,), 7, 40, 9, 16).operands(normal(0))
    k, v = k.astype(nc.bfloat16), v.astype(nc.bfloat16)

    def f(q: Any, k: Any, v: Any) -> Any:
        return F.softmax(q @ k.astype(nc.float32).mT) @ v.astype(nc.float32)

    assert [e.primitive.name for e in equations(f, q, k, v)] == ["attend"]
    assert canonical(nc.jit(f)(q, k, v)) == canonical(f(q, k, v))


@pytest.mark.parametrize("dtype", [nc.float16, nc.bfloat16], ids=str)
def test_half_types_are_computed_in_float64_where_the_program_converts_them(dtype: Any) -> None:
    q, k, v, g = (x.astype(dtype) for x in Sizes((2,), 7, 40, 9, 16).operands(normal(0)))

    def f(q: Any, k: Any, v: Any, g: Any) -> Any:
        return both(causal=True)(*(x.astype(nc.float64) for x in (q, k, v, g)))

    assert list(map(canonical, nc.jit(f)(q, k, v, g))) == list(map(canonical, f(q, k, v, g)))


SPECIAL = {
    "zeros of both signs, tiny and large": [0.0, -0.0, 1e-45, -1e-45, 1e-30, -1e-30, 3.0, -3.0],
    "underflow": [0.0, -0.0, -1e-42, 1e-42, 10.0, -10.0],
    "infinities": [1.0, -1.0, np.inf, -np.inf, 0.0],
    "nan": [1.0, -1.0] * 20 + [np.nan],
    "rare infinity": [0.5] * 200 + [-np.inf],
}


@pytest.mark.parametrize("seeds", [1, pytest.param(3, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", SPECIAL)
def test_special_values(name: str, seeds: int) -> None:
    """Skipped keys add zeros, which is visible in chains at −0 and where a factor is not finite."""
    for seed in range(seeds):
        for sizes in (Sizes((2,), 20, 30, 1, 3), Sizes((1,), 40, 300, 2, 5), Sizes((1,), 300, 300, 3, 2))[:seeds]:
            operands = sizes.operands(chosen(seed, SPECIAL[name]))
            assert_same(both(causal=True, scale=1.0), operands)
            for which in range(4):  # one operand special, the others not
                mixed = sizes.operands(normal(seed))
                mixed[which] = operands[which]
                assert_same(both(causal=True, scale=30.0), mixed)


def test_a_chain_at_minus_zero_includes_the_skipped_keys() -> None:
    q, k = np.ones((1, 40, 1), np.float32), np.zeros((1, 40, 1), np.float32)
    v = np.where(np.arange(40) < 16, -0.0, 1.0).astype(np.float32).reshape(1, 40, 1)
    k[0, 0], v[0, 0] = -103.0, -1e-3  # its weight times its value is −0, to which the others add −0 …
    values = [nc.asarray(x) for x in (q, k, v, np.ones((1, 40, 1), np.float32))]
    out = both(causal=True, scale=1.0)(*values)[0].numpy()
    assert not np.signbit(out[0, 1, 0])  # … until the first that is +0
    assert_same(both(causal=True, scale=1.0), values)


def test_a_derivative_at_minus_zero_includes_the_skipped_keys() -> None:
    """Also for the last queries of a square, where the keys end too."""
    q, k, v, g = Sizes((1,), 300, 300, 2, 3).operands(normal(0))
    k, g = k * 1e-30, g * 1e-20
    out = both(causal=True, scale=1.0)(q, k, v, g)
    assert not out[1].numpy().any() and not np.signbit(out[1].numpy()[0, :256]).all()
    assert_same(both(causal=True, scale=1.0), [q, k, v, g])


@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
def test_derivatives_of_fewer_heads_than_threads(causal: bool) -> None:
    for k, sizes in enumerate([Sizes((1,), 530, 400, 9, 16), Sizes((), 270, 700, 20, 5), Sizes((2,), 700, 140, 5, 5)]):
        assert_same(both(causal=causal), sizes.operands(normal(k)))
        seen = backward_cut(PanelModel(16, 4, 14), (1, sizes.queries, sizes.keys, sizes.depth, sizes.width), 5)
        assert seen.extent > 5 and seen.arguments[1]


@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
def test_rows_without_keys_are_zero(causal: bool) -> None:
    operands = Sizes((2,), 20, 20, 4, 4).operands(normal(0))
    mask = np.ones((20, 20), bool)
    mask[7] = False
    for held in (nc.asarray(mask), nc.asarray(np.where(mask, 0, -np.inf).astype(np.float32))):
        f = both(held, causal)
        assert_same(f, operands)
        out, dq, *rest = (x.numpy() for x in f(*operands))
        assert not out[:, 7].any() and not dq[:, 7].any() and all(np.isfinite(x).all() for x in rest)


def test_rows_without_keys_are_nan_in_separate_operations() -> None:
    """Softmax and products that a program calls separately have no such rule, nor has their kernel."""
    q, k, v, _ = Sizes((2,), 20, 20, 4, 4).operands(normal(0))

    def f(q: Any, k: Any, v: Any) -> Any:
        return F.softmax(q @ k.mT + nc.full((20, 20), -math.inf)) @ v

    assert np.isnan(f(q, k, v).numpy()).all() and np.isnan(nc.jit(f)(q, k, v).numpy()).all()


def test_value_and_derivatives_against_float64() -> None:
    operands = Sizes((2, 2), 65, 65, 16, 16).operands(normal(3))
    exact = [nc.asarray(to_numpy(x).astype(np.float64)) for x in operands]
    for found, wanted in zip(nc.jit(both(causal=True))(*operands), both(causal=True)(*exact), strict=True):
        np.testing.assert_allclose(found.numpy(), wanted.numpy(), rtol=3e-5, atol=3e-6)


def test_memory_does_not_grow_with_the_square_of_the_length() -> None:
    f = nc.jit(both(causal=True))
    needs = [f.memory(*Sizes((1, 1), n, n, 16, 16).operands(normal(0))).workspace for n in (2048, 4096)]
    assert needs[1] < 2.1 * needs[0] and needs[1] < 4096 * 4096


def test_layouts_of_heads() -> None:
    """Heads are read and written in place, with strides between examples and heads, without copies."""
    x, w = nc.random.normal((2, 19, 24)), nc.random.normal((24, 72))

    def heads(x: Any, w: Any) -> Any:
        parts = nc.permute_dims(nc.reshape(x @ w, (2, 19, 3, 4, 6)), (2, 0, 3, 1, 4))
        mixed = F.scaled_dot_product_attention(parts[0], parts[1], parts[2], is_causal=True)
        return nc.reshape(nc.permute_dims(mixed, (0, 2, 1, 3)), (2, 19, 24)) * 2.0

    def step(x: Any, w: Any) -> Any:
        return nc.sum(heads(x, w) ** 2), *nc.grad(lambda x, w: nc.sum(heads(x, w) ** 2), argnums=(0, 1))(x, w)

    labels = [s.label for s in nc.jit(heads).concrete(x, w).compiled.stages]
    assert labels == ["contract", "attend", "mul"]
    assert "copy" not in [s.label for s in nc.jit(step).concrete(x, w).compiled.stages]
    assert list(map(canonical, nc.jit(step)(x, w))) == list(map(canonical, step(x, w)))


def test_strided_operands_are_made_dense() -> None:
    q, k, v = (nc.random.normal((2, 3, 10, 9)) for _ in range(3))

    def f(q: Any, k: Any, v: Any) -> Any:
        turned = [nc.flip(nc.permute_dims(x, (1, 0, 3, 2)), axis=3) for x in (q, k, v)]
        return F.scaled_dot_product_attention(*turned)

    assert "attend" in primitives(f, q, k, v)
    assert canonical(nc.jit(f)(q, k, v)) == canonical(f(q, k, v))


def test_batches_of_batches() -> None:
    operands = Sizes((3, 2), 9, 9, 4, 4).operands(normal(0))
    f = nc.vmap(nc.vmap(both(causal=True)))
    assert primitives(f, *operands).count("attend") == 1
    assert list(map(canonical, nc.jit(f)(*operands))) == list(map(canonical, both(causal=True)(*operands)))


def ordinary(q: Any, k: Any, v: Any) -> Any:
    """A common implementation of attention."""
    scores = nc.where(nc.tril(nc.ones((40, 50), dtype=nc.bool), k=3), q @ k.mT / math.sqrt(8.0), -math.inf)
    return F.softmax(scores) @ v


@pytest.mark.parametrize("dtype", [nc.float32, nc.float64], ids=str)
def test_a_common_implementation(dtype: Any) -> None:
    q, k, v = (nc.random.normal((2, 3, n, 8)).astype(dtype) for n in (40, 50, 50))
    assert primitives(ordinary, q, k, v).count("attend") == 1
    assert canonical(nc.jit(ordinary)(q, k, v)) == canonical(ordinary(q, k, v))
    plain = nc.vmap(lambda q, k, v: F.softmax(q @ k.mT * 0.3) @ v)
    assert primitives(plain, q, k, v) == ["attend"]
    assert canonical(nc.jit(plain)(q, k, v)) == canonical(plain(q, k, v))


def test_derivative_of_a_common_implementation() -> None:
    """Its sums need whole rows, so that its matrix of scores is stored."""
    q, k, v = (nc.random.normal((2, 3, n, 8)) for n in (40, 50, 50))

    def f(*xs: Any) -> tuple[Any, ...]:
        return ordinary(*xs), *nc.grad(lambda *xs: nc.sum(ordinary(*xs)), argnums=(0, 1, 2))(*xs)

    assert list(map(canonical, nc.jit(f)(q, k, v))) == list(map(canonical, f(q, k, v)))


def below(n: int) -> Any:
    return pointwise.ge(pointwise.iota((n, n), 0, nc.int64), pointwise.iota((n, n), 1, nc.int64))


UNFUSED: dict[str, Callable[..., Any]] = {
    "weights are read": lambda q, k, v: (lambda p: (p @ v) * nc.sum(p))(F.softmax(q @ k.mT)),
    "derivative of the mask": lambda q, k, v: nc.grad(lambda m: nc.sum(F.scaled_dot_product_attention(q, k, v, m)))(
        q @ q.mT
    ),
    "added, then causal": lambda q, k, v: F.softmax(nc.where(below(12), q @ k.mT + q, -math.inf)) @ v,
    "causal with a negative scale": lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=-1.0),
}


@pytest.mark.parametrize("name", UNFUSED)
def test_patterns_that_are_not_fused(name: str) -> None:
    q, k, v = (nc.random.normal((2, 12, 12)) for _ in range(3))
    f = UNFUSED[name]
    assert "attend_grads" not in primitives(f, q, k, v)
    if name != "derivative of the mask":
        assert "attend" not in primitives(f, q, k, v)
    assert canonical(nc.jit(f)(q, k, v)) == canonical(f(q, k, v))


@pytest.mark.parametrize("half", [nc.float16, nc.bfloat16], ids=str)
@pytest.mark.parametrize("which", [(0, 1, 2), (0,), (1,), (2,)], ids=str)
def test_half_types_in_float64(half: Any, which: tuple[int, ...]) -> None:
    q, k, v = (nc.random.normal((2, 3, n, 8)) for n in (20, 30, 30))
    operands = [x.astype(half if n in which else nc.float64) for n, x in enumerate((q, k, v))]

    def f(*xs: Any) -> Any:
        return F.scaled_dot_product_attention(*(x.astype(nc.float64) for x in xs), is_causal=True)

    def both(*xs: Any) -> tuple[Any, ...]:
        return f(*xs), *nc.grad(lambda *xs: nc.sum(f(*xs) ** 2), argnums=(0, 1, 2))(*xs)

    assert "attend" in primitives(f, *operands)
    assert list(map(canonical, nc.jit(both)(*operands))) == list(map(canonical, both(*operands)))


@pytest.mark.parametrize("columns", [1, 200])
@pytest.mark.parametrize("dtype", [nc.int8, nc.int32, nc.bfloat16, nc.float32], ids=str)
def test_masks_of_counters_that_are_not_causal(dtype: Any, columns: int) -> None:
    """A mask of one column is the same for all keys; small types do not represent every number."""
    q, k, v = (nc.random.normal((2, 300, 8)) for _ in range(3))
    k, v = k[:, :200], v[:, :200]

    def f(q: Any, k: Any, v: Any) -> Any:
        rows, keys = (pointwise.iota((300, columns), n, dtype) for n in (0, 1))
        scores = q @ k.mT
        reached = view.broadcast(pointwise.ge(rows, keys), scores.shape, (1, 2))
        return F.softmax(nc.where(reached, scores, -math.inf)) @ v

    assert "attend" in primitives(f, q, k, v)
    assert canonical(nc.jit(f)(q, k, v)) == canonical(f(q, k, v))


@pytest.mark.parametrize("batch", [1, 2])
def test_written_derivatives_with_maxima_for_all_matrices(batch: int) -> None:
    """The maxima that are subtracted from scores, and the shift of their cotangents, may be one row for all."""
    q, k, v, g = (nc.random.normal((2, 12, 8)) for _ in range(4))
    most, shift = nc.random.normal((batch, 12)) + 5.0, nc.random.normal((2, 12))

    def f(most: Any, shift: Any) -> tuple[Any, ...]:
        p = nc.exp(product(q, k, 2) - view.broadcast(most, (2, 12, 12), (0, 1)))
        scores = p * (product(g, v, 2) + view.broadcast(shift, (2, 12, 12), (0, 1)))
        return scores @ k, product(scores, q, 1), product(p, g, 1)

    def product(x: Any, y: Any, axis: int) -> Any:
        return contract.dot(x, y, ((axis,), (axis,)), ((0,), (0,)))

    for operands in ((most, shift), (shift, most)):
        assert ("attend_grads" in primitives(f, *operands)) == (batch == 2)
        assert list(map(canonical, nc.jit(f)(*operands))) == list(map(canonical, f(*operands)))


def test_graph_is_text() -> None:
    types = [x.type for x in Sizes((2,), 8, 8, 4, 4).operands(normal(0))]
    graph = fuse_attention(simplify(stage(lambda *xs: list(both(causal=True)(*xs)), types).graph)).verify()
    assert parse(str(graph)) == graph
    assert [e.primitive.name for e in graph.equations].count("attend_grads") == 1


@pytest.mark.parametrize("causal", [False, True])
def test_hessians_are_compiled(causal: bool) -> None:
    """The weights have readers of one operand beside those of the derivative."""

    def squares(q: Any) -> Any:
        return nc.sum(nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal) ** 2)

    rng = np.random.default_rng(0)
    q, k, v = (nc.tensor(rng.normal(size=(1, 2, 3, 2))) for _ in range(3))
    second = nc.hessian(squares)
    assert bool(nc.all(nc.jit(second)(q) == second(q)))
