"""`StagedNumber`: a Python number that only the running program knows.

Converted loops carry such numbers, and converted branches choose between them.  With tensors they behave as the number
itself would: they take the tensor's dtype.  Arithmetic among numbers is recorded in int64 and float64, which is
Python's arithmetic for whole numbers of 64 bits and for floats.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, NoReturn, Self

from nacre.base.conversion import natural_dtype
from nacre.base.dtypes import DType, float64, int64
from nacre.base.errors import ArgumentError
from nacre.interpret.evaluate import number_tensor
from nacre.interpret.numbers.arithmetic import (
    BITWISE,
    ROUNDED,
    SHIFTS,
    divided,
    known_power,
    require_count,
    require_divisor,
    rounded,
    whole_power,
)
from nacre.interpret.numbers.traced_number import GREATEST, LEAST, itself
from nacre.interpret.numbers.unknown import unknown
from nacre.ops import pointwise
from nacre.trace.value import Value

ARITHMETIC: Final = {"add": pointwise.add, "sub": pointwise.sub, "mul": pointwise.mul}
COMPARISONS: Final = {name: getattr(pointwise, name) for name in ("lt", "le", "gt", "ge", "eq", "ne")}
UNKNOWN: Final = ("int", "float", "index", "bool", "complex", "hash", "format", "str", "repr")


class StagedNumber:
    """An int or float that a program computes."""

    __slots__ = ("held", "kind")

    def __init__(self, kind: type, held: Value) -> None:
        self.kind, self.held = kind, held  # a scalar of int64 or float64

    @property
    def __class__(self) -> type:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The class of the number, for `isinstance`."""
        return self.kind

    def tensor(self, dtype: DType | None = None) -> Value:
        """The number as a scalar tensor of a dtype; by default that of Python numbers."""
        return pointwise.cast(self.held, natural_dtype(self) if dtype is None else dtype)

    def __neg__(self) -> Any:
        return StagedNumber(self.kind, pointwise.neg(self.held))

    def __pos__(self) -> Self:
        return self

    def __abs__(self) -> Any:
        return StagedNumber(self.kind, pointwise.abs_(self.held))

    def __invert__(self) -> Any:
        self.require_whole("invert")
        return StagedNumber(int, pointwise.not_(self.held))

    def __getattr__(self, name: str) -> NoReturn:
        if hasattr(self.kind, name):
            self.unknown(name)
        raise AttributeError(f"'{self.kind.__name__}' object has no attribute '{name}'")

    def require_whole(self, operation: str) -> None:
        """Raise TypeError, as Python does, unless it is an int."""
        if self.kind is not int:
            raise TypeError(f"bad operand type for {operation}: 'float'")

    def unknown(self, operation: str) -> NoReturn:
        """Raise UnknownNumber: Python requests the number itself."""
        raise unknown(operation.strip("_"), self.kind)


def _met(
    number: StagedNumber, other: Any, swapped: bool = False, floats: bool = False
) -> tuple[type, Value, Value] | None:
    """The kind of two numbers, and both as scalars of one dtype in their order; None for other objects."""
    if type(other) is not StagedNumber:
        other = itself(other)
        if not isinstance(other, int | float):
            return None
        if isinstance(other, int) and not LEAST <= other <= GREATEST:
            raise ArgumentError(f"int: in a converted loop or branch, an int must have at most 64 bits; got {other:#x}")
        other = (
            StagedNumber(float, number_tensor(float(other)))
            if isinstance(other, float)
            else StagedNumber(int, number_tensor(int(other)))
        )
    kind = float if floats or float in (number.kind, other.kind) else int
    dtype = float64 if kind is float else int64
    x, y = pointwise.cast(number.held, dtype), pointwise.cast(other.held, dtype)
    return (kind, y, x) if swapped else (kind, x, y)


def _arithmetic(name: str, swapped: bool) -> Callable[[StagedNumber, Any], Any]:
    def operator(self: StagedNumber, other: Any) -> Any:
        """The arithmetic with a number; a tensor does it itself."""
        met = _met(self, other, swapped)
        if met is None:
            return NotImplemented
        kind, x, y = met
        return StagedNumber(kind, ARITHMETIC[name](x, y))

    return operator


def _comparison(name: str) -> Callable[[StagedNumber, Any], Any]:
    def operator(self: StagedNumber, other: Any) -> Any:
        """The comparison with a number, as a bool scalar."""
        if self.kind is int and type(other) is int and not LEAST <= other <= GREATEST:
            return getattr(0, f"__{name}__")(other)  # as for all whole numbers of 64 bits
        met = _met(self, other)
        return NotImplemented if met is None else COMPARISONS[name](*met[1:])

    return operator


def _known(other: object) -> bool:
    """Whether a number is of Python, and not 0."""
    return type(other) is not StagedNumber and bool(other)


def _division(name: str, swapped: bool) -> Callable[[StagedNumber, Any], Any]:
    def operator(self: StagedNumber, other: Any) -> Any:
        """The quotient as a float, or the one rounded down, or the remainder, or both."""
        met = _met(self, other, swapped, floats=name == "truediv")
        if met is None:
            return NotImplemented
        kind, x, y = met
        if swapped or not _known(other):
            require_divisor(y)
        if name == "truediv":
            return StagedNumber(float, pointwise.div(x, y))
        both = tuple(StagedNumber(kind, part) for part in divided(x, y))
        return both if name == "divmod" else both[name == "mod"]

    return operator


def _power(swapped: bool) -> Callable[..., Any]:
    def operator(self: StagedNumber, other: Any, modulus: object = None) -> Any:
        """A whole number to a whole power; other powers are those of the machine's C library."""
        met = _met(self, other, swapped)
        if met is None:
            return NotImplemented
        kind, x, y = met
        if kind is float or modulus is not None:
            self.unknown("pow")
        if type(other) is not StagedNumber and not swapped:
            if other < 0:
                self.unknown("pow")
            return StagedNumber(int, known_power(x, int(other)))
        require_count(y, "the power")
        return StagedNumber(int, whole_power(x, y, pointwise.full_like(x, 1), pointwise.zeros_like(x)))

    return operator


def _bitwise(name: str, swapped: bool) -> Callable[[StagedNumber, Any], Any]:
    def operator(self: StagedNumber, other: Any) -> Any:
        """The bits of two whole numbers, or those of one shifted."""
        met = _met(self, other, swapped)
        if met is None:
            return NotImplemented
        kind, x, y = met
        if kind is float:
            raise TypeError(f"unsupported operand types for {name}: 'int' and 'float', or two floats")
        if name in SHIFTS:
            require_count(y, "the shift")
        return StagedNumber(int, BITWISE[name](x, y))

    return operator


def _rounding(name: str) -> Callable[..., Any]:
    def operator(self: StagedNumber, digits: object = None) -> Any:
        """The whole number that a float is rounded to."""
        if digits is not None:
            self.unknown(name)
        return self if self.kind is int else StagedNumber(int, rounded(name, self.held))

    return operator


def _unknown(name: str) -> Callable[..., Any]:
    def operator(self: StagedNumber, *_: Any) -> Any:
        """An operation that needs the number itself."""
        self.unknown(name)

    return operator


def _set_operators(names: Iterable[str], made: Callable[[str, bool], Callable[..., Any]]) -> None:
    for name in names:
        setattr(StagedNumber, f"__{name}__", made(name, False))
        setattr(StagedNumber, f"__r{name}__", made(name, True))


_set_operators(ARITHMETIC, _arithmetic)
_set_operators(("truediv", "mod", "floordiv", "divmod"), _division)
_set_operators(BITWISE, _bitwise)
_set_operators(("pow",), lambda _, swapped: _power(swapped))
for _name in COMPARISONS:
    setattr(StagedNumber, f"__{_name}__", _comparison(_name))
for _name in ROUNDED:
    setattr(StagedNumber, f"__{_name}__", _rounding(_name))
for _name in UNKNOWN:
    setattr(StagedNumber, f"__{_name}__", _unknown(_name))
