"""Prepacked blocks of B that stay packed between calls: weights whose rows are not contiguous are slow to pack.

A kernel may be given memory for all of packed B (see `runtime/plan.Packed`): the blocks of columns one after the other,
in each of them the blocks of k.  Without it, each block is packed into scratch memory when it is needed.  The same
holds if several items need one block, because one would write it while others read it.
"""

from __future__ import annotations

from nacre.base.dims import Size
from nacre.base.records import dataclass
from nacre.codegen.gemm.element_types import Numbers
from nacre.codegen.gemm.epilogue import Slots
from nacre.codegen.gemm.packed_dot import PackedDot
from nacre.codegen.gemm.plan import BLOCK, GemmTiling
from nacre.codegen.gemm.prefetch import BlockPrefetch, share
from nacre.codegen.gemm.scratch import ScratchLayout
from nacre.codegen.gemm.work_items import HOW
from nacre.native.llvm_values import Val
from nacre.native.text import Function
from nacre.runtime.plan import READY

LEAST = 1 << 16  # bytes of B from which on it is prepacked
MANY = 256  # rows of A from which on the packing of groups is negligible
NOTE = 64  # bytes before a block, for the least magnitude of its numbers
PIECE = 4096  # bytes of one prefetch run


def prepacked_bytes(tiling: GemmTiling, m: Size, n: Size, k: Size, by_row: bool) -> int:
    """The memory that B takes if prepacking it pays, else 0; `by_row` says that its rows are contiguous.

    Packed dot groups are always packed, which is negligible with many rows; else tiles pack rows as they multiply.
    """
    few = not isinstance(m, int) or m <= MANY
    worth = not tiling.gemv and (few if tiling.group > 1 else not by_row)
    if not (worth and isinstance(n, int) and isinstance(k, int)) or n * k * tiling.bytes < LEAST * tiling.group:
        return 0
    depth = -(-min(k, BLOCK) // 16) * 16 // tiling.group + (tiling.group > 1)
    return -(-n // tiling.lanes) * -(-k // BLOCK) * (depth * tiling.lanes * tiling.bytes + NOTE)


@dataclass(frozen=True)
class Prepacked:
    """Where the blocks of B of an item's columns are packed."""

    f: Function
    numbers: Numbers
    there: Val  # whether there is memory for prepacked blocks
    ready: Val  # whether an earlier call has packed them
    start: Val
    size: Val  # bytes of a block of k, with its note
    scratch: Val  # where each block is packed otherwise

    def place(self, index: Val) -> Val:
        """Where a block is packed."""
        f = self.f
        return f.select(self.there, f.gep(self.start, f.add(f.mul(index, self.size), NOTE)), self.scratch)

    def note(self, place: Val, packed_dot: PackedDot | None) -> None:
        """Store the least magnitude of a block that was packed."""
        if packed_dot is not None and self.numbers.flushes:
            f = self.f
            with f.when(self.there):
                f.store(f.load(packed_dot.least_b, "i64"), f.gep(place, -NOTE))

    def recall(self, place: Val, packed_dot: PackedDot | None) -> None:
        """Load the least magnitude of a prepacked block."""
        if packed_dot is not None and self.numbers.flushes:
            f = self.f
            f.store(f.load(f.gep(place, -NOTE), "i64"), packed_dot.least_b)

    def prefetch(self, index: Val, more: Val, packed_from: BlockPrefetch, row_panels: Val) -> BlockPrefetch:
        """The prefetch of the next block, if there is one: its packed form, or else the elements of B."""
        f, ready = self.f, self.ready
        count = f.select(more, share(f, self.size, PIECE), f.i64(0))
        from_memory = (
            f.gep(self.start, f.mul(index, self.size)),
            f.i64(PIECE),
            count,
            f.i64(PIECE),
            share(f, count, row_panels),
        )
        plain = packed_from.start, packed_from.stride, packed_from.count, packed_from.size, packed_from.each
        return BlockPrefetch(*(f.select(ready, x, y) for x, y in zip(from_memory, plain, strict=True)))


def prepacked(
    f: Function, layout: ScratchLayout, slots: Slots, swap: Val, depth: Val, columns: Val, blocks: Val, scratch: Val
) -> Prepacked:  # fmt: skip
    """How an item with the given number of columns and blocks of k, each with `depth` elements of a column, packs B."""
    given, alone = slots.load(f, "Packed"), f.icmp("sge", HOW.load(f, "rows"), slots.load(f, "m"))
    there = f.and_(f.and_(f.icmp("ne", given, f.const("ptr", 0)), alone), f.xor(swap, f.const("i1", True)))
    state = f.load(f.select(there, given, f.module.constant("not_ready", "i64", "0")), "i64")
    strip = f.add(f.mul(depth, layout.lanes * layout.numbers.bytes), NOTE)  # bytes of a vector's width of columns
    before = f.mul(f.mul(f.binary("udiv", f["n0"], layout.lanes), blocks), strip)
    size = f.mul(share(f, columns, layout.lanes), strip)
    start = f.gep(given, f.add(before, READY))
    return Prepacked(f, layout.numbers, there, f.icmp("ne", state, 0), start, size, scratch)
