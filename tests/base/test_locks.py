"""Objects that must be unique are created once, even by several threads; no process waits for ever after a fork."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from nacre.base.identity_cache import LIMIT, cached_by_identity
from nacre.base.locks import Turns, once

FIRST = """
import sys, threading
import nacre as nc
sys.setswitchinterval(1e-5)
start, faults = threading.Barrier(4), []
def work(k):
    start.wait()
    try:
        x = nc.ones((3, 4)) * k
        f = nc.jit(lambda x: nc.sum(x * 2.0 + 1.0))
        assert [f(x).item() for _ in range(3)] == [24.0 * k + 12] * 3
        assert (x @ x.mT)[0, 0].item() == 4.0 * k * k
    except BaseException as fault:
        faults.append(fault)
threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
for t in threads:
    t.start()
for t in threads:
    t.join()
assert not faults, faults
"""

FORKS = """
import gc, os, threading, time
import nacre as nc
from nacre.base.state import SILENT
from nacre.trace.bind import ACTIVE
stop = []
def program(k):
    return nc.jit(lambda x: nc.sum(nc.tanh(x * float(k)), axis=k % 2))
def work():
    with nc.numerics("fast"), nc.no_grad():
        k = 0
        while not stop:
            program(k := k + 1)(nc.ones((5, 7)))
program(0)(nc.ones((5, 7)))
thread = threading.Thread(target=work, daemon=True)
thread.start()
time.sleep(0.3)
for k in range(8):
    child = os.fork()
    if not child:
        fine = gc.isenabled() and ACTIVE.value == 0 and SILENT[0] == 0
        program(k)(nc.ones((5, 7)))
        os._exit(0 if fine else 1)
    assert os.waitpid(child, 0)[1] == 0
    time.sleep(0.02)
stop.append(True)
thread.join()
"""

AMID_IMPORTS = """
import os, sys, threading, time
import nacre as nc
def work():
    f = nc.jit(lambda x: nc.sum(nc.tanh(x @ x), axis=0))
    assert f(nc.ones((5, 5))).shape == (5,)
    from nacre import nn, optim
    nn.Linear, optim.Adam, nc.save, nc.cond, nc.load_program
if sys.argv[2] == "used":
    nc.ones(1)
thread = threading.Thread(target=work)
thread.start()
children = []
for _ in range(4):
    time.sleep(float(sys.argv[1]))
    child = os.fork()
    if not child:
        work()
        os._exit(0)
    children.append(child)
assert [os.waitpid(child, 0)[1] for child in children] == [0] * 4
thread.join()
"""


def _runs(program: str) -> bool:
    return (
        subprocess.run(
            [sys.executable, "-c", program], env={**os.environ, "NACRE_CACHE_DIR": "off"}, check=False, timeout=120
        ).returncode
        == 0
    )


def test_one_thread_computes_the_result() -> None:
    made: list[int] = []

    @once
    def slow(k: int) -> object:
        made.append(k)
        time.sleep(0.02)
        return object()

    found: list[object] = []
    threads = [threading.Thread(target=lambda: found.append(slow(1))) for _ in range(5)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(set(map(id, found))) == 1 and made == [1]
    assert slow(2) is not slow(1) and made == [1, 2]


def test_several_threads_make_the_first_calls() -> None:
    assert _runs(FIRST)


def test_forked_children_work_while_other_threads_trace_and_compile() -> None:
    assert _runs(FORKS)


@pytest.mark.parametrize("used", ["unused", "used"])
@pytest.mark.parametrize("delay", [0.01, 0.03, 0.06])
def test_forked_children_work_while_another_thread_imports(delay: float, used: str) -> None:
    subprocess.run(
        [sys.executable, "-c", AMID_IMPORTS, str(delay), used],
        env={**os.environ, "NACRE_CACHE_DIR": "off"},
        check=True,
        timeout=60,
    )


def test_a_fork_waits_for_a_lock_and_an_import_that_needs_it(tmp_path: Path) -> None:
    (tmp_path / "late.py").write_text(
        "import time\nfrom __main__ import lock\ntime.sleep(0.2)\nwith lock: pass\n"
        "time.sleep(0.2)\nwith lock: done = True\n"
    )
    program = """
import os, sys, threading, time
from nacre.base import forks, locks
lock = locks.forkable()
forks.OURS = {"late"}
thread = threading.Thread(target=lambda: __import__("late"))
thread.start()
time.sleep(0.1)
child = os.fork()
if not child:
    import late
    os._exit(0 if late.done and lock.acquire(timeout=1) else 1)
thread.join()
assert os.waitpid(child, 0)[1] == 0 and not lock.locked()
"""
    subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, "PYTHONPATH": str(tmp_path)}, check=True, timeout=60
    )


def test_threads_may_evict_results_cached_by_identity() -> None:
    @cached_by_identity
    def size(x: list[int]) -> int:
        return len(x)

    faults: list[BaseException] = []

    def work(k: int) -> None:
        try:
            assert all(size([0] * (n % 7 + k)) == n % 7 + k for n in range(20 * LIMIT))
        except BaseException as fault:
            faults.append(fault)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    finally:
        sys.setswitchinterval(interval)
    assert faults == []


# ---- turns


def in_threads(*works: Callable[[], object]) -> list[object]:
    """The results, or errors, of functions that run in parallel threads."""
    found: list[object] = [None] * len(works)

    def run(k: int) -> None:
        try:
            found[k] = works[k]()
        except BaseException as fault:
            found[k] = fault

    threads = [threading.Thread(target=run, args=(k,), daemon=True) for k in range(len(works))]
    for t in threads:
        t.start()
    for t in threads:
        t.join(60)
        assert not t.is_alive()
    return found


def test_one_thread_computes_an_entry_while_others_wait() -> None:
    turns, known, made = Turns(), dict[str, int](), list[int]()

    def make() -> int:
        made.append(1)
        time.sleep(0.05)
        return len(made)

    assert in_threads(*[lambda: turns.fill(known, "x", 10, make)] * 16) == [1] * 16
    assert made == [1]


def test_at_the_limit_the_oldest_entry_is_removed() -> None:
    turns, known = Turns(), dict[int, int]()
    assert [turns.fill(known, k, 3, lambda k=k: k) for k in range(5)] == [0, 1, 2, 3, 4]
    assert list(known) == [2, 3, 4]


def test_after_an_error_another_thread_computes_the_entry() -> None:
    turns, known, tries = Turns(), dict[str, int](), list[int]()

    def make() -> int:
        tries.append(1)
        time.sleep(0.02)
        if len(tries) < 4:
            raise KeyboardInterrupt if len(tries) == 2 else ValueError
        return 7

    found = in_threads(*[lambda: turns.fill(known, "x", 10, make)] * 8)
    assert len(tries) == 4 and found.count(7) == 5


def test_other_keys_do_not_wait() -> None:
    turns, both = Turns(), threading.Barrier(2, timeout=30)
    assert in_threads(lambda: turns.take(1, both.wait), lambda: turns.take(2, both.wait)) in ([0, 1], [1, 0])


def test_nested_turns() -> None:
    turns = Turns()
    assert turns.take(1, lambda: turns.take(2, lambda: turns.take(1, lambda: 3))) == 3
    assert in_threads(lambda: turns.take(1, lambda: 4)) == [4]


def test_threads_that_wait_for_each_other_continue() -> None:
    turns, ring = Turns(), 5
    all_have_one = threading.Barrier(ring, timeout=30)

    def work(k: int) -> int:
        def inner() -> int:
            all_have_one.wait()
            return turns.take((k + 1) % ring, lambda: k)

        return turns.take(k, inner)

    assert in_threads(*[lambda k=k: work(k) for k in range(ring)]) == list(range(ring))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs forks")
def test_a_forked_child_takes_the_turn_of_another_thread() -> None:
    turns, begun, ends = Turns(), threading.Event(), threading.Event()
    thread = threading.Thread(target=lambda: turns.take(1, lambda: (begun.set(), ends.wait(60))))
    thread.start()
    begun.wait(60)
    child = os.fork()
    if not child:
        os._exit(turns.take(1, lambda: 42))
    ends.set()
    thread.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 42


MUTUAL = """
import faulthandler, sys, threading
faulthandler.dump_traceback_later(60, exit=True)
sys.setswitchinterval(1e-6)
import nacre as nc
@nc.jit
def f(x, n):
    return x if n == 0 else g(x, n - 1) + 1
@nc.jit
def g(x, n):
    return x if n == 0 else f(x, n - 1) * 2
faults, start = [], threading.Barrier(16)
def work(k):
    start.wait()
    try:
        assert (f if k % 2 else g)(nc.ones(2), 6).tolist() == ([15.0] * 2 if k % 2 else [22.0] * 2)
    except BaseException as fault:
        faults.append(fault)
threads = [threading.Thread(target=work, args=(k,)) for k in range(16)]
for t in threads:
    t.start()
for t in threads:
    t.join()
assert not faults, faults
assert len(f.concrete_functions) == len(g.concrete_functions) == 7, (f.concrete_functions, g.concrete_functions)
"""


def test_functions_that_call_each_other_from_many_threads() -> None:
    done = subprocess.run([sys.executable, "-c", MUTUAL], capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
