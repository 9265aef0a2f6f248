"""The gradient of a convolution's filters for images of any size, with filters in vector lanes.

A work item owns some weights: those of a panel of filters, one row of the kernel and some channels.  It processes all
images, block of result rows by block, where a block has as many rows as a chain of the canonical order.  That number
depends on the width of the result, which the kernel reads.  Sums stay in scratch memory until the end.
"""

from __future__ import annotations

from collections.abc import Sequence

from nacre.base.cached_property import cached_property
from nacre.base.records import dataclass
from nacre.codegen.convolution.general import (
    BATCH,
    RESULT_HEIGHT,
    RESULT_WIDTH,
    GeneralAxis,
    GeneralStep,
    read_sizes,
    steps,
)
from nacre.codegen.convolution.pack import transpose_matrix
from nacre.codegen.convolution.sequence import (
    SequenceKernel,
    ceil_div,
    panel_vectors,
    product,
    split,
    store_sums,
    total,
)
from nacre.kernel.order_convolution import CHAIN_LENGTH
from nacre.native.isa import Isa
from nacre.native.llvm_values import Operand, Val
from nacre.native.text import Function

CHANNEL_TILES = 8  # tiles of channels in a work item


@dataclass(frozen=True)
class GeneralWeights:
    """The filters of a convolution of images of any size; channels and filters are those of one group."""

    groups: int
    channels: int
    filters: int
    rows: GeneralAxis
    columns: GeneralAxis


@dataclass(frozen=True)
class WeightTiles:
    """The division of the filters into panels, parts and register tiles."""

    about: GeneralWeights
    lanes: int
    registers: int

    @cached_property
    def vectors(self) -> int:
        """The vectors of a panel."""
        return panel_vectors(self.about.filters, self.lanes)

    @property
    def width(self) -> int:
        """The filters of a panel."""
        return self.vectors * self.lanes

    @property
    def panels(self) -> int:
        """The panels of a group."""
        return ceil_div(self.about.filters, self.width)

    @property
    def most(self) -> int:
        """The weights of a filter in a register tile."""
        return (self.registers - 1 - self.vectors) // self.vectors

    @property
    def columns(self) -> int:
        """The columns of the kernel in a register tile."""
        return min(self.about.columns.kernel, self.most)

    @property
    def channels(self) -> int:
        """The channels of a register tile."""
        return max(1, min(self.about.channels, self.most // self.columns))

    @property
    def part(self) -> int:
        """The channels of a work item."""
        return self.channels * CHANNEL_TILES

    @property
    def parts(self) -> int:
        """The parts into which channels are divided."""
        return ceil_div(self.about.channels, self.part)


class GeneralWeightKernel:
    """Writes the kernel; buffers x, dy, dw."""

    def __init__(self, isa: Isa, scalar: str, about: GeneralWeights) -> None:
        self.about = about
        self.k = k = SequenceKernel(isa, scalar, "conv_dw", ("x", "dy", "dw"))
        self.tiles = WeightTiles(about, k.lanes, isa.registers)
        self.height, self.width, self.result_rows, self.result_columns = read_sizes(k)
        self.plane, self.result = k.f.mul(self.height, self.width), k.f.mul(self.result_rows, self.result_columns)
        self.sums_size = self.tiles.part * about.columns.kernel * self.tiles.width
        self.sums = k.f["scratch"]
        self.pixels = k.f.gep(self.sums, self.sums_size, k.scalar)

    def write(self) -> GeneralStep:
        """Write the whole kernel."""
        k, about, tiles, f = self.k, self.about, self.tiles, self.k.f
        for first in range(0, about.columns.kernel, tiles.columns):
            for channels in self._channel_counts():
                self._micro_kernel(first, channels)
        span = f.smax(f.binary("udiv", f.i64(CHAIN_LENGTH), f.smax(self.result_columns, 1)), 1)
        with f.loop("item", f["lo"], f["hi"]) as item:
            rest, kh = split(f, item.index, about.rows.kernel)
            rest, part = split(f, rest, tiles.parts)
            group, panel = split(f, rest, tiles.panels)
            self.group, self.kh = group, f.i64(kh)
            self.lane = product(f, panel, tiles.width)
            self.lane_count = f.smin(f.sub(f.i64(about.filters), self.lane), tiles.width)
            self.first = product(f, part, tiles.part)
            self.end = f.smin(total(f, self.first, tiles.part), about.channels)
            with f.loop("clear", 0, self.sums_size, k.lanes) as at:
                f.store(f.zero(k.vector), f.gep(self.sums, at.index, k.scalar))
            with f.loop("image", 0, k.batch) as image, f.loop("row", 0, self.result_rows, span) as row:
                begin = f.icmp("eq", f.or_(image.index, row.index), 0)
                self._block(image.index, row.index, f.smin(f.add(row.index, span), self.result_rows), begin)
            self._write_out()
        f.ret()
        items = about.groups * tiles.panels * tiles.parts * about.rows.kernel
        pixels = BATCH * RESULT_HEIGHT * RESULT_WIDTH
        cost = min(about.channels, tiles.part) * about.columns.kernel * tiles.vectors
        room = (self.sums_size + (RESULT_WIDTH + (CHAIN_LENGTH + k.lanes)) * tiles.width) * k.element + 64
        return GeneralStep(k.name, k.module.text(), k.buffers, items, pixels * cost, room)

    def _channel_counts(self) -> list[int]:
        tail = self.about.channels % self.tiles.channels
        return [self.tiles.channels] + ([tail] if tail else [])

    # ---- one block of rows

    def _block(self, image: Val, start: Val, end: Val, begin: Val) -> None:
        """Add the chains of a block of result rows of an image to the sums."""
        k, about, tiles, f, rows = self.k, self.about, self.tiles, self.k.f, self.about.rows
        moved = f.sub(f.i64(rows.low), f.mul(self.kh, rows.dilation))
        low = f.smax(steps(f, moved, rows.stride), start)
        high = f.smin(steps(f, f.add(moved, self.height), rows.stride), end)
        count = f.smax(f.sub(high, low), 0)
        filters = about.groups * about.filters
        filter = total(f, f.mul(image, filters), product(f, self.group, about.filters), self.lane)
        source = f.add(f.mul(f.i64(filter), self.result), f.mul(low, self.result_columns))
        transpose_matrix(
            k,
            f,
            f.gep(k.pointers["dy"], source, k.scalar),
            self.result,
            self.lane_count,
            f.mul(count, self.result_columns),
            self.pixels,
            tiles.width,
        )
        channel = total(f, f.mul(image, about.groups * about.channels), product(f, self.group, about.channels))
        line = f.sub(f.mul(low, rows.stride), moved)
        x = f.gep(k.pointers["x"], f.add(f.mul(channel, self.plane), f.mul(line, self.width)), k.scalar)
        whole, *tail = self._channel_counts()
        for first in range(0, about.columns.kernel, tiles.columns):
            with f.loop("c", self.first, f.sub(self.end, whole - 1), whole) as c:
                self._call(first, whole, c.index, x, count, begin)
            for channels in tail:
                with f.when(f.icmp("eq", self.end, about.channels)):
                    self._call(first, channels, f.i64(about.channels - channels), x, count, begin)

    def _call(self, first: int, channels: int, c: Val, x: Val, rows: Val, begin: Val) -> None:
        """Call the function of a tile: some channels, and the columns of the kernel from `first` on."""
        k, f = self.k, self.k.f
        at = f.mul(f.sub(c, self.first), self.about.columns.kernel * self.tiles.width)
        f.call(
            f"pixels_{first}_{channels}",
            "void",
            [
                f.gep(x, f.mul(c, self.plane), k.scalar),
                self.pixels,
                f.gep(self.sums, f.add(at, first * self.tiles.width), k.scalar),
                rows,
                begin,
                self.width,
                self.plane,
                self.result_columns,
            ],
        )

    # ---- register tiles

    def _micro_kernel(self, first: int, channels: int) -> None:
        """Write the chains of a tile over the rows of a block."""
        k, axis, tiles = self.k, self.about.columns, self.tiles
        params = {"x": "ptr", "d": "ptr", "sums": "ptr", "rows": "i64", "begin": "i1"}
        params |= dict.fromkeys(("width", "plane", "columns"), "i64")
        f = k.internal(f"pixels_{first}_{channels}", params)
        kws = range(first, min(axis.kernel, first + tiles.columns))
        weights = [(c, kw) for c in range(channels) for kw in kws]
        low, _ = self._span(f, kws[0])
        _, high = self._span(f, kws[-1])
        low = f.smin(low, f["columns"])
        high = f.smax(f.smin(high, f["columns"]), low)
        zeros = [f.zero(k.vector)] * (len(weights) * tiles.vectors)
        with f.loop("row", 0, f["rows"], carry=zeros) as row:
            x = f.gep(f["x"], f.mul(row.index, f.mul(f["width"], axis.stride)), k.scalar)
            d = f.gep(f["d"], f.mul(row.index, f.mul(f["columns"], tiles.width)), k.scalar)
            current = list(row.carried)
            for start, end, masked in ((f.i64(0), low, True), (low, high, False), (high, f["columns"], True)):
                with f.loop("column", start, end, carry=current) as column:
                    column.next(*self._products(f, weights, x, d, column.index, column.carried, masked))
                current = column.results
            row.next(*current)
        places = [
            f.gep(f["sums"], (c * axis.kernel + kw - first) * tiles.width + v * k.lanes, k.scalar)
            for c, kw in weights
            for v in range(tiles.vectors)
        ]
        store_sums(f, row.results, places, f["begin"])
        f.ret()

    def _span(self, f: Function, kw: int) -> tuple[Val, Val]:
        """The result columns for which a column of the kernel is inside the image: the first one, the end."""
        axis = self.about.columns
        moved = axis.low - kw * axis.dilation
        return steps(f, f.i64(moved), axis.stride), steps(f, f.add(f["width"], moved), axis.stride)

    def _products(
        self,
        f: Function,
        weights: Sequence[tuple[int, int]],
        x: Val,
        d: Val,
        column: Val,
        sums: Sequence[Val],
        masked: bool,
    ) -> list[Val]:
        """Extend the chains by one pixel; `masked` leaves those out whose place is not inside the image."""
        k, axis, tiles = self.k, self.about.columns, self.tiles
        pixel = f.gep(d, f.mul(column, tiles.width), k.scalar)
        lanes = [f.load(f.gep(pixel, v * k.lanes, k.scalar), k.vector) for v in range(tiles.vectors)]
        start = f.mul(column, axis.stride)
        channels = {c: f.gep(x, f.mul(f["plane"], c), k.scalar) for c, _ in weights}
        result: list[Val] = []
        for c, kw in weights:
            at: Operand = f.add(start, kw * axis.dilation - axis.low)
            inside = f.icmp("ult", at, f["width"]) if masked else None
            if inside is not None:
                at = f.select(inside, f.i64(at), f.i64(0))
            spread = f.splat(f.load(f.gep(channels[c], at, k.scalar), k.scalar), k.lanes)
            for value in lanes:
                before = sums[len(result)]
                after = f.fma(value, spread, before)
                result.append(after if inside is None else f.select(inside, after, before))
        return result

    # ---- output

    def _write_out(self) -> None:
        """Write the sums of an item to dw [O,C/groups,kh,kw]."""
        k, about, f, width = self.k, self.about, self.k.f, self.tiles.width
        kernel, taps = about.columns.kernel, about.rows.kernel * about.columns.kernel
        filter = total(f, product(f, self.group, about.filters), self.lane)
        with f.loop("lane", 0, self.lane_count) as lane:
            row = f.mul(f.add(lane.index, filter), about.channels * taps)
            first = total(f, product(f, self.first, taps), product(f, self.kh, kernel))
            target = f.gep(k.pointers["dw"], f.add(row, first), k.scalar)
            source = f.gep(self.sums, lane.index, k.scalar)
            count = f.sub(f.i64(self.end), self.first)
            with f.loop("c", 0, count) as c, f.loop("kw", 0, kernel) as kw:
                at = f.add(f.mul(c.index, kernel), kw.index)
                value = f.load(f.gep(source, f.mul(at, width), k.scalar), k.scalar)
                f.store(value, f.gep(target, f.add(f.mul(c.index, taps), kw.index), k.scalar))
