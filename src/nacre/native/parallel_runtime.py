"""The parallel runtime: regions that all threads of the pool run.

Only Linux has it; `nacre.native.serial_runtime` has the same functions for other systems.  Generated code calls::

    i64  @nacre.pool_enter(i64 most)              acquire the pool: returns the threads, at most `most`
    void @nacre.pool_share(ptr fn, ptr arg, i64 chunks)
                                                  fn(arg, i64 chunk, i64 thread) once for each chunk
    void @nacre.pool_leave()                      release the pool
    i64  @nacre.pool_threads()                    the largest number of threads
    void @nacre.pool_run(ptr fn, ptr arg, i64 chunks)    the three calls in one

If `enter` returns 1, the pool is not available and the caller works alone: inside a region, while another Python thread
has the pool, or while the machine is busy.

No thread waits for an absent one.  The caller opens a batch of chunks, takes chunks like the workers, and at the end
waits only for chunks that a worker has begun.  `nacre.native.contention_backoff` has its wait, and the conditions under
which it continues alone.
"""

from __future__ import annotations

from collections.abc import Callable

from nacre.native import linux
from nacre.native.contention_backoff import await_workers, back_off
from nacre.native.limits import MAX_THREADS
from nacre.native.linux import ProcessorSet
from nacre.native.pool_state import (
    CALLER,
    MOST_OFFERED,
    SPINS,
    allowed,
    batch,
    bell,
    caller_wait,
    do_chunk,
    finished,
    lock,
    offer,
    packed_offer,
    season,
    sleepers,
    take_chunk,
    team,
    workers,
)
from nacre.native.pool_worker import start_workers
from nacre.native.python.declarations import inline, native
from nacre.native.python.intrinsics import (
    addr,
    atomic_change,
    atomic_load,
    atomic_store,
    cast,
    compare_exchange,
    copy_bytes,
    pause,
)
from nacre.native.python.types import i64, ptr, size_of, u8


@inline
def release() -> None:
    """Release the pool."""
    atomic_store(lock.held, 0, "release")


@native(symbol="nacre.pool_enter")
def enter(most: i64) -> i64:
    """Acquire the pool for a region of at most `most` threads: their number, or 1 if the pool is not available."""
    wanted = min(most, atomic_load(team.wanted, "relaxed"))
    if wanted <= 1:
        return 1
    _, acquired = compare_exchange(lock.held, 0, 1, "acquire", "relaxed")
    if not acquired:
        return 1
    until = back_off.until
    if until != 0:
        if linux.time_now() < until:
            release()
            return 1
        back_off.until = 0
    if team.started < wanted:
        start_workers(wanted)
    threads = min(team.started, wanted)
    batch.highest_thread = threads - 1
    if threads == 1:
        release()
        return 1
    return threads


@native(symbol="nacre.pool_leave")
def leave() -> None:
    """Release the pool after a region."""
    release()


@native(symbol="nacre.pool_share")
def share(function: Callable[[ptr[u8], i64, i64], None], argument: ptr[u8], chunks: i64) -> None:
    """Do all chunks of a region, with the threads that `enter` has found."""
    batch.function = function
    batch.argument = argument
    highest_thread = batch.highest_thread
    first: i64 = 0
    while True:
        count = min(chunks - first, MOST_OFFERED)
        if count <= 1:
            break
        share_batch(first, count, highest_thread)
        first += count
        if first >= chunks:
            return
    if count == 1:  # there is nothing to share
        function(argument, first, CALLER)


@inline
def share_batch(first: i64, count: i64, highest_thread: i64) -> None:
    """Do a batch of chunks, as many as an offer can count."""
    batch.first_chunk = first
    atomic_store(finished.chunks, 0, "relaxed")
    atomic_change("exchange", offer.word, packed_offer(count, highest_thread), "seq_cst")
    if atomic_load(sleepers.count, "seq_cst") != 0:
        ring()
    left = count
    chunk = take_chunk(CALLER)
    while chunk >= 0:
        do_chunk(chunk, CALLER)
        left -= 1
        chunk = take_chunk(CALLER)
    join(left)


@inline
def ring() -> None:
    """Wake the workers that sleep until there are chunks."""
    atomic_change("add", bell.rings, 1, "seq_cst")
    linux.wake_sleepers(addr(bell.rings))


@inline
def join(chunks: i64) -> None:
    """Wait until workers have done the remaining chunks, which they have begun."""
    rounds: i64 = 0
    while atomic_load(finished.chunks, "seq_cst") != chunks:
        if rounds < SPINS:
            pause()
            rounds += 1
        else:
            await_workers(chunks)
            break


@native(symbol="nacre.pool_run")
def run(function: Callable[[ptr[u8], i64, i64], None], argument: ptr[u8], chunks: i64) -> None:
    """Do all chunks, on the pool if it is available."""
    if enter(MAX_THREADS) > 1:
        share(function, argument, chunks)
        leave()
    else:
        for chunk in range(chunks):
            function(argument, chunk, CALLER)


@native(symbol="nacre.pool_forked", cold=True)
def forked() -> None:
    """Restore the pool in a forked child, where the workers are gone; the next region starts new ones."""
    offer.word = 0
    finished.chunks = 0
    caller_wait.sleeps = 0
    sleepers.count = 0
    lock.held = 0
    back_off.until = 0
    team.started = 1


@native(symbol="nacre.pool_threads", cold=True)
def threads() -> i64:
    """The largest number of threads of a region."""
    return atomic_load(team.wanted, "relaxed")


@native(symbol="nacre.pool_set", cold=True)
def set_team(count: i64, processors: ProcessorSet) -> None:
    """Use this number of threads from now on, which may run on these processors."""
    copy_bytes(cast(ptr[u8], allowed), cast(ptr[u8], processors), size_of(ProcessorSet))
    atomic_store(team.wanted, count, "seq_cst")
    atomic_change("add", season.number, 1, "seq_cst")
    linux.wake_sleepers(addr(season.number))
    ring()
    for number in range(1, team.started):
        thread = atomic_load(workers.rows[number].thread, "acquire")
        if thread != 0:
            linux.restrict_thread(thread, processors)


@native(symbol="nacre.pool_started", cold=True)
def started() -> i64:
    """The number of threads that run, with the caller's."""
    return team.started
