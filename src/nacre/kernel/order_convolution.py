"""An executable definition of the canonical order of two-dimensional convolution.

Every kernel, layout, tile and instruction set gives exactly the bits of these functions.

* `forward`: for each output element, the input channels of its group are taken in blocks of 16,
  ascending; within a block the taps (kh, kw) ascend, and within a tap the channels of the block.
  The products form a chain of fused multiply-adds from +0, which restarts every `restart_blocks` = max(1, floor(256 /
  (16 kh kw))) blocks.  The sums of the chains are added in ascending order, starting with the first.
* `input_grad`: the same over blocks of 16 output channels of the group, with kh and kw ascending in
  the kernel's own index.
* `weight_grad`: for each image, the output rows ascend and within a row the columns.  The chain
  restarts every `restart_rows` = max(1, floor(256 / width)) output rows and at each image.  The
  sums of the chains are added in the order of image, then row block.

A tap outside the image, or one that a stride does not hit, is absent: it is not part of the chain.  A chain in which
every tap is absent is +0, and is added like any other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from nacre.base.records import dataclass
from nacre.kernel.softfloat import fma

CHANNEL_BLOCK = 16
CHAIN_LENGTH = 256

Array = npt.NDArray[Any]
Taps = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Axis:
    """One spatial axis of a window: its extent, and how the window moves over it."""

    size: int
    kernel: int
    stride: int = 1
    low: int = 0
    high: int = 0
    dilation: int = 1

    @property
    def out(self) -> int:
        """The number of window positions."""
        span = self.size + self.low + self.high - self.dilation * (self.kernel - 1)
        return max(0, (span - 1) // self.stride + 1)

    def taps(self, position: int) -> Taps:
        """The (tap, input index) pairs of a window position inside the image."""
        start = position * self.stride - self.low
        pairs = ((k, start + k * self.dilation) for k in range(self.kernel))
        return tuple((k, i) for k, i in pairs if 0 <= i < self.size)

    def hits(self, index: int) -> Taps:
        """The (tap, window position) pairs that touch an input index, taps ascending."""
        pairs = ((k, index + self.low - k * self.dilation) for k in range(self.kernel))
        return tuple(
            (k, p // self.stride) for k, p in pairs if p % self.stride == 0 and 0 <= p // self.stride < self.out
        )


@dataclass(frozen=True)
class Convolution:
    """A two-dimensional convolution: x [N,C,H,W], w [O,C/groups,kh,kw], y [N,O,·,·], any N."""

    channels: int
    filters: int
    rows: Axis
    columns: Axis
    groups: int = 1

    @property
    def group_channels(self) -> int:
        """Input channels of one group."""
        return self.channels // self.groups

    @property
    def group_filters(self) -> int:
        """Output channels of one group."""
        return self.filters // self.groups

    @property
    def taps(self) -> int:
        """Taps of the kernel, kh · kw."""
        return self.rows.kernel * self.columns.kernel

    @property
    def weight_shape(self) -> tuple[int, int, int, int]:
        """The shape of w."""
        return self.filters, self.group_channels, self.rows.kernel, self.columns.kernel


def convolution(
    channels: int,
    height: int,
    width: int,
    filters: int,
    kernel: tuple[int, int],
    *,
    stride: tuple[int, int] = (1, 1),
    padding: tuple[tuple[int, int], tuple[int, int]] = ((0, 0), (0, 0)),
    dilation: tuple[int, int] = (1, 1),
    groups: int = 1,
) -> Convolution:
    """Describe a convolution by its sizes; padding is ((top, bottom), (left, right))."""
    rows, columns = (
        Axis(size, kernel[a], stride[a], *padding[a], dilation[a]) for a, size in enumerate((height, width))
    )
    return Convolution(channels, filters, rows, columns, groups)


def restart_blocks(taps: int) -> int:
    """The number of channel blocks in one chain of `forward` and `input_grad`."""
    return max(1, CHAIN_LENGTH // (CHANNEL_BLOCK * taps))


def restart_rows(width: int) -> int:
    """The number of output rows in one chain of `weight_grad`; width is that of the output."""
    return max(1, CHAIN_LENGTH // max(1, width))


def _by_tap(per_position: Sequence[Taps], kernel: int) -> list[tuple[list[int], list[int]]]:
    """For each tap, the output positions that have it and the input index each one reads."""
    found: list[tuple[list[int], list[int]]] = [([], []) for _ in range(kernel)]
    for position, taps in enumerate(per_position):
        for k, i in taps:
            found[k][0].append(position)
            found[k][1].append(i)
    return found


def _chains(x: Array, w: Array, rows: Sequence[Taps], columns: Sequence[Taps]) -> Array:
    """Reduce x [N,R,·,·] with w [Q,R,kh,kw] to [N,Q,len(rows),len(columns)], one group."""
    depth, (kh, kw) = x.shape[1], w.shape[2:]
    shape = (x.shape[0], w.shape[0], len(rows), len(columns))
    total = np.zeros(shape, x.dtype)
    row_taps, column_taps = _by_tap(rows, kh), _by_tap(columns, kw)
    span = CHANNEL_BLOCK * restart_blocks(kh * kw)
    for start in range(0, depth, span):
        chain = np.zeros(shape, x.dtype)
        for block in range(start, min(depth, start + span), CHANNEL_BLOCK):
            for i, (out_rows, in_rows) in enumerate(row_taps):
                for j, (out_columns, in_columns) in enumerate(column_taps):
                    at = np.ix_(range(shape[0]), range(shape[1]), out_rows, out_columns)
                    part = chain[at]
                    for c in range(block, min(depth, block + CHANNEL_BLOCK)):
                        pixels = x[:, c][:, in_rows][:, :, in_columns]
                        part = fma(pixels[:, None], w[None, :, c, i, j, None, None], part)
                    chain[at] = part
        total = chain if start == 0 else total + chain
    return total


def forward(conv: Convolution, x: Array, w: Array) -> Array:
    """y [N,O,OH,OW] of x [N,C,H,W] and w [O,C/groups,kh,kw]."""
    rows = [conv.rows.taps(p) for p in range(conv.rows.out)]
    columns = [conv.columns.taps(p) for p in range(conv.columns.out)]
    c, o = conv.group_channels, conv.group_filters
    parts = [_chains(x[:, g * c : (g + 1) * c], w[g * o : (g + 1) * o], rows, columns) for g in range(conv.groups)]
    return np.concatenate(parts, 1)


def input_grad(conv: Convolution, dy: Array, w: Array) -> Array:
    """dx [N,C,H,W] of dy [N,O,OH,OW] and w [O,C/groups,kh,kw]."""
    rows = [conv.rows.hits(i) for i in range(conv.rows.size)]
    columns = [conv.columns.hits(i) for i in range(conv.columns.size)]
    o = conv.group_filters
    parts = [
        _chains(dy[:, g * o : (g + 1) * o], w[g * o : (g + 1) * o].transpose(1, 0, 2, 3), rows, columns)
        for g in range(conv.groups)
    ]
    return np.concatenate(parts, 1)


def weight_grad(conv: Convolution, x: Array, dy: Array) -> Array:
    """dw [O,C/groups,kh,kw] of x [N,C,H,W] and dy [N,O,OH,OW]."""
    total: Array | None = None
    height, width = conv.rows.out, conv.columns.out
    step = restart_rows(width)
    for n in range(x.shape[0]):
        for start in range(0, height, step):
            chain = np.zeros(conv.weight_shape, x.dtype)
            for row in range(start, min(height, start + step)):
                for column in range(width):
                    _add_pixel(conv, chain, x[n], dy[n, :, row, column], row, column)
            total = chain if total is None else total + chain
    return np.zeros(conv.weight_shape, x.dtype) if total is None else total


def _add_pixel(conv: Convolution, chain: Array, x: Array, dy: Array, row: int, column: int) -> None:
    """Extend the chains of every weight by one output pixel."""
    c, o = conv.group_channels, conv.group_filters
    row_taps, column_taps = conv.rows.taps(row), conv.columns.taps(column)
    if not row_taps or not column_taps:
        return
    (kh, ih), (kw, iw) = (zip(*taps, strict=True) for taps in (row_taps, column_taps))
    for g in range(conv.groups):
        at = np.ix_(range(g * o, (g + 1) * o), range(c), kh, kw)
        pixels = x[np.ix_(range(g * c, (g + 1) * c), ih, iw)]
        chain[at] = fma(dy[g * o : (g + 1) * o, None, None, None], pixels[None], chain[at])
