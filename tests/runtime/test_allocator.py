"""The allocator: classes, reuse, alignment, no overlap, limits of the cache."""

from __future__ import annotations

import ctypes
import random
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nacre.native import engine
from nacre.native.python.declarations import native
from nacre.native.python.module import module
from nacre.native.python.types import i64, u64
from nacre.runtime import buffer
from nacre.runtime.allocator import CLASSES, FIRST_MAPPED, SMALL, class_of
from nacre.runtime.buffer import Buffer, allocate, statistics
from nacre.runtime.layouts import STATE


@native
def class_number(nbytes: u64) -> i64:
    number, _ = class_of(nbytes)
    return number


@native
def class_size(nbytes: u64) -> u64:
    _, size = class_of(nbytes)
    return size


MEBIBYTE = 1 << 20


@pytest.fixture(autouse=True)
def defaults() -> Iterator[None]:
    buffer.empty_cache()
    yield
    buffer.cache_limit(None)
    buffer.memory_limit(None)
    buffer.empty_cache()


@pytest.fixture(scope="module")
def classes() -> engine.Library:
    return engine.load(engine.compile_text(module([class_number, class_size]), engine.host_target())).keep()


def test_classes_are_tight_and_ordered(classes: engine.Library) -> None:
    kind = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)
    number, size = (kind(classes.address(name)) for name in ("class_number", "class_size"))
    rng = random.Random(0)
    sizes = [
        *range(5000),
        *(rng.randrange(1 << rng.randrange(1, 46)) for _ in range(5000)),
        *(2**k + d for k in range(5, 46) for d in (-1, 0, 1)),
    ]
    by_class: dict[int, int] = {}
    for n in sizes:
        c, s = number(n), size(n)
        assert s >= n and s % 64 == 0 and 0 <= c < CLASSES
        assert s <= max(64, n + 63, n * 1.13)
        assert by_class.setdefault(c, s) == s
    assert [by_class[c] for c in sorted(by_class)] == sorted(by_class.values())
    assert number(SMALL) == FIRST_MAPPED - 1 and number(SMALL + 1) == FIRST_MAPPED


def fill(made: Buffer, value: int) -> None:
    ctypes.memset(made.address, value, len(made))


def holds(made: Buffer, value: int) -> bool:
    return ctypes.string_at(made.address, len(made)) == bytes([value]) * len(made)


@given(
    st.lists(
        st.one_of(
            st.integers(0, 3000), st.integers(0, 200_000), st.sampled_from([32768, 32769, MEBIBYTE, 4 * MEBIBYTE + 1])
        ),
        min_size=1,
        max_size=60,
    ),
    st.randoms(use_true_random=False),
)
@settings(max_examples=40, deadline=None)
def test_blocks_do_not_overlap(sizes: list[int], rng: random.Random) -> None:
    before = statistics()
    live: list[tuple[Buffer, int]] = []
    for k, size in enumerate(sizes):
        made = allocate(size)
        assert made.address % 64 == 0 and len(made) == size
        fill(made, k % 251)
        live.append((made, k % 251))
        del made
        if rng.random() < 0.4:
            gone, value = live.pop(rng.randrange(len(live)))
            assert holds(gone, value)
            del gone
    assert all(holds(made, value) for made, value in live)
    assert statistics().buffers == before.buffers + len(live)
    live.clear()
    after = statistics()
    assert (after.allocated, after.buffers) == (before.allocated, before.buffers)


@pytest.mark.parametrize("size", [1, 64, 1000, 32768, 32769, MEBIBYTE, 10 * MEBIBYTE])
def test_freed_memory_is_used_again(size: int) -> None:
    first = allocate(size)
    address = first.address
    del first
    assert allocate(size).address == address


def test_large_blocks_are_cached_up_to_the_limit() -> None:
    buffer.cache_limit(8 * MEBIBYTE)
    blocks = [allocate(3 * MEBIBYTE) for _ in range(4)]
    assert statistics().cached == 0
    del blocks[0], blocks[0]
    assert statistics().cached == 6 * MEBIBYTE
    del blocks[0]  # nine would exceed the limit: the six are freed
    assert statistics().cached == 3 * MEBIBYTE
    huge = allocate(40 * MEBIBYTE)
    del huge
    assert statistics().cached == 0
    del blocks
    assert statistics().cached == 3 * MEBIBYTE
    buffer.empty_cache()
    assert statistics().cached == 0


def test_emptying_returns_pages_to_the_system() -> None:
    def resident() -> int:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * 4096

    made = allocate(64 * MEBIBYTE)
    fill(made, 1)
    high = resident()
    del made
    assert resident() > high - 8 * MEBIBYTE
    buffer.empty_cache()
    assert resident() < high - 56 * MEBIBYTE


def test_large_blocks_differ_in_colour() -> None:
    blocks = [allocate(2 * MEBIBYTE) for _ in range(16)]
    assert len({block.address % 4096 for block in blocks}) == 16


def test_peak() -> None:
    buffer.reset_peak()
    base = statistics().peak
    made = allocate(MEBIBYTE)
    del made
    assert statistics().peak == base + MEBIBYTE
    buffer.reset_peak()
    assert statistics().peak == base


def test_words_of_the_state() -> None:
    assert buffer.MemoryFigures._fields == STATE
