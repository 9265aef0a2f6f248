"""Convolution to few channels, with pixels in vector lanes; the weights have w's layout.

A work item is an output row of one image and group.  A register tile is a vector of pixels times
all output channels of the group, so that they share each load of pixels.
"""

from __future__ import annotations

from collections.abc import Sequence

from nacre.codegen.convolution.correlation import Correlation, Tile, tile_runs
from nacre.codegen.convolution.depthwise import (
    lane_set,
    line_pitch,
    load_pixels,
    pixel_tiles,
    store_lanes,
    write_line,
)
from nacre.codegen.convolution.direct import row_table
from nacre.codegen.convolution.sequence import (
    ConvolutionEpilogue,
    ConvolutionStep,
    Count,
    ResultPlace,
    SequenceKernel,
    ceil_div,
    product,
    split,
    total,
)
from nacre.kernel.order_convolution import CHANNEL_BLOCK, restart_blocks
from nacre.native.llvm_types import scalar_of
from nacre.native.llvm_values import Operand, Val

MOST_OUTPUTS = 4
ROW_WORK = 1 << 16  # multiplications that pay for a work item


def is_narrow(c: Correlation, lanes: int) -> bool:
    """Whether pixels fill vectors much better than output channels."""
    vectors = len(pixel_tiles(c, lanes))
    return c.outputs <= MOST_OUTPUTS and len(c.columns) > 2 * c.outputs * vectors


class NarrowKernel:
    """Writes the kernel; `strides` are those of the output and the input channels in w."""

    def __init__(
        self,
        k: SequenceKernel,
        c: Correlation,
        strides: tuple[int, int],
        source: str,
        out: str,
        epilogue: ConvolutionEpilogue | None,
        operands: Sequence[str],
    ) -> None:
        self.k, self.c, self.strides, self.epilogue = k, c, strides, epilogue
        self.source, self.out = k.pointers[source], k.pointers[out]
        self.written = out
        self.operands = tuple(k.pointers[name] for name in operands)
        self.pitch = line_pitch(c, k.lanes)
        self.lines = self.pitch * c.phase  # elements of one channel's lines
        self.plane = c.in_shape[0] * c.in_shape[1]

    def write(self) -> ConvolutionStep:
        """Write the kernel."""
        k, c, f = self.k, self.c, self.k.f
        height, width = c.out_shape
        table = row_table(k, c.rows)
        tiles = tile_runs(pixel_tiles(c, k.lanes), c)
        with f.loop("item", f["lo"], f["hi"]) as item:
            planes, row = split(f, item.index, height)
            _, self.group = split(f, planes, c.groups)
            entry = f.gep(table, product(f, row, 3), "i64")
            self.first, self.count, line = (f.load(f.gep(entry, i, "i64"), "i64") for i in range(3))
            at = total(f, product(f, planes, c.inputs * self.plane), f.mul(line, c.in_shape[1]))
            self.pixels = f.gep(self.source, at, k.scalar)
            weights = product(f, self.group, c.outputs * c.inputs * c.kernel[0] * c.kernel[1])
            self.weights = f.gep(k.pointers["w"], weights, k.scalar)
            self.offset = total(f, product(f, planes, c.outputs * height * width), product(f, row, width))
            for tile, times in tiles:
                with f.loop("tile", 0, times) as t:
                    self._tile(tile, t.index)
            if c.phase > 1:
                self._write_lines()
        work = width * c.outputs * c.inputs * c.kernel[0] * c.kernel[1]
        scratch = self.lines * c.outputs * k.element if c.phase > 1 else 0
        return k.finish(
            [self.written], Count(0, height * c.groups if width else 0), scratch, grain=max(1, ROW_WORK // max(1, work))
        )

    def _tile(self, tile: Tile, index: Val) -> None:
        """Write all output channels of one tile, or of the index-th of a run of equal tiles."""
        k, c, f = self.k, self.c, self.k.f
        base = total(f, product(f, index, tile.pixels * c.reach), tile.base)
        sums = self._chains(tile, f.gep(self.pixels, base, k.scalar))
        mask = lane_set(f, k.lanes, range(tile.pixels))
        for q, value in enumerate(sums):
            if c.phase == 1:
                column = total(f, product(f, index, tile.pixels), tile.column)
                self._store(q, value, f.i64(column), mask)
            else:
                place = total(
                    f,
                    product(f, index, tile.pixels),
                    tile.column // c.phase,
                    tile.column % c.phase * self.pitch,
                    q * self.lines,
                )
                f.store(value, f.gep(f["scratch"], place, k.scalar))

    def _chains(self, tile: Tile, pixels: Val) -> list[Val]:
        """The sums of all chains of a tile, in order."""
        k, c, f = self.k, self.c, self.k.f
        zeros = [f.zero(k.vector)] * c.outputs
        blocks = ceil_div(c.inputs, CHANNEL_BLOCK)
        span = restart_blocks(c.kernel[0] * c.kernel[1])
        with f.loop("chain", 0, blocks, span, carry=zeros) as chain:
            end = f.smin(f.add(chain.index, span), blocks)
            with f.loop("block", chain.index, end, carry=zeros) as block:
                block.next(*self._block(tile, pixels, block.index, block.carried))
            first = f.icmp("eq", chain.index, 0)
            chain.next(
                *[f.select(first, new, f.fadd(old, new)) for old, new in zip(chain.carried, block.results, strict=True)]
            )
        return chain.results

    def _block(self, tile: Tile, pixels: Val, block: Val, sums: list[Val]) -> list[Val]:
        """Extend the chains by one block of channels."""
        k, c, f = self.k, self.c, self.k.f
        kh_step, row_step = c.row_step
        start = f.mul(block, CHANNEL_BLOCK)
        depth = f.smin(f.sub(f.i64(c.inputs), start), CHANNEL_BLOCK)
        a = f.gep(pixels, f.mul(start, self.plane), k.scalar)
        b = f.gep(self.weights, f.mul(start, self.strides[1]), k.scalar)
        with f.loop("kh", 0, self.count, carry=sums) as kh:
            line = f.gep(a, product(f, kh.index, row_step * c.in_shape[1]), k.scalar)
            tap = f.mul(total(f, self.first, product(f, kh.index, kh_step)), c.kernel[1])
            taps = f.gep(b, tap, k.scalar)
            current: list[Val] = list(kh.carried)
            for kw, column, present in tile.taps:
                at, weight = f.gep(line, column, k.scalar), f.gep(taps, kw, k.scalar)
                with f.loop("c", 0, depth, carry=current) as ch:
                    ch.next(*self._products(tile, at, weight, present, ch.index, ch.carried))
                current = ch.results
            kh.next(*current)
        return kh.results

    def _products(
        self, tile: Tile, at: Val, weight: Val, present: Sequence[int], channel: Val, sums: Sequence[Val]
    ) -> list[Val]:
        """One channel of one tap: a vector of pixels times all output channels."""
        k, c, f = self.k, self.c, self.k.f
        source = f.gep(at, f.mul(channel, self.plane), k.scalar)
        pixels = load_pixels(k, f, source, present, c.reach)
        mask = lane_set(f, k.lanes, present) if len(present) < tile.pixels else None
        weights = f.gep(weight, f.mul(channel, self.strides[1]), k.scalar)
        result: list[Val] = []
        for q, old in enumerate(sums):
            value = f.load(f.gep(weights, q * self.strides[0], k.scalar), k.scalar)
            new = f.fma(pixels, f.splat(value, k.lanes), old)
            result.append(new if mask is None else f.select(mask, new, old))
        return result

    def _store(self, q: int, value: Val, column: Operand, mask: Val | None) -> None:
        """Send a vector of channel q through the epilogue to the output row."""
        c, f = self.c, self.k.f
        height, width = c.out_shape
        at = f.i64(total(f, self.offset, q * height * width, column))
        if self.epilogue is not None:
            channel = total(f, product(f, self.group, c.outputs), q)
            value = self.epilogue(f, value, ResultPlace(f.i64(channel), at, mask, self.operands))
        store_lanes(f, value, f.gep(self.out, at, scalar_of(value.ty)), mask)

    def _write_lines(self) -> None:
        """Interleave the lines of the phases into the output rows."""
        k, f = self.k, self.k.f
        for q in range(self.c.outputs):

            def store(value: Val, at: Val, mask: Val, q: int = q) -> None:
                """Store the masked lanes of line q."""
                self._store(q, value, at, mask)

            lines = f.gep(f["scratch"], q * self.lines, k.scalar)
            write_line(k, lines, self.pitch, self.c, store)
