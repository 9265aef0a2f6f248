"""Debug mode: a kernel that also records indices outside of arrays, and elements that several rounds share.

The rounds of parallel loops run in order.  Each access that is not provably inside has a scalar for an index outside.
Each output of a parallel loop has the number of the round that stored each element, and of the round that read it.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import field

from nacre.base.dims import Size, lower
from nacre.base.dtypes import int64
from nacre.base.records import dataclass
from nacre.kernel.ast import (
    Buffer,
    Expr,
    For,
    If,
    Index,
    Load,
    Stmt,
    Store,
    apply,
    const,
    index_add,
    index_mul,
    size_expr,
)

MANY = const(-1)  # the reader of an element that several rounds read


@dataclass(frozen=True)
class RecordedCheck:
    """What must hold for a scalar that a kernel records: it is in [low, high)."""

    buffer: str
    low: Size
    high: Size
    text: str


@dataclass
class Recorder:
    """The statements that record faults; `name` is the kernel's and `file` that of its source."""

    name: str
    file: str
    origins: Mapping[int, tuple[Stmt, ast.AST]]
    outputs: Mapping[str, Buffer]
    rounds: Expr | None = None  # the number of the round in progress, from 1; None outside of parallel loops
    checks: list[RecordedCheck] = field(default_factory=list[RecordedCheck])
    owners: dict[str, Buffer] = field(default_factory=dict[str, Buffer])

    @property
    def buffers(self) -> list[Buffer]:
        """The outputs that it adds: those of checks first."""
        return [*(Buffer(c.buffer, int64, ()) for c in self.checks), *self.owners.values()]

    def begin(self) -> list[Stmt]:
        """The statements at the beginning: nothing is wrong yet."""
        return [Store(c.buffer, (), const(0)) for c in self.checks]

    def line(self, s: Stmt) -> int:
        """The line that a statement comes from."""
        return getattr(self.origins[id(s)][1], "lineno", 0) if id(s) in self.origins else 0

    def outside(self, s: Stmt, buffer: str, axis: int, size: Size, e: Expr) -> Sequence[Stmt]:
        """Record an index that is outside of its axis."""
        place = f"outside_{len(self.checks)}"
        where = f"kernel {self.name} ({self.file}:{self.line(s)})"
        advice = "write a condition around the access, or correct the range"
        value, high, counted = e, size, ""
        if lower(size) < 1:  # 0 says that nothing is wrong, but may be outside
            value, high = apply("select", apply("ge", e, const(0)), index_add(e, const(1)), e), size + 1
            counted = ", counted from 1,"
        required = f"an index of axis {axis} of {buffer}{counted} must be in [{{low}}, {{high}})"
        self.checks.append(RecordedCheck(place, size * -1, high, f"{where}: {required}; got {{got}}; {advice}"))
        return [If(apply("eq", Load(place, (), int64), const(0)), (Store(place, (), value),))]

    def used(self, s: Stmt, buffer: str, index: Sequence[Expr], stores: bool) -> list[Stmt]:
        """Record a use of an element of an output by the round in progress."""
        if self.rounds is None or buffer not in self.outputs:
            return []
        b = self.outputs[buffer]
        writers, readers = f"{buffer}_writers", f"{buffer}_readers"
        for name in (writers, readers):
            self.owners[name] = Buffer(name, int64, b.shape)
        places, me = tuple(index), self.rounds
        wrote, read = (Load(n, places, int64) for n in (writers, readers))
        found = [If(_of_others(wrote, me), (self._race(s, buffer, me),))]
        if not stores:
            kept = apply("select", _of_others(read, me), MANY, me)
            return [*found, Store(readers, places, kept)]
        return [*found, If(_of_others(read, me), (self._race(s, buffer, me),)), Store(writers, places, me)]

    def _race(self, s: Stmt, buffer: str, me: Expr) -> Stmt:
        place = f"shared_{buffer}_{self.line(s)}"
        if all(c.buffer != place for c in self.checks):
            text = (
                f"kernel {self.name} ({self.file}:{self.line(s)}): rounds of a parallel loop must use different "
                f"elements of {buffer}; got round {{got}} (the first is 1), which uses one of another; index it by the "
                "loop's own counter, or write range"
            )
            self.checks.append(RecordedCheck(place, 0, 1, text))
        return Store(place, (), me)

    def inside(self, s: For) -> Expr | None:
        """The number of the round inside of a loop."""
        if not s.parallel:
            return self.rounds
        before = const(0) if self.rounds is None else apply("sub", self.rounds, const(1))
        return index_add(index_add(index_mul(before, size_expr(s.extent)), Index(s.index)), const(1))


def _of_others(owner: Expr, me: Expr) -> Expr:
    return apply("and", apply("ne", owner, const(0)), apply("ne", owner, me))
