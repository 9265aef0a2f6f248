"""Keys of plain Python values that are equal only where no code can tell the values apart, unlike 1 == True == 1.0."""

from __future__ import annotations

from collections.abc import Hashable
from decimal import Decimal
from fractions import Fraction
from typing import Any, cast

import numpy as np

SIMPLE = (type(None), bool, int, str, bytes)
WRITTEN = (Decimal, Fraction, range, complex)  # their texts hold all of them: zeros have signs, ranges their ends
HELD = (float, int, str, bytes, complex)  # bases of classes that may hold more than the number or text


class Same:
    """A value compared by identity."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and other.value is self.value

    def __hash__(self) -> int:
        return id(self.value) >> 4


def exact_key(value: Any) -> Hashable:
    """A key for a hashable value, with its type; instances that hold attributes are compared by identity.

    >>> exact_key(1) == exact_key(True), exact_key(0.0) == exact_key(-0.0), exact_key(2) == exact_key(2)
    (False, False, True)
    """
    kind = type(cast("object", value))
    if kind in SIMPLE:
        return kind, value
    if kind is float:
        return kind, cast("float", value).hex()
    if kind in WRITTEN:
        return kind, repr(value)
    if kind is tuple:
        return kind, tuple(map(exact_key, value))
    if kind is frozenset:
        return kind, frozenset(map(exact_key, value))
    if isinstance(value, np.generic):
        number = cast("np.generic[Any]", value)
        return kind, number.dtype.str, number.tobytes()
    if isinstance(value, HELD) and getattr(cast("object", value), "__dict__", None):
        return kind, Same(value)
    if isinstance(value, float):
        return kind, value.hex()
    return kind, value
