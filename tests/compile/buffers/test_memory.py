"""Memory of a plan: live values do not overlap, barriers separate dependent launches, reuse does not change results."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import nacre as nc
from codegen.run_steps import assert_same_bits
from compile.programs import Program, programs
from compile.test_pipeline import graph_of
from nacre import nn
from nacre.base.dtypes import float32, int32
from nacre.compile.buffers.reuse import overwritable, plan_memory
from nacre.compile.pipeline import compile_graph
from nacre.kernel.ast import Buffer, For, Index, Kernel, Load, Store, apply, const, index_add
from nacre.kernel.parse import parse
from nacre.runtime.plan import ALIGN, Launch, Plan, PlannedValue, arena, epochs

some = settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    """Random plans: steps read existing values and write new temporaries, some of them over their operands."""
    count = draw(st.integers(1, 30))
    values = [PlannedValue("input", 64)]
    steps: list[Launch] = []
    for k in range(count):
        values.append(PlannedValue("temporary", draw(st.sampled_from((0, 4, 64, 100, 256, 4096)))))
        reads = tuple(draw(st.sets(st.integers(0, k), min_size=1, max_size=3)))
        over = tuple((r, k + 1) for r in reads if draw(st.booleans()) and values[r].nbytes == values[k + 1].nbytes)
        steps.append(Launch(0, "", (), 1, 1, 0, reads, (k + 1,), over=over))
    values.append(PlannedValue("output", 64))
    steps.append(Launch(0, "", (), 1, 1, 0, (count,), (count + 1,)))
    return plan_memory(values, steps, 1, 1)


@given(plan=plans())
@some
def test_no_two_values_share_memory_while_both_are_needed(plan: Plan) -> None:
    check_arena(plan)


@given(program=programs())
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
def test_plans_of_programs(program: Program) -> None:
    plan = compile_graph(graph_of(program)).executable.plan
    check_arena(plan)
    check_barriers(plan)


def check_arena(plan: Plan) -> None:
    offsets, total = arena(plan, {})
    last: dict[int, int] = {}
    first: dict[int, int] = {}
    for epoch, step in zip(plan.epochs, plan.steps, strict=True):
        for v in (*step.reads, *step.writes):
            first.setdefault(v, epoch)
            last[v] = epoch
    held = [v for v in first if plan.values[v].kind == "temporary"]
    for v in held:
        start = offsets[plan.root(v)]
        assert start % ALIGN == 0 and start >= 0 and start + int(plan.values[v].nbytes) <= total
    for a, b in combinations(held, 2):
        if plan.root(a) == plan.root(b):  # one was written over the other, by the last step to read it
            early, late = sorted((a, b), key=lambda v: first[v])
            assert last[early] <= first[late]
        elif first[a] <= last[b] and first[b] <= last[a]:
            spans = sorted((offsets[plan.root(v)], offsets[plan.root(v)] + int(plan.values[v].nbytes)) for v in (a, b))
            assert spans[0][1] <= spans[1][0], f"{a} and {b} overlap"


def check_barriers(plan: Plan) -> None:
    """Steps without a barrier between them do not access memory that another one writes."""
    assert list(plan.epochs) == sorted(plan.epochs)
    places = [
        (e, {plan.root(v) for v in s.reads}, {plan.root(v) for v in s.writes})
        for e, s in zip(plan.epochs, plan.steps, strict=True)
    ]
    for (e, reads, writes), (f, reads2, writes2) in combinations(places, 2):
        if e == f:
            assert not writes & (reads2 | writes2) and not reads & writes2


@given(plan=plans())
@some
def test_barriers_separate_dependent_steps(plan: Plan) -> None:
    check_barriers(plan)


def test_independent_steps_need_no_barrier() -> None:
    steps = [Launch(0, "", (), 1, 1, 0, (0,), (k,)) for k in (1, 2, 3)] + [Launch(0, "", (), 1, 1, 0, (1, 2, 3), (4,))]
    assert epochs(steps) == (0, 0, 0, 1)


# ---- operands that may be overwritten


def kernel(body: Any, dtype: Any = float32, strides: Any = (1,)) -> Kernel:
    x, y = Buffer("x", float32, (8,), strides), Buffer("y", dtype, (8,), (1,))
    return Kernel("k", (x,), (y,), (For("i", 8, body, parallel=True),))


def test_a_result_may_overwrite_operands_that_are_read_at_its_own_index_only() -> None:
    i = Index("i")
    own = Store("y", (i,), apply("neg", Load("x", (i,), float32)))
    shifted = Store("y", (i,), Load("x", (index_add(i, const(1)),), float32))
    again = Store("y", (i,), apply("add", Load("y", (i,), float32), Load("x", (i,), float32)))
    cast = Store("y", (i,), apply("lt", Load("x", (i,), float32), Load("x", (i,), float32)))
    assert overwritable(kernel((own,))) == [(0, 0)]
    assert overwritable(kernel((shifted,))) == []
    assert overwritable(kernel((own, again))) == []
    assert overwritable(kernel((cast,), int32)) == []
    assert overwritable(kernel((own,), strides=(0,))) == []


def test_long_chains_need_little_memory() -> None:
    def f(x: Any) -> Any:
        for k in range(12):
            x = nc.cumulative_sum(x * (k + 1), axis=0)
        return x

    x = nc.ones((1000, 16))
    jitted = nc.jit(f)
    memory = jitted.memory(x)
    assert memory.workspace <= 2.5 * 64_000 + 20_000
    np.testing.assert_array_equal(jitted(x).numpy(), f(x).numpy())


def test_cheap_values_are_recomputed_where_they_are_read_much_later() -> None:
    """A derivative reads the product, the sigmoid and rows, not values that a few instructions compute from them."""
    x, w, b = nc.random.normal((24, 32)), nc.random.normal((32, 48)), nc.random.normal((48,))

    def loss(x: nc.Tensor, w: nc.Tensor, b: nc.Tensor) -> nc.Tensor:
        inner = nn.functional.layer_norm(x, (32,)) @ w + b
        return nc.sum(nn.functional.gelu(inner, approximate="tanh") ** 2)

    def both(*xs: nc.Tensor) -> tuple[nc.Tensor, ...]:
        return loss(*xs), *nc.grad(loss, argnums=(0, 1, 2))(*xs)

    compiled = nc.jit(both)
    fusion = compiled.concrete(x, w, b).compiled.fusion
    full = [v for v in fusion.stored if v.type.rank == 2]
    made = [fusion.producer[v].primitive.name for v in full]
    assert not {"broadcast", "fma"}.intersection(made), made
    for found, wanted in zip(compiled(x, w, b), both(x, w, b), strict=True):
        assert_same_bits(found.numpy(), wanted.numpy())


def test_a_value_that_is_only_copied_into_a_result_is_computed_there() -> None:
    k = nc.asarray([1, 1, 0])
    step = nc.jit(lambda u: nc.grad(lambda x: nc.sum(nc.take(x, k, axis=0) * u))(nc.zeros((4, 2))))
    u = nc.reshape(nc.arange(6, dtype=nc.float32), (3, 2))
    plan = step.concrete(u).executable.plan
    (copy,) = [s for s in plan.steps if s.idle]
    ((given, made),) = copy.over
    assert plan.values[given].kind == "part" and plan.values[given].of == made
    assert step(u).tolist() == [[4, 5], [2, 4], [0, 0], [0, 0]]


@pytest.mark.parametrize(
    ("body", "once"),
    [
        ("for i in 8:\n    y[i] = neg(x[i])", True),
        ("for i in 2:\n    for j in 4:\n      y[i * 4 + j] = neg(x[i * 4 + j])", True),
        ("for i in 3:\n    for j in 8:\n      y[j] = neg(x[j])", False),
        ("for i in 8:\n    let j = rem(i, 4)\n    y[j] = neg(x[j])", False),
    ],
)
def test_a_result_overwrites_no_operand_if_it_is_stored_repeatedly(body: str, once: bool) -> None:
    found = parse(f"kernel k(x: f32[8]) -> (y: f32[8]):\n  {body}\n")
    assert overwritable(found) == ([(0, 0)] if once else [])
