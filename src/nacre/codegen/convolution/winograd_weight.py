"""Winograd's gradient of the filter as native kernels, with the bits of `nacre.kernel.order_winograd`.

A work item is a block of images for some input channels and a panel of output channels.  It transforms their pixels and
the result's gradient, and writes the sums of their products at the 36 points to a workspace.  A second kernel adds the
sums of the blocks and transforms them to taps.
"""

from __future__ import annotations

from math import gcd

from nacre.base.cached_property import cached_property
from nacre.base.records import dataclass
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
from nacre.codegen.convolution.winograd_domain import WinogradKernel, store_domain
from nacre.codegen.convolution.winograd_filters import Vectors
from nacre.codegen.convolution.winograd_plan import POINTS, WinogradPlan
from nacre.kernel.order_winograd import (
    BLOCK_IMAGES,
    FILTER_SCALE,
    PATCH,
    RESULT_SCALE,
    TILE,
    Sides,
    both_ways,
    chain_rows,
    of_gradient,
    of_sums,
)
from nacre.native.isa import Isa
from nacre.native.llvm_values import Operand, Val

CHUNK = 32  # input channels of a work item


@dataclass(frozen=True)
class WinogradWeightPlan(WinogradPlan):
    """The division of the work; a row panel is the rows of tiles of a chain."""

    @property
    def chunk(self) -> int:
        """Input channels of a work item."""
        return min(CHUNK, round_up(max(1, self.sides.inputs), self.lanes))

    @cached_property
    def by_row_panel(self) -> bool:
        """Always false: work items are not row panels."""
        return False

    @cached_property
    def images(self) -> int:
        """Always one: images are processed one after another."""
        return 1

    @cached_property
    def row_panel(self) -> int:
        """Rows of tiles of a chain."""
        down, across = self.sides.tiles
        return min(down, chain_rows(across))

    @property
    def tile_channels(self) -> int:
        """Input channels of a register tile."""
        most = (self.registers - 4) // self.vectors
        return gcd(1 << most.bit_length() - 1, self.chunk)

    @property
    def pairs(self) -> int:
        """Chunks of input channels times panels of output channels, of all groups."""
        return self.sides.groups * self.chunks * self.panels

    @property
    def size(self) -> int:
        """Elements of the sums of one pair."""
        return POINTS * self.chunk * self.width


def winograd_weight(isa: Isa, scalar: str, sides: Sides) -> Steps:
    """The steps from x and dy to dw, where `sides` are those of the forward convolution."""
    if 0 in (sides.groups, sides.inputs, sides.outputs):
        return Steps(())
    sizes = SequenceKernel(isa, scalar, "sizes", ())
    plan = WinogradWeightPlan(sides, sizes.lanes, isa.registers, sizes.element)
    whole = plan.pairs * plan.size * plan.element
    steps = _sums_step(isa, scalar, plan), _taps_step(isa, scalar, plan)
    return Steps(steps, {"sums": Count(whole, ceil_div(whole, BLOCK_IMAGES))})


def _pair(k: SequenceKernel, plan: WinogradWeightPlan, pair: Operand) -> tuple[Operand, Operand, Operand]:
    """The group, the chunk and the panel of a pair."""
    rest, panel = split(k.f, pair, plan.panels)
    group, chunk = split(k.f, rest, plan.chunks)
    return group, chunk, panel


# ---- sums over tiles


def _sums_step(isa: Isa, scalar: str, plan: WinogradWeightPlan) -> ConvolutionStep:
    """The kernel whose work items are a pair and an image; the first image of a block represents the block."""
    k = SequenceKernel(isa, scalar, "winograd_dw", ("x", "dy", "sums"))
    w, f, sides = WinogradKernel(k, plan), k.f, plan.sides
    w.write_pixels()
    _write_gradients(k, plan)
    _write_products(k, plan)
    v_step, z_step = plan.block * plan.chunk + k.lanes, plan.block * plan.width + k.lanes
    lines, v = w.scratch(plan.lines), w.scratch(POINTS * v_step)
    rows, z = w.scratch(_gradient_lines(plan)), w.scratch(POINTS * z_step)
    w.clear(lines)
    with f.loop("clear_rows", 0, _gradient_lines(plan), k.lanes) as at:
        f.store(f.zero(k.vector), f.gep(rows, at.index, k.scalar))
    height, width = sides.in_shape
    with f.loop("item", f["lo"], f["hi"]) as item:
        pair, first = f.binary("udiv", item.index, k.batch), f.binary("urem", item.index, k.batch)
        block, place = split(f, first, BLOCK_IMAGES)
        group, chunk, panel = _pair(k, plan, pair)
        channel = product(f, chunk, plan.chunk)
        count = f.smin(f.sub(f.i64(sides.inputs), channel), plan.chunk)
        sums = f.gep(k.pointers["sums"], f.mul(f.add(f.mul(f.i64(block), plan.pairs), pair), plan.size), k.scalar)
        end = f.select(f.icmp("eq", f.i64(place), 0), f.smin(f.add(first, BLOCK_IMAGES), k.batch), first)
        with f.loop("image", first, end) as image, f.loop("band", 0, plan.row_panels) as row_panel:
            planes = total(f, f.mul(image.index, sides.groups), group)
            start = total(f, f.mul(planes, sides.inputs), channel)
            source = f.gep(k.pointers["x"], f.mul(start, height * width), k.scalar)
            w.row_panel_pixels(source, lines, row_panel.index, (0, count), v, v_step)
            _row_panel_gradients(w, plan, rows, (planes, panel, row_panel.index), z, z_step)
            done = f.smin(f.sub(f.i64(sides.tiles[0]), f.mul(row_panel.index, plan.row_panel)), plan.row_panel)
            fresh = f.and_(f.icmp("eq", image.index, first), f.icmp("eq", row_panel.index, 0))
            with f.loop("point", 0, POINTS) as p, f.loop("c", 0, plan.chunk, plan.tile_channels) as c:
                f.call(
                    "products",
                    "void",
                    [
                        f.gep(v, f.add(f.mul(p.index, v_step), c.index), k.scalar),
                        f.gep(z, f.mul(p.index, z_step), k.scalar),
                        f.gep(sums, f.mul(f.add(f.mul(p.index, plan.chunk), c.index), plan.width), k.scalar),
                        f.mul(done, sides.tiles[1]),
                        fresh,
                    ],
                )
    return w.finish("sums", Count(0, plan.pairs), BLOCK_IMAGES)


def _gradient_lines(plan: WinogradWeightPlan) -> int:
    """Elements of a row panel of the result's gradient, by channel."""
    return TILE * plan.row_panel * TILE * plan.sides.tiles[1] * plan.width


def _write_gradients(k: SequenceKernel, plan: WinogradWeightPlan) -> None:
    """Write @gradients(source, to, step): one vector of a tile's 16 pixels as values at the points."""
    f = k.internal("gradients", {"source": "ptr", "to": "ptr", "step": "i64"})
    vectors, line = Vectors(f, k.vector), TILE * plan.sides.tiles[1]
    grid = [
        [
            vectors.mul(f.load(f.gep(f["source"], (i * line + j) * plan.width, k.scalar), k.vector), RESULT_SCALE[i][j])
            for j in range(TILE)
        ]
        for i in range(TILE)
    ]
    store_domain(k, f, both_ways(vectors, of_gradient, grid), f["to"], f["step"])
    f.ret()


def _row_panel_gradients(
    w: WinogradKernel, plan: WinogradWeightPlan, rows: Val, at: tuple[Operand, Operand, Val], z: Val, step: int
) -> None:
    """Transform a row panel of the result's gradient, of (image and group, panel, row panel)."""
    k, f, (height, width), (down, across) = w.k, w.k.f, plan.sides.out_shape, plan.sides.tiles
    planes, panel, row_panel = at
    lane = product(f, panel, plan.width)
    lanes = f.smin(f.sub(f.i64(plan.sides.outputs), lane), plan.width)
    source = f.gep(
        k.pointers["dy"], f.mul(total(f, f.mul(f.i64(planes), plan.sides.outputs), lane), height * width), k.scalar
    )
    start = f.mul(row_panel, plan.row_panel)
    count = f.smin(f.sub(f.i64(down), start), plan.row_panel)
    line = TILE * across * plan.width
    with f.loop("row", 0, f.mul(count, TILE)) as row:
        here, number = f.gep(rows, f.mul(row.index, line), k.scalar), f.add(f.mul(start, TILE), row.index)
        inside = f.icmp("slt", number, height)
        with f.when(inside):
            transpose_matrix(
                k,
                f,
                f.gep(source, f.mul(number, width), k.scalar),
                height * width,
                lanes,
                f.i64(width),
                here,
                plan.width,
            )
        with f.when(f.xor(inside, f.const("i1", True))), f.loop("zero", 0, line, k.lanes) as zero:
            f.store(f.zero(k.vector), f.gep(here, zero.index, k.scalar))
    lane_parts = 0, plan.width, k.lanes
    with f.loop("down", 0, count) as y, f.loop("across", 0, across) as x, f.loop("lane", *lane_parts) as part:
        place = f.add(f.mul(y.index, TILE * line), f.mul(x.index, TILE * plan.width))
        tile = f.add(f.mul(y.index, across), x.index)
        f.call(
            "gradients",
            "void",
            [
                f.gep(rows, f.add(place, part.index), k.scalar),
                f.gep(z, f.add(f.mul(tile, plan.width), part.index), k.scalar),
                f.i64(step),
            ],
        )


def _write_products(k: SequenceKernel, plan: WinogradWeightPlan) -> None:
    """Write @products(v, z, sums, tiles, first): some input channels times a panel, summed over tiles."""
    f = k.internal("products", {"v": "ptr", "z": "ptr", "sums": "ptr", "tiles": "i64", "first": "i1"})
    n, vectors = plan.tile_channels, plan.vectors
    with f.loop("tile", 0, f["tiles"], carry=[f.zero(k.vector)] * (n * vectors)) as t:
        v, z = (f.gep(f[name], f.mul(t.index, size), k.scalar) for name, size in (("v", plan.chunk), ("z", plan.width)))
        lanes = [f.load(f.gep(z, j * k.lanes, k.scalar), k.vector) for j in range(vectors)]
        following: list[Val] = []
        for i in range(n):
            spread = f.splat(f.load(f.gep(v, i, k.scalar), k.scalar), k.lanes)
            following += [f.fma(spread, x, t.carried[i * vectors + j]) for j, x in enumerate(lanes)]
        t.next(*following)
    places = [f.gep(f["sums"], i * k.lanes, k.scalar) for i in range(n * vectors)]
    store_sums(f, t.results, places, f["first"])
    f.ret()


# ---- from sums to taps


def _taps_step(isa: Isa, scalar: str, plan: WinogradWeightPlan) -> ConvolutionStep:
    """The kernel whose work items are an input channel of a pair."""
    k = SequenceKernel(isa, scalar, "winograd_dw_taps", ("sums", "dw"))
    w, f, sides = WinogradKernel(k, plan), k.f, plan.sides
    _write_taps(k)
    points, taps = w.scratch(POINTS * k.lanes), w.scratch(9 * k.lanes)
    blocks = f.binary("udiv", f.add(k.batch, BLOCK_IMAGES - 1), BLOCK_IMAGES)
    with f.loop("item", f["lo"], f["hi"]) as item, f.loop("part", 0, plan.width, k.lanes) as part:
        pair, c = split(f, item.index, plan.chunk)
        group, chunk, panel = _pair(k, plan, pair)
        channel = total(f, product(f, chunk, plan.chunk), c)
        lane = f.add(part.index, product(f, panel, plan.width))
        count = f.smin(f.sub(f.i64(sides.outputs), lane), k.lanes)
        with f.when(f.icmp("slt", channel, sides.inputs)):
            at = total(f, product(f, pair, plan.size), product(f, c, plan.width), part.index)
            with f.loop("point", 0, POINTS) as p:
                source = f.gep(k.pointers["sums"], f.add(f.mul(p.index, plan.chunk * plan.width), at), k.scalar)
                value = _added(k, source, blocks, plan.pairs * plan.size)
                f.store(value, f.gep(points, f.mul(p.index, k.lanes), k.scalar))
            f.call("taps", "void", [points, taps])
            first = f.add(f.mul(f.add(lane, product(f, group, sides.outputs)), sides.inputs), channel)
            to = f.gep(k.pointers["dw"], f.mul(first, 9), k.scalar)
            with f.loop("lane", 0, count) as out, f.loop("tap", 0, 9) as tap:
                value = f.load(f.gep(taps, f.add(f.mul(tap.index, k.lanes), out.index), k.scalar), k.scalar)
                f.store(value, f.gep(to, f.add(f.mul(out.index, sides.inputs * 9), tap.index), k.scalar))
    return w.finish("dw", Count(plan.pairs * plan.chunk))


def _added(k: SequenceKernel, source: Val, blocks: Val, step: int) -> Val:
    """The sum of the blocks' vectors, in order."""
    f = k.f
    with f.loop("block", 0, blocks, carry=[f.zero(k.vector)]) as block:
        value = f.load(f.gep(source, f.mul(block.index, step), k.scalar), k.vector)
        block.next(f.select(f.icmp("eq", block.index, 0), value, f.fadd(block.carried[0], value)))
    return block.results[0]


def _write_taps(k: SequenceKernel) -> None:
    """Write @taps(source, to): one vector of sums at the points as 9 taps."""
    f = k.internal("taps", {"source": "ptr", "to": "ptr"})
    vectors = Vectors(f, k.vector)
    grid = [
        [
            vectors.mul(f.load(f.gep(f["source"], (i * PATCH + j) * k.lanes, k.scalar), k.vector), FILTER_SCALE[i][j])
            for j in range(PATCH)
        ]
        for i in range(PATCH)
    ]
    for i, row in enumerate(both_ways(vectors, of_sums, grid)):
        for j, value in enumerate(row):
            f.store(value, f.gep(f["to"], (i * 3 + j) * k.lanes, k.scalar))
    f.ret()
