"""Non-temporal stores for results larger than the caches: a line is not read before it is written.

A non-temporal store writes whole, aligned vectors.  A vector loop with large results therefore runs the iterations
before the first aligned address separately; buffers that are not aligned after that are written normally.

The inputs of such loops are prefetched farther ahead than by the processor.  So are rows that several loops read: the
second loop, whose row is in the cache, prefetches the next row.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Hashable, Sequence
from contextlib import contextmanager

from nacre.base.dims import Size, product
from nacre.codegen.loops.expressions import MemoryHints, Values
from nacre.kernel.ast import Accumulate, For, If, Kernel, Load, Stmt, Store, While
from nacre.kernel.dependence import loaded, loads, stride
from nacre.native.llvm_values import Val

LARGE = 1 << 25  # bytes of a result from which on it exceeds a core's share of the last cache
LONG = 1 << 11  # bytes of a row from which on the gain exceeds the cost of lines that are not written whole
SHORT = 1 << 8  # the same for rows of whole lines
LINE = 64
PAGE = 4096
AHEAD = 16  # rows of prefetch distance, for short rows
KEPT = 1 << 17  # bytes of a row up to which the cache has room for the next one, too


def large_results(kernel: Kernel) -> frozenset[str]:
    """The outputs of a kernel that are too large for a cache, have long enough rows, and are not read again by it.

    A kernel that stores a small part of an output leaves that part in the cache.
    """
    large: set[str] = set()
    for b in kernel.outputs:
        count = product(b.shape)
        row = (b.shape[-1] if b.shape else 1) * b.dtype.itemsize
        if (
            isinstance(count, int)
            and count * b.dtype.itemsize >= LARGE
            and (row >= LONG or (row >= SHORT and row % LINE == 0))
        ):
            large.add(b.name)
    if not large:
        return frozenset()
    return frozenset((large & _stored(kernel.body, 1)) - loaded(kernel.body))


def _stored(body: Sequence[Stmt], count: Size | None) -> set[str]:
    """The buffers of which a body that runs `count` times, or an unknown number, may store a large part."""
    found: set[str] = set()
    for s in body:
        match s:
            case Store():
                if not isinstance(count, int) or count * s.value.dtype.itemsize >= LARGE:
                    found.add(s.buffer)
            case Accumulate():
                found.update(s.accumulators)
            case For():
                found |= _stored(s.body, None if count is None else s.extent * count)
            case If():
                found |= _stored((*s.body, *s.orelse), count)
            case While():
                found |= _stored(s.body, None)
            case _:
                pass
    return found


class NonTemporalStores(MemoryHints):
    """Stores that bypass the caches, and prefetches, in one kernel function."""

    def __init__(self, values: Values, streams: frozenset[str]) -> None:
        self.values, self.f, self.isa = values, values.f, values.isa
        self.streams = streams  # the results that are written by non-temporal stores
        self.streaming = False  # whether stores of whole vectors are non-temporal here
        self.streamed = False  # whether any was
        self.distances: dict[tuple[Size, Size, int], Val] = {}  # prefetch distances
        self.inputs = frozenset(b.name for b in values.kernel.inputs)
        self.passes: Counter[Hashable] = Counter()  # the number of loops over a row that have an access to an input
        self.again: list[Load] = []  # loads that read the same row for the second time here

    def streamed_stores(self, s: For) -> list[Store]:
        """The stores of an innermost loop that may bypass the caches."""
        if not self.streams or any(isinstance(t, For) for t in s.body):
            return []
        found = [t for t in s.body if isinstance(t, Store) and t.buffer in self.streams]
        scope = self.values.known()
        return [t for t in found if stride(self.values.storage[t.buffer].buffer, t.index, s.index, scope) == 1]

    def before_line(self, s: For, stores: Sequence[Store], start: Val, end: Val) -> tuple[Val, Val]:
        """The iteration from which on the first store is aligned, and whether the others are aligned there too."""
        f = self.f
        addresses: list[Val] = []
        with self.values.index(s.index, start, s.extent):
            for t in stores:
                storage = self.values.storage[t.buffer]
                addresses.append(f.cast("ptrtoint", self.values.place(storage, t.index).pointer, "i64"))
        sizes = [self.values.storage[t.buffer].buffer.dtype.itemsize for t in stores]
        missing = f.and_(f.sub(f.i64(0), addresses[0]), LINE - 1)
        first = f.smin(f.add(start, f.lshr(missing, sizes[0].bit_length() - 1)), end)
        ahead = f.sub(first, start)
        unaligned = f.i64(0)
        for address, size in zip(addresses, sizes, strict=True):
            unaligned = f.or_(unaligned, f.and_(f.add(address, f.mul(ahead, size)), LINE - 1))
        return first, f.icmp("eq", unaligned, 0)

    def alignment(self, buffer: str, lanes: int) -> int | None:
        """The known alignment of a whole vector that bypasses the caches; None where it does not."""
        if not self.streaming or buffer not in self.streams or lanes == 1:
            return None
        self.streamed = True
        return min(LINE, lanes * self.values.storage[buffer].buffer.dtype.itemsize)

    @contextmanager
    def reading(self, s: For) -> Generator[None]:
        """Inside, a loop over a row is written, which may read the same elements as an earlier one."""
        row = tuple(serial for serial, _ in self.values.indices.values())
        found = {(row, e.buffer, e.index): e for e in loads(s.body) if e.buffer in self.inputs}
        self.again = [e for access, e in found.items() if self.passes[access] == 1]
        yield
        self.again = []
        self.passes.update(found.keys())

    def ask_next(self, s: For, first: Val, count: int) -> None:
        """Prefetch the elements of the next row for `count` iterations of a loop that reads its row again.

        The processor's own prefetcher stops at the end of a page, and has no misses to follow in the second loop.
        """
        f = self.f
        for e in self.again:
            storage = self.values.storage[e.buffer]
            size = storage.buffer.dtype.itemsize
            if isinstance(s.extent, int) and s.extent * size > KEPT:
                continue
            with self.values.index(s.index, first, s.extent):
                around, along = (
                    [None] + [stride(storage.buffer, e.index, i, self.values.known()) for i in self.values.indices]
                )[-2:]
                if along != 1 or around in (None, 0):
                    continue
                there = f.gep(self.values.place(storage, e.index).pointer, f.mul(self.values.size(around), size))
            with f.when(f.icmp("sle", f.mul(self.values.size(s.extent), size), KEPT)):
                for line in range(0, count * size, LINE):
                    f.prefetch(f.gep(there, line))

    def ahead(self, e: Load, pointer: Val, size: int) -> None:
        """Prefetch the memory one page ahead: the processor's own prefetcher stops at the end of a page.

        For short rows, which may not be adjacent, prefetch some rows ahead.
        """
        if not self.streaming or self.values.vector is None:
            return
        f, buffer, scope = self.f, self.values.storage[e.buffer].buffer, self.values.known()
        around = [name for name in reversed(self.values.indices) if name != self.values.vector]
        steps = (stride(buffer, e.index, name, scope) for name in around)
        apart = next((step for step in steps if step != 0), 0)
        if apart is None:
            return
        row = self.values.extents[self.values.vector] if around else LONG
        there = f.gep(pointer, self.distance(row, apart, buffer.dtype.itemsize))
        for line in range(0, size, LINE):
            f.prefetch(f.gep(there, line), level=3)

    def distance(self, row: Size, apart: Size, size: int) -> Val:
        """The prefetch distance in bytes, given a row's length, its distance to the next one, and elements' size."""
        f, key = self.f, (row, apart, size)
        if isinstance(row, int) and row * size >= LONG:
            return f.i64(PAGE)
        if key not in self.distances:
            length, step = self.values.size(row), self.values.size(apart)
            with f.at_entry():
                long = f.icmp("sge", f.mul(length, size), LONG)
                self.distances[key] = f.select(long, f.i64(PAGE), f.mul(step, AHEAD * size))
        return self.distances[key]

    def drain(self) -> None:
        """Make non-temporal stores visible before later accesses."""
        if self.streamed and self.isa.fence:
            self.f.call(f"llvm.{self.isa.fence}", "void", [])
