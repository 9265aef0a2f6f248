"""The choice of what to recompute: the least work whose values fit a budget, as far as the search finds it.

The memory of a training step is largest between its forward and its backward part.  At such a boundary some values are
saved, and the others are computed again when they are read.  Few candidates are searched completely.  For many, minimum
cuts with growing prices of memory give a path of choices.  Between two of these, values that are made early are dropped
first: they are computed again last, when little else is in memory.  Then those are saved again for which there is room.
If one boundary does not suffice, another one follows where the new timeline has its peak, so values may be computed
more than once.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, pairwise
from typing import Final

import numpy as np

from nacre.compile.recomputation.cut import kept_at, prices
from nacre.compile.recomputation.timeline import Timeline

EXACT: Final = 7  # candidates up to which all choices are tried
SMALL: Final = 64  # runs up to which several boundaries, and several choices at each, are followed
WIDTH: Final = 3  # timelines that are followed in a short program
PRICES: Final = 16  # prices of memory that are tried at one boundary
GIVEN_BACK: Final = 48  # copies that are tried to be saved again at one boundary
LEVELS: Final = 48  # boundaries, one after another
SHARES: Final = (1.0, 0.88, 0.75)  # of a budget that are tried
HALVINGS: Final = 12  # of the interval in which the least peak is sought


def fitted(line: Timeline, budget: int) -> Timeline | None:
    """A timeline whose values fit the budget; None if the search finds none.

    What fits a smaller budget fits, too: a few are tried for short programs, and where nothing else is found.
    """
    if line.peak <= budget:
        return line
    width = _width(line)
    best: Timeline | None = None
    for share in SHARES:
        if best is None or width > 1:
            found = _fitted_at(line, int(budget * share), width)
            best = min((t for t in (best, found) if t is not None), key=_cost, default=None)
    return best


def _fitted_at(line: Timeline, budget: int, width: int) -> Timeline | None:
    """A timeline whose values fit the budget, by choices at one boundary after another."""
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
    best, low, width = line, 0, _width(line)
    for _ in range(HALVINGS):
        middle = (low + best.peak) // 2
        found = _fitted_at(line, middle, width)
        if found is None:
            low = middle
        elif found.peak < best.peak:
            best = found
    return best


def _width(line: Timeline) -> int:
    """The number of timelines that are followed."""
    return WIDTH if len(line.runs) <= SMALL else 1


def _cost(line: Timeline) -> tuple[int, int]:
    return line.work, line.peak


def _best(lines: Sequence[Timeline], budget: int) -> list[Timeline]:
    """The timelines of which no other one has both less excess and less work; the least excess first."""
    found: list[Timeline] = []
    excess = {t: t.excess(budget) for t in lines}
    for t in sorted(lines, key=lambda t: (excess[t], t.work)):
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
        self.kept = set(self.crossing)
        self.now, self.excess = line, line.excess(budget)

    def options(self) -> list[Timeline]:
        """The timelines with the choices that are worth following."""
        extra = self.extra()
        if len(self.crossing) + len(extra) <= EXACT:
            candidates = [*self.crossing, *extra]
            sets = [set(kept) for n in range(len(candidates) + 1) for kept in combinations(candidates, n)]
            return [self.attempt(kept)[0] for kept in sets]
        return self.along()

    def attempt(self, kept: set[int]) -> tuple[Timeline, int]:
        """The timeline that keeps some copies, and its excess."""
        found = self.line.with_only(kept, self.boundary)
        return found, found.excess(self.budget)

    # ---- many candidates

    def path(self) -> list[frozenset[int]]:
        """Choices of what to keep, from everything on: minimum cuts for growing prices of memory."""
        found = [frozenset(self.crossing)]
        for price in prices(self.line, self.boundary, PRICES):
            kept = kept_at(self.line, self.boundary, price)
            if kept != found[-1]:
                found.append(kept)
        return found

    def between(self, more: frozenset[int], less: frozenset[int], place: int) -> set[int]:
        """The choice `less` for the copies that are made before a run, and `more` for the others.

        Copies that are made early are computed again late, when little else is in memory.
        """
        made = self.line.made
        return {c for c in less if made[c] < place} | {c for c in more if made[c] >= place}

    def along(self) -> list[Timeline]:
        """Timelines of the path: those with less excess than all before, and the first one without."""
        found: list[Timeline] = []
        path = self.path()
        for before, kept in pairwise(path):
            now, excess = self.attempt(set(kept))
            if excess:
                found += self.beside(before, kept)
            if not excess:
                found.append(self.first(before, kept))
                break
            if excess < self.excess:
                self.now, self.excess = now, excess
                found.append(now)
        return found

    def beside(self, more: frozenset[int], less: frozenset[int]) -> list[Timeline]:
        """Timelines between two choices, for a short program."""
        if len(self.line.runs) > SMALL:
            return []
        places = sorted({self.line.made[c] + 1 for c in more ^ less})
        return [self.attempt(self.between(more, less, place))[0] for place in places[:-1]]

    def first(self, more: frozenset[int], less: frozenset[int]) -> Timeline:
        """The first timeline between two choices that fits, with the smallest place, and more copies saved again."""
        places = sorted({self.line.made[c] + 1 for c in more ^ less})
        low, high = 0, len(places) - 1
        while low < high:
            middle = (low + high) // 2
            if self.attempt(self.between(more, less, places[middle]))[1]:
                low = middle + 1
            else:
                high = middle
        self.kept = self.between(more, less, places[high])
        self.now, self.excess = self.attempt(self.kept)
        if not self.excess:
            self.give_back()
        return self.now

    def nbytes(self, copy: int) -> int:
        """The bytes of a copy."""
        return self.line.program.nbytes[self.line.values[copy]]

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
        """Keep again what saves most work for its bytes, as long as everything fits."""
        units, line = self.line.program.units, self.line
        dropped = [c for c in (*self.crossing, *self.extra()) if c not in self.kept]
        dropped.sort(key=lambda c: -units[line.runs[line.made[c]].unit].work / self.nbytes(c))
        for c in dropped[:GIVEN_BACK]:
            found, excess = self.attempt({*self.kept, c})
            if not excess and found.work < self.now.work:
                self.kept.add(c)
                self.now = found
