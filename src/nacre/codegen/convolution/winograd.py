"""Winograd's 3×3 convolution and its gradient as native kernels, with the bits of `nacre.kernel.order_winograd`.

Where all of a group's filters fit the cache, they are transformed first, and a work item is a row panel of tiles: it
transforms its pixels and multiplies them with every panel.  Otherwise the pixels are transformed first, and a work item
is a panel of filters: it transforms its filters, which are then in cache, and multiplies all tiles.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from nacre.base.records import dataclass
from nacre.codegen.convolution.epilogue import PixelWriter, in_pieces
from nacre.codegen.convolution.pack import packed_panels, packed_room
from nacre.codegen.convolution.sequence import (
    PLANES,
    Blocked,
    ConvolutionEpilogue,
    ConvolutionStep,
    Count,
    SequenceKernel,
    Steps,
    ceil_div,
    product,
    read_along,
    split,
    total,
)
from nacre.codegen.convolution.winograd_domain import WinogradKernel
from nacre.codegen.convolution.winograd_few import FewTiles
from nacre.codegen.convolution.winograd_plan import POINTS, WinogradPlan
from nacre.kernel.order_winograd import PATCH, Sides
from nacre.native.isa import Isa
from nacre.native.llvm_values import Operand, Val

FEW_TILES = 16  # tiles of a block up to which filters are transformed at half a row of points at a time
STAGED = 16  # channels of filters that a work item stages
DEPTHS = 16, 32  # channels whose filters are transformed at a time, for a block of few tiles and of more


@dataclass(frozen=True)
class WinogradCall:
    """The buffers of pixels and results, an epilogue and the buffers that it reads."""

    isa: Isa
    scalar: str
    sides: Sides
    source: str
    out: str
    epilogue: ConvolutionEpilogue | None
    operands: tuple[str, ...]
    blocked: Blocked


def winograd(
    isa: Isa,
    scalar: str,
    sides: Sides,
    source: str,
    out: str,
    epilogue: ConvolutionEpilogue | None = None,
    operands: Sequence[str] = (),
    blocked: Blocked = PLANES,
) -> Steps:
    """The steps of one correlation; buffers `source`, w, `out` and the operands."""
    if 0 in (sides.groups, sides.outputs, *sides.out_shape):
        return Steps(())
    call = WinogradCall(isa, scalar, sides, source, out, epilogue, tuple(operands), blocked)
    sizes = SequenceKernel(isa, scalar, "sizes", ())
    plan = WinogradPlan(sides, sizes.lanes, isa.registers, sizes.element)
    return _by_row_panel(call, plan) if plan.by_row_panel else _by_panel(call, plan)


def _result_writer(call: WinogradCall, w: WinogradKernel) -> tuple[PixelWriter, Val]:
    """The writer of results, and scratch memory for them by pixel."""
    k, plan = w.k, w.plan
    height, width = plan.sides.out_shape
    operands = tuple(k.pointers[name] for name in call.operands)
    along = tuple(k.pointers[name] for name in read_along(call.epilogue))
    writer = PixelWriter(
        k,
        k.pointers[call.out],
        operands,
        call.epilogue,
        height * width,
        plan.sides.outputs * height * width,
        in_pieces(k, plan.sides.outputs),
        plan.width,
        along,
        call.blocked.result,
        k.scalar,
    )
    return writer, w.scratch(0 if call.blocked.result else plan.pixels * plan.width)


def _by_row_panel(call: WinogradCall, plan: WinogradPlan) -> Steps:
    """Filters to a workspace, then row panels of tiles."""
    size = plan.sides.groups * plan.panels * plan.chunks * POINTS * plan.filter_step
    return Steps((_filters_step(call, plan), _row_panels_step(call, plan)), {"filters": Count(size * plan.element)})


def _filters_step(call: WinogradCall, plan: WinogradPlan) -> ConvolutionStep:
    """The kernel that transforms all filters; a work item is some channels of a panel."""
    w = WinogradKernel(SequenceKernel(call.isa, call.scalar, f"winograd_filters_{call.out}", ("w", "filters")), plan)
    k, f = w.k, w.k.f
    w.write_filters(PATCH)
    stage = w.scratch(9 * STAGED * plan.width)
    parts = max(1, ceil_div(plan.sides.inputs, STAGED))
    with f.loop("item", f["lo"], f["hi"]) as item:
        index, part = split(f, item.index, parts)
        start = f.i64(product(f, part, STAGED))
        end = f.smin(f.add(start, STAGED), plan.sides.inputs)
        chunk, channel = split(f, start, plan.chunk)
        first = total(f, product(f, index, plan.chunks), chunk)
        to = total(f, product(f, first, POINTS * plan.filter_step), product(f, channel, plan.width))
        w.stage_filters(index, (start, end), stage)
        with f.loop("row", 0, PATCH) as row:
            point = f.mul(row.index, PATCH)
            place = f.add(f.mul(point, plan.filter_step), to)
            w.transform_filters(
                point,
                PATCH,
                stage,
                f.gep(k.pointers["filters"], place, k.scalar),
                plan.filter_step,
                f.sub(end, start),
                stage,
            )
    return w.finish("filters", Count(plan.sides.groups * plan.panels * parts))


def _row_panels_step(call: WinogradCall, plan: WinogradPlan) -> ConvolutionStep:
    """The kernel whose work items are row panels of tiles of one image and group."""
    k = SequenceKernel(
        call.isa, call.scalar, f"winograd_{call.out}", (call.source, "filters", call.out, *call.operands)
    )
    w, f, sides = WinogradKernel(k, plan, call.blocked), k.f, plan.sides
    w.write_pixels()
    w.write_rows(1)
    w.write_results()
    step = plan.block * plan.chunk + k.lanes
    lines, v = w.scratch(plan.lines), w.scratch(plan.chunks * POINTS * step)
    spaces = w.sums_space()
    writer, by_pixel = _result_writer(call, w)
    w.clear(lines)
    (height, width), across = sides.in_shape, sides.tiles[1]
    with f.loop("item", f["lo"], f["hi"]) as item:
        planes, row_panel = split(f, item.index, plan.row_panels)
        _, group = split(f, planes, sides.groups)
        image = f.gep(k.pointers[call.source], product(f, planes, sides.inputs * height * width), k.scalar)
        w.row_panel_pixels(image, lines, row_panel, (0, sides.inputs), v, step)
        rows = f.smin(f.sub(f.i64(sides.tiles[0]), product(f, row_panel, plan.row_panel)), plan.row_panel)
        with f.loop("panel", 0, plan.panels) as panel:
            first = product(f, total(f, product(f, group, plan.panels), panel.index), plan.chunks)
            with f.loop("chunk", 0, plan.chunks) as c:
                u = f.gep(k.pointers["filters"], f.mul(f.add(c.index, first), POINTS * plan.filter_step), k.scalar)

                channel = f.mul(c.index, plan.chunk)
                channels = channel, f.smin(f.add(channel, plan.chunk), sides.inputs)
                vc = f.gep(v, f.mul(c.index, POINTS * step), k.scalar)
                with f.loop("point", 0, POINTS) as p:
                    with f.when(f.icmp("eq", c.index, plan.chunks - 1)):
                        w.prefetch_results(writer, planes, panel.index, row_panel, p.index, POINTS)
                    up = f.gep(u, f.mul(p.index, plan.filter_step), k.scalar)
                    w.multiply(
                        f.gep(vc, f.mul(p.index, step), k.scalar),
                        step,
                        up,
                        plan.filter_step,
                        spaces,
                        f.mul(rows, across),
                        channels,
                        (p.index, f.add(p.index, 1)),
                    )
            w.row_panel_results(writer, spaces[0], by_pixel, planes, group, panel.index, row_panel)
    return w.finish(call.out, Count(0, plan.row_panels * sides.groups))


def _by_panel(call: WinogradCall, plan: WinogradPlan) -> Steps:
    """Pixels to a workspace, then panels of filters."""
    points = POINTS * plan.sides.groups * plan.chunks * plan.element
    space = Count(points * plan.lanes, points * plan.image_tiles * plan.chunk)
    staged = plan.sides.groups * plan.panels * plan.sides.inputs * 9 * plan.width * plan.element
    filters = replace(plan.filters, depth=max(1, plan.sides.inputs))
    fills = {"staged": ("w", partial(packed_panels, filters, plan.sides.strides, plan.element))}
    return Steps(
        (_pixels_step(call, plan), _Panels(call, plan).write()), {"pixels": space}, {"staged": ("w", staged)}, fills
    )


def _pixels(k: SequenceKernel, plan: WinogradPlan, group: Operand, tile: Operand) -> tuple[Val, Val]:
    """The address of a tile's values among all images, and the step from one point to the next."""
    f = k.f
    step = f.add(f.mul(k.batch, plan.image_tiles * plan.chunk), k.lanes)
    at = total(f, product(f, group, f.mul(step, POINTS * plan.chunks)), product(f, tile, plan.chunk))
    return f.gep(k.pointers["pixels"], at, k.scalar), step


def _pixels_step(call: WinogradCall, plan: WinogradPlan) -> ConvolutionStep:
    """The kernel that transforms all pixels; a work item is a vector of channels of an image and group."""
    k = SequenceKernel(call.isa, call.scalar, f"winograd_pixels_{call.out}", (call.source, "pixels"))
    w, f, sides = WinogradKernel(k, plan, call.blocked), k.f, plan.sides
    w.write_pixels()
    lines = w.scratch(plan.lines)
    w.clear(lines)
    parts = max(1, ceil_div(sides.inputs, k.lanes))
    height, width = sides.in_shape
    with f.loop("item", f["lo"], f["hi"]) as item, f.loop("band", 0, plan.row_panels) as row_panel:
        planes, part = split(f, item.index, parts)
        image, group = split(f, planes, sides.groups)
        start = f.i64(product(f, part, k.lanes))
        end = f.smin(f.add(start, k.lanes), sides.inputs)
        tile = total(f, product(f, image, plan.image_tiles), f.mul(row_panel.index, plan.row_panel * sides.tiles[1]))
        to, step = _pixels(k, plan, group, tile)
        source = f.gep(k.pointers[call.source], product(f, planes, sides.inputs * height * width), k.scalar)
        w.row_panel_pixels(source, lines, row_panel.index, (start, end), to, step)
    return w.finish("pixels", Count(0, sides.groups * parts))


class _Panels:
    """The kernel whose work items are panels of filters, which are transformed again for each block of tiles.

    A few channels' filters are staged, possibly in memory that stays packed between calls.  They are transformed at
    some points at a time, so that the next factors are in the L1 cache.
    """

    def __init__(self, call: WinogradCall, plan: WinogradPlan) -> None:
        buffers = "pixels", "w", call.out, *call.operands, "staged"
        self.k = k = SequenceKernel(call.isa, call.scalar, f"winograd_{call.out}", buffers)
        self.w, self.out = WinogradKernel(k, plan, call.blocked), call.out
        w = self.w
        self.points = (PATCH,) if plan.image_tiles > FEW_TILES else (PATCH // 2, PATCH)
        for points in self.points:
            w.write_filters(points)
        w.write_rows(self.points[0])
        w.write_results()
        self.few = FewTiles(w)
        self.step_u = (max(DEPTHS) + 1) * plan.width  # not a multiple of a page
        self.stage, self.u = w.scratch(9 * max(DEPTHS) * plan.width), w.scratch(PATCH * self.step_u)
        self.spaces = w.sums_space()
        self.writer, self.by_pixel = _result_writer(call, w)
        self.room = packed_room(k, "staged")
        self.unready = k.f.xor(self.room.ready, k.f.const("i1", True))

    def write(self) -> ConvolutionStep:
        """Write the whole kernel."""
        k, plan, f = self.k, self.w.plan, self.k.f
        with f.loop("item", f["lo"], f["hi"]) as item:
            group, panel = split(f, item.index, plan.panels)
            with f.loop("image", 0, k.batch, plan.images) as image, f.loop("band", 0, plan.row_panels) as row_panel:
                self._block(item.index, group, panel, image.index, row_panel.index)
        return self.w.finish(self.out, Count(plan.sides.groups * plan.panels))

    def _block(self, item: Val, group: Operand, panel: Operand, image: Val, row_panel: Val) -> None:
        """Multiply a block of tiles, a row panel of some images, with a panel of filters, and write the results."""
        k, w, plan, f = self.k, self.w, self.w.plan, self.k.f
        sides, start = plan.sides, f.mul(row_panel, plan.row_panel)
        rows = f.smin(f.sub(f.i64(sides.tiles[0]), start), plan.row_panel)
        images = f.smin(f.sub(k.batch, image), plan.images)
        v, step = _pixels(k, plan, group, f.add(f.mul(image, plan.image_tiles), f.mul(start, sides.tiles[1])))
        tiles = f.mul(f.mul(rows, sides.tiles[1]), images)
        depth = f.select(f.icmp("sgt", tiles, FEW_TILES), f.i64(DEPTHS[1]), f.i64(DEPTHS[0]))
        ends = f.and_(f.icmp("sge", f.add(image, plan.images), k.batch), f.icmp("eq", row_panel, plan.row_panels - 1))

        def planes(each: Val) -> Operand:
            return total(f, product(f, f.add(image, each), sides.groups), group)

        with f.loop("channel", 0, sides.inputs, depth) as part:
            end = f.smin(f.add(part.index, depth), sides.inputs)
            last = f.icmp("eq", end, sides.inputs)
            following = f.select(f.and_(last, ends), f.add(item, 1), item), f.select(last, f.i64(0), end)

            def prefetch(share: Val, shares: int) -> None:
                with f.when(self.unready):
                    w.prefetch_filters(*following, depth, share, shares)
                with f.when(last), f.loop("asked", 0, images) as each:
                    w.prefetch_results(self.writer, planes(each.index), panel, row_panel, share, shares)

            self._part(item, (part.index, end), following, (v, step, tiles), prefetch)
        with f.loop("each", 0, images) as each:
            sums = f.gep(self.spaces[0], f.mul(each.index, plan.image_tiles * plan.width), k.scalar)
            w.row_panel_results(self.writer, sums, self.by_pixel, planes(each.index), group, panel, row_panel)

    def _part(
        self,
        item: Val,
        channels: tuple[Val, Val],
        following: tuple[Val, Val],
        block: tuple[Val, Val, Val],
        prefetch: Callable[[Val, int], None],
    ) -> None:
        """Multiply a block (its pixels' values, the step of points, its tiles) over channels start … end of a chunk.

        Filters from the item and channel `following` on are prefetched meanwhile.
        """
        k, w, f, (v, step, tiles) = self.k, self.w, self.k.f, block
        chunk, channel = split(f, channels[0], w.plan.chunk)
        staged = self.room.place(k, w.staged(item, channels[0]), self.stage)
        with f.when(self.unready):
            w.stage_filters(item, channels, staged)
        next_filters = f.select(self.room.ready, f.gep(self.room.data, w.staged(*following), k.scalar), staged)
        v = f.gep(v, total(f, product(f, product(f, chunk, POINTS), step), channel), k.scalar)
        few = self.few.taken(tiles)
        with f.when(few), f.loop("row", 0, PATCH) as row:
            prefetch(row.index, PATCH)
            row_v = f.gep(v, f.mul(f.mul(row.index, PATCH), step), k.scalar)
            self.few.multiply(row.index, staged, next_filters, row_v, step, self.spaces, tiles, channels)
        rest = f.xor(few, f.const("i1", True))
        many = f.icmp("sgt", tiles, FEW_TILES if len(self.points) > 1 else 0)
        for points in self.points:
            chosen = f.and_(rest, many if points == PATCH else f.xor(many, f.const("i1", True)))
            with f.when(chosen), f.loop("point", 0, POINTS, points) as point:
                prefetch(f.binary("udiv", point.index, points), POINTS // points)
                w.transform_filters(
                    point.index, points, staged, self.u, self.step_u, f.sub(channels[1], channels[0]), next_filters
                )
                w.multiply(
                    f.gep(v, f.mul(point.index, step), k.scalar),
                    step,
                    self.u,
                    self.step_u,
                    self.spaces,
                    tiles,
                    channels,
                    (point.index, f.add(point.index, points)),
                )
