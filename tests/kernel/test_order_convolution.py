"""The executable order against a plain convolution in float64, and its parts against results computed by hand."""

from __future__ import annotations

import numpy as np
import pytest

from nacre.kernel import order_convolution as order

CASES = [
    order.convolution(3, 6, 7, 4, (3, 3)),
    order.convolution(20, 5, 6, 3, (2, 3), stride=(2, 1), padding=((1, 0), (0, 2))),
    order.convolution(4, 9, 8, 6, (3, 2), dilation=(2, 3), padding=((2, 2), (1, 1)), groups=2),
    order.convolution(5, 6, 6, 5, (1, 1), stride=(2, 3), groups=5),
]


def plain(conv: order.Convolution, x: np.ndarray, w: np.ndarray) -> np.ndarray:
    """y by padding with zeros, in float64."""
    rows, columns = conv.rows, conv.columns
    padded = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (rows.low, rows.high), (columns.low, columns.high)))
    y = np.zeros((x.shape[0], conv.filters, rows.out, columns.out))
    for o in range(conv.filters):
        first = o // conv.group_filters * conv.group_channels
        for i in range(rows.out):
            for j in range(columns.out):
                top, left = i * rows.stride, j * columns.stride
                patch = padded[
                    :,
                    first : first + conv.group_channels,
                    top : top + rows.dilation * (rows.kernel - 1) + 1 : rows.dilation,
                    left : left + columns.dilation * (columns.kernel - 1) + 1 : columns.dilation,
                ]
                y[:, o, i, j] = (patch * w[o]).sum((1, 2, 3))
    return y


@pytest.mark.parametrize("conv", CASES)
def test_values(conv: order.Convolution) -> None:
    random = np.random.default_rng(1)
    x = random.standard_normal((2, conv.channels, conv.rows.size, conv.columns.size))
    w = random.standard_normal(conv.weight_shape)
    dy = random.standard_normal((2, conv.filters, conv.rows.out, conv.columns.out))
    x, w, dy = (a.astype(np.float32) for a in (x, w, dy))
    y = plain(conv, x, w)
    assert np.allclose(order.forward(conv, x, w), y, atol=1e-4)
    # the gradients are the adjoints of the forward map
    flow = (y * dy).sum()
    dx, dw = order.input_grad(conv, dy, w), order.weight_grad(conv, x, dy)
    assert np.isclose((dx.astype(np.float64) * x).sum(), flow, rtol=1e-4)
    assert np.isclose((dw.astype(np.float64) * w).sum(), flow, rtol=1e-4)


def test_chains_restart() -> None:
    assert [order.restart_blocks(t) for t in (1, 2, 9, 16, 17, 49)] == [16, 8, 1, 1, 1, 1]
    assert [order.restart_rows(w) for w in (1, 26, 256, 300)] == [256, 9, 1, 1]


def test_axis_taps_and_hits_are_inverse() -> None:
    axis = order.Axis(size=11, kernel=3, stride=2, low=2, high=1, dilation=3)
    taps = {(k, p, i) for p in range(axis.out) for k, i in axis.taps(p)}
    hits = {(k, p, i) for i in range(axis.size) for k, p in axis.hits(i)}
    assert taps == hits
    assert axis.out == (11 + 2 + 1 - 3 * 2 - 1) // 2 + 1


def test_absent_taps_do_not_touch_the_result() -> None:
    conv = order.convolution(1, 3, 3, 1, (3, 3), padding=((1, 1), (1, 1)))
    w = np.full(conv.weight_shape, np.inf, np.float32)
    w[0, 0, 1, 1] = 1
    corner = order.forward(conv, np.zeros((1, 1, 3, 3), np.float32), w)
    assert np.isnan(corner).all()  # inf · 0 inside the image
    w[0, 0, 1:, 1:] = 1
    assert order.forward(conv, np.ones((1, 1, 3, 3), np.float32), w)[0, 0, 0, 0] == 4


def test_empty_batch_gives_zero_weights() -> None:
    conv = order.convolution(2, 4, 4, 3, (3, 3))
    x, dy = np.zeros((0, 2, 4, 4), np.float32), np.zeros((0, 3, 2, 2), np.float32)
    assert not order.weight_grad(conv, x, dy).any()
