"""What the run-time functions know of a converted statement."""

from __future__ import annotations

from nacre.base.records import dataclass
from nacre.transform.autograph.scopes import Write


@dataclass(frozen=True)
class Statement:
    """A statement or expression of a user's function that became a call: its place, and the names that it concerns."""

    kind: str  # if, while, for, expression, raise, assert or rest: all behind a possible exit
    line: int
    names: tuple[str, ...] = ()  # bound in it
    outside: tuple[str, ...] = ()  # of them, those that are global or of an enclosing function
    writes: tuple[Write, ...] = ()
    flags: tuple[str, ...] = ()  # the names that say that the rest of a block, or another iteration, must not run
    exits: tuple[str, ...] = ()  # those of loops around it
    returned: str = ""  # the name that says whether the function has returned
    result: str = ""  # the name of the function's result


@dataclass(frozen=True)
class SourcePlace:
    """The function that was converted."""

    name: str
    file: str
