"""Direct convolution with channels in vector lanes: forward, and the gradient of the input.

Both are one correlation (see `correlation`): `out[q, i, j] = Σ in[r, i', j'] · panel[r, kh, kw, q]` over the taps of an
output pixel.

A work item is a row panel: some output rows of one image and group.  A register tile is some pixels of one row times
the channels of one weight panel; tiles whose pixels have the same taps share a micro-kernel, and absent taps are not
computed.  A finished row panel is transposed from [pixel][channel] to rows of pixels, vector by vector, passes through
the epilogue and is written to the row-major output.

The kernel reads the sizes that do not change its form, so that convolutions of other channels or images share it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from nacre.codegen.bfloat_pairs import APART, call_exact, multiply_halves, multiply_pairs
from nacre.codegen.convolution.correlation import Correlation, TapRun, Tile, column_tiles, tap_runs, tile_runs
from nacre.codegen.convolution.epilogue import PixelWriter, in_pieces
from nacre.codegen.convolution.pack import (
    Packing,
    Room,
    copy_planes,
    pack_channels,
    packed_room,
    panel_layout,
    prefetch_run,
    prefetch_weights,
    weights_of,
)
from nacre.codegen.convolution.pairs import ChannelPairs
from nacre.codegen.convolution.sequence import (
    PLANES,
    Blocked,
    ConvolutionEpilogue,
    ConvolutionStep,
    Count,
    SequenceKernel,
    ceil_div,
    product,
    read_along,
    round_up,
    split,
    store_sums,
    total,
)
from nacre.kernel.order_convolution import CHANNEL_BLOCK, Taps, restart_blocks
from nacre.native.isa import Isa
from nacre.native.llvm_types import bits_of
from nacre.native.llvm_values import Operand, Val
from nacre.native.loop_text import LoopText
from nacre.native.text import Function

ROW_PANEL_PIXELS = 192
PANELS_IN_CACHE = 600 << 10
PANEL_IN_CACHE = 640 << 10  # bytes of a packed panel that stays in a thread's own cache
MIN_ITEMS = 8
UNROLL = 2
MOST_RUNS = 3  # runs of a tile whose loops are unrolled; more, at an edge of a large kernel, make much code
FEW_CHANNELS = 4  # channels of an image up to which no loop is written
ALIAS = 2048  # plane strides that are a multiple of this many bytes use few cache sets


def row_table(k: SequenceKernel, rows: Sequence[Taps]) -> Val:
    """A table of (first kh, number of taps, input row of the first) of every output row."""
    entries = [(taps[0][0], len(taps), taps[0][1]) if taps else (0, 0, 0) for taps in rows]
    name = f"row_taps_{len(k.module.globals)}"
    return k.table(name, [value for entry in entries for value in entry])


class CorrelationKernel:
    """Writes the kernel of one correlation; `strides` are those of the output and the input channels in w.

    With `packs`, a thread packs each panel of w before it uses it: into its scratch, or into `panels`, memory that
    stays packed between calls.  Otherwise another kernel has packed them.  With `pairs`, the images are bfloat16, an
    input is a pair of channels, and another kernel has packed the weights.
    """

    def __init__(
        self,
        isa: Isa,
        scalar: str,
        c: Correlation,
        strides: tuple[int, int],
        buffers: tuple[str, str],
        operands: Sequence[str],
        epilogue: ConvolutionEpilogue | None,
        blocked: Blocked = PLANES,
        result: str | None = None,
        pairs: ChannelPairs | None = None,
    ) -> None:
        self.pairs = pairs
        self.c, self.layout = c, panel_layout(isa, scalar, c) if pairs is None else pairs.layout
        self.strides, self.blocked = strides, blocked
        size = bits_of(scalar) // 8
        few_rows = c.inputs > 0 and c.groups * c.out_shape[0] < MIN_ITEMS <= c.groups * self.layout.panels
        self.outer_panels = self.layout.size * size > PANELS_IN_CACHE or few_rows
        fits = self.layout.panel_size * size <= PANEL_IN_CACHE
        self.packs = self.outer_panels and fits and pairs is None
        source, out = buffers
        weights = ("w", "panels") if self.packs else ("panels",)
        self.k = k = SequenceKernel(isa, scalar, f"conv_{out}", (source, *weights, out, *operands))
        self.source, self.panels, self.out, *self.operands = (
            k.pointers[name] for name in (source, "panels", out, *operands)
        )
        self.room = packed_room(k, "panels") if self.packs else None
        self.written = out
        self.vectors = self.layout.width // self.k.lanes
        self.tiles = column_tiles(c, (isa.registers - 2 - self.vectors) // self.vectors)
        self.names: dict[object, str] = {}
        self.normal: Val | None = None  # whether the packed dot instruction is exact
        self._plan_row_panels()
        self._plan_scratch()
        self._read_sizes()
        self.writer = PixelWriter(
            self.k,
            self.out,
            tuple(self.operands),
            epilogue,
            self.n["result_plane"],
            self.n["result_group"],
            in_pieces(k, c.outputs),
            self.layout.width,
            tuple(k.pointers[name] for name in read_along(epilogue)),
            blocked.result,
            result or scalar,
        )

    def _plan_row_panels(self) -> None:
        """Choose the rows of a row panel, and whether weight panels are the outer or the inner loop."""
        height, width = self.c.out_shape
        rows = max(1, min(height, ROW_PANEL_PIXELS // max(1, width)))
        while rows > 1 and ceil_div(height, rows) * self.c.groups * self._outer() < MIN_ITEMS:
            rows -= 1
        even = (n for n in range(rows, rows // 2, -1) if height % n == 0)  # row panels of equal height
        rows = next(even, rows)
        self.row_panels = ceil_div(height, rows)
        self.row_panel_rows = ceil_div(height, self.row_panels)

    def _outer(self) -> int:
        return self.layout.panels if self.outer_panels else 1

    def _plan_scratch(self) -> None:
        """Divide the scratch: the row panel by pixels, copied input rows, a packed weight panel."""
        k, c = self.k, self.c
        self.copied = round_up(self.row_panel_rows * c.out_shape[1], k.lanes) * self.layout.width
        plane = c.in_shape[0] * c.in_shape[1]
        aliases = plane * k.element % ALIAS == 0 and c.inputs > 4 and not self.blocked.source
        self.copies = aliases or self.pairs is not None
        self.plane = plane
        self.pixel_step = CHANNEL_BLOCK if self.blocked.source else 1
        size = 0
        if self.copies:
            spans = [self._span(b) for b in range(self.row_panels)]
            self.copied_rows = max((hi - lo for lo, hi in spans), default=0)
            line = 64 // k.element
            self.plane = round_up(self.copied_rows * c.in_shape[1] + line, 2 * line) + line
            size = self.plane * c.inputs
        self.packed = round_up(self.copied + size, k.lanes)
        whole = self.packed + (self.layout.panel_size if self.packs else 0)
        self.scratch = whole * k.element + 64

    def _read_sizes(self) -> None:
        """Read the sizes that do not change the form of the kernel."""
        k, c, layout = self.k, self.c, self.layout
        plane, result = c.in_shape[0] * c.in_shape[1], c.out_shape[0] * c.out_shape[1]
        self.runs = tile_runs(self.tiles, c)
        sizes = {
            "inputs": c.inputs,
            "outputs": c.outputs,
            "in_columns": c.in_shape[1],
            "in_plane": plane,
            "group": plane * (c.inputs if self.pairs is None else self.pairs.channels),
            "columns": c.out_shape[1],
            "rows": c.out_shape[0],
            "result_plane": result,
            "result_group": c.outputs * result,
            "plane": self.plane,
            "row_panels": self.row_panels,
            "row_panel_rows": self.row_panel_rows,
            "panels": layout.panels,
            "blocks": layout.blocks,
            "panel_size": layout.panel_size,
            "block_size": layout.block_size,
            "width": layout.width,
            "copied": self.copied,
            "packed": self.packed,
        }
        for i, (tile, times) in enumerate(self.runs):
            sizes |= {f"times_{i}": times, f"pixels_{i}": tile.pixels}
            if i:
                sizes |= {f"column_{i}": tile.column, f"base_{i}": tile.base}
        if self.pairs is not None:
            sizes["size"] = layout.size
        self.n = k.read(sizes)
        self.packing = Packing.read(k, layout, self.strides) if self.packs else None

    def _span(self, row_panel: int) -> tuple[int, int]:
        """The input rows that a row panel reads."""
        rows = self.c.rows[row_panel * self.row_panel_rows : (row_panel + 1) * self.row_panel_rows]
        read = [i for taps in rows for _, i in taps]
        return (min(read), max(read) + 1) if read else (0, 0)

    # ---- the kernel function

    def write(self) -> ConvolutionStep:
        """Write the whole kernel."""
        k, c, f = self.k, self.c, self.k.f
        self.row_step = c.even_step
        if self.row_step is None:
            self.row_table = row_table(k, c.rows)
        if self.copies:
            self.span_table = k.table("band_rows", [v for b in range(self.row_panels) for v in self._span(b)])
        for tile in self.tiles:
            if tile.shape not in self.names:
                name = self.names[tile.shape] = f"tile_{len(self.names)}"
                for apart in (False,) if self.pairs is None else (False, True):
                    self._micro_kernel(tile, name + APART * apart, apart)
        with f.loop("item", f["lo"], f["hi"], carry=[f.i64(-1)] if self.packs else []) as item:
            rest, row_panel = split(f, item.index, 1 if self.row_panels == 1 else self.n["row_panels"])
            if self.outer_panels:
                image, panel, group = self._outer_panel_item(rest, item)
            else:
                image, group = split(f, rest, c.groups)
                panel = None
            self.image = total(f, product(f, image, c.groups), group)  # (image, group)
            self.group = group
            self._copy_row_panel(row_panel)
            if panel is not None:
                self._row_panel(row_panel, panel)
            else:
                with f.loop("panel", 0, self.n["panels"]) as p:
                    self._row_panel(row_panel, p.index)
        items = Count(0, self.row_panels * c.groups * self._outer())
        return k.finish([self.written], items, self.scratch, self.row_panels if self.packs else 1)

    def _outer_panel_item(self, rest: Operand, item: LoopText) -> tuple[Operand, Operand, Operand]:
        """Decode (group, panel, image): the images of a panel are consecutive, and the first one packs it."""
        f = self.k.f
        image = f.binary("urem", rest, self.k.batch)
        index = f.binary("udiv", rest, self.k.batch)
        group, panel = split(f, index, self.n["panels"])
        if self.packs:
            self.fresh = f.icmp("ne", index, item.carried[0])
            item.next(index)
        return image, panel, group

    def _room(self, space: Val, done: Val) -> Val:
        """The start of a panel after a number of elements; parts that are used once share memory."""
        f = self.k.f
        if self.row_panels > 1:
            return space
        return f.select(f.icmp("eq", self.k.batch, 1), f.gep(space, f.sub(f.i64(0), done), self.k.scalar), space)

    def _pack(self, room: Room, index: Operand, blocks: tuple[Val, Val], target: Val) -> None:
        """Pack blocks of a panel, unless another row panel or an earlier call has packed them."""
        k, f = self.k, self.k.f
        assert self.packing is not None
        with f.when(f.and_(self.fresh, f.xor(room.ready, f.const("i1", True)))):
            pack_channels(k, self.packing, index, self._channels(blocks), target)

    def _channels(self, blocks: tuple[Val, Val]) -> tuple[Val, Val]:
        """The input channels of some blocks."""
        f, depth = self.k.f, self.layout.depth
        first, end = (f.smin(f.mul(b, depth), self.n["inputs"]) for b in blocks)
        return first, end

    def _copy_row_panel(self, row_panel: Operand) -> None:
        """Select the input planes, or copy the row panel's input: to planes that do not alias, or to pairs."""
        k, f, n = self.k, self.k.f, self.n
        stored = k.scalar if self.pairs is None else "i16"
        self.input = f.gep(self.source, product(f, self.image, n["group"]), stored)
        self.first_row: Operand = 0
        if not self.copies:
            return
        entry = f.gep(self.span_table, product(f, row_panel, 2), "i64")
        first, end = f.load(entry, "i64"), f.load(f.gep(entry, 1, "i64"), "i64")
        count = f.mul(f.sub(end, first), n["in_columns"])
        copy = f.gep(f["scratch"], n["copied"], k.scalar)
        start = f.gep(self.input, f.mul(first, n["in_columns"]), stored)
        if self.pairs is None:
            copy_planes(k, n, start, count, copy)
        else:
            self.least = self.pairs.copy(k, n, start, count, copy)
        self.input, self.first_row = copy, first

    def _row_panel(self, row_panel: Operand, panel: Operand) -> None:
        """Compute one row panel for one weight panel, and write it out."""
        k, f, n = self.k, self.k.f, self.n
        start = product(f, row_panel, n["row_panel_rows"])
        end = f.smin(total(f, start, n["row_panel_rows"]), n["rows"])
        index = total(f, product(f, self.group, n["panels"]), panel)
        rows = start, end
        if self.pairs is not None:
            self.normal = self.pairs.are_normal(k, n, index, self.least)
        if self.room is not None:
            room = self.room
            space, step = f.gep(f["scratch"], n["packed"], k.scalar), restart_blocks(self.layout.taps)
            with f.loop("packed", 0, n["blocks"], step) as chunk:
                blocks = chunk.index, f.smin(f.add(chunk.index, step), n["blocks"])
                done = f.mul(chunk.index, n["block_size"])
                weights = room.place(k, f.mul(f.i64(index), n["panel_size"]), self._room(space, done))
                self._pack(room, index, blocks, f.gep(weights, done, k.scalar))
                self._rows(
                    rows, weights, blocks, lambda row: self._prefetch_weights(room, index, panel, blocks[1], row, rows)
                )
        else:
            weights = f.gep(self.panels, product(f, index, n["panel_size"]), k.scalar)
            self._rows(
                rows,
                weights,
                (f.i64(0), f.smax(n["blocks"], 1)),
                lambda row: self._prefetch_results(panel, row),
            )
        self._write_row_panel(start, f.mul(f.sub(end, start), n["columns"]), panel)

    def _prefetch_weights(
        self, room: Room, index: Operand, panel: Operand, block: Val, row: Val, rows: tuple[Operand, Val]
    ) -> None:
        """Prefetch a row's share of the weights of the next chain."""
        k, f = self.k, self.k.f
        assert self.packing is not None
        last = f.icmp("eq", block, self.n["blocks"])
        with f.when(last):
            self._prefetch_results(panel, row)
        first = f.select(last, f.i64(0), block)
        following = f.select(last, f.add(f.i64(index), 1), f.i64(index))
        part, parts, step = f.sub(row, rows[0]), f.sub(rows[1], rows[0]), restart_blocks(self.layout.taps)
        with f.when(f.and_(self.fresh, room.ready)):
            block = f.add(f.mul(following, self.n["blocks"]), first)
            place = f.gep(room.data, f.mul(block, self.n["block_size"]), k.scalar)
            prefetch_run(k, place, f.mul(self.n["block_size"], step), part, parts)
        with f.when(f.and_(self.fresh, f.xor(room.ready, f.const("i1", True)))):
            channels = self._channels((first, f.add(first, step)))
            prefetch_weights(k, weights_of(k, self.packing, following, channels), part, parts)

    def _prefetch_results(self, panel: Operand, row: Val) -> None:
        """Prefetch the output of a row of results."""
        channels, _, offset = self._place(panel, row)
        self.writer.prefetch((0, channels), offset, self.n["columns"])

    def _rows(
        self,
        rows: tuple[Operand, Val],
        weights: Val,
        blocks: tuple[Val, Val],
        prefetch_row: Callable[[Val], None] | None = None,
    ) -> None:
        """Compute some blocks of channels of all rows of a row panel."""
        k, c, f, n = self.k, self.c, self.k.f, self.n
        with f.loop("row", *rows) as row:
            if prefetch_row is not None:
                prefetch_row(row.index)
            first, count, line = self._taps(row.index)
            skipped = f.mul(f.sub(line, self.first_row), f.mul(n["in_columns"], self.pixel_step))
            a = f.gep(self.input, skipped, k.scalar)
            b = f.gep(weights, product(f, product(f, first, c.kernel[1]), n["width"]), k.scalar)
            pixel = f.mul(f.sub(row.index, rows[0]), f.mul(n["columns"], n["width"]))
            self._row(a, b, f.gep(f["scratch"], pixel, k.scalar), count, blocks)

    def _taps(self, row: Val) -> tuple[Operand, Val, Val]:
        """The first kh of an output row, the number of its taps, and the input row of the first."""
        f = self.k.f
        if self.row_step is not None:
            return 0, f.i64(len(self.c.rows[0])), f.mul(row, self.row_step)
        entry = f.gep(self.row_table, f.mul(row, 3), "i64")
        first, count, line = (f.load(f.gep(entry, i, "i64"), "i64") for i in range(3))
        return first, count, line

    def _row(self, a: Val, b: Val, target: Val, count: Val, blocks: tuple[Val, Val]) -> None:
        """Compute all tiles of one output row; equal neighbours are one loop."""
        k, f, n = self.k, self.k.f, self.n
        for i, (tile, _) in enumerate(self.runs):
            with f.loop("tile", 0, n[f"times_{i}"]) as t:
                first = (n[f"column_{i}"], n[f"base_{i}"]) if i else (tile.column, tile.base)
                before = f.mul(t.index, n[f"pixels_{i}"])
                column = total(f, product(f, before, self.c.phase), first[0])
                base = total(f, product(f, before, self.c.reach), first[1])
                arguments = [
                    f.gep(a, product(f, base, self.pixel_step), k.scalar),
                    b,
                    f.gep(target, product(f, column, n["width"]), k.scalar),
                    count,
                    *blocks,
                    n["plane"],
                    n["in_columns"],
                    n["inputs"],
                ]
                call_exact(f, self.normal, self.names[tile.shape], arguments)

    # ---- the register tile

    def _micro_kernel(self, tile: Tile, name: str, apart: bool) -> None:
        """Write the micro-kernel of a tile's shape; it may multiply the halves of pairs apart."""
        self.apart = apart
        k, layout = self.k, self.layout
        sizes = dict.fromkeys(("rows", "from", "to", "plane", "columns", "inputs"), "i64")
        f = k.internal(name, {"a": "ptr", "b": "ptr", "target": "ptr", **sizes})
        span = restart_blocks(layout.taps)
        with f.loop("chain", f["from"], f["to"], span) as chain:  # at least one, which is empty without channels
            zeros = [f.zero(k.vector)] * (tile.pixels * self.vectors)
            end = f.smin(f.add(chain.index, span), f["to"] if self.c.inputs else 0)
            sums = self._blocks(f, tile, chain.index, end, zeros)
            places = [
                f.gep(
                    f["target"], i // self.vectors * self.c.phase * layout.width + i % self.vectors * k.lanes, k.scalar
                )
                for i in range(len(sums))
            ]
            store_sums(f, sums, places, f.icmp("eq", chain.index, 0))
        f.ret()

    def _blocks(self, f: Function, tile: Tile, start: Val, end: Val, sums: list[Val]) -> list[Val]:
        """Extend the chains by the channel blocks start … end."""
        k, layout, c = self.k, self.layout, self.c
        kh_step, row_step = c.row_step
        with f.loop("block", start, end, carry=sums) as block:
            first = f.mul(block.index, layout.depth)
            depth: Operand = layout.depth
            if c.inputs % layout.depth:
                depth = f.smin(f.sub(f["inputs"], first), layout.depth)
            a = f.gep(f["a"], f.mul(first, f["plane"]), k.scalar)
            b = f.gep(f["b"], f.mul(block.index, layout.block_size), k.scalar)
            with f.loop("kh", 0, f["rows"], carry=block.carried) as kh:
                ar = f.gep(a, f.mul(f.mul(kh.index, row_step * self.pixel_step), f["columns"]), k.scalar)
                br = f.gep(b, product(f, kh.index, kh_step * c.kernel[1] * layout.width), k.scalar)
                current = kh.carried
                runs = tap_runs(tile.taps)
                for run in runs:
                    current = self._run(f, run, ar, br, depth, UNROLL if len(runs) <= MOST_RUNS else 1, current)
                kh.next(*current)
            block.next(*kh.results)
        return block.results

    def _run(self, f: Function, run: TapRun, a: Val, b: Val, depth: Operand, unroll: int, sums: list[Val]) -> list[Val]:
        """Extend the chains by a run of taps, each over the channels of the block."""
        k, layout = self.k, self.layout
        channel, step = layout.taps * layout.width, self._channel_step(f)
        picked = [p * self.vectors + v for p in run.pixels for v in range(self.vectors)]
        with f.loop("kw", 0, run.count, carry=[sums[i] for i in picked]) as kw:
            at = total(f, product(f, kw.index, run.column_step), run.column)
            bt = total(f, product(f, kw.index, run.kw_step * layout.width), run.kw * layout.width)
            pa, pb = f.gep(a, product(f, at, self.pixel_step), k.scalar), f.gep(b, bt, k.scalar)
            if unroll > 1 and isinstance(depth, int) and depth <= FEW_CHANNELS:
                unroll = depth
            elif not isinstance(depth, int) or depth % unroll:
                unroll = 1
            with f.loop("c", 0, depth, unroll, carry=kw.carried) as ch:
                ac = f.gep(pa, f.mul(ch.index, step), k.scalar)
                bc = f.gep(pb, f.mul(ch.index, channel), k.scalar)
                current = ch.carried
                for u in range(unroll):
                    au = f.gep(ac, product(f, u, step), k.scalar)
                    bu = f.gep(bc, u * channel, k.scalar)
                    current = self._products(f, run.pixels, au, bu, current)
                ch.next(*current)
            kw.next(*ch.results)
        result = list(sums)
        for i, value in zip(picked, kw.results, strict=True):
            result[i] = value
        return result

    def _channel_step(self, f: Function) -> Operand:
        """The elements from one channel to the next."""
        return 1 if self.blocked.source else f["plane"]

    def _products(self, f: Function, pixels: Sequence[int], a: Val, b: Val, sums: Sequence[Val]) -> list[Val]:
        """One channel of one tap: pixels times lanes."""
        k = self.k
        lanes = [f.load(f.gep(b, v * k.lanes, k.scalar), k.vector) for v in range(self.vectors)]
        result: list[Val] = []
        for i, pixel in enumerate(pixels):
            value = f.load(f.gep(a, pixel * self.c.reach * self.pixel_step, k.scalar), k.scalar)
            spread = f.splat(value, k.lanes)
            for v, weight in enumerate(lanes):
                result.append(self._multiply_add(f, spread, weight, sums[i * self.vectors + v]))
        return result

    def _multiply_add(self, f: Function, a: Val, b: Val, c: Val) -> Val:
        """a · b + c, or the sum with the products of both halves of pairs."""
        if self.pairs is None:
            return f.fma(a, b, c)
        return multiply_halves(f, a, b, c) if self.apart else multiply_pairs(f, self.k.isa, a, b, c)

    # ---- output

    def _write_row_panel(self, start: Operand, count: Val, panel: Operand) -> None:
        """Write the row panel's first `count` pixels, which begin at row `start`."""
        f = self.k.f
        channels, channel, offset = self._place(panel, start)
        self.writer.write(f["scratch"], count, channels, channel, offset)

    def _place(self, panel: Operand, row: Operand) -> tuple[Val, Operand, Operand]:
        """The number of a panel's channels, the first of them, and where its row of the result begins."""
        f, n = self.k.f, self.n
        lane = product(f, panel, n["width"])
        channels = f.smin(f.sub(n["outputs"], lane), n["width"])
        offset = self.writer.offset(self.image, lane, product(f, row, n["columns"]))
        return channels, total(f, product(f, self.group, n["outputs"]), lane), offset
