"""Random programs of pointwise operations, views, reductions and products, to compile and compare."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

import nacre as nc
import nacre.api.tensor  # so that values have operators
from nacre.interpret.evaluate import from_numpy
from nacre.ops import dot, pointwise, reduce, view
from nacre.trace.value import Value

SIZES = (0, 1, 2, 3, 5, 8, 17)
LARGEST = 4000  # elements of a value
Chosen = tuple[int, int, int, int]  # the number of a step, and numbers that choose its operands


@dataclass(frozen=True)
class Program:
    """A function of tensors, its operands' shapes, and the steps and dtype that define it."""

    shapes: tuple[tuple[int, ...], ...]
    steps: tuple[Chosen, ...]
    dtype: Any
    products: bool

    def __call__(self, *xs: Any) -> tuple[Any, ...]:
        known = list(xs)
        for step in self.steps:
            y = self.apply(known, step)
            if y is not None and y.type.size <= LARGEST:
                known.append(y)
        wanted = [*known[-3:], *(known[a % len(known)] for _, a, b, _ in self.steps if b % 5 == 0)]
        return tuple(wanted)

    def apply(self, known: Sequence[Any], step: Chosen) -> Any:
        """The value of a step, from those that are known; None where the step has no operands."""
        return _step(known, *step, self.products)

    def operands(self, seed: int = 0) -> list[Value]:
        """Small random numbers, some of them equal, with zeros of both signs."""
        rng = np.random.default_rng(seed)
        found = [np.round(rng.normal(size=s) * 4) / 4 * rng.choice([1, -1, 0.1], s) for s in self.shapes]
        return [from_numpy(x.astype(self.dtype.numpy)) for x in found]


def _unary(known: Sequence[Any], a: int, b: int, c: int) -> Any:
    x = known[-1 - a % len(known)]
    return (
        lambda: -x,
        lambda: nc.abs(x),
        lambda: nc.exp(nc.minimum(x, 3.0)),
        lambda: nc.sqrt(nc.abs(x)),
        lambda: x * 0.5 - 1.0,
        lambda: 1.0 / (nc.abs(x) + 1.0),
        lambda: pointwise.cast(x, nc.float64).astype(x.dtype),
        lambda: nc.tanh(x),
    )[b % 8]()


def _binary(known: Sequence[Any], a: int, b: int, c: int) -> Any:
    x = known[-1 - a % len(known)]
    fits = [y for y in known if meet(x.shape, y.shape)]
    y = fits[b % len(fits)]
    return (
        lambda: x + y,
        lambda: x - y,
        lambda: x * y,
        lambda: nc.maximum(x, y),
        lambda: nc.where(x > y, x, y),
        lambda: pointwise.fma(*_spread(x, y), _spread(x, y)[0]),
    )[c % 6]()


def _spread(x: Any, y: Any) -> tuple[Any, Any]:
    shape = np.broadcast_shapes(x.shape, y.shape)
    return tuple(view.broadcast(z, shape, tuple(range(len(shape) - len(z.shape), len(shape)))) for z in (x, y))


def meet(a: Sequence[int], b: Sequence[int]) -> bool:
    """Whether two shapes broadcast."""
    return all(m == n or 1 in (m, n) for m, n in zip(reversed(a), reversed(b), strict=False))


def _view(known: Sequence[Any], a: int, b: int, c: int) -> Any:
    x = known[-1 - a % len(known)]
    rank = len(x.shape)
    order = sorted(range(rank), key=lambda k: (k * 7 + c) % 5)
    starts = [min(c % 2, n) for n in x.shape]
    steps = [1 + (c + k) % 2 for k in range(rank)]
    return (
        lambda: view.permute(x, order),
        lambda: view.flip(x, tuple(k for k in range(rank) if c >> k & 1)),
        lambda: view.slice_(x, starts, x.shape, steps),
        lambda: view.reshape(x, (x.type.size,)),
        lambda: view.reshape(x, (1, *x.shape)),
        lambda: view.reshape(x, (*x.shape, 1)),
        lambda: view.pad(x, pointwise.fill(0.5, (), x.dtype), [c % 2] * rank, [1] * rank, [c % 3 % 2] * rank),
        lambda: view.concatenate([x, -x], c % rank) if rank else None,
    )[b % 8]()


def _reduce(known: Sequence[Any], a: int, b: int, c: int) -> Any:
    x = known[-1 - a % len(known)]
    rank = len(x.shape)
    axes = tuple(k for k in range(rank) if (c + 1) >> k & 1)
    if any(x.shape[k] == 0 for k in axes) and b % 6 in (2, 3):
        return None
    y = (
        lambda: reduce.sum_(x, axes),
        lambda: reduce.sum_(x, axes),
        lambda: reduce.max_(x, axes),
        lambda: reduce.min_(x, axes),
        lambda: reduce.prod(x, axes),
        lambda: reduce.cumsum(x, c % rank) if rank else x,
    )[b % 6]()
    if b % 6 == 5 or c % 3 == 0:
        return y
    return view.reshape(y, tuple(1 if k in axes else n for k, n in enumerate(x.shape)))


def _product(known: Sequence[Any], a: int, b: int, c: int) -> Any:
    x, y = known[-1 - a % len(known)], known[-1 - b % len(known)]
    pairs = [(i, j) for i, m in enumerate(x.shape) for j, n in enumerate(y.shape) if m == n]
    if not pairs:
        return None
    i, j = pairs[c % len(pairs)]
    return dot.dot(x, y, ((i,), (j,)))


def _constant(known: Sequence[Any], a: int, b: int, c: int) -> Any:
    x = known[-1 - a % len(known)]
    made = pointwise.fill(0.25 * (c % 9), x.shape, x.dtype)
    return (lambda: made, lambda: made + made, lambda: pointwise.iota(x.shape, b % len(x.shape), x.dtype))[
        (b % 3) if x.shape else 0
    ]()


KINDS: tuple[Callable[..., Any], ...] = (_unary, _binary, _view, _reduce, _binary, _unary, _constant, _product)
NEAR_PRODUCTS = _product, _view, _unary, _binary  # products, and the steps that are computed together with them


def _step(known: Sequence[Any], kind: int, a: int, b: int, c: int, products: bool) -> Any:
    return KINDS[kind % (len(KINDS) if products else len(KINDS) - 1)](known, a, b, c)


@st.composite
def programs(
    draw: st.DrawFn,
    products: bool = True,
    most: int = 25,
    zero: bool = True,
    kinds: Sequence[Callable[..., Any]] = KINDS,
) -> Program:
    """Programs of up to `most` steps of some kinds over two matrices, a row and a column."""
    n, m = (draw(st.sampled_from(SIZES if zero else SIZES[1:])) for _ in range(2))
    number = st.integers(0, 3) | st.integers(0, 63)
    kind = st.sampled_from([KINDS.index(k) for k in kinds])
    steps = draw(st.lists(st.tuples(kind, number, number, number), min_size=5, max_size=most))
    dtype = draw(st.sampled_from((nc.float32, nc.float32, nc.float64, nc.bfloat16, nc.float16)))
    return Program(((n, m), (n, m), (m,), (n, 1)), tuple(steps), dtype, products)
