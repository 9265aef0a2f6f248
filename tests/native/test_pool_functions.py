"""Each function of the pool alone: compiled, and called with shared variables that are written here."""

from __future__ import annotations

import ctypes
import itertools
import threading
import time
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from nacre.native import contention_backoff, engine, linux, parallel_runtime, pool_state, pool_worker
from nacre.native.contention_backoff import LONGEST, SHORTEST, BackOff
from nacre.native.limits import MAX_THREADS, PROCESSORS
from nacre.native.linux import ProcessorSet, SignalSet, ThreadAttributes, TimeSpec
from nacre.native.pool_state import COUNT_MASK, LINE, MOST_OFFERED, NO_CHUNK, PoolWorker
from nacre.native.python.declarations import native
from nacre.native.python.intrinsics import addr, cast
from nacre.native.python.module import module
from nacre.native.python.types import i64, offset_of, ptr, size_of, struct, struct_of, u32, u64
from nacre.native.python.unit import NativeModule
from native.python.compiled import ctype

FUTURE = 1 << 62
CHUNK = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)


@struct
class Addresses:
    """Where the shared variables are."""

    lock: pool_state.Lock
    offer: pool_state.Offer
    batch: pool_state.OpenBatch
    finished: pool_state.Finished
    caller_wait: pool_state.CallerWait
    bell: pool_state.Bell
    sleepers: pool_state.Sleepers
    season: pool_state.Season
    team: pool_state.Team
    workers: pool_state.PoolWorkers
    allowed: ProcessorSet
    back_off: BackOff


@native
def find_variables(found: Addresses) -> None:
    found.lock = pool_state.lock
    found.offer = pool_state.offer
    found.batch = pool_state.batch
    found.finished = pool_state.finished
    found.caller_wait = pool_state.caller_wait
    found.bell = pool_state.bell
    found.sleepers = pool_state.sleepers
    found.season = pool_state.season
    found.team = pool_state.team
    found.workers = pool_state.workers
    found.allowed = pool_state.allowed
    found.back_off = contention_backoff.back_off


@native
def offer_of(count: i64, highest_thread: i64) -> u64:
    return pool_state.packed_offer(count, highest_thread)


@native
def may_take(word: u64, thread: i64) -> bool:
    return pool_state.has_chunk_for(word, thread)


@native
def retreat(began: i64, now: i64, lost: i64) -> None:
    contention_backoff.retreat(began, now, lost)


@native
def time_now() -> i64:
    return linux.time_now()


@native
def time_run(thread: u32) -> i64:
    return linux.time_run(thread)


@native
def current_thread() -> u32:
    return linux.current_thread()


@native
def join(chunks: i64) -> None:
    parallel_runtime.join(chunks)


@native
def wait_for_chunks(thread: i64, rounds: i64) -> i64:
    return pool_worker.wait_for_chunks(thread, rounds)


@native
def do_chunks(first: i64, thread: i64) -> None:
    pool_worker.do_chunks(first, thread, pool_state.workers.rows[thread])


@native
def finished_word() -> ptr[u32]:
    return cast(ptr[u32], addr(pool_state.finished.chunks))


@native
def bell_word() -> ptr[u32]:
    return addr(pool_state.bell.rings)


FUNCTIONS: list[Any] = [
    *(find_variables, offer_of, may_take, retreat, time_now, time_run, current_thread, join, wait_for_chunks),
    *(do_chunks, finished_word, bell_word, pool_state.take_chunk, pool_state.do_chunk),
    *(linux.sleep_while, linux.wake_sleepers, linux.clock_time),
    *(contention_backoff.late_worker, contention_backoff.time_of_worker, contention_backoff.await_workers),
    *(parallel_runtime.enter, parallel_runtime.leave, parallel_runtime.share, parallel_runtime.run),
    *(parallel_runtime.forked, parallel_runtime.threads, parallel_runtime.set_team, parallel_runtime.started),
]


class View:
    """A structure in memory, by the names of its fields."""

    def __init__(self, owner: type[Any], address: int) -> None:
        self.__dict__.update(owner=owner, address=address)

    def _place(self, name: str) -> Any:
        kind = struct_of(self.owner).fields[name].kind
        return ctype(kind).from_address(self.address + offset_of(self.owner, name))

    def __getattr__(self, name: str) -> Any:
        return self._place(name).value

    def __setattr__(self, name: str, value: Any) -> None:
        self._place(name).value = value


@cache
def image() -> bytes:
    return engine.compile_text(module(FUNCTIONS), engine.host_target())


@pytest.fixture
def pool() -> Any:
    """The functions by name, and the shared variables as in a new process."""
    library = engine.load(image()).keep()
    made = SimpleNamespace()
    for f in FUNCTIONS:
        signature = NativeModule("signatures", []).signature(f)
        kind = ctypes.CFUNCTYPE(ctype(signature.result), *map(ctype, signature.kinds))
        setattr(made, f.__name__, kind(library.address(f.symbol)))
    addresses = (ctypes.c_uint64 * (size_of(Addresses) // 8))()
    made.find_variables(ctypes.addressof(addresses))
    for (name, field), address in zip(struct_of(Addresses).fields.items(), addresses):
        setattr(made, f"{name}_", View(field.kind.element.owner, address))  # pyright: ignore
    made.row = lambda n: View(PoolWorker, made.workers_.address + n * size_of(PoolWorker))
    return made


class Calls:
    """A chunk's function that records its arguments."""

    def __init__(self, then: Any = None) -> None:
        self.seen: list[tuple[int | None, int, int]] = []
        self.kept = CHUNK(lambda *given: (self.seen.append(given), then and then()))
        self.address = ctypes.cast(self.kept, ctypes.c_void_p).value


# ---- layouts


def test_layouts() -> None:
    assert size_of(ProcessorSet) * 8 == PROCESSORS and size_of(TimeSpec) == 16 and size_of(PoolWorker) == 64
    assert size_of(SignalSet) >= 128 and size_of(ThreadAttributes) >= 64
    assert size_of(pool_state.PoolWorkers) == MAX_THREADS * size_of(PoolWorker)


def test_variables_share_no_lines(pool: Any) -> None:
    found = sorted((v.address, size_of(v.owner)) for k, v in vars(pool).items() if k.endswith("_"))
    assert len(found) == len(struct_of(Addresses).fields) and all(at % LINE == 0 for at, _ in found)
    assert all(at + size <= following for (at, size), (following, _) in itertools.pairwise(found))


def test_the_first_values(pool: Any) -> None:
    assert (pool.started(), pool.threads(), pool.back_off_.factor, pool.back_off_.until) == (1, 1, 1, 0)
    assert not any(ctypes.string_at(pool.workers_.address, size_of(pool_state.PoolWorkers)))


# ---- chunks


def word(following: int, count: int, highest: int) -> int:
    """The word of an offer, as the protocol has it."""
    return following << 36 | count << 8 | highest


def test_an_offer_has_its_parts(pool: Any) -> None:
    for count, highest in [(2, 1), (300, 255), (MOST_OFFERED, 7)]:
        assert pool.offer_of(count, highest) == word(0, count, highest)


@pytest.mark.parametrize(
    ("offered", "thread", "may"),
    [
        (word(0, 0, 5), 0, False),
        (word(0, 1, 5), 0, True),
        (word(0, 1, 5), 5, True),
        (word(0, 1, 5), 6, False),
        (word(6, 7, 0), 0, True),
        (word(7, 7, 0), 0, False),
        (word(0, 1, 255), 255, True),
        (word(MOST_OFFERED - 1, MOST_OFFERED, 255), 255, True),
        (word(MOST_OFFERED, MOST_OFFERED, 255), 0, False),
        (word(COUNT_MASK - 1, COUNT_MASK, 1), 1, True),
    ],
)
def test_who_may_take_a_chunk(pool: Any, offered: int, thread: int, may: bool) -> None:
    assert pool.may_take(offered, thread) is may
    pool.offer_.word = offered
    following = offered >> 36
    assert pool.take_chunk(thread) == (following if may else NO_CHUNK)
    assert pool.offer_.word == offered + ((1 << 36) if may else 0)


def test_chunks_are_taken_in_order_until_none_is_left(pool: Any) -> None:
    pool.offer_.word = pool.offer_of(5, 2)
    assert [pool.take_chunk(k % 3) for k in range(7)] == [0, 1, 2, 3, 4, NO_CHUNK, NO_CHUNK]
    assert pool.offer_.word == word(5, 5, 2)


def test_threads_that_take_at_the_same_time_take_different_chunks(pool: Any) -> None:
    count = 4000
    pool.offer_.word = pool.offer_of(count, 3)
    taken: list[list[int]] = [[] for _ in range(4)]

    def take(thread: int) -> None:
        while (chunk := pool.take_chunk(thread)) >= 0:
            taken[thread].append(chunk)

    threads = [threading.Thread(target=take, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(itertools.chain(*taken)) == list(range(count)) and all(t == sorted(t) for t in taken)


def test_a_chunk_is_a_call(pool: Any) -> None:
    calls = Calls()
    pool.batch_.function, pool.batch_.argument, pool.batch_.first_chunk = calls.address, 77, 1000
    pool.do_chunk(5, 3)
    assert calls.seen == [(77, 1005, 3)]


def test_a_worker_reports_its_chunks_once(pool: Any) -> None:
    reports: list[tuple[int, int]] = []
    calls = Calls(lambda: reports.append((pool.finished_.chunks, pool.row(2).has_chunks)))
    pool.batch_.function, pool.offer_.word, pool.finished_.chunks = calls.address, pool.offer_of(4, 2), 10
    pool.do_chunks(pool.take_chunk(2), 2)
    assert [chunk for _, chunk, _ in calls.seen] == [0, 1, 2, 3] and reports == [(10, 1)] * 4
    assert pool.finished_.chunks == 14 and pool.row(2).has_chunks == 0


# ---- sleeping


def beside(work: Any, ready: Any = lambda: True) -> threading.Thread:
    """Some work on another thread, a while after something holds."""

    def later() -> None:
        end = time.monotonic() + 10
        while not ready() and time.monotonic() < end:
            time.sleep(0.01)
        time.sleep(0.05)
        work()

    thread = threading.Thread(target=later)
    thread.start()
    return thread


def is_asleep(thread: int | None) -> bool:
    """Whether the system shows a thread as sleeping."""
    return Path(f"/proc/self/task/{thread}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0] == "S"


def test_sleep_ends_when_the_word_is_another_or_sleepers_are_woken(pool: Any) -> None:
    pool.bell_.rings = 8
    pool.sleep_while(pool.bell_word(), 7)
    began = time.perf_counter()
    awake = threading.Event()

    def wake() -> None:
        while not awake.wait(0.01):
            pool.wake_sleepers(pool.bell_word())

    thread = beside(wake)
    pool.sleep_while(pool.bell_word(), 8)
    awake.set()
    thread.join()
    assert time.perf_counter() - began > 0.04


def test_a_worker_waits_for_a_while_before_it_sleeps(pool: Any) -> None:
    pool.team_.wanted = 3
    assert [pool.wait_for_chunks(2, k) for k in (0, 1, pool_state.SPINS - 1)] == [1, 2, pool_state.SPINS]
    pool.offer_.word = pool.offer_of(1, 2)
    assert pool.wait_for_chunks(2, pool_state.SPINS) == 0 and pool.sleepers_.count == 0  # there is a chunk


@pytest.mark.parametrize("wanted", [3, 2])
def test_a_sleeping_worker_wakes_up(pool: Any, wanted: int) -> None:
    """By the bell, or as surplus by another number of threads."""
    pool.team_.wanted, pool.offer_.word = wanted, pool.offer_of(5, 1)
    seen: list[tuple[int, int]] = []
    awake = threading.Event()

    def wake() -> None:
        seen.append((pool.sleepers_.count, pool.bell_.rings))
        while not awake.wait(0.01):
            pool.set_team(3, bytes(128))

    thread = beside(wake, lambda: wanted == 2 or pool.sleepers_.count)
    assert pool.wait_for_chunks(2, pool_state.SPINS) == 0
    awake.set()
    thread.join()
    assert seen == [(int(wanted == 3), 0)] and pool.sleepers_.count == 0


# ---- clocks and late workers


def test_clocks(pool: Any) -> None:
    assert pool.clock_time(12345) == 0  # there is no such clock
    first, now = pool.time_now(), time.monotonic_ns()
    assert 0 <= now - first < 10**9 and pool.time_now() >= first
    own = pool.current_thread()
    assert own == threading.get_native_id()
    before = pool.time_run(own)
    assert sum(range(100_000)) and pool.time_run(own) > before > 0
    pool.row(4).thread = own
    assert pool.time_of_worker(4) > before


def test_late_workers_are_those_of_the_region(pool: Any) -> None:
    pool.batch_.highest_thread = 4
    assert pool.late_worker() == 0
    pool.row(0).has_chunks = pool.row(5).has_chunks = 1
    assert pool.late_worker() == 0
    pool.row(1).has_chunks = pool.row(3).has_chunks = 1
    assert pool.late_worker() == 3


def test_nobody_waits_for_what_is_done(pool: Any) -> None:
    pool.finished_.chunks = 6
    pool.join(6)
    pool.await_workers(6)
    assert pool.caller_wait_.sleeps == 0 and pool.back_off_.last == 0


@pytest.mark.parametrize("late", [False, True])
def test_the_caller_sleeps_until_workers_have_finished(pool: Any, late: bool) -> None:
    """A worker without a processor is late: here, a thread that sleeps."""
    pool.batch_.highest_thread = 2
    seen: list[int] = []

    def finish() -> None:
        seen.append(pool.caller_wait_.sleeps)
        pool.finished_.chunks = 3
        pool.wake_sleepers(pool.finished_word())
        returned.wait(10)  # a worker's thread, whose clock is read, does not end

    returned = threading.Event()
    caller = threading.get_native_id()
    thread = beside(finish, lambda: pool.caller_wait_.sleeps and is_asleep(caller))
    pool.row(2).thread, pool.row(2).has_chunks = thread.native_id, int(late)
    began = pool.time_now()
    pool.join(3)
    ended = pool.time_now()
    returned.set()
    thread.join()
    assert seen == [1] and pool.caller_wait_.sleeps == 0
    until = pool.back_off_.until
    assert until == pool.back_off_.last
    assert began + SHORTEST < until <= ended + (ended - began) if late else until == 0


def test_retreats_become_longer_while_they_repeat_early(pool: Any) -> None:
    lost, now = 1_000_000, 10**12
    factors: list[int] = []
    for _ in range(9):
        pool.retreat(now, now + 5, lost)
        factors.append(pool.back_off_.factor)
        assert pool.back_off_.until == pool.back_off_.last == now + 5 + lost * factors[-1]
        now = pool.back_off_.last + contention_backoff.SOON * lost - 1
    assert factors == [1, 2, 4, 8, 16, 32, LONGEST, LONGEST, LONGEST]
    pool.retreat(now + 1, now + 1, lost)
    assert pool.back_off_.factor == 1


# ---- regions


def test_a_region_needs_several_threads(pool: Any) -> None:
    pool.team_.wanted = pool.team_.started = 4
    assert [pool.enter(n) for n in (-1, 0, 1)] == [1, 1, 1] and pool.lock_.held == 0
    assert pool.enter(3) == 3 and pool.lock_.held == 1 and pool.batch_.highest_thread == 2
    assert pool.enter(3) == 1 and pool.lock_.held == 1
    pool.leave()
    assert pool.lock_.held == 0 and pool.enter(100) == 4 and pool.batch_.highest_thread == 3


def test_regions_are_alone_for_a_while(pool: Any) -> None:
    pool.team_.wanted = pool.team_.started = 2
    pool.back_off_.until = FUTURE
    assert pool.enter(2) == 1 and pool.lock_.held == 0 and pool.back_off_.until == FUTURE
    pool.back_off_.until = pool.time_now() - 1
    assert pool.enter(2) == 2 and pool.lock_.held == 1 and pool.back_off_.until == 0


@pytest.mark.parametrize("chunks", [-5, 0, 1, 2, 9])
def test_the_caller_does_what_no_worker_does(pool: Any, chunks: int) -> None:
    for share in (pool.share, pool.run):
        calls = Calls()
        share(calls.address, 33, chunks)
        assert calls.seen == [(33, k, 0) for k in range(chunks)]
    assert pool.offer_.word == (word(chunks, chunks, 0) if chunks > 1 else 0) and pool.bell_.rings == 0


def test_the_bell_rings_for_sleepers(pool: Any) -> None:
    pool.sleepers_.count = 1
    pool.share(Calls().address, 0, 2)
    assert pool.bell_.rings == 1


def test_a_new_team(pool: Any) -> None:
    mask = bytes([3]) + bytes(127)
    pool.set_team(9, mask)
    assert pool.threads() == 9 and (pool.season_.number, pool.bell_.rings) == (1, 1)
    assert ctypes.string_at(pool.allowed_.address, 128) == mask


def test_a_forked_child_has_a_pool_without_workers(pool: Any) -> None:
    pool.offer_.word = pool.finished_.chunks = pool.back_off_.until = 5
    pool.caller_wait_.sleeps = pool.sleepers_.count = pool.lock_.held = 1
    pool.team_.started, pool.team_.wanted = 8, 9
    pool.forked()
    assert not any((pool.offer_.word, pool.finished_.chunks, pool.back_off_.until, pool.lock_.held))
    assert not any((pool.caller_wait_.sleeps, pool.sleepers_.count))
    assert (pool.started(), pool.threads()) == (1, 9)
