"""Row panels of A: as many rows as a tile has, read in place or from a copy.

A copy pays if rows of A share too few cache sets, or if a cache line has elements of many rows; it is required if
elements change type.  The tiles of a row panel copy the next row panel, a share each, so that loads overlap with
multiplications.  Two copies alternate.
"""

from __future__ import annotations

from nacre.base.records import dataclass
from nacre.codegen.gemm.packed_dot import PackedDot
from nacre.codegen.gemm.plan import BLOCK
from nacre.codegen.gemm.prefetch import PrefetchRuns, prefetch_runs, share
from nacre.codegen.gemm.scratch import ScratchLayout
from nacre.native.llvm_values import Val
from nacre.native.text import Function

ALIASING = 4096  # rows of A at a multiple of this many bytes share too few cache sets
REUSED = 192  # columns from which on a copy of aliasing rows pays


@dataclass(frozen=True)
class RowPanel:
    """Some rows of A in one block of k."""

    source: Val
    count: Val  # rows
    depth: Val  # in k
    runs: Val  # pieces to copy: its rows, or a row's worth of its elements for each k
    store: Val  # where its copy is stored


@dataclass(frozen=True)
class RowPanels:
    """How a block reads A."""

    f: Function
    layout: ScratchLayout
    stride: tuple[Val, Val]  # of A: m, k; elements
    rows: Val
    copies: Val  # whether row panels are copied
    transposed: Val  # whether a copy has a row for each k, else for each m
    tiles: Val  # of a row panel
    far: Val  # whether row panels are prefetched
    packed_dot: PackedDot | None  # packs a row panel for the packed dot instruction, when its tiles begin

    def first(self, a: Val, depth: Val) -> None:
        """Copy the first row panel, which has no predecessor."""
        if self.packed_dot is not None:
            return
        panel = self._panel(a, self.f.i64(0), depth, self.f.i64(0))
        with self.f.when(self.copies):
            self._copy(panel, self.f.i64(0), panel.runs)

    def at(self, a: Val, i: Val, depth: Val, number: Val, after: tuple[Val, Val]) -> tuple[RowPanel, RowPanel]:
        """The row panel at row i of a block of k that begins at a, and its successor.

        `number` counts row panels; `after` is where the next block of k begins and its depth.
        """
        f, tall = self.f, self.layout.shape.tall
        below = f.add(i, tall)
        more = f.icmp("slt", below, self.rows)
        start, row = f.select(more, a, after[0]), f.select(more, below, f.i64(0))
        following = self._panel(start, row, f.select(more, depth, after[1]), f.add(number, 1))
        return self._panel(a, i, depth, number), following

    def begin(self, panel: RowPanel) -> tuple[Val, Val, Val]:
        """Where tiles read a row panel, and the bytes of a row and of a k; its copy must be complete."""
        f, layout, numbers = self.f, self.layout, self.layout.numbers
        if self.packed_dot is not None:
            steps = layout.across, layout.row
            self.packed_dot.row_panel(panel.source, *self.stride, panel.store, steps, panel.depth, panel.count)
        packed_m = f.select(self.transposed, f.i64(1), f.i64(layout.row))
        packed_k = f.select(self.transposed, f.i64(layout.across), f.i64(1))
        row = f.mul(f.select(self.copies, packed_m, self.stride[0]), numbers.bytes)
        k = f.mul(f.select(self.copies, packed_k, self.stride[1]), numbers.bytes)
        return f.select(self.copies, panel.store, panel.source), row, k

    def prefetch(self, panel: RowPanel) -> PrefetchRuns:
        """The prefetches of the previous row panel's tiles: by all of them, or by the first half if the others copy."""
        f = self.f
        run_stride, _, length = self._steps(panel)
        size = f.mul(length, self.layout.numbers.stored_bytes)
        asking = f.select(self.copies, f.lshr(f.add(self.tiles, 1), 1), self.tiles)
        return prefetch_runs(f, panel.source, run_stride, panel.runs, size, asking)

    def prepare(self, panel: RowPanel, tile: Val) -> None:
        """Copy the share of one tile of the previous row panel; the second half of its tiles copy."""
        if self.packed_dot is not None:
            return
        f = self.f
        idle = f.select(self.far, f.lshr(self.tiles, 1), f.i64(0))
        each = share(f, panel.runs, f.sub(self.tiles, idle))
        begin = f.mul(f.sub(tile, idle), each)
        end = f.smin(f.add(begin, each), panel.runs)
        with f.when(f.and_(f.icmp("sge", begin, 0), f.icmp("slt", begin, end))):
            self._copy(panel, begin, end)

    def _panel(self, a: Val, i: Val, depth: Val, number: Val) -> RowPanel:
        f, layout = self.f, self.layout
        source = f.gep(a, f.mul(i, self.stride[0]), layout.numbers.stored)
        count = f.smin(f.sub(self.rows, i), layout.shape.tall)
        runs = f.select(self.transposed, depth, f.select(f.icmp("sgt", depth, 0), count, f.i64(0)))
        at = f.add(f.mul(f.and_(number, 1), layout.panel_copy), layout.panel_copies_at)
        return RowPanel(source, count, depth, runs, f.gep(f["scratch"], at))

    def _steps(self, panel: RowPanel) -> tuple[Val, Val, Val]:
        """Bytes from run to run of A, and from element to element of a run; elements of a run."""
        f, (m, k) = self.f, (self.f.mul(s, self.layout.numbers.stored_bytes) for s in self.stride)
        return (
            f.select(self.transposed, k, m),
            f.select(self.transposed, m, k),
            f.select(self.transposed, panel.count, panel.depth),
        )

    def _copy(self, panel: RowPanel, start: Val, stop: Val) -> None:
        """Copy some runs."""
        f, layout, numbers = self.f, self.layout, self.layout.numbers
        run_stride, step, length = self._steps(panel)
        row = f.mul(f.select(self.transposed, f.i64(layout.across), f.i64(layout.row)), numbers.bytes)
        source, target = f.gep(panel.source, f.mul(start, run_stride)), f.gep(panel.store, f.mul(start, row))
        runs, dense = f.sub(stop, start), f.icmp("eq", step, numbers.stored_bytes)
        with f.when(dense):
            f.call(numbers.part("copy"), "void", [source, run_stride, target, row, runs, length])
        if numbers.widens:
            with f.when(f.xor(dense, f.const("i1", True))):
                f.call(numbers.part("gather"), "void", [source, run_stride, step, target, row, runs, length])


def make_row_panels(
    f: Function, layout: ScratchLayout, stride: tuple[Val, Val], rows: Val, columns: Val, tiles: Val, k: Val, far: Val,
    packed_dot: PackedDot | None,
) -> RowPanels:  # fmt: skip
    """Decide how a block of the given number of rows, columns and k reads A."""
    by_column = f.and_(f.icmp("eq", stride[0], 1), f.icmp("ne", stride[1], 1))
    return RowPanels(
        f, layout, stride, rows, _copy_pays(f, layout, stride, columns, k), by_column, tiles, far, packed_dot
    )


def _copy_pays(f: Function, layout: ScratchLayout, stride: tuple[Val, Val], columns: Val, k: Val) -> Val:
    """Whether a copy pays: always if A changes type, else if lines are shared or alias, and are reused."""
    if layout.numbers.widens:
        return f.const("i1", True)
    by_column, by_row = (f.icmp("eq", s, 1) for s in stride)
    run_stride = f.mul(stride[0], layout.numbers.bytes)
    aliases = f.and_(f.icmp("eq", f.and_(run_stride, ALIASING - 1), 0), f.icmp("sgt", k, BLOCK // 2))
    aliases = f.and_(aliases, f.icmp("sgt", columns, REUSED))
    return f.and_(f.select(by_row, aliases, by_column), f.icmp("sgt", columns, layout.lanes))
