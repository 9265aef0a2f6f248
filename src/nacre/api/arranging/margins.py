"""Margins that are added around the elements of a tensor, or cut off."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nacre.api.primitives import view
from nacre.base.dims import Size
from nacre.base.errors import ShapeError


def padded(x: Any, margins: Sequence[tuple[Size, ...]], value: Any) -> Any:
    """x with a (before, after) pair of margins for each axis, filled with a number; negative margins cut off."""
    shape = x.type.shape
    starts = tuple(-low if low < 0 else 0 for low, _ in margins)
    stops = tuple(n + high if high < 0 else n for n, (_, high) in zip(shape, margins, strict=True))
    if any(a > b for a, b in zip(starts, stops, strict=True)):
        raise ShapeError(f"pad: the margins must leave some elements of {x.type}; got {list(margins)}")
    if starts != (0,) * len(shape) or stops != shape:
        x = view.slice_(x, starts, stops, (1,) * len(shape))
    lows, highs = (tuple(m[k] if m[k] > 0 else 0 for m in margins) for k in (0, 1))
    return view.pad(x, value, lows, highs, (0,) * len(shape))
