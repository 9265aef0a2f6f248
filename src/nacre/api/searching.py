"""Searches: positions of extremes, choices by a condition, counts.  Names follow the array API standard."""

from __future__ import annotations

from typing import Any

from nacre.api.elementwise.apply import NUMERIC, of_tensors, require
from nacre.api.operands import (
    TensorLike,
    as_tensor,
    meet,
    spread,
)
from nacre.api.primitives import pointwise, reduce, view
from nacre.api.statistical import kept, require_elements, sum
from nacre.api.tensor import Axes, Tensor
from nacre.api.utility import truth
from nacre.base.dtypes import bool_
from nacre.base.errors import ArgumentError, DTypeError
from nacre.base.types import broadcast_shapes, normal_axis

__all__ = [
    "argmax",
    "argmin",
    "count_nonzero",
    "where",
]


def where(condition: TensorLike, x: TensorLike | None = None, y: TensorLike | None = None, /) -> Tensor:
    """x where the condition is true, else y.  Both are required.

    >>> nc.where([True, False], [1, 2], 0)
    Tensor([1, 0], i64[2])
    """
    if x is None or y is None:
        raise ArgumentError(
            "where: a value for each case is required; got a condition alone; write nacre.where(mask, x, y), or "
            "numpy.nonzero(mask.numpy()) for positions"
        )
    return of_tensors("where", _where, (condition, x, y))


def _where(condition: TensorLike, x: TensorLike, y: TensorLike) -> Any:
    chosen = as_tensor(condition)
    if chosen.type.dtype is not bool_:
        raise DTypeError(
            f"where: the condition must have dtype bool; got {chosen.type.dtype.name}; compare, as in `x != 0`"
        )
    (a, b), _ = meet("where", (x, y))
    shape = broadcast_shapes(chosen.type.shape, a.type.shape, b.type.shape, operation="where")
    return pointwise.select(spread(chosen, shape), spread(a, shape), spread(b, shape))


def _search(op: Any, operation: str, x: TensorLike, axis: int | None, keepdims: bool) -> Any:
    held = as_tensor(x)
    require(operation, held.type.dtype, NUMERIC)
    require_elements(held, axis, operation)
    shape = held.type.shape
    if axis is None:
        found = op(view.reshape(held, (held.type.size,)), 0)
        return view.reshape(found, (1,) * len(shape)) if keepdims else found
    normal = normal_axis(axis, len(shape), operation)
    return kept(op(held, normal), shape, (normal,), keepdims)


def argmax(x: TensorLike, /, axis: int | None = None, *, keepdims: bool = False) -> Tensor:
    """The index (int64) of the first largest element along an axis, or in all of x.

    >>> nc.argmax([[1, 5], [3, 2]], axis=1)
    Tensor([1, 0], i64[2])
    """
    return _search(reduce.argmax, "argmax", x, axis, keepdims)


def argmin(x: TensorLike, /, axis: int | None = None, *, keepdims: bool = False) -> Tensor:
    """The index (int64) of the first smallest element along an axis, or in all of x.

    >>> nc.argmin([[1, 5], [3, 2]], axis=1)
    Tensor([0, 1], i64[2])
    """
    return _search(reduce.argmin, "argmin", x, axis, keepdims)


def count_nonzero(x: TensorLike, /, axis: Axes = None, *, keepdims: bool = False) -> Tensor:
    """The number of elements over axes (default: all) that are not zero.

    >>> nc.count_nonzero([0, 1, 2])
    Tensor(2, i64[])
    """
    return sum(truth(x, "count_nonzero"), axis=axis, keepdims=keepdims)
