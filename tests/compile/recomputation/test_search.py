"""The choice of what to recompute, beside complete searches; and its timelines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nacre as nc
from compile.recomputation.exact import least_work
from nacre.compile.compilation import Compilation
from nacre.compile.pipeline import passes
from nacre.compile.recomputation.cut import FlowNetwork
from nacre.compile.recomputation.search import fitted, least
from nacre.compile.recomputation.timeline import Timeline, timeline_of, with_early_ends
from nacre.compile.recomputation.units import UnitProgram, program_of
from nacre.native.engine import host_target

WEIGHTS = [nc.random.normal((32, 32), key=nc.random.key(k)) * 0.2 for k in range(6)]
X = nc.random.normal((32, 32), key=nc.random.key(9))
UNIT = 32 * 32 * 4


def chain(length: int) -> Callable[[Any], Any]:
    def f(x: Any) -> Any:
        for w in WEIGHTS[:length]:
            x = nc.tanh(x @ w) * 1.1
        return nc.sum(x)

    return f


def skips(x: Any) -> Any:
    a = nc.tanh(x @ WEIGHTS[0])
    b = nc.exp(-nc.abs(a @ WEIGHTS[1]))
    return nc.sum(nc.tanh((nc.sin(b @ WEIGHTS[2]) + a) @ WEIGHTS[3]) * b)


def branches(x: Any) -> Any:
    a, b = nc.tanh(x @ WEIGHTS[0]), nc.sin(x @ WEIGHTS[1])
    return nc.sum(nc.tanh((a * b) @ WEIGHTS[2]) @ WEIGHTS[3])


def gated(x: Any) -> Any:
    for v, w in zip(WEIGHTS[:2], WEIGHTS[2:4], strict=True):
        x = x + nc.tanh(x @ v) * nc.sigmoid(x @ w)
    return nc.sum(x)


PROGRAMS = {"chain 3": chain(3), "chain 4": chain(4), "chain 5": chain(5), "skips": skips, "branches": branches}


def program(f: Callable[[Any], Any]) -> UnitProgram:
    graph = nc.jit(nc.grad(f)).trace(X)
    return program_of(Compilation(graph, graph, None, host_target(), passes()).run("scheduling"))


def budgets(line: Timeline) -> list[int]:
    return list(range(line.peak, 0, -UNIT // 2))


@pytest.mark.parametrize("name", PROGRAMS)
def test_within_five_percent_of_the_exact_optimum(name: str) -> None:
    whole = program(PROGRAMS[name])
    line = timeline_of(whole)
    works = {budget: exact for budget in budgets(line) if (exact := least_work(whole, budget)) is not None}
    assert works
    for budget, exact in works.items():
        found = fitted(line, budget)
        if found is None:  # another order of the program's own runs may take a little less memory
            assert budget < 1.25 * min(works)
            continue
        assert found.peak <= budget
        assert exact <= found.work <= 1.05 * exact, (budget, found.work, exact)
    assert all(fitted(line, budget) is None for budget in budgets(line) if budget < min(works))


@pytest.mark.parametrize("name", [*PROGRAMS, "gated"])
def test_less_memory_takes_no_less_work(name: str) -> None:
    line = timeline_of(program(PROGRAMS.get(name, gated)))
    works = [found.work for budget in budgets(line) if (found := fitted(line, budget)) is not None]
    assert works == sorted(works)


def test_the_least_peak_fits_itself() -> None:
    line = timeline_of(program(chain(6)))
    smallest = least(line)
    assert smallest.peak < line.peak
    found = fitted(line, smallest.peak)
    assert found is not None and found.peak <= smallest.peak


def test_a_copy_is_read_only_where_it_is_in_memory() -> None:
    line = timeline_of(program(gated))
    found = least(line)
    made = set(range(len(line.program.graph.inputs)))
    for run in found.runs:
        assert made.issuperset(run.reads)
        assert not made.intersection(run.writes)
        made.update(run.writes)


def test_early_ends_have_the_same_runs() -> None:
    line = timeline_of(program(gated))
    early = with_early_ends(line)
    assert sorted(r.unit for r in early.runs) == sorted(r.unit for r in line.runs)
    assert early.peak <= line.peak


def test_a_minimum_cut_is_the_least_of_all_cuts() -> None:
    random = np.random.default_rng(0)
    for _ in range(20):
        arcs = [
            (a, b, int(random.integers(1, 9))) for a in range(6) for b in range(6) if a != b and random.random() < 0.5
        ]
        network = FlowNetwork(6)
        for a, b, room in arcs:
            network.add(a, b, room)
        reached = network.reached(0, 5)
        sides = [[True, *(bool(k >> j & 1) for j in range(4)), False] for k in range(16)]
        cuts = [sum(room for a, b, room in arcs if side[a] and not side[b]) for side in sides]
        assert reached[0] and not reached[5]
        assert sum(room for a, b, room in arcs if reached[a] and not reached[b]) == min(cuts)
