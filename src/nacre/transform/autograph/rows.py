"""The iterables of `for` statements that may become loops of a program: ranges, rows, and functions of these."""

from __future__ import annotations

import builtins
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn, cast

from nacre.base.dims import Size
from nacre.base.dtypes import int64
from nacre.base.records import dataclass
from nacre.interpret.numbers.staged_number import StagedNumber
from nacre.interpret.numbers.traced_number import itself
from nacre.interpret.numbers.unknown import unknown
from nacre.ops import pointwise
from nacre.ops.view import flip, slice_axis
from nacre.trace.value import Value, is_concrete
from nacre.trace.variable import Variable


class TracedRange:
    """A `range` with traced bounds."""

    def __init__(self, bounds: Sequence[Any]) -> None:
        start, stop, step = (0, *bounds, 1) if len(bounds) == 1 else (*bounds, 1)[:3]
        self.start, self.stop, self.step = start, stop, step

    @property
    def turned(self) -> TracedRange:
        """The same numbers, the last one first."""
        length = (self.stop - self.start + self.step - (1 if self.step > 0 else -1)) // self.step
        return TracedRange((self.start + (length - 1) * self.step, self.start - self.step, -self.step))

    def __iter__(self) -> NoReturn:
        raise unknown("range", int)


@dataclass(frozen=True, eq=False)
class TracedRows:
    """The rows of one or more tensors of equal lengths, and how an item is made of them.

    A part of the form is a tensor, the first number of a count, or a tuple of parts.
    """

    form: Any
    length: Size

    def later(self, begin: int) -> TracedRows:
        """The rows from a number on."""
        return TracedRows(_later(self.form, begin, self.length), self.length - begin) if begin else self

    @property
    def arguments(self) -> list[Value]:
        """The tensors whose rows make the items."""
        parts = _flat(self.form)
        found = [part for part in parts if isinstance(part, Value)]
        return found + [pointwise.iota((self.length,), 0, int64)] * (len(found) < len(parts))

    def item(self, rows: Sequence[Value]) -> Any:
        """The item that is made of a row of each of the `arguments`."""
        return _filled(self.form, iter(rows), rows[-1])

    def __iter__(self) -> Iterator[Any]:
        k = 0
        while k < self.length:
            yield _chosen(self.form, k)
            k += 1


def rows_of(items: Any) -> Any:
    """The rows of a traced tensor; anything else as it is."""
    x = items.value if isinstance(items, Variable) else items
    if isinstance(x, Value) and not is_concrete(x) and x.type.shape:
        return TracedRows(x, x.type.shape[0])
    return items


def enumerated(function: Any, *given: Any, **named: Any) -> Any:
    """`enumerate(items, start)`."""
    if function is not builtins.enumerate or not given:
        return cast("Any", function(*map(_plain, given), **named))
    found = rows_of(given[0])
    start = (*given[1:], *named.values(), 0)[0]
    if isinstance(found, TracedRows) and type(start) is int and set(named) <= {"start"}:
        return TracedRows((start, found.form), found.length)
    return cast("Any", function(*given, **named))


def zipped(function: Any, *given: Any, **named: Any) -> Any:
    """`zip(*given, strict=…)`."""
    if function is not builtins.zip:
        return function(*map(_plain, given), **named)
    found = [rows_of(items) for items in given]
    if found and all(isinstance(items, TracedRows) for items in found) and set(named) <= {"strict"}:
        lengths = [items.length for items in found]
        if all(n == lengths[0] for n in lengths):
            return TracedRows(tuple(items.form for items in found), lengths[0])
    return cast("Any", function(*given, **named))


def turned(function: Any, *given: Any) -> Any:
    """`reversed(items)`, also of a range with traced bounds."""
    if function is not builtins.reversed or len(given) != 1:
        return cast("Any", function(*map(_plain, given)))
    items = rows_of(given[0])
    if isinstance(items, TracedRange):
        return items.turned
    if isinstance(items, TracedRows) and isinstance(items.form, Value):
        return TracedRows(flip(items.form, (0,)), items.length)
    return items[::-1] if isinstance(items, range) else cast("Any", function(*given))


def _plain(items: Any) -> Any:
    """The iterable of a call within another one as Python makes it."""
    return iter(items) if isinstance(items, TracedRange | TracedRows) else items


def ranged(function: Any, *bounds: Any) -> Any:
    """`range(…)`, also of traced numbers."""
    traced = any(type(x) is StagedNumber or (isinstance(x, Value) and not is_concrete(x)) for x in bounds)
    if function is not builtins.range or not traced or not 1 <= len(bounds) <= 3:
        return function(*bounds)
    if len(bounds) == 3 and not isinstance(itself(bounds[2]), int):
        return function(*bounds)
    numbers = [_whole(x) for x in bounds]
    return function(*bounds) if None in numbers or (len(bounds) == 3 and not numbers[2]) else TracedRange(numbers)


def _flat(form: Any) -> list[Any]:
    if not isinstance(form, tuple):
        return [form]
    return [x for part in cast("tuple[Any, ...]", form) for x in _flat(part)]


def _filled(form: Any, rows: Iterator[Value], count: Value) -> Any:
    if isinstance(form, tuple):
        return tuple([_filled(part, rows, count) for part in cast("tuple[Any, ...]", form)])
    if isinstance(form, int):
        number: Any = StagedNumber(int, count)
        return number + form
    return next(rows)


def _chosen(form: Any, k: int) -> Any:
    if isinstance(form, tuple):
        return tuple([_chosen(part, k) for part in cast("tuple[Any, ...]", form)])
    return form + k if isinstance(form, int) else form[k]


def _later(form: Any, begin: int, length: Size) -> Any:
    if isinstance(form, tuple):
        return tuple([_later(part, begin, length) for part in cast("tuple[Any, ...]", form)])
    return form + begin if isinstance(form, int) else slice_axis(form, 0, begin, length)


def _whole(x: Any) -> Any:
    """A bound of a range: a number, or one that the program computes; None for anything else."""
    if isinstance(x, Value):
        integer = x.type.shape == () and x.type.dtype.is_integer
        return StagedNumber(int, pointwise.cast(x, int64)) if integer else None
    x = itself(x)
    return x if (type(x) is StagedNumber and x.kind is int) or type(x) is int else None
