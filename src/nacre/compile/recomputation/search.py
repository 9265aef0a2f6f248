"""The choice of what to recompute: the least work whose values fit a budget, as far as the search finds it.

The memory of a training step is largest between its forward and its backward part.  At such a boundary some values are
kept, and the others are computed again when they are read.  Few candidates are searched completely.  Many are dropped
in the order of work for each byte, the earliest first: they are computed again last, when little else is in memory.
Then those are kept again for which there is room.  If one boundary does not suffice, another one follows where the new
timeline has its peak, so values may be computed more than once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Final

import numpy as np

from nacre.compile.recomputation.timeline import Timeline

EXACT: Final = 7  # candidates up to which all choices are tried
SMALL: Final = 64  # runs up to which several boundaries, and several choices at each, are followed
WIDTH: Final = 6  # timelines that are followed in a short program
TRIALS: Final = 400  # timelines that are tried at one boundary
LEVELS: Final = 48  # boundaries, one after another
ALIKE: Final = 1.3  # candidates whose work for each byte differs less are dropped together
HALVINGS: Final = 12  # of the interval in which the least peak is sought


def fitted(line: Timeline, budget: int) -> Timeline | None:
    """A timeline whose values fit the budget; None if the search finds none."""
    if line.peak <= budget:
        return line
    width = WIDTH if len(line.runs) <= SMALL else 1
    best: Timeline | None = None
    open_lines = [line]
    for _ in range(LEVELS):
        found = [t for old in open_lines for t in _following(old, budget, width)]
        best = min((t for t in (best, *found) if t is not None and t.peak <= budget), key=_cost, default=None)
        limit = None if best is None else best.work
        open_lines = _best([t for t in found if t.peak > budget and (limit is None or t.work < limit)], budget)[:width]
        if not open_lines:
            break
    return best


def least(line: Timeline) -> Timeline:
    """The timeline with the least peak that the search finds."""
    best, low = line, 0
    for _ in range(HALVINGS):
        middle = (low + best.peak) // 2
        found = fitted(line, middle)
        if found is None:
            low = middle
        elif found.peak < best.peak:
            best = found
    return best


def _cost(line: Timeline) -> tuple[int, int]:
    return line.work, line.peak


def _best(lines: Sequence[Timeline], budget: int) -> list[Timeline]:
    """The timelines of which no other one has both less excess and less work; the least excess first."""
    found: list[Timeline] = []
    for t in sorted(lines, key=lambda t: (t.excess(budget), t.work)):
        if not found or t.work < found[-1].work:
            found.append(t)
    return found


def _following(line: Timeline, budget: int, width: int) -> list[Timeline]:
    """Timelines with less excess, by a choice at one more boundary."""
    high = np.flatnonzero(line.live > budget) if width > 1 else [line.live.argmax()]
    found = [t for k in high for t in _Choice(line, int(k) + 1, budget).options()]
    return _best([t for t in found if t.excess(budget) < line.excess(budget)], budget)


class _Choice:
    """The choice of the values that cross one boundary."""

    def __init__(self, line: Timeline, boundary: int, budget: int) -> None:
        self.line, self.boundary, self.budget = line, boundary, budget
        self.crossing = [c for c in line.crossing(boundary) if c in line.droppable]
        self.trials = 0
        self.kept = set(self.crossing)
        self.now, self.excess = line, line.excess(budget)

    def options(self) -> list[Timeline]:
        """The timelines with the choices that are worth following."""
        extra = self.extra()
        if len(self.crossing) + len(extra) <= EXACT:
            candidates = [*self.crossing, *extra]
            sets = [set(kept) for n in range(len(candidates) + 1) for kept in combinations(candidates, n)]
            return [self.attempt(kept)[0] for kept in sets]
        found: list[Timeline] = []
        while self.excess and self.trials < TRIALS and self.drop():
            found.append(self.now)
        if not self.excess:
            self.give_back()
        return [*found, self.now]

    def attempt(self, kept: set[int]) -> tuple[Timeline, int]:
        """The timeline that keeps some copies, and its excess."""
        self.trials += 1
        found = self.line.with_only(kept, self.boundary)
        return found, found.excess(self.budget)

    # ---- many candidates

    def work_again(self, copy: int, running: set[int]) -> list[int]:
        """The runs before the boundary that must run again for a dropped copy, beside those that do in any case."""
        line, found, todo = self.line, set[int](), [copy]
        while todo:
            made = line.made[todo.pop()]
            if made in found or made in running:
                continue
            found.add(made)
            todo += [c for c in line.runs[made].reads if c in line.droppable and c not in self.kept]
        return list(found)

    def running(self) -> set[int]:
        """The runs before the boundary that run again as things are."""
        found: set[int] = set()
        for c in self.crossing:
            if c not in self.kept:
                found.update(self.work_again(c, found))
        return found

    def weight(self, runs: Sequence[int]) -> int:
        """The work of some runs."""
        units = self.line.program.units
        return sum(units[self.line.runs[k].unit].work for k in runs)

    def nbytes(self, copy: int) -> int:
        """The bytes of a copy."""
        return self.line.program.nbytes[self.line.values[copy]]

    def drop(self) -> bool:
        """Drop some copies with little work for each byte; false if no drop lessens the excess."""
        running = self.running()
        ratios = {c: self.weight(self.work_again(c, running)) / self.nbytes(c) for c in self.crossing if c in self.kept}
        for chunk in self.chunks(ratios):
            while chunk and self.trials < TRIALS:
                found, excess = self.attempt(self.kept.difference(chunk))
                if excess < self.excess:
                    self.kept.difference_update(chunk)
                    self.now, self.excess = found, excess
                    return True
                chunk = chunk[: len(chunk) // 2]
        return False

    def chunks(self, ratios: dict[int, float]) -> Iterator[list[int]]:
        """Candidates of about equal ratio, the least first, as many as the budget lacks bytes; earlier ones first."""
        order = sorted(ratios, key=ratios.__getitem__)
        while order:
            bound = ratios[order[0]] * ALIKE
            alike = sorted(c for c in order if ratios[c] <= bound)
            lacking, chunk = self.now.peak - self.budget, list[int]()
            for c in alike:
                if lacking <= 0:
                    break
                chunk.append(c)
                lacking -= self.nbytes(c)
            yield chunk
            order = [c for c in order if c not in set(alike)]

    def extra(self) -> list[int]:
        """Copies that are not read behind the boundary, but from which dropped ones are computed."""
        line, seen, todo = self.line, set(self.crossing), list(self.crossing)
        found: list[int] = []
        while todo:
            for c in line.runs[line.made[todo.pop()]].reads:
                if c in line.droppable and c not in seen:
                    seen.add(c)
                    found.append(c)
                    todo.append(c)
        return sorted(found)

    def give_back(self) -> None:
        """Keep again what saves most work, as long as everything fits."""
        units, line = self.line.program.units, self.line
        dropped = [c for c in (*self.crossing, *self.extra()) if c not in self.kept]
        dropped.sort(key=lambda c: -units[line.runs[line.made[c]].unit].work / self.nbytes(c))
        room = self.budget - self.now.peak
        for c in [*[c for c in dropped if self.nbytes(c) <= room], *dropped][: TRIALS // 4]:
            if c in self.kept:
                continue
            found, excess = self.attempt({*self.kept, c})
            if not excess and found.work < self.now.work:
                self.kept.add(c)
                self.now = found
