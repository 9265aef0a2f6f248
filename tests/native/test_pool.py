"""The pool: all threads take part, once each; barriers order them; forks, signals and nesting."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from nacre.base.errors import ArgumentError
from nacre.native import engine, limits
from nacre.native import pool as pools
from nacre.native.pool import BARRIER_BYTES, Pool

# count: each thread adds 1 to its slot, and writes the number of threads.
# rounds: n rounds of: add 1 to the round's cell, barrier, check that all were there.
KERNELS = """
declare void @nacre_barrier(ptr, i64)
declare void @nacre_pool_run(ptr, ptr)
declare void @llvm.x86.sse.stmxcsr(ptr)
define void @count(ptr %a, i64 %t, i64 %n) {
  %slot = getelementptr i64, ptr %a, i64 %t
  %old = atomicrmw add ptr %slot, i64 1 seq_cst
  %last = getelementptr i64, ptr %a, i64 300
  store atomic i64 %n, ptr %last monotonic, align 8
  ret void
}
define void @nothing(ptr %a, i64 %t, i64 %n) {
  ret void
}
define void @nested(ptr %a, i64 %t, i64 %n) {
  call void @nacre_pool_run(ptr @count, ptr %a)
  ret void
}
define void @rounds(ptr %a, i64 %t, i64 %n) {
entry:
  %total = load i64, ptr %a
  %state = getelementptr i64, ptr %a, i64 8
  %cell = getelementptr i64, ptr %a, i64 32
  %wrong = getelementptr i64, ptr %a, i64 40
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %again ]
  %o = atomicrmw add ptr %cell, i64 1 seq_cst
  call void @nacre_barrier(ptr %state, i64 %n)
  %v = load atomic i64, ptr %cell seq_cst, align 8
  %next = add i64 %i, 1
  %due = mul i64 %next, %n
  %good = icmp eq i64 %v, %due
  br i1 %good, label %again, label %bad
bad:
  %w = atomicrmw add ptr %wrong, i64 1 seq_cst
  br label %again
again:
  call void @nacre_barrier(ptr %state, i64 %n)
  %more = icmp slt i64 %next, %total
  br i1 %more, label %loop, label %end
end:
  ret void
}
define void @regions(i64 %n) {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  call void @nacre_pool_run(ptr @nothing, ptr null)
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %n
  br i1 %more, label %loop, label %end
end:
  ret void
}
define void @control(ptr %a, i64 %t, i64 %n) {
  %slot = getelementptr i64, ptr %a, i64 %t
  call void @llvm.x86.sse.stmxcsr(ptr %slot)
  ret void
}
"""


@pytest.fixture(scope="module")
def pool() -> Pool:
    return pools.pool()


@pytest.fixture(autouse=True)
def restore(pool: Pool) -> Iterator[None]:
    before = pool.threads
    yield
    pool.set_threads(before)


@pytest.fixture(scope="module")
def kernels(pool: Pool) -> engine.Library:
    image = engine.compile_text(KERNELS, engine.host_target())
    return engine.load(image, pool.symbols()).keep()


def cells(count: int = 512) -> tuple[ctypes.Array[ctypes.c_int64], int]:
    """Zeroed cells at a 64-byte boundary, and their address."""
    raw = (ctypes.c_int64 * (count + 8))()
    start = (-ctypes.addressof(raw)) % 64
    made = (ctypes.c_int64 * count).from_buffer(raw, start)
    return made, ctypes.addressof(made)


@pytest.mark.parametrize("threads", [1, 2, 3, 5, 1, 4])
def test_every_thread_runs_once(pool: Pool, kernels: engine.Library, threads: int) -> None:
    pool.set_threads(threads)
    slots, address = cells()
    for _ in range(20):
        pool.run(kernels.address("count"), address)
    assert list(slots[:6]) == [20] * threads + [0] * (6 - threads)
    assert slots[300] == threads


def test_changing_the_number_of_threads_quickly(pool: Pool, kernels: engine.Library) -> None:
    slots, address = cells()
    for k in range(300):
        pool.set_threads(1 + k % 4)
        pool.run(kernels.address("count"), address)
    assert list(slots[:4]) == [300, 225, 150, 75]


@pytest.mark.parametrize("threads", [2, 3])
def test_barriers_order_the_threads(pool: Pool, kernels: engine.Library, threads: int) -> None:
    pool.set_threads(threads)
    data, address = cells()
    data[0] = 500
    assert BARRIER_BYTES == 128
    pool.run(kernels.address("rounds"), address)
    assert data[32] == 500 * threads
    assert data[40] == 0


def affinities() -> list[set[int]]:
    """Where each of this process's other threads may run."""
    own = threading.get_native_id()
    return [os.sched_getaffinity(int(task.name)) for task in Path("/proc/self/task").iterdir()
            if int(task.name) != own]


@pytest.mark.skipif(len(limits.allowed_processors()) < 2, reason="needs two processors")
def test_workers_make_way_for_the_caller(kernels: engine.Library) -> None:
    code = f"""if True:
    import os, sys, time
    sys.path.insert(0, {str(Path(__file__).parent)!r})
    from nacre.native import engine, limits, pool
    from test_pool import KERNELS, affinities
    processors = limits.allowed_processors()
    p = pool.pool()
    library = engine.load(engine.compile_text(KERNELS, engine.host_target()), p.symbols())
    p.set_threads(len(processors))
    p.run(library.address("nothing"))
    time.sleep(0.01)
    for home in (processors[-1], processors[0], processors[1]):
        os.sched_setaffinity(0, {{home}})
        p.run(library.address("nothing"))
        workers = affinities()
        assert all(len(a) == 1 for a in workers) and len(workers) == len(processors) - 1, workers
        assert set().union(*workers) == set(processors) - {{home}}, (home, workers)
    os.sched_setaffinity(0, processors)
    p.set_threads(len(processors) + 1)
    p.run(library.address("nothing"))
    time.sleep(0.01)
    p.run(library.address("nothing"))
    assert all(a == set(processors) for a in affinities()), affinities()
    """
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_nested_region_runs_on_its_caller(pool: Pool, kernels: engine.Library) -> None:
    pool.set_threads(2)
    slots, address = cells()
    pool.run(kernels.address("nested"), address)
    assert slots[0] == 2 and slots[1] == 0 and slots[300] == 1


def test_many_python_threads(pool: Pool, kernels: engine.Library) -> None:
    pool.set_threads(2)
    results: list[int] = []

    def work() -> None:
        slots, address = cells()
        for _ in range(50):
            pool.run(kernels.address("count"), address)
        results.append(slots[0])

    started = [threading.Thread(target=work) for _ in range(4)]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()
    assert results == [50] * 4


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_child_starts_its_own_threads(pool: Pool, kernels: engine.Library) -> None:
    pool.set_threads(2)
    slots, address = cells()
    pool.run(kernels.address("count"), address)
    child = os.fork()
    if child == 0:
        fresh = pool.started == 1
        pool.run(kernels.address("count"), address)
        os._exit(0 if fresh and list(slots[:2]) == [2, 2] and pool.started == 2 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    pool.run(kernels.address("count"), address)
    assert list(slots[:2]) == [2, 2]


@pytest.mark.skipif(engine.host_target().isa == "neon", reason="x86 control word")
def test_workers_have_the_default_control_word(pool: Pool, kernels: engine.Library) -> None:
    pool.set_threads(2)
    slots, address = cells()
    pool.run(kernels.address("control"), address)
    assert slots[1] & 0xFFC0 == 0x1F80


def test_signals_reach_the_main_thread(pool: Pool, kernels: engine.Library) -> None:
    pool.set_threads(3)
    pool.run(kernels.address("nothing"))
    seen: list[int] = []
    before = signal.signal(signal.SIGUSR1, lambda *_: seen.append(threading.get_native_id()))
    try:
        for _ in range(20):
            os.kill(os.getpid(), signal.SIGUSR1)
            time.sleep(0.001)
        blocked = [line for task in Path("/proc/self/task").iterdir()
                   for line in (task / "status").read_text().splitlines() if "SigBlk" in line]
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert set(seen) == {threading.main_thread().native_id}
    assert sum(int(line.split()[1], 16) & (1 << 9) > 0 for line in blocked) >= 2


def test_a_program_ends_while_workers_spin() -> None:
    code = """if True:
    from nacre.native import engine, pool
    p = pool.pool()
    assert p.started == 1
    text = "define void @k(ptr %a, i64 %t, i64 %n) {\\n  ret void\\n}\\n"
    library = engine.load(engine.compile_text(text, engine.host_target()))
    p.set_threads(3)
    p.run(library.address("k"))
    assert p.started == 3
    """
    for _ in range(3):
        assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_number_of_threads(monkeypatch: pytest.MonkeyPatch, pool: Pool) -> None:
    monkeypatch.setenv("NACRE_NUM_THREADS", "7")
    assert pools.default_threads() == 7
    monkeypatch.setenv("NACRE_NUM_THREADS", "many")
    with pytest.raises(ArgumentError, match="many"):
        pools.default_threads()
    with pytest.raises(ArgumentError, match="1 to 256"):
        pool.set_threads(0)
