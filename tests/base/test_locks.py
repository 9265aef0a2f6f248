"""What there must not be two of is made once, whichever threads ask for it first; forks leave nobody waiting."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time

from nacre.base.known import LIMIT, known_by_identity
from nacre.base.locks import once

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
program(0)(nc.ones((5, 7)))  # all is imported: Python itself cannot fork amid an import
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


def _runs(program: str) -> bool:
    return subprocess.run([sys.executable, "-c", program], env={**os.environ, "NACRE_CACHE_DIR": "off"}, check=False,
                          timeout=120).returncode == 0


def test_one_thread_makes_it() -> None:
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


def test_threads_that_come_first() -> None:
    assert _runs(FIRST)


def test_children_are_whole_while_other_threads_trace_and_compile() -> None:
    assert _runs(FORKS)


def test_threads_may_forget_what_is_known_by_identity() -> None:
    @known_by_identity
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
