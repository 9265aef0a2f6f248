"""Medians, quantiles and modes: elements by their place in order.  Names follow NumPy; `mode` follows PyTorch."""

from __future__ import annotations

from typing import Any, Final

from nacre.api.elementwise.apply import require
from nacre.api.operands import (
    TensorLike,
    as_tensor,
    constant,
    filled,
    in_single,
    is_plain,
    is_scalar,
    scalar,
)
from nacre.api.primitives import picking, pointwise, reduce, sorting, view
from nacre.api.sorting import argsort
from nacre.api.statistical import require_elements
from nacre.api.statistics.conditions import require_all
from nacre.api.tensor import Axes, Tensor
from nacre.base.dims import lower, product
from nacre.base.dtypes import FLOATING, ORDERED, float64, int64
from nacre.base.errors import ArgumentError
from nacre.base.types import normal_axes, normal_axis

__all__ = ["median", "mode", "nanmedian", "nanpercentile", "nanquantile", "percentile", "quantile"]

METHODS: Final = ("linear", "lower", "higher", "nearest", "midpoint")


def quantile(
    x: TensorLike, q: TensorLike, /, axis: Axes = None, *, method: str = "linear", keepdims: bool = False
) -> Tensor:
    """The elements at fractions q of the order over axes (default: all); the axes of q come first.

    The place q · (n − 1) may be between two elements.  The method "linear" interpolates, "lower", "higher" and
    "nearest" take one of them, with an even place for "nearest" where both are equally near, and "midpoint" takes
    their mean.  The result has the dtype of x, and is NaN where an element is.  Raises ArgumentError for q outside
    [0, 1] and for other methods, ShapeError for an empty x.

    >>> nc.quantile([1.0, 2.0, 3.0, 4.0], [0.25, 0.5])
    Tensor([1.75, 2.5 ], f32[2])
    """
    return _quantile("quantile", x, _fractions("quantile", q, 1), axis, method, keepdims, False)


def percentile(
    x: TensorLike, q: TensorLike, /, axis: Axes = None, *, method: str = "linear", keepdims: bool = False
) -> Tensor:
    """`quantile` at q / 100.

    >>> nc.percentile([1.0, 2.0, 3.0, 4.0], 50)
    Tensor(2.5, f32[])
    """
    return _quantile("percentile", x, _fractions("percentile", q, 100), axis, method, keepdims, False)


def nanquantile(
    x: TensorLike, q: TensorLike, /, axis: Axes = None, *, method: str = "linear", keepdims: bool = False
) -> Tensor:
    """`quantile` of the elements that are not NaN; NaN where there are none.

    >>> nc.nanquantile([1.0, nc.nan, 3.0], 0.5)
    Tensor(2., f32[])
    """
    return _quantile("nanquantile", x, _fractions("nanquantile", q, 1), axis, method, keepdims, True)


def nanpercentile(
    x: TensorLike, q: TensorLike, /, axis: Axes = None, *, method: str = "linear", keepdims: bool = False
) -> Tensor:
    """`nanquantile` at q / 100.

    >>> nc.nanpercentile([1.0, nc.nan, 3.0], 50)
    Tensor(2., f32[])
    """
    return _quantile("nanpercentile", x, _fractions("nanpercentile", q, 100), axis, method, keepdims, True)


def median(x: TensorLike, /, *, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """The middle element over axes (default: all), or the mean of the two middle ones; NaN where an element is.

    >>> nc.median([3.0, 1.0, 2.0, 10.0])
    Tensor(2.5, f32[])
    """
    return _quantile("median", x, scalar(0.5, float64), axis, "midpoint", keepdims, False)


def nanmedian(x: TensorLike, /, *, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """`median` of the elements that are not NaN; NaN where there are none.

    >>> nc.nanmedian([3.0, nc.nan, 2.0])
    Tensor(2.5, f32[])
    """
    return _quantile("nanmedian", x, scalar(0.5, float64), axis, "midpoint", keepdims, True)


def _fractions(operation: str, q: TensorLike, whole: int) -> Any:
    """The fractions in float64, which must be in [0, 1]."""
    weak = is_scalar(q) or is_plain(q)
    given = as_tensor(q, float64) if weak else as_tensor(q)
    require(operation, given.type.dtype, ORDERED)
    found = as_tensor(given, float64)
    valid = pointwise.and_(pointwise.ge(found, filled(found, 0)), pointwise.le(found, filled(found, whole)))
    require_all(valid, f"{operation}: q must be in [0, {whole}]; got number {{got}} of q, counted from 1, outside")
    return found if whole == 1 else pointwise.div(found, filled(found, whole))


def _quantile(operation: str, x: TensorLike, q: Any, axis: Axes, method: str, keepdims: bool, leave_out: bool) -> Any:
    if method not in METHODS:
        raise ArgumentError(f"{operation}: method must be one of {', '.join(METHODS)}; got {method!r}")
    held = as_tensor(x)
    require(operation, held.type.dtype, FLOATING)
    if not leave_out:
        require_elements(held, axis, operation)

    def computed(v: Any) -> Any:
        """The quantiles, with the axes of q first."""
        shape = v.type.shape
        axes = normal_axes(axis, len(shape), operation)
        rows = tuple(n for k, n in enumerate(shape) if k not in axes)
        order = (*(k for k in range(len(shape)) if k not in axes), *axes)
        number = product([shape[k] for k in axes])
        flat = view.reshape(view.permute(v, order), (*rows, number))
        if leave_out and lower(number) == 0:  # one more element, which is left out, is read where there is no other
            none = (0,) * len(flat.type.shape)
            flat = view.pad(flat, constant(float("nan"), flat.type.dtype), none, (*none[1:], 1), none)
        count = (q.type.size,)
        found = _between(sorting.sort(flat, len(rows), False), view.reshape(q, count), method, leave_out)
        found = view.permute(found, (len(rows), *range(len(rows))))
        sizes = tuple(1 if k in axes else n for k, n in enumerate(shape)) if keepdims else rows
        return view.reshape(found, (*q.type.shape, *sizes))

    return in_single(computed, held)


def _between(row: Any, q: Any, method: str, leave_out: bool) -> Any:
    """The quantiles of sorted rows [..., n] at a vector of fractions: [..., q]."""
    rank = len(row.type.shape)
    shape = (*row.type.shape[:-1], q.type.shape[0])
    valid = pointwise.cast(pointwise.not_(pointwise.isnan(row)), int64)
    number = reduce.sum_(valid, (rank - 1,))
    last = pointwise.sub(number, filled(number, 1)) if leave_out else filled(number, row.type.shape[-1] - 1)
    last = view.broadcast(pointwise.maximum(last, filled(last, 0)), shape, tuple(range(rank - 1)))
    place = pointwise.mul(view.broadcast(q, shape, (rank - 1,)), pointwise.cast(last, float64))
    if method == "nearest":
        place = pointwise.round_(place)
    low = pointwise.floor(place)
    high = pointwise.ceil(place)
    ends = [picking.gather(row, pointwise.minimum(pointwise.cast(p, int64), last), rank - 1) for p in (low, high)]
    found = _met(ends[0], ends[1], pointwise.sub(place, low), method)
    if leave_out:
        return found
    whole = pointwise.eq(number, filled(number, row.type.shape[-1]))
    whole = view.broadcast(whole, shape, tuple(range(rank - 1)))
    return pointwise.select(whole, found, filled(found, float("nan")))


def _met(low: Any, high: Any, weight: Any, method: str) -> Any:
    """The number between two elements; equal ones, as infinities, are met by themselves."""
    if method in ("lower", "nearest"):
        return low
    if method == "higher":
        return high
    if method == "midpoint":
        found = pointwise.mul(pointwise.add(low, high), filled(low, 0.5))
        alone = pointwise.eq(weight, filled(weight, 0))
        return pointwise.select(alone, low, found)
    share = as_tensor(weight, low.type.dtype)
    way = pointwise.sub(high, low)
    back = pointwise.sub(high, pointwise.mul(way, pointwise.sub(filled(share, 1), share)))
    forth = pointwise.add(low, pointwise.mul(way, share))
    found = pointwise.select(pointwise.lt(share, filled(share, 0.5)), forth, back)
    return pointwise.select(pointwise.eq(low, high), low, found)


# ---- modes


def mode(x: TensorLike, /, axis: int = -1, *, keepdims: bool = False) -> tuple[Tensor, Tensor]:
    """The element that occurs most often along an axis, the smallest of several, and the index of its last occurrence.

    Each NaN is an element of its own, and larger than all numbers.  Raises ShapeError for an empty axis.

    >>> nc.mode([3, 1, 3, 1, 2])
    (Tensor(1, i64[]), Tensor(3, i64[]))
    """
    held = as_tensor(x)
    require("mode", held.type.dtype, ORDERED)
    shape = held.type.shape
    at = normal_axis(axis, len(shape), "mode")
    require_elements(held, at, "mode")
    order = argsort(held, axis=at)
    row = picking.gather(held, order, at)
    place = pointwise.iota(shape, at, int64)
    before = picking.gather(row, pointwise.maximum(pointwise.sub(place, filled(place, 1)), filled(place, 0)), at)
    begins = pointwise.select(pointwise.ne(row, before), place, filled(place, 0))
    length = pointwise.sub(place, picking.gather(begins, reduce.cumargmax(begins, at), at))
    best = reduce.argmax(length, at)
    one = tuple(1 if k == at else n for k, n in enumerate(shape))
    best = view.reshape(best, one)
    rest = one if keepdims else tuple(n for k, n in enumerate(shape) if k != at)
    value, index = (view.reshape(picking.gather(v, best, at), rest) for v in (row, order))
    return value, index
