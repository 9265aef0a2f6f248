"""The executable order of pooling against results computed by hand."""

from __future__ import annotations

import numpy as np

from nacre.kernel import order_window as order

NAN = np.float32(np.nan)


def image(*rows: list[float]) -> np.ndarray:
    return np.array([[rows]], np.float32)


def test_maximum_of_overlapping_windows() -> None:
    w = order.window(1, 1, 4, (1, 2), stride=(1, 1))
    x = image([1, 3, 3, 2])
    assert order.max_forward(w, x).ravel().tolist() == [3, 3, 3]
    dx = order.max_grad(w, x, image([1, 2, 4]))
    assert dx.ravel().tolist() == [0, 3, 4, 0]  # in a tie, the first tap receives the gradient


def test_a_nan_is_the_maximum() -> None:
    w = order.window(1, 1, 3, (1, 3))
    x = image([5, NAN, NAN])
    assert np.isnan(order.max_forward(w, x)).all()
    assert order.max_grad(w, x, image([1])).ravel().tolist() == [0, 1, 0]


def test_negative_zero_is_below_zero() -> None:
    w = order.window(1, 1, 2, (1, 2))
    assert not np.signbit(order.max_forward(w, image([-0.0, 0.0])))


def test_sums_and_their_gradient() -> None:
    w = order.window(1, 1, 2, (1, 2), stride=(1, 1), padding=((0, 0), (1, 1)))
    assert order.sum_forward(w, image([2, 6])).ravel().tolist() == [2, 8, 6]
    assert order.sum_grad(w, image([2, 3, 4])).ravel().tolist() == [5, 7]


def test_sums_start_at_zero() -> None:
    w = order.window(1, 1, 1, (1, 1))
    assert not np.signbit(order.sum_forward(w, image([-0.0])))
