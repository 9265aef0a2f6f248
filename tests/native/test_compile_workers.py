"""The crew: jobs done beside Python, larger ones first, faults left to others, forks between jobs."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time

import pytest

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


def test_all_jobs_are_done_and_faults_are_lost() -> None:
    crew, done, interval = CompileWorkers(), [], sys.getswitchinterval()
    for k in range(50):
        crew.begin(k, lambda k=k: done.append(k if k % 5 else 1 // 0))
    crew.help()
    until = time.monotonic() + 10
    while time.monotonic() < until and (len(done) < 40 or crew._threads):
        time.sleep(0.001)
    assert sorted(done) == [k for k in range(50) if k % 5]
    assert sys.getswitchinterval() == interval


def test_who_waits_helps_and_larger_jobs_come_first(monkeypatch: pytest.MonkeyPatch) -> None:
    crew, done = CompileWorkers(), []
    monkeypatch.setattr(limits, "allowed_processors", lambda: [0])  # there is none for a thread
    for k in (3, 9, 1, 7):
        crew.begin(k, lambda k=k: done.append((k, threading.current_thread())))
    assert not done
    crew.help()
    assert done == [(k, threading.current_thread()) for k in (9, 7, 3, 1)]


def test_a_fork_comes_between_jobs() -> None:
    done = subprocess.run(
        [sys.executable, "-c", FORK], env={**os.environ, "NACRE_CACHE_DIR": "off"}, check=False, timeout=60
    )
    assert done.returncode == 0
