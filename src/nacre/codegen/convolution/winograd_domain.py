"""The parts of Winograd's convolution: pixels and filters as values at 36 points, their products, and the results.

Channels are in vector lanes, and are processed in chunks.  Values at the points of image tiles are stored as
[chunk][point][tile][channel], those of filters as panels [chunk][point][channel][lane].  The sums of the products are
[point][tile][lane].
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext

from nacre.base.records import dataclass
from nacre.codegen.convolution.epilogue import PixelWriter
from nacre.codegen.convolution.pack import (
    Packing,
    pack_channels,
    prefetch_line,
    prefetch_weights,
    transpose_matrix,
    weights_of,
)
from nacre.codegen.convolution.sequence import (
    PLANES,
    Blocked,
    ConvolutionStep,
    Count,
    SequenceKernel,
    ceil_div,
    in_block,
    product,
    round_up,
    split,
    store_sums,
    total,
)
from nacre.codegen.convolution.winograd_filters import KINDS, FilterRow, Vectors, rows_by_kind
from nacre.codegen.convolution.winograd_plan import POINTS, WinogradPlan
from nacre.kernel.order_convolution import CHANNEL_BLOCK
from nacre.kernel.order_winograd import (
    CHAIN,
    PATCH,
    RESULT_SCALE,
    TILE,
    both_ways,
    of_input,
    of_product,
)
from nacre.native.llvm_values import Operand, Val
from nacre.native.text import Function


@dataclass(frozen=True)
class Chain:
    """Chains of products over some channels: the sums that they continue, and where theirs are stored or added."""

    k: SequenceKernel
    fresh: Val
    before: Val
    sums: Val
    first: Val

    def at(self, place: Val) -> tuple[Val, Val, Val]:
        """For the chains at a place among the sums: the sums before, the sums, and whether these are the first."""
        f = self.k.f
        before = f.select(self.fresh, self.before, f.gep(self.before, place, self.k.scalar))
        return before, f.gep(self.sums, place, self.k.scalar), self.first


class WinogradKernel:
    """A kernel being written, and the parts that kernels share."""

    def __init__(self, k: SequenceKernel, plan: WinogradPlan, blocked: Blocked = PLANES) -> None:
        self.k, self.plan, self.blocked = k, plan, blocked
        self.size = 0
        self.interleaved_points: dict[int, int] = {}  # points at a time of each register tile

    def scratch(self, elements: int) -> Val:
        """Allocate some of the scratch memory."""
        place = self.k.f.gep(self.k.f["scratch"], self.size, self.k.scalar)
        self.size = round_up(self.size + elements, 64 // self.k.element)
        return place

    def finish(self, writes: str, items: Count, grain: int = 1) -> ConvolutionStep:
        """The kernel as a step."""
        return self.k.finish([writes], items, self.size * self.k.element + 64, grain)

    # ---- pixels

    def write_pixels(self) -> None:
        """Write @pixels(source, to, step): one vector of a tile's 36 pixels as values at the points."""
        k, plan = self.k, self.plan
        f = k.internal("pixels", {"source": "ptr", "to": "ptr", "step": "i64"})
        grid = [
            [f.load(f.gep(f["source"], (i * plan.line + j) * k.lanes, k.scalar), k.vector) for j in range(PATCH)]
            for i in range(PATCH)
        ]
        store_domain(k, f, both_ways(Vectors(f, k.vector), of_input, grid), f["to"], f["step"])
        f.ret()

    def row_panel_pixels(
        self, image: Val, lines: Val, row_panel: Operand, channels: tuple[Operand, Operand], to: Val, step: Operand
    ) -> None:
        """Transform a row panel of tiles of channels start … end of an image [C,H,W], from its first tile at `to` on.

        `step` is from one point to the next.
        """
        k, f, plan = self.k, self.k.f, self.plan
        (height, width), (down, across) = plan.sides.in_shape, plan.sides.tiles
        start = product(f, row_panel, plan.row_panel)
        rows = f.smin(f.sub(f.i64(down), start), plan.row_panel)
        top = total(f, product(f, start, TILE), -plan.sides.low[0])
        with f.loop("part", *channels, k.lanes) as part:
            source = f.gep(image, self._channel(part.index, height * width), k.scalar)
            count = f.smin(f.sub(f.i64(channels[1]), part.index), k.lanes)
            with f.loop("line", 0, f.add(f.mul(rows, TILE), 2)) as line:
                row = f.gep(lines, f.mul(line.index, plan.line * k.lanes), k.scalar)
                self._line(source, f.add(line.index, top), count, row)
            chunk, channel = split(f, part.index, plan.chunk)
            here = f.gep(to, total(f, product(f, chunk, product(f, step, POINTS)), channel), k.scalar)
            with f.loop("down", 0, rows) as y, f.loop("across", 0, across) as x:
                at = f.add(f.mul(y.index, TILE * plan.line), f.mul(x.index, TILE))
                tile = f.add(f.mul(y.index, across), x.index)
                f.call(
                    "pixels",
                    "void",
                    [
                        f.gep(lines, f.mul(at, k.lanes), k.scalar),
                        f.gep(here, f.mul(tile, plan.chunk), k.scalar),
                        f.i64(step),
                    ],
                )

    def _channel(self, channel: Val, plane: int) -> Operand:
        """Where a channel of an image begins."""
        f = self.k.f
        return in_block(f, channel, plane) if self.blocked.source else f.mul(channel, plane)

    def clear(self, lines: Val) -> None:
        """Fill the lines with zeros, which remain at their ends."""
        k, f = self.k, self.k.f
        with f.loop("clear", 0, self.plan.lines, k.lanes) as at:
            f.store(f.zero(k.vector), f.gep(lines, at.index, k.scalar))

    def _line(self, source: Val, row: Val, channels: Val, to: Val) -> None:
        """Copy a row of the image to [pixel][channel], or zeros if it is outside."""
        k, f, plan = self.k, self.k.f, self.plan
        (height, width), low = plan.sides.in_shape, plan.sides.low[1]
        first, begin = max(0, -low), max(0, low)
        count = max(0, min(width - first, plan.line - begin))
        here = f.gep(to, begin * k.lanes, k.scalar)
        inside = f.and_(f.icmp("sge", row, 0), f.icmp("slt", row, height))
        with f.when(inside):
            at = f.add(f.mul(row, width), first)
            if self.blocked.source:
                self._copy(f.gep(source, f.mul(at, CHANNEL_BLOCK), k.scalar), count, here)
            else:
                transpose_matrix(
                    k, f, f.gep(source, at, k.scalar), height * width, channels, f.i64(count), here, k.lanes
                )
        with f.when(f.xor(inside, f.const("i1", True))), f.loop("zero", 0, count * k.lanes, k.lanes) as at:
            f.store(f.zero(k.vector), f.gep(here, at.index, k.scalar))

    def _copy(self, source: Val, count: int, to: Val) -> None:
        """Copy a vector of channels of the given number of pixels of a block to [pixel][channel]."""
        k, f = self.k, self.k.f
        with f.loop("pixel", 0, count) as at:
            value = f.load(f.gep(source, f.mul(at.index, CHANNEL_BLOCK), k.scalar), k.vector)
            f.store(value, f.gep(to, f.mul(at.index, k.lanes), k.scalar))

    # ---- filters

    def write_filters(self, points: int) -> None:
        """Write @filters_points_kind_n(source, following, numbers, to, step, count): some channels' filters.

        They are values at n points, all or some of a row, with the kind and the numbers of `FilterRow`.  The source is
        staged: [channel][tap][lane]; `step` is from one point to the next.  A share of the filters staged at
        `following` is prefetched.
        """
        k, plan = self.k, self.plan
        for kind in KINDS:
            for first in range(0, PATCH, points):
                f = k.internal(
                    f"filters_{points}_{kind}_{first}",
                    {"source": "ptr", "following": "ptr", "numbers": "ptr", "to": "ptr", "step": "i64", "count": "i64"},
                )
                row = FilterRow(k, f, plan.width, plan.sides.turned, kind)
                numbers = row.numbers(f["numbers"])
                with f.loop("channel", 0, f["count"]) as c, f.loop("lane", 0, plan.width, k.lanes) as at:
                    place = f.add(f.mul(c.index, 9 * plan.width), at.index)
                    self.prefetch_taps(f, f.gep(f["following"], place, k.scalar), POINTS // points)
                    values = row.values(f.gep(f["source"], place, k.scalar), numbers)
                    scaled = [row.scaled(values, j, numbers) for j in range(first, first + points)]
                    to = f.gep(f["to"], f.add(f.mul(c.index, plan.width), at.index), k.scalar)
                    store_domain(k, f, [scaled], to, f["step"])
                f.ret()

    def stage_filters(self, index: Operand, channels: tuple[Operand, Operand], stage: Val) -> None:
        """Copy filters of channels start … end to [channel][tap][lane]; panels of all groups are numbered together."""
        pack_channels(self.k, Packing.of(self.plan.filters, self.plan.sides.strides), index, channels, stage)

    def staged(self, index: Operand, channel: Operand) -> Operand:
        """The index of a channel's staged filters among those of all groups' panels."""
        f, plan = self.k.f, self.plan
        return f.mul(f.i64(total(f, product(f, index, plan.sides.inputs), channel)), 9 * plan.width)

    def prefetch_filters(self, index: Val, channel: Val, depth: Val, part: Val, parts: int) -> None:
        """Prefetch one of several parts of a range of channels' filters in w, of all groups' panels."""
        k, f, plan = self.k, self.k.f, self.plan
        channels = channel, f.smin(f.add(channel, depth), plan.sides.inputs)
        about = Packing.of(plan.filters, plan.sides.strides)
        prefetch_weights(k, weights_of(k, about, index, channels), part, parts)

    def prefetch_taps(self, f: Function, source: Val, parts: int) -> None:
        """Prefetch one of several parts of the taps of a vector of staged filters, from its first tap on."""
        for tap in range(0, 9, parts):
            prefetch_line(f, f.gep(source, tap * self.plan.width, self.k.scalar))

    def transform_filters(
        self, point: Val, points: int, stage: Val, to: Val, step: int, count: Val, following: Val
    ) -> None:
        """Transform `count` staged filters at `points` points from one on; the first result is stored at `to`.

        A share of the same number of filters staged at `following` is prefetched.
        """
        k, f = self.k, self.k.f
        row, first = f.binary("udiv", point, PATCH), f.binary("urem", point, PATCH)
        next_filters = f.gep(following, f.mul(f.binary("udiv", point, points), self.plan.width), k.scalar)
        rows = rows_by_kind(k, row, stage, self.plan.width, self.plan.sides.turned)
        for kind, (chosen, source, numbers) in rows.items():
            for i in range(0, PATCH, points):
                with f.when(f.and_(chosen, f.icmp("eq", first, i))):
                    f.call(
                        f"filters_{points}_{kind}_{i}", "void", [source, next_filters, numbers, to, f.i64(step), count]
                    )

    # ---- products

    def write_rows(self, points: int) -> None:
        """Write @rows_n(v, step, u, filter_step, before, sums, first, depth) for each register tile: n tiles.

        They are multiplied with a panel's vectors, at as many of `points` points together as fit the registers.  The
        chains continue those at `before`; the sums are stored, or added to the stored ones unless they are the first.
        """
        k, plan = self.k, self.plan
        for n in plan.rows:
            each = n * plan.vectors
            fits = [g for g in (6, 3, 2) if points % g == 0 and g * (each + plan.vectors) < plan.registers]
            interleaved_points = self.interleaved_points[n] = max(fits, default=1)
            f = k.internal(
                f"rows_{n}",
                {
                    "v": "ptr",
                    "step": "i64",
                    "u": "ptr",
                    "filter_step": "i64",
                    "before": "ptr",
                    "sums": "ptr",
                    "first": "i1",
                    "depth": "i64",
                },
            )
            at = [p * plan.sums_step + i * k.lanes for p in range(interleaved_points) for i in range(each)]
            sums = [f.load(f.gep(f["before"], place, k.scalar), k.vector) for place in at]
            factors = [
                (
                    f.gep(f["v"], product(f, f["step"], p), k.scalar),
                    f.gep(f["u"], product(f, f["filter_step"], p), k.scalar),
                )
                for p in range(interleaved_points)
            ]
            with f.loop("c", 0, f["depth"], carry=sums) as c:
                following: list[Val] = []
                for p, (tiles, filters) in enumerate(factors):
                    v = f.gep(tiles, c.index, k.scalar)
                    u = f.gep(filters, f.mul(c.index, plan.width), k.scalar)
                    lanes = [f.load(f.gep(u, i * k.lanes, k.scalar), k.vector) for i in range(plan.vectors)]
                    for i in range(n):
                        spread = f.splat(f.load(f.gep(v, i * plan.chunk, k.scalar), k.scalar), k.lanes)
                        held = c.carried[p * each + i * plan.vectors :]
                        following += [f.fma(spread, x, a) for x, a in zip(lanes, held, strict=False)]
                c.next(*following)
            store_sums(f, c.results, [f.gep(f["sums"], place, k.scalar) for place in at], f["first"])
            f.ret()

    def sums_space(self) -> tuple[Val, Val]:
        """Memory for a block's sums, and for those of a chain that is not the first."""
        sums = self.scratch(POINTS * self.plan.sums_step)
        return sums, self.scratch(POINTS * self.plan.sums_step) if self.plan.sides.inputs > CHAIN else sums

    def multiply(
        self,
        v: Val,
        step: Operand,
        u: Val,
        filter_step: int,
        spaces: tuple[Val, Val],
        tiles: Val,
        channels: tuple[Operand, Operand],
        points: tuple[Operand, Operand],
    ) -> None:
        """Multiply a block's tiles with a panel's filters over channels start … end of a chunk, at points start … end.

        `v` and `u` are for the first of the channels and points; the steps are from one point to the next.
        """
        k, f, plan = self.k, self.k.f, self.plan
        (channel, end), (low, high) = channels, points
        chain = self.chain(spaces, channels)
        row: Operand = 0
        for n in plan.rows:
            last = f.add(f.sub(tiles, row), 1 - n)  # at least n tiles are left
            with f.loop(f"rows_{n}", 0, last, n) as at, f.loop("point", low, high, self.interleaved_points[n]) as p:
                tile, number = f.add(at.index, row), f.sub(p.index, low)
                place = f.add(f.mul(tile, plan.width), f.mul(p.index, plan.sums_step))
                vp = f.gep(v, total(f, product(f, number, step), f.mul(tile, plan.chunk)), k.scalar)
                f.call(
                    f"rows_{n}",
                    "void",
                    [
                        vp,
                        f.i64(step),
                        f.gep(u, f.mul(number, filter_step), k.scalar),
                        f.i64(filter_step),
                        *chain.at(place),
                        f.sub(end, channel),
                    ],
                )
            taken = f.smax(f.sub(tiles, row), 0)
            row = f.add(f.mul(f.binary("udiv", taken, n), n), row)

    def chain(self, spaces: tuple[Val, Val], channels: tuple[Operand, Operand]) -> Chain:
        """The chains that continue over channels start … end."""
        f, (sums, chain), (channel, end) = self.k.f, spaces, channels
        fresh = f.icmp("eq", f.binary("urem", channel, CHAIN), 0)
        done = f.or_(f.icmp("eq", f.binary("urem", end, CHAIN), 0), f.icmp("eq", end, self.plan.sides.inputs))
        early = f.icmp("slt", channel, CHAIN)
        later = f.and_(done, f.xor(early, f.const("i1", True)))  # a chain whose sums are added to those before it
        before = f.select(fresh, self.zeros(), f.select(early, sums, chain))
        return Chain(
            self.k, fresh, before, f.select(f.or_(done, early), sums, chain), f.xor(later, f.const("i1", True))
        )

    def zeros(self) -> Val:
        """Initial sums of chains, with the stride of the others at a row of points."""
        k, plan = self.k, self.plan
        size = (PATCH - 1) * plan.sums_step + max(plan.rows) * plan.width
        return k.module.constant("zeros", f"[{size} x {k.scalar}]", "zeroinitializer")

    # ---- results

    def write_results(self) -> None:
        """Write @results(sums, to): the 4×4 pixels of one tile.

        Pixels beyond the image's right edge are overwritten later, by those of the next row.
        """
        if self.blocked.result:
            return
        k, plan = self.k, self.plan
        f = k.internal("results", {"sums": "ptr", "to": "ptr"})
        for i, j, value in self._results(f, f["sums"]):
            f.store(value, f.gep(f["to"], (i * plan.sides.out_shape[1] + j) * plan.width, k.scalar))
        f.ret()

    def _results(self, f: Function, sums: Val) -> Iterator[tuple[int, int, Val]]:
        """The 4×4 pixels of one tile, with their rows and columns, one vector of channels each."""
        k, vectors = self.k, Vectors(f, self.k.vector)
        grid = [
            [f.load(f.gep(sums, (i * PATCH + j) * self.plan.sums_step, k.scalar), k.vector) for j in range(PATCH)]
            for i in range(PATCH)
        ]
        for i, row in enumerate(both_ways(vectors, of_product, grid)):
            for j, value in enumerate(row):
                yield i, j, vectors.mul(value, RESULT_SCALE[i][j])

    def row_panel_results(
        self,
        writer: PixelWriter,
        sums: Val,
        by_pixel: Val,
        planes: Operand,
        group: Operand,
        panel: Operand,
        row_panel: Operand,
    ) -> None:
        """Write a row panel of tiles of one image and group (`planes`) and panel to the result."""
        if self.blocked.result:
            self._results_to_blocks(writer, sums, planes, group, panel, row_panel)
            return
        k, f, plan = self.k, self.k.f, self.plan
        width, (down, across) = plan.sides.out_shape[1], plan.sides.tiles
        start = product(f, row_panel, plan.row_panel)
        rows = f.smin(f.sub(f.i64(down), start), plan.row_panel)
        with f.loop("down", 0, rows) as y, f.loop("left", 0, across) as left:
            x = f.sub(f.i64(across - 1), left.index)
            tile = f.add(f.mul(y.index, across), x)
            pixel = f.add(f.mul(y.index, TILE * width), f.mul(x, TILE))
            with f.loop("lane", 0, plan.width, k.lanes) as at:
                f.call(
                    "results",
                    "void",
                    [
                        f.gep(sums, f.add(f.mul(tile, plan.width), at.index), k.scalar),
                        f.gep(by_pixel, f.add(f.mul(pixel, plan.width), at.index), k.scalar),
                    ],
                )
        channels, offset, count = self.place(writer, planes, panel, row_panel)
        channel = total(f, product(f, group, plan.sides.outputs), product(f, panel, plan.width))
        writer.write(by_pixel, count, channels, channel, offset)

    def _results_to_blocks(
        self, writer: PixelWriter, sums: Val, planes: Operand, group: Operand, panel: Operand, row_panel: Operand
    ) -> None:
        """The same with a result in blocks: each pixel is written as soon as it is computed."""
        k, f, plan = self.k, self.k.f, self.plan
        (height, width), (down, across) = plan.sides.out_shape, plan.sides.tiles
        start = product(f, row_panel, plan.row_panel)
        rows = f.smin(f.sub(f.i64(down), start), plan.row_panel)
        channels, offset, count = self.place(writer, planes, panel, row_panel)
        channel = total(f, product(f, group, plan.sides.outputs), product(f, panel, plan.width))
        with f.loop("lane", 0, channels, k.lanes) as lane, f.loop("down", 0, rows) as y, f.loop("left", 0, across) as x:
            tile = f.add(f.mul(y.index, across), x.index)
            top, left = f.mul(y.index, TILE), f.mul(x.index, TILE)
            ends = f.sub(f.binary("udiv", count, width), top), f.sub(f.i64(width), left)
            pixel = f.mul(f.add(f.mul(top, width), left), CHANNEL_BLOCK)
            first = total(f, offset, in_block(f, lane.index, height * width), pixel)
            for i, j, value in self._results(f, f.gep(sums, f.add(f.mul(tile, plan.width), lane.index), k.scalar)):
                here = total(f, (i * width + j) * CHANNEL_BLOCK, first)
                inside = [
                    f.icmp("sgt", end, at)
                    for end, at, size in zip(ends, (i, j), (height, width), strict=True)
                    if 0 < size % TILE <= at
                ]
                with f.when(f.and_(inside[0], inside[-1])) if inside else nullcontext():
                    writer.write_vector(value, f.add(lane.index, channel), f.i64(here))

    def place(self, writer: PixelWriter, planes: Operand, panel: Operand, row_panel: Operand) -> tuple[Val, Val, Val]:
        """The number of a panel's channels, where its row panel begins in the result, and the row panel's pixels."""
        f, plan = self.k.f, self.plan
        height, width = plan.sides.out_shape
        lane = product(f, panel, plan.width)
        channels = f.smin(f.sub(f.i64(plan.sides.outputs), lane), plan.width)
        first = f.mul(f.i64(product(f, row_panel, plan.row_panel)), TILE)
        count = f.mul(f.smin(f.sub(f.i64(height), first), TILE * plan.row_panel), width)
        return channels, f.i64(writer.offset(planes, lane, f.mul(first, width))), count

    def prefetch_results(
        self, writer: PixelWriter, planes: Operand, panel: Operand, row_panel: Operand, part: Val, parts: int
    ) -> None:
        """Prefetch one of several parts of the memory that `band_results` uses."""
        f = self.k.f
        channels, offset, count = self.place(writer, planes, panel, row_panel)
        share = ceil_div(self.plan.width, parts)
        first = f.mul(part, share)
        writer.prefetch((first, f.smin(f.add(first, share), channels)), offset, count)


def store_domain(k: SequenceKernel, f: Function, grid: Sequence[Sequence[Val]], to: Val, step: Val) -> None:
    """Store the vectors of the 36 points, `step` elements apart."""
    place = to
    for row in grid:
        for value in row:
            f.store(value, place)
            place = f.gep(place, step, k.scalar)
