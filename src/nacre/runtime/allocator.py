"""The caching allocator under every Buffer, in native Python.

Sizes are rounded up to classes, eight to a doubling (steps of 64 bytes below 512).  Blocks up to 32 KiB are cut from
slabs.  Larger blocks are mapped one by one.  Freed ones are cached up to a limit, so that a large temporary does not
cause page faults again and again.  There are no locks: callers hold the interpreter lock.
"""

from __future__ import annotations

import mmap as system
from typing import Annotated, Final

from nacre.native.c_library import madvise, mmap, munmap
from nacre.native.python.declarations import inline, native, null, variable
from nacre.native.python.intrinsics import cast, leading_zeros
from nacre.native.python.types import array, i64, ptr, struct, u8, u64
from nacre.runtime.layouts import AllocatorState

LARGEST: Final = 1 << 46  # more than any machine has; larger sizes are rejected before they are classed
CLASSES: Final = 320
SMALL: Final = 32768  # bytes of the largest block from a slab
FIRST_MAPPED: Final = 56  # the first class above it
SLAB: Final = 1 << 20
PAGE: Final = 4096
HUGE_PAGE: Final = 1 << 21
COLOURED: Final = 1 << 20  # bytes from which blocks begin at varying places of their first page
ON_HUGE_PAGES: Final = 1 << 22  # bytes from which blocks are on huge pages
FAILED: Final = (1 << 64) - 1  # the address that mmap returns for a failure
READ_AND_WRITE: Final[int] = system.PROT_READ | system.PROT_WRITE
ANONYMOUS: Final[int] = system.MAP_PRIVATE | system.MAP_ANONYMOUS
USE_HUGE_PAGES: Final[int] = getattr(system, "MADV_HUGEPAGE", 0)


@struct
class FreeBlock:
    """A freed block begins with the next one of its class."""

    next: FreeBlock


@struct
class FreeLists:
    """The freed blocks of each class."""

    first: Annotated[array[FreeBlock], CLASSES]


@struct
class Slab:
    """The rest of the slab that small blocks are cut from."""

    start: u64
    end: u64


state = variable(AllocatorState, symbol="nacre.memory", align=64)
free = variable(FreeLists, align=64)
slab = variable(Slab)


@inline
def class_of(nbytes: u64) -> tuple[i64, u64]:
    """The class of a size, and that class's size."""
    n = max(nbytes, 1) - 1
    if n < 512:
        step = n >> 6
        return i64(step), (step + 1) << 6
    exponent = 63 - leading_zeros(n)
    shift = exponent - 3
    top = n >> shift
    return i64(((exponent - 9) << 3) + 8 + (top & 7)), (top + 1) << shift


@inline
def size_of_class(size_class: u64) -> u64:
    """The size of a class of mapped blocks."""
    k = size_class - 8
    return ((k & 7) + 9) << ((k >> 3) + 6)


@inline
def mapped_length(size: u64) -> u64:
    """The number of bytes that are mapped for a block: large ones have room for a colour, see `map_block`."""
    room: u64 = PAGE if size >= COLOURED else 0
    return (size + room + 65535) & ~u64(65535)


@native(cold=True)
def new_pages(length: u64) -> u64:
    """The address of new pages, or 0."""
    start = cast(u64, mmap(null, length, READ_AND_WRITE, ANONYMOUS, -1, 0))
    return 0 if start == FAILED else start


@native(cold=True)
def new_huge_pages(length: u64) -> u64:
    """The address of new pages that may be huge ones, or 0."""
    start = new_pages(length + HUGE_PAGE)
    if start == 0:
        return 0
    base = (start + HUGE_PAGE - 1) & ~u64(HUGE_PAGE - 1)
    before = base - start
    munmap(cast(ptr[u8], start), before)
    munmap(cast(ptr[u8], base + length), HUGE_PAGE - before)
    madvise(cast(ptr[u8], base), length, USE_HUGE_PAGES)
    return base


@native(cold=True)
def map_block(size: u64) -> FreeBlock:
    """Map a block, from 4 MiB on with huge pages.

    Large blocks begin at varying places of their first page, so that arrays that are walked together do not all fall
    into the same cache sets.
    """
    length = mapped_length(size)
    start = new_huge_pages(length) if size >= ON_HUGE_PAGES else new_pages(length)
    if start == 0:
        return null
    count = state.mapped
    state.mapped = count + 1
    return cast(FreeBlock, start + ((count & 15) << 8 if size >= COLOURED else 0))


@native(cold=True)
def unmap(block: FreeBlock, size: u64) -> None:
    """Give a mapped block back to the system."""
    munmap(cast(ptr[u8], cast(u64, block) & ~u64(PAGE - 1)), mapped_length(size))


@native(symbol="nacre.empty_cache", cold=True)
def empty_cache() -> None:
    """Give the freed blocks of all mapped classes back to the system."""
    for k in range(u64(FIRST_MAPPED), CLASSES):
        while free.first[k] != null:
            block = free.first[k]
            free.first[k] = block.next
            unmap(block, size_of_class(k))
    state.cached = 0


@native
def small_block(size: u64) -> FreeBlock:
    """A block from a slab, or null where the system has no memory."""
    start = slab.start
    if slab.end - start < size:
        start = new_pages(SLAB)
        if start == 0:
            return null
        state.slabs += SLAB
        slab.end = start + SLAB
    slab.start = start + size
    return cast(FreeBlock, start)


@native
def large_block(size: u64) -> FreeBlock:
    """A block that is mapped; where the limit or the system refuses it, once more without cached blocks."""
    if state.allocated + state.cached + size > state.limit:
        empty_cache()
    block = map_block(size)
    if block == null:
        empty_cache()
        block = map_block(size)
    return block


@inline
def take(size_class: i64, size: u64) -> FreeBlock:
    """A block of a class, counted as in use; null at the limit or without memory."""
    allocated = state.allocated + size
    if allocated > state.limit:
        return null
    block = free.first[size_class]
    if block != null:
        free.first[size_class] = block.next
        if size > SMALL:
            state.cached -= size
    else:
        block = small_block(size) if size <= SMALL else large_block(size)
        if block == null:
            return null
    state.allocated = allocated
    state.peak = max(state.peak, allocated)
    return block


@inline
def give(block: FreeBlock, size_class: i64, size: u64) -> None:
    """Cache a block for reuse; if the cache would exceed its limit, all its blocks are unmapped first."""
    state.allocated -= size
    if size <= SMALL or has_room(block, size):
        block.next = free.first[size_class]
        free.first[size_class] = block


@native
def has_room(block: FreeBlock, size: u64) -> bool:
    """Whether a mapped block is cached from now on; otherwise it is unmapped."""
    cached = state.cached + size
    if cached > state.cache_limit:
        empty_cache()
        cached = size
        if size > state.cache_limit:
            unmap(block, size)
            return False
    state.cached = cached
    return True
