"""The number of threads of a program: from the environment at the first call, or set by its caller."""

from __future__ import annotations

from typing import Annotated, Final

from nacre.deploy.executable.codes import THREADS
from nacre.native import c_library as c
from nacre.native.limits import MAX_THREADS
from nacre.native.python.declarations import external, native, null, variable
from nacre.native.python.intrinsics import addr, atomic_change, atomic_load, cast, fill_bytes, one_bits, stack
from nacre.native.python.types import array, i32, i64, ptr, struct, u8, u32, u64

MASK_WORDS: Final = 16
MASK_BYTES: Final = 8 * MASK_WORDS
DIGIT_ZERO: Final = ord("0")


@struct
class ProcessorMask:
    """A bit for each processor."""

    words: Annotated[array[u64], MASK_WORDS]


@struct
class ThreadsState:
    """Whether the number of threads is known."""

    begun: u32


@struct
class TextEnd:
    """Where a number ends in a text."""

    place: ptr[u8]


state = variable(ThreadsState)


@external(symbol="nacre.pool_set")
def set_pool(threads: i64, mask: ptr[u64]) -> None: ...


@external(symbol="nacre.pool_forked")
def pool_forked() -> None: ...


@native
def allowed_processors(mask: ProcessorMask) -> i64:
    """The number of processors that this process may run on, from 1 to the most threads; their mask is written."""
    fill_bytes(cast(ptr[u8], mask), 0, MASK_BYTES)
    c.sched_getaffinity(0, MASK_BYTES, mask.words)
    count: u64 = 0
    for k in range(u64(0), MASK_WORDS):
        count += one_bits(mask.words[k])
    return min(max(i64(count), 1), MAX_THREADS)


@native(symbol="nacre.threads")
def set_threads(threads: i32) -> i32:
    """Set the number of threads; 0, or the error code of a wrong number."""
    mask = stack(ProcessorMask, 16)
    allowed_processors(mask)
    if threads < 1 or threads > MAX_THREADS:
        return THREADS
    set_pool(i64(threads), mask.words)
    if atomic_change("exchange", state.begun, 1, "acq_rel") == 0:
        c.pthread_atfork(null, null, pool_forked)
    return 0


@native(symbol="nacre.begin")
def begin() -> i32:
    """At the first call, set the number of threads of the environment; 0, or the error code of a wrong one."""
    if atomic_load(state.begun, "acquire") != 0:
        return 0
    given = c.getenv(b"NACRE_NUM_THREADS")
    if given == null or given[0] == 0:
        return set_threads(i32(allowed_processors(stack(ProcessorMask, 16))))
    if given[0] - DIGIT_ZERO > 9:
        return THREADS
    end = stack(TextEnd)
    number = c.strtol(given, addr(end.place), 10)
    if end.place[0] != 0 or number > MAX_THREADS:
        return THREADS
    return set_threads(i32(number))
