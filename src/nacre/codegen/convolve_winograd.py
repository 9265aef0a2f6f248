"""Winograd's 3×3 convolution and its gradient as native kernels, with the bits of `nacre.kernel.order_winograd`.

Where all of a group's filters fit the cache, they are transformed first, and a work item is a band of tiles: it
transforms its pixels and multiplies them with every panel.  Otherwise the pixels are transformed first, and a work
item is a panel: it transforms its filters, which are then never read from memory again, and multiplies all tiles.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nacre.codegen.convolve_finish import Finish
from nacre.codegen.convolve_points import POINTS, STAGED, Plan, WinogradKernel
from nacre.codegen.convolve_steps import Count, Epilogue, Kernel, Step, Steps, ceil_div, product, split, total
from nacre.codegen.isa import Isa
from nacre.kernel.order_winograd import CHAIN, Sides
from nacre.native.text import Val


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


def _finish(call: Call, k: Kernel, plan: Plan) -> Finish:
    height, width = plan.sides.out_shape
    operands = tuple(k.pointers[name] for name in call.operands)
    return Finish(k, k.pointers[call.out], operands, call.epilogue, height * width, k.lanes, plan.pixels)


def _by_band(call: Call, plan: Plan) -> Steps:
    """Filters to a workspace, then bands of tiles."""
    depth = max(1, plan.sides.inputs)
    point = depth * plan.lanes  # of a panel's values at one point
    panel_size = POINTS * point
    space = Count(plan.sides.groups * plan.panels * panel_size * plan.element)
    return Steps((_filters_step(call, plan, point), _bands_step(call, plan, point)), {"filters": space})


def _filters_step(call: Call, plan: Plan, point: int) -> Step:
    """The kernel that transforms all filters; a work item is some channels of a panel."""
    w = WinogradKernel(Kernel(call.isa, call.scalar, f"winograd_filters_{call.out}", ("w", "filters")), plan)
    k, f = w.k, w.k.f
    w.write_filters()
    stage = w.scratch(9 * STAGED * k.lanes)
    parts = max(1, ceil_div(plan.sides.inputs, STAGED))
    with f.loop("item", f["lo"], f["hi"]) as item:
        index, part = split(f, item.index, parts)
        group, panel = split(f, index, plan.panels)
        start = product(f, part, STAGED)
        end = f.smin(f.add(f.i64(start), STAGED), plan.sides.inputs)
        to = total(f, product(f, index, POINTS * point), product(f, start, k.lanes))
        w.panel_filters(group, panel, (f.i64(start), end), stage, f.gep(k.pointers["filters"], to, k.scalar), point)
    return w.finish("filters", Count(plan.sides.groups * plan.panels * parts))


def _bands_step(call: Call, plan: Plan, point: int) -> Step:
    """The kernel whose work items are bands of tiles of one image and group."""
    k = Kernel(call.isa, call.scalar, f"winograd_{call.out}", (call.source, "filters", call.out, *call.operands))
    w, f, sides = WinogradKernel(k, plan), k.f, plan.sides
    w.write_pixels()
    w.write_rows()
    w.write_results()
    step = plan.block * plan.depth + k.lanes
    lines, v, sums = w.scratch(plan.lines), w.scratch(POINTS * step), w.scratch(POINTS * plan.sums_step)
    by_pixel, by_channel = w.scratch(plan.pixels * k.lanes), w.scratch(plan.pixels * k.lanes)
    finish = _finish(call, k, plan)
    w.clear(lines)
    (height, width), across = sides.in_shape, sides.tiles[1]
    with f.loop("item", f["lo"], f["hi"]) as item:
        planes, band = split(f, item.index, plan.bands)
        _, group = split(f, planes, sides.groups)
        image = f.gep(k.pointers[call.source], product(f, planes, sides.inputs * height * width), k.scalar)
        w.band_pixels(image, lines, band, (0, sides.inputs), v, step)
        rows = f.smin(f.sub(f.i64(sides.tiles[0]), product(f, band, plan.band)), plan.band)
        tiles = f.mul(rows, across)
        with f.loop("panel", 0, plan.panels) as panel:
            index = total(f, product(f, group, plan.panels), panel.index)
            u = f.gep(k.pointers["filters"], product(f, index, POINTS * point), k.scalar)
            with f.loop("chain", 0, max(1, sides.inputs), CHAIN) as c:
                depth = f.smin(f.sub(f.i64(sides.inputs), c.index), CHAIN)
                w.multiply(f.gep(v, c.index, k.scalar), step, f.gep(u, f.mul(c.index, k.lanes), k.scalar), point, sums,
                           tiles, depth, f.icmp("eq", c.index, 0))
            w.band_results(finish, sums, by_pixel, by_channel, planes, group, panel.index, band)
    return w.finish(call.out, Count(0, plan.bands * sides.groups))


def _by_panel(call: Call, plan: Plan) -> Steps:
    """Pixels to a workspace, then panels of filters."""
    tiles = POINTS * plan.sides.groups * plan.image_tiles * plan.depth
    space = Count(POINTS * plan.sides.groups * plan.lanes * plan.element, tiles * plan.element)
    return Steps((_pixels_step(call, plan), _panels_step(call, plan)), {"pixels": space})


def _point_step(k: Kernel, plan: Plan) -> Val:
    """From one point's values of all tiles to the next one's."""
    return k.f.add(k.f.mul(k.batch, plan.image_tiles * plan.depth), k.lanes)


def _pixels_step(call: Call, plan: Plan) -> Step:
    """The kernel that transforms all pixels; a work item is a vector of channels of an image and group."""
    k = Kernel(call.isa, call.scalar, f"winograd_pixels_{call.out}", (call.source, "pixels"))
    w, f, sides = WinogradKernel(k, plan), k.f, plan.sides
    w.write_pixels()
    lines = w.scratch(plan.lines)
    w.clear(lines)
    step = _point_step(k, plan)
    parts = max(1, ceil_div(sides.inputs, k.lanes))
    height, width = sides.in_shape
    with f.loop("item", f["lo"], f["hi"]) as item, f.loop("band", 0, plan.bands) as band:
        planes, part = split(f, item.index, parts)
        image, group = split(f, planes, sides.groups)
        start = f.i64(product(f, part, k.lanes))
        end = f.smin(f.add(start, k.lanes), sides.inputs)
        tile = total(f, product(f, image, plan.image_tiles), f.mul(band.index, plan.band * sides.tiles[1]))
        to = total(f, product(f, group, f.mul(step, POINTS)), product(f, tile, plan.depth))
        w.band_pixels(f.gep(k.pointers[call.source], product(f, planes, sides.inputs * height * width), k.scalar),
                      lines, band.index, (start, end), f.gep(k.pointers["pixels"], to, k.scalar), step)
    return w.finish("pixels", Count(0, sides.groups * parts))


def _panels_step(call: Call, plan: Plan) -> Step:
    """The kernel whose work items are panels of filters."""
    k = Kernel(call.isa, call.scalar, f"winograd_{call.out}", ("pixels", "w", call.out, *call.operands))
    w, f, sides = WinogradKernel(k, plan), k.f, plan.sides
    w.write_filters()
    w.write_rows()
    w.write_results()
    point = (plan.chunk + 1) * k.lanes
    stage, u = w.scratch(9 * STAGED * k.lanes), w.scratch(POINTS * point)
    sums = w.scratch(POINTS * plan.sums_step)
    by_pixel, by_channel = w.scratch(plan.pixels * k.lanes), w.scratch(plan.pixels * k.lanes)
    finish = _finish(call, k, plan)
    step = _point_step(k, plan)
    with f.loop("item", f["lo"], f["hi"]) as item:
        group, panel = split(f, item.index, plan.panels)
        values = f.gep(k.pointers["pixels"], product(f, group, f.mul(step, POINTS)), k.scalar)
        with f.loop("image", 0, k.batch, plan.images) as image, f.loop("band", 0, plan.bands) as band:
            start = f.mul(band.index, plan.band)
            rows = f.smin(f.sub(f.i64(sides.tiles[0]), start), plan.band)
            images = f.smin(f.sub(k.batch, image.index), plan.images)
            tiles = f.mul(f.mul(rows, sides.tiles[1]), images)
            first = f.add(f.mul(image.index, plan.image_tiles), f.mul(start, sides.tiles[1]))
            v = f.gep(values, f.mul(first, plan.depth), k.scalar)
            with f.loop("chain", 0, max(1, sides.inputs), CHAIN) as c:
                end = f.smin(f.add(c.index, CHAIN), sides.inputs)
                held = f.icmp("ne", f.or_(image.index, band.index), 0) if sides.inputs <= CHAIN else None
                fresh = f.const("i1", True) if held is None else f.xor(held, f.const("i1", True))
                with f.when(fresh):
                    w.panel_filters(group, panel, (c.index, end), stage, u, point)
                w.multiply(f.gep(v, c.index, k.scalar), step, u, point, sums, tiles, f.sub(end, c.index),
                           f.icmp("eq", c.index, 0))
            with f.loop("each", 0, images) as each:
                at = f.mul(each.index, plan.image_tiles * k.lanes)
                planes = total(f, product(f, f.add(image.index, each.index), sides.groups), group)
                w.band_results(finish, f.gep(sums, at, k.scalar), by_pixel, by_channel, planes, group, panel,
                               band.index)
    return w.finish(call.out, Count(sides.groups * plan.panels))
