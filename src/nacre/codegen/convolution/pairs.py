"""Convolutions of bfloat16 by packed dot instructions: pairs of neighbours in the chains of products.

Forward and in the gradient of the image, a chain takes the channels of a tap one after another, so a pair is two
channels of one pixel.  Planes become pairs when a row panel is copied.  The weights are packed by a kernel of their
own, which records the least magnitude of each block.  An absent channel is −0 in images and 0 in weights.
"""

from __future__ import annotations

from dataclasses import replace

from nacre.base.records import dataclass
from nacre.codegen.bfloat_pairs import MINUS_ZERO, are_normal, least_of, lesser, no_least, pairs_of
from nacre.codegen.convolution.correlation import Correlation
from nacre.codegen.convolution.pack import Packing, PanelLayout, pack_channels, panel_layout
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

    def copy(self, k: SequenceKernel, source: Val, plane: int, count: Val, target: Val, pitch: int) -> Val:
        """Copy `count` pixels of each plane to pairs, whose planes are `pitch` apart; returns the least magnitude."""
        f = k.f
        ty = vec("i16", k.lanes)

        def planes(pair: Operand, both: bool, minima: list[Val]) -> list[Val]:
            """Copy one pair of planes, or the last plane alone."""
            early = f.gep(source, product(f, pair, 2 * plane), "i16")
            late, to = f.gep(early, plane, "i16"), f.gep(target, product(f, pair, pitch), k.scalar)
            with f.loop("at", 0, count, k.lanes, carry=minima) as at:
                mask = f.lane_mask(f.sub(count, at.index), k.lanes)
                first = f.masked_load(f.gep(early, at.index, "i16"), mask, ty)
                absent = f.const(ty, MINUS_ZERO)
                second = f.masked_load(f.gep(late, at.index, "i16"), mask, ty) if both else absent
                packed = pairs_of(f, first, second)
                f.store(packed, f.gep(to, at.index, k.scalar))
                at.next(*lesser(f, at.carried, packed))
            return at.results

        whole = self.channels // 2
        with f.loop("pair", 0, whole, carry=no_least(f, k.lanes)) as pair:
            pair.next(*planes(pair.index, True, pair.carried))
        minima = pair.results if self.channels % 2 == 0 else planes(whole, False, pair.results)
        return least_of(f, minima[0])

    def are_normal(self, k: SequenceKernel, panel: Operand, least: Val) -> Val:
        """Whether the packed dot instruction is exact for some pixels and a panel, which all groups' panels number."""
        f, blocks = k.f, self.layout.blocks
        first = f.gep(k.pointers["least"], product(f, panel, blocks), "i64")
        with f.loop("least", 0, blocks, carry=[f.i64(-1)]) as block:
            block.next(f.minmax("umin", block.carried[0], f.load(f.gep(first, block.index, "i64"), "i64")))
        return are_normal(f, least, block.results[0])


def channel_pairs(isa: Isa, c: Correlation) -> tuple[Correlation, ChannelPairs]:
    """A correlation whose inputs are pairs of channels, and these pairs."""
    paired = replace(c, inputs=ceil_div(c.inputs, 2))
    return paired, ChannelPairs(c.inputs, panel_layout(isa, "float", paired, CHANNEL_BLOCK // 2))


def pack_pairs(isa: Isa, pairs: ChannelPairs, strides: tuple[int, int]) -> ConvolutionStep:
    """Copy float32 weights that bfloat16 holds to panels of pairs; the strides are those of channels in w.

    A work item is a block of a panel: buffers w_wide, panels, and the least magnitude of each item.
    """
    k, layout = SequenceKernel(isa, "float", "conv_pack_pairs", ("w_wide", "panels", "least")), pairs.layout
    f, half = k.f, layout.taps * layout.width
    single = PanelLayout(layout.groups, layout.outputs, pairs.channels, layout.taps, layout.width, 2 * layout.depth)
    packing = Packing.of(single, strides, "w_wide")
    with f.loop("item", f["lo"], f["hi"]) as item:
        panel, block = split(f, item.index, layout.blocks)
        with f.loop("clear", 0, single.block_size, k.lanes) as at:
            f.store(f.zero(k.vector), f.gep(f["scratch"], at.index, k.scalar))
        first = f.i64(product(f, block, single.depth))
        end = f.smin(f.add(first, single.depth), pairs.channels)
        pack_channels(k, packing, panel, (first, end), f["scratch"])
        target = f.gep(k.pointers["panels"], f.mul(item.index, layout.block_size), k.scalar)
        with f.loop("pair", 0, layout.depth, carry=no_least(f, k.lanes)) as pair:
            early = f.gep(f["scratch"], f.mul(pair.index, 2 * half), k.scalar)
            to = f.gep(target, f.mul(pair.index, half), k.scalar)
            with f.loop("at", 0, half, k.lanes, carry=pair.carried) as at:
                upper, lower = (
                    f.load(f.gep(early, f.add(at.index, n), k.scalar), vec("i32", k.lanes)) for n in (0, half)
                )
                packed = f.or_(f.and_(upper, f.const(upper.ty, -65536)), f.lshr(lower, f.const(lower.ty, 16)))
                f.store(packed, f.gep(to, at.index, k.scalar))
                at.next(*lesser(f, at.carried, packed))
            pair.next(*at.results)
        f.store(least_of(f, pair.results[0]), f.gep(k.pointers["least"], item.index, "i64"))
    items = layout.groups * layout.panels * layout.blocks
    return k.finish(["panels", "least"], Count(items), single.block_size * k.element)
