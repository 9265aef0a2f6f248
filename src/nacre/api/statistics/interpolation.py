"""Interpolation between the points of a function.  The name follows NumPy."""

from __future__ import annotations

from typing import Any

from nacre.api.elementwise.apply import require
from nacre.api.elementwise.arithmetic import remainder
from nacre.api.manipulation import cut
from nacre.api.operands import TensorLike, extent, filled, in_single, meet, require_inside, spread
from nacre.api.primitives import picking, pointwise, search, sorting, view
from nacre.api.statistical import require_elements
from nacre.api.tensor import Tensor
from nacre.base.dtypes import FLOATING, int64
from nacre.base.errors import ArgumentError, ShapeError

__all__ = ["interp"]


def interp(
    x: TensorLike,
    xp: TensorLike,
    fp: TensorLike,
    /,
    left: TensorLike | None = None,
    right: TensorLike | None = None,
    period: TensorLike | None = None,
) -> Tensor:
    """The values at x of the function that is linear between the points (xp, fp), in the shape of x.

    xp and fp are vectors, and xp ascends.  `left` and `right` are the values before and behind all points, by default
    those of the first and the last one.  With a `period`, which may be negative, x and xp are taken modulo its absolute
    value, and xp need not ascend.  Raises ShapeError for other shapes and without points, ArgumentError for period 0.

    >>> nc.interp([0.5, 1.5, 9.0], [0.0, 1.0, 2.0], [0.0, 10.0, 0.0])
    Tensor([5., 5., 0.], f32[3])
    """
    numbers = {k: v for k, v in (("left", left), ("right", right), ("period", period)) if v is not None}
    met, dtype = meet("interp", [x, xp, fp, *numbers.values()])
    require("interp", dtype, FLOATING)
    _, places, values, *ends = met
    if len(places.type.shape) != 1 or places.type.shape != values.type.shape:
        raise ShapeError(f"interp: xp and fp must be vectors of one size; got {places.type} and {values.type}")
    require_elements(places, None, "interp")
    for name, end in zip(numbers, ends, strict=True):
        if end.type.shape:
            raise ShapeError(f"interp: {name} must be one number; got shape {end.type.shape}")

    def computed(x: Any, places: Any, values: Any, *ends: Any) -> Any:
        """The values, with the numbers that are given behind the points."""
        held = dict(zip(numbers, ends, strict=True))
        cycle = held.get("period")
        if cycle is None:
            return _interpolated(x, places, values, held.get("left"), held.get("right"))
        some = pointwise.cast(pointwise.ne(cycle, filled(cycle, 0)), int64)
        require_inside(some, 1, 2, ArgumentError, "interp: period must not be 0; got {got}")
        return _periodic(x, places, values, pointwise.abs_(cycle))

    return in_single(computed, *met)


def _periodic(x: Any, places: Any, values: Any, period: Any) -> Any:
    """The points of one period in order, with the last one before and the first one behind them."""
    places = remainder(places, period)
    order = sorting.argsort(places, 0)
    places, values = (picking.take(v, order, 0) for v in (places, values))
    size = places.type.shape[0]
    (before, value_before), (after, value_after) = (
        tuple(cut(v, 0, *ends) for v in (places, values)) for ends in ((size - 1, size), (0, 1))
    )
    wide = view.reshape(period, (1,))
    places = view.concatenate([pointwise.sub(before, wide), places, pointwise.add(after, wide)], 0)
    return _interpolated(
        remainder(x, period), places, view.concatenate([value_before, values, value_after], 0), None, None
    )


def _interpolated(x: Any, places: Any, values: Any, left: Any, right: Any) -> Any:
    shape, size = x.type.shape, places.type.shape[0]
    last = spread(extent(size - 1), shape)
    found = search.search(places, x, right=True)
    low = pointwise.maximum(pointwise.sub(found, filled(found, 1)), filled(found, 0))
    high = pointwise.minimum(found, last)
    (a, b), (fa, fb) = ([picking.take(v, k, 0) for k in (low, high)] for v in (places, values))
    between = pointwise.lt(low, high)
    width = pointwise.select(between, pointwise.sub(b, a), filled(a, 1))
    slope = pointwise.div(pointwise.sub(fb, fa), width)
    value = pointwise.add(pointwise.mul(slope, pointwise.sub(x, a)), fa)
    at_point = pointwise.or_(pointwise.eq(x, a), pointwise.eq(fa, fb))
    lost = pointwise.and_(at_point, pointwise.not_(pointwise.isfinite(value)))  # an infinite slope times 0
    value = pointwise.select(pointwise.or_(lost, pointwise.not_(between)), fa, value)
    first, end = (spread(view.reshape(cut(places, 0, *ends), ()), shape) for ends in ((0, 1), (size - 1, size)))
    first_value, last_value = (
        spread(view.reshape(cut(values, 0, *ends), ()) if given is None else given, shape)
        for given, ends in ((left, (0, 1)), (right, (size - 1, size)))
    )
    value = pointwise.select(pointwise.lt(x, first), first_value, value)
    value = pointwise.select(pointwise.gt(x, end), last_value, value)
    return pointwise.select(pointwise.isnan(x), x, value)
