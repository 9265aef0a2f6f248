"""The pool under stress: many threads, nested regions, forks, changes of the team, and signals, all at once."""

from __future__ import annotations

import ctypes
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Final

import pytest

from nacre.native import engine
from nacre.native import pool as pools
from nacre.native.pool_state import MOST_OFFERED
from nacre.native.python.declarations import external, inline, native
from nacre.native.python.intrinsics import atomic_change, atomic_load, cast
from nacre.native.python.module import module
from nacre.native.python.types import array, i64, ptr, struct, u8

MOST_CHUNKS: Final = 1000
NESTED: Final = 3  # chunks of a region inside of a chunk
LONG: Final = 2000  # rounds of a long chunk
SECONDS = 1.0  # of a short test
MANY_SECONDS = 20.0

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="other systems have no pool")


@struct
class Counts:
    """How often each thread and each chunk has run."""

    threads: Annotated[array[i64], 256]
    chunks: Annotated[array[i64], MOST_CHUNKS]
    nested: i64
    noise: i64


@external(symbol="nacre.pool_run")
def run_region(function: Callable[[ptr[u8], i64, i64], None], argument: ptr[u8], chunks: i64) -> None: ...


@inline
def count(counts: Counts, chunk: i64, thread: i64) -> None:
    atomic_change("add", counts.threads[thread], 1, "relaxed")
    atomic_change("add", counts.chunks[chunk], 1, "relaxed")


@native
def short(argument: ptr[u8], chunk: i64, thread: i64) -> None:
    count(cast(Counts, argument), chunk, thread)


@native
def long(argument: ptr[u8], chunk: i64, thread: i64) -> None:
    counts = cast(Counts, argument)
    for _ in range(i64(LONG)):
        atomic_load(counts.noise, "seq_cst")
    count(counts, chunk, thread)


@native
def inside(argument: ptr[u8], chunk: i64, thread: i64) -> None:
    atomic_change("add", cast(Counts, argument).nested, 1, "relaxed")


@native
def nesting(argument: ptr[u8], chunk: i64, thread: i64) -> None:
    count(cast(Counts, argument), chunk, thread)
    run_region(inside, argument, NESTED)


@native
def single(argument: ptr[u8], chunk: i64, thread: i64) -> None:
    """For more chunks than there are counts: their number and their sum."""
    counts = cast(Counts, argument)
    atomic_change("add", counts.threads[thread], 1, "relaxed")
    atomic_change("add", counts.nested, chunk, "relaxed")


KERNELS: list[Any] = [short, long, nesting, single]


class Numbers(ctypes.Structure):
    """`Counts` in Python."""

    _fields_ = (
        ("threads", ctypes.c_int64 * 256),
        ("chunks", ctypes.c_int64 * MOST_CHUNKS),
        ("nested", ctypes.c_int64),
        ("noise", ctypes.c_int64),
    )


@cache
def kernels() -> dict[str, int]:
    """The addresses of the kernels."""
    image = engine.compile_text(module(KERNELS), engine.host_target())
    library = engine.load(image, pools.pool().symbols()).keep()
    return {f.__name__: library.address(f.symbol) for f in KERNELS}


class Regions:
    """Regions of one caller, whose chunks are counted."""

    def __init__(self, kernel: str, seed: int) -> None:
        self.kernel, self.random = kernels()[kernel], random.Random(seed)
        self.numbers, self.expected = Numbers(), [0] * MOST_CHUNKS

    def run(self) -> None:
        """A region of some chunks."""
        chunks = self.random.choice((0, 1, 2, 3, 7, 40, MOST_CHUNKS))
        pools.pool().run(self.kernel, ctypes.addressof(self.numbers), chunks)
        for k in range(chunks):
            self.expected[k] += 1

    def run_until(self, end: float) -> None:
        """Regions until some time, and one at least."""
        self.run()
        while time.monotonic() < end:
            self.run()

    def check(self) -> None:
        """Every chunk has run once."""
        assert list(self.numbers.chunks) == self.expected
        assert sum(self.numbers.threads) == sum(self.expected)


def on_threads(all_regions: list[Regions], end: float) -> list[threading.Thread]:
    """Regions of several callers at once."""
    started = [threading.Thread(target=regions.run_until, args=(end,)) for regions in all_regions]
    for thread in started:
        thread.start()
    return started


# ---- scenarios: each runs in a process of its own, for some seconds


def many_threads(seconds: float) -> None:
    counts = (2, 3, 8, 17, 64)
    for threads in counts:
        pools.pool().set_threads(threads)
        for kernel in ("short", "long"):
            regions = Regions(kernel, threads)
            regions.run_until(time.monotonic() + seconds / len(counts) / 2)
            regions.check()
            assert not any(regions.numbers.threads[threads:])


def nested_regions(seconds: float) -> None:
    pools.pool().set_threads(4)
    regions = Regions("nesting", 1)
    regions.run_until(time.monotonic() + seconds)
    regions.check()
    assert regions.numbers.nested == NESTED * sum(regions.expected)


def several_callers(seconds: float) -> None:
    pools.pool().set_threads(3)
    all_regions = [Regions(kernel, n) for n, kernel in enumerate(("short", "long", "nesting", "short"))]
    for thread in on_threads(all_regions, time.monotonic() + seconds):
        thread.join()
    for regions in all_regions:
        regions.check()


def changing_teams(seconds: float) -> None:
    end = time.monotonic() + seconds
    all_regions = [Regions("short", 1), Regions("long", 2)]
    callers = on_threads(all_regions, end)
    choice = random.Random(3)
    while time.monotonic() < end:
        pools.pool().set_threads(choice.choice((1, 2, 3, 5, 16, 40)))
        time.sleep(choice.choice((0, 0, 0.0005, 0.003)))
    for thread in callers:
        thread.join()
    for regions in all_regions:
        regions.check()


def forks(seconds: float) -> None:
    """Forks while another thread is in a region; the children have pools of their own, and fork again."""
    end = time.monotonic() + seconds
    pools.pool().set_threads(3)
    other = Regions("long", 1)
    callers = on_threads([other], end)
    own, children = Regions("short", 2), 0
    while time.monotonic() < end or not children:
        child = os.fork()
        if child == 0:
            _end_child(children)
        own.run()
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        children += 1
    for thread in callers:
        thread.join()
    own.check()
    other.check()


def _end_child(seed: int) -> None:
    """What a child does: it finds a pool without workers, runs regions, and has a child itself."""
    code = 1
    try:
        assert pools.pool().started == 1
        regions = Regions("long", seed)
        for _ in range(5):
            regions.run()
        regions.check()
        assert pools.pool().started == pools.pool().threads  # the workers are the child's own
        grandchild = os.fork()
        if grandchild == 0:
            regions.run()
            regions.check()
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(grandchild, 0)[1]) == 0
        code = 0
    finally:
        os._exit(code)


def signals(seconds: float) -> None:
    """A caller whose wait is interrupted again and again."""
    seen: list[int] = []
    signal.signal(signal.SIGALRM, lambda *_: seen.append(threading.get_ident()))
    pools.pool().set_threads(8)
    all_regions = [Regions(kernel, 1) for kernel in ("short", "long", "nesting")]
    signal.setitimer(signal.ITIMER_REAL, 0.0003, 0.0003)
    for regions in all_regions:
        regions.run_until(time.monotonic() + seconds / 3)
    signal.setitimer(signal.ITIMER_REAL, 0)
    for regions in all_regions:
        regions.check()
    assert len(seen) > 5 and set(seen) == {threading.get_ident()}


def everything(seconds: float) -> None:
    """All of these together: several callers, changing teams, signals, and forks."""
    signal.signal(signal.SIGALRM, lambda *_: None)
    signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
    end = time.monotonic() + seconds
    all_regions = [Regions(kernel, n) for n, kernel in enumerate(("short", "long", "nesting"))]
    callers = on_threads(all_regions, end)
    choice, own, children = random.Random(4), Regions("short", 9), 0
    while time.monotonic() < end:
        pools.pool().set_threads(choice.choice((1, 2, 4, 9, 64)))
        own.run()
        if choice.random() < 0.1:
            child = os.fork()
            if child == 0:
                signal.setitimer(signal.ITIMER_REAL, 0)
                _end_child(children)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
            children += 1
    for thread in callers:
        thread.join()
    for regions in (*all_regions, own):
        regions.check()


SCENARIOS = {f.__name__: f for f in (many_threads, nested_regions, several_callers, changing_teams, forks, signals)}
CODE = """
import sys, warnings
sys.path.insert(0, {folder!r})
warnings.simplefilter("ignore")
from native import test_pool_stress
test_pool_stress.{scenario}({seconds})
print("done")
"""


def check(scenario: str, seconds: float) -> None:
    code = CODE.format(folder=str(Path(__file__).parents[1]), scenario=scenario, seconds=seconds)
    command = [sys.executable, "-X", "faulthandler", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60 + 10 * seconds)
    assert done.stdout == "done\n", done.stdout + done.stderr


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_stress(scenario: str) -> None:
    check(scenario, SECONDS)


@pytest.mark.slow
@pytest.mark.parametrize("scenario", [*SCENARIOS, "everything"])
def test_long_stress(scenario: str) -> None:
    check(scenario, MANY_SECONDS)


@pytest.mark.slow
def test_more_chunks_than_an_offer_can_count() -> None:
    pool = pools.pool()
    before = pool.threads
    pool.set_threads(2)
    numbers, chunks = Numbers(), MOST_OFFERED + 3
    pool.run(kernels()["single"], ctypes.addressof(numbers), chunks)
    pool.set_threads(before)
    assert sum(numbers.threads) == chunks and numbers.nested == chunks * (chunks - 1) // 2
