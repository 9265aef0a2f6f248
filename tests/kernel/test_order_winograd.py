"""Winograd's convolution equals convolution up to the error for which its points were chosen."""

from __future__ import annotations

import numpy as np
import pytest

from nacre.kernel import order_convolution, order_winograd

CASES = [
    order_convolution.convolution(3, 6, 9, 4, (3, 3), padding=((1, 1), (0, 2))),
    order_convolution.convolution(20, 5, 7, 3, (3, 3)),
    order_convolution.convolution(4, 9, 8, 6, (3, 3), padding=((3, 0), (1, 1)), groups=2),
    order_convolution.convolution(260, 4, 4, 2, (3, 3), padding=((1, 1), (1, 1))),
]


@pytest.mark.parametrize("conv", CASES)
def test_values(conv: order_convolution.Convolution) -> None:
    random = np.random.default_rng(1)
    x = random.standard_normal((2, conv.channels, conv.rows.size, conv.columns.size))
    w = random.standard_normal(conv.weight_shape)
    dy = random.standard_normal((2, conv.filters, conv.rows.out, conv.columns.out))
    x, w, dy = (a.astype(np.float32) for a in (x, w, dy))
    wide = [a.astype(np.float64) for a in (x, w, dy)]
    for name, a, b in (("forward", 0, 1), ("input_grad", 2, 1), ("weight_grad", 0, 2)):
        got = getattr(order_winograd, name)(conv, (x, w, dy)[a], (x, w, dy)[b])
        wanted = getattr(order_convolution, name)(conv, wide[a], wide[b])
        assert got.dtype == np.float32 and got.shape == wanted.shape
        assert np.abs(got - wanted).max() <= 3e-6 * np.abs(wanted).max()
        exact = getattr(order_winograd, name)(conv, wide[a], wide[b])
        np.testing.assert_allclose(exact, wanted, rtol=1e-12, atol=1e-12)


def test_a_tile_depends_only_on_its_own_pixels() -> None:
    conv = order_convolution.convolution(1, 8, 8, 1, (3, 3), padding=((1, 1), (1, 1)))
    x = np.zeros((1, 1, 8, 8), np.float32)
    x[0, 0, 0, 0] = np.inf
    y = order_winograd.forward(conv, x, np.ones((1, 1, 3, 3), np.float32))[0, 0]
    assert not np.isfinite(y[:4, :4]).any() and (y[4:] == 0).all() and (y[:, 4:] == 0).all()
