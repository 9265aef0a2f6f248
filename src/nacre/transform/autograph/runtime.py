"""The functions that converted code calls.  With values that Python knows, they do what the statement itself does."""

from __future__ import annotations

import builtins
import operator
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from types import CellType
from typing import Any, Final, cast

import numpy as np

from nacre.base import tree
from nacre.base.dims import Size
from nacre.base.dims import lower as lowest
from nacre.base.dtypes import int64
from nacre.base.errors import REQUESTS, Error
from nacre.interpret.evaluate import from_numpy, number_tensor
from nacre.interpret.numbers.staged_number import StagedNumber
from nacre.ops import pointwise
from nacre.ops.check import check
from nacre.trace.iteration import is_long
from nacre.trace.value import Value
from nacre.transform.autograph.appends import AppendedList, escaped
from nacre.transform.autograph.branches import TracedBranch, condition, unfill
from nacre.transform.autograph.called import CALLED, is_traced
from nacre.transform.autograph.cells import Variables, around, cells_of, read, write
from nacre.transform.autograph.loops import TracedLoop, asked, staged_int
from nacre.transform.autograph.messages import at, left_by, one_way, raised, unbound
from nacre.transform.autograph.parts import RECORDING
from nacre.transform.autograph.refusal import forgiven, noted
from nacre.transform.autograph.rows import TracedRange, TracedRows, enumerated, ranged, rows_of, turned, zipped
from nacre.transform.autograph.statements import SourcePlace, Statement
from nacre.transform.host_call import host_call

Lazy = Callable[[], Any]
OPERATORS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
    "is": operator.is_,
    "is not": operator.is_not,
    "in": lambda a, b: a in b,
    "not in": lambda a, b: a not in b,
}
FEW: Final = 2  # iterations of a `for` that are not worth a loop of the program
MOST_UNROLLED: Final = 1024  # rows of a loop that is unrolled because its body cannot be a part of the program
COUNTER: Final = "<counter>"  # the hidden variable of a `range` with traced bounds


class Text:
    """A text with values that only the running program has."""

    def __init__(self, form: Callable[..., str], values: Sequence[Any]) -> None:
        self.form, self.values = form, values


class Runtime:
    """The functions for the statements of one converted function."""

    def __init__(self, place: SourcePlace, statements: Sequence[Statement]) -> None:
        self.place, self.statements = place, statements

    # ---- branches

    def if_(self, number: int, test: Any, then: Lazy, otherwise: Lazy | None = None) -> None:
        """`if test: then() else: otherwise()`."""
        chosen = condition(test)
        if chosen is not None:
            self._branch(self.statements[number], (then, otherwise), chosen)
        elif test:
            then()
        elif otherwise is not None:
            otherwise()

    def _noted(self, statement: Statement) -> AbstractContextManager[None]:
        return noted(partial(left_by, self.place, statement), at(self.place, statement.line))

    def _branch(self, statement: Statement, parts: tuple[Any, Any], chosen: Value, flags: Sequence[str] = ()) -> Any:
        with self._noted(statement):
            return TracedBranch(self.place, statement, parts, flags).run(chosen)

    def rest(self, number: int, part: Lazy) -> None:
        """Statements behind a possible exit, which run unless one of the flags is set."""
        statement = self.statements[number]
        flags = {name: read(cell) for name, cell in cells_of(part).items() if name in statement.flags}
        if any(x is True for x in flags.values()):
            return
        traced = {name: x for name, x in flags.items() if isinstance(x, Value)}
        if not traced:
            part()
            return
        left: Any = None
        for x in traced.values():
            left = x if left is None else pointwise.or_(left, x)
        self._branch(statement, (part, None), pointwise.not_(left), list(traced))

    def if_else(self, number: int, test: Any, then: Lazy, otherwise: Lazy) -> Any:
        """`then() if test else otherwise()`."""
        chosen = condition(test)
        if chosen is not None:
            return self._branch(self.statements[number], (then, otherwise), chosen)
        return then() if test else otherwise()

    def and_(self, number: int, first: Any, *others: Lazy) -> Any:
        """`first and others[0]() and …`."""
        return self._joined(self.statements[number], True, first, others)

    def or_(self, number: int, first: Any, *others: Lazy) -> Any:
        """`first or others[0]() or …`."""
        return self._joined(self.statements[number], False, first, others)

    def _joined(self, statement: Statement, both: bool, first: Any, others: Sequence[Lazy]) -> Any:
        """`and` or `or`; each operand is computed only where Python would."""
        while others:
            chosen = condition(first)
            if chosen is not None:
                return self._traced_join(statement, both, first, others, chosen)
            if bool(first) is not both:
                return first
            first, others = others[0](), others[1:]
        return first

    def _traced_join(self, statement: Statement, both: bool, first: Any, others: Sequence[Lazy], chosen: Value) -> Any:
        more = around(lambda: self._joined(statement, both, others[0](), others[1:]), *others)
        own = around(lambda: first)
        return self._branch(statement, (more, own) if both else (own, more), chosen)

    def not_(self, x: Any) -> Any:
        """`not x`."""
        chosen = condition(x)
        return not x if chosen is None else pointwise.not_(chosen)

    def compare(self, number: int, left: Any, *parts: Any) -> Any:
        """A chain of comparisons: `left < parts[1]() < parts[3]()`."""
        right = parts[1]()
        found = OPERATORS[parts[0]](left, right)
        if len(parts) == 2:
            return found
        return self.and_(number, found, around(lambda: self.compare(number, right, *parts[2:]), *parts[3::2]))

    # ---- loops

    def while_(self, number: int, test: Lazy, body: Lazy) -> None:
        """`while test(): body()`, which also ends if a flag is set."""
        statement = self.statements[number]
        flags = [cell for name, cell in cells_of(body).items() if name in statement.flags]
        while True:
            left = _left(flags)
            if left is True:
                return
            more = True if isinstance(left, Value) else test()
            if isinstance(left, Value) or condition(more) is not None:
                break
            if not more:
                return
            body()
        cells = cells_of(test, body)
        constant: list[bool] = []

        def tested() -> Any:
            """The condition, and whether it is always true."""
            found = test()
            constant[:] = [found is True]
            return found

        def again() -> Any:
            """Whether there is another iteration."""
            return asked(self._unless(statement, flags, around(tested, test)))

        around(again, test)
        self._recorded(statement, Variables(cells, cells), body, lambda loop: loop.run_while(again))
        if constant == [True] and len(flags) == 1:
            write(flags[0], True)  # there is no other way out

    def _unless(self, statement: Statement, flags: Sequence[CellType], test: Lazy) -> Any:
        """Whether no flag is set and a condition is true."""
        return self._joined(Statement("expression", statement.line), True, self.not_(_left(flags)), (test,))

    def _recorded(
        self, statement: Statement, variables: Variables, body: Callable[..., Any], run: Callable[[TracedLoop], None]
    ) -> None:
        RECORDING.filled.append([])
        RECORDING.bounds.append(None)
        try:
            with self._noted(statement):
                run(TracedLoop(self.place, statement, variables, body))
        finally:
            RECORDING.bounds.pop()
            RECORDING.filled.pop()

    range_, enumerate_, zip_, reversed_ = map(staticmethod, (ranged, enumerated, zipped, turned))

    def for_(self, number: int, items: Any, body: Callable[[Any], None]) -> None:
        """`for item in items: body(item)`, which also ends if a flag is set."""
        statement = self.statements[number]
        if isinstance(items, TracedRange):
            self._range(number, statement, items, body)
            return
        flags = [cell for name, cell in cells_of(body).items() if name in statement.flags]
        items = rows_of(items)
        if not flags and not isinstance(items, TracedRows):
            for item in items:
                body(item)
            return
        RECORDING.filled.append([])
        try:
            self._until(number, statement, items, body, flags)
        finally:
            unfill(RECORDING.filled.pop())

    def _until(
        self,
        number: int,
        statement: Statement,
        items: Iterable[Any],
        body: Callable[[Any], None],
        flags: list[CellType],
    ) -> None:
        """A loop over known items that may end earlier, or over rows."""
        long = False
        if isinstance(items, TracedRows):
            long = is_long(items.length)
            if long and lowest(items.length) < 1:
                self._scanned(number, statement, items, body, flags)
                return
        rest, done = iter(items), 0
        for item in rest:
            body(item)
            done += 1
            left = _left(flags)
            if left is True:
                return
            if long or isinstance(left, Value):
                break
        if isinstance(items, range | TracedRows):
            later = items[done:] if isinstance(items, range) else items.later(done)
            many = long or _length(later) > FEW
            if many and self._is_scanned(number, statement, later, body, flags):
                return
        for item in rest:
            self._guarded(number, body, item, flags)

    def _is_scanned(
        self,
        number: int,
        statement: Statement,
        items: range | TracedRows,
        body: Callable[[Any], None],
        flags: list[CellType],
    ) -> bool:
        """Make a loop of the program, unless the body has none and there are few enough rows to unroll."""
        try:
            with forgiven():
                self._scanned(number, statement, items, body, flags)
        except (Error, NameError):
            if isinstance(items, range) or not isinstance(items.length, int) or items.length > MOST_UNROLLED:
                raise
            return False
        return True

    def _guarded(self, number: int, body: Callable[[Any], None], item: Any, flags: list[CellType]) -> None:
        """An iteration that runs unless a flag is set."""
        left = _left(flags)
        if isinstance(left, Value):
            part = _with_item(body, item)
            names = [name for name, cell in cells_of(body).items() if any(cell is flag for flag in flags)]
            self._branch(self.statements[number], (part, None), pointwise.not_(left), names)
        elif not left:
            body(item)

    def _scanned(
        self,
        number: int,
        statement: Statement,
        items: range | TracedRows,
        body: Callable[[Any], None],
        flags: list[CellType],
    ) -> None:
        """Iterations as one loop of the program, in which those behind an exit do nothing."""
        cells = cells_of(body)
        if isinstance(items, range):
            rows = [from_numpy(np.arange(items.start, items.stop, items.step, dtype=np.int64))]
        else:
            rows = items.arguments

        def step(*parts: Value) -> None:
            """One iteration."""
            item = staged_int(parts[0]) if isinstance(items, range) else items.item(parts)
            self._guarded(number, body, item, flags)

        around(step, body)
        self._recorded(statement, Variables(cells, cells), step, lambda loop: loop.run_scan(step, rows, _length(items)))

    def _range(self, number: int, statement: Statement, items: TracedRange, body: Callable[[Any], None]) -> None:
        """A loop over a range with traced bounds."""
        counter = CellType(
            items.start if isinstance(items.start, StagedNumber) else StagedNumber(int, number_tensor(items.start))
        )
        flags = [cell for name, cell in cells_of(body).items() if name in statement.flags]
        cells = {**cells_of(body), COUNTER: counter}
        forwards = items.step > 0

        def more() -> Any:
            """Whether an iteration is left."""
            k = counter.cell_contents
            return k < items.stop if forwards else k > items.stop

        def again() -> Any:
            """Whether there is another iteration."""
            return asked(self._unless(statement, flags, around(more)))

        def step() -> None:
            """One iteration."""
            body(counter.cell_contents)
            counter.cell_contents = counter.cell_contents + items.step

        around(step, body)
        named = replace(statement, names=(*statement.names, COUNTER))
        around(again)
        self._recorded(named, Variables(cells, cells), step, lambda loop: loop.run_while(again))

    # ---- the end of a function

    def result(self, number: int, returned: Any, value: Lazy) -> Any:
        """What a function returns after a possible exit."""
        if returned is True:
            return value()
        if isinstance(returned, Value):
            with self._noted(self.statements[number]):
                raise one_way(self.place, self.statements[number])
        return None

    # ---- other statements

    def raise_(self, number: int) -> None:
        """Refuse a `raise` that depends on traced values."""
        if RECORDING.depth:
            with self._noted(self.statements[number]):
                raise raised(self.place, self.statements[number])

    def caught_(self, number: int) -> None:
        """Refuse that a `try` catches the error of a variable without a value, if a branch or a loop is why."""
        fault = sys.exception()
        told = unbound(fault) if isinstance(fault, NameError) else None
        if told is not None:
            with self._noted(self.statements[number]):
                raise told from fault

    def assert_(self, number: int, test: Any, text: str, message: Lazy | None = None) -> None:
        """`assert test, message()`."""
        chosen = condition(test)
        if chosen is None:
            if not test:
                raise AssertionError(*([] if message is None else [message()]))
            return
        told = text if message is None else _message(message)
        shown = text if is_traced(told) else str(told)
        shown += f" ({at(self.place, self.statements[number].line)})"
        check(pointwise.cast(chosen, int64), 1, 2, "assertion", escaped(shown))

    def print_(self, function: Any, *args: Any, **kwargs: Any) -> None:
        """`print(…)`, which prints traced values when the program runs."""
        if function is not builtins.print or not (RECORDING.depth or _has_traced(args)):
            return function(*[a.form(*a.values) if isinstance(a, Text) else a for a in args], **kwargs)
        forms = [a.form if isinstance(a, Text) else None for a in args]
        values = [[_number(x) for x in a.values] if isinstance(a, Text) else [_number(a)] for a in args]

        def printed(given: Sequence[Sequence[Any]]) -> None:
            """Print the values of the running program."""
            texts = [form(*x) if form is not None else x[0] for form, x in zip(forms, given, strict=True)]
            function(*texts, **kwargs)

        host_call(printed, None, values)
        return None

    def append_(self, items: Any, item: Any) -> Any:
        """`items.append(item)`; returns the list."""
        if type(items) is AppendedList:
            return items.appended(item)
        items.append(item)
        return items

    def called_(self, number: int, function: Any, *args: Any, **kwargs: Any) -> Any:
        """`function(…)`, where its name is that of a built-in function."""
        own = CALLED.get(id(function))
        if own is None:
            return function(*args, **kwargs)
        return own(partial(self._choice, number), args, kwargs)

    def _choice(self, number: int, test: Any, yes: Any, no: Any) -> Any:
        return self.if_else(number, test, around(lambda: yes), around(lambda: no))

    def decided_(self, number: int, function: Any, items: Any, value: Any, test: Any = None) -> Any:
        """`any(value(x) for x in items if test(x))` or `all(…)`; no item behind the one that decides is computed."""
        if function not in (builtins.any, builtins.all):
            return function(value(x) for x in items if test is None or test(x))
        ends = function is builtins.any
        found: Any = not ends
        for item in items:
            one = around(partial(self._one, number, ends, item, value, test), value, test)
            found = self._joined(self.statements[number], not ends, found, (one,))
            if found is ends:
                break
        return found

    def _one(self, number: int, ends: bool, item: Any, value: Any, test: Any) -> Any:
        """Whether an item decides, or the opposite."""
        more = around(lambda: _truth(value(item)), value)
        return more() if test is None else self.if_else(number, test(item), more, around(lambda: not ends))

    def super_(self, function: Any, cls: Any, first: Any) -> Any:
        """`super()` in a method of a class, of its first argument."""
        return cast("Any", super(cls, first)) if function is super else function()

    def text(self, form: Callable[..., str], *values: Any) -> Any:
        """A formatted text in a `print`."""
        return Text(form, values)


def _message(of: Lazy) -> Any:
    """The message of an `assert`; in a text, traced values have their types."""
    found, REQUESTS.found = REQUESTS.found, None
    try:
        return of()
    finally:
        REQUESTS.found = found


def _truth(x: Any) -> Any:
    chosen = condition(x)
    return bool(x) if chosen is None else chosen


def _has_traced(args: Sequence[Any]) -> bool:
    """Whether arguments of a `print` have values that only the running program knows."""
    leaves = [x for a in args for x in (a.values if isinstance(a, Text) else [a])]
    return any(map(is_traced, tree.flatten(leaves)[0]))


def _length(items: range | TracedRows) -> Size:
    return len(items) if isinstance(items, range) else items.length


def _left(flags: Sequence[CellType]) -> Any:
    """Whether an exit was taken: True, False, or a traced bool."""
    found: Any = False
    for cell in flags:
        x = read(cell)
        if x is True:
            return True
        if isinstance(x, Value):
            found = x if found is False else pointwise.or_(found, x)
    return found


def _number(x: Any) -> Any:
    return x.held if type(x) is StagedNumber else x


def _with_item(body: Callable[[Any], None], item: Any) -> Lazy:
    """The iteration of an item as a part."""
    return around(lambda: body(item), body)
