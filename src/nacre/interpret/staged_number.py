"""`StagedNumber`: a Python number that only the running program knows.

Converted loops carry such numbers, and converted branches choose between them.  With tensors they behave as the number
itself would: they take the tensor's dtype.  Arithmetic among numbers is recorded in int64 and float64, which is
Python's arithmetic for whole numbers of 64 bits and for floats.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NoReturn, Self

from nacre.base.conversion import natural_dtype
from nacre.base.dtypes import DType, bool_, float64, int64
from nacre.base.errors import UnknownNumber, explain
from nacre.interpret.evaluate import number_tensor
from nacre.interpret.traced_number import itself
from nacre.ops import pointwise
from nacre.ops.check import check
from nacre.trace.value import Value

ARITHMETIC: Final = {"add": pointwise.add, "sub": pointwise.sub, "mul": pointwise.mul}
COMPARISONS: Final = {name: getattr(pointwise, name) for name in ("lt", "le", "gt", "ge", "eq", "ne")}
UNKNOWN: Final = (
    *("int", "float", "index", "bool", "complex", "hash", "round", "trunc", "floor", "ceil", "format", "invert"),
    *("pow", "rpow", "divmod", "rdivmod", "and", "rand", "or", "ror", "xor", "rxor", "lshift", "rlshift"),
    *("rshift", "rrshift", "str", "repr"),
)


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

    def unknown(self, operation: str) -> NoReturn:
        """Raise UnknownNumber: Python requests the number itself."""
        name = operation.strip("_")
        raise UnknownNumber(
            explain(
                f"{name}: the number must be known; got {'an int' if self.kind is int else 'a float'} that a converted "
                "loop or branch computes",
                "@nc.jit\ndef f(x):\n    n = 0\n    while x.sum() > 1:\n        x, n = x / 2, n + 1\n"
                "    return nc.zeros((n,))",
                "The number depends on tensors, so only the running program knows it.  It can be added, subtracted,\n"
                "  multiplied, divided, compared, combined with tensors, used as an index of a tensor, and returned.",
                "@nc.jit\ndef f(x):\n    n = 0\n    while x.sum() > 1:\n        x, n = x / 2, n + 1\n    return n\n\n"
                "nc.zeros((int(f(x)),))",
            ),
            name,
        )


def _met(number: StagedNumber, other: Any, floats: bool = False) -> tuple[type, Value, Value] | None:
    """Two numbers as scalars of one dtype, and the kind of both; None for anything else than numbers."""
    if type(other) is not StagedNumber:
        other = itself(other)
        if not isinstance(other, int | float):
            return None
        if isinstance(other, int) and abs(other) >> 63:
            number.unknown("int")
        other = (
            StagedNumber(float, number_tensor(float(other)))
            if isinstance(other, float)
            else StagedNumber(int, number_tensor(int(other)))
        )
    kind = float if floats or float in (number.kind, other.kind) else int
    dtype = float64 if kind is float else int64
    return kind, pointwise.cast(number.held, dtype), pointwise.cast(other.held, dtype)


def _arithmetic(name: str, swapped: bool) -> Callable[[StagedNumber, Any], Any]:
    def operator(self: StagedNumber, other: Any) -> Any:
        """The arithmetic with a number; a tensor does it itself."""
        met = _met(self, other)
        if met is None:
            return NotImplemented
        kind, a, b = met
        return StagedNumber(kind, ARITHMETIC[name](*((b, a) if swapped else (a, b))))

    return operator


def _comparison(name: str) -> Callable[[StagedNumber, Any], Any]:
    def operator(self: StagedNumber, other: Any) -> Any:
        """The comparison with a number, as a bool scalar."""
        met = _met(self, other)
        return NotImplemented if met is None else COMPARISONS[name](*met[1:])

    return operator


def _require_divisor(y: Value, known: object) -> None:
    """Check that a divisor is not zero, unless it is a known number."""
    if type(known) is not StagedNumber and known:
        return
    text = "division: the divisor must not be zero, as in Python; got {got} for whether it is not"
    check(pointwise.cast(pointwise.ne(y, pointwise.zeros_like(y)), int64), 1, 2, "argument", text)


def _division(swapped: bool) -> Callable[[StagedNumber, Any], Any]:
    def operator(self: StagedNumber, other: Any) -> Any:
        """The quotient, a float."""
        met = _met(self, other, floats=True)
        if met is None:
            return NotImplemented
        _, x, y = met
        if swapped:
            x, y = y, x
        _require_divisor(y, self if swapped else other)
        return StagedNumber(float, pointwise.div(x, y))

    return operator


def _whole_division(name: str, swapped: bool) -> Callable[[StagedNumber, Any], Any]:
    def operator(self: StagedNumber, other: Any) -> Any:
        """The quotient of whole numbers, rounded down, or the remainder, with the sign of the divisor."""
        met = _met(self, other)
        if met is None:
            return NotImplemented
        kind, x, y = met
        if kind is float:
            self.unknown(name)
        if swapped:
            x, y = y, x
        _require_divisor(y, self if swapped else other)
        rest = pointwise.rem(x, y)
        zero = pointwise.zeros_like(rest)
        signs = pointwise.ne(pointwise.lt(rest, zero), pointwise.lt(y, zero))
        odd = pointwise.select(pointwise.ne(rest, zero), signs, pointwise.fill(False, (), bool_))
        if name == "mod":
            return StagedNumber(int, pointwise.select(odd, pointwise.add(rest, y), rest))
        quotient = pointwise.idiv(x, y)
        return StagedNumber(int, pointwise.sub(quotient, pointwise.cast(odd, int64)))

    return operator


def _unknown(name: str) -> Callable[..., Any]:
    def operator(self: StagedNumber, *others: Any) -> Any:
        """An operation that needs the number itself; a tensor does it itself."""
        if others and not isinstance(others[0], int | float | str):
            return NotImplemented
        self.unknown(name)

    return operator


for _name in ARITHMETIC:
    setattr(StagedNumber, f"__{_name}__", _arithmetic(_name, swapped=False))
    setattr(StagedNumber, f"__r{_name}__", _arithmetic(_name, swapped=True))
for _name in COMPARISONS:
    setattr(StagedNumber, f"__{_name}__", _comparison(_name))
for _name in ("mod", "floordiv"):
    setattr(StagedNumber, f"__{_name}__", _whole_division(_name, swapped=False))
    setattr(StagedNumber, f"__r{_name}__", _whole_division(_name, swapped=True))
StagedNumber.__truediv__ = _division(swapped=False)  # type: ignore[attr-defined]
StagedNumber.__rtruediv__ = _division(swapped=True)  # type: ignore[attr-defined]
for _name in UNKNOWN:
    setattr(StagedNumber, f"__{_name}__", _unknown(_name))
