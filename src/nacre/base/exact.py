"""Keys of plain Python values that are equal only if no code can distinguish the values, unlike 1 == True == 1.0."""

from __future__ import annotations

import sys
from types import FunctionType
from typing import Any, cast

import numpy as np

from nacre.base.places import is_outside

SIMPLE = (type(None), bool, int, str, bytes)
WRITTEN = (float, range, complex)  # compared by their texts: zeros have signs, ranges have ends
WRITTEN_LATE = {"Decimal": "decimal", "Fraction": "fractions"}  # likewise, of modules that are slow to import
HELD = (float, int, str, bytes, complex, tuple)  # base classes; instances may have more data than the value


class Same:
    """A value compared by identity."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and other.value is self.value

    def __hash__(self) -> int:
        return id(self.value) >> 4

    def __repr__(self) -> str:
        return repr(self.value)


class Keyed:
    """A value compared by a key of its own."""

    __slots__ = ("key", "value")

    def __init__(self, value: Any, key: tuple[Any, ...]) -> None:
        self.value, self.key = value, key

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Keyed) and other.key == self.key

    def __hash__(self) -> int:
        return hash(self.key)

    def __repr__(self) -> str:
        return repr(self.value)


class Exact(tuple[Any, ...]):
    """A key: the type of a value, its text or another object that is compared, and more if that does not suffice."""

    __slots__ = ()

    def __repr__(self) -> str:
        kind, held, *_ = self
        is_text = isinstance(held, str) and not issubclass(kind, str)
        return held if is_text else repr(held)


def exact_key(value: Any) -> Exact:
    """A key for a hashable value, printed as the value.

    Instances that hold attributes, or whose class has an `__eq__` of its own, are compared by identity.

    >>> exact_key(1) == exact_key(True), exact_key(0.0) == exact_key(-0.0), exact_key(2) == exact_key(2)
    (False, False, True)
    >>> exact_key(0.5), exact_key("text")
    (0.5, 'text')
    """
    kind: Any = type(cast("object", value))
    if kind in SIMPLE:
        return Exact((kind, value))
    if kind in WRITTEN or _is_written_late(kind):
        return Exact((kind, repr(value)))
    if isinstance(cast("object", value), HELD) and (
        getattr(cast("object", value), "__dict__", None) or _compares_itself(kind)
    ):
        return Exact((kind, Same(value)))
    if _is_tuple(kind):
        return Exact((kind, tuple(map(exact_key, value))))
    if kind is frozenset:
        return Exact((kind, frozenset(map(exact_key, value))))
    if isinstance(value, np.generic):
        number = cast("np.generic[Any]", value)
        return Exact((kind, repr(number), number.dtype.str, number.tobytes()))
    if isinstance(value, float):
        return Exact((kind, value.hex()))
    if hasattr(kind, "__dataclass_fields__") and kind.__eq__ is not object.__eq__:
        return _of_fields(kind, value)
    if kind.__hash__ is object.__hash__ or _compares_itself(kind):  # == of a parameter compares its elements
        return Exact((kind, Same(value)))
    return Exact((kind, value))


def _compares_itself(kind: Any) -> bool:
    """Whether users' code compares instances: equal ones may differ in what other code reads of them."""
    comparison = kind.__eq__
    return isinstance(comparison, FunctionType) and is_outside(comparison.__code__.co_filename)


def _is_written_late(kind: type[object]) -> bool:
    module = sys.modules.get(WRITTEN_LATE.get(kind.__name__, ""))
    return module is not None and getattr(module, kind.__name__, None) is kind


def _is_tuple(kind: type[object]) -> bool:
    return issubclass(kind, tuple)


def _of_fields(kind: Any, value: Any) -> Exact:
    """A key for an instance of a dataclass that compares fields; by identity where a field has no hash."""
    fields = [getattr(value, name, None) for name in kind.__dataclass_fields__]
    try:
        hash(tuple(fields))
    except TypeError:
        return Exact((kind, Same(value)))
    return Exact((kind, Keyed(value, tuple(map(exact_key, fields)))))
