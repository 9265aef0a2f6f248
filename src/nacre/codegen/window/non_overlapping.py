"""Windows that do not overlap, and their gradients: each element is read once, and its gradient written once.

No element is in two windows.  So computed operands need no scratch memory, and gradients need no sums: an element's
gradient is its window's plus 0, for a maximum only if the element is the window's first maximum.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import partial, reduce

from nacre.codegen.convolution.depthwise import interleaved, lane_set, masked_load, store_lanes
from nacre.codegen.convolution.sequence import (
    ConvolutionEpilogue,
    ConvolutionStep,
    Count,
    ResultPlace,
    SequenceKernel,
    split,
)
from nacre.codegen.window.prologue import Prologue, ResultStrips
from nacre.kernel.order_window import Window
from nacre.native.llvm_types import scalar_of
from nacre.native.llvm_values import Operand, Val

MOST_ROWS = 4  # of a window


def is_non_overlapping(w: Window) -> bool:
    """Whether this kernel computes a window: one or two columns, few rows, no gaps, padding or dilation."""
    axes = w.rows, w.columns
    return (
        w.columns.kernel <= 2
        and w.rows.kernel <= MOST_ROWS
        and all(a.stride == a.kernel and a.low == a.high == 0 and (a.dilation == 1 or a.kernel == 1) for a in axes)
    )


class NonOverlappingKernel:
    """The common parts of the kernels of one window; a work item is a plane."""

    def __init__(
        self,
        k: SequenceKernel,
        window: Window,
        epilogue: ConvolutionEpilogue | None,
        operands: Sequence[str],
        prologue: Prologue | None,
    ) -> None:
        self.k, self.window, self.epilogue, self.prologue = k, window, epilogue, prologue
        self.operands = tuple(k.pointers[name] for name in operands)
        self.across = window.columns.kernel
        self.channel: Operand = 0

    def _present(self, pixels: int, part: int = 0) -> Val | None:
        """The lanes of the given number of pixels in a vector; None for all."""
        left = min(self.k.lanes, max(0, pixels - part * self.k.lanes))
        return lane_set(self.k.f, self.k.lanes, range(left))

    def _taps(self, parts: list[Val]) -> list[Val]:
        """The taps of a vector of windows, of their pixels in one row or combined from several rows."""
        if self.across == 1:
            return parts
        a, b = parts
        return [self.k.f.shuffle(a, b, range(p, 2 * self.k.lanes, 2)) for p in range(2)]

    def _store(self, out: str, value: Val, offset: Val, mask: Val | None) -> None:
        """Send a vector through the epilogue to a buffer."""
        k, f = self.k, self.k.f
        if self.epilogue is not None:
            value = self.epilogue(f, value, ResultPlace(f.i64(self.channel), offset, mask, self.operands))
        store_lanes(f, value, f.gep(k.pointers[out], offset, scalar_of(value.ty)), mask)


class NonOverlappingForward(NonOverlappingKernel, ABC):
    """Writes the kernel of windows' values; buffers x or the prologue's inputs, and y."""

    @abstractmethod
    def _value(self, rows: Sequence[list[Val]]) -> Val:
        """The values of a vector of windows, of their pixels row by row."""

    def write(self) -> ConvolutionStep:
        """Write the kernel."""
        k, w, f = self.k, self.window, self.k.f
        rows, columns = w.rows, w.columns
        self.read = tuple(k.pointers[name] for name in self.prologue.names) if self.prologue is not None else ()
        whole = columns.out - columns.out % k.lanes
        with f.loop("plane", f["lo"], f["hi"]) as plane:
            _, self.channel = split(f, plane.index, w.channels)
            start = f.mul(plane.index, rows.size * columns.size)
            with f.loop("row", 0, rows.out) as row:
                source = f.add(start, f.mul(row.index, rows.kernel * columns.size))
                target = f.mul(f.add(f.mul(plane.index, rows.out), row.index), columns.out)
                with f.loop("at", 0, whole, k.lanes) as at:
                    self._windows(f.add(source, f.mul(at.index, self.across)), f.add(target, at.index), k.lanes)
                if whole < columns.out:
                    self._windows(f.add(source, whole * self.across), f.add(target, whole), columns.out - whole)
        return k.finish(["y"], Count(0, w.channels if rows.out * columns.out else 0))

    def _windows(self, source: Val, target: Val, count: int) -> None:
        """Write `count` windows, which begin at an element of x, to an element of y."""
        k, f, columns = self.k, self.k.f, self.window.columns
        lines = [f.add(source, kh * columns.size) for kh in range(self.window.rows.kernel)]
        rows = [
            [self._pixels(f.add(line, i * k.lanes), self._present(count * self.across, i)) for i in range(self.across)]
            for line in lines
        ]
        self._store("y", self._value(rows), target, self._present(count))

    def _pixels(self, offset: Val, mask: Val | None) -> Val:
        """A vector of x."""
        k, f = self.k, self.k.f
        if self.prologue is None:
            return masked_load(k, f, f.gep(k.pointers["x"], offset, k.scalar), mask)
        return self.prologue.compute(f, ResultPlace(f.i64(self.channel), offset, mask, self.read), k.lanes)


class NonOverlappingMax(NonOverlappingForward):
    """Writes the kernel of maxima."""

    def _value(self, rows: Sequence[list[Val]]) -> Val:
        larger = partial(self.k.f.minmax, "maximum")
        best, *more = self._taps([reduce(larger, column) for column in zip(*rows, strict=True)])
        return reduce(larger, more, best)


class NonOverlappingSum(NonOverlappingForward):
    """Writes the kernel of sums."""

    def _value(self, rows: Sequence[list[Val]]) -> Val:
        return reduce(self.k.f.fadd, (tap for row in rows for tap in self._taps(row)), self.k.f.zero(self.k.vector))


class NonOverlappingGrad(NonOverlappingKernel, ABC):
    """Writes the kernel of gradients; buffers dy or the prologue's inputs, and dx."""

    @abstractmethod
    def _spread(self, g: Val, lines: Sequence[Val], pixels: int) -> list[Val]:
        """The gradients of the taps of a vector of windows, from their own and the starts of their rows of pixels."""

    def write(self) -> ConvolutionStep:
        """Write the kernel."""
        k, w, f = self.k, self.window, self.k.f
        rows, columns = w.rows, w.columns
        read = [((0, row),) for row in range(rows.out)]
        row_panels = None if self.prologue is None else ResultStrips(k, read, (rows.out, columns.out), self.prologue, 0)
        with f.loop("plane", f["lo"], f["hi"]) as plane:
            _, self.channel = split(f, plane.index, w.channels)
            self.start = f.mul(plane.index, rows.size * columns.size)
            if row_panels is None:
                at = f.mul(plane.index, rows.out * columns.out)
                self._rows(f.gep(k.pointers["dy"], at, k.scalar), (0, rows.out))
            else:
                row_panels.write(plane.index, self.channel, self._rows)
            self._rest(rows.out * rows.kernel * columns.size, rows.size * columns.size)
        return k.finish(["dx"], Count(0, w.channels), 0 if row_panels is None else row_panels.end)

    def _rows(self, source: Val, span: tuple[Operand, Operand]) -> None:
        """Write some rows of windows, whose gradients are in the plane that begins at the source."""
        k, f, (rows, columns) = self.k, self.k.f, (self.window.rows, self.window.columns)
        whole = columns.out - columns.out % k.lanes
        with f.loop("row", *span) as row:
            gradients = f.gep(source, f.mul(row.index, columns.out), k.scalar)
            offset = f.add(self.start, f.mul(row.index, rows.kernel * columns.size))
            with f.loop("at", 0, whole, k.lanes) as at:
                self._windows(
                    f.gep(gradients, at.index, k.scalar),
                    f.add(offset, f.mul(at.index, self.across)),
                    k.lanes,
                    k.lanes * self.across,
                )
            left = columns.size - whole * self.across
            if left:
                self._windows(
                    f.gep(gradients, whole, k.scalar), f.add(offset, whole * self.across), columns.out - whole, left
                )

    def _windows(self, gradients: Val, offset: Val, count: int, pixels: int) -> None:
        """Write `count` windows with `pixels` pixels in each row, from an offset in x."""
        k, f, zero = self.k, self.k.f, self.k.f.zero(self.k.vector)
        given = self._present(count)
        g = f.load(gradients, k.vector) if given is None else f.masked_load(gradients, given, k.vector, zero)
        g = f.fadd(zero, g)
        lines = [f.add(offset, kh * self.window.columns.size) for kh in range(self.window.rows.kernel)]
        found = self._spread(g, lines, pixels)
        for kh, line in enumerate(lines):
            parts = found[kh * self.across : (kh + 1) * self.across]
            for i, value in enumerate(parts if self.across == 1 else interleaved(f, parts)):
                if pixels > i * k.lanes:
                    self._store("dx", value, f.add(line, i * k.lanes), self._present(pixels, i))

    def _rest(self, first: int, end: int) -> None:
        """Write the elements below all windows, from one on: their gradients are zero."""
        k, f, zero = self.k, self.k.f, self.k.f.zero(self.k.vector)
        whole = (end - first) // k.lanes * k.lanes
        if whole:
            with f.loop("below", first, first + whole, k.lanes) as at:
                self._store("dx", zero, f.add(self.start, at.index), None)
        if first + whole < end:
            left = lane_set(f, k.lanes, range(end - first - whole))
            self._store("dx", zero, f.add(self.start, first + whole), left)


class NonOverlappingSumGrad(NonOverlappingGrad):
    """Writes the kernel of the gradients of sums."""

    def _spread(self, g: Val, lines: Sequence[Val], pixels: int) -> list[Val]:
        return [g] * (self.across * len(lines))


class NonOverlappingMaxGrad(NonOverlappingGrad):
    """Writes the kernel of the gradients of maxima, which also reads x."""

    def _spread(self, g: Val, lines: Sequence[Val], pixels: int) -> list[Val]:
        f = self.k.f
        taps = [tap for line in lines for tap in self._taps(self._pixels(line, pixels))]
        return [g if mask is None else f.select(mask, g, f.zero(g.ty)) for mask in self._first(taps)]

    def _pixels(self, line: Val, pixels: int) -> list[Val]:
        """The given number of pixels in one row of a vector of windows."""
        k, f = self.k, self.k.f
        return [
            masked_load(k, f, f.gep(k.pointers["x"], f.add(line, i * k.lanes), k.scalar), self._present(pixels, i))
            for i in range(self.across)
        ]

    def _first(self, taps: Sequence[Val]) -> list[Val | None]:
        """For each tap, where it is the first NaN, or the first maximum; None for everywhere."""
        f, best = self.k.f, taps[0]
        better: list[Val | None] = [None]
        for tap in taps[1:]:
            wins = f.and_(f.fcmp("ugt", tap, best), f.fcmp("ord", best, best))
            best = f.select(wins, tap, best)
            better.append(wins)
        everywhere = f.const(f"<{self.k.lanes} x i1>", True)
        found: list[Val | None] = []
        later: Val | None = None
        for wins in reversed(better):
            if later is None:
                found.append(wins)
                later = wins
            else:
                free = f.xor(later, everywhere)
                found.append(free if wins is None else f.and_(wins, free))
                later = later if wins is None else f.or_(later, wins)
        return found[::-1]
