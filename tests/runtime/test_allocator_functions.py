"""Each function of the allocator alone: compiled, and called with memory that is made here."""

from __future__ import annotations

import ctypes
from functools import cache
from types import SimpleNamespace
from typing import Any

import pytest

from nacre.native import engine
from nacre.native.python.declarations import native
from nacre.native.python.module import module
from nacre.native.python.types import fields_of, i64, offset_of, size_of, u64
from nacre.native.python.unit import NativeModule
from nacre.runtime import allocator, heaptype
from nacre.runtime.allocator import FIRST_MAPPED, PAGE, SLAB, SMALL, FreeBlock, FreeLists, Slab
from nacre.runtime.layouts import STATE, AllocatorState, BufferObject
from native.python.compiled import ctype

MEBIBYTE = 1 << 20


@native
def take(size_class: i64, size: u64) -> FreeBlock:
    return allocator.take(size_class, size)


@native
def give(block: FreeBlock, size_class: i64, size: u64) -> None:
    allocator.give(block, size_class, size)


@native
def length_of(size: u64) -> u64:
    return allocator.mapped_length(size)


@native
def class_size(size_class: u64) -> u64:
    return allocator.size_of_class(size_class)


@native
def lists() -> FreeLists:
    return allocator.free


@native
def slab_of() -> Slab:
    return allocator.slab


FUNCTIONS: list[Any] = [
    *(take, give, length_of, class_size, lists, slab_of, heaptype.renew, heaptype.length),
    *(allocator.new_pages, allocator.new_huge_pages, allocator.map_block, allocator.unmap, allocator.empty_cache),
    *(allocator.small_block, allocator.large_block, allocator.has_room),
]


@cache
def image() -> bytes:
    return engine.compile_text(module(FUNCTIONS), engine.host_target())


class Figures(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_uint64) for name in STATE)


@pytest.fixture
def heap() -> Any:
    """The functions by name, with a state of their own: no limits, and no memory yet."""
    library = engine.load(image()).keep()
    made = SimpleNamespace(state=Figures.from_address(library.address("nacre.memory")))
    for f in FUNCTIONS:
        signature = NativeModule("signatures", []).signature(f)
        kind = ctypes.CFUNCTYPE(ctype(signature.result), *map(ctype, signature.kinds))
        setattr(made, f.__name__, kind(library.address(f.symbol)))
    made.state.limit = made.state.cache_limit = 1 << 40
    made.first = (ctypes.c_void_p * allocator.CLASSES).from_address(made.lists())
    made.slab = (ctypes.c_uint64 * 2).from_address(made.slab_of())
    return made


def words(*values: int) -> Any:
    """Some memory for a block."""
    return (ctypes.c_uint64 * max(8, len(values)))(*values)


def test_layouts() -> None:
    assert size_of(AllocatorState) == ctypes.sizeof(Figures) == 64 and fields_of(AllocatorState) == STATE
    assert [offset_of(BufferObject, f) for f in fields_of(BufferObject)] == [0, 4, 8, 16, 24, 32, 40, 48, 56, 64]


def test_sizes(heap: Any) -> None:
    assert [heap.length_of(n) for n in (1, 65536, 65537, MEBIBYTE)] == [65536, 65536, 131072, MEBIBYTE + 65536]
    assert [heap.class_size(FIRST_MAPPED + k) for k in range(9)] == [SMALL // 8 * k for k in range(9, 17)] + [73728]


def test_pages(heap: Any) -> None:
    start = heap.new_pages(2 * PAGE)
    assert start % PAGE == 0 and ctypes.string_at(start, 2 * PAGE) == bytes(2 * PAGE)
    huge = heap.new_huge_pages(4 * MEBIBYTE)
    assert huge % (2 * MEBIBYTE) == 0 and ctypes.string_at(huge + 4 * MEBIBYTE - 8, 8) == bytes(8)
    assert heap.new_pages(1 << 62) == 0 and heap.new_huge_pages(1 << 62) == 0
    assert heap.map_block(1 << 62) is None and heap.state.mapped == 0


def test_mapped_blocks_have_colours(heap: Any) -> None:
    places = [heap.map_block(MEBIBYTE) % PAGE for _ in range(17)]
    assert places == [256 * (k % 16) for k in range(17)] and heap.state.mapped == 17
    assert heap.map_block(SMALL + 1) % PAGE == 0
    block = heap.map_block(5 * MEBIBYTE)
    heap.unmap(block, 5 * MEBIBYTE)
    with open("/proc/self/maps", encoding="ascii") as file:
        assert not any(int(line.split("-")[0], 16) == block & -PAGE for line in file)


def test_small_blocks_are_cut_from_slabs(heap: Any) -> None:
    first = heap.small_block(1024)
    assert heap.state.slabs == SLAB and list(heap.slab) == [first + 1024, first + SLAB]
    assert heap.small_block(64) == first + 1024
    memory = words()
    heap.slab[:] = [ctypes.addressof(memory), ctypes.addressof(memory) + 64]
    assert heap.small_block(64) == ctypes.addressof(memory)
    assert heap.small_block(64) != ctypes.addressof(memory) + 64 and heap.state.slabs == 2 * SLAB


def test_freed_blocks_are_taken_first(heap: Any) -> None:
    older, newer = words(), words()
    heap.state.allocated = heap.state.peak = 1000
    for memory in (older, newer):
        heap.give(ctypes.addressof(memory), 3, 256)
    assert (
        heap.state.allocated == 488 and heap.first[3] == ctypes.addressof(newer) and newer[0] == ctypes.addressof(older)
    )
    assert heap.take(3, 256) == ctypes.addressof(newer) and heap.first[3] == ctypes.addressof(older)
    assert heap.take(3, 256) == ctypes.addressof(older) and heap.first[3] is None
    assert heap.state.allocated == heap.state.peak == 1000 and heap.state.slabs == 0
    assert heap.take(3, 256) is not None and heap.state.slabs == SLAB and heap.state.peak == 1256


def test_nothing_is_taken_above_the_limit(heap: Any) -> None:
    heap.state.limit = 1000
    assert heap.take(3, 1001) is None and heap.state.allocated == heap.state.peak == 0
    assert heap.take(3, 1000) is not None and heap.take(0, 64) is None


def test_cached_blocks_make_room_for_a_large_one(heap: Any) -> None:
    size = heap.class_size(FIRST_MAPPED)
    block = heap.take(FIRST_MAPPED, size)
    heap.give(block, FIRST_MAPPED, size)
    assert heap.state.cached == size and heap.first[FIRST_MAPPED] == block
    heap.state.limit = size + MEBIBYTE - 1
    assert heap.large_block(MEBIBYTE) is not None
    assert heap.state.cached == 0 and heap.first[FIRST_MAPPED] is None


def test_mapped_blocks_are_counted_when_they_are_cached(heap: Any) -> None:
    size = heap.class_size(FIRST_MAPPED)
    block = heap.take(FIRST_MAPPED, size)
    heap.give(block, FIRST_MAPPED, size)
    assert heap.take(FIRST_MAPPED, size) == block and heap.state.cached == 0 and heap.state.allocated == size


def test_the_room_for_cached_blocks(heap: Any) -> None:
    size = heap.class_size(FIRST_MAPPED)
    heap.state.cache_limit = 2 * size
    assert heap.has_room(None, size) and heap.has_room(None, size) and heap.state.cached == 2 * size
    assert heap.has_room(None, size) and heap.state.cached == size  # the others are unmapped first
    heap.state.cache_limit = size - 1
    block = heap.map_block(size)
    assert not heap.has_room(block, size) and heap.state.cached == 0


def test_emptying_unmaps_mapped_classes_alone(heap: Any) -> None:
    memory = words()
    heap.first[FIRST_MAPPED - 1] = ctypes.addressof(memory)
    sizes = {k: heap.class_size(k) for k in (FIRST_MAPPED, FIRST_MAPPED + 30)}
    for k, size in sizes.items():
        for block in [heap.map_block(size) for _ in range(3)]:
            heap.give(block, k, size)
    heap.empty_cache()
    assert heap.state.cached == 0 and heap.first[FIRST_MAPPED - 1] == ctypes.addressof(memory)
    assert all(heap.first[k] is None for k in sizes)


def test_serials_change_only_for_memory_of_ours(heap: Any) -> None:
    at = offset_of(BufferObject, "serial") // 8
    ours, foreign = words(*[0] * 9), words(*[0] * 9)
    ours[at], ours[offset_of(BufferObject, "nbytes") // 8] = 77, 12
    for memory in (ours, foreign, ours):
        heap.renew(ctypes.addressof(memory))
    assert (ours[at], foreign[at]) == (2, 0) and heap.length(ctypes.addressof(ours)) == 12
