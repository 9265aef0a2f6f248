"""Timelines: runs of units in order, some of them again, and the memory that their values take over time."""

from __future__ import annotations

from collections.abc import Set as AbstractSet

import numpy as np

from nacre.base.cached_property import cached_property
from nacre.base.records import dataclass
from nacre.compile.recomputation.units import UnitProgram


@dataclass(frozen=True, slots=True, eq=False)
class UnitRun:
    """One run of a unit: the copies of values that it reads and writes.

    Runs of one `event` compute values again together; it is −1 where the program runs the unit in any case.
    """

    unit: int
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    event: int


@dataclass(frozen=True, eq=False)
class Timeline:
    """Runs in order.  `values` has the program's value of each copy; the program's own values come first."""

    program: UnitProgram
    runs: tuple[UnitRun, ...]
    values: tuple[int, ...]

    @cached_property
    def span(self) -> tuple[list[int], list[int]]:
        """For each copy the run that writes it, and the last one that reads or writes it; −1 for none."""
        made, last = [-1] * len(self.values), [-1] * len(self.values)
        for k, run in enumerate(self.runs):
            for c in run.reads:
                last[c] = k
            for c in run.writes:
                made[c] = last[c] = k
        return made, last

    @property
    def made(self) -> list[int]:
        """For each copy the run that writes it; −1 for inputs and unused copies."""
        return self.span[0]

    @cached_property
    def live(self) -> np.ndarray:
        """The bytes of all copies that are in memory during each run."""
        change = np.zeros(len(self.runs) + 1, np.int64)
        (made, last), nbytes, units = self.span, self.program.nbytes, self.program.units
        for k, run in enumerate(self.runs):
            over = [nbytes[self.values[c]] for c in run.writes] if units[run.unit].pointwise else []
            for c in run.writes:
                size = nbytes[self.values[c]]
                change[k] += size
                change[max(last[c], k) + 1] -= size
            if over:
                for c in run.reads:
                    size = nbytes[self.values[c]]
                    if size and last[c] == k and size in over and made[c] >= 0:  # the result is written over it
                        over.remove(size)
                        change[k] -= size
                        change[k + 1] += size
        return np.cumsum(change[:-1])

    @cached_property
    def peak(self) -> int:
        """The most bytes at one time."""
        return int(self.live.max(initial=0))

    @cached_property
    def work(self) -> int:
        """The work of all runs."""
        return sum(self.program.units[run.unit].work for run in self.runs)

    def excess(self, budget: int) -> int:
        """How much is above a budget, summed over all runs."""
        return int(np.maximum(self.live - budget, 0).sum())

    def crossing(self, boundary: int) -> list[int]:
        """The copies that are written before a run and read at it or later, in the order in which they are made."""
        made, last = self.span
        found = [c for c in range(len(self.values)) if 0 <= made[c] < boundary <= last[c]]
        return sorted(found, key=made.__getitem__)

    @cached_property
    def droppable(self) -> frozenset[int]:
        """The copies that take more than a little memory and may be computed again."""
        program, made = self.program, self.made
        return frozenset(
            c
            for c, value in enumerate(self.values)
            if made[c] >= 0
            and program.nbytes[value] >= program.little
            and program.units[self.runs[made[c]].unit].repeatable
        )

    def with_only(self, kept: AbstractSet[int], boundary: int) -> Timeline:
        """The timeline in which only the copies `kept` are in memory across a boundary.

        Runs behind it that read another one get a new copy, computed when it is first read.  Copies that cannot be
        computed again are there, too.
        """
        return _Rewriting(self, kept, boundary).run()


def timeline_of(program: UnitProgram) -> Timeline:
    """The timeline in which each unit runs once."""
    runs = tuple(UnitRun(k, u.reads, u.writes, -1) for k, u in enumerate(program.units))
    return Timeline(program, runs, tuple(range(len(program.values))))


def with_early_ends(line: Timeline) -> Timeline:
    """The timeline in which runs that free more memory than they take come as soon as their operands are there.

    An example is the update of a parameter by a sum.  A run stays behind the other readers of values that it frees, and
    of an input that it may overwrite.
    """
    program, (made, last) = line.program, line.span
    given = len(program.graph.inputs)
    keys: list[tuple[int, ...]] = []  # of runs, in whose order they come
    readers: dict[int, list[int]] = {}  # of copies, so far
    for k, run in enumerate(line.runs):
        ending = [c for c in run.reads if last[c] == k]
        ended = sum(program.nbytes[line.values[c]] for c in ending)
        taken = sum(program.nbytes[line.values[c]] for c in run.writes)
        if ended > taken and program.units[run.unit].repeatable:
            before = [made[c] for c in run.reads if made[c] >= 0]
            types = {program.values[line.values[c]].type for c in run.writes}
            inputs = [c for c in run.reads if c < given and program.values[c].type in types]
            before += [r for c in (*ending, *inputs) for r in readers.get(c, ())]
            keys.append((*max((keys[r] for r in before), default=(-1,)), k))
        else:
            keys.append((k,))
        for c in run.reads:
            readers.setdefault(c, []).append(k)
    order = sorted(range(len(keys)), key=keys.__getitem__)
    return Timeline(program, tuple([line.runs[k] for k in order]), line.values)


class _Rewriting:
    """The construction of a timeline in which some copies do not cross a boundary."""

    def __init__(self, line: Timeline, kept: AbstractSet[int], boundary: int) -> None:
        self.line, self.boundary = line, boundary
        self.values = list(line.values)
        self.runs: list[UnitRun] = list(line.runs[:boundary])
        self.again: dict[int, int] = {}  # copy from before the boundary -> its new copy
        self.event = max((run.event for run in line.runs), default=-1)
        self.gone = {c for c in line.droppable if line.made[c] < boundary and c not in kept}

    def run(self) -> Timeline:
        """The new timeline, without runs whose results are not read."""
        for run in self.line.runs[self.boundary :]:
            if self.gone and not self.gone.isdisjoint(run.reads):
                self.event += 1
                self.compute(self.gone.intersection(run.reads))
            if self.again and not self.again.keys().isdisjoint(run.reads):
                reads = tuple([self.again.get(c, c) for c in run.reads])
                run = UnitRun(run.unit, reads, run.writes, run.event)
            self.runs.append(run)
        return Timeline(self.line.program, self.needed(), tuple(self.values))

    def compute(self, wanted: AbstractSet[int]) -> None:
        """Append the runs that compute some copies again, in their order."""
        needed: set[int] = set()
        todo = list(wanted)
        while todo:
            made = self.line.made[todo.pop()]
            if made not in needed:
                needed.add(made)
                todo += self.gone.intersection(self.line.runs[made].reads)
        for made in sorted(needed):
            run = self.line.runs[made]
            reads = tuple([self.again.get(c, c) for c in run.reads])
            start = len(self.values)
            self.values += [self.line.values[c] for c in run.writes]
            writes = tuple(range(start, len(self.values)))
            self.runs.append(UnitRun(run.unit, reads, writes, self.event))
            for c, new in zip(run.writes, writes, strict=True):
                if c in self.gone:
                    self.gone.discard(c)
                    self.again[c] = new

    def needed(self) -> tuple[UnitRun, ...]:
        """The runs whose results are read or are results of the program, and those with effects."""
        program, read = self.line.program, set[int]()
        kept: list[UnitRun] = []
        for run in reversed(self.runs):
            always = run.event < 0 and run.unit in program.lasting
            if always or not read.isdisjoint(run.writes):
                kept.append(run)
                read.update(run.reads)
        kept.reverse()
        return tuple(kept)
