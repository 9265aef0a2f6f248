"""The verifier of plans: it runs a plan on tags instead of numbers and tracks the value last written to each place.

No value may be read before it is written, or overwritten before its last read.  Launches between two barriers must not
access memory that another one of them writes, and a host call runs alone.  A loop runs for three iterations, which are
enough for carries that alternate between places; a branch runs on both of its sides.  Liveness and barriers are not
taken from the code that lays out the plan.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field

from nacre.base.dims import LIMIT, Dim, Size, evaluate
from nacre.base.errors import CompileError
from nacre.base.records import dataclass
from nacre.runtime.flow import UNKNOWN_TRIPS, DriverRow, Loop
from nacre.runtime.layouts import RowKind
from nacre.runtime.plan import Plan, aligned, arena, holder
from nacre.runtime.plan_text import plan_lines, value_names

ROUNDS = 3  # iterations of a loop: the first, the next, and one that has the carries in the first one's places
UNBOUNDED = 64  # the value assumed for a size without a maximum
AROUND = 3  # lines shown before and after a fault

Span = tuple[int, int]  # the first byte, and the one after the last
Held = tuple[int, tuple[Span, ...]]  # the value that a place holds, and the bytes of it that have been written


def verify_plan(plan: Plan) -> None:
    """Check a plan, for the least and for the greatest sizes.

    Raises CompileError that names the fault and shows the lines around it.
    """
    for sizes in _sizes(plan):
        checker = _Checker(plan, sizes)
        try:
            checker.check()
        except _Fault as fault:
            raise CompileError(f"plan: {fault}\n{_excerpt(plan, sizes, checker.row)}") from None


class _Fault(Exception):
    """A rule that the plan breaks."""


@dataclass(frozen=True)
class _Access:
    """An access of a launch to one value: its place, the value that it belongs to, and the bytes."""

    value: int
    place: int
    whole: int
    span: Span


@dataclass
class _Checker:
    """Runs the rows of a plan and tracks what each place holds."""

    plan: Plan
    sizes: Mapping[str, int]
    row: int = 0
    held: dict[int, Held] = field(default_factory=dict[int, Held])
    moved: dict[int, int] = field(default_factory=dict[int, int])  # swapped values, and whose places they have
    running: list[tuple[list[_Access], list[_Access]]] = field(
        default_factory=list[tuple[list[_Access], list[_Access]]]
    )  # the reads and writes of the launches since the last barrier
    stopping: bool = False  # whether the program may end behind the last launch

    def check(self) -> None:
        """Run the whole plan, then read its outputs."""
        self.rows: Sequence[DriverRow] = self.plan.rows
        once = sorted(row.step for row in self.rows if row.kind is RowKind.LAUNCH)
        if once != list(range(len(self.plan.steps))):
            raise _Fault(f"each launch must be in one row; the rows have {once}")
        self.bytes = [evaluate(s.nbytes, self.sizes) for s in self.plan.values]
        self.trips: dict[int, int] = {}
        self.beside = self.neighbours()
        for v, storage in enumerate(self.plan.values):
            if storage.kind in ("input", "constant", "packed"):
                self.held[v] = v, ((0, self.bytes[v]),)
        self.run(0, len(self.rows))
        self.row = len(self.rows)
        for v in range(self.plan.inputs, self.plan.inputs + self.plan.outputs):
            self.read(self.access(v, ()))

    def neighbours(self) -> dict[int, frozenset[int]]:
        """For each place, the others that share bytes with it, or may: in the arena, or by donation."""
        offsets, _ = arena(self.plan, self.sizes)
        spans = sorted((at, at + aligned(self.bytes[v]), v) for v, at in offsets.items() if self.bytes[v])
        pairs = [(self.plan.inputs + output, given) for output, given in self.plan.donations]
        found: dict[int, set[int]] = {v: set() for v in (*offsets, *(v for pair in pairs for v in pair))}
        for a, b in pairs:
            found[a].add(b)
            found[b].add(a)
        open_: list[tuple[int, int, int]] = []
        for start, end, v in spans:
            open_ = [s for s in open_ if s[1] > start]
            for _, _, other in open_:
                found[v].add(other)
                found[other].add(v)
            open_.append((start, end, v))
        return {v: frozenset(others) for v, others in found.items()}

    # ---- rows

    def run(self, k: int, end: int) -> None:
        """Run the rows from `k` to before `end`."""
        while k < end:
            self.row, row = k, self.rows[k]
            if row.sync:
                self.running.clear()
            k += 1
            if row.kind is RowKind.LAUNCH:
                self.launch(row)
            elif row.kind is RowKind.ENTER:
                assert row.loop is not None
                self.loop(row, row.loop, k)
                k = row.past
            elif row.kind is RowKind.BRANCH:
                self.read(self.access(row.cell, row.inside))
                k = self.branch(row, k)

    def branch(self, row: DriverRow, k: int) -> int:
        """Run both sides of a branch from the same state; only contents that both sides leave are valid afterwards."""
        jumps = row.target > k and self.rows[row.target - 1].kind is RowKind.JUMP
        end = self.rows[row.target - 1].target if jumps else row.target
        before = dict(self.held)
        self.run(k, row.target - 1 if jumps else row.target)
        after, self.held = self.held, before
        self.running.clear()
        self.run(row.target, end)
        self.held = _common(after, self.held)
        return end

    def loop(self, row: DriverRow, loop: Loop, top: int) -> None:
        """Run a loop: some iterations, and none at all where that is possible, then its `epilogue`."""
        turn = row.target - 1
        trips = evaluate(loop.most(UNKNOWN_TRIPS), self.sizes)
        self.trips[loop.number] = max(trips, 0)
        test = next((k for k in range(top, turn) if self._leaves(k, turn)), -1)
        first: dict[int, Held] | None = None
        outside, handed = dict(self.moved), {v for pair in loop.swaps for v in pair}
        for _ in range(min(ROUNDS, self.trips[loop.number])):
            if test >= 0:
                self.run(top, test)
                self.read_condition(test)
                first = first or dict(self.held)
            self.run(test + 1 if test >= 0 else top, turn)
            self.row = turn
            self.running.clear()
            self.swap(loop)
        if test >= 0:
            self.run(top, test)
            self.read_condition(test)
        ends = [(self.held, self.moved)]
        if first is not None:
            ends.append((first, dict(outside)))
        left: list[dict[int, Held]] = []
        for self.held, self.moved in ends:
            self.running.clear()
            self.run(row.target, row.past)
            self.moved = dict(outside)
            left.append({p: held for p, held in self.held.items() if held[0] not in handed})
        self.held = left[0] if len(left) == 1 else _common(*left)

    def _leaves(self, k: int, turn: int) -> bool:
        """Whether a row is the exit of a loop without a number of trips."""
        return self.rows[k].kind is RowKind.BRANCH and self.rows[k].target == turn + 1

    def read_condition(self, test: int) -> None:
        """Read the value that decides whether there is another iteration."""
        self.row = test
        self.running.clear()
        self.read(self.access(self.rows[test].cell, self.rows[test].inside))

    def swap(self, loop: Loop) -> None:
        """Swap the places of carries: the next iteration reads this one's results; the values that it read die."""
        for a, b in loop.swaps:
            here, there = self.place(a), self.place(b)
            made = self.held.pop(there, None)
            self.held.pop(here, None)
            self.moved[a], self.moved[b] = self.moved.get(b, b), self.moved.get(a, a)
            if made is not None and made[0] == b:
                self.held[self.place(a)] = a, made[1]

    # ---- launches

    def launch(self, row: DriverRow) -> None:
        """Check a launch's reads and its conflicts with concurrent launches, and record its writes."""
        step = self.plan.steps[row.step]
        reads = [self.access(v, row.inside) for v in step.reads]
        writes = [self.access(v, row.inside) for v in step.writes]
        for x in reads:
            self.read(x)
        for x in reads:
            for y in writes:
                if self.overlap(x, y) and x.value != y.value and (x.value, y.value) not in step.over:
                    over = f"{self.name(y.value)} is over {self.name(x.value)}"
                    raise _Fault(f"a launch must not write over what it reads; {over}")
        if self.running and (step.may_stop or self.stopping):
            raise _Fault("barriers must separate a host call or a check from all other launches")
        self.stopping = step.may_stop
        for theirs_read, theirs_written in self.running:
            self.require_disjoint(reads, theirs_written)
            self.require_disjoint(writes, theirs_read)
            self.require_disjoint(writes, theirs_written)
        self.running.append((reads, writes))
        for y in writes:
            self.write(y)

    def read(self, x: _Access) -> None:
        """Check that the place holds the value that is read."""
        if x.span[0] >= x.span[1] or self.plan.values[x.whole].kind == "constant":
            return
        found = self.held.get(x.place)
        if found is None:
            why = "nothing has been written there"
        elif found[0] != x.whole:
            why = f"there is {self.name(found[0])}"
        elif not any(a <= x.span[0] and x.span[1] <= b for a, b in found[1]):
            why = "only some bytes of it have been"
        else:
            return
        raise _Fault(f"{self.name(x.value)} must be written before it is read; {why}")

    def write(self, y: _Access) -> None:
        """Record that a place holds a value, or more of it, and that its previous contents are overwritten."""
        if self.plan.values[y.whole].kind not in ("temporary", "output"):
            raise _Fault(f"a launch must write a temporary or an output; {self.name(y.value)} is neither")
        found = self.held.get(y.place)
        before = found[1] if found is not None and found[0] == y.whole else ()
        self.held[y.place] = y.whole, _joined((*before, y.span))
        if y.span[0] < y.span[1]:
            for other in self.beside.get(y.place, ()):
                self.held[other] = y.whole, ()

    def require_disjoint(self, ours: Sequence[_Access], theirs: Sequence[_Access]) -> None:
        """Check that accesses without a barrier between them share no bytes."""
        for x in ours:
            for y in theirs:
                if self.overlap(x, y):
                    names = f"{self.name(x.value)} and {self.name(y.value)}"
                    raise _Fault(f"a barrier must separate launches that touch the same memory, {names}")

    def overlap(self, x: _Access, y: _Access) -> bool:
        """Whether two accesses may share bytes."""
        if x.place != y.place:
            return y.place in self.beside.get(x.place, ())
        return x.span[0] < y.span[1] and y.span[0] < x.span[1]

    # ---- places of values

    def access(self, value: int, inside: Sequence[Loop]) -> _Access:
        """A value with its place, and its bytes in all iterations of the enclosing loops."""
        low, high, v = 0, self.bytes[value], value
        while self.plan.values[v].kind == "part":
            part = self.plan.values[v]
            at = evaluate(part.offset, self.sizes)
            if part.loop >= 0:
                way = evaluate(part.stride, self.sizes) * max(self.trips.get(part.loop, 1) - 1, 0)
                low, high = low + min(way, 0), high + max(way, 0)
            low, high, v = low + at, high + at, part.of
        if self.plan.values[v].kind == "input":  # it may be strided; these are the bytes of a dense one
            low, high = max(low, 0), min(high, self.bytes[v])
        if self.bytes[value] and (low < 0 or high > self.bytes[v]):
            raise _Fault(f"{self.name(value)} must lie within {self.name(v)}")
        return _Access(value, self.place(v), v, (low, high) if self.bytes[value] else (low, low))

    def place(self, value: int) -> int:
        """The value in whose memory a value is stored now."""
        value = self.moved.get(holder(self.plan.values, value), holder(self.plan.values, value))
        return self.plan.root(value)

    def name(self, value: int) -> str:
        """A value as the printed plan names it."""
        return value_names(self.plan, arena(self.plan, self.sizes)[0])[value]


def _joined(spans: Sequence[Span]) -> tuple[Span, ...]:
    """The spans in order; those that touch are merged."""
    found: list[Span] = []
    for start, end in sorted(spans):
        if found and start <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], end)
        else:
            found.append((start, end))
    return tuple(found)


def _common(a: Mapping[int, Held], b: Mapping[int, Held]) -> dict[int, Held]:
    """The contents that places have in both of two states."""
    return {place: held for place, held in a.items() if b.get(place) == held}


def _symbolic(plan: Plan) -> Iterator[Size]:
    """The sizes of a plan that may have symbols."""
    for storage in plan.values:
        yield from (storage.nbytes, storage.offset, storage.stride)
    for row in plan.rows:
        if row.kind is RowKind.ENTER and row.loop is not None and row.loop.trips is not None:
            yield row.loop.trips


def _sizes(plan: Plan) -> Iterator[dict[str, int]]:
    """The greatest and the least value of each symbol of a plan; one empty table if there is none."""
    symbols = {s.name: s for size in _symbolic(plan) if isinstance(size, Dim) for s in size.symbols()}
    yield {n: max(s.low, UNBOUNDED) if s.high >= LIMIT else s.high for n, s in symbols.items()}
    if symbols:
        yield {n: s.low for n, s in symbols.items()}


def _excerpt(plan: Plan, sizes: Mapping[str, int], row: int) -> str:
    shown = list(plan_lines(plan, sizes))
    at = max((k for k, (_, of) in enumerate(shown) if of == row), default=0)
    first = max(0, at - AROUND)
    return "\n".join(
        f"{'>' if k == at else ' '} {text}" for k, (text, _) in enumerate(shown[first : at + AROUND + 1], first)
    )
