"""Winograd's 3×3 convolution and its gradient as native kernels, with the bits of `nacre.kernel.order_winograd`.

Where all of a group's filters fit the cache, they are transformed first, and a work item is a band of tiles: it
transforms its pixels and multiplies them with every panel.  Otherwise the pixels are transformed first, and a work
item is a panel: it transforms its filters, which are then never read from memory again, and multiplies all tiles.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nacre.codegen.convolve_finish import Finish
from nacre.codegen.convolve_pack import ask_ahead, weights_of
from nacre.codegen.convolve_points import POINTS, STAGED, Plan, WinogradKernel
from nacre.codegen.convolve_steps import (
    Count,
    Epilogue,
    Kernel,
    Step,
    Steps,
    ceil_div,
    product,
    read_along,
    split,
    total,
)
from nacre.codegen.isa import Isa
from nacre.kernel.order_winograd import Sides
from nacre.native.text import Operand, Val

PANEL_IN_CACHE = 640 << 10  # of filters, beside a block's values and sums


@dataclass(frozen=True)
class Call:
    """What is computed: buffers of pixels and results, an epilogue and the buffers that it reads."""

    isa: Isa
    scalar: str
    sides: Sides
    source: str
    out: str
    epilogue: Epilogue | None
    operands: tuple[str, ...]


def winograd(isa: Isa, scalar: str, sides: Sides, source: str, out: str, epilogue: Epilogue | None = None,
             operands: Sequence[str] = ()) -> Steps:
    """The steps of one correlation; buffers `source`, w, `out` and the operands."""
    if 0 in (sides.groups, sides.outputs, *sides.out_shape):
        return Steps(())
    call = Call(isa, scalar, sides, source, out, epilogue, tuple(operands))
    sizes = Kernel(isa, scalar, "sizes", ())
    plan = Plan(sides, sizes.lanes, isa.registers, sizes.element)
    return _by_band(call, plan) if plan.by_band else _by_panel(call, plan)


def _finish(call: Call, w: WinogradKernel) -> tuple[Finish, Val]:
    """How results are written, and room for them by pixel."""
    k, plan = w.k, w.plan
    height, width = plan.sides.out_shape
    operands = tuple(k.pointers[name] for name in call.operands)
    along = tuple(k.pointers[name] for name in read_along(call.epilogue))
    finish = Finish(k, k.pointers[call.out], operands, call.epilogue, height * width, plan.sides.outputs, plan.width,
                    along)
    return finish, w.scratch(plan.pixels * plan.width)


def _by_band(call: Call, plan: Plan) -> Steps:
    """Filters to a workspace, then bands of tiles."""
    size = plan.sides.groups * plan.panels * plan.chunks * POINTS * plan.filter_step
    return Steps((_filters_step(call, plan), _bands_step(call, plan)), {"filters": Count(size * plan.element)})


def _filters_step(call: Call, plan: Plan) -> Step:
    """The kernel that transforms all filters; a work item is some channels of a panel."""
    w = WinogradKernel(Kernel(call.isa, call.scalar, f"winograd_filters_{call.out}", ("w", "filters")), plan)
    k, f = w.k, w.k.f
    w.write_filters()
    stage = w.scratch(9 * STAGED * plan.width)
    parts = max(1, ceil_div(plan.sides.inputs, STAGED))
    with f.loop("item", f["lo"], f["hi"]) as item:
        index, part = split(f, item.index, parts)
        group, panel = split(f, index, plan.panels)
        start = f.i64(product(f, part, STAGED))
        end = f.smin(f.add(start, STAGED), plan.sides.inputs)
        chunk, channel = split(f, start, plan.chunk)
        first = total(f, product(f, index, plan.chunks), chunk)
        to = total(f, product(f, first, POINTS * plan.filter_step), product(f, channel, plan.width))
        w.panel_filters(group, panel, (start, end), stage, f.gep(k.pointers["filters"], to, k.scalar))
    return w.finish("filters", Count(plan.sides.groups * plan.panels * parts))


def _bands_step(call: Call, plan: Plan) -> Step:
    """The kernel whose work items are bands of tiles of one image and group."""
    k = Kernel(call.isa, call.scalar, f"winograd_{call.out}", (call.source, "filters", call.out, *call.operands))
    w, f, sides = WinogradKernel(k, plan), k.f, plan.sides
    w.write_pixels()
    w.write_rows()
    w.write_results()
    step = plan.block * plan.chunk + k.lanes
    lines, v = w.scratch(plan.lines), w.scratch(plan.chunks * POINTS * step)
    spaces = w.sums_space()
    finish, by_pixel = _finish(call, w)
    w.clear(lines)
    (height, width), across = sides.in_shape, sides.tiles[1]
    with f.loop("item", f["lo"], f["hi"]) as item:
        planes, band = split(f, item.index, plan.bands)
        _, group = split(f, planes, sides.groups)
        image = f.gep(k.pointers[call.source], product(f, planes, sides.inputs * height * width), k.scalar)
        w.band_pixels(image, lines, band, (0, sides.inputs), v, step)
        rows = f.smin(f.sub(f.i64(sides.tiles[0]), product(f, band, plan.band)), plan.band)
        with f.loop("panel", 0, plan.panels) as panel:
            first = product(f, total(f, product(f, group, plan.panels), panel.index), plan.chunks)
            with f.loop("chunk", 0, plan.chunks) as c:
                u = f.gep(k.pointers["filters"], f.mul(f.add(c.index, first), POINTS * plan.filter_step), k.scalar)

                def ahead(point: Val, panel: Val = panel.index, chunk: Val = c.index) -> None:
                    """Prefetch a point's share of what the results need, while the last chunk is multiplied."""
                    with f.when(f.icmp("eq", chunk, plan.chunks - 1)):
                        w.ask_results(finish, planes, panel, band, point)

                w.multiply(f.gep(v, f.mul(c.index, POINTS * step), k.scalar), step, u, spaces, f.mul(rows, across),
                           f.mul(c.index, plan.chunk), ahead)
            w.band_results(finish, spaces[0], by_pixel, planes, group, panel.index, band)
    return w.finish(call.out, Count(0, plan.bands * sides.groups))


def _by_panel(call: Call, plan: Plan) -> Steps:
    """Pixels to a workspace, then panels of filters."""
    points = POINTS * plan.sides.groups * plan.chunks * plan.element
    space = Count(points * plan.lanes, points * plan.image_tiles * plan.chunk)
    return Steps((_pixels_step(call, plan), _panels_step(call, plan)), {"pixels": space})


def _pixels(k: Kernel, plan: Plan, group: Operand, tile: Operand) -> tuple[Val, Val]:
    """Where the values of a tile of all images are, and how far it is from one point's to the next one's."""
    f = k.f
    step = f.add(f.mul(k.batch, plan.image_tiles * plan.chunk), k.lanes)
    at = total(f, product(f, group, f.mul(step, POINTS * plan.chunks)), product(f, tile, plan.chunk))
    return f.gep(k.pointers["pixels"], at, k.scalar), step


def _pixels_step(call: Call, plan: Plan) -> Step:
    """The kernel that transforms all pixels; a work item is a vector of channels of an image and group."""
    k = Kernel(call.isa, call.scalar, f"winograd_pixels_{call.out}", (call.source, "pixels"))
    w, f, sides = WinogradKernel(k, plan), k.f, plan.sides
    w.write_pixels()
    lines = w.scratch(plan.lines)
    w.clear(lines)
    parts = max(1, ceil_div(sides.inputs, k.lanes))
    height, width = sides.in_shape
    with f.loop("item", f["lo"], f["hi"]) as item, f.loop("band", 0, plan.bands) as band:
        planes, part = split(f, item.index, parts)
        image, group = split(f, planes, sides.groups)
        start = f.i64(product(f, part, k.lanes))
        end = f.smin(f.add(start, k.lanes), sides.inputs)
        tile = total(f, product(f, image, plan.image_tiles), f.mul(band.index, plan.band * sides.tiles[1]))
        to, step = _pixels(k, plan, group, tile)
        source = f.gep(k.pointers[call.source], product(f, planes, sides.inputs * height * width), k.scalar)
        w.band_pixels(source, lines, band.index, (start, end), to, step)
    return w.finish("pixels", Count(0, sides.groups * parts))


def _panels_step(call: Call, plan: Plan) -> Step:
    """The kernel whose work items are panels of filters, which are kept for all tiles or made anew for each block."""
    k = Kernel(call.isa, call.scalar, f"winograd_{call.out}", ("pixels", "w", call.out, *call.operands))
    w, f, sides = WinogradKernel(k, plan), k.f, plan.sides
    w.write_filters()
    w.write_rows()
    w.write_results()
    stage, size = w.scratch(9 * STAGED * plan.width), POINTS * plan.filter_step
    kept = plan.chunks * size * plan.element <= PANEL_IN_CACHE
    filters = w.scratch(plan.chunks * size if kept else size)
    spaces = w.sums_space()
    finish, by_pixel = _finish(call, w)
    with f.loop("item", f["lo"], f["hi"]) as item:
        group, panel = split(f, item.index, plan.panels)
        with f.loop("image", 0, k.batch, plan.images) as image, f.loop("band", 0, plan.bands) as band:
            start = f.mul(band.index, plan.band)
            rows = f.smin(f.sub(f.i64(sides.tiles[0]), start), plan.band)
            images = f.smin(f.sub(k.batch, image.index), plan.images)
            first = f.add(f.mul(image.index, plan.image_tiles), f.mul(start, sides.tiles[1]))
            v, step = _pixels(k, plan, group, first)
            with f.loop("chunk", 0, plan.chunks) as c:
                channel = f.mul(c.index, plan.chunk)
                end = f.smin(f.add(channel, plan.chunk), sides.inputs)
                u = f.gep(filters, product(f, c.index, size if kept else 0), k.scalar)
                anew = f.icmp("eq", f.or_(image.index, band.index), 0) if kept else f.const("i1", True)
                with f.when(anew):
                    w.panel_filters(group, panel, (channel, end), stage, u)
                tiles = f.mul(f.mul(rows, sides.tiles[1]), images)

                def ahead(point: Val, image: Val = image.index, images: Val = images, band: Val = band.index,
                          end: Val = end, anew: Val = anew) -> None:
                    """Prefetch a point's share of the filters of the next chunk, or of what the results need."""
                    last = f.icmp("eq", end, sides.inputs)
                    with f.when(last), f.loop("asked", 0, images) as each:
                        planes = total(f, product(f, f.add(image, each.index), sides.groups), group)
                        w.ask_results(finish, planes, panel, band, point)
                    first = f.select(last, f.i64(0), end)
                    following = f.select(last, f.add(f.i64(item.index), 1), item.index)
                    with f.when(anew):
                        channels = first, f.smin(f.add(first, plan.chunk), sides.inputs)
                        ask_ahead(k, weights_of(k, plan.filters, sides.strides, following, channels), point, POINTS)

                at = f.gep(v, f.mul(c.index, f.mul(step, POINTS)), k.scalar)
                w.multiply(at, step, u, spaces, tiles, channel, ahead)
            with f.loop("each", 0, images) as each:
                sums = f.gep(spaces[0], f.mul(each.index, plan.image_tiles * plan.width), k.scalar)
                planes = total(f, product(f, f.add(image.index, each.index), sides.groups), group)
                w.band_results(finish, sums, by_pixel, planes, group, panel, band.index)
    return w.finish(call.out, Count(sides.groups * plan.panels))
