"""The driver: every item of every step once, on any number of threads, dependent steps in order."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nacre.compile.buffers.reuse import plan_memory
from nacre.native import cache as objects
from nacre.native.engine import host_target
from nacre.native.pool import pool
from nacre.runtime import plan as planning
from nacre.runtime.executable import Code, Executable, pool_functions
from nacre.runtime.plan import Binding, Launch, Number, PlannedValue, Pointer
from nacre.runtime.texts import driver_text

# y[i] = x[i] + add for the items lo..hi; each writes a mark into the thread's scratch before and checks it after
TEXT = """
define void @step(ptr %args, i64 %lo, i64 %hi, ptr %scratch) nounwind {
entry:
  %x = load ptr, ptr %args
  %y.at = getelementptr i64, ptr %args, i64 1
  %y = load ptr, ptr %y.at
  %add.at = getelementptr i64, ptr %args, i64 2
  %add = load i64, ptr %add.at
  store volatile i64 %lo, ptr %scratch
  br label %head
head:
  %i = phi i64 [ %lo, %entry ], [ %next, %body ]
  %more = icmp slt i64 %i, %hi
  br i1 %more, label %body, label %end
body:
  %from = getelementptr i64, ptr %x, i64 %i
  %v = load i64, ptr %from
  %to = getelementptr i64, ptr %y, i64 %i
  %sum = add i64 %v, %add
  %mine = load volatile i64, ptr %scratch
  %off = sub i64 %mine, %lo
  %bad = add i64 %sum, %off
  store i64 %bad, ptr %to
  %next = add i64 %i, 1
  br label %head
end:
  ret void
}
"""


pytestmark = pytest.mark.usefixtures("divided")


def chain(extents: Sequence[int], reads: Sequence[int], grains: Sequence[int]) -> Executable:
    """Steps of which the k-th adds k + 1 to the result of an earlier one, or to the input."""
    n = max(extents, default=1)
    count = len(extents)
    kinds = ("input", *["temporary"] * (count - 1), "output")
    values = [PlannedValue(kind, 8 * n) for kind in kinds]
    names = [0, *(2 + k for k in range(count - 1)), 1]  # input, temporaries, output in the plan's order
    ordered = [values[0], values[-1], *values[1:-1]]
    steps: list[Launch] = []
    for k, (extent, read, grain) in enumerate(zip(extents, reads, grains, strict=True)):
        x, y = names[read % (k + 1)], names[k + 1]
        slots = (Pointer(x), Pointer(y), Number(k + 1))
        steps.append(Launch(0, f"step {k}", slots, extent, 3, 64, (x,), (y,), grain))
    plan = plan_memory(ordered, steps, 1, 1)
    return Executable((Code(TEXT, "step"),), plan, (), (), (), host_target())


def expected(extents: Sequence[int], reads: Sequence[int], x: np.ndarray) -> np.ndarray:
    held = [x]
    for k, read in enumerate(reads):
        y = np.zeros_like(x)
        y[: extents[k]] = held[read % (k + 1)][: extents[k]] + k + 1
        held.append(y)
    return held[-1]


def run(executable: Executable, x: np.ndarray) -> np.ndarray:
    (made,) = executable.run([x.ctypes.data], {})
    return np.frombuffer(made, np.int64)[: len(x)]  # type: ignore[call-overload]


@given(data=st.data(), n=st.sampled_from((1, 2, 7, 64, 1000)), count=st.integers(1, 12))
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
def test_programs_of_steps(data: st.DataObject, n: int, count: int) -> None:
    reads = data.draw(st.lists(st.integers(0, 20), min_size=count, max_size=count))
    grains = data.draw(st.lists(st.integers(1, 9), min_size=count, max_size=count))
    extents = [n] * count
    x = np.arange(n, dtype=np.int64) * 10
    executable = chain(extents, reads, grains)
    for threads in (1, 2, 5):
        pool().set_threads(threads)
        np.testing.assert_array_equal(run(executable, x), expected(extents, reads, x))


def test_empty_steps() -> None:
    x = np.arange(5, dtype=np.int64)
    for threads in (1, 3):
        pool().set_threads(threads)
        empty = chain([5, 0, 5], [0, 0, 0], [1, 1, 1])
        np.testing.assert_array_equal(run(empty, x), x + 3)


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_a_program_stops_on_request(threads: int) -> None:
    executable = chain([1000] * 6, [0, 1, 2, 3, 4, 5], [1] * 6)
    executable.load()
    x = np.arange(1000, dtype=np.int64)
    pool().set_threads(threads)
    library = objects.library(driver_text(host_target()), host_target())
    address = ctypes.c_void_p
    call = ctypes.CFUNCTYPE(ctypes.c_int64, address, address, address, address, address)(
        library.address("nacre.run_unless")
    )
    bound = Binding(executable.plan, {}, threads).bound(executable.addresses, [], pool_functions().ctypes.data)
    workspace = np.zeros(bound.workspace_bytes + 64, np.uint8)
    start = -workspace.ctypes.data % 64 + workspace.ctypes.data
    asked: list[int] = []

    def after(count: int) -> Any:
        def check(question: int) -> int:
            asked.append(question)
            return int(len(asked) > count)

        asked.clear()
        return ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(check)

    for count in (0, 1, 3, 10_000):
        y = np.zeros(1000, np.int64)
        bases = np.array([x.ctypes.data, y.ctypes.data, 0], np.int64)
        check = after(count)
        stopped = call(bound.descriptor.ctypes.data, bases.ctypes.data, start, ctypes.cast(check, address).value, 77)
        assert stopped == (len(asked) > count) and set(asked) <= {77}
        if threads == 1:
            assert len(asked) == min(count + 1, 6) and stopped == (count < 6)
        if not stopped:
            np.testing.assert_array_equal(y, x + 21)


def test_tables_of_a_bound_plan() -> None:
    executable = chain([100] * 4, [0, 1, 1, 3], [1, 8, 1, 1])
    executable.load()
    bound = Binding(executable.plan, {}, 4).bound(executable.addresses, [], pool_functions().ctypes.data)
    assert executable.plan.epochs == (0, 1, 1, 2)
    words, fixups, rows = bound.tables
    assert rows["barrier"].tolist() == [False, True, False, True]
    assert rows["grain"][1] % 8 == 0, "rounds that belong together are not divided"
    assert bound.output_bytes == (800,) and bound.arena_bytes % 64 == 0
    assert len(words) == 12 and len(fixups) == 8
    places = ("arguments_offset", "ends_offset", "scratch_offset", "scratch_stride")
    assert all(bound.descriptor[name] % 64 == 0 for name in places)
    assert bound.workspace_bytes >= bound.descriptor["scratch_offset"] + 4 * bound.descriptor["scratch_stride"]


def test_little_work_stays_on_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "ALONE_COST", 10_000)
    executable = chain([100], [0], [1])
    executable.load()
    alone = Binding(executable.plan, {}, 4).bound(executable.addresses, [], pool_functions().ctypes.data)
    assert alone.descriptor["team"] == 1
    executable = chain([100_000], [0], [1])
    executable.load()
    shared = Binding(executable.plan, {}, 4).bound(executable.addresses, [], pool_functions().ctypes.data)
    assert shared.descriptor["team"] == 4


def test_a_pool_with_fewer_or_more_threads_than_planned() -> None:
    executable = chain([1000, 1000, 1000], [0, 1, 2], [1, 1, 1])
    executable.load()
    x = np.arange(1000, dtype=np.int64)
    library = objects.library(driver_text(host_target()), host_target())
    call = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)(library.address("nacre.run"))
    for planned, present in ((2, 5), (5, 2), (3, 1), (1, 3)):
        pool().set_threads(present)
        bound = Binding(executable.plan, {}, planned).bound(executable.addresses, [], pool_functions().ctypes.data)
        y = np.zeros(1000, np.int64)
        bases = np.array([x.ctypes.data, y.ctypes.data, 0], np.int64)
        workspace = np.zeros(bound.workspace_bytes + 64, np.uint8)
        start = -workspace.ctypes.data % 64 + workspace.ctypes.data
        call(bound.descriptor.ctypes.data, bases.ctypes.data, start)
        np.testing.assert_array_equal(y, x + 6)
