"""What the threads of the pool share: variables, each on cache lines of its own, and the word that offers chunks.

The caller of a region opens a batch: it describes the batch in `batch`, and offers the chunks in `offer`.  One word has
the next chunk, the number of chunks, and the highest thread that may take one.  A thread takes a chunk by replacing the
whole word, and reads the batch afterwards.  Its chunk belongs to the open batch in any case, because that batch cannot
close before the chunk is done.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Final

from nacre.native.limits import MAX_THREADS
from nacre.native.linux import ProcessorSet
from nacre.native.python.declarations import inline, native, variable
from nacre.native.python.intrinsics import atomic_load, compare_exchange
from nacre.native.python.types import array, embed, i64, ptr, struct, u8, u32, u64

LINE: Final = 128  # bytes: two cache lines, which some processors fetch together
COUNT_SHIFT: Final = 8  # below: the highest thread
NEXT_SHIFT: Final = 36
COUNT_MASK: Final = (1 << (NEXT_SHIFT - COUNT_SHIFT)) - 1
HIGHEST_MASK: Final = (1 << COUNT_SHIFT) - 1
ONE_CHUNK: Final = 1 << NEXT_SHIFT
MOST_OFFERED: Final = 1 << 27  # chunks of a batch, so that the next one always fits, too
NO_CHUNK: Final = -1  # all numbers of chunks are positive or 0
CALLER: Final = 0  # the caller's thread number in its own region
SPINS: Final = 5000  # rounds of pause before a waiting thread sleeps


@struct
class Lock:
    """Who has the pool: 1 while a caller is in a region."""

    held: u32


@struct
class Offer:
    """The chunks of the open batch that no thread has taken, packed into one word."""

    word: u64


@struct
class OpenBatch:
    """The open batch: what a chunk calls, the number of its first chunk, and the highest thread of the region."""

    function: Callable[[ptr[u8], i64, i64], None]
    argument: ptr[u8]
    first_chunk: i64
    highest_thread: i64


@struct
class Finished:
    """The chunks of the open batch that workers have done; the caller may sleep on the lower half."""

    chunks: i64


@struct
class CallerWait:
    """Whether the caller sleeps until workers have finished: 0 or 1."""

    sleeps: u32


@struct
class Bell:
    """The word on which idle workers sleep: it changes when there is a new batch or team."""

    rings: u32


@struct
class Sleepers:
    """The number of workers that sleep on the bell, or are about to."""

    count: u32


@struct
class Season:
    """The word on which surplus workers sleep: it changes with the number of threads."""

    number: u32


@struct
class Team:
    """The numbers of threads, each with the caller's: those that run, and those that regions use."""

    started: i64
    wanted: i64


@struct
class PoolWorker:
    """A worker: whether it has chunks that are not reported, and the system's number of its thread.

    The number is 0 before the thread runs.
    """

    has_chunks: u32
    thread: u32
    unused: Annotated[array[u32], 14]  # up to the end of the cache line


@struct
class PoolWorkers:
    """The workers by thread number; the caller has number 0, and its row is not used."""

    rows: Annotated[array[embed[PoolWorker]], MAX_THREADS]


lock = variable(Lock, align=LINE)
offer = variable(Offer, align=LINE)
batch = variable(OpenBatch, align=LINE)
finished = variable(Finished, align=LINE)
caller_wait = variable(CallerWait, align=LINE)
bell = variable(Bell, align=LINE)
sleepers = variable(Sleepers, align=LINE)
season = variable(Season, align=LINE)
team = variable(Team, initial=Team(started=1, wanted=1), align=LINE)
workers = variable(PoolWorkers, align=LINE)
allowed = variable(ProcessorSet, align=LINE)  # where the workers may run


@inline
def packed_offer(count: i64, highest_thread: i64) -> u64:
    """The word that offers all chunks of a batch."""
    return u64(count) << COUNT_SHIFT | u64(highest_thread)


@inline
def next_chunk(word: u64) -> u64:
    """The chunk that is taken next."""
    return word >> NEXT_SHIFT


@inline
def has_chunk_for(word: u64, thread: i64) -> bool:
    """Whether an offer has a chunk that a thread may take."""
    chunk, count, highest = next_chunk(word), word >> COUNT_SHIFT & COUNT_MASK, word & HIGHEST_MASK
    number = u64(thread)
    return chunk < count and number <= highest


@native
def take_chunk(thread: i64) -> i64:
    """Take a chunk that a thread may have: its number in the batch, or NO_CHUNK."""
    word = atomic_load(offer.word, "seq_cst")
    while has_chunk_for(word, thread):
        found, taken = compare_exchange(offer.word, word, word + ONE_CHUNK, "seq_cst", "seq_cst")
        if taken:
            return i64(next_chunk(word))
        word = found
    return NO_CHUNK


@native
def do_chunk(chunk: i64, thread: i64) -> None:
    """Do a chunk of the open batch."""
    batch.function(batch.argument, batch.first_chunk + chunk, thread)
