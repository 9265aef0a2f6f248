"""A in bands with as many rows as a tile, read in place or from a copy.

A copy pays if rows of A share too few cache sets, or if a cache line holds elements of many rows; it is needed if
elements change type.  The tiles of a band copy the next band, a share each, so that loads overlap with
multiplications.  Two copies alternate.
"""

from __future__ import annotations

from nacre.base.records import dataclass
from nacre.codegen.gemm.packed_dot import PackedDot
from nacre.codegen.gemm.plan import BLOCK
from nacre.codegen.gemm.prefetch import Stretches, share, stretches_of
from nacre.codegen.gemm.scratch import ScratchLayout
from nacre.native.text import Function, Val

ALIASING = 4096  # rows of A this many bytes apart, or a multiple, share too few cache sets
REUSED = 192  # columns: so many pay for a copy of aliasing rows


@dataclass(frozen=True)
class RowPanel:
    """Some rows of A in one block of k."""

    source: Val
    count: Val  # rows
    depth: Val  # how many k
    runs: Val  # what is copied at a time: its rows, or a row's worth of its elements for each k
    store: Val  # where its copy belongs


@dataclass(frozen=True)
class RowPanels:
    """How a block takes A."""

    f: Function
    layout: ScratchLayout
    stride: tuple[Val, Val]  # of A: m, k; elements
    rows: Val
    copies: Val  # whether bands are copied
    turned: Val  # whether a copy has a row for each k, else for each m
    tiles: Val  # of a band
    far: Val  # whether they are asked for ahead
    words: PackedDot | None  # what packs a band as words, when its tiles begin

    def first(self, a: Val, depth: Val) -> None:
        """Copy the first band, which follows none."""
        if self.words is not None:
            return
        band = self._band(a, self.f.i64(0), depth, self.f.i64(0))
        with self.f.when(self.copies):
            self._copy(band, self.f.i64(0), band.runs)

    def at(self, a: Val, i: Val, depth: Val, number: Val, after: tuple[Val, Val]) -> tuple[RowPanel, RowPanel]:
        """The band at row i of a block of k that begins at a, and the one behind it.

        `number` counts bands; `after` is where the next block of k begins and its depth.
        """
        f, tall = self.f, self.layout.shape.tall
        below = f.add(i, tall)
        more = f.icmp("slt", below, self.rows)
        start, row = f.select(more, a, after[0]), f.select(more, below, f.i64(0))
        following = self._band(start, row, f.select(more, depth, after[1]), f.add(number, 1))
        return self._band(a, i, depth, number), following

    def begin(self, band: RowPanel) -> tuple[Val, Val, Val]:
        """Where tiles read a band, and bytes from row to row and from k to k; its copy is complete."""
        f, layout, numbers = self.f, self.layout, self.layout.numbers
        if self.words is not None:
            steps = layout.across, layout.row
            self.words.band(band.source, *self.stride, band.store, steps, band.depth, band.count)
        packed_m = f.select(self.turned, f.i64(1), f.i64(layout.row))
        packed_k = f.select(self.turned, f.i64(layout.across), f.i64(1))
        row = f.mul(f.select(self.copies, packed_m, self.stride[0]), numbers.bytes)
        k = f.mul(f.select(self.copies, packed_k, self.stride[1]), numbers.bytes)
        return f.select(self.copies, band.store, band.source), row, k

    def ask(self, band: RowPanel) -> Stretches:
        """What the tiles of the band before ask for: all of them, or the first half if others copy."""
        f = self.f
        apart, _, length = self._steps(band)
        size = f.mul(length, self.layout.numbers.stored_bytes)
        asking = f.select(self.copies, f.lshr(f.add(self.tiles, 1), 1), self.tiles)
        return stretches_of(f, band.source, apart, band.runs, size, asking)

    def prepare(self, band: RowPanel, tile: Val) -> None:
        """Copy the share of one tile of the band before, of which the second half do."""
        if self.words is not None:
            return
        f = self.f
        idle = f.select(self.far, f.lshr(self.tiles, 1), f.i64(0))
        each = share(f, band.runs, f.sub(self.tiles, idle))
        begin = f.mul(f.sub(tile, idle), each)
        end = f.smin(f.add(begin, each), band.runs)
        with f.when(f.and_(f.icmp("sge", begin, 0), f.icmp("slt", begin, end))):
            self._copy(band, begin, end)

    def _band(self, a: Val, i: Val, depth: Val, number: Val) -> RowPanel:
        f, layout = self.f, self.layout
        source = f.gep(a, f.mul(i, self.stride[0]), layout.numbers.stored)
        count = f.smin(f.sub(self.rows, i), layout.shape.tall)
        runs = f.select(self.turned, depth, f.select(f.icmp("sgt", depth, 0), count, f.i64(0)))
        at = f.add(f.mul(f.and_(number, 1), layout.band), layout.band_at)
        return RowPanel(source, count, depth, runs, f.gep(f["scratch"], at))

    def _steps(self, band: RowPanel) -> tuple[Val, Val, Val]:
        """Bytes from run to run of A, and from element to element of a run; elements of a run."""
        f, (m, k) = self.f, (self.f.mul(s, self.layout.numbers.stored_bytes) for s in self.stride)
        return f.select(self.turned, k, m), f.select(self.turned, m, k), f.select(self.turned, band.count, band.depth)

    def _copy(self, band: RowPanel, start: Val, stop: Val) -> None:
        """Copy some runs."""
        f, layout, numbers = self.f, self.layout, self.layout.numbers
        apart, step, length = self._steps(band)
        row = f.mul(f.select(self.turned, f.i64(layout.across), f.i64(layout.row)), numbers.bytes)
        source, target = f.gep(band.source, f.mul(start, apart)), f.gep(band.store, f.mul(start, row))
        runs, dense = f.sub(stop, start), f.icmp("eq", step, numbers.stored_bytes)
        with f.when(dense):
            f.call(numbers.part("copy"), "void", [source, apart, target, row, runs, length])
        if numbers.widens:
            with f.when(f.xor(dense, f.const("i1", True))):
                f.call(numbers.part("gather"), "void", [source, apart, step, target, row, runs, length])


def make_row_panels(
    f: Function, layout: ScratchLayout, stride: tuple[Val, Val], rows: Val, columns: Val, tiles: Val, k: Val, far: Val,
    words: PackedDot | None,
) -> RowPanels:  # fmt: skip
    """Decide how a block of the given number of rows, columns and k takes A."""
    by_column = f.and_(f.icmp("eq", stride[0], 1), f.icmp("ne", stride[1], 1))
    return RowPanels(f, layout, stride, rows, _copy_pays(f, layout, stride, columns, k), by_column, tiles, far, words)


def _copy_pays(f: Function, layout: ScratchLayout, stride: tuple[Val, Val], columns: Val, k: Val) -> Val:
    """Always if A changes type; else if lines are shared or alias, and reused."""
    if layout.numbers.widens:
        return f.const("i1", True)
    by_column, by_row = (f.icmp("eq", s, 1) for s in stride)
    apart = f.mul(stride[0], layout.numbers.bytes)
    aliases = f.and_(f.icmp("eq", f.and_(apart, ALIASING - 1), 0), f.icmp("sgt", k, BLOCK // 2))
    aliases = f.and_(aliases, f.icmp("sgt", columns, REUSED))
    return f.and_(f.select(by_row, aliases, by_column), f.icmp("sgt", columns, layout.lanes))
