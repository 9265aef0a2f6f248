"""`TracedNumber`: a Python number that is an input of the graph which is being recorded.

It stands for a captured number that changes from call to call.  Together with tensors it is a scalar of float64 or
int64, which is converted to the dtype of the operation as the number itself would be.  Arithmetic of floats with other
numbers is recorded in float64, which is Python's arithmetic.  Any other use needs the number itself: it is given, and
the use is noted, because the graph then holds for this number alone.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from types import CellType, FunctionType
from typing import Any, Final, Self

from nacre.base.conversion import bounds
from nacre.base.dtypes import DType, int64
from nacre.interpret.called import user_line
from nacre.interpret.evaluate import number_tensor
from nacre.ops import pointwise
from nacre.trace.captures import CapturePlace, ContentPattern, PlaceKey
from nacre.trace.value import Value

RECORDED: Final = {name: getattr(operator, name) for name in ("add", "sub", "mul", "truediv")}
OTHERS: Final = (
    *("pow", "mod", "floordiv", "divmod", "and", "or", "xor", "lshift", "rshift", "matmul"),
    *("lt", "le", "gt", "ge", "eq", "ne"),
)
OF_ONE: Final = ("float", "int", "index", "bool", "hash", "repr", "str", "abs", "invert", "trunc", "floor", "ceil")
LEAST, GREATEST = bounds(int64)


def may_be_input(value: object) -> bool:
    """Whether a captured object is a number that an input can hold."""
    return type(value) is float or (type(value) is int and LEAST <= value <= GREATEST)


class NumberUse:
    """What a trace makes of one captured number."""

    def __init__(self, value: float | int) -> None:
        self.value = value  # a whole one is within int64
        self.is_float = type(value) is float
        self.tensor = number_tensor(value)
        self.line: str | None = None  # the first one that needs the number itself
        self.low, self.high = LEAST, GREATEST  # of whole numbers that fit the dtypes that they are converted to
        self.ended = False

    def note(self) -> None:
        """Note a use of the number itself."""
        if not self.ended and self.line is None:
            self.line = user_line()


class NumberInputs:
    """A copy of a function that reads traced numbers instead of those in some places, which stay as they are."""

    def __init__(self, function: FunctionType, places: Sequence[CapturePlace]) -> None:
        self.uses: dict[PlaceKey, NumberUse] = {}
        self.originals: dict[PlaceKey, CapturePlace] = {}
        names, cells = dict(function.__globals__), list(function.__closure__ or ())
        self.owners: dict[int, Any] = {id(names): function.__globals__}
        for place in places:
            use = NumberUse(place.content())
            traced = TracedNumber(use.value, use.tensor, frozenset([use]))
            if place.kind == "name":
                names[str(place.key)] = traced
                key: PlaceKey = id(names), place.key
            else:
                at = next(k for k, cell in enumerate(cells) if cell is place.owner)
                cells[at] = CellType(traced)
                key = id(cells[at]), None
                self.owners[key[0]] = place.owner
            self.uses[key], self.originals[key] = use, place
        self.tensors = {key: use.tensor for key, use in self.uses.items()}
        self.function = FunctionType(
            function.__code__, names, function.__name__, function.__defaults__, tuple(cells) if cells else None
        )
        self.function.__kwdefaults__ = function.__kwdefaults__
        self.function.__dict__.update(function.__dict__)

    def pattern(self, key: PlaceKey) -> ContentPattern:
        """The numbers that the graph is for: of one type, and whole ones within bounds."""
        use = self.uses[key]
        if use.is_float:
            return ContentPattern("number", (float, -math.inf, math.inf))
        return ContentPattern("number", (int, use.low, use.high))

    def value(self, key: PlaceKey) -> float:
        """A number during the trace."""
        return self.uses[key].value

    def end(self) -> dict[PlaceKey, str]:
        """The trace has ended; the places whose numbers it needed themselves, each with the first line."""
        for use in self.uses.values():
            use.ended = True
        return {self.originals[key].at: use.line for key, use in self.uses.items() if use.line is not None}


class TracedNumber:
    """A captured number, or a float that is computed from one."""

    __slots__ = ("held", "uses", "value")

    def __init__(self, value: float | int, held: Value, uses: frozenset[NumberUse]) -> None:
        self.value, self.held, self.uses = value, held, uses

    @property
    def __class__(self) -> type:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The class of the number, for `isinstance`."""
        return type(self.value)

    @property
    def itself(self) -> float | int:
        """The number; this use is noted."""
        for use in self.uses:
            use.note()
        return self.value

    def tensor(self, dtype: DType) -> Value | None:
        """A scalar of a dtype with the number; None where that needs the number itself."""
        if any(use.ended for use in self.uses):
            return None
        if isinstance(self.value, float):
            return pointwise.cast(self.held, dtype) if dtype.is_float else None
        if dtype.is_integer:
            low, high = bounds(dtype)
            if not low <= self.value <= high:
                return None
            for use in self.uses:
                use.low, use.high = max(use.low, low), min(use.high, high)
        return None if dtype.is_bool else pointwise.cast(self.held, dtype)

    def computed(self, name: str, other: Any, swapped: bool) -> Any:
        """A float from this one and another number; the number itself where that is not recorded."""
        own = isinstance(self.value, float) and not any(use.ended for use in self.uses)
        known = other if type(other) is not TracedNumber else other.value
        if not own or type(known) not in (float, int) or (type(known) is int and type(other) is TracedNumber):
            return NotImplemented
        if abs(known) > 1 << 53 and type(known) is int:
            return NotImplemented
        left, right = (known, self.value) if swapped else (self.value, known)
        if name == "truediv" and (swapped or type(other) is TracedNumber or not known):
            return NotImplemented  # a division by zero would be an error
        value = RECORDED[name](left, right)
        their = other.held if type(other) is TracedNumber else number_tensor(float(known))
        pair = (their, self.held) if swapped else (self.held, their)
        made = getattr(pointwise, {"truediv": "div"}.get(name, name))(*pair)
        more: frozenset[NumberUse] = other.uses if type(other) is TracedNumber else frozenset()
        return TracedNumber(value, made, self.uses | more)

    def __neg__(self) -> Any:
        return self.computed("mul", -1.0, False) if isinstance(self.value, float) else -self.itself

    def __pos__(self) -> Self:
        return self

    def __round__(self, *digits: Any) -> Any:
        return round(self.itself, *digits)

    def __format__(self, how: str) -> str:
        return format(self.itself, how)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.itself, name)


def itself(x: Any) -> Any:
    """A number instead of a traced one, which notes the use."""
    return x.itself if type(x) is TracedNumber else x


def _recorded(name: str, swapped: bool) -> Callable[[TracedNumber, Any], Any]:
    def method(self: TracedNumber, other: Any) -> Any:
        """The arithmetic with a number; a tensor does it itself."""
        if not isinstance(other, int | float):
            return NotImplemented
        found = self.computed(name, other, swapped)
        if found is not NotImplemented:
            return found
        pair = (itself(other), self.itself) if swapped else (self.itself, itself(other))
        return RECORDED[name](*pair)

    return method


def _other(name: str, swapped: bool) -> Callable[[TracedNumber, Any], Any]:
    def method(self: TracedNumber, other: Any) -> Any:
        """An operation that needs the number itself; a tensor does it itself."""
        if not isinstance(other, int | float | complex):
            return NotImplemented
        pair = (itself(other), self.itself) if swapped else (self.itself, itself(other))
        return divmod(*pair) if name == "divmod" else getattr(operator, ATTRIBUTES.get(name, name))(*pair)

    return method


def _of_one(name: str) -> Callable[[TracedNumber], Any]:
    def method(self: TracedNumber) -> Any:
        """A conversion, which needs the number itself."""
        return getattr(self.itself, f"__{name}__")()

    return method


ATTRIBUTES: Final = {"and": "and_", "or": "or_"}
for _name in RECORDED:
    setattr(TracedNumber, f"__{_name}__", _recorded(_name, swapped=False))
    setattr(TracedNumber, f"__r{_name}__", _recorded(_name, swapped=True))
for _name in OTHERS:
    setattr(TracedNumber, f"__{_name}__", _other(_name, swapped=False))
    if _name not in OTHERS[10:]:
        setattr(TracedNumber, f"__r{_name}__", _other(_name, swapped=True))
for _name in OF_ONE:
    setattr(TracedNumber, f"__{_name}__", _of_one(_name))
