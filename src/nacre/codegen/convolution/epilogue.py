"""The output of a convolution: from [pixel][channel] to planes or blocks of channels, through the epilogue."""

from __future__ import annotations

from dataclasses import replace

from nacre.base.records import dataclass
from nacre.codegen.bfloat_pairs import round_to_bfloat
from nacre.codegen.convolution.pack import joined, prefetch_memory, transposed
from nacre.codegen.convolution.sequence import (
    ConvolutionEpilogue,
    ResultPlace,
    SequenceKernel,
    in_block,
    product,
    total,
    written_type,
)
from nacre.kernel.order_convolution import CHANNEL_BLOCK
from nacre.native.llvm_types import lanes_of, scalar_of, vec
from nacre.native.llvm_values import Operand, Val
from nacre.native.text import Function

PIECE = 16  # bytes of the channels that are transposed together


def rounded(f: Function, value: Val, result: str) -> Val:
    """Sums rounded once to the type of the result; bfloat16 as integers, which every back end can mask."""
    if scalar_of(value.ty) == result:
        return value
    return f.bitcast(round_to_bfloat(f, value), vec("i16", lanes_of(value.ty)))


def in_pieces(k: SequenceKernel, channels: int) -> bool:
    """Whether a number of channels is full pieces of 128 bits."""
    return channels * k.element % PIECE == 0


@dataclass(frozen=True)
class PixelWriter:
    """Writes runs of pixels to a result [N,C,H,W], or [N,C/16,H,W,16] where it is `blocked`.

    `plane` is the pixels of one plane, `group` the elements of a group of channels and `width` those of a pixel in
    scratch, where whole vectors of pixels can be read.  Groups of channels are `whole` if they are full pieces of 128
    bits.  The operands in `along` have the result's layout.
    """

    k: SequenceKernel
    out: Val
    operands: tuple[Val, ...]
    epilogue: ConvolutionEpilogue | None
    plane: Operand
    group: Operand
    whole: bool
    width: int
    along: tuple[Val, ...]
    blocked: bool
    result: str  # the type to which sums are rounded, before the epilogue

    def offset(self, planes: Operand, lane: Operand, pixel: Operand) -> Operand:
        """The index in the result of a pixel of a channel of an image and group (`planes`)."""
        f = self.k.f
        first = product(f, planes, self.group)
        if self.blocked:
            return total(f, first, in_block(f, lane, self.plane), product(f, pixel, CHANNEL_BLOCK))
        return total(f, first, product(f, lane, self.plane), pixel)

    def prefetch(self, rows: tuple[Operand, Operand], offset: Operand, count: Operand) -> None:
        """Prefetch the memory that `write` uses for some of the channels: results and operands of the epilogue.

        The channels of a block are adjacent, so each channel prefetches its share.
        """
        k, f = self.k, self.k.f
        stored = written_type(self.epilogue) or self.result
        for pointer in (self.out, *self.along):
            start, writes = f.gep(pointer, offset, stored), pointer is self.out
            if not self.blocked:
                prefetch_memory(k, start, self.plane, rows, count, stored, to_write=writes)
                continue
            with f.loop("share", *rows) as row:
                share = f.gep(start, in_block(f, row.index, self.plane, count), stored)
                prefetch_memory(k, share, 0, (0, 1), count, stored, to_write=writes)

    def write(self, by_pixel: Val, count: Val, channels: Val, channel: Operand, offset: Operand) -> None:
        """Write `count` pixels of some channels: the first is `channel`, and begins at `offset` of the result."""
        f = self.k.f
        if self.blocked:
            self._blocks(by_pixel, count, channels, channel, offset)
        elif self.epilogue is not None:
            self._planes(by_pixel, count, channels, channel, offset)
        else:
            target = f.gep(self.out, offset, self.result)
            f.call(self._function(), "void", [by_pixel, count, channels, target, f.i64(self.plane)])

    def _function(self) -> str:
        """The function that writes pixels to planes of any size; without an epilogue, kernels share it."""
        k = self.k
        name = "write"
        if name not in k.module.functions:
            f = k.internal(name, {"pixels": "ptr", "count": "i64", "channels": "i64", "target": "ptr", "plane": "i64"})
            inside = replace(self, k=k.inside(f), out=f["target"], plane=f["plane"])
            inside._planes(f["pixels"], f["count"], f["channels"], 0, 0)
            f.ret()
        return name

    def _blocks(self, by_pixel: Val, count: Val, channels: Val, channel: Operand, offset: Operand) -> None:
        """Write pixels to blocks, a vector of channels at a time."""
        k, f = self.k, self.k.f
        with f.loop("lane", 0, channels, k.lanes) as lane:
            first, start = f.add(lane.index, channel), f.add(in_block(f, lane.index, self.plane), offset)
            with f.loop("pixel", 0, count) as at:
                value = f.load(f.gep(by_pixel, f.add(f.mul(at.index, self.width), lane.index), k.scalar), k.vector)
                self.write_vector(value, first, f.add(f.mul(at.index, CHANNEL_BLOCK), start))

    def write_vector(self, value: Val, channel: Val, offset: Val) -> None:
        """Write a vector of one pixel's channels to a block."""
        self._vector(value, ResultPlace(channel, offset, None, self.operands, blocked=True))

    def _planes(self, by_pixel: Val, count: Val, channels: Val, channel: Operand, offset: Operand) -> None:
        """Write pixels to planes, as many channels at a time as a piece of 128 bits holds."""
        k, f = self.k, self.k.f
        full = f.and_(count, -k.lanes)
        with f.loop("channel", 0, channels, self._piece) as ch:
            first = f.add(ch.index, channel), f.add(f.mul(ch.index, self.plane), offset)
            left = f.sub(channels, ch.index)
            pixels = f.gep(by_pixel, ch.index, k.scalar)
            with f.loop("at", 0, full, k.lanes) as at:
                self._vectors(pixels, first, left, at.index, None)
            with f.when(f.icmp("slt", full, count)):
                self._vectors(pixels, first, left, full, f.lane_mask(f.sub(count, full), k.lanes))

    @property
    def _piece(self) -> int:
        return PIECE // self.k.element

    def _vectors(self, pixels: Val, first: tuple[Val, Val], left: Val, at: Val, mask: Val | None) -> None:
        """Send a vector of pixels of a piece's channels to the output; `left` channels remain."""
        k, f, size = self.k, self.k.f, self._piece
        rows = f.gep(pixels, product(f, at, self.width), k.scalar)
        pieces = [f.load(f.gep(rows, i * self.width, k.scalar), f"<{size} x {k.scalar}>") for i in range(k.lanes)]
        columns = transposed(f, [joined(f, pieces[i::size]) for i in range(size)], size)
        for i, value in enumerate(columns):
            place = ResultPlace(
                f.add(first[0], i), f.add(f.add(first[1], product(f, i, self.plane)), at), mask, self.operands
            )
            if self.whole or i == 0:
                self._vector(value, place)
            else:
                with f.when(f.icmp("sgt", left, i)):
                    self._vector(value, place)

    def _vector(self, value: Val, place: ResultPlace) -> None:
        """Send one vector of a channel's results to the output."""
        f = self.k.f
        value = rounded(f, value, self.result)
        if self.epilogue is not None:
            value = self.epilogue(f, value, place)
        to = f.gep(self.out, place.offset, scalar_of(value.ty))
        if place.mask is None:
            f.store(value, to)
        else:
            f.masked_store(value, to, place.mask)
