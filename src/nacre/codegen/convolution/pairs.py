"""Convolutions of bfloat16 by packed dot instructions: pairs of neighbours in the chains of products.

Forward and in the gradient of the image, a chain takes the channels of a tap one after another, so a pair is two
channels of one pixel.  Planes become pairs when a row panel is copied.  The weights are packed by a kernel of their
own, which records the least magnitude of each block.  An absent channel is −0 in images and 0 in weights.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from nacre.base.records import dataclass
from nacre.codegen.bfloat_pairs import MINUS_ZERO, are_normal, least_of, lesser, no_least, pairs_of
from nacre.codegen.convolution.correlation import Correlation
from nacre.codegen.convolution.pack import Packing, PanelLayout, pack_rows, panel_layout, weights_of
from nacre.codegen.convolution.sequence import ConvolutionStep, Count, SequenceKernel, ceil_div, product, split
from nacre.kernel.order_convolution import CHANNEL_BLOCK
from nacre.native.isa import Isa
from nacre.native.llvm_types import vec
from nacre.native.llvm_values import Operand, Val


@dataclass(frozen=True)
class ChannelPairs:
    """The channels of a group and their weights as pairs; `layout` is that of the packed weights."""

    channels: int
    layout: PanelLayout

    @property
    def items(self) -> int:
        """The blocks of all panels."""
        return self.layout.groups * self.layout.panels * self.layout.blocks

    @property
    def single(self) -> PanelLayout:
        """The layout of the weights as single numbers."""
        return replace(self.layout, inputs=self.channels, depth=2 * self.layout.depth)

    @property
    def nbytes(self) -> int:
        """The bytes of the packed weights, with the least magnitude of each block."""
        return 4 * self.layout.size + 8 * self.items

    def copy(self, k: SequenceKernel, n: Mapping[str, Val], source: Val, count: Val, target: Val) -> Val:
        """Copy `count` pixels of each plane to pairs; returns the least magnitude."""
        f = k.f
        ty = vec("i16", k.lanes)

        def planes(pair: Operand, both: bool, minima: list[Val]) -> list[Val]:
            """Copy one pair of planes, or the last plane alone."""
            early = f.gep(source, product(f, pair, f.mul(n["in_plane"], 2)), "i16")
            late, to = f.gep(early, n["in_plane"], "i16"), f.gep(target, product(f, pair, n["plane"]), k.scalar)
            with f.loop("at", 0, count, k.lanes, carry=minima) as at:
                mask = f.lane_mask(f.sub(count, at.index), k.lanes)
                first = f.masked_load(f.gep(early, at.index, "i16"), mask, ty)
                absent = f.const(ty, MINUS_ZERO)
                second = f.masked_load(f.gep(late, at.index, "i16"), mask, ty) if both else absent
                packed = pairs_of(f, first, second)
                f.store(packed, f.gep(to, at.index, k.scalar))
                at.next(*lesser(f, at.carried, packed))
            return at.results

        whole = f.sub(n["inputs"], self.channels % 2)
        with f.loop("pair", 0, whole, carry=no_least(f, k.lanes)) as pair:
            pair.next(*planes(pair.index, True, pair.carried))
        minima = pair.results if self.channels % 2 == 0 else planes(whole, False, pair.results)
        return least_of(f, minima[0])

    def are_normal(self, k: SequenceKernel, n: Mapping[str, Val], panel: Operand, least: Val) -> Val:
        """Whether the packed dot instruction is exact for some pixels and a panel, which all groups' panels number."""
        f = k.f
        first = f.gep(_least_magnitudes(k, n["size"]), product(f, panel, n["blocks"]), "i64")
        with f.loop("least", 0, n["blocks"], carry=[f.i64(-1)]) as block:
            block.next(f.minmax("umin", block.carried[0], f.load(f.gep(first, block.index, "i64"), "i64")))
        return are_normal(f, least, block.results[0])


def _least_magnitudes(k: SequenceKernel, size: Operand) -> Val:
    """The address of the least magnitudes, behind the elements of the panels."""
    return k.f.gep(k.pointers["panels"], size, k.scalar)


def channel_pairs(isa: Isa, c: Correlation) -> tuple[Correlation, ChannelPairs]:
    """A correlation whose inputs are pairs of channels, and these pairs."""
    paired = replace(c, inputs=ceil_div(c.inputs, 2))
    return paired, ChannelPairs(c.inputs, panel_layout(isa, "float", paired, CHANNEL_BLOCK // 2))


def pack_pairs(isa: Isa, pairs: ChannelPairs, strides: tuple[int, int]) -> ConvolutionStep:
    """Copy w to panels of pairs; the strides are those of output and input channels in w.

    A work item is a block of a panel.  The least magnitudes of all items are behind the panels.
    """
    k, layout = SequenceKernel(isa, "float", "conv_pack_pairs", ("w", "panels")), pairs.layout
    f, half, single = k.f, layout.taps * layout.width, pairs.single
    with f.loop("item", f["lo"], f["hi"]) as item:
        panel, block = split(f, item.index, layout.blocks)
        with f.loop("clear", 0, single.block_size, k.lanes) as at:
            f.store(f.zero(k.vector), f.gep(f["scratch"], at.index, k.scalar))
        first = f.i64(product(f, block, single.depth))
        _pack_wide(k, single, strides, panel, (first, f.smin(f.add(first, single.depth), pairs.channels)))
        target = f.gep(k.pointers["panels"], f.mul(item.index, layout.block_size), k.scalar)
        with f.loop("pair", 0, layout.depth, carry=no_least(f, k.lanes)) as pair:
            early = f.gep(f["scratch"], f.mul(pair.index, 2 * half), k.scalar)
            to = f.gep(target, f.mul(pair.index, half), k.scalar)
            with f.loop("at", 0, half, k.lanes, carry=pair.carried) as at:
                upper, lower = (
                    f.load(f.gep(early, f.add(at.index, n), k.scalar), vec("i32", k.lanes)) for n in (0, half)
                )
                packed = f.or_(upper, f.lshr(lower, f.const(lower.ty, 16)))
                f.store(packed, f.gep(to, at.index, k.scalar))
                at.next(*lesser(f, at.carried, packed))
            pair.next(*at.results)
        f.store(least_of(f, pair.results[0]), f.gep(_least_magnitudes(k, layout.size), item.index, "i64"))
    return k.finish(["panels"], Count(pairs.items), 2 * single.block_size * k.element)


def _pack_wide(
    k: SequenceKernel, layout: PanelLayout, strides: tuple[int, int], panel: Operand, channels: tuple[Val, Val]
) -> None:
    """Widen some channels of a panel in scratch memory, and pack them as float32 before it."""
    f = k.f
    rows = weights_of(k, Packing.of(layout, strides), panel, channels, "i16")
    wide, by_lane = f.gep(f["scratch"], layout.block_size, k.scalar), strides[1] == layout.taps
    pitch = layout.taps * (layout.depth if by_lane else layout.width)
    with f.loop("row", 0, rows.rows) as row:
        start = f.gep(rows.source, f.mul(row.index, rows.stride), "i16")
        to = f.gep(wide, f.mul(row.index, pitch), k.scalar)
        with f.loop("at", 0, rows.length, k.lanes) as at:
            mask = f.lane_mask(f.sub(rows.length, at.index), k.lanes)
            numbers = f.masked_load(f.gep(start, at.index, "i16"), mask, vec("i16", k.lanes))
            raw = f.cast("zext", numbers, "i32")
            f.masked_store(f.shl(raw, f.const(raw.ty, 16)), f.gep(to, at.index, k.scalar), mask)
    _, p = split(f, panel, layout.panels)
    lanes = f.smin(f.sub(f.i64(layout.outputs), product(f, p, layout.width)), layout.width)
    packing = Packing.of(layout, (pitch, layout.taps) if by_lane else (layout.taps, pitch))
    pack_rows(k, packing, wide, lanes, f.sub(channels[1], channels[0]), f["scratch"])


def packed_pairs(pairs: ChannelPairs, strides: tuple[int, int], w: np.ndarray) -> np.ndarray | None:
    """The result of `pack_pairs` by NumPy, with zeros in its gaps; None for elements of another size."""
    layout, channels = pairs.layout, pairs.channels
    groups, outputs, taps = layout.groups, layout.outputs, layout.taps
    if w.itemsize != 2 or w.size != groups * outputs * channels * taps:
        return None
    flat = np.ascontiguousarray(w).reshape(-1).view(np.uint16)
    steps = [2 * n for n in (outputs * channels * taps, *strides, 1)]
    found = np.lib.stride_tricks.as_strided(flat, (groups, outputs, channels, taps), steps)
    rows, depth = layout.panels * layout.width, 2 * layout.blocks * layout.depth
    padded = np.pad(found, ((0, 0), (0, rows - outputs), (0, depth - channels), (0, 0)))
    split_up = padded.reshape(groups, layout.panels, layout.width, layout.blocks, layout.depth, 2, taps)
    upper, lower = (split_up[:, :, :, :, :, half].astype(np.uint32) for half in (0, 1))
    panels = (upper << 16 | lower).transpose(0, 1, 3, 4, 5, 2)
    least = ((split_up & 0x7FFF) - np.uint16(1)).min(axis=(2, 4, 5, 6)).astype(np.int64)
    return np.concatenate([np.ascontiguousarray(a).reshape(-1).view(np.uint8) for a in (panels, least)])
