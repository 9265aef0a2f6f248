"""Intervals: bounds of the integers that a value may have, from the equations that compute it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from nacre.base.dims import Size
from nacre.base.dtypes import bool_
from nacre.ir.graph import Atom, Equation, Graph, Literal, Var
from nacre.ir.primitive import Element, RuleKind, operation, register_rule
from nacre.ops.gather import gather_p, take_p
from nacre.ops.pointwise import dimension_p, fill_p, iota_p, select_p
from nacre.ops.sort import argsort_p

Interval = tuple[Size, Size]  # the least and the greatest integer, both included
INTERVAL: Final[RuleKind[Callable[[Intervals, Equation], Interval | None]]] = RuleKind("interval of results")
DEEPEST = 32  # equations that are followed from a value
NESTED = 12  # and those where a condition holds


def at_least(x: Size, least: int) -> bool:
    """Whether a size is at least a number, whatever its symbols are."""
    return x >= least if isinstance(x, int) else x.bounds()[0] >= least


class Intervals:
    """The intervals of a graph's integers."""

    def __init__(self, graph: Graph) -> None:
        self.made = {v: e for e in graph.equations for v in e.outputs}
        self.found: dict[Var, Interval | None] = {}
        self.assumed: Known = {}  # by checks before
        self.known: Known = {}  # what holds where a condition does
        self.depth = 0

    def of(self, a: Atom) -> Interval | None:
        """The interval of an atom; None if nothing is known."""
        if isinstance(a, Literal):
            known = a.type.dtype.is_integer and a.array.size
            return (int(a.array.min()), int(a.array.max())) if known else None
        if not a.type.dtype.is_integer:
            return None
        if a in self.found and not self.known:
            return self.found[a]
        found = self._computed(a)
        for more in (self.assumed.get(a), self.known.get(a)):
            found = found if more is None else more if found is None else both(found, more)
        if not self.known:
            self.found[a] = found
        return found

    def assume(self, a: Atom, interval: Interval) -> None:
        """Take it that an atom is within an interval from here on."""
        if isinstance(a, Var):
            self.assumed[a] = both(self.assumed[a], interval) if a in self.assumed else interval
            self.found.clear()

    def _computed(self, v: Var) -> Interval | None:
        """The interval that the equation of a value gives, if all of it are numbers of its dtype, which else wrap."""
        e = self.made.get(v)
        if e is None or self.depth >= (NESTED if self.known else DEEPEST):
            return None
        self.depth += 1
        interval = self.computed(e)
        self.depth -= 1
        if interval is None:
            return None
        low, high = _limits(v)
        return interval if at_least(interval[0] - low, 0) and at_least(high - interval[1], 0) else None

    def computed(self, e: Equation) -> Interval | None:
        """The interval of an equation's result, from those of its operands."""
        rule = INTERVAL.of(e.primitive)
        if rule is not None:
            return rule(self, e)
        low = e.primitive.lowering
        if e.primitive.converts or e.primitive.keeps_order or (isinstance(low, Element) and low.view is not None):
            return self.of(e.inputs[0])
        combine = _COMBINED.get(operation(e.primitive) or "")
        if combine is None:
            return None
        return combine(e, [self.of(a) for a in e.inputs])

    def where(self, condition: Atom, truth: bool, a: Atom) -> Interval | None:
        """The interval of an atom at the elements where a condition of the same shape is true, or false."""
        implied = self.implied(condition, truth)
        if implied is None:
            return EMPTY
        before = self.known
        self.known = {**before, **{v: both(before[v], x) if v in before else x for v, x in implied.items()}}
        try:
            return self.of(a)
        finally:
            self.known = before

    def implied(self, condition: Atom, truth: bool) -> Known | None:
        """The intervals of values where a condition is true, or false; None where it never is."""
        e = self.made.get(condition) if isinstance(condition, Var) else None
        op = "" if e is None or self.depth >= DEEPEST else operation(e.primitive) or ""
        if e is None or op not in ("lt", "ge", "gt", "le", "ne", "eq", "and", "or"):
            return {}
        x, y = e.inputs
        self.depth += 1
        try:
            if op in ("and", "or"):
                parts = [self.implied(a, truth) for a in (x, y)]
                return _all(parts) if (op == "and") == truth else _any(parts)
            if x.type.dtype is bool_:
                other = self.truth(y) if op in ("ne", "eq") else None
                return {} if other is None else self.implied(x, truth == (other == (op == "eq")))
            return self._compared(op if truth else _OPPOSITE[op], x, y)
        finally:
            self.depth -= 1

    def truth(self, condition: Atom) -> bool | None:
        """Whether a condition is true, or false, at all elements; None if that is not known."""
        if isinstance(condition, Literal):
            return bool(condition.array.all()) if condition.array.size == 1 else None
        return next((not t for t in (True, False) if self.implied(condition, t) is None), None)

    def _compared(self, op: str, x: Atom, y: Atom) -> Known | None:
        """The intervals of two values that compare in a way."""
        if op in ("gt", "le"):
            return self._compared("lt" if op == "gt" else "ge", y, x)
        a, b = self.of(x), self.of(y)
        found: Known = {}
        if op == "ne":
            return found
        if a is not None and b is not None:
            below, above = at_least(b[0] - a[1], 1), at_least(a[0] - b[1], 0)
            if (op == "lt" and above) or (op == "ge" and below):
                return None
        for v, other, upper in ((x, b, op != "ge"), (y, a, op != "lt")):
            if other is None or not isinstance(v, Var):
                continue
            low, high = _limits(v)
            strict = 1 if op == "lt" else 0
            bound = (low, other[1] - strict) if upper else (other[0] + strict, high)
            found[v] = other if op == "eq" else bound
        return found


Known = dict[Var, Interval]
EMPTY: Final[Interval] = (1, 0)
_OPPOSITE: Final = {"lt": "ge", "ge": "lt", "gt": "le", "le": "gt", "ne": "eq", "eq": "ne"}


def both(x: Interval, y: Interval) -> Interval:
    """An interval that has all integers of two intervals' common part."""
    low = y[0] if at_least(y[0] - x[0], 0) else x[0]
    high = y[1] if at_least(x[1] - y[1], 0) else x[1]
    return low, high


def _all(parts: Sequence[Known | None]) -> Known | None:
    """What holds where all parts do."""
    found: Known = {}
    for part in parts:
        if part is None:
            return None
        found |= {v: both(found[v], x) if v in found else x for v, x in part.items()}
    return found


def _any(parts: Sequence[Known | None]) -> Known | None:
    """What holds where one of the parts does."""
    held = [part for part in parts if part is not None]
    if not held:
        return None
    found: Known = {}
    for v in set(held[0]).intersection(*held[1:]):
        around = _either([part[v] for part in held])
        if around is not None:
            found[v] = around
    return found


Given = Sequence[Interval | None]


def _limits(v: Var) -> tuple[int, int]:
    """The least and the greatest integer of a value's dtype."""
    about = np.iinfo(v.type.dtype.numpy)
    return int(about.min), int(about.max)


def _known(x: Interval | None) -> tuple[int, int] | None:
    """An interval of plain numbers."""
    if x is None or not isinstance(x[0], int) or not isinstance(x[1], int):
        return None
    return x[0], x[1]


def _add(e: Equation, given: Given) -> Interval | None:
    x, y = given
    return None if x is None or y is None else (x[0] + y[0], x[1] + y[1])


def _sub(e: Equation, given: Given) -> Interval | None:
    x, y = given
    return None if x is None or y is None else (x[0] - y[1], x[1] - y[0])


def _minimum(e: Equation, given: Given) -> Interval | None:
    """Both operands are needed for the least integer; without one it is that of the dtype."""
    x, y = given
    if x is None or y is None:
        known = x or y
        return None if known is None else (_limits(e.outputs[0])[0], known[1])
    low = x[0] if at_least(y[0] - x[0], 0) else y[0] if at_least(x[0] - y[0], 0) else None
    high = x[1] if at_least(y[1] - x[1], 0) else y[1]
    return None if low is None else (low, high)


def _maximum(e: Equation, given: Given) -> Interval | None:
    x, y = given
    if x is None or y is None:
        known = x or y
        return None if known is None else (known[0], _limits(e.outputs[0])[1])
    high = x[1] if at_least(x[1] - y[1], 0) else y[1] if at_least(y[1] - x[1], 0) else None
    low = x[0] if at_least(x[0] - y[0], 0) else y[0]
    return None if high is None else (low, high)


def _rem(e: Equation, given: Given) -> Interval | None:
    """The remainder by a positive number; it has the sign of the dividend."""
    x, y = _known(given[0]), _known(given[1])
    if y is None or y[0] < 1:
        return None
    most = y[1] - 1
    return (0 if x is not None and x[0] >= 0 else -most, 0 if x is not None and x[1] <= 0 else most)


def _up_to(e: Equation, axis: int) -> Interval:
    """The positions along an axis of the first operand."""
    return 0, e.inputs[0].type.shape[axis] - 1


def _position(e: Equation, given: Given) -> Interval | None:
    (axis,) = e.params["axes"]
    return _up_to(e, int(axis))


_COMBINED: Final[dict[str, Callable[[Equation, Given], Interval | None]]] = {
    "add": _add,
    "sub": _sub,
    "minimum": _minimum,
    "maximum": _maximum,
    "rem": _rem,
    "argmax": _position,
    "argmin": _position,
}


def _either(intervals: Sequence[Interval | None]) -> Interval | None:
    """The least interval around several, if they can be compared."""
    known = [x for x in intervals if x is not None]
    if len(known) < len(intervals) or not known:
        return None
    (low, high), *others = known
    for a, b in others:
        if not at_least(a - low, 0):
            if not at_least(low - a, 0):
                return None
            low = a
        if not at_least(high - b, 0):
            if not at_least(b - high, 0):
                return None
            high = b
    return low, high


def _fill(all: Intervals, e: Equation) -> Interval | None:
    value = e.params["value"]
    return (int(value), int(value)) if isinstance(value, int) else None


def _dimension(all: Intervals, e: Equation) -> Interval | None:
    return e.params["size"], e.params["size"]


def _iota(all: Intervals, e: Equation) -> Interval | None:
    return 0, e.params["shape"][e.params["axis"]] - 1


def _select(all: Intervals, e: Equation) -> Interval | None:
    condition, yes, no = e.inputs
    sides = [all.where(condition, truth, a) for truth, a in ((True, yes), (False, no))]
    return _either([x for x in sides if x is not EMPTY])


def _argsort(all: Intervals, e: Equation) -> Interval | None:
    return _up_to(e, int(e.params["axis"]))


def _taken(all: Intervals, e: Equation) -> Interval | None:
    return all.of(e.inputs[0])


register_rule(fill_p, INTERVAL, _fill)
register_rule(dimension_p, INTERVAL, _dimension)
register_rule(iota_p, INTERVAL, _iota)
register_rule(select_p, INTERVAL, _select)
register_rule(argsort_p, INTERVAL, _argsort)
register_rule(take_p, INTERVAL, _taken)
register_rule(gather_p, INTERVAL, _taken)
