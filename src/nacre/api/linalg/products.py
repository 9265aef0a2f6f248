"""Diagonals, traces and cross products."""

from __future__ import annotations

from typing import Any

from nacre.api import statistical
from nacre.api.data_types import requested
from nacre.api.elementwise.apply import require
from nacre.api.linalg.operands import require_matrices, shared
from nacre.api.manipulation import concat
from nacre.api.operands import TensorLike, as_tensor, meet, spread
from nacre.api.primitives import pointwise, view
from nacre.api.tensor import Tensor
from nacre.base.arguments import whole_number
from nacre.base.dtypes import ANY, NUMERIC
from nacre.base.errors import ShapeError
from nacre.base.types import broadcast_shapes, normal_axis, show_shape

__all__ = ["cross", "diagonal", "trace"]


def diagonal(x: TensorLike, /, *, offset: int = 0) -> Tensor:
    """The diagonals of [..., m, n], as vectors; above the main one for a positive offset, below it for a negative one.

    >>> nc.linalg.diagonal([[1, 2], [3, 4]])
    Tensor([1, 4], i64[2])
    """
    return _diagonal("diagonal", x, offset)


def _diagonal(operation: str, x: TensorLike, offset: int) -> Any:
    held, k = as_tensor(x), whole_number(offset, operation, "offset")
    require_matrices(operation, held, square=False)
    rows, columns = map(int, held.type.shape[-2:])
    first, left = min(max(-k, 0), rows), min(max(k, 0), columns)
    return shared.diagonal(shared.block(held, (first, rows), (left, columns)))


def trace(x: TensorLike, /, *, offset: int = 0, dtype: Any = None) -> Tensor:
    """The sums of the diagonals of [..., m, n]; `offset` as in `diagonal`.  Small integers are summed in int64.

    >>> nc.linalg.trace([[1, 2], [3, 4]])
    Tensor(5, i64[])
    """
    diagonals = _diagonal("trace", requested("trace", x, dtype), offset)
    require("trace", diagonals.type.dtype, ANY)
    return statistical.sum(diagonals, -1, dtype=dtype)


def cross(x1: TensorLike, x2: TensorLike, /, *, axis: int = -1) -> Tensor:
    """The cross products of vectors of 3 elements along an axis, with broadcasting.

    >>> nc.linalg.cross([1, 0, 0], [0, 1, 0])
    Tensor([0, 0, 1], i64[3])
    """
    (a, b), dtype = meet("cross", (x1, x2))
    require("cross", dtype, NUMERIC)
    shape = broadcast_shapes(a.type.shape, b.type.shape, operation="cross")
    places = [normal_axis(axis, len(x.type.shape), "cross") for x in (a, b)]
    along = normal_axis(axis, len(shape), "cross")
    if any(x.type.shape[place] != 3 for x, place in zip((a, b), places, strict=True)):
        raise ShapeError(
            f"cross: axis {axis} must have 3 elements; got shapes {show_shape(a.type.shape)} and "
            f"{show_shape(b.type.shape)}"
        )
    a, b = (spread(as_tensor(x, dtype.arithmetic), shape) for x in (a, b))

    def turned(x: Any, by: int) -> Any:
        """The elements moved cyclically towards the front."""
        parts = view.slice_axis(x, along, by, 3), view.slice_axis(x, along, 0, by)
        return concat(parts, axis=along)

    product, other = (pointwise.mul(turned(a, k), turned(b, 3 - k)) for k in (1, 2))
    return as_tensor(pointwise.sub(product, other), dtype)
