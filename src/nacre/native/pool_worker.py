"""The workers of the pool: how they start, take chunks, and wait for more."""

from __future__ import annotations

from nacre.native import linux
from nacre.native.linux import SignalSet, ThreadAttributes, ThreadHandle
from nacre.native.pool_state import (
    SPINS,
    PoolWorker,
    allowed,
    bell,
    caller_wait,
    do_chunk,
    finished,
    has_chunk_for,
    offer,
    season,
    sleepers,
    take_chunk,
    team,
    workers,
)
from nacre.native.python.declarations import inline, native, null
from nacre.native.python.intrinsics import (
    addr,
    atomic_change,
    atomic_load,
    atomic_store,
    cast,
    pause,
    set_float_control,
    stack,
    target_is,
)
from nacre.native.python.types import i64, ptr, u8, u32, u64


@inline
def set_default_float_control() -> None:
    """Round to nearest, keep subnormal numbers, and trap nothing, as results require."""
    set_float_control(0x1F80 if target_is("x86_64") else 0)


@inline
def begin_work(thread: i64, worker: PoolWorker) -> None:
    """Prepare the thread of a worker, and make its number known."""
    number = linux.current_thread()
    linux.restrict_thread(linux.THIS_THREAD, allowed)
    atomic_store(worker.thread, number, "release")
    set_default_float_control()


@native
def work(argument: ptr[u8]) -> ptr[u8]:
    """The function of a worker's thread, whose argument is its thread number: do chunks, and wait, for ever."""
    thread = i64(argument)
    worker = workers.rows[thread]
    begin_work(thread, worker)
    rounds: i64 = 0  # for which the worker has found no chunk, and not slept
    while True:
        chunk = take_chunk(thread)
        if chunk < 0:
            rounds = wait_for_chunks(thread, rounds)
        else:
            do_chunks(chunk, thread, worker)
            rounds = 0


@inline
def do_chunks(first: i64, thread: i64, worker: PoolWorker) -> None:
    """Do a chunk that is taken, and further ones while there are any; then report how many."""
    atomic_store(worker.has_chunks, 1, "relaxed")
    do_chunk(first, thread)
    count: i64 = 1
    chunk = take_chunk(thread)
    while chunk >= 0:
        do_chunk(chunk, thread)
        count += 1
        chunk = take_chunk(thread)
    atomic_store(worker.has_chunks, 0, "relaxed")
    atomic_change("add", finished.chunks, count, "seq_cst")
    if atomic_load(caller_wait.sleeps, "seq_cst") != 0:
        linux.wake_sleepers(cast(ptr[u32], addr(finished.chunks)))


@inline
def wait_for_chunks(thread: i64, rounds: i64) -> i64:
    """Wait a little, or sleep after many rounds; the number of rounds without sleep until now."""
    if thread >= atomic_load(team.wanted, "relaxed"):
        sleep_while_surplus(thread)
        return 0
    if rounds < SPINS:
        pause()
        return rounds + 1
    sleep_until_bell(thread)
    return 0


@inline
def sleep_while_surplus(thread: i64) -> None:
    """Sleep until the number of threads changes, unless it has already grown; no bell is for this worker before."""
    number = atomic_load(season.number, "seq_cst")
    if thread >= atomic_load(team.wanted, "seq_cst"):
        linux.sleep_while(addr(season.number), number)


@inline
def sleep_until_bell(thread: i64) -> None:
    """Sleep until the bell rings.

    A caller offers chunks before it looks for sleepers.  So a worker counts as one before it looks for chunks: one of
    the two sees the other.
    """
    atomic_change("add", sleepers.count, 1, "seq_cst")
    heard = atomic_load(bell.rings, "seq_cst")
    if not has_chunk_for(atomic_load(offer.word, "seq_cst"), thread):
        linux.sleep_while(addr(bell.rings), heard)
    atomic_change("sub", sleepers.count, 1, "seq_cst")


@inline
def start_worker(thread: i64, attributes: ThreadAttributes) -> bool:
    """Start the worker of a thread number; whether the system has made the thread."""
    worker = workers.rows[thread]
    atomic_store(worker.thread, 0, "relaxed")
    atomic_store(worker.has_chunks, 0, "relaxed")
    handle = stack(ThreadHandle)
    return linux.pthread_create(handle, attributes, work, cast(ptr[u8], u64(thread))) == 0


@native(noinline=True)
def start_workers(wanted: i64) -> None:
    """Start workers until there are enough threads, or the system makes no more.

    They inherit a mask that blocks every signal, so that signals reach the program's own threads.
    """
    every, before, attributes = stack(SignalSet), stack(SignalSet), stack(ThreadAttributes)
    linux.sigfillset(every)
    linux.pthread_sigmask(linux.SIG_SETMASK, every, before)
    linux.pthread_attr_init(attributes)
    linux.pthread_attr_setdetachstate(attributes, linux.PTHREAD_CREATE_DETACHED)
    while team.started < wanted and start_worker(team.started, attributes):
        team.started += 1
    linux.pthread_attr_destroy(attributes)
    linux.pthread_sigmask(linux.SIG_SETMASK, before, null)
