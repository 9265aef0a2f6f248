"""Reductions that leave out NaN.  Names follow NumPy."""

from __future__ import annotations

from typing import Any

from nacre.api.data_types import requested
from nacre.api.elementwise.apply import require
from nacre.api.operands import TensorLike, as_tensor, filled, require_inside, settled_number, spread
from nacre.api.primitives import pointwise, reduce
from nacre.api.searching import argmax, argmin
from nacre.api.slope import root
from nacre.api.statistical import cumulative_prod, cumulative_sum, max, min, prod, reduce_axes, sum, wide_float
from nacre.api.statistics.running import axis_of
from nacre.api.tensor import Axes, Tensor
from nacre.base.dims import LIMIT
from nacre.base.dtypes import FLOATING, int64
from nacre.base.errors import ArgumentError

__all__ = [
    "nanargmax",
    "nanargmin",
    "nancumprod",
    "nancumsum",
    "nanmax",
    "nanmean",
    "nanmin",
    "nanprod",
    "nanstd",
    "nansum",
    "nanvar",
]


def missing(x: Any) -> Any:
    """Where x is NaN; None for dtypes without NaN."""
    return pointwise.isnan(x) if x.type.dtype.is_inexact else None


def without_nan(x: Any, value: float) -> Any:
    """x with a number in place of NaN."""
    gone = missing(x)
    return x if gone is None else pointwise.select(gone, filled(x, value), x)


def nansum(x: TensorLike, /, axis: Axes = None, *, dtype: Any = None, keepdims: bool = False) -> Tensor:
    """The sum over axes (default: all) of the elements that are not NaN; integers and bools are summed in 64 bits.

    >>> nc.nansum([1.0, nc.nan, 3.0])
    Tensor(4., f32[])
    """
    return sum(without_nan(requested("nansum", x, dtype), 0), axis=axis, dtype=dtype, keepdims=keepdims)


def nanprod(x: TensorLike, /, axis: Axes = None, *, dtype: Any = None, keepdims: bool = False) -> Tensor:
    """The product over axes (default: all) of the elements that are not NaN; integers are multiplied in 64 bits.

    >>> nc.nanprod([2.0, nc.nan, 3.0])
    Tensor(6., f32[])
    """
    return prod(without_nan(requested("nanprod", x, dtype), 1), axis=axis, dtype=dtype, keepdims=keepdims)


def _counted(x: Any, axis: Axes, operation: str, keepdims: bool) -> Any:
    """The number of elements that are not NaN, in the dtype of x."""
    there = pointwise.cast(pointwise.not_(pointwise.isnan(x)), x.type.dtype)
    return reduce_axes(reduce.sum_, operation, there, axis, keepdims)


def _mean(x: Any, axis: Axes, keepdims: bool, operation: str) -> Any:
    total = reduce_axes(reduce.sum_, operation, without_nan(x, 0), axis, keepdims)
    return pointwise.div(total, _counted(x, axis, operation, keepdims))


def nanmean(x: TensorLike, /, axis: Axes = None, *, keepdims: bool = False) -> Tensor:
    """The mean over axes (default: all) of the elements that are not NaN; NaN where there are none.

    >>> nc.nanmean([1.0, nc.nan, 3.0])
    Tensor(2., f32[])
    """
    held = as_tensor(x)
    require("nanmean", held.type.dtype, FLOATING)
    return as_tensor(_mean(wide_float(held), axis, keepdims, "nanmean"), held.type.dtype)


def _variance(x: Any, axis: Axes, correction: float, keepdims: bool, operation: str) -> Any:
    correction = settled_number(correction, operation, "correction")
    centred = pointwise.sub(x, spread(_mean(x, axis, True, operation), x.type.shape))
    centred = pointwise.select(pointwise.isnan(x), filled(x, 0), centred)
    total = reduce_axes(reduce.sum_, operation, pointwise.mul(centred, centred), axis, keepdims)
    count = _counted(x, axis, operation, keepdims)
    left = pointwise.maximum(pointwise.sub(count, filled(count, correction)), filled(count, 0))
    some = pointwise.gt(left, filled(left, 0))
    return pointwise.select(some, pointwise.div(total, left), filled(total, float("nan")))


def nanvar(x: TensorLike, /, axis: Axes = None, *, correction: float = 0.0, keepdims: bool = False) -> Tensor:
    """The variance over axes (default: all) of the elements that are not NaN.

    The sum of squares is divided by their count − correction; the result is NaN where that is not positive.

    >>> nc.nanvar([1.0, nc.nan, 3.0])
    Tensor(1., f32[])
    """
    held = as_tensor(x)
    require("nanvar", held.type.dtype, FLOATING)
    return as_tensor(_variance(wide_float(held), axis, correction, keepdims, "nanvar"), held.type.dtype)


def nanstd(x: TensorLike, /, axis: Axes = None, *, correction: float = 0.0, keepdims: bool = False) -> Tensor:
    """The standard deviation over axes (default: all) of the elements that are not NaN: the root of `nanvar`.

    >>> nc.nanstd([1.0, nc.nan, 3.0])
    Tensor(1., f32[])
    """
    held = as_tensor(x)
    require("nanstd", held.type.dtype, FLOATING)
    return as_tensor(root(_variance(wide_float(held), axis, correction, keepdims, "nanstd")), held.type.dtype)


def nanmax(x: TensorLike, /, axis: Axes = None, *, keepdims: bool = False) -> Tensor:
    """The largest element over axes (default: all) that is not NaN; NaN where there is none.

    >>> nc.nanmax([1.0, nc.nan, 3.0])
    Tensor(3., f32[])
    """
    return _extreme(max, "nanmax", x, axis, keepdims, -float("inf"))


def nanmin(x: TensorLike, /, axis: Axes = None, *, keepdims: bool = False) -> Tensor:
    """The smallest element over axes (default: all) that is not NaN; NaN where there is none.

    >>> nc.nanmin([1.0, nc.nan, 3.0])
    Tensor(1., f32[])
    """
    return _extreme(min, "nanmin", x, axis, keepdims, float("inf"))


def _extreme(op: Any, operation: str, x: TensorLike, axis: Axes, keepdims: bool, filler: float) -> Any:
    held = as_tensor(x)
    gone = missing(held)
    found = op(without_nan(held, filler), axis=axis, keepdims=keepdims)
    if gone is None:
        return found
    nowhere = reduce_axes(reduce.all_, operation, gone, axis, keepdims)
    return pointwise.select(nowhere, filled(found, float("nan")), found)


def nanargmax(x: TensorLike, /, axis: int | None = None, *, keepdims: bool = False) -> Tensor:
    """The index (int64) of the first largest element that is not NaN, along an axis or in all of x.

    Raises ArgumentError where all elements are NaN, in a compiled function when it runs.

    >>> nc.nanargmax([1.0, nc.nan, 3.0])
    Tensor(2, i64[])
    """
    return _position(max, argmax, "nanargmax", x, axis, keepdims, -float("inf"))


def nanargmin(x: TensorLike, /, axis: int | None = None, *, keepdims: bool = False) -> Tensor:
    """The index (int64) of the first smallest element that is not NaN, along an axis or in all of x.

    Raises ArgumentError where all elements are NaN, in a compiled function when it runs.

    >>> nc.nanargmin([nc.nan, 1.0, 3.0])
    Tensor(1, i64[])
    """
    return _position(min, argmin, "nanargmin", x, axis, keepdims, float("inf"))


def _position(
    extreme: Any, find: Any, operation: str, x: TensorLike, axis: int | None, keepdims: bool, filler: float
) -> Any:
    """The first position of an element that equals the extreme one and is not NaN."""
    held = as_tensor(x)
    gone = missing(held)
    if gone is None:
        return find(held, axis=axis, keepdims=keepdims)
    there = pointwise.not_(gone)
    counts = reduce_axes(reduce.sum_, operation, pointwise.cast(there, int64), axis, False)
    text = f"{operation}: some elements must not be NaN; got {{got}} of these; use nacre.where to replace NaN"
    require_inside(counts, 1, LIMIT, ArgumentError, text)
    best = spread(extreme(without_nan(held, filler), axis=axis, keepdims=True), held.type.shape)
    hit = pointwise.and_(there, pointwise.eq(held, best))
    return argmax(pointwise.cast(hit, int64), axis=axis, keepdims=keepdims)


def nancumsum(x: TensorLike, /, axis: int | None = None, *, dtype: Any = None) -> Tensor:
    """The running sum along an axis, in which NaN counts as 0.  For a vector, the axis may be omitted.

    >>> nc.nancumsum([1.0, nc.nan, 3.0])
    Tensor([1., 1., 4.], f32[3])
    """
    held = requested("nancumsum", x, dtype)
    return cumulative_sum(without_nan(held, 0), axis=axis_of("nancumsum", held, axis), dtype=dtype)


def nancumprod(x: TensorLike, /, axis: int | None = None, *, dtype: Any = None) -> Tensor:
    """The running product along an axis, in which NaN counts as 1.  For a vector, the axis may be omitted.

    >>> nc.nancumprod([2.0, nc.nan, 3.0])
    Tensor([2., 2., 6.], f32[3])
    """
    held = requested("nancumprod", x, dtype)
    return cumulative_prod(without_nan(held, 1), axis=axis_of("nancumprod", held, axis), dtype=dtype)
