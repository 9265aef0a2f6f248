"""An executable definition of the canonical results of windows that slide over images.

Taps outside the image are absent.  Within a window they ascend by (kh, kw); where windows overlap,
an input element receives gradients by ascending output position.

* The maximum is IEEE 754's `maximum` (NaN if a tap is NaN, -0 < +0) and needs no order; the maximum of no taps is -inf.
* The gradient of a maximum goes to the first NaN of the window, else to the first tap that no tap
  exceeds; zeros are equal.  Gradients are added in order, from +0.
* The sum adds the taps in order, from +0; the sum of no taps is +0.  Its gradient adds the gradients of the windows
  around an element in order, from +0.
* Half types are summed in float32 and rounded once.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from nacre.base.records import dataclass
from nacre.kernel.order_convolution import Axis
from nacre.kernel.softfloat import maximum

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Window:
    """A pooling window over each channel of x [N,C,H,W]."""

    channels: int
    rows: Axis
    columns: Axis

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, rows and columns of the output."""
        return self.channels, self.rows.out, self.columns.out

    def taps(self) -> Iterator[tuple[int, int, list[tuple[int, int, int]]]]:
        """(row, column, [(tap, input row, input column)]) of every output position, ascending."""
        for row in range(self.rows.out):
            for column in range(self.columns.out):
                yield (
                    row,
                    column,
                    [
                        (kh * self.columns.kernel + kw, i, j)
                        for kh, i in self.rows.taps(row)
                        for kw, j in self.columns.taps(column)
                    ],
                )


def window(
    channels: int,
    height: int,
    width: int,
    kernel: tuple[int, int],
    *,
    stride: tuple[int, int] | None = None,
    padding: tuple[tuple[int, int], tuple[int, int]] = ((0, 0), (0, 0)),
    dilation: tuple[int, int] = (1, 1),
) -> Window:
    """Describe a pooling window by its sizes; the stride is the kernel's size unless given."""
    step = stride or kernel
    rows, columns = (Axis(size, kernel[a], step[a], *padding[a], dilation[a]) for a, size in enumerate((height, width)))
    return Window(channels, rows, columns)


def max_forward(w: Window, x: Array) -> Array:
    """y [N,C,OH,OW], the largest tap of every window of x [N,C,H,W]."""
    y = np.full((x.shape[0], *w.shape), -np.inf, x.dtype)
    for row, column, taps in w.taps():
        for _, i, j in taps:
            y[..., row, column] = maximum(y[..., row, column], x[..., i, j])
    return y


def max_grad(w: Window, x: Array, dy: Array) -> Array:
    """dx [N,C,H,W] of x and dy [N,C,OH,OW]."""
    dx = np.zeros_like(x)
    for row, column, taps in w.taps():
        best = np.full(x.shape[:2], -np.inf, x.dtype)
        chosen = np.full(x.shape[:2], -1)
        for tap, i, j in taps:
            value = x[..., i, j]
            better = (chosen < 0) | ((value > best) | np.isnan(value)) & ~np.isnan(best)
            best, chosen = np.where(better, value, best), np.where(better, tap, chosen)
        for tap, i, j in taps:
            added = dx[..., i, j] + dy[..., row, column]
            dx[..., i, j] = np.where(chosen == tap, added, dx[..., i, j])
    return dx


def sum_forward(w: Window, x: Array) -> Array:
    """y [N,C,OH,OW], the sum of every window of x [N,C,H,W]."""
    y = np.zeros((x.shape[0], *w.shape), x.dtype)
    for row, column, taps in w.taps():
        for _, i, j in taps:
            y[..., row, column] += x[..., i, j]
    return y


def sum_grad(w: Window, dy: Array) -> Array:
    """dx [N,C,H,W] of dy [N,C,OH,OW]."""
    dx = np.zeros((dy.shape[0], w.channels, w.rows.size, w.columns.size), dy.dtype)
    for row, column, taps in w.taps():
        for _, i, j in taps:
            dx[..., i, j] += dy[..., row, column]
    return dx
