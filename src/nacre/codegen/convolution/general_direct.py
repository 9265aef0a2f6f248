"""Direct convolution of images of any size, with channels in vector lanes: forward, and the gradient of the image.

The sums and the packed weights are those of `direct`; sizes are numbers that the kernel reads.  A work item is a part
of one result row of an image, for one panel of weights.  Pixels with all taps of their row are computed in long tiles.
At the edges of an image a tile has few pixels, and a tap that some of them do not have is masked.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from nacre.base.records import dataclass
from nacre.codegen.convolution.epilogue import PixelWriter, in_pieces
from nacre.codegen.convolution.general import (
    BATCH,
    RESULT_HEIGHT,
    RESULT_WIDTH,
    AxisTaps,
    GeneralStep,
    read_sizes,
)
from nacre.codegen.convolution.pack import PanelLayout, pack_weights, packed_panels
from nacre.codegen.convolution.sequence import (
    ConvolutionStep,
    Fill,
    SequenceKernel,
    panel_vectors,
    product,
    split,
    store_sums,
    total,
)
from nacre.kernel.order_convolution import CHANNEL_BLOCK, restart_blocks
from nacre.native.isa import Isa
from nacre.native.llvm_types import bits_of
from nacre.native.llvm_values import Operand, Val
from nacre.native.text import Function

EDGE = 4  # pixels of a tile with masked taps
TILES = 8  # long tiles in a part of a row
UNROLL = 2


@dataclass(frozen=True)
class GeneralCorrelation:
    """The reduction into each pixel of a result of any size; channels are those of one group."""

    groups: int
    inputs: int
    outputs: int
    rows: AxisTaps
    columns: AxisTaps

    @property
    def taps(self) -> int:
        """Taps of the kernel."""
        return self.rows.kernel * self.columns.kernel


@dataclass(frozen=True)
class GeneralSteps:
    """The kernel of a correlation, the one that packs its weights, their bytes, and the same by NumPy."""

    pack: ConvolutionStep
    kernel: GeneralStep
    panels: int
    fill: Fill
    products: int  # of one element of the result


def correlate(
    isa: Isa, scalar: str, c: GeneralCorrelation, strides: tuple[int, int], buffers: tuple[str, str]
) -> GeneralSteps:
    """Pack the weights and correlate; the strides are those of output and input channels in w."""
    lanes = isa.lanes(scalar)
    depth = max(1, min(CHANNEL_BLOCK, c.inputs))
    layout = PanelLayout(c.groups, c.outputs, c.inputs, c.taps, panel_vectors(c.outputs, lanes) * lanes, depth)
    element = bits_of(scalar) // 8
    pack = pack_weights(SequenceKernel(isa, scalar, "conv_pack", ("w", "panels")), layout, strides)
    kernel = GeneralCorrelationKernel(isa, scalar, c, layout, buffers).write()
    return GeneralSteps(
        pack, kernel, layout.size * element, partial(packed_panels, layout, strides, element), c.inputs * c.taps
    )


class GeneralCorrelationKernel:
    """Writes the kernel of one correlation."""

    def __init__(
        self, isa: Isa, scalar: str, c: GeneralCorrelation, layout: PanelLayout, buffers: tuple[str, str]
    ) -> None:
        self.c, self.layout = c, layout
        source, self.out = buffers
        self.k = k = SequenceKernel(isa, scalar, f"conv_{self.out}", (source, "panels", self.out))
        self.source, self.panels = k.pointers[source], k.pointers["panels"]
        self.height, self.width, self.result_rows, self.result_columns = read_sizes(k)
        self.plane = k.f.mul(self.height, self.width)
        self.vectors = layout.width // k.lanes
        self.pixels = (isa.registers - 2 - self.vectors) // self.vectors
        self.phase_columns = max(self.pixels, TILES * self.pixels // c.columns.phases)
        self.columns = self.phase_columns * c.columns.phases  # of a part of a row
        out = k.pointers[self.out]
        result = k.f.mul(self.result_rows, self.result_columns)
        whole, group = in_pieces(k, c.outputs), k.f.mul(c.outputs, result)
        self.writer = PixelWriter(k, out, (), None, result, group, whole, layout.width, (), False, k.scalar)

    def write(self) -> GeneralStep:
        """Write the whole kernel."""
        k, c, f = self.k, self.c, self.k.f
        row_table, column_table = c.rows.table(k, "row_phases"), c.columns.table(k, "column_phases")
        for pixels in self._sizes():
            self._tile(f"tile_{pixels}", pixels, self._whole_run)
        self._tile("edge", EDGE, self._edge_run)
        parts = f.binary("udiv", f.add(self.result_columns, self.columns - 1), self.columns)
        with f.loop("item", f["lo"], f["hi"]) as item:
            rest, part = f.binary("udiv", item.index, parts), f.binary("urem", item.index, parts)
            rest, row = f.binary("udiv", rest, self.result_rows), f.binary("urem", rest, self.result_rows)
            index, image = f.binary("udiv", rest, k.batch), f.binary("urem", rest, k.batch)
            group, panel = split(f, index, self.layout.panels)
            planes = total(f, product(f, image, c.groups), group)
            position, phase = c.rows.split(f, row)
            first, count, place = c.rows.entry(k, row_table, phase)
            base = f.i64(total(f, product(f, position, c.rows.reach), place))
            low, high = c.rows.present(f, base, count, self.height)
            line = f.add(base, f.mul(low, c.rows.source_step))
            tap = total(f, product(f, low, c.rows.tap_step), first)
            self.line = f.gep(
                self.source, f.add(f.mul(f.mul(planes, c.inputs), self.plane), f.mul(line, self.width)), k.scalar
            )
            weights = total(
                f,
                product(f, index, self.layout.panel_size),
                product(f, tap, c.columns.kernel * self.layout.width),
            )
            self.weights, self.rows = f.gep(self.panels, weights, k.scalar), f.sub(high, low)
            self._row(column_table, part)
            self._write_row(planes, group, panel, row, part)
        f.ret()
        items = c.groups * self.layout.panels * BATCH * RESULT_HEIGHT
        scratch = (self.columns + max(EDGE * c.columns.phases, k.lanes)) * self.layout.width * k.element + 64
        cost = c.inputs * c.taps * (self.layout.width // k.lanes) * self._typical // max(1, c.columns.phases)
        return GeneralStep(
            k.name,
            k.module.text(),
            k.buffers,
            items * ((RESULT_WIDTH + (self.columns - 1)) // self.columns),
            max(1, cost),
            scratch,
        )

    @property
    def _typical(self) -> int:
        """Pixels of a row in a typical image."""
        return min(32, self.columns)

    def _sizes(self) -> tuple[int, ...]:
        """The pixels of long tiles, from many to few."""
        return tuple(dict.fromkeys((self.pixels, max(EDGE, self.pixels // 2))))

    # ---- one part of a row

    def _row(self, table: Val | None, part: Val) -> None:
        """Compute all pixels of a part of a row."""
        k, c, f = self.k, self.c, self.k.f
        start = f.mul(part, self.phase_columns)
        with f.loop("phase", 0, c.columns.phases) as phase:
            first, count, place = c.columns.entry(k, table, phase.index)
            in_phase = f.sub(f.add(self.result_columns, c.columns.phases - 1), phase.index)
            if c.columns.phases > 1:
                in_phase = f.binary("udiv", in_phase, c.columns.phases)
            end = f.smin(f.add(start, self.phase_columns), in_phase)
            low, high = c.columns.inner(f, f.i64(place), count, self.width)
            low = f.smin(f.smax(low, start), end)
            high = f.smax(f.smin(high, end), low)
            self.first, self.count, self.place, self.phase, self.start = first, f.i64(count), place, phase.index, start
            edge = f.add(start, f.and_(f.add(f.sub(low, start), EDGE - 1), -EDGE))
            done = f.smin(edge, end)
            self._tiles("edge", EDGE, start, done)
            for pixels in self._sizes():
                here = f.select(f.icmp("sge", f.sub(high, done), pixels), high, done)
                self._tiles(f"tile_{pixels}", pixels, done, here, f.sub(here, pixels))
                done = here
            self._tiles("edge", EDGE, done, end)

    def _tiles(self, name: str, pixels: int, start: Val, end: Val, last: Val | None = None) -> None:
        """Call a tile's function for the positions start … end of a phase; the last tile is at most at `last`."""
        k, c, f = self.k, self.c, self.k.f
        with f.loop("position", start, end, pixels) as tile:
            position = tile.index if last is None else f.smin(tile.index, last)
            column = total(f, product(f, position, c.columns.reach), self.place)
            target = f.add(f.mul(f.sub(position, self.start), c.columns.phases), self.phase)
            arguments = [
                self.line,
                f.gep(self.weights, product(f, self.first, self.layout.width), k.scalar),
                f.gep(f["scratch"], f.mul(target, self.layout.width), k.scalar),
                self.rows,
                self.count,
                f.i64(column),
                self.width,
                self.plane,
            ]
            f.call(name, "void", arguments)

    def _write_row(self, planes: Operand, group: Operand, panel: Operand, row: Val, part: Val) -> None:
        """Write the pixels of a part of a row from scratch to the result."""
        f = self.k.f
        begin = f.mul(part, self.columns)
        lane = product(f, panel, self.layout.width)
        channels = f.smin(f.sub(f.i64(self.c.outputs), lane), self.layout.width)
        count = f.smin(f.sub(self.result_columns, begin), self.columns)
        pixel = f.add(f.mul(row, self.result_columns), begin)
        channel = total(f, product(f, group, self.c.outputs), lane)
        self.writer.write(f["scratch"], count, channels, channel, self.writer.offset(planes, lane, pixel))

    # ---- register tiles

    def _tile(self, name: str, pixels: int, run: Callable[..., list[Val]]) -> None:
        """Write the function of a tile: pixels whose first tap of the row is at a column, and `reach` further each."""
        k, c, layout = self.k, self.c, self.layout
        params = {"line": "ptr", "b": "ptr", "target": "ptr"}
        params |= dict.fromkeys(("rows", "count", "column", "width", "plane"), "i64")
        f = k.internal(name, params)
        span = restart_blocks(layout.taps)
        with f.loop("chain", 0, max(1, layout.blocks), span) as chain:
            zeros = [f.zero(k.vector)] * (pixels * self.vectors)
            end = f.smin(f.add(chain.index, span), layout.blocks)
            with f.loop("block", chain.index, end, carry=zeros) as block:
                first = f.mul(block.index, layout.depth)
                depth: Operand = layout.depth
                if c.inputs % layout.depth:
                    depth = f.smin(f.sub(f.i64(c.inputs), first), layout.depth)
                line = f.gep(f["line"], f.mul(first, f["plane"]), k.scalar)
                b = f.gep(f["b"], f.mul(block.index, layout.block_size), k.scalar)
                with f.loop("kh", 0, f["rows"], carry=block.carried) as kh:
                    step = f.mul(kh.index, c.rows.source_step)
                    here = f.gep(line, f.mul(step, f["width"]), k.scalar)
                    tap = product(f, kh.index, c.rows.tap_step * c.columns.kernel * layout.width)
                    row = f.gep(b, tap, k.scalar)
                    with f.loop("kw", 0, f["count"], carry=kh.carried) as kw:
                        at = f.add(f["column"], f.mul(kw.index, c.columns.source_step))
                        weights = f.gep(row, product(f, kw.index, c.columns.tap_step * layout.width), k.scalar)
                        kw.next(*run(f, here, at, weights, depth, kw.carried))
                    kh.next(*kw.results)
                block.next(*kh.results)
            places = [
                f.gep(
                    f["target"],
                    i // self.vectors * c.columns.phases * layout.width + i % self.vectors * k.lanes,
                    k.scalar,
                )
                for i in range(len(zeros))
            ]
            store_sums(f, block.results, places, f.icmp("eq", chain.index, 0))
        f.ret()

    def _whole_run(
        self, f: Function, line: Val, column: Val, weights: Val, depth: Operand, sums: Sequence[Val]
    ) -> list[Val]:
        """Extend the chains of a long tile by one tap of the channels of a block."""
        k = self.k
        pixels = len(sums) // self.vectors
        places = [product(f, p, self.c.columns.reach) for p in range(pixels)]
        return self._channels(f, f.gep(line, column, k.scalar), places, weights, depth, sums)

    def _edge_run(
        self, f: Function, line: Val, column: Val, weights: Val, depth: Operand, sums: Sequence[Val]
    ) -> list[Val]:
        """Extend the chains of those pixels that have a tap."""
        columns = [f.add(column, p * self.c.columns.reach) for p in range(EDGE)]
        inside = [f.icmp("ult", at, f["width"]) for at in columns]
        places = [f.select(has, at, f.i64(0)) for has, at in zip(inside, columns, strict=True)]
        found = self._channels(f, line, places, weights, depth, sums, inside)
        return found

    def _channels(
        self,
        f: Function,
        source: Val,
        places: Sequence[Operand],
        weights: Val,
        depth: Operand,
        sums: Sequence[Val],
        inside: Sequence[Val] | None = None,
    ) -> list[Val]:
        """Extend chains over the channels of a block, those of absent pixels by nothing."""
        k, layout = self.k, self.layout
        channel = layout.taps * layout.width
        unroll = UNROLL if isinstance(depth, int) and depth % UNROLL == 0 else 1
        with f.loop("c", 0, depth, unroll, carry=sums) as ch:
            a = f.gep(source, f.mul(ch.index, f["plane"]), k.scalar)
            b = f.gep(weights, f.mul(ch.index, channel), k.scalar)
            current = list(ch.carried)
            for u in range(unroll):
                au = f.gep(a, f["plane"], k.scalar) if u else a
                bu = f.gep(b, u * channel, k.scalar)
                lanes = [f.load(f.gep(bu, v * k.lanes, k.scalar), k.vector) for v in range(self.vectors)]
                for p, place in enumerate(places):
                    spread = f.splat(f.load(f.gep(au, place, k.scalar), k.scalar), k.lanes)
                    for v, weight in enumerate(lanes):
                        i = p * self.vectors + v
                        value = f.fma(spread, weight, current[i])
                        current[i] = value if inside is None else f.select(inside[p], value, current[i])
            ch.next(*current)
        return ch.results
