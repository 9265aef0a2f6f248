"""Maxima of sliding windows: along columns first, a vector of pixels at a time, then along the line of maxima.

A maximum needs no order, so a window of kh · kw taps takes kh + kw of them instead.  Beside the line lies -inf, which
stands for taps outside the image: no lane needs a mask.  Where channels lie in blocks, a line has a whole block's
elements for each pixel.
"""

from __future__ import annotations

from collections.abc import Sequence

from nacre.codegen.convolve_plane import spread_pointers
from nacre.codegen.convolve_steps import Count, Kernel, Step, product, round_up, split, total
from nacre.codegen.convolve_tile import row_table
from nacre.kernel.order_window import Window
from nacre.native.text import Function, Operand, Val

TOGETHER = 4  # vectors whose maxima are independent of each other


class MaxKernel:
    """Writes the kernel of one window; buffers x, y, and a work item is a plane, or a block of planes.

    `block` is the channels that lie together, of each pixel: one, or those of a block.
    """

    def __init__(self, k: Kernel, window: Window, block: int = 1) -> None:
        self.k, self.window, self.block = k, window, block
        columns = window.columns
        self.low, self.size, self.out = (n * block for n in (columns.low, columns.size, columns.out))
        span = (columns.kernel - 1) * columns.dilation * block
        reached = columns.stride * round_up(self.out, k.lanes) + span
        self.pitch = max(reached, self.low + round_up(self.size, k.lanes)) + k.lanes

    def write(self) -> Step:
        """Write the kernel."""
        k, w, f = self.k, self.window, self.k.f
        rows = w.rows
        taps = [rows.taps(i) for i in range(rows.out)]
        self.first = int(bool(taps) and all(taps))  # taps that every row has
        table = row_table(k, taps)
        with f.loop("clear", 0, round_up(self.pitch, k.lanes), k.lanes) as at:
            f.store(self._nothing(), f.gep(f["scratch"], at.index, k.scalar))
        with f.loop("plane", f["lo"], f["hi"]) as plane, f.loop("row", 0, rows.out) as row:
            entry = f.gep(table, f.mul(row.index, 3), "i64")
            count, start = (f.load(f.gep(entry, i, "i64"), "i64") for i in (1, 2))
            line = f.add(f.mul(plane.index, rows.size), start)
            self._down(f.gep(k.pointers["x"], f.mul(line, self.size), k.scalar), count)
            to = f.add(f.mul(plane.index, rows.out), row.index)
            self._across(f.gep(k.pointers["y"], f.mul(to, self.out), k.scalar))
        planes = w.channels // self.block if rows.out * self.out else 0
        return k.finish(["y"], Count(0, planes), round_up(self.pitch, k.lanes) * k.element)

    def _nothing(self) -> Val:
        return self.k.f.const(self.k.vector, float("-inf"))

    def _larger(self, a: Val, b: Val) -> Val:
        return self.k.f.intrinsic("maximum", a.ty, [a, b])

    # ---- along columns

    def _down(self, source: Val, count: Val) -> None:
        """The line of maxima of `count` rows, the first of which is at the source."""
        k, f, size = self.k, self.k.f, self.size
        group = TOGETHER * k.lanes
        whole = size - size % group
        with f.loop("group", 0, whole, group) as at:
            self._group(source, count, at.index, group)
        if size > whole:
            self._group(source, count, whole, size - whole)

    def _group(self, source: Val, count: Val, start: Operand, pixels: int) -> None:
        """A few pixels of the line."""
        k, f, rows = self.k, self.k.f, self.window.rows
        places = range(0, pixels, k.lanes)
        begin = f.gep(source, start, k.scalar)
        found = [self._pixels(begin, at, pixels) if self.first else self._nothing() for at in places]
        with f.loop("kh", self.first, count, carry=found) as kh:
            step = rows.dilation * self.size
            here = f.gep(begin, product(f, kh.index, step), k.scalar)
            if self.block > 1:  # lines are longer than pages, so that nothing else asks for the next ones in time
                self._ask(here, places)
            kh.next(*[self._larger(old, self._pixels(here, at, pixels))
                      for old, at in zip(kh.carried, places, strict=True)])
        to = f.gep(f.gep(f["scratch"], self.low, k.scalar), start, k.scalar)
        for at, value in zip(places, kh.results, strict=True):
            f.store(value, f.gep(to, at, k.scalar))

    def _ask(self, source: Val, places: Sequence[int]) -> None:
        """Prefetch what the next row of windows has where this one has the source."""
        k, f = self.k, self.k.f
        ahead = f.gep(source, self.window.rows.stride * self.size, k.scalar)
        for at in places:
            if at * k.element % 64 == 0:
                f.prefetch(f.gep(ahead, at, k.scalar))

    def _pixels(self, source: Val, at: int, pixels: int) -> Val:
        """The vector at a place of so many pixels, -inf behind the last one."""
        k, f = self.k, self.k.f
        place = f.gep(source, at, k.scalar)
        if at + k.lanes <= pixels:
            return f.load(place, k.vector)
        mask = f.vector("i1", [at + lane < pixels for lane in range(k.lanes)])
        return f.masked_load(place, mask, k.vector, self._nothing())

    # ---- along the line

    def _across(self, target: Val) -> None:
        """A row of results of the line."""
        k, f, out = self.k, self.k.f, self.out
        whole = out - out % k.lanes
        with f.loop("out", 0, whole, k.lanes) as at:
            f.store(self._window(at.index), f.gep(target, at.index, k.scalar))
        if out > whole:
            mask = f.vector("i1", [whole + lane < out for lane in range(k.lanes)])
            f.masked_store(self._window(whole), f.gep(target, whole, k.scalar), mask)

    def _window(self, at: Operand) -> Val:
        """The maxima of a vector of windows."""
        k, f, columns = self.k, self.k.f, self.window.columns
        pixel, within = split(f, at, self.block) if self.block > 1 else (at, 0)
        first = total(f, product(f, pixel, columns.stride * self.block), within)
        line, step = f.gep(f["scratch"], first, k.scalar), columns.dilation * self.block
        taps = [self._tap(f, f.gep(line, kw * step, k.scalar)) for kw in range(columns.kernel)]
        while len(taps) > 1:
            last = taps[-1:] if len(taps) % 2 else []
            taps = [self._larger(a, b) for a, b in zip(taps[::2], taps[1::2], strict=False)] + last
        return taps[0]

    def _tap(self, f: Function, pointer: Val) -> Val:
        """One tap of a vector of windows, which lie a stride apart in the line."""
        k, stride = self.k, self.window.columns.stride
        if stride == 1 or self.block > 1:
            return f.load(pointer, k.vector)
        if stride == 2:
            a, b = (f.load(f.gep(pointer, part * k.lanes, k.scalar), k.vector) for part in (0, 1))
            return f.shuffle(a, b, range(0, 2 * k.lanes, 2))
        every = f.const(f"<{k.lanes} x i1>", True)
        return f.gather(spread_pointers(k, f, pointer, stride), every, k.vector)
