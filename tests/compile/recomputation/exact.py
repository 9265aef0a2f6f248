"""The least work of any order of runs that fits a budget, by a complete search; for small programs."""

from __future__ import annotations

import heapq
from itertools import combinations, count

from nacre.compile.recomputation.units import UnitProgram


def least_work(program: UnitProgram, budget: int, most_states: int = 400_000) -> int | None:
    """The least work of all runs; None if no order fits the budget.  A unit may run as often as it helps.

    A state has the values in memory and the lasting units that have run.  Values may be freed at any time.
    """
    units, nbytes = program.units, program.nbytes
    given = frozenset(range(len(program.graph.inputs)))
    readers = [frozenset(r for r in u.reads if r not in given) for u in units]
    start = (frozenset[int](), frozenset[int]())
    best = {start: 0}
    ticket = count()
    todo = [(0, next(ticket), start)]
    while todo:
        work, _, state = heapq.heappop(todo)
        if best[state] < work:
            continue
        live, done = state
        if done == program.lasting:
            return work
        assert len(best) < most_states, "the program is too large for a complete search"
        held = sum(nbytes[v] for v in live)
        following = [(0, (live - {v}, done)) for v in live]
        for k, u in enumerate(units):
            if not readers[k] <= live or (k in program.lasting and k in done) or set(u.writes) <= live:
                continue
            new = [v for v in u.writes if v not in live]
            total = held + sum(nbytes[v] for v in new)
            after = (live | set(u.writes), done | {k} if k in program.lasting else done)
            if total <= budget:
                following.append((u.work, after))
            elif u.pointwise:  # results are written over operands, which are gone then
                equal = [v for v in readers[k] if nbytes[v] and any(nbytes[v] == nbytes[n] for n in new)]
                for over in (set(c) for n in range(1, len(new) + 1) for c in combinations(equal, n)):
                    if total - sum(nbytes[v] for v in over) <= budget:
                        following.append((u.work, (after[0] - over, after[1])))
        for more, state in following:
            if work + more < best.get(state, 1 << 62):
                best[state] = work + more
                heapq.heappush(todo, (work + more, next(ticket), state))
    return None
