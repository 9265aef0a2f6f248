"""Results that no cache holds, written past the caches: a line is not read before it is written.

A store that goes past the caches writes whole, aligned vectors.  So a vector loop whose results are large takes the
rounds before the first aligned address by themselves; what is not aligned after that is written as ever.
"""

from __future__ import annotations

from collections.abc import Sequence

from nacre.base.dims import product
from nacre.codegen.nest_value import Values
from nacre.kernel.ast import For, Kernel, Store
from nacre.kernel.dependence import loaded, stride
from nacre.native.text import Val

LARGE = 1 << 25  # bytes of a result that are more than a core's share of the last cache
LONG = 1 << 11  # bytes of a row from which on its lines that are not written whole cost less than is gained
LINE = 64
PAGE = 4096


def large_results(kernel: Kernel) -> frozenset[str]:
    """The outputs of a kernel, of long rows, that are too large for a cache and that it does not read again."""
    large: set[str] = set()
    for b in kernel.outputs:
        count = product(b.shape)
        row = b.shape[-1] if b.shape else 1
        if isinstance(count, int) and count * b.dtype.itemsize >= LARGE and row * b.dtype.itemsize >= LONG:
            large.add(b.name)
    return frozenset(large - loaded(kernel.body)) if large else frozenset()


class Streams(Values):
    """Stores past the caches in one kernel function."""

    streams: frozenset[str] = frozenset()  # the results that are written so
    streaming = False  # whether stores of whole vectors go past the caches here
    streamed = False  # whether any did

    def streamed_stores(self, s: For) -> list[Store]:
        """The stores of a loop without loops inside that may go past the caches."""
        if not self.streams or any(isinstance(t, For) for t in s.body):
            return []
        found = [t for t in s.body if isinstance(t, Store) and t.buffer in self.streams]
        scope = self.known()
        return [t for t in found if stride(self.storage[t.buffer].buffer, t.index, s.index, scope) == 1]

    def before_line(self, s: For, stores: Sequence[Store], start: Val, end: Val) -> tuple[Val, Val]:
        """The round from which on the first store is aligned, and whether the others are, too."""
        f = self.f
        addresses: list[Val] = []
        with self.index(s.index, start, s.extent):
            for t in stores:
                storage = self.storage[t.buffer]
                addresses.append(f.cast("ptrtoint", self.place(storage, t.index).pointer, "i64"))
        sizes = [self.storage[t.buffer].buffer.dtype.itemsize for t in stores]
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
        return min(LINE, lanes * self.storage[buffer].buffer.dtype.itemsize)

    def ahead(self, pointer: Val, size: int) -> None:
        """Ask for what lies a page further: the processor itself follows an access only to the end of its page."""
        for line in range(0, size if self.streaming else 0, LINE):
            self.f.prefetch(self.f.gep(pointer, PAGE + line), level=3)

    def drain(self) -> None:
        """Let what went past the caches be seen before what follows."""
        if self.streamed and self.isa.name.startswith("avx"):
            self.f.module.declare("llvm.x86.sse.sfence", "void", [])
            self.f.emit("call void @llvm.x86.sse.sfence()")
