"""Searches: positions of extremes, choices by a condition, counts.  Names follow the array API standard."""

from __future__ import annotations

from typing import Any

import numpy as np

from nacre.api.elementwise.apply import of_tensors, require
from nacre.api.elementwise.one_program import one_program
from nacre.api.operands import (
    TensorLike,
    as_tensor,
    filled,
    meet,
    numbers,
    require_inside,
    scalar,
    spread,
)
from nacre.api.primitives import picking, pointwise, reduce, search, sorting, view
from nacre.api.statistical import kept, require_elements, sum
from nacre.api.tensor import Axes, Tensor
from nacre.api.utility import truth
from nacre.base.arguments import whole_number
from nacre.base.dims import Size
from nacre.base.dtypes import ORDERED, bool_, int64
from nacre.base.errors import TRACED, ArgumentError, AxisError, DTypeError, ShapeError, TraceError, explain
from nacre.base.types import broadcast_shapes, normal_axis
from nacre.interpret.evaluate import from_numpy
from nacre.trace.value import is_concrete

__all__ = [
    "argmax",
    "argmin",
    "count_nonzero",
    "nonzero",
    "searchsorted",
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
            "nacre.nonzero(mask) for positions"
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
    require(operation, held.type.dtype, ORDERED)
    require_elements(held, axis, operation)
    shape = held.type.shape
    if axis is None:
        found = op(view.reshape(held, (held.type.size,)), 0)
        return view.reshape(found, (1,) * len(shape)) if keepdims else found
    normal = normal_axis(axis, len(shape), operation)
    return kept(op(held, normal), shape, (normal,), keepdims)


@one_program()
def argmax(x: TensorLike, /, axis: int | None = None, *, keepdims: bool = False) -> Tensor:
    """The index (int64) of the first largest element along an axis, or in all of x.

    >>> nc.argmax([[1, 5], [3, 2]], axis=1)
    Tensor([1, 0], i64[2])
    """
    return _search(reduce.argmax, "argmax", x, axis, keepdims)


@one_program()
def argmin(x: TensorLike, /, axis: int | None = None, *, keepdims: bool = False) -> Tensor:
    """The index (int64) of the first smallest element along an axis, or in all of x.

    >>> nc.argmin([[1, 5], [3, 2]], axis=1)
    Tensor([0, 1], i64[2])
    """
    return _search(reduce.argmin, "argmin", x, axis, keepdims)


@one_program()
def count_nonzero(x: TensorLike, /, axis: Axes = None, *, keepdims: bool = False) -> Tensor:
    """The number of elements over axes (default: all) that are not zero.

    >>> nc.count_nonzero([0, 1, 2])
    Tensor(2, i64[])
    """
    return sum(truth(x, "count_nonzero"), axis=axis, keepdims=keepdims)


def nonzero(x: TensorLike, /, *, size: int | None = None, fill_value: int = 0) -> tuple[Tensor, ...]:
    """The indices (int64) of the elements that are not zero: a vector for each axis of x, in row-major order.

    The size of the vectors depends on the numbers.  Where x is traced, as in `jit` and `vmap`, `size` fixes it: there
    are the first `size` indices, and `fill_value` where there are fewer.  Raises TraceError for a traced x without
    `size`, ShapeError for an x without axes.

    >>> nc.nonzero([[0, 1], [2, 0]])
    (Tensor([0, 1], i64[2]), Tensor([1, 0], i64[2]))
    >>> nc.nonzero([0, 1, 2], size=3, fill_value=-1)
    (Tensor([ 1,  2, -1], i64[3]),)
    """
    held = truth(x, "nonzero")
    shape = held.type.shape
    if not shape:
        raise ShapeError("nonzero: x must have at least one axis; got shape (); use expand_dims")
    flat = view.reshape(held, (held.type.size,))
    if size is None:
        require_known(flat, "nonzero")
        known: list[Any] = [from_numpy(places) for places in np.nonzero(numbers(held, "nonzero"))]
        return tuple(known)
    places = positions(flat, whole_number(size, "nonzero", "size"))
    inside = pointwise.lt(places, spread(scalar(held.type.size, int64), places.type.shape))
    found: list[Any] = []
    for n in reversed(shape):
        wide = spread(scalar(n, int64), places.type.shape)
        index = pointwise.rem(places, wide)
        found.append(pointwise.select(inside, index, filled(places, whole_number(fill_value, "nonzero", "fill_value"))))
        places = pointwise.idiv(places, wide)
    return tuple(reversed(found))


def require_known(x: Any, operation: str) -> None:
    """Raise TraceError for a traced tensor, on whose numbers the shape of a result would depend."""
    if not is_concrete(x):
        raise TraceError(_KNOWN.format(operation=operation, type=x.type))


_KNOWN = explain(
    "{operation}: without size=, the tensor must have known numbers; got a traced tensor of type {type}",
    "@nc.jit\ndef f(x):\n    return nc.{operation}(x)",
    f"{TRACED}\n  the numbers are not known, and the size of the result depends on them.",
    "@nc.jit\ndef f(x):\n    return nc.{operation}(x, size=10)      # the size of the result",
)


def positions(flat: Any, size: int) -> Any:
    """The first `size` positions at which a vector of bools is true; its own size where there are fewer."""
    n: Size = flat.type.shape[0]
    if size < 0:
        raise ArgumentError(f"nonzero: size must be at least 0; got {size}")
    if n == 0:
        return pointwise.fill(0, (size,), int64)
    order = sorting.argsort(pointwise.not_(flat), 0)
    if isinstance(n, int) and size <= n:
        order = view.slice_(order, (0,), (size,), (1,))
    else:
        last = spread(scalar(n - 1, int64), (size,))
        order = picking.take(order, pointwise.minimum(pointwise.iota((size,), 0, int64), last), 0)
    total = spread(reduce.sum_(pointwise.cast(flat, int64), (0,)), (size,))
    return pointwise.select(
        pointwise.lt(pointwise.iota((size,), 0, int64), total), order, spread(scalar(n, int64), (size,))
    )


@one_program(2)
def searchsorted(x: TensorLike, v: TensorLike, /, *, side: str = "left", sorter: TensorLike | None = None) -> Tensor:
    """The positions (int64) in a sorted vector before which numbers would be inserted, in the shape of v.

    Before equal elements with side "left", behind them with "right".  `sorter` has the positions that sort x.  NaN is
    behind all numbers, as in `sort`.  Raises ShapeError unless x is a vector, and sorter one of its shape.

    >>> nc.searchsorted([1, 3, 3, 5], [0, 3, 9])
    Tensor([0, 1, 4], i64[3])
    >>> nc.searchsorted([1, 3, 3, 5], 3, side="right")
    Tensor(3, i64[])
    """
    if side not in ("left", "right"):
        raise ArgumentError(f'searchsorted: side must be "left" or "right"; got {side!r}')
    (row, wanted), dtype = meet("searchsorted", (x, v))
    require("searchsorted", dtype, ORDERED)
    if len(row.type.shape) != 1:
        raise ShapeError(f"searchsorted: x must be a vector; got {row.type}; use vmap for several")
    if sorter is not None:
        order = as_tensor(sorter)
        if order.type.shape != row.type.shape or not order.type.dtype.is_integer:
            raise ShapeError(f"searchsorted: sorter must be integers of shape {row.type.shape}; got {order.type}")
        size = row.type.shape[0]
        require_inside(order, 0, size, AxisError, "searchsorted: sorter must be in [{low}, {high}); got {got}")
        row = picking.take(row, as_tensor(order, int64), 0)
    return search.search(row, wanted, right=side == "right")
