"""Non-temporal stores for results larger than the caches: a line is not read before it is written.

A non-temporal store writes whole, aligned vectors.  So a vector loop with large results runs the iterations before the
first aligned address separately; buffers that are not aligned after that are written normally.

The inputs of such loops are prefetched farther ahead than the processor does.  So are rows that several loops read: the
second loop, which finds its row in the cache, prefetches the next row.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Hashable, Sequence
from contextlib import contextmanager

from nacre.base.dims import Size, product
from nacre.codegen.loops.expressions import MemoryHints, Values
from nacre.kernel.ast import For, Kernel, Load, Store
from nacre.kernel.dependence import loaded, loads, stride
from nacre.native.llvm_values import Val

LARGE = 1 << 25  # bytes of a result that are more than a core's share of the last cache
LONG = 1 << 11  # bytes of a row from which on its lines that are not written whole cost less than is gained
SHORT = 1 << 8  # the same of rows of whole lines
LINE = 64
PAGE = 4096
AHEAD = 16  # rows, of short ones
KEPT = 1 << 17  # bytes of a row up to which there is room in the cache for the next one, too


def large_results(kernel: Kernel) -> frozenset[str]:
    """The outputs of a kernel that are too large for a cache, of rows worth it, and that it does not read again."""
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
    return frozenset(large - loaded(kernel.body)) if large else frozenset()


class NonTemporalStores(MemoryHints):
    """Stores past the caches, and prefetches, in one kernel function."""

    def __init__(self, values: Values, streams: frozenset[str]) -> None:
        self.values, self.f, self.isa = values, values.f, values.isa
        self.streams = streams  # the results that are written so
        self.streaming = False  # whether stores of whole vectors go past the caches here
        self.streamed = False  # whether any did
        self.distances: dict[tuple[Size, Size, int], Val] = {}  # how far ahead memory is asked for
        self.inputs = frozenset(b.name for b in values.kernel.inputs)
        self.passes: Counter[Hashable] = Counter()  # how many loops over a row have read an input so
        self.again: list[Load] = []  # what is read for the second time here

    def streamed_stores(self, s: For) -> list[Store]:
        """The stores of a loop without loops inside that may go past the caches."""
        if not self.streams or any(isinstance(t, For) for t in s.body):
            return []
        found = [t for t in s.body if isinstance(t, Store) and t.buffer in self.streams]
        scope = self.values.known()
        return [t for t in found if stride(self.values.storage[t.buffer].buffer, t.index, s.index, scope) == 1]

    def before_line(self, s: For, stores: Sequence[Store], start: Val, end: Val) -> tuple[Val, Val]:
        """The round from which on the first store is aligned, and whether the others are, too."""
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
        """What is known of the address of a whole vector that goes past the caches; None where it does not."""
        if not self.streaming or buffer not in self.streams or lanes == 1:
            return None
        self.streamed = True
        return min(LINE, lanes * self.values.storage[buffer].buffer.dtype.itemsize)

    @contextmanager
    def reading(self, s: For) -> Generator[None]:
        """Inside, a loop over a row is written, which may read what one before it has read."""
        row = tuple(serial for serial, _ in self.values.indices.values())
        found = {(row, e.buffer, e.index): e for e in loads(s.body) if e.buffer in self.inputs}
        self.again = [e for access, e in found.items() if self.passes[access] == 1]
        yield
        self.again = []
        self.passes.update(found.keys())

    def ask_next(self, s: For, first: Val, count: int) -> None:
        """Ask for what `count` rounds of a loop over a row, which read it again, will read of the next row.

        The processor itself follows the loops to the end of a page only, and has nothing to follow in the second one.
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
        """Ask for what lies a page further: the processor itself follows an access only to the end of its page.

        Of short rows, which may lie apart, it is what lies some rows further.
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
        """How far ahead memory is asked for, given a row's length, its distance to the next one, and elements' size."""
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
        """Let what went past the caches be seen before what follows."""
        if self.streamed and self.isa.fence:
            self.f.module.declare(f"llvm.{self.isa.fence}", "void", [])
            self.f.emit(f"call void @llvm.{self.isa.fence}()")
