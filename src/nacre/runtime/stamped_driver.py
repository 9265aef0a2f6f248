"""The stamped driver: the driver of plans with a clock around each chunk, in native Python.

For each thread and row, it records when the first chunk began, when the last one ended, and how long the thread was
busy (see `inspect/profile`).
"""

from __future__ import annotations

import time
from typing import Final

from nacre.native.linux import clock_time
from nacre.native.python.declarations import native, null
from nacre.native.python.intrinsics import cast
from nacre.native.python.types import i64, ptr, u8
from nacre.runtime.driver import Check, Context, run_iterations, run_plan, take_chunk, walk_rows
from nacre.runtime.layouts import Descriptor

CLOCK: Final[int] = getattr(time, "CLOCK_MONOTONIC", 1)


@native
def now() -> i64:
    """The time in nanoseconds."""
    return clock_time(CLOCK)


@native
def stamp(descriptor: Descriptor, k: i64, thread: i64, since: i64) -> None:
    """Note that a thread has been busy with a row since then."""
    record = descriptor.stamps[thread * descriptor.row_count + k]
    if record.begin == 0:
        record.begin = since
    end = now()
    record.end = end
    record.busy += end - since


@native
def run_stamped(context: Context, k: i64, low: i64, high: i64, thread: i64) -> None:
    """Run iterations of a launch, from one to another, and note the time."""
    since = now()
    run_iterations(context, k, low, high, thread)
    stamp(context.descriptor, k, thread, since)


@native
def run_chunk(context: ptr[u8], chunk: i64, thread: i64) -> None:
    """Run a chunk of the epoch of a context, on any thread."""
    take_chunk(cast(Context, context), chunk, thread, run_stamped)


@native
def walk(context: Context, several: bool) -> None:
    """The caller's way through the rows, alone or with `several` threads."""
    walk_rows(context, several, run_stamped, run_chunk)


@native(symbol="nacre.run")
def run(descriptor: Descriptor, bases: ptr[ptr[u8]], workspace: ptr[u8]) -> i64:
    """Run a bound plan: why it stopped, or 0."""
    return run_unless(descriptor, bases, workspace, null, null)


@native(symbol="nacre.run_unless")
def run_unless(descriptor: Descriptor, bases: ptr[ptr[u8]], workspace: ptr[u8], check: Check, question: ptr[u8]) -> i64:
    """Run a bound plan until the answer of `check` is not 0; that answer, or 0."""
    return run_plan(descriptor, bases, workspace, check, question, walk)
