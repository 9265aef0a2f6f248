"""Compile workers: jobs run in the background, larger ones first; errors are dropped; forks wait for jobs."""

from __future__ import annotations

import inspect
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from nacre.base.locks import Turns
from nacre.native import limits
from nacre.native.compile_workers import CompileWorkers

FORK = """
import os, sys, threading
from nacre.native import cache, engine
TEXT = "define i64 @kernel(i64 %a) {{\\n  %b = add i64 %a, {0}\\n  ret i64 %b\\n}}\\n"
target, objects = engine.host_target(), cache.ObjectCache(cache.DiskCache(None))
for k in range(200):
    objects.begin(TEXT.format(k), target)
child = os.fork()
images = objects.compile_all([TEXT.format(k) for k in range(150, 250)], target)
assert len(set(images)) == 100
if child:
    assert os.waitpid(child, 0)[1] == 0
"""

FORK_DURING_LATER_WORK = """
import os, threading, time
from nacre.native import compile_workers, limits
from nacre.base.locks import forkable
limits.allowed_processors = lambda: [0, 1]
lock, begun, ended = forkable(), threading.Event(), threading.Event()

def work():
    begun.set()
    time.sleep(0.3)
    with lock:
        pass

compile_workers.begin_later(work)
compile_workers.begin_later(ended.set)
assert begun.wait(10)
child = os.fork()
with lock:
    pass
if child:
    assert os.waitpid(child, 0)[1] == 0
    assert ended.wait(10)
"""


def test_all_jobs_run_and_their_errors_are_dropped() -> None:
    crew, done, interval = CompileWorkers(), [], sys.getswitchinterval()
    for k in range(50):
        crew.begin(k, lambda k=k: done.append(k if k % 5 else 1 // 0))
    crew.help()
    until = time.monotonic() + 10
    while time.monotonic() < until and (len(done) < 40 or crew._threads):
        time.sleep(0.001)
    assert sorted(done) == [k for k in range(50) if k % 5]
    assert sys.getswitchinterval() == interval


def test_callers_help_and_larger_jobs_run_first(monkeypatch: pytest.MonkeyPatch) -> None:
    crew, done = CompileWorkers(), []
    monkeypatch.setattr(limits, "allowed_processors", lambda: [0])  # no processor for a worker
    for k in (3, 9, 1, 7):
        crew.begin(k, lambda k=k: done.append((k, threading.current_thread())))
    assert not done
    crew.help()
    assert done == [(k, threading.current_thread()) for k in (9, 7, 3, 1)]


def status(program: str, seconds: float) -> int:
    """The exit status of a process that compiles all code itself, and ends within the time."""
    line = [sys.executable, "-c", program]
    return subprocess.run(line, env={**os.environ, "NACRE_CACHE_DIR": "off"}, check=False, timeout=seconds).returncode


def test_a_fork_waits_until_no_job_runs() -> None:
    assert status(FORK, 60) == 0


def test_a_fork_waits_for_later_work_before_it_takes_locks() -> None:
    assert status(FORK_DURING_LATER_WORK, 60) == 0


def test_later_work_waits_for_jobs_and_gets_no_help(monkeypatch: pytest.MonkeyPatch) -> None:
    crew, done, open_, begun = CompileWorkers(), [], threading.Event(), threading.Event()
    monkeypatch.setattr(limits, "allowed_processors", lambda: [0, 1])  # one worker
    crew.begin(0, lambda: (begun.set(), open_.wait(10)))
    assert begun.wait(10)
    crew.begin_later(lambda: (done.append("later"), crew.begin(9, lambda: done.append("part of it"))))
    crew.begin_later(lambda: done.append("even later"))
    crew.begin(1, lambda: done.append("job"))
    crew.help()
    assert done == ["job"]
    open_.set()
    until = time.monotonic() + 10
    while time.monotonic() < until and crew._threads:
        time.sleep(0.001)
    assert done == ["job", "later", "part of it", "even later"]


def test_without_another_processor_nothing_is_done_for_later(monkeypatch: pytest.MonkeyPatch) -> None:
    crew, done = CompileWorkers(), []
    monkeypatch.setattr(limits, "allowed_processors", lambda: [0])
    crew.begin_later(lambda: done.append("later"))
    crew.help()
    assert not done and not crew._threads and not crew._later


INTERRUPTED = """
import random, signal, nacre as nc

def interrupt(*_):
    raise KeyboardInterrupt

random.seed(2)
signal.signal(signal.SIGALRM, interrupt)
functions = nc.erf, nc.sin, nc.acosh, nc.cbrt, nc.exp2, nc.sinh, nc.tan, nc.nn.functional.silu, nc.nn.functional.selu
for k in range(30):
    try:
        signal.setitimer(signal.ITIMER_REAL, random.random() * 0.05)
        y = nc.ones((2,) * (k % 7 + 1), dtype=[nc.float32, nc.float64, nc.float16][k % 3]).requires_grad_()
        for f in random.sample(functions, 5):
            y = f(y + 1.5)
        y.sum().backward()
    except KeyboardInterrupt:
        pass
signal.setitimer(signal.ITIMER_REAL, 0)
"""


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers")
def test_a_process_with_interrupted_first_steps_ends() -> None:
    assert status(INTERRUPTED, 300) == 0


def test_with_blocks_take_native_locks() -> None:
    """Methods of `threading.Condition` are Python code, in which an interrupt leaves the lock taken."""
    for owner in (CompileWorkers, Turns):
        assert "with self._state" not in inspect.getsource(owner)
        assert isinstance(owner()._lock, type(threading.RLock()))
