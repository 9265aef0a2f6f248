"""Linux and POSIX as native Python uses them: sleeping on a word of memory, threads, processors, signals and clocks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Final

from nacre.native.c_library import TimeSpec, clock_gettime
from nacre.native.limits import PROCESSORS
from nacre.native.python.declarations import external, inline, native, null
from nacre.native.python.intrinsics import stack, target_is
from nacre.native.python.types import array, i32, i64, ptr, size_of, struct, u8, u32, u64

FUTEX_WAIT_PRIVATE: Final = 128
FUTEX_WAKE_PRIVATE: Final = 129
EVERY_THREAD: Final = (1 << 31) - 1  # the largest number that a futex takes
CLOCK_MONOTONIC: Final = 1
CLOCK_OF_THREAD: Final = 6  # the lowest bits of a clock that counts the time a thread has run
CLOCK_THREAD_SHIFT: Final = 3
NANOSECONDS: Final = 1_000_000_000  # of a second
SIG_SETMASK: Final = 2
PTHREAD_CREATE_DETACHED: Final = 1
THIS_THREAD: Final = 0


@struct
class ProcessorSet:
    """cpu_set_t: a bit for each processor."""

    words: Annotated[array[u64], PROCESSORS // 64]


@struct
class SignalSet:
    """sigset_t."""

    words: Annotated[array[u64], 16]


@struct
class ThreadAttributes:
    """pthread_attr_t, and some room, because its size depends on the C library."""

    words: Annotated[array[u64], 16]


@struct
class ThreadHandle:
    """pthread_t."""

    value: u64


@external
def syscall(number: i64, *more: object) -> i64: ...


@external
def sched_setaffinity(thread: i32, nbytes: u64, processors: ProcessorSet) -> i32: ...


@external
def sigfillset(signals: SignalSet) -> i32: ...


@external
def pthread_sigmask(change: i32, signals: SignalSet, before: SignalSet) -> i32: ...


@external
def pthread_attr_init(attributes: ThreadAttributes) -> i32: ...


@external
def pthread_attr_setdetachstate(attributes: ThreadAttributes, state: i32) -> i32: ...


@external
def pthread_attr_destroy(attributes: ThreadAttributes) -> i32: ...


@external
def pthread_create(
    handle: ThreadHandle, attributes: ThreadAttributes, function: Callable[[ptr[u8]], ptr[u8]], argument: ptr[u8]
) -> i32: ...


@inline
def number_of_futex() -> i64:
    """The number of the system call `futex`."""
    return 202 if target_is("x86_64") else 98


@inline
def number_of_gettid() -> i64:
    """The number of the system call `gettid`."""
    return 186 if target_is("x86_64") else 178


@native
def sleep_while(word: ptr[u32], value: u32) -> None:
    """Sleep while a word has this value, until another thread wakes the word's sleepers; a signal may end it early."""
    without_limit: TimeSpec = null
    syscall(number_of_futex(), word, u32(FUTEX_WAIT_PRIVATE), value, without_limit)


@native
def wake_sleepers(word: ptr[u32]) -> None:
    """Wake all threads that sleep on a word."""
    syscall(number_of_futex(), word, u32(FUTEX_WAKE_PRIVATE), u32(EVERY_THREAD))


@inline
def current_thread() -> u32:
    """The system's number of the thread that asks."""
    return u32(syscall(number_of_gettid()))


@inline
def restrict_thread(thread: u32, processors: ProcessorSet) -> None:
    """Let a thread run on these processors alone; a thread that has ended is no fault."""
    sched_setaffinity(i32(thread), size_of(ProcessorSet), processors)


@native
def clock_time(clock: i32) -> i64:
    """The nanoseconds of a clock; 0 where the system has no such clock."""
    now = stack(TimeSpec)
    now.seconds = 0
    now.nanoseconds = 0
    clock_gettime(clock, now)
    return now.seconds * NANOSECONDS + now.nanoseconds


@inline
def time_now() -> i64:
    """The nanoseconds since some time in the past; they never go back."""
    return clock_time(CLOCK_MONOTONIC)


@inline
def time_run(thread: u32) -> i64:
    """The nanoseconds for which a thread has run."""
    return clock_time(i32((~thread << CLOCK_THREAD_SHIFT) | CLOCK_OF_THREAD))
