"""Moving tensors between row-major planes and panels whose lanes are channels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from nacre.base.records import dataclass
from nacre.codegen.convolution.correlation import Correlation
from nacre.codegen.convolution.sequence import (
    ConvolutionStep,
    Count,
    SequenceKernel,
    ceil_div,
    panel_vectors,
    product,
    split,
    total,
)
from nacre.kernel.order_convolution import CHANNEL_BLOCK
from nacre.native.isa import Isa
from nacre.native.llvm_types import bits_of, lanes_of
from nacre.native.llvm_values import Operand, Val
from nacre.native.text import Function
from nacre.runtime.plan import READY


def transposed(f: Function, rows: Sequence[Val], size: int) -> list[Val]:
    """Transpose each size × size block of `size` vectors; a block's rows have the same lanes in all vectors."""
    lanes, current = lanes_of(rows[0].ty), list(rows)
    block = 1
    while block < size:
        low = [j if not j & block else lanes + j - block for j in range(lanes)]
        high = [j + block if not j & block else lanes + j for j in range(lanes)]
        following = list(current)
        for i in range(size):
            if not i & block:
                a, b = current[i], current[i + block]
                following[i] = f.shuffle(a, b, low)
                following[i + block] = f.shuffle(a, b, high)
        current, block = following, block * 2
    return current


def joined(f: Function, parts: Sequence[Val]) -> Val:
    """One vector of equally long vectors, whose number is a power of two."""
    while len(parts) > 1:
        lanes = 2 * lanes_of(parts[0].ty)
        pairs = zip(parts[::2], parts[1::2], strict=True)
        parts = [f.shuffle(a, b, range(lanes)) for a, b in pairs]
    return parts[0]


def write_transpose(k: SequenceKernel) -> str:
    """Write @transpose(source, stride, rows, columns, target, step) for up to a vector of rows.

    Column j of the source becomes the vector at `target + j · step`; lanes beyond `rows` are undefined.  Vectors are
    built from 128-bit pieces of rows, so that shuffles stay within pieces.
    """
    if "transpose" in k.module.functions:
        return "transpose"
    f = k.internal(
        "transpose", {"source": "ptr", "stride": "i64", "rows": "i64", "columns": "i64", "target": "ptr", "step": "i64"}
    )
    size = 16 // k.element
    last = f.sub(f["rows"], 1)
    rows = [f.gep(f["source"], f.mul(f.smin(i, last), f["stride"]), k.scalar) for i in range(k.lanes)]
    whole = f.and_(f["columns"], -size)
    with f.loop("j", 0, whole, size) as j:
        pieces = [f.load(f.gep(row, j.index, k.scalar), f"<{size} x {k.scalar}>") for row in rows]
        vectors = [joined(f, pieces[i::size]) for i in range(size)]
        target = f.gep(f["target"], f.mul(f["step"], j.index), k.scalar)
        for i, column in enumerate(transposed(f, vectors, size)):
            f.store(column, f.gep(target, f.mul(f["step"], i), k.scalar))
    with f.loop("tail", whole, f["columns"]) as j, f.loop("i", 0, f["rows"]) as i:
        at = f.add(f.mul(i.index, f["stride"]), j.index)
        value = f.load(f.gep(f["source"], at, k.scalar), k.scalar)
        to = f.add(f.mul(j.index, f["step"]), i.index)
        f.store(value, f.gep(f["target"], to, k.scalar))
    f.ret()
    return "transpose"


def transpose_matrix(
    k: SequenceKernel,
    f: Function,
    source: Val,
    stride: Operand,
    rows: Operand,
    columns: Operand,
    target: Val,
    step: Operand,
) -> None:
    """target[j · step + i] = source[i · stride + j] for i < rows, j < columns.

    The target's rows have room for `rows` rounded up to lanes.
    """
    name = write_transpose(k)
    with f.loop("part", 0, rows, k.lanes) as part:
        here = f.smin(f.sub(f.i64(rows), part.index), k.lanes)
        f.call(
            name,
            "void",
            [
                f.gep(source, product(f, part.index, stride), k.scalar),
                f.i64(stride),
                here,
                f.i64(columns),
                f.gep(target, part.index, k.scalar),
                f.i64(step),
            ],
        )


def copy_planes(k: SequenceKernel, n: Mapping[str, Val], source: Val, count: Val, target: Val) -> None:
    """Copy the first `count` pixels of each plane; the planes of the target have room for whole vectors."""
    f = k.f
    with f.loop("channel", 0, n["inputs"]) as ch:
        a = f.gep(source, f.mul(ch.index, n["in_plane"]), k.scalar)
        b = f.gep(target, f.mul(ch.index, n["plane"]), k.scalar)
        with f.loop("at", 0, count, k.lanes) as at:
            mask = f.lane_mask(f.sub(count, at.index), k.lanes)
            value = f.masked_load(f.gep(a, at.index, k.scalar), mask, k.vector)
            f.store(value, f.gep(b, at.index, k.scalar))


@dataclass(frozen=True)
class PanelLayout:
    """Weights as panels [group][panel][input][kh·kw][width], with channels in vector lanes.

    `outputs` are the channels of one group in lanes, `inputs` the channels that are reduced.
    """

    groups: int
    outputs: int
    inputs: int
    taps: int
    width: int
    depth: int

    @property
    def panels(self) -> int:
        """Panels of one group."""
        return ceil_div(self.outputs, self.width)

    @property
    def blocks(self) -> int:
        """Channel blocks of the reduction."""
        return ceil_div(self.inputs, self.depth)

    @property
    def block_size(self) -> int:
        """Elements of one block of one panel."""
        return self.taps * self.depth * self.width

    @property
    def panel_size(self) -> int:
        """Elements of one panel."""
        return self.blocks * self.block_size

    @property
    def size(self) -> int:
        """Elements of all panels."""
        return self.groups * self.panels * self.panel_size


def panel_layout(isa: Isa, scalar: str, c: Correlation, block: int = CHANNEL_BLOCK) -> PanelLayout:
    """The layout of a correlation's packed weights; `block` is the number of inputs of a block of channels."""
    lanes = isa.lanes(scalar)
    width = panel_vectors(c.outputs, lanes) * lanes
    depth = max(1, min(block, c.inputs))
    return PanelLayout(c.groups, c.outputs, c.inputs, c.kernel[0] * c.kernel[1], width, depth)


@dataclass(frozen=True)
class Packing:
    """The numbers by which weights are packed: those of a `PanelLayout`, and the strides of w.

    They are constants, or values that a kernel reads.  `adjacent` says whether the lanes are adjacent in w, `whole`
    whether all taps of successive input channels are.
    """

    width: int
    taps: Operand
    panels: Operand
    outputs: Operand
    group: Operand  # elements of w
    lane_stride: Operand
    input_stride: Operand
    adjacent: bool
    whole: bool

    @staticmethod
    def of(layout: PanelLayout, strides: tuple[int, int]) -> Packing:
        """The numbers of a layout; the strides are those of output and input channels in w."""
        lane, channel = strides
        group = layout.outputs * layout.inputs * layout.taps
        adjacent, whole = lane == 1, channel == layout.taps
        return Packing(layout.width, layout.taps, layout.panels, layout.outputs, group, lane, channel, adjacent, whole)

    @staticmethod
    def read(k: SequenceKernel, layout: PanelLayout, strides: tuple[int, int]) -> Packing:
        """The numbers of a layout as values that a kernel reads."""
        known = Packing.of(layout, strides)
        names = "taps", "panels", "outputs", "group", "lane_stride", "input_stride"
        found: dict[str, Any] = dict(k.read({name: getattr(known, name) for name in names}))
        return replace(known, **found)


def pack_weights(k: SequenceKernel, layout: PanelLayout, strides: tuple[int, int]) -> ConvolutionStep:
    """Copy w, whose taps are adjacent, to panels; the strides are those of output and input channels in w.

    The kernel reads the sizes, so that it serves many layouts.
    """
    f, packing = k.f, Packing.read(k, layout, strides)
    n = k.read({"blocks": layout.blocks, "depth": layout.depth, "inputs": layout.inputs})
    with f.loop("item", f["lo"], f["hi"]) as item:
        panel, block = split(f, item.index, n["blocks"])
        first = f.i64(product(f, block, n["depth"]))
        end = f.smin(f.add(first, n["depth"]), n["inputs"])
        size = f.mul(f.mul(f.i64(packing.taps), n["depth"]), layout.width)
        target = f.gep(k.pointers["panels"], f.mul(item.index, size), k.scalar)
        pack_channels(k, packing, panel, (first, end), target)
    return k.finish(["panels"], Count(layout.groups * layout.panels * layout.blocks))


def packed_panels(layout: PanelLayout, strides: tuple[int, int], element: int, w: np.ndarray) -> np.ndarray | None:
    """The result of `pack_weights` by NumPy, with zeros in its gaps; None for elements of another size."""
    outputs, inputs, taps = layout.outputs, layout.inputs, layout.taps
    if w.itemsize != element or w.size != layout.groups * outputs * inputs * taps:
        return None
    flat = np.ascontiguousarray(w).reshape(-1)
    steps = [n * element for n in (outputs * inputs * taps, *strides, 1)]
    found = np.lib.stride_tricks.as_strided(flat, (layout.groups, outputs, inputs, taps), steps)
    rows, depth = layout.panels * layout.width, layout.blocks * layout.depth
    padded = np.pad(found, ((0, 0), (0, rows - outputs), (0, depth - inputs), (0, 0)))
    panels = padded.reshape(layout.groups, layout.panels, layout.width, layout.blocks, layout.depth, taps)
    return panels.transpose(0, 1, 3, 4, 5, 2).reshape(-1)


def pack_channels(
    k: SequenceKernel, about: Packing, panel: Operand, channels: tuple[Operand, Operand], target: Val
) -> None:
    """Copy the input channels start … end of one panel, of all groups' panels."""
    f, stride = k.f, about.lane_stride
    group, p = split(f, panel, about.panels)
    lane = product(f, p, about.width)
    first, end = channels
    source = f.gep(
        k.pointers["w"],
        total(f, product(f, group, about.group), product(f, lane, stride), product(f, first, about.input_stride)),
        k.scalar,
    )
    lanes = f.smin(f.sub(f.i64(about.outputs), lane), about.width)
    count = f.sub(f.i64(end), first)
    pack_rows(k, about, source, lanes, count, target)


def pack_rows(k: SequenceKernel, about: Packing, source: Val, lanes: Val, count: Val, target: Val) -> None:
    """Copy the first `count` input channels of some lanes, which begin at the source."""
    f, taps, stride = k.f, about.taps, about.lane_stride
    if about.adjacent:
        _copy_lanes(k, about.width, source, target, lanes, count, about.input_stride)
    elif about.whole:
        transpose_matrix(k, f, source, stride, lanes, f.mul(count, taps), target, about.width)
    else:
        with f.loop("channel", 0, count) as c:
            at = f.gep(source, product(f, c.index, about.input_stride), k.scalar)
            to = f.gep(target, product(f, c.index, product(f, taps, about.width)), k.scalar)
            transpose_matrix(k, f, at, stride, lanes, f.i64(taps), to, about.width)


@dataclass(frozen=True)
class Room:
    """Where weights are packed: memory that stays packed between calls if there is any, else scratch memory.

    `ready` says whether an earlier call has filled that memory.
    """

    available: Val
    ready: Val
    data: Val

    def place(self, k: SequenceKernel, at: Operand, scratch: Val) -> Val:
        """Where the elements from the place `at` on are packed."""
        return k.f.select(self.available, k.f.gep(self.data, at, k.scalar), scratch)


def packed_room(k: SequenceKernel, name: str) -> Room:
    """The memory at a buffer's address, which may be null (see `runtime.plan.Packed`)."""
    f, place = k.f, k.pointers[name]
    available = f.icmp("ne", place, f.const("ptr", 0))
    state = f.load(f.select(available, place, k.module.constant("not_ready", "i64", "0")), "i64")
    return Room(available, f.icmp("ne", state, 0), f.gep(place, READY))


def prefetch_memory(
    k: SequenceKernel,
    source: Val,
    stride: Operand,
    rows: tuple[Operand, Operand],
    length: Operand,
    scalar: str | None = None,
    *,
    to_write: bool = False,
) -> None:
    """Prefetch rows start … end of a matrix, to read or to write; the memory may be absent."""
    f, scalar = k.f, scalar or k.scalar
    line = 512 // bits_of(scalar)
    with f.loop("ask", *rows) as row:
        start = f.gep(source, f.mul(row.index, stride), scalar)
        with f.loop("at", 0, length, line) as at:
            prefetch_line(f, f.gep(start, at.index, scalar), to_write=to_write)


def prefetch_line(f: Function, place: Val, *, to_write: bool = False) -> None:
    """Prefetch the cache line of a place, to read or to write; the memory may be absent."""
    f.call("llvm.prefetch.p0", "void", [place, *(f.const("i32", n) for n in (int(to_write), 2, 1))])


def prefetch_run(k: SequenceKernel, source: Val, length: Operand, part: Operand, parts: Operand) -> None:
    """Prefetch one of several equal parts of a run of elements; the memory may be absent."""
    f, line = k.f, 64 // k.element
    lines = f.binary("udiv", f.add(f.i64(length), line - 1), line)
    share = f.binary("udiv", f.add(f.add(lines, parts), -1), parts)
    first = f.mul(f.i64(part), share)
    prefetch_memory(k, source, line, (first, f.smin(f.add(first, share), lines)), line)


@dataclass(frozen=True)
class Weights:
    """The filters of some lanes and input channels in w: rows of elements with a stride."""

    source: Val
    stride: Operand
    rows: Val
    length: Val


def weights_of(
    k: SequenceKernel,
    about: Packing,
    panel: Operand,
    channels: tuple[Operand, Operand],
    scalar: str | None = None,
) -> Weights:
    """The place in w of the input channels start … end of one panel; panels of all groups are numbered together."""
    f = k.f
    group, p = split(f, panel, about.panels)
    lane = product(f, p, about.width)
    source = f.gep(
        k.pointers["w"],
        total(
            f,
            product(f, group, about.group),
            product(f, lane, about.lane_stride),
            product(f, channels[0], about.input_stride),
        ),
        scalar or k.scalar,
    )
    lanes = f.smin(f.sub(f.i64(about.outputs), lane), about.width)
    count = f.sub(f.i64(channels[1]), channels[0])
    if about.whole:
        return Weights(source, about.lane_stride, lanes, f.mul(count, about.taps))
    return Weights(source, about.input_stride, count, f.mul(lanes, about.lane_stride))


def prefetch_weights(k: SequenceKernel, about: Weights, part: Operand, parts: Operand) -> None:
    """Prefetch one of several equal parts of some weights."""
    f = k.f
    share = f.binary("udiv", f.add(f.add(about.rows, parts), -1), parts)
    first = f.mul(share, part)
    prefetch_memory(k, about.source, about.stride, (first, f.smin(f.add(first, share), about.rows)), about.length)


def _copy_lanes(
    k: SequenceKernel, width: int, source: Val, target: Val, lanes: Val, count: Val, input_stride: Operand
) -> None:
    """Pack one block of a 1×1 kernel whose lanes are adjacent in w already."""
    f = k.f
    with f.loop("channel", 0, count) as c:
        for part in range(0, width, k.lanes):
            mask = f.lane_mask(f.sub(lanes, part), k.lanes)
            at = f.gep(source, total(f, product(f, c.index, input_stride), part), k.scalar)
            to = f.gep(target, total(f, product(f, c.index, width), part), k.scalar)
            f.store(f.masked_load(at, mask, k.vector), to)
