"""Margins that are added around the elements of a tensor, or cut off."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nacre.api.primitives import view
from nacre.base.dims import Size, upper
from nacre.base.errors import ShapeError


def padded(x: Any, margins: Sequence[tuple[Size, ...]], value: Any) -> Any:
    """x with a (before, after) pair of margins for each axis, filled with a number; negative margins cut off."""
    shape = x.type.shape
    starts, ends = (tuple(_cut(m[k]) for m in margins) for k in (0, 1))
    stops = tuple(n - end for n, end in zip(shape, ends, strict=True))
    if any(a > b for a, b in zip(starts, stops, strict=True)):
        raise ShapeError(f"pad: the margins must leave some elements of {x.type}; got {list(margins)}")
    if starts != (0,) * len(shape) or stops != shape:
        x = view.slice_(x, starts, stops, (1,) * len(shape))
    lows = tuple(low + start for (low, _), start in zip(margins, starts, strict=True))
    highs = tuple(high + end for (_, high), end in zip(margins, ends, strict=True))
    return view.pad(x, value, lows, highs, (0,) * len(shape))


def _cut(margin: Size) -> Size:
    """The number of elements that a margin cuts off."""
    return -margin if upper(margin) <= 0 or margin < 0 else 0
