"""How finished pixels leave a convolution: from [pixel][channel] to planes, through the epilogue."""

from __future__ import annotations

from dataclasses import dataclass

from nacre.codegen.convolve_pack import ask_for, transpose_matrix
from nacre.codegen.convolve_steps import Epilogue, Kernel, Place
from nacre.native.text import Operand, Val


@dataclass(frozen=True)
class Finish:
    """Writes runs of pixels to the planes of a result [N,C,H,W].

    `plane` is the pixels of one plane, `width` the elements of a pixel in scratch and `pitch` those of a channel's
    pixels once they are transposed.  Of the operands, those read `along` lie like the result.
    """

    k: Kernel
    out: Val
    operands: tuple[Val, ...]
    epilogue: Epilogue | None
    plane: int
    width: int
    pitch: int
    along: tuple[Val, ...]

    def ask(self, rows: tuple[Operand, Operand], offset: Operand, count: Operand) -> None:
        """Prefetch what `write` will touch at some of the channels: the results and what the epilogue reads."""
        k, f = self.k, self.k.f
        for pointer in (self.out, *self.along):
            ask_for(k, f.gep(pointer, offset, k.scalar), self.plane, rows, count, to_write=pointer is self.out)

    def write(self, by_pixel: Val, by_channel: Val, count: Val, channels: Val, channel: Operand,
              offset: Operand) -> None:
        """Write `count` pixels of some channels: the first is `channel`, and begins at `offset` of the result."""
        k, f = self.k, self.k.f
        transpose_matrix(k, f, by_pixel, self.width, count, channels, by_channel, self.pitch)
        full = f.and_(count, -k.lanes)
        with f.loop("channel", 0, channels) as ch:
            number = f.add(ch.index, channel)
            begin = f.add(f.mul(ch.index, self.plane), offset)
            row = f.gep(by_channel, f.mul(ch.index, self.pitch), k.scalar)
            with f.loop("at", 0, full, k.lanes) as at:
                self._vector(row, number, begin, at.index, None)
            with f.when(f.icmp("slt", full, count)):
                mask = f.lane_mask(f.sub(count, full), k.lanes)
                self._vector(row, number, begin, full, mask)

    def _vector(self, row: Val, channel: Val, offset: Val, at: Val, mask: Val | None) -> None:
        """Send one vector of a channel's results to the output."""
        k, f = self.k, self.k.f
        value = f.load(f.gep(row, at, k.scalar), k.vector)
        place = Place(channel, f.add(offset, at), mask, self.operands)
        if self.epilogue is not None:
            value = self.epilogue(f, value, place)
        to = f.gep(self.out, place.offset, k.scalar)
        if mask is None:
            f.store(value, to)
        else:
            f.masked_store(value, to, mask)
