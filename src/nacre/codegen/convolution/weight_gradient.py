"""The gradient of a convolution's weights, with output channels in vector lanes.

A chain runs over a block of output rows of one image.  The block of dy is transposed to
[pixel][lane] in scratch; the register tile is some (channel, kw) rows times the lanes, x is read in place, one scalar a
row.  Pixels at which some kw are outside the image have loops of their own.  A depthwise convolution also transposes x,
since each lane reads another channel.

A work item owns some kernel rows and channels of one panel and adds all images' chains in order.
Where that leaves too few items, an item is an image: the chains' sums go to a workspace, and a second kernel adds them.
"""

from __future__ import annotations

from nacre.codegen.convolution.pack import transpose_matrix
from nacre.codegen.convolution.sequence import (
    ConvolutionStep,
    Count,
    SequenceKernel,
    Steps,
    ceil_div,
    product,
    round_up,
    split,
    store_sums,
    total,
)
from nacre.codegen.convolution.weight_plan import Segment, WeightPlan
from nacre.kernel.order_convolution import Convolution
from nacre.native.isa import Isa
from nacre.native.llvm_values import Operand, Val
from nacre.native.text import Function


class WeightKernel:
    """Writes the kernel that sums chains over pixels."""

    def __init__(self, isa: Isa, scalar: str, plan: WeightPlan) -> None:
        self.plan, self.conv = plan, plan.conv
        self.out = "sums" if plan.by_image else "dw"
        self.k = SequenceKernel(isa, scalar, "conv_dw", ("x", "dy", self.out))
        pixels = round_up(plan.block_rows * self.conv.columns.out, self.k.lanes)
        self.sums_offset = pixels * plan.width
        sums = 0 if plan.by_image else plan.item_units * plan.unit_size
        self.lines_offset = self.sums_offset + sums
        lines = plan.block_lines * self.conv.columns.size * plan.width if plan.depthwise else 0
        self.scratch = (self.lines_offset + lines) * self.k.element

    def write(self) -> ConvolutionStep:
        """Write the whole kernel."""
        k, f, plan = self.k, self.k.f, self.plan
        rows = self.conv.rows
        valid = [[p for p in range(rows.out) if any(t == kh for t, _ in rows.taps(p))] for kh in range(rows.kernel)]
        self.row_table = k.table("row_range", [v for at in valid for v in ((at[0], at[-1] + 1) if at else (0, 0))])
        for kw in range(0, self.conv.columns.kernel, plan.kw_chunk):
            for channels in self._channel_counts():
                self._micro_kernel(kw, channels)
        with f.loop("item", f["lo"], f["hi"]) as item:
            if plan.by_image:
                self._image(item.index)
            else:
                self._owner(item.index)
        items = Count(0, plan.panels) if plan.by_image else Count(plan.panels * ceil_div(plan.units, plan.item_units))
        return k.finish([self.out], items, self.scratch)

    def _channel_counts(self) -> list[int]:
        tail = self.conv.group_channels % self.plan.tile_channels
        return [self.plan.tile_channels] + ([tail] if tail else [])

    # ---- the two kinds of work item

    def _owner(self, item: Val) -> None:
        """Sum some units of one panel over all images, and write them to dw."""
        k, f, plan = self.k, self.k.f, self.plan
        panel, piece = split(f, item, ceil_div(plan.units, plan.item_units))
        first = product(f, piece, plan.item_units)
        end = f.smin(total(f, first, plan.item_units), plan.units)
        sums = f.gep(f["scratch"], self.sums_offset, k.scalar)
        with f.loop("clear", 0, plan.item_units * plan.unit_size, k.lanes) as at:
            f.store(f.zero(k.vector), f.gep(sums, at.index, k.scalar))
        with f.loop("image", 0, k.batch) as image, f.loop("block", 0, plan.blocks) as block:
            start = f.icmp("eq", f.or_(image.index, block.index), 0)
            pixels = self._pack(image.index, panel, block.index)
            self._units(image.index, panel, block.index, (first, end), pixels, sums, start)
        self._write_out(panel, (first, end), sums)

    def _image(self, item: Val) -> None:
        """Write every chain's sum of one image and panel to the workspace."""
        k, f, plan = self.k, self.k.f, self.plan
        image, panel = split(f, item, plan.panels)
        size = plan.units * plan.unit_size
        with f.loop("block", 0, plan.blocks) as block:
            pixels = self._pack(image, panel, block.index)
            index = total(f, product(f, total(f, product(f, image, plan.blocks), block.index), plan.panels), panel)
            sums = f.gep(k.pointers["sums"], product(f, index, size), k.scalar)
            self._units(image, panel, block.index, (0, plan.units), pixels, sums, f.const("i1", True))

    def _pack(self, image: Operand, panel: Operand, block: Val) -> Val:
        """Transpose a block of rows of dy to [pixel][lane] in scratch."""
        k, f, plan, conv = self.k, self.k.f, self.plan, self.conv
        height, width = conv.rows.out, conv.columns.out
        group, p = split(f, panel, plan.group_panels)
        lane = product(f, p, plan.width)
        lanes = f.smin(f.sub(f.i64(conv.group_filters), lane), plan.width)
        channel = total(f, product(f, image, conv.filters), product(f, group, conv.group_filters), lane)
        row = f.mul(block, plan.block_rows)
        rows = f.smin(f.sub(f.i64(height), row), plan.block_rows)
        at = total(f, product(f, channel, height * width), f.mul(row, width))
        source = f.gep(k.pointers["dy"], at, k.scalar)
        transpose_matrix(k, f, source, height * width, lanes, f.mul(rows, width), f["scratch"], plan.width)
        return f["scratch"]

    def _pack_lines(self, image: Operand, panel: Operand, start: Val) -> tuple[Val, Val]:
        """Transpose the input rows of a block to [pixel][lane]; their address and the first row."""
        k, f, plan, conv, rows = self.k, self.k.f, self.plan, self.conv, self.conv.rows
        lane = product(f, panel, plan.width)
        lanes = f.smin(f.sub(f.i64(conv.filters), lane), plan.width)
        top = f.sub(f.mul(start, rows.stride), rows.low)
        first = f.smax(top, 0)
        span = (plan.block_rows - 1) * rows.stride + (rows.kernel - 1) * rows.dilation + 1
        count = f.smax(f.sub(f.smin(f.add(top, span), rows.size), first), 0)
        channel = total(f, product(f, image, conv.filters), lane)
        source = f.gep(
            k.pointers["x"], total(f, product(f, channel, plan.plane), f.mul(first, conv.columns.size)), k.scalar
        )
        target = f.gep(f["scratch"], self.lines_offset, k.scalar)
        transpose_matrix(k, f, source, plan.plane, lanes, f.mul(count, conv.columns.size), target, plan.width)
        return target, first

    # ---- the tiles of a block

    def _units(
        self,
        image: Operand,
        panel: Operand,
        block: Val,
        units: tuple[Operand, Operand],
        pixels: Val,
        sums: Val,
        first: Val,
    ) -> None:
        """Add one block's chains to the sums of the given units."""
        k, f, plan, conv = self.k, self.k.f, self.plan, self.conv
        group, _ = split(f, panel, plan.group_panels)
        planes = total(f, product(f, image, conv.channels), product(f, group, conv.group_channels))
        start = f.mul(block, plan.block_rows)
        end = f.add(start, plan.block_rows)
        source = f.gep(k.pointers["x"], product(f, planes, plan.plane), k.scalar)
        first_line: Operand = 0
        if plan.depthwise:
            source, first_line = self._pack_lines(image, panel, start)
        with f.loop("unit", units[0], units[1]) as unit:
            kh, part = split(f, unit.index, plan.parts)
            entry = f.gep(self.row_table, product(f, kh, 2), "i64")
            low = f.smax(f.load(entry, "i64"), start)
            high = f.smin(f.load(f.gep(entry, 1, "i64"), "i64"), end)
            rows = f.smax(f.sub(high, low), 0)
            line = total(f, f.mul(low, conv.rows.stride), product(f, kh, conv.rows.dilation), -conv.rows.low)
            skipped = f.mul(f.sub(line, first_line), conv.columns.size * plan.pixel)
            x = f.gep(source, skipped, k.scalar)
            d = f.gep(pixels, f.mul(f.sub(low, start), conv.columns.out * plan.width), k.scalar)
            to = f.gep(sums, product(f, f.sub(unit.index, units[0]), plan.unit_size), k.scalar)
            self._tiles(x, d, to, part, rows, first)

    def _tiles(self, x: Val, d: Val, sums: Val, part: Operand, rows: Val, first: Val) -> None:
        """All tiles of a unit."""
        k, f, plan, conv = self.k, self.k.f, self.plan, self.conv
        begin = product(f, part, plan.part_channels)
        end = f.smin(total(f, begin, plan.part_channels), conv.group_channels)
        row = conv.columns.kernel * plan.width

        def call(kw: int, channels: int, c: Operand) -> None:
            """Call the function for the given number of kernel columns and channels at channel c."""
            at = product(f, f.sub(f.i64(c), begin), row)
            f.call(
                f"pixels_{kw}_{channels}",
                "void",
                [
                    f.gep(x, product(f, c, plan.plane), k.scalar),
                    d,
                    f.gep(sums, total(f, at, kw * plan.width), k.scalar),
                    rows,
                    first,
                ],
            )

        whole, *tail = self._channel_counts()
        for kw in range(0, conv.columns.kernel, plan.kw_chunk):
            with f.loop("c", begin, f.sub(end, whole - 1), whole) as c:
                call(kw, whole, c.index)
            for count in tail:
                rest = conv.group_channels - count
                with f.when(f.icmp("eq", end, conv.group_channels)):
                    call(kw, count, rest)

    def _micro_kernel(self, kw: int, channels: int) -> None:
        """Write the chain of one tile: `channels` channels, the kw of a chunk, all lanes."""
        k, plan, conv = self.k, self.plan, self.conv
        f = k.internal(f"pixels_{kw}_{channels}", {"x": "ptr", "d": "ptr", "sums": "ptr", "rows": "i64", "first": "i1"})
        kws = range(kw, min(conv.columns.kernel, kw + plan.kw_chunk))
        rows = [(c, t) for c in range(channels) for t in kws]
        zeros = [f.zero(k.vector)] * (len(rows) * plan.vectors)
        with f.loop("row", 0, f["rows"], carry=zeros) as row:
            line = conv.rows.stride * conv.columns.size * plan.pixel
            x = f.gep(f["x"], f.mul(row.index, line), k.scalar)
            d = f.gep(f["d"], f.mul(row.index, conv.columns.out * plan.width), k.scalar)
            current = list(row.carried)
            for segment in plan.segments(kw):
                current = self._segment(f, segment, rows, x, d, current)
            row.next(*current)
        places = [
            f.gep(f["sums"], (c * conv.columns.kernel + t - kw) * plan.width + v * k.lanes, k.scalar)
            for c, t in rows
            for v in range(plan.vectors)
        ]
        store_sums(f, row.results, places, f["first"])
        f.ret()

    def _segment(
        self, f: Function, segment: Segment, rows: list[tuple[int, int]], x: Val, d: Val, sums: list[Val]
    ) -> list[Val]:
        """Extend the chains by the columns of a segment."""
        k, plan, axis = self.k, self.plan, self.conv.columns
        present = [i for i, (_, kw) in enumerate(rows) if kw in segment.kws]
        picked = [i * plan.vectors + v for i in present for v in range(plan.vectors)]
        with f.loop("column", segment.start, segment.end, carry=[sums[i] for i in picked]) as at:
            px = f.gep(x, f.mul(at.index, axis.stride * plan.pixel), k.scalar)
            pd = f.gep(d, f.mul(at.index, plan.width), k.scalar)
            at.next(*self._products(f, [rows[i] for i in present], px, pd, at.carried))
        result = list(sums)
        for i, value in zip(picked, at.results, strict=True):
            result[i] = value
        return result

    def _products(self, f: Function, rows: list[tuple[int, int]], x: Val, d: Val, sums: list[Val]) -> list[Val]:
        """One pixel: (channel, kw) rows times lanes."""
        k, plan, axis = self.k, self.plan, self.conv.columns
        lanes = [f.load(f.gep(d, v * k.lanes, k.scalar), k.vector) for v in range(plan.vectors)]
        result: list[Val] = []
        for c, kw in rows:
            offset = c * plan.plane + (kw * axis.dilation - axis.low) * plan.pixel
            at = f.gep(x, offset, k.scalar)
            if plan.depthwise:
                spread = f.load(at, k.vector)
            else:
                spread = f.splat(f.load(at, k.scalar), k.lanes)
            for value in lanes:
                result.append(f.fma(value, spread, sums[len(result)]))
        return result

    # ---- output

    def _write_out(self, panel: Operand, units: tuple[Operand, Val], sums: Val) -> None:
        """Write the sums of some units to dw [O,C/groups,kh,kw]."""
        k, f, plan, conv = self.k, self.k.f, self.plan, self.conv
        kernel, channels = conv.columns.kernel, conv.group_channels
        filters = channels * conv.taps
        group, p = split(f, panel, plan.group_panels)
        lane = product(f, p, plan.width)
        lanes = f.smin(f.sub(f.i64(conv.group_filters), lane), plan.width)
        filt = total(f, product(f, group, conv.group_filters), lane)
        with f.loop("unit", *units) as unit, f.loop("lane", 0, lanes) as at:
            kh, part = split(f, unit.index, plan.parts)
            begin = product(f, part, plan.part_channels)
            count = f.smin(f.sub(f.i64(channels), begin), plan.part_channels)
            source = f.gep(sums, total(f, product(f, f.sub(unit.index, units[0]), plan.unit_size), at.index), k.scalar)
            target = f.gep(
                k.pointers["dw"],
                total(f, f.mul(f.add(at.index, filt), filters), product(f, begin, conv.taps), product(f, kh, kernel)),
                k.scalar,
            )
            with f.loop("c", 0, count) as c, f.loop("kw", 0, kernel) as kw:
                row = f.add(f.mul(c.index, kernel), kw.index)
                value = f.load(f.gep(source, f.mul(row, plan.width), k.scalar), k.scalar)
                f.store(value, f.gep(target, f.add(f.mul(c.index, conv.taps), kw.index), k.scalar))


def write_total(isa: Isa, scalar: str, plan: WeightPlan) -> ConvolutionStep:
    """The kernel that adds the workspace's chain sums, image by image, into dw."""
    conv, size = plan.conv, plan.units * plan.unit_size
    k = SequenceKernel(isa, scalar, "conv_dw_total", ("sums", "dw"))
    f = k.f
    rows = size // plan.width
    with f.loop("item", f["lo"], f["hi"]) as item:
        panel, row = split(f, item.index, rows)
        unit, in_unit = split(f, row, plan.part_channels * conv.columns.kernel)
        kh, part = split(f, unit, plan.parts)
        in_part, kw = split(f, in_unit, conv.columns.kernel)
        channel = total(f, product(f, part, plan.part_channels), in_part)
        with f.when(f.icmp("slt", channel, conv.group_channels)):
            _total_row(k, plan, panel, row, (channel, kh, kw))
    return k.finish(["dw"], Count(plan.panels * rows), plan.width * k.element, grain=8)


def _total_row(
    k: SequenceKernel, plan: WeightPlan, panel: Operand, row: Operand, tap: tuple[Operand, Operand, Operand]
) -> None:
    """Add up one (channel, kh, kw) row of lanes and write it."""
    f, conv, size = k.f, plan.conv, plan.units * plan.unit_size
    at = total(f, product(f, panel, size), product(f, row, plan.width))
    source = f.gep(k.pointers["sums"], at, k.scalar)
    chains = f.mul(k.batch, plan.blocks)
    for v in range(plan.vectors):
        here = f.gep(source, v * k.lanes, k.scalar)
        with f.loop("chain", 0, chains, carry=[f.zero(k.vector)]) as chain:
            value = f.load(f.gep(here, f.mul(chain.index, size * plan.panels), k.scalar), k.vector)
            first = f.icmp("eq", chain.index, 0)
            chain.next(f.select(first, value, f.fadd(chain.carried[0], value)))
        f.store(chain.results[0], f.gep(f["scratch"], v * k.lanes, k.scalar))
    group, p = split(f, panel, plan.group_panels)
    lane = product(f, p, plan.width)
    lanes = f.smin(f.sub(f.i64(conv.group_filters), lane), plan.width)
    channel, kh, kw = tap
    offset = total(f, product(f, channel, conv.taps), product(f, kh, conv.columns.kernel), kw)
    first = total(f, product(f, group, conv.group_filters), lane)
    with f.loop("lane", 0, lanes) as at_lane:
        value = f.load(f.gep(f["scratch"], at_lane.index, k.scalar), k.scalar)
        index = f.mul(f.add(at_lane.index, first), conv.group_channels * conv.taps)
        f.store(value, f.gep(k.pointers["dw"], total(f, index, offset), k.scalar))


def weight_steps(isa: Isa, scalar: str, conv: Convolution, threads: int) -> Steps:
    """The steps from x and dy to dw, in enough work items for some threads."""
    kernel = SequenceKernel(isa, scalar, "sizes", ())
    depthwise = conv.groups > 1 and conv.channels == conv.filters == conv.groups
    if depthwise:
        conv = Convolution(1, conv.filters, conv.rows, conv.columns)
    plan = WeightPlan(conv, kernel.lanes, isa.registers, kernel.element, threads, depthwise)
    step = WeightKernel(isa, scalar, plan).write()
    if not plan.by_image:
        return Steps((step,))
    image = plan.blocks * plan.panels * plan.units * plan.unit_size * kernel.element
    return Steps((step, write_total(isa, scalar, plan)), {"sums": Count(0, image)})
