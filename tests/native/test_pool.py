"""The pool: every chunk runs once, on the threads that are available; no thread waits for absent ones."""

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
from nacre.native.pool import Pool

# count: a chunk adds 1 to its own cell, from the 100th on, and to its thread's.  linger: the same, after a while.
# meet: a chunk waits until another one runs, too; this takes two threads, or ends after some seconds.
KERNELS = """
declare void @nacre.pool_run(ptr, ptr, i64)
declare void @llvm.x86.sse.stmxcsr(ptr)
define void @count(ptr %a, i64 %c, i64 %t) {
  %slot = getelementptr i64, ptr %a, i64 %t
  %old = atomicrmw add ptr %slot, i64 1 seq_cst
  %cells = getelementptr i64, ptr %a, i64 100
  %cell = getelementptr i64, ptr %cells, i64 %c
  %was = atomicrmw add ptr %cell, i64 1 seq_cst
  ret void
}
define void @linger(ptr %a, i64 %c, i64 %t) {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %next = add i64 %i, 1
  %v = load volatile i64, ptr %a
  %more = icmp slt i64 %next, 200000
  br i1 %more, label %loop, label %end
end:
  call void @count(ptr %a, i64 %c, i64 %t)
  ret void
}
define void @meet(ptr %a, i64 %c, i64 %t) {
entry:
  %present = getelementptr i64, ptr %a, i64 500
  %old = atomicrmw add ptr %present, i64 1 seq_cst
  br label %wait
wait:
  %i = phi i64 [ 0, %entry ], [ %next, %wait ]
  %next = add i64 %i, 1
  %there = load atomic i64, ptr %present seq_cst, align 8
  %single = icmp slt i64 %there, 2
  %patient = icmp slt i64 %i, 10000000000
  %again = and i1 %single, %patient
  br i1 %again, label %wait, label %end
end:
  call void @count(ptr %a, i64 %c, i64 %t)
  ret void
}
define void @nested(ptr %a, i64 %c, i64 %t) {
  call void @nacre.pool_run(ptr @count, ptr %a, i64 3)
  ret void
}
define void @control(ptr %a, i64 %c, i64 %t) {
  call void @meet(ptr %a, i64 %c, i64 %t)
  %word = alloca i32
  call void @llvm.x86.sse.stmxcsr(ptr %word)
  %value = load i32, ptr %word
  %wide = zext i32 %value to i64
  %slot = getelementptr i64, ptr %a, i64 %t
  store i64 %wide, ptr %slot
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
@pytest.mark.parametrize("chunks", [0, 1, 2, 7, 300])
def test_every_chunk_is_done_once(pool: Pool, kernels: engine.Library, threads: int, chunks: int) -> None:
    pool.set_threads(threads)
    slots, address = cells()
    for _ in range(20):
        pool.run(kernels.address("count"), address, chunks)
    assert list(slots[100:401]) == [20] * chunks + [0] * (301 - chunks)
    assert sum(slots[:threads]) == 20 * chunks and not any(slots[threads:100])


def test_the_number_of_threads_can_be_set_before_the_code_is_loaded(kernels: engine.Library) -> None:
    made = Pool(3)
    made.set_threads(2)
    assert made.threads == (2 if made.parallel else 1)
    slots, address = cells()
    made.run(kernels.address("count"), address, 50)
    assert list(slots[100:150]) == [1] * 50 and sum(slots[made.threads : 100]) == 0


def test_changing_the_number_of_threads_quickly(pool: Pool, kernels: engine.Library) -> None:
    slots, address = cells()
    for k in range(300):
        pool.set_threads(1 + k % 4)
        pool.run(kernels.address("count"), address, 10)
    assert list(slots[100:111]) == [300] * 10 + [0] and sum(slots[:4]) == 3000


def test_threads_work_at_the_same_time(pool: Pool, kernels: engine.Library) -> None:
    pool.set_threads(2)
    slots, address = cells()
    pool.run(kernels.address("meet"), address, 2)
    assert list(slots[:2]) == [1, 1]


def test_excluded_threads_take_no_chunks(pool: Pool, kernels: engine.Library) -> None:
    pool.set_threads(4)
    slots, address = cells()
    pool.run(kernels.address("linger"), address, 50)
    pool.set_threads(2)
    before = list(slots[2:4])
    for _ in range(10):
        pool.run(kernels.address("linger"), address, 50)
    assert list(slots[2:4]) == before and list(slots[100:150]) == [11] * 50


SPARE = """if True:
    import ctypes, os, sys, time
    from pathlib import Path
    sys.path.insert(0, {folder!r})
    from nacre.native import engine, pool
    from test_pool import KERNELS, cells
    p = pool.pool()
    library = engine.load(engine.compile_text(KERNELS, engine.host_target()), p.symbols()).keep()
    slots, address = cells()
    before = set(os.listdir("/proc/self/task"))
    p.set_threads(40)
    p.run(library.address("linger"), address, 100)
    workers = sorted(set(os.listdir("/proc/self/task")) - before, key=int)
    assert len(workers) == 39, workers
    p.set_threads(2)

    def switches():
        found = []
        for task in workers:
            text = Path("/proc/self/task", task, "status").read_text(encoding="ascii")
            found.append(int(text.split("nonvoluntary_ctxt_switches")[0].split("voluntary_ctxt_switches:")[1]))
        return found

    def settled():
        time.sleep(0.3)
        return switches()

    start, now = settled(), settled()
    while start != now:
        start, now = now, settled()
    for _ in range(50):
        time.sleep(0.002)  # the other one sleeps, and is woken
        p.run(library.address("count"), address, 10)
    moved = [a != b for a, b in zip(start, settled())]
    assert sum(moved) <= 1, moved
    p.set_threads(40)
    p.run(library.address("linger"), address, 300)
    assert sum(n > 0 for n in slots[:100]) > 2
    print("done")
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="threads are looked at as Linux shows them")
def test_surplus_threads_sleep_during_all_regions() -> None:
    text = SPARE.format(folder=str(Path(__file__).parent))
    assert (
        subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False, timeout=60).stdout
        == "done\n"
    )


BESIDE = """if True:
    import ctypes, os, sys, time
    sys.path.insert(0, {folder!r})
    from nacre.native import engine, limits, pool
    from test_pool import KERNELS, cells
    p = pool.pool()
    library = engine.load(engine.compile_text(KERNELS, engine.host_target()), p.symbols()).keep()
    p.set_threads(2)
    slots, address = cells()
    p.run(library.address("meet"), address, 2)
    here = limits.allowed_processors()[0]
    for task in os.listdir("/proc/self/task"):
        os.sched_setaffinity(int(task), {{here}})  # the worker has to share its processor with the caller
    linger, times = library.address("linger"), 400
    start = time.perf_counter()
    for _ in range(times):
        p.run(linger, address, 8)
    shared = time.perf_counter() - start
    p.set_threads(1)
    start = time.perf_counter()
    for _ in range(times):
        p.run(linger, address, 8)
    alone = time.perf_counter() - start
    assert list(slots[100:108]) == [1 + 2 * times] * 2 + [2 * times] * 6, list(slots[100:110])
    print(shared, alone)
    assert shared < 3 * alone + 0.5, (shared, alone)
"""


def test_a_worker_without_a_processor_delays_no_region() -> None:
    code = BESIDE.format(folder=str(Path(__file__).parent))
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def affinities() -> list[set[int]]:
    """The processors where each of this process's other threads may run."""
    own = threading.get_native_id()
    return [os.sched_getaffinity(int(task.name)) for task in Path("/proc/self/task").iterdir() if int(task.name) != own]


@pytest.mark.skipif(len(limits.allowed_processors()) < 2, reason="needs two processors")
def test_workers_run_where_the_process_may() -> None:
    code = f"""if True:
    import os, sys, time
    sys.path.insert(0, {str(Path(__file__).parent)!r})
    from nacre.native import engine, limits, pool
    from test_pool import KERNELS, affinities, cells
    processors = limits.allowed_processors()
    p = pool.pool()
    library = engine.load(engine.compile_text(KERNELS, engine.host_target()), p.symbols())
    slots, address = cells()
    os.sched_setaffinity(0, {{processors[0]}})  # the caller's choice for itself
    p.set_threads(1)
    os.sched_setaffinity(0, processors)
    p.set_threads(2)
    os.sched_setaffinity(0, {{processors[1]}})
    p.run(library.address("meet"), address, 2)
    assert affinities() == [set(processors)], affinities()
    p.set_threads(2)
    assert affinities() == [{{processors[1]}}], affinities()
    """
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_nested_region_runs_on_its_caller(pool: Pool, kernels: engine.Library) -> None:
    pool.set_threads(2)
    slots, address = cells()
    pool.run(kernels.address("nested"), address, 4)
    assert slots[0] == 12 and slots[1] == 0 and list(slots[100:104]) == [4, 4, 4, 0]


def test_many_python_threads(pool: Pool, kernels: engine.Library) -> None:
    pool.set_threads(2)
    results: list[list[int]] = []

    def work() -> None:
        slots, address = cells()
        for _ in range(50):
            pool.run(kernels.address("count"), address, 6)
        results.append(list(slots[100:107]))

    started = [threading.Thread(target=work) for _ in range(4)]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()
    assert results == [[50] * 6 + [0]] * 4


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_child_starts_its_own_threads(pool: Pool, kernels: engine.Library) -> None:
    pool.set_threads(2)
    slots, address = cells()
    pool.run(kernels.address("meet"), address, 2)
    slots[500] = 0
    child = os.fork()
    if child == 0:
        fresh = pool.started == 1
        pool.run(kernels.address("meet"), address, 2)
        os._exit(0 if fresh and list(slots[:2]) == [2, 2] and pool.started == 2 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    pool.run(kernels.address("meet"), address, 2)
    assert list(slots[:2]) == [2, 2]


@pytest.mark.skipif(engine.host_target().isa == "neon", reason="x86 control word")
def test_workers_have_the_default_control_word(pool: Pool, kernels: engine.Library) -> None:
    pool.set_threads(2)
    slots, address = cells()
    pool.run(kernels.address("control"), address, 2)
    assert slots[1] & 0xFFC0 == 0x1F80


def test_signals_reach_the_main_thread(pool: Pool, kernels: engine.Library) -> None:
    pool.set_threads(3)
    _slots, address = cells()
    pool.run(kernels.address("count"), address, 4)
    seen: list[int] = []
    before = signal.signal(signal.SIGUSR1, lambda *_: seen.append(threading.get_native_id()))
    try:
        for _ in range(20):
            os.kill(os.getpid(), signal.SIGUSR1)
            time.sleep(0.001)
        blocked = [
            line
            for task in Path("/proc/self/task").iterdir()
            for line in (task / "status").read_text().splitlines()
            if "SigBlk" in line
        ]
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
    p.run(library.address("k"), 0, 10)
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
