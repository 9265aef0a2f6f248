"""Programs whose machine code is recorded: workloads, networks, losses, optimisers, operations, layouts, half types."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

import nacre as nc
from compile.images import random_images
from nacre import nn, optim
from nacre.api.random import seed
from nacre.api.tensor import Tensor
from nacre.base.dims import Dim
from nacre.base.types import TensorType
from nacre.examples.workloads import WORKLOADS
from nacre.examples.workloads.standard import STANDARD
from nacre.interpret.evaluate import from_numpy
from nacre.interpret.stage import stage
from nacre.ir.graph import Graph
from nacre.nn import functional as F
from nacre.trace.value import Value, layout_of
from nn.pytorch import torch_cases
from ops.table import ROWS
from optim import torch_cases as optimisers
from same_bits import operands

Strides = tuple[int, ...]


@dataclass(frozen=True)
class Made:
    """A graph, its operands, and their strides where they are not dense."""

    graph: Graph
    inputs: Sequence[Value]
    strides: Sequence[Strides] | None = None


@dataclass(frozen=True)
class Program:
    """A named graph that is made when it is wanted, for a mode of numerics."""

    name: str
    make: Callable[[], Made]
    numerics: str = "exact"

    def made(self) -> Made:
        """The graph, from the same random numbers each time."""
        seed(0)
        with nc.numerics(self.numerics):
            return self.make()


def both(name: str, make: Callable[[], Made]) -> Iterator[Program]:
    """A program in both modes of numerics."""
    yield Program(f"{name} exact", make, "exact")
    yield Program(f"{name} fast", make, "fast")


def traced(f: Callable[..., Any], values: Sequence[Value], types: Sequence[TensorType] | None = None) -> Made:
    """A function of tensors, traced for these operands or for more general types."""
    trace = stage(lambda *xs: torch_cases.leaves(f(*xs)), list(types or [x.type for x in values]))
    return Made(trace.graph, [*values, *trace.captures])


def jitted(f: Callable[..., Any], *arguments: Any) -> Made:
    """A function that may hold variables, traced as `jit` does it."""
    prepared = nc.jit(f).prepare(*arguments)
    return Made(prepared.compiled.graph, prepared.inputs)


def normal(*shapes: Sequence[int], dtype: Any = nc.float32, whole: int = 0) -> list[Value]:
    """Random operands of the given shapes; below `whole`, integers."""
    rng = np.random.default_rng(len(shapes))
    if whole:
        return [from_numpy(rng.integers(0, whole, s).astype(np.int32)) for s in shapes]
    return [from_numpy(rng.standard_normal(s).astype(dtype.numpy)) for s in shapes]


# ---- the built-in workloads


def workloads() -> Iterator[Program]:
    """Both sizes exact, and the small ones fast."""
    for name in (w.name for w in STANDARD):
        for tiny in (False, True):
            yield Program(f"workload {name} {'tiny' if tiny else 'full'}", partial(_workload, name, tiny))
        yield Program(f"workload {name} tiny fast", partial(_workload, name, True), "fast")


def _workload(name: str, tiny: bool) -> Made:
    function, arguments = WORKLOADS[name].plain(tiny)
    return jitted(function, *arguments)


# ---- networks, layers and losses, with their derivatives


class Remembering:
    """The names of `nacre.nn`; modules that a line makes are the same ones whenever it is evaluated again."""

    def __init__(self) -> None:
        self.modules: list[nn.Module] = []
        self.place = 0

    def __getattr__(self, name: str) -> Any:
        kind = getattr(nn, name)
        return self.made(kind) if isinstance(kind, type) else kind

    def made(self, kind: type) -> Callable[..., nn.Module]:
        """Makes a module, or gives the one that was made at this place."""

        def make(*args: Any, **kwargs: Any) -> nn.Module:
            if self.place == len(self.modules):
                self.modules.append(kind(*args, **kwargs))
            self.place += 1
            return self.modules[self.place - 1]

        return make


def layers() -> Iterator[Program]:
    """Each function and module that has a case, with gradients for inputs and parameters."""
    for case in torch_cases.CASES:
        if "ctc_loss" not in case[0]:  # its targets are computed in the line, and must be known
            yield Program(f"layer {torch_cases.name(case)}", partial(_layer, *case))


def _layer(line: str, inputs: dict[str, str]) -> Made:
    drawn = {k: torch_cases.draw(k, text) for k, text in inputs.items()}
    held = {k: _operand(x) if isinstance(x, np.ndarray) else x for k, x in drawn.items()}
    floats = [k for k in held if inputs[k][0] in "fu"]  # the others are known when a graph is traced
    names = Remembering()

    def results(*xs: Any) -> list[Any]:
        names.place = 0
        return torch_cases.leaves(eval(line, {"nn": names, "F": F, **held, **dict(zip(floats, xs, strict=True))}))

    def total(*xs: Any) -> Any:
        given = [y for y in results(*xs) if y.dtype.is_float]
        return sum((nc.sum(y * (k + 1.5)) for k, y in enumerate(given)), start=nc.asarray(0.0))

    def differentiated(*xs: Any) -> Any:
        return [*results(*xs), *nc.grad(total, tuple(range(len(xs))))(*xs)]

    given = [held[k] for k in floats]
    with nc.no_grad():
        results(*given)  # makes the modules
    return jitted(differentiated, *given)


def _operand(x: np.ndarray) -> Tensor:
    return nc.asarray(x.astype(np.float32) if x.dtype.kind == "f" else x)


# ---- optimisers


def updates() -> Iterator[Program]:
    """One update of each optimiser."""
    for line in optimisers.OPTIMISERS:
        yield Program(f"update {line}", partial(_update, line))


def _update(line: str) -> Made:
    p = nn.Parameter(nc.asarray(optimisers.START.astype(np.float32)))
    optimiser = eval(line, {"optim": optim, "p": p})

    def step(gradient: Tensor) -> None:
        p.grad = gradient
        optimiser.step()
        optimiser.zero_grad()

    gradients = [nc.asarray(g.astype(np.float32)) for g in optimisers.GRADIENTS]
    step(gradients[0])
    return jitted(step, gradients[1])


# ---- operations


def operations() -> Iterator[Program]:
    """Each row of the table of operations, for each of its dtypes."""
    for row in ROWS:
        for dtype in row.dtypes:
            yield Program(f"operation {row.name} {dtype}", partial(_operation, row, dtype))


def _operation(row: Any, dtype: Any) -> Made:
    return traced(lambda *xs: row.apply(*xs), [from_numpy(x) for x in operands(row, dtype)])


# ---- families of kernels, in all float dtypes and in odd layouts


def with_gradients(f: Callable[..., Any]) -> Callable[..., Any]:
    """The result of f, and derivatives for all operands."""

    def results(*xs: Any) -> tuple[Any, ...]:
        derivatives = nc.grad(lambda *ys: nc.sum(nc.sin(f(*ys).astype(nc.float32))), tuple(range(len(xs))))(*xs)
        return (f(*xs), *derivatives)

    return results


FAMILIES: dict[str, tuple[Callable[..., Any], Sequence[Sequence[int]]]] = {
    "product": (lambda a, b: a @ b, [(65, 130), (130, 97)]),
    "product of turned": (lambda a, b: a.T @ b.T, [(130, 65), (97, 130)]),
    "product of few rows": (lambda a, b: a @ b.T, [(3, 300), (257, 300)]),
    "product of a row": (lambda a, b: a @ b.T, [(1, 300), (257, 300)]),
    "long chains": (lambda a, b: a @ b, [(7, 1100), (1100, 9)]),
    "batched products": (lambda a, b: a @ b, [(3, 2, 17, 33), (3, 2, 33, 19)]),
    "linear": (with_gradients(lambda x, w, b: nc.maximum(F.linear(x, w, b), 0.0)), [(33, 65), (48, 65), (48,)]),
    "convolution": (with_gradients(lambda x, w: F.conv2d(x, w, padding=1)), [(2, 16, 9, 11), (17, 16, 3, 3)]),
    "strided convolution": (
        with_gradients(lambda x, w: F.conv2d(x, w, stride=2, padding=3)),
        [(1, 3, 30, 30), (32, 3, 7, 7)],
    ),
    "pointwise convolution": (with_gradients(F.conv2d), [(2, 32, 8, 8), (48, 32, 1, 1)]),
    "depthwise convolution": (
        with_gradients(lambda x, w: F.conv2d(x, w, padding=1, groups=24)),
        [(1, 24, 9, 9), (24, 1, 3, 3)],
    ),
    "convolution of volumes": (F.conv3d, [(1, 4, 5, 6, 7), (8, 4, 3, 3, 3)]),
    "convolution of signals": (with_gradients(F.conv1d), [(2, 5, 40), (7, 5, 3)]),
    "transposed convolution": (F.conv_transpose2d, [(1, 8, 7, 7), (8, 6, 4, 4)]),
    "attention": (with_gradients(F.scaled_dot_product_attention), [(2, 3, 37, 16), (2, 3, 70, 16), (2, 3, 70, 16)]),
    "causal attention": (
        with_gradients(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True)),
        [(1, 2, 70, 32)] * 3,
    ),
    "softmax": (with_gradients(lambda x: F.softmax(x, -1)), [(9, 1000)]),
    "softmax of columns": (with_gradients(lambda x: F.softmax(x, 0)), [(130, 40)]),
    "layer norm": (with_gradients(lambda x, w, b: F.layer_norm(x, (96,), w, b)), [(33, 96), (96,), (96,)]),
    "sums": (lambda x: (nc.sum(x), nc.sum(x, axis=0), nc.sum(x, axis=1), nc.mean(x, axis=(0, 2))), [(17, 33, 65)]),
    "extremes": (lambda x: (nc.max(x, axis=0), nc.argmin(x, axis=1), nc.argmax(x, axis=2)), [(17, 33, 65)]),
    "running sums": (lambda x: (nc.cumulative_sum(x, axis=0), nc.cumulative_sum(x, axis=1)), [(70, 33)]),
    "sorted": (lambda x: (nc.sort(x, axis=-1), nc.argsort(x, axis=0)), [(17, 70)]),
    "pooled": (with_gradients(lambda x: F.max_pool2d(x, 3, 2, 1)), [(2, 16, 13, 13)]),
    "joined": (lambda x, y: (nc.concat([x, y], axis=-1), nc.stack([x, y]), nc.flip(x)), [(33, 47), (33, 47)]),
    "chosen": (lambda x, y: nc.where(x > y, nc.exp(x), nc.tanh(y)) * x, [(33, 470), (33, 470)]),
    "a loop": (lambda x: nc.scan(lambda c, r: (nc.tanh(c + r), c * r), x[0], x), [(20, 33)]),
    "a row for each": (nc.vmap(lambda x, y: nc.sum(nc.exp(x) * y)), [(33, 47), (33, 47)]),
}
FLOATS = (nc.float32, nc.float64, nc.float16, nc.bfloat16)


def families() -> Iterator[Program]:
    """Each family in each dtype; in both modes of numerics for float32."""
    for name, (f, shapes) in FAMILIES.items():
        for dtype in FLOATS:
            make = partial(_family, f, shapes, dtype)
            if dtype is nc.float32:
                yield from both(f"family {name}", make)
            else:
                yield Program(f"family {name} {dtype}", make)


def _family(f: Callable[..., Any], shapes: Sequence[Sequence[int]], dtype: Any) -> Made:
    return traced(f, normal(*shapes, dtype=dtype))


LAYOUTS: dict[str, Callable[[Any], Any]] = {
    "turned": lambda x: x.T,
    "stepped": lambda x: x[:, ::2],
    "flipped": lambda x: x[::-1],
    "spread": lambda x: nc.broadcast_to(x[:1], x.shape),
}
OF_LAYOUTS: dict[str, Callable[[Any, Any], Any]] = {
    "product": lambda a, b: a @ b.T,
    "chain": lambda a, b: nc.exp(a) * b + a,
    "sums": lambda a, b: (nc.sum(a, axis=0), nc.sum(b, axis=1), nc.max(a * b)),
    "copy": lambda a, b: (nc.concat([a, b]), a[1:] * 1.0),
    "softmax": lambda a, b: F.softmax(a, -1) * b,
}


def layouts() -> Iterator[Program]:
    """Functions of two matrices, one or both of them a view."""
    for name, f in OF_LAYOUTS.items():
        for how, view in LAYOUTS.items():
            yield Program(f"layout {name} {how}", partial(_layout, f, view))


def _layout(f: Callable[..., Any], view: Callable[[Any], Any]) -> Made:
    first, second = (view(x) for x in normal((70, 70), (70, 70)))
    made = traced(f, [first, second])
    return Made(made.graph, made.inputs, [layout_of(x).strides for x in made.inputs])


def images() -> Iterator[Program]:
    """Random networks of images, in both modes of numerics."""
    for number in range(16):
        program = random_images(number)
        yield from both(f"images {number}", lambda program=program: traced(program, program.operands()))


# ---- sizes known at the call


SIZES: dict[str, tuple[Callable[..., Any], Sequence[Sequence[int | str]]]] = {
    "linear": (with_gradients(lambda x, w, b: nc.maximum(F.linear(x, w, b), 0.0)), [("n", 65), (48, 65), (48,)]),
    "softmax": (with_gradients(lambda x: F.softmax(x, -1)), [("n", "m")]),
    "convolution": (lambda x, w: F.relu(F.conv2d(x, w, padding=1)), [("n", 8, 12, 12), (16, 8, 3, 3)]),
    "attention": (F.scaled_dot_product_attention, [("n", 2, "m", 16)] * 3),
    "sums": (lambda x: (nc.sum(x), nc.sum(x, axis=0), nc.cumulative_sum(x, axis=1)), [("n", "m")]),
}
MOST: dict[str, int] = {"n": 40, "m": 100}
GIVEN: dict[str, int] = {"n": 5, "m": 33}


def symbolic() -> Iterator[Program]:
    """Functions whose sizes are known at the call."""
    for name, (f, shapes) in SIZES.items():
        yield Program(f"sizes {name}", partial(_symbolic, f, shapes))


def _symbolic(f: Callable[..., Any], shapes: Sequence[Sequence[int | str]]) -> Made:
    dims = {name: Dim.symbol(name, 1, most) for name, most in MOST.items()}
    types = [TensorType(tuple(dims[n] if isinstance(n, str) else n for n in s), nc.float32) for s in shapes]
    values = normal(*(tuple(GIVEN[n] if isinstance(n, str) else n for n in s) for s in shapes))
    return traced(f, values, types)


def programs() -> Iterator[Program]:
    """All of them; names are unique."""
    for group in (workloads, layers, updates, operations, families, layouts, images, symbolic):
        yield from group()
