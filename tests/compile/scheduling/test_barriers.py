"""Launches are reordered only where dependences allow it, and where that saves barriers."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nacre as nc
from nacre import nn, optim
from nacre.compile.buffers.reuse import plan_memory
from nacre.compile.scheduling.barriers import barrier_order, better
from nacre.runtime.plan import Launch, PlannedValue


def launch(reads: tuple[int, ...], writes: tuple[int, ...], over: tuple[tuple[int, int], ...] = ()) -> Launch:
    return Launch(0, "step", (), 10, 1, 0, reads, writes, over=over)


values = st.lists(st.integers(0, 9), max_size=3).map(tuple)


@given(st.lists(st.builds(launch, values, values), max_size=25))
@settings(max_examples=200, deadline=None)
def test_dependent_launches_keep_their_order_and_are_separated_by_a_barrier(steps: list[Launch]) -> None:
    order = barrier_order(steps)
    assert sorted(order) == list(range(len(steps)))
    plan = plan_memory([PlannedValue("temporary", 64)] * 10, [steps[k] for k in order], 0, 0)
    epoch = dict(zip(order, plan.epochs, strict=True))
    for i, j in combinations(range(len(steps)), 2):
        a, b = steps[i], steps[j]
        if set(a.writes) & {*b.reads, *b.writes} or set(a.reads) & set(b.writes):
            assert epoch[i] < epoch[j]


def test_independent_chains_run_in_the_same_epochs() -> None:
    steps = [launch((0,), (1,)), launch((1,), (2,)), launch((0,), (3,)), launch((3,), (4,))]
    assert barrier_order(steps) == [0, 2, 1, 3]


def test_launches_move_up_a_limited_number_of_epochs() -> None:
    chain = [launch((k,), (k + 1,)) for k in range(12)]
    assert barrier_order([*chain, launch((20,), (21,))]).index(12) >= 7


def test_an_update_in_place_waits_for_the_other_readers() -> None:
    update = launch((3, 9), (8,), ((9, 8),))
    assert barrier_order([launch((0,), (1,)), launch((1, 9), (2,)), update]) == [0, 1, 2]
    assert barrier_order([launch((0,), (1,)), launch((1, 7), (2,)), update]) == [0, 2, 1]


def test_orders_that_take_more_memory_are_rejected() -> None:
    steps = [
        launch((0,), (1,)),
        launch((1,), (2,)),
        launch((2,), (5,)),
        launch((0,), (3,)),
        launch((3,), (4,)),
        launch((4, 5), (6,)),
    ]
    order = barrier_order(steps)
    for large, saves in ((1 << 20, False), (0, True)):
        storage = [
            PlannedValue("temporary" if k else "input", n) for k, n in enumerate((64, 64, 64, large, large, 64, 64))
        ]
        written = plan_memory(storage, steps, 1, 0)
        found = plan_memory(storage, [steps[k] for k in order], 1, 0)
        assert found.epochs[-1] < written.epochs[-1] and better(found, written) is saves


@pytest.mark.parametrize("layers", [2, 4])
def test_a_training_step_has_few_barriers(layers: int) -> None:
    model = nn.Sequential(*[m for _ in range(layers) for m in (nn.Linear(64, 64), nn.ReLU())])
    optimiser = optim.Adam(model.parameters())

    @nc.jit
    def step(x: nc.Tensor) -> nc.Tensor:
        loss = nc.sum(model(x) ** 2)
        loss.backward()
        optimiser.step()
        optimiser.zero_grad()
        return loss

    compiled = step.prepare(nc.ones((32, 64))).compiled
    plan = compiled.executable.plan
    assert len(compiled.stages) == len(plan.steps)
    assert all(stage.label == launch.label for stage, launch in zip(compiled.stages, plan.steps, strict=True))
    assert plan.epochs[-1] < 4 * layers + 4
    assert len({k for k, _ in plan.donations}) == 6 * layers + 1, "weights, moments, the count of steps: in place"
