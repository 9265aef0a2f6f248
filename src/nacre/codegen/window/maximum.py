"""Maxima of sliding windows: along columns first, a vector of pixels at a time, then along the line of maxima.

A maximum needs no order, so a window of kh · kw taps reads only kh + kw of them.  The line has -inf on both sides, for
taps outside the image, so no lane needs a mask.  With blocks of channels, a line has a whole block's elements for each
pixel.
"""

from __future__ import annotations

from collections.abc import Sequence

from nacre.codegen.convolution.depthwise import spread_pointers, store_lanes
from nacre.codegen.convolution.direct import row_table
from nacre.codegen.convolution.sequence import (
    ConvolutionEpilogue,
    ConvolutionStep,
    Count,
    ResultPlace,
    SequenceKernel,
    product,
    round_up,
    split,
    total,
)
from nacre.codegen.window.prologue import Prologue, ResultStrips
from nacre.kernel.order_window import Window
from nacre.native.llvm_types import scalar_of
from nacre.native.llvm_values import Operand, Val
from nacre.native.text import Function

TOGETHER = 4  # vectors whose maxima are independent of each other


class MaxKernel:
    """Writes the kernel of one window; a work item is a plane, or a block of planes.

    Buffers x or the prologue's inputs, y, and the operands of the epilogue.  `block` is the number of adjacent channels
    of each pixel: one, or those of a block, which has no elements before or behind it.
    """

    def __init__(
        self,
        k: SequenceKernel,
        window: Window,
        epilogue: ConvolutionEpilogue | None = None,
        operands: Sequence[str] = (),
        prologue: Prologue | None = None,
        block: int = 1,
    ) -> None:
        self.k, self.window, self.epilogue, self.prologue, self.block = k, window, epilogue, prologue, block
        self.operands = tuple(k.pointers[name] for name in operands)
        columns = window.columns
        self.low, self.size, self.out = (n * block for n in (columns.low, columns.size, columns.out))
        span = (columns.kernel - 1) * columns.dilation * block
        reached = columns.stride * round_up(self.out, k.lanes) + span
        self.pitch = max(reached, self.low + round_up(self.size, k.lanes)) + k.lanes

    def write(self) -> ConvolutionStep:
        """Write the kernel."""
        k, w, f = self.k, self.window, self.k.f
        rows, columns = w.rows, w.columns
        taps = [rows.taps(i) for i in range(rows.out)]
        self.first = int(bool(taps) and all(taps))  # taps that every row has
        self.table = row_table(k, taps)
        size = round_up(self.pitch, k.lanes) * k.element
        row_panels = (
            None if self.prologue is None else ResultStrips(k, taps, (rows.size, columns.size), self.prologue, size)
        )
        with f.loop("clear", 0, round_up(self.pitch, k.lanes), k.lanes) as at:
            f.store(self._nothing(), f.gep(f["scratch"], at.index, k.scalar))
        with f.loop("plane", f["lo"], f["hi"]) as plane:
            _, self.channel = split(f, plane.index, w.channels)
            self.offset = f.mul(plane.index, rows.out * self.out)
            if row_panels is None:
                at = f.mul(plane.index, rows.size * self.size)
                self._rows(f.gep(k.pointers["x"], at, k.scalar), (0, rows.out))
            else:
                row_panels.write(plane.index, self.channel, self._rows)
        planes = w.channels // self.block if rows.out * self.out else 0
        return k.finish(["y"], Count(0, planes), size if row_panels is None else row_panels.end)

    def _rows(self, source: Val, span: tuple[Operand, Operand]) -> None:
        """Write some rows of results of the plane that begins at the source."""
        k, f = self.k, self.k.f
        with f.loop("row", *span) as row:
            entry = f.gep(self.table, f.mul(row.index, 3), "i64")
            count, start = (f.load(f.gep(entry, i, "i64"), "i64") for i in (1, 2))
            self._down(f.gep(source, f.mul(start, self.size), k.scalar), count)
            self._across(f.add(self.offset, f.mul(row.index, self.out)))

    def _nothing(self) -> Val:
        return self.k.f.const(self.k.vector, float("-inf"))

    # ---- along columns

    def _down(self, source: Val, count: Val) -> None:
        """Write the line of maxima of `count` rows, the first of which is at the source."""
        k, f, size = self.k, self.k.f, self.size
        group = TOGETHER * k.lanes
        whole = size - size % group
        with f.loop("group", 0, whole, group) as at:
            self._group(source, count, at.index, group)
        if size > whole:
            self._group(source, count, whole, size - whole)

    def _group(self, source: Val, count: Val, start: Operand, pixels: int) -> None:
        """Write a few pixels of the line."""
        k, f, rows = self.k, self.k.f, self.window.rows
        places = range(0, pixels, k.lanes)
        begin = f.gep(source, start, k.scalar)
        found = [self._pixels(begin, at, pixels) if self.first else self._nothing() for at in places]
        with f.loop("kh", self.first, count, carry=found) as kh:
            step = rows.dilation * self.size
            here = f.gep(begin, product(f, kh.index, step), k.scalar)
            if self.block > 1:  # lines are longer than pages, so the hardware does not prefetch the next one
                self._prefetch(here, places)
            kh.next(
                *[
                    f.minmax("maximum", old, self._pixels(here, at, pixels))
                    for old, at in zip(kh.carried, places, strict=True)
                ]
            )
        to = f.gep(f.gep(f["scratch"], self.low, k.scalar), start, k.scalar)
        for at, value in zip(places, kh.results, strict=True):
            f.store(value, f.gep(to, at, k.scalar))

    def _prefetch(self, source: Val, places: Sequence[int]) -> None:
        """Prefetch the inputs of the next row of windows for places of this row."""
        k, f = self.k, self.k.f
        next_row = f.gep(source, self.window.rows.stride * self.size, k.scalar)
        for at in places:
            if at * k.element % 64 == 0:
                f.prefetch(f.gep(next_row, at, k.scalar))

    def _pixels(self, source: Val, at: int, pixels: int) -> Val:
        """The vector of the given number of pixels at a place, with -inf behind the last one."""
        k, f = self.k, self.k.f
        place = f.gep(source, at, k.scalar)
        if at + k.lanes <= pixels:
            return f.load(place, k.vector)
        mask = f.vector("i1", [at + lane < pixels for lane in range(k.lanes)])
        return f.masked_load(place, mask, k.vector, self._nothing())

    # ---- along the line

    def _across(self, offset: Val) -> None:
        """Write a row of results from the line, at an element of y."""
        k, f, out = self.k, self.k.f, self.out
        whole = out - out % k.lanes
        with f.loop("out", 0, whole, k.lanes) as at:
            self._store(self._window(at.index), f.add(offset, at.index), None)
        if out > whole:
            mask = f.vector("i1", [whole + lane < out for lane in range(k.lanes)])
            self._store(self._window(whole), f.add(offset, whole), mask)

    def _store(self, value: Val, offset: Val, mask: Val | None) -> None:
        """Send a vector through the epilogue to y."""
        k, f = self.k, self.k.f
        if self.epilogue is not None:
            value = self.epilogue(f, value, ResultPlace(f.i64(self.channel), offset, mask, self.operands))
        store_lanes(f, value, f.gep(k.pointers["y"], offset, scalar_of(value.ty)), mask)

    def _window(self, at: Operand) -> Val:
        """The maxima of a vector of windows."""
        k, f, columns = self.k, self.k.f, self.window.columns
        pixel, within = split(f, at, self.block) if self.block > 1 else (at, 0)
        first = total(f, product(f, pixel, columns.stride * self.block), within)
        line, step = f.gep(f["scratch"], first, k.scalar), columns.dilation * self.block
        taps = [self._tap(f, f.gep(line, kw * step, k.scalar)) for kw in range(columns.kernel)]
        while len(taps) > 1:
            last = taps[-1:] if len(taps) % 2 else []
            taps = [f.minmax("maximum", a, b) for a, b in zip(taps[::2], taps[1::2], strict=False)] + last
        return taps[0]

    def _tap(self, f: Function, pointer: Val) -> Val:
        """One tap of a vector of windows, which are a stride apart in the line."""
        k, stride = self.k, self.window.columns.stride
        if stride == 1 or self.block > 1:
            return f.load(pointer, k.vector)
        if stride == 2:
            a, b = (f.load(f.gep(pointer, part * k.lanes, k.scalar), k.vector) for part in (0, 1))
            return f.shuffle(a, b, range(0, 2 * k.lanes, 2))
        every = f.const(f"<{k.lanes} x i1>", True)
        return f.gather(spread_pointers(k, f, pointer, stride), every, k.vector)
