"""Side effects of Python code that is recorded for a program: changes of objects that exist before."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any, Final

from nacre.transform.autograph.cells import cells_of, users_parts
from nacre.transform.autograph.contents import SKIPPED, Contents, contents, leads_to, named_by

MOST: Final = 3000  # objects that are watched, the nearest ones first


class SideEffects:
    """The contents of the objects that a part of a function can reach, before it runs.

    The variables of the part itself, with these names, are results: they may change.
    """

    def __init__(self, part: Any, names: frozenset[str]) -> None:
        cells = cells_of(part)
        self.skipped = frozenset(id(cell) for name, cell in cells.items() if name in names)
        self.before: list[tuple[Any, Contents, str]] = []  # object, its contents, the name that leads to it
        seen = set[int]()
        waiting = deque((value, name) for f in users_parts(part) for name, value in named_by(f))
        while waiting and len(seen) < MOST:
            value, name = waiting.popleft()
            if isinstance(value, SKIPPED) or id(value) in seen:
                continue
            seen.add(id(value))
            held = contents(value, self.skipped)
            if held is not None:
                self.before.append((value, held, name))
            waiting.extend((x, name) for x in leads_to(value, held))

    def changed(self) -> Iterator[tuple[str, Any, str]]:
        """The names that lead to changed objects, these, and what in them; they get their contents back."""
        for value, held, name in self.before:
            now = contents(value, self.skipped)
            if now is not None and held.differs(now):
                which = held.first(now)
                if held.restore is not None:
                    held.restore(held.items)
                yield name, value, which
