"""The gradient of a convolution's weights, with output channels in vector lanes.

A chain runs over a block of output rows of one image.  The block of dy is transposed to
[pixel][lane] in scratch; the register tile is some (channel, kw) rows times the lanes, x is read in place, one scalar a
row.  Pixels at which some kw are outside the image have loops of their own.  A depthwise convolution also transposes x,
since each lane reads another channel.

A work item owns some kernel rows and channels of one panel and adds all images' chains in order.
Where that leaves too few items, an item is an image: the chains' sums go to a workspace, and a second kernel adds them.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from nacre.codegen.bfloat_pairs import APART, are_normal, call_exact, halves, multiply_pairs
from nacre.codegen.convolution.epilogue import rounded
from nacre.codegen.convolution.pack import transpose_matrix
from nacre.codegen.convolution.pixel_pairs import PixelPairs, image_lines, pack_lines, result_lines
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
        self.x, self.dy, *least = ("x", "dy") if plan.pairs is None else ("x_pairs", "dy_pairs", "x_least", "dy_least")
        self.k = SequenceKernel(isa, scalar, "conv_dw", (self.x, self.dy, *least, self.out))
        self.normal: Val | None = None  # whether the packed dot instruction is exact
        pixels = round_up(plan.block_rows * plan.result_row, self.k.lanes)
        self.sums_offset = pixels * plan.width
        sums = 0 if plan.by_image else plan.item_units * plan.unit_size
        self.lines_offset = self.sums_offset + sums
        lines = plan.block_lines * self.conv.columns.size * plan.width if plan.depthwise else 0
        self.scratch = (self.lines_offset + lines) * self.k.element
        self.n = self.k.read(self._sizes())

    def _sizes(self) -> dict[str, int]:
        """The sizes that do not change the form of the kernel."""
        plan, conv = self.plan, self.conv
        return {
            "filters": conv.filters,
            "group_filters": conv.group_filters,
            "channels": conv.channels,
            "group_channels": conv.group_channels,
            "plane": plan.plane,
            "columns": plan.result_row,
            "dy_plane": conv.rows.out * plan.result_row,
            "rows": conv.rows.out,
            "line": plan.line * plan.pixel,
            "panels": plan.panels,
            "group_panels": plan.group_panels,
            "blocks": plan.blocks,
            "block_rows": plan.block_rows,
            "units": plan.units,
            "parts": plan.parts,
            "part_channels": plan.part_channels,
            "unit_size": plan.unit_size,
            "item_units": plan.item_units,
            "items": ceil_div(plan.units, plan.item_units),
            "width": plan.width,
            "tile_channels": plan.tile_channels,
            "rest": conv.group_channels % plan.tile_channels,
            "sums_offset": self.sums_offset,
            "lines_offset": self.lines_offset,
        }

    def write(self) -> ConvolutionStep:
        """Write the whole kernel."""
        k, f, plan = self.k, self.k.f, self.plan
        rows = self.conv.rows
        valid = [[p for p in range(rows.out) if any(t == kh for t, _ in rows.taps(p))] for kh in range(rows.kernel)]
        self.row_table = k.read_table([v for at in valid for v in ((at[0], at[-1] + 1) if at else (0, 0))])
        for kw in range(0, self.conv.columns.kernel, plan.kw_chunk):
            for name, channels in zip((f"pixels_{kw}", f"pixels_{kw}_rest"), self._channel_counts(), strict=False):
                for apart in (False,) if plan.pairs is None else (False, True):
                    self._micro_kernel(name + APART * apart, kw, channels, apart)
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
        k, f, n = self.k, self.k.f, self.n
        panel, piece = split(f, item, n["items"])
        first = product(f, piece, n["item_units"])
        end = f.smin(total(f, first, n["item_units"]), n["units"])
        sums = f.gep(f["scratch"], n["sums_offset"], k.scalar)
        with f.loop("clear", 0, f.mul(n["item_units"], n["unit_size"]), k.lanes) as at:
            f.store(f.zero(k.vector), f.gep(sums, at.index, k.scalar))
        with f.loop("image", 0, k.batch) as image:
            self._compare(image.index, panel)
            with f.loop("block", 0, n["blocks"]) as block:
                start = f.icmp("eq", f.or_(image.index, block.index), 0)
                pixels = self._pack(image.index, panel, block.index)
                self._units(image.index, panel, block.index, (first, end), pixels, sums, start)
        self._write_out(panel, (first, end), sums)

    def _image(self, item: Val) -> None:
        """Write every chain's sum of one image and panel to the workspace."""
        k, f, n = self.k, self.k.f, self.n
        image, panel = split(f, item, n["panels"])
        size = f.mul(n["units"], n["unit_size"])
        self._compare(image, panel)
        with f.loop("block", 0, n["blocks"]) as block:
            pixels = self._pack(image, panel, block.index)
            index = total(f, product(f, total(f, product(f, image, n["blocks"]), block.index), n["panels"]), panel)
            sums = f.gep(k.pointers["sums"], product(f, index, size), k.scalar)
            self._units(image, panel, block.index, (0, n["units"]), pixels, sums, f.const("i1", True))

    def _compare(self, image: Operand, panel: Operand) -> None:
        """Find out whether the packed dot instruction is exact for an image and a panel."""
        k, f, n = self.k, self.k.f, self.n
        if self.plan.pairs is None:
            return
        group, lane, lanes = self._lanes(panel)
        found: list[Val] = []
        for name, planes, inside, count in (
            ("x_least", n["channels"], product(f, group, n["group_channels"]), n["group_channels"]),
            ("dy_least", n["filters"], total(f, product(f, group, n["group_filters"]), lane), lanes),
        ):
            first = f.gep(k.pointers[name], total(f, product(f, image, planes), inside), "i64")
            with f.loop("least", 0, count, carry=[f.i64(-1)]) as at:
                at.next(f.minmax("umin", at.carried[0], f.load(f.gep(first, at.index, "i64"), "i64")))
            found.append(at.results[0])
        self.normal = are_normal(f, *found)

    def _pack(self, image: Operand, panel: Operand, block: Val) -> Val:
        """Transpose a block of rows of dy to [pixel][lane] in scratch."""
        k, f, n = self.k, self.k.f, self.n
        group, lane, lanes = self._lanes(panel)
        channel = total(f, product(f, image, n["filters"]), product(f, group, n["group_filters"]), lane)
        row = f.mul(block, n["block_rows"])
        rows = f.smin(f.sub(n["rows"], row), n["block_rows"])
        at = total(f, product(f, channel, n["dy_plane"]), f.mul(row, n["columns"]))
        source = f.gep(k.pointers[self.dy], at, k.scalar)
        pixels = f.mul(rows, n["columns"])
        transpose_matrix(k, f, source, n["dy_plane"], lanes, pixels, f["scratch"], n["width"])
        return f["scratch"]

    def _lanes(self, panel: Operand) -> tuple[Operand, Operand, Val]:
        """The group of a panel, the first filter of the panel in the group, and the number of its filters."""
        f, n = self.k.f, self.n
        group, p = (0, panel) if self.conv.groups == 1 else split(f, panel, n["group_panels"])
        lane = product(f, p, n["width"])
        return group, lane, f.smin(f.sub(n["group_filters"], lane), n["width"])

    def _pack_lines(self, image: Operand, panel: Operand, start: Val) -> tuple[Val, Val]:
        """Transpose the input rows of a block to [pixel][lane]; their address and the first row."""
        k, f, plan, n, rows = self.k, self.k.f, self.plan, self.n, self.conv.rows
        lane = product(f, panel, plan.width)
        lanes = f.smin(f.sub(n["filters"], lane), plan.width)
        columns = self.conv.columns.size
        top = f.sub(f.mul(start, rows.stride), rows.low)
        first = f.smax(top, 0)
        span = (plan.block_rows - 1) * rows.stride + (rows.kernel - 1) * rows.dilation + 1
        count = f.smax(f.sub(f.smin(f.add(top, span), rows.size), first), 0)
        channel = total(f, product(f, image, n["filters"]), lane)
        source = f.gep(k.pointers["x"], total(f, product(f, channel, n["plane"]), f.mul(first, columns)), k.scalar)
        target = f.gep(f["scratch"], n["lines_offset"], k.scalar)
        transpose_matrix(k, f, source, n["plane"], lanes, f.mul(count, columns), target, plan.width)
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
        k, f, plan, conv, n = self.k, self.k.f, self.plan, self.conv, self.n
        group, _, _ = self._lanes(panel)
        planes = total(f, product(f, image, n["channels"]), product(f, group, n["group_channels"]))
        start = f.mul(block, n["block_rows"])
        end = f.add(start, n["block_rows"])
        source = f.gep(k.pointers[self.x], product(f, planes, n["plane"]), k.scalar)
        first_line: Operand = 0
        if plan.depthwise:
            source, first_line = self._pack_lines(image, panel, start)
        with f.loop("unit", units[0], units[1]) as unit:
            kh, part = (0, unit.index) if conv.rows.kernel == 1 else split(f, unit.index, n["parts"])
            entry = f.gep(self.row_table, product(f, kh, 2), "i64")
            low = f.smax(f.load(entry, "i64"), start)
            high = f.smin(f.load(f.gep(entry, 1, "i64"), "i64"), end)
            rows = f.smax(f.sub(high, low), 0)
            line = total(f, f.mul(low, conv.rows.stride), product(f, kh, conv.rows.dilation), -conv.rows.low)
            skipped = f.mul(f.sub(f.i64(line), first_line), n["line"])
            x = f.gep(source, skipped, k.scalar)
            d = f.gep(pixels, f.mul(f.mul(f.sub(low, start), n["columns"]), n["width"]), k.scalar)
            to = f.gep(sums, product(f, f.sub(unit.index, units[0]), n["unit_size"]), k.scalar)
            self._tiles(x, d, to, part, rows, first)

    def _tiles(self, x: Val, d: Val, sums: Val, part: Operand, rows: Val, first: Val) -> None:
        """All tiles of a unit."""
        k, f, plan, conv, n = self.k, self.k.f, self.plan, self.conv, self.n
        begin = product(f, part, n["part_channels"])
        end = f.smin(total(f, begin, n["part_channels"]), n["group_channels"])
        row = f.mul(n["width"], conv.columns.kernel)

        def call(name: str, kw: int, c: Operand) -> None:
            """Call the function for a chunk of kernel columns and the channels from c on."""
            at = product(f, f.sub(f.i64(c), begin), row)
            arguments = [
                f.gep(x, product(f, c, n["plane"]), k.scalar),
                d,
                f.gep(sums, total(f, at, product(f, kw, n["width"])), k.scalar),
                rows,
                first,
            ]
            call_exact(f, self.normal, name, arguments)

        counts = self._channel_counts()
        whole = n["tile_channels"]
        for kw in range(0, conv.columns.kernel, plan.kw_chunk):
            with f.loop("c", begin, f.sub(f.add(end, 1), whole), whole) as c:
                call(f"pixels_{kw}", kw, c.index)
            if len(counts) > 1:
                with f.when(f.icmp("eq", end, n["group_channels"])):
                    call(f"pixels_{kw}_rest", kw, f.sub(n["group_channels"], n["rest"]))

    def _micro_kernel(self, name: str, kw: int, channels: int, apart: bool) -> None:
        """Write the chain of one tile: `channels` channels, the kw of a chunk, all lanes.

        It may multiply the halves of pairs `apart`.
        """
        k, plan, conv = self.k, self.plan, self.conv
        f = k.internal(name, {"x": "ptr", "d": "ptr", "sums": "ptr", "rows": "i64", "first": "i1"})
        kws = range(kw, min(conv.columns.kernel, kw + plan.kw_chunk))
        rows = [(c, t) for c in range(channels) for t in kws]
        zeros = [f.zero(k.vector)] * (len(rows) * plan.vectors)
        with f.loop("row", 0, f["rows"], carry=zeros) as row:
            line = conv.rows.stride * plan.line * plan.pixel
            x = f.gep(f["x"], f.mul(row.index, line), k.scalar)
            d = f.gep(f["d"], f.mul(row.index, plan.result_row * plan.width), k.scalar)
            current = list(row.carried)
            for segment in plan.segments(kw):
                current = self._segment(f, segment, rows, x, d, current, apart)
            row.next(*current)
        places = [
            f.gep(f["sums"], (c * conv.columns.kernel + t - kw) * plan.width + v * k.lanes, k.scalar)
            for c, t in rows
            for v in range(plan.vectors)
        ]
        store_sums(f, row.results, places, f["first"])
        f.ret()

    def _segment(
        self, f: Function, segment: Segment, rows: list[tuple[int, int]], x: Val, d: Val, sums: list[Val], apart: bool
    ) -> list[Val]:
        """Extend the chains by the elements of a segment."""
        k, plan, axis = self.k, self.plan, self.conv.columns
        present = [i for i, (_, kw) in enumerate(rows) if kw in segment.kws]
        picked = [i * plan.vectors + v for i in present for v in range(plan.vectors)]
        with f.loop("column", segment.start, segment.end, carry=[sums[i] for i in picked]) as at:
            px = f.gep(x, f.mul(at.index, axis.stride * plan.pixel), k.scalar)
            pd = f.gep(d, f.mul(at.index, plan.width), k.scalar)
            here = [rows[i] for i in present]
            extend = partial(self._halves, at.index) if apart else self._products
            at.next(*extend(f, here, px, pd, at.carried))
        result = list(sums)
        for i, value in zip(picked, at.results, strict=True):
            result[i] = value
        return result

    def _products(self, f: Function, rows: list[tuple[int, int]], x: Val, d: Val, sums: list[Val]) -> list[Val]:
        """One pixel: (channel, kw) rows times lanes."""
        k, plan = self.k, self.plan
        lanes = [f.load(f.gep(d, v * k.lanes, k.scalar), k.vector) for v in range(plan.vectors)]
        result: list[Val] = []
        for row in rows:
            spread = self._spread(f, row, x)
            for value in lanes:
                before = sums[len(result)]
                one = plan.pairs is None
                result.append(f.fma(value, spread, before) if one else multiply_pairs(f, k.isa, value, spread, before))
        return result

    def _spread(self, f: Function, row: tuple[int, int], x: Val) -> Val:
        """The element of x that a (channel, kw) row multiplies with the lanes."""
        k, plan, (c, kw) = self.k, self.plan, row
        at = f.gep(x, c * plan.plane + plan.place(kw) * plan.pixel, k.scalar)
        return f.load(at, k.vector) if plan.depthwise else f.splat(f.load(at, k.scalar), k.lanes)

    def _halves(
        self, index: Val, f: Function, rows: list[tuple[int, int]], x: Val, d: Val, sums: list[Val]
    ) -> list[Val]:
        """One pair of pixels, one after the other, of which some are outside the image or the result."""
        k, plan, axis = self.k, self.plan, self.conv.columns
        assert plan.pairs is not None
        lanes = [halves(f, f.load(f.gep(d, v * k.lanes, k.scalar), k.vector)) for v in range(plan.vectors)]
        spreads = [halves(f, self._spread(f, row, x)) for row in rows]
        result = list(sums)
        for half in (0, 1):
            column = f.add(f.mul(index, 2), half)
            for i, (_, kw) in enumerate(rows):
                read = f.add(column, plan.pairs.distance(kw))
                inside = f.and_(f.icmp("slt", column, axis.out), f.icmp("ult", read, axis.size))
                for v, value in enumerate(lanes):
                    before = result[i * plan.vectors + v]
                    after = f.fma(value[half], spreads[i][half], before)
                    result[i * plan.vectors + v] = f.select(inside, after, before)
        return result

    # ---- output

    def _write_out(self, panel: Operand, units: tuple[Operand, Val], sums: Val) -> None:
        """Write the sums of some units to dw [O,C/groups,kh,kw]."""
        k, f, conv, n, result = self.k, self.k.f, self.conv, self.n, self.plan.result
        kernel, channels = conv.columns.kernel, n["group_channels"]
        filters = f.mul(channels, conv.taps)
        group, lane, lanes = self._lanes(panel)
        filt = total(f, product(f, group, n["group_filters"]), lane)
        with f.loop("unit", *units) as unit, f.loop("lane", 0, lanes) as at:
            kh, part = (0, unit.index) if conv.rows.kernel == 1 else split(f, unit.index, n["parts"])
            begin = product(f, part, n["part_channels"])
            count = f.smin(f.sub(channels, begin), n["part_channels"])
            size = n["unit_size"]
            source = f.gep(sums, total(f, product(f, f.sub(unit.index, units[0]), size), at.index), k.scalar)
            target = f.gep(
                k.pointers["dw"],
                total(
                    f, f.mul(total(f, at.index, filt), filters), product(f, begin, conv.taps), product(f, kh, kernel)
                ),
                result,
            )
            with f.loop("c", 0, count) as c, f.loop("kw", 0, kernel) as kw:
                row = f.add(f.mul(c.index, kernel), kw.index)
                value = f.load(f.gep(source, f.mul(row, n["width"]), k.scalar), k.scalar)
                to = f.gep(target, f.add(f.mul(c.index, conv.taps), kw.index), result)
                f.store(rounded(f, value, result), to)


def write_total(isa: Isa, scalar: str, plan: WeightPlan) -> ConvolutionStep:
    """The kernel that adds the workspace's chain sums, image by image, into dw."""
    conv, size = plan.conv, plan.units * plan.unit_size
    k = SequenceKernel(isa, scalar, "conv_dw_total", ("sums", "dw"))
    f = k.f
    rows = size // plan.width
    n = k.read(
        {
            "rows": rows,
            "unit_rows": plan.part_channels * conv.columns.kernel,
            "parts": plan.parts,
            "part_channels": plan.part_channels,
            "group_channels": conv.group_channels,
            "group_filters": conv.group_filters,
            "group_panels": plan.group_panels,
            "blocks": plan.blocks,
            "size": size,
            "step": size * plan.panels,
        }
    )
    with f.loop("item", f["lo"], f["hi"]) as item:
        panel, row = split(f, item.index, n["rows"])
        unit, in_unit = split(f, row, n["unit_rows"])
        kh, part = split(f, unit, n["parts"])
        in_part, kw = split(f, in_unit, conv.columns.kernel)
        channel = total(f, product(f, part, n["part_channels"]), in_part)
        with f.when(f.icmp("slt", channel, n["group_channels"])):
            _total_row(k, plan, n, panel, row, (channel, kh, kw))
    return k.finish(["dw"], Count(plan.panels * rows), plan.width * k.element, grain=8)


def _total_row(
    k: SequenceKernel,
    plan: WeightPlan,
    n: Mapping[str, Val],
    panel: Operand,
    row: Operand,
    tap: tuple[Operand, Operand, Operand],
) -> None:
    """Add up one (channel, kh, kw) row of lanes and write it."""
    f, conv = k.f, plan.conv
    at = total(f, product(f, panel, n["size"]), product(f, row, plan.width))
    source = f.gep(k.pointers["sums"], at, k.scalar)
    chains = f.mul(k.batch, n["blocks"])
    for v in range(plan.vectors):
        here = f.gep(source, v * k.lanes, k.scalar)
        with f.loop("chain", 0, chains, carry=[f.zero(k.vector)]) as chain:
            value = f.load(f.gep(here, f.mul(chain.index, n["step"]), k.scalar), k.vector)
            first = f.icmp("eq", chain.index, 0)
            chain.next(f.select(first, value, f.fadd(chain.carried[0], value)))
        f.store(chain.results[0], f.gep(f["scratch"], v * k.lanes, k.scalar))
    group, p = (0, panel) if conv.groups == 1 else split(f, panel, n["group_panels"])
    lane = product(f, p, plan.width)
    lanes = f.smin(f.sub(n["group_filters"], lane), plan.width)
    channel, kh, kw = tap
    offset = total(f, product(f, channel, conv.taps), product(f, kh, conv.columns.kernel), kw)
    first = total(f, product(f, group, n["group_filters"]), lane)
    with f.loop("lane", 0, lanes) as at_lane:
        value = f.load(f.gep(f["scratch"], at_lane.index, k.scalar), k.scalar)
        index = f.mul(total(f, at_lane.index, first), f.mul(n["group_channels"], conv.taps))
        f.store(rounded(f, value, plan.result), f.gep(k.pointers["dw"], total(f, index, offset), plan.result))


def weight_steps(isa: Isa, scalar: str, conv: Convolution, threads: int) -> Steps:
    """The steps from x and dy to dw, in enough work items for some threads."""
    depthwise = is_depthwise(conv)
    if depthwise:
        conv = Convolution(1, conv.filters, conv.rows, conv.columns)
    return _weight_steps(isa, scalar, conv, threads, scalar, depthwise=depthwise)


def pair_weight_steps(isa: Isa, conv: Convolution, threads: int, result: str) -> Steps:
    """The same for bfloat16, by pairs of pixels; dw has the type `result`."""
    pairs = PixelPairs(conv.columns)
    about = image_lines(pairs, conv.channels, conv.rows.size), result_lines(pairs, conv.filters, conv.rows.out)
    rest = _weight_steps(isa, "float", conv, threads, result, pairs)
    spaces = {name: size for lines in about for name, size in lines.spaces.items()}
    return Steps((*(pack_lines(isa, lines) for lines in about), *rest.steps), rest.workspaces | spaces)


def has_pixel_pairs(isa: Isa, scalar: str, conv: Convolution) -> bool:
    """Whether the gradient multiplies pairs of pixels: bfloat16, an instruction for it, and adjacent columns."""
    empty = 0 in (*conv.weight_shape, conv.rows.out, conv.columns.out)
    return scalar == "bfloat" and bool(isa.halves) and conv.columns.stride == 1 and not (empty or is_depthwise(conv))


def is_depthwise(conv: Convolution) -> bool:
    """Whether each filter has an input channel of its own."""
    return conv.groups > 1 and conv.channels == conv.filters == conv.groups


def _weight_steps(
    isa: Isa,
    scalar: str,
    conv: Convolution,
    threads: int,
    result: str,
    pairs: PixelPairs | None = None,
    *,
    depthwise: bool = False,
) -> Steps:
    """The steps from pixels, or their pairs, to dw."""
    kernel = SequenceKernel(isa, scalar, "sizes", ())
    plan = WeightPlan(conv, kernel.lanes, isa.registers, kernel.element, threads, depthwise, result, pairs)
    step = WeightKernel(isa, scalar, plan).write()
    if not plan.by_image:
        return Steps((step,))
    image = plan.blocks * plan.panels * plan.units * plan.unit_size * kernel.element
    return Steps((step, write_total(isa, scalar, plan)), {"sums": Count(0, image)})
