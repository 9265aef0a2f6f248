"""The caller's wait for late workers in a region, and its back-off under contention.

A worker may lose its processor to another program in the middle of a chunk, and delay the caller.  A caller that has
waited longer than its spin limit reads the late worker's clock.  The time that the worker did not run is lost.  Regions
then run on the caller alone for a while: first for the lost time, then for twice as long at each early repetition.
Shared regions then test whether the machine is still busy; their cost is a small part of the caller's time alone.
"""

from __future__ import annotations

from typing import Final

from nacre.native import linux
from nacre.native.pool_state import CALLER, LINE, batch, caller_wait, finished, workers
from nacre.native.python.declarations import inline, native, variable
from nacre.native.python.intrinsics import addr, atomic_load, atomic_store, cast
from nacre.native.python.types import i64, ptr, struct, u32

SHORTEST: Final = 250_000  # nanoseconds of lost time below which nothing changes: waking takes time when idle, too
SOON: Final = 8  # times the lost time within which a repetition counts
LONGEST: Final = 64  # times the lost time: limit of the caller's time alone


@struct
class BackOff:
    """The time until which regions run on the caller alone (0: they are shared), and how it was found.

    `last` is the end of the latest such time, and `factor` how many times the lost time it was.
    """

    until: i64
    last: i64
    factor: i64


back_off = variable(BackOff, initial=BackOff(until=0, last=0, factor=1), align=LINE)


@native
def late_worker() -> i64:
    """A worker that has chunks and has not reported them; CALLER if there is none."""
    thread = batch.highest_thread
    while thread > CALLER and atomic_load(workers.rows[thread].has_chunks, "acquire") == 0:
        thread -= 1
    return thread


@native
def time_of_worker(thread: i64) -> i64:
    """The nanoseconds for which a worker has run."""
    return linux.time_run(atomic_load(workers.rows[thread].thread, "acquire"))


@inline
def sleep_until_report(reported: i64) -> None:
    """Sleep while workers have reported this number of chunks."""
    linux.sleep_while(cast(ptr[u32], addr(finished.chunks)), u32(reported))


@native(noinline=True)
def await_workers(chunks: i64) -> None:
    """Sleep until workers have done this number of chunks, and measure how long a late worker was not running.

    Between two reports, the watched worker has work.
    """
    atomic_store(caller_wait.sleeps, 1, "seq_cst")
    began = linux.time_now()
    now = began
    lost: i64 = 0
    while True:
        reported = atomic_load(finished.chunks, "seq_cst")
        if reported == chunks:
            break
        watched = late_worker()
        if watched > CALLER:
            start = linux.time_now()
            ran_before = time_of_worker(watched)
            sleep_until_report(reported)
            ran = time_of_worker(watched) - ran_before
            now = linux.time_now()
            lost += now - start - ran
        else:
            sleep_until_report(reported)
    atomic_store(caller_wait.sleeps, 0, "relaxed")
    if lost > SHORTEST:
        retreat(began, now, lost)


@inline
def retreat(began: i64, now: i64, lost: i64) -> None:
    """Let the caller work alone for a while: for longer if it had to retreat not long ago."""
    often = began - back_off.last < lost * SOON
    twice = back_off.factor << 1
    longer = LONGEST if twice > LONGEST else twice
    factor = longer if often else 1
    back_off.factor = factor
    until = now + lost * factor
    back_off.until = until
    back_off.last = until
