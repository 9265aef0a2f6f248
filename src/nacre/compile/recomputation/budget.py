"""Compilation under a memory budget: programs that recompute are planned until the plan's intermediate values fit."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Final

from nacre.base.errors import OutOfMemory
from nacre.base.progress import progress
from nacre.base.records import dataclass
from nacre.compile.compilation import Compilation
from nacre.compile.recomputation.rewrite import graph_of
from nacre.compile.recomputation.search import fitted, least
from nacre.compile.recomputation.timeline import Timeline, timeline_of, with_early_ends
from nacre.compile.recomputation.units import program_of
from nacre.runtime.plan import arena
from nacre.runtime.recomputation import RecomputationChoice, RecomputedValue

PLANNED: Final = 5  # programs that are planned for one budget, beside that without recomputation
CLOSE: Final = 0.97  # the share of the budget that a plan should use if another one is to be tried cheaply
CHEAP: Final = 600  # equations up to which a second plan is tried to use the budget better
MARGIN: Final = 0.99


@dataclass(frozen=True)
class _Planned:
    """A program with a plan, the bytes of its intermediate values, and the timeline from which it was written."""

    compilation: Compilation
    nbytes: int
    line: Timeline


def compile_within(c: Compilation, budget: int) -> Compilation:
    """The finished compilation of a program whose intermediate values fit the budget.

    Raises OutOfMemory, with the least budget that recomputation reaches, if they do not.
    """
    c.run("nchwc-layout")
    start = _planned(c, None)
    found = start if start.nbytes <= budget else _Fitting(c, start, budget).run()
    chosen = found.compilation
    assert chosen.plan is not None
    chosen.plan = replace(chosen.plan, recomputation=_choice(found, start, budget))
    return chosen.run(first="linking")


def _planned(c: Compilation, line: Timeline | None) -> _Planned:
    """A program of the timeline, or without one as it is, with its plan."""
    graph = c.graph if line is None else graph_of(line)
    trial = replace(c, graph=graph).run("scheduling", first="fusion")
    assert trial.plan is not None
    nbytes = arena(trial.plan, {})[1]
    return _Planned(trial, nbytes, timeline_of(program_of(trial)) if line is None else line)


class _Fitting:
    """The plans that are tried for one budget."""

    def __init__(self, c: Compilation, start: _Planned, budget: int) -> None:
        self.c, self.start, self.budget = c, start, budget
        self.line = with_early_ends(start.line)
        self.tried: list[_Planned] = []

    def run(self) -> _Planned:
        """The plan with the least work that fits."""
        scale = self.start.nbytes / max(1, self.start.line.peak)
        target = int(self.budget / scale)
        for _ in range(PLANNED):
            line = fitted(self.line, target)
            if line is None:
                break
            found = self.attempt(line)
            if found.nbytes <= self.budget:
                if found.nbytes >= self.budget * CLOSE or len(self.c.graph.equations) > CHEAP:
                    break
                target = max(target + 1, min(int(target * self.budget / found.nbytes), self.line.peak))
            else:
                target = min(target - 1, int(target * MARGIN * self.budget / found.nbytes))
        fitting = [p for p in self.tried if p.nbytes <= self.budget]
        if not fitting:
            last = self.attempt(least(self.line))
            if last.nbytes > self.budget:
                raise self.refusal(last)
            fitting = [last]
        return min(fitting, key=lambda p: (p.line.work, p.nbytes))

    def attempt(self, line: Timeline) -> _Planned:
        """The plan of a timeline."""
        progress("recomputation, plan", len(self.tried) + 1)
        found = _planned(self.c, line)
        self.tried.append(found)
        return found

    def refusal(self, last: _Planned) -> OutOfMemory:
        """The error for a budget that is too small."""
        return OutOfMemory(
            f"jit: memory_budget must be at least {last.nbytes:,} bytes for the intermediate values of "
            f"{self.c.source.name}, of which as much as possible is computed again; got {self.budget:,} bytes; without "
            f"a budget they take {self.start.nbytes:,} bytes; raise the budget, or lower the batch size"
        )


def _choice(found: _Planned, start: _Planned, budget: int) -> RecomputationChoice:
    """The values of the plan that are computed again, and their cost."""
    program = found.line.program
    producer = {v: e for e in program.graph.equations for v in e.outputs}
    counts: Counter[tuple[str, str, str, int]] = Counter()
    read = {c for run in found.line.runs for c in run.reads}
    for run in found.line.runs:
        for c in run.writes if run.event >= 0 else ():
            if c in read:
                v = program.values[found.line.values[c]]
                e = producer[v]
                counts[e.primitive.name, str(v.type), e.source, program.nbytes[found.line.values[c]]] += 1
    values = [RecomputedValue(*described, count) for described, count in counts.items()]
    values.sort(key=lambda v: -v.nbytes * v.count)
    work = found.line.work / max(1, start.line.work)
    return RecomputationChoice(budget, start.nbytes, found.nbytes, round(work, 4), tuple(values))
