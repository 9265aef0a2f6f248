"""Prologues: pointwise work on a window's operand, one row panel at a time, into scratch memory that stays in cache.

Each element is computed once, except the few rows that windows of two row panels share.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from nacre.base.records import dataclass
from nacre.codegen.convolution.sequence import ResultPlace, SequenceKernel, ceil_div, product, round_up, total
from nacre.kernel.order_convolution import Taps
from nacre.native.llvm_values import Operand, Val
from nacre.native.text import Function

ROW_PANEL_BYTES = 24 << 10  # of computed rows: they stay in the L1 cache
LEAST_ROWS = 8  # of results in a row panel, so that few rows are computed twice


@dataclass(frozen=True)
class Prologue:
    """How a vector of a window's operand is computed, and the names of the input buffers."""

    compute: Callable[[Function, ResultPlace, int], Val]
    names: tuple[str, ...]


class ResultStrips:
    """The row panels of results, and for each the rows that its windows read.

    `rows` are the taps of each row of results in planes of `shape`; the scratch memory begins `at` bytes from the
    kernel's.
    """

    def __init__(
        self, k: SequenceKernel, rows: Sequence[Taps], shape: tuple[int, int], prologue: Prologue, at: int
    ) -> None:
        self.k, self.rows, self.shape, self.prologue = k, rows, shape, prologue
        self.operands = tuple(k.pointers[name] for name in prologue.names)
        self.at = round_up(at, 64)
        self.height = max(1, len(rows))
        while self.height > LEAST_ROWS and self._room() > ROW_PANEL_BYTES:
            self.height = max(LEAST_ROWS, self.height // 2)
        self.end = self.at + self._room()

    def _spans(self) -> list[tuple[int, int]]:
        """The rows that each row panel reads: the first, and the one behind the last."""
        found: list[tuple[int, int]] = []
        for start in range(0, len(self.rows), self.height):
            read = [i for taps in self.rows[start : start + self.height] for _, i in taps]
            found.append((min(read), max(read) + 1) if read else (0, 0))
        return found

    def _room(self) -> int:
        """Bytes of the largest row panel, with room for whole vectors."""
        most = max((end - first for first, end in self._spans()), default=0)
        return (round_up(most * self.shape[1], self.k.lanes) + self.k.lanes) * self.k.element

    def write(self, plane: Val, channel: Operand, body: Callable[[Val, tuple[Operand, Operand]], None]) -> None:
        """For each row panel, compute its operand; the body gets the plane's address and the row panel's rows."""
        k, f, height, width = self.k, self.k.f, *self.shape
        table = k.table(f"band_rows_{len(k.module.globals)}", [v for span in self._spans() for v in span])
        with f.loop("band", 0, ceil_div(len(self.rows), self.height)) as row_panel:
            entry = f.gep(table, f.mul(row_panel.index, 2), "i64")
            first, last = f.load(entry, "i64"), f.load(f.gep(entry, 1, "i64"), "i64")
            skipped = f.mul(first, width)
            start = total(f, product(f, plane, height * width), skipped)
            room = f.gep(f["scratch"], self.at)
            self._compute(room, f.i64(start), f.i64(channel), f.mul(f.sub(last, first), width))
            begin = f.mul(row_panel.index, self.height)
            rows = begin, f.smin(f.add(begin, self.height), len(self.rows))
            body(f.gep(room, f.sub(f.i64(0), skipped), k.scalar), rows)

    def _compute(self, room: Val, start: Val, channel: Val, count: Val) -> None:
        """Compute the given number of elements from one on, of a channel's plane."""
        k, f = self.k, self.k.f
        whole = f.and_(count, -k.lanes)

        def vector(at: Val, mask: Val | None) -> None:
            """Compute a vector, or the lanes of a mask; other lanes are not read."""
            place = ResultPlace(channel, f.add(start, at), mask, self.operands)
            f.store(self.prologue.compute(f, place, k.lanes), f.gep(room, at, k.scalar))

        with f.loop("near", 0, whole, k.lanes) as at:
            vector(at.index, None)
        with f.when(f.icmp("slt", whole, count)):
            vector(whole, f.lane_mask(f.sub(count, whole), k.lanes))
