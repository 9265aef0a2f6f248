"""How updates are combined with the elements at their indices: sums, products and extrema, one update after another."""

from __future__ import annotations

from typing import Any, Final

from nacre.api.elementwise.apply import require
from nacre.api.operands import as_tensor
from nacre.api.primitives import picking, view
from nacre.base.conversion import bounds
from nacre.base.dtypes import NUMERIC, ORDERED, DType, bool_, uint8

INF: Final = float("inf")
OPERATIONS: Final = {"sum": "add", "prod": "mul", "amax": "maximum", "amin": "minimum"}


def first_operand(reduction: str, dtype: DType) -> Any:
    """The number with which a reduction begins: that of no elements."""
    if reduction in ("sum", "prod"):
        return int(reduction == "prod")
    least = reduction == "amax"
    if dtype is bool_:
        return not least
    if dtype.is_float:
        return -INF if least else INF
    return bounds(dtype)[0 if least else 1]


def combined(operation: str, x: Any, places: Any, updates: Any, axis: int, reduction: str) -> Any:
    """x with each update combined with the element at its place along an axis, which is an int64 in range.

    The reduction is "sum", "prod", "amax" or "amin".  bools have extrema alone.
    """
    dtype = x.type.dtype
    require(operation, dtype, NUMERIC if reduction in ("sum", "prod") else ORDERED)
    if reduction == "sum":
        return picking.scatter_add(x, places, updates, axis)
    if dtype is bool_:
        narrow = (as_tensor(v, uint8) for v in (x, updates))
        return as_tensor(combined(operation, next(narrow), places, next(narrow), axis, reduction), bool_)
    return picking.scatter_reduce(x, places, updates, axis, OPERATIONS[reduction])


def combined_slices(operation: str, x: Any, places: Any, updates: Any, axis: int, reduction: str) -> Any:
    """x with slices of the updates combined with those of x at a vector of places along an axis."""
    if reduction == "sum":
        require(operation, x.type.dtype, NUMERIC)
        return picking.take_add(x, places, updates, axis)
    wide = view.broadcast(places, updates.type.shape, (axis,))
    return combined(operation, x, wide, updates, axis, reduction)
