"""The windows of one size along an axis."""

from __future__ import annotations

from typing import Any

from nacre.api.primitives import picking, pointwise, view
from nacre.base.arguments import whole_number
from nacre.base.dims import Size
from nacre.base.dtypes import int64
from nacre.base.errors import ArgumentError, ShapeError
from nacre.ops.gather import number


def windows(operation: str, x: Any, axis: int, size: int, step: int) -> Any:
    """The windows of one size along an axis, some steps apart; their elements are the last axis."""
    length, width = whole_number(size, operation, "size"), whole_number(step, operation, "step")
    whole: Size = x.type.shape[axis]
    if length < 0 or length > whole:
        raise ShapeError(f"{operation}: the size of a window must be from 0 to {whole}; got {length}")
    if width < 1:
        raise ArgumentError(f"{operation}: step must be at least 1; got {width}")
    shape = ((whole - length) // width + 1, length)
    first, within = (pointwise.iota(shape, k, int64) for k in (0, 1))
    places = pointwise.add(pointwise.mul(first, number(width, shape)), within)
    found = picking.take(x, places, axis)
    order = [k for k in range(len(found.type.shape)) if k != axis + 1]
    return view.permute(found, (*order, axis + 1))
