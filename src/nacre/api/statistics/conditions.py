"""Conditions on numbers that are checked at once, or when a compiled program runs."""

from __future__ import annotations

from typing import Any

from nacre.api.operands import filled, require_inside
from nacre.api.primitives import pointwise, view
from nacre.base.dtypes import int64
from nacre.base.errors import ArgumentError


def require_all(valid: Any, text: str) -> None:
    """Raise ArgumentError unless all bools hold; {got} in the text is the place of the first that does not, from 1."""
    flat = view.reshape(valid, (valid.type.size,))
    places = pointwise.iota(flat.type.shape, 0, int64)
    counted = pointwise.add(places, filled(places, 1))
    require_inside(pointwise.select(flat, filled(places, 0), counted), 0, 1, ArgumentError, text)
