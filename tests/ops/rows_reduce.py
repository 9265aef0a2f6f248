"""Rows of reductions and running sums."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from nacre.base.dtypes import FLOATS, DType, bool_
from nacre.ops import reduce
from nacre.trace.value import Value
from ops import references as ref
from ops import samples
from ops.row import NUMBERS, ORDERED, Row, apart, normal, shaped, uniform
from ops.samples import Array, Arrays

SHAPES: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = (
    ((1000,), (0,)),
    ((7, 33), (1,)),
    ((33, 7), (0,)),
    ((4, 5, 6), (0, 1, 2)),
    ((4, 5, 6), (0, 2)),
    ((2, 0, 3), (1,)),
    ((0, 3), (1,)),
    ((5, 1), (1,)),
)


def _reduction(
    name: str,
    apply: Callable[[Value, Sequence[int]], Value],
    dtypes: Sequence[DType],
    smooth: str = "",
) -> list[Row]:
    found: list[Row] = []
    for shape, axes in SHAPES:
        points = {
            "normal": normal(shape),
            "apart": apart(shape),
            "positive": uniform(0.8, 1.2, shape),
        }.get(smooth)
        found.append(
            Row(
                f"{name}-{shape}-{axes}",
                lambda x, axes=axes: apply(x, axes),
                lambda x, axes=axes: ref.reduced(name, x, axes),
                shaped(shape),
                tuple(dtypes),
                0,
                (0,) if points and 0 not in shape else (),
                points if 0 not in shape else None,
            )
        )
    return found


def _edges(dtype: DType, rng: np.random.Generator) -> list[Arrays]:
    """Rows with edge cases among other numbers, equal elements, and only one element."""
    ties = samples.random(dtype, (6, 40), rng)
    ties[:, 20:] = ties[:, :20]
    few = samples.edges(dtype)
    mixed = rng.permuted(np.stack([few] * 9), axis=1)
    return [(ties,), (mixed,), (samples.random(dtype, (3, 1), rng),)]


def _position(name: str, apply: Callable[[Value, int], Value]) -> list[Row]:
    reference = getattr(np, name)
    return [
        Row(
            f"{name}-{axis}",
            lambda x, axis=axis: apply(x, axis),
            lambda x, axis=axis: np.asarray(reference(x, axis), np.int64),
            _edges,
            ORDERED,
        )
        for axis in (0, 1)
    ]


def _extreme(name: str, apply: Callable[[Value, Sequence[int]], Value]) -> list[Row]:
    return [
        Row(
            f"{name}-edges-{axis}",
            lambda x, axis=axis: apply(x, (axis,)),
            lambda x, axis=axis: ref.reduced(name, x, (axis,)),
            _edges,
            ORDERED,
        )
        for axis in (0, 1)
    ]


def _running(shape: tuple[int, ...], axis: int, reverse: bool) -> Row:
    return Row(
        f"cumsum-{shape}-{axis}-{reverse}",
        lambda x: reduce.cumsum(x, axis, reverse),
        lambda x: ref.running_sum(x, axis, reverse),
        shaped(shape),
        NUMBERS,
        0,
        (0,),
        normal(shape),
    )


def _products(shape: tuple[int, ...], axis: int) -> Row:
    return Row(
        f"cumprod-{shape}-{axis}",
        lambda x: reduce.cumprod(x, axis),
        lambda x: ref.running_product(x, axis),
        shaped(shape),
        NUMBERS,
        0,
        (0,),
        normal(shape),
    )


def _running_positions(name: str, shape: tuple[int, ...], axis: int, sign: float) -> Row:
    """Positions of running extrema: the last one of equal elements, of which the samples have some."""

    def repeated(dtype: DType, rng: np.random.Generator) -> list[Arrays]:
        few = rng.integers(0, 4, shape)
        held = [(few.astype(dtype.numpy),), *shaped(shape)(dtype, rng)]
        if dtype.is_float:
            missing = few.astype(dtype.numpy)
            missing[few == 3] = np.nan
            held.append((missing,))
        return held

    def reference(x: Array) -> Array:
        found = np.zeros(x.shape, np.int64)
        for p in np.ndindex(*x.shape[:axis], *x.shape[axis + 1 :]):
            at = (*p[:axis], slice(None), *p[axis:])
            best = 0
            row = x[at]
            for k, v in enumerate(row):
                if v != v or (v >= row[best] if sign > 0 else v <= row[best]):
                    best = k
                found[(*p[:axis], k, *p[axis:])] = best
        return found

    op = getattr(reduce, name)
    return Row(f"{name}-{shape}-{axis}", lambda x: op(x, axis), reference, repeated, NUMBERS)


ROWS = [
    *(_running_positions("cumargmax", shape, axis, 1) for shape, axis in (((4, 9), 1), ((5, 3, 2), 0), ((0, 3), 0))),
    *(_running_positions("cumargmin", shape, axis, -1) for shape, axis in (((4, 9), 1), ((5, 3, 2), 1))),
    *_reduction("sum", reduce.sum_, NUMBERS, "normal"),
    *_reduction("prod", reduce.prod, NUMBERS, "positive"),
    *_reduction("max", reduce.max_, ORDERED, "apart"),
    *_reduction("min", reduce.min_, ORDERED, "apart"),
    *_reduction("any", reduce.any_, (bool_,)),
    *_reduction("all", reduce.all_, (bool_,)),
    *_extreme("max", reduce.max_),
    *_extreme("min", reduce.min_),
    *_position("argmax", reduce.argmax),
    *_position("argmin", reduce.argmin),
    _running((20,), 0, False),
    _running((3, 20), 1, True),
    _running((20, 3), 0, True),
    _running((2, 20, 3), 1, False),
    _running((3, 0), 1, False),
    _products((9,), 0),
    _products((3, 20), 1),
    _products((7, 3), 0),
    _products((3, 0), 1),
    Row(
        "prod-zeros",
        lambda x: reduce.prod(x, (1,)),
        lambda x: ref.reduced("prod", x, (1,)),
        lambda dtype, rng: [(np.array([[0, 2, 3], [0, 0, 3], [1, 2, 3], [0, 0, 0]]).astype(dtype.numpy),)],
        FLOATS,
        0,
        (0,),
        lambda rng: (np.array([[0.0, 2, 3], [0, 0, 3], [1, 2, 3], [0, 0, 0]]),),
    ),
]
