"""Calls of built-in functions in converted code, of values that only the running program knows."""

from __future__ import annotations

import builtins
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, cast

from nacre.interpret.numbers.staged_number import StagedNumber
from nacre.ops import pointwise
from nacre.trace.iteration import is_long
from nacre.trace.value import Value, is_concrete
from nacre.trace.variable import Variable
from nacre.transform.autograph.appends import AppendedList, position
from nacre.transform.autograph.branches import condition
from nacre.transform.autograph.rows import TracedRows, rows_of

Choose = Callable[[Any, Any, Any], Any]  # the second value where the first one is true, else the third one
Arguments = Sequence[Any]


def is_traced(x: Any) -> bool:
    """Whether only the running program knows a value."""
    if isinstance(x, Variable):
        x = x.value
    return type(x) is StagedNumber or (isinstance(x, Value) and not is_concrete(x))


def _length(_: Choose, args: Arguments, named: Mapping[str, Any]) -> Any:
    """`len(x)`, of lists with a number of items that the program computes too."""
    if len(args) == 1 and type(args[0]) is AppendedList and not named:
        return StagedNumber(int, position(args[0].count))
    return len(*args, **named)


def _kind(_: Choose, args: Arguments, named: Mapping[str, Any]) -> Any:
    """`type(x)`, of numbers that the program computes too."""
    return args[0].kind if len(args) == 1 and type(args[0]) is StagedNumber else type(*args, **named)


def _most(function: Any, wins: Any, choose: Choose, args: Arguments, named: Mapping[str, Any]) -> Any:
    """`max(…)` or `min(…)`, of several values or of the items of one, with `key` and `default`."""
    items = args
    if len(args) == 1:
        items = _items(args[0])
        if items is None:
            return function(*args, **named)
        args = (items,)
    allowed = {"key", "default"} if len(args) == 1 else {"key"}
    if not items or not named.keys() <= allowed:
        return function(*args, **named)
    key: Any = named.get("key")
    ranks = items if key is None else [key(x) for x in items]
    if not any(map(is_traced, ranks)):
        return items[function(range(len(items)), key=ranks.__getitem__)]
    best = ranks[0], items[0]
    for pair in zip(ranks[1:], items[1:], strict=True):
        best = choose(wins(pair[0], best[0]), pair, best)
    return best[1]


def _truths(function: Any, ends: bool, _: Choose, args: Arguments, named: Mapping[str, Any]) -> Any:
    """`any(…)` or `all(…)` of the items of a list, a tuple or a tensor; one item with the truth `ends` decides it."""
    items = None if len(args) != 1 or named or isinstance(args[0], Iterator) else _items(args[0])
    if items is None or not any(map(is_traced, items)):
        return function(*args, **named)
    found: Any = None
    for x in items:
        chosen = condition(x)
        if chosen is None:
            if bool(x) is ends:
                return ends
        elif found is None:
            found = chosen
        else:
            found = pointwise.or_(found, chosen) if ends else pointwise.and_(found, chosen)
    return found


def _items(x: Any) -> Sequence[Any] | None:
    """The items of a list, a tuple, an iterator or a short tensor; None for other objects."""
    if isinstance(x, Iterator):
        return list(cast("Iterator[Any]", x))
    if type(x) in (list, tuple):
        return x
    rows = rows_of(x)
    return list(rows) if isinstance(rows, TracedRows) and not is_long(rows.length) else None


CALLED: Final[dict[int, Callable[[Choose, Arguments, Mapping[str, Any]], Any]]] = {  # by the identity of the function
    id(builtins.len): _length,
    id(builtins.type): _kind,
    id(builtins.max): partial(_most, builtins.max, operator.gt),
    id(builtins.min): partial(_most, builtins.min, operator.lt),
    id(builtins.any): partial(_truths, builtins.any, True),
    id(builtins.all): partial(_truths, builtins.all, False),
}
