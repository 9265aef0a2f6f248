"""The lists that a statement of the program appends to: they get room first, and their items behind it."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from typing import Any, cast

from nacre.base.dims import Size
from nacre.transform.autograph.appends import AppendedList, Meter, enlarged, has_one_name, room
from nacre.transform.autograph.cells import Variables, read
from nacre.transform.autograph.messages import append_refused, at, shared
from nacre.transform.autograph.parts import RECORDING
from nacre.transform.autograph.statements import SourcePlace, Statement


class Filling:
    """The lists that a statement appends to."""

    def __init__(self, place: SourcePlace, statement: Statement, variables: Variables) -> None:
        self.place, self.statement, self.variables = place, statement, variables
        self.own: dict[str, Any] = {}  # of this level of the function: lists, and those that other statements filled
        depth = RECORDING.depth + 1
        for name in sorted({w.root for w in statement.writes if w.text == f"{w.root}.append"}):
            cell = variables.cells.get(name)
            alone = cell is not None and has_one_name(cell)
            value: Any = None if cell is None else read(cell)
            if type(value) is list or (type(value) is AppendedList and value.meter.depth == depth):
                if not alone:
                    raise shared(place, statement, name)
                self.own[name] = value
        self.meters = {
            name: Meter(depth, value, f"`{name}` ({at(place, self.line(name))})") for name, value in self.own.items()
        }

    def probes(self) -> dict[str, AppendedList]:
        """Lists without room, to count their new items."""
        return {
            name: AppendedList(self.meters[name], None, value.count if type(value) is AppendedList else len(value))
            for name, value in self.own.items()
        }

    def rooms(self, most: Size | None) -> dict[str, Any]:
        """The lists with room for the new items of this number of iterations; those without an append as they were."""
        found: dict[str, Any] = {}
        for name, value in self.own.items():
            meter = self.meters[name]
            if meter.type is None or meter.appends == 0:
                found[name] = value
                continue
            if most is None:
                raise append_refused(self.place, self.statement, self.line(name), name)
            more = meter.appends * most
            if type(value) is AppendedList:
                found[name] = AppendedList(meter, enlarged(value, more), value.count)
            else:
                found[name] = AppendedList(meter, room(value, meter, len(value) + more), len(value))
        return found

    def line(self, name: str) -> int:
        """The first line that appends to a list."""
        return next((w.line for w in self.statement.writes if w.text == f"{name}.append"), self.statement.line)

    @contextmanager
    def restored(self) -> Generator[None]:
        """Where the block fails, the variables have their lists again."""
        try:
            yield
        except BaseException:
            self.variables.set(self.own)
            raise

    def end(self, is_counted: bool) -> None:
        """Give lists their items, if their number is known."""
        for name, before in self.own.items():
            found = read(self.variables.cells[name])
            if type(found) is not AppendedList or found.held is None or found is before:
                continue
            size = found.held.type.shape[0]
            found.is_full = is_counted and not found.meter.is_conditional and type(before) is list
            if found.is_full and isinstance(size, int):
                held: Any = found.held
                cast("list[Any]", before).extend(
                    [found.meter.item(held[k]) for k in range(len(cast("list[Any]", before)), size)]
                )
                self.variables.set({name: before})
            found.is_open = False


def meters_of(variables: Variables) -> list[Meter]:
    """The meters of the lists that variables hold."""
    return [x.meter for x in variables.values().values() if type(x) is AppendedList]


def measured(meters: Iterable[Meter], record: Callable[[], Any]) -> tuple[Any, dict[Meter, tuple[Size, bool]]]:
    """The result of a recording, and for each list how often it appends, and whether only on some paths.

    The meters are as before.
    """
    before = [(m, m.appends, m.is_conditional) for m in meters]
    for m, *_ in before:
        m.appends, m.is_conditional = 0, False
    try:
        result = record()
        found = {m: (m.appends, m.is_conditional) for m, *_ in before}
    finally:
        for m, appends, conditional in before:
            m.appends, m.is_conditional = appends, conditional
    return result, found
