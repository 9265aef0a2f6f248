"""Initialisers: the moments of their numbers, and refused arguments."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nacre as nc
from labels import label
from nacre import nn
from nacre.nn import init


def weight(*shape: int) -> nn.Parameter:
    nc.random.seed(0)
    return nn.Parameter(nc.zeros(shape))


DRAWN: list[tuple[Callable[[Any], Any], float, float | None]] = [
    (lambda w: init.uniform_(w, -2.0, 2.0), 2 / math.sqrt(3), 2.0),
    (lambda w: init.normal_(w, 0.0, 3.0), 3.0, None),
    (init.xavier_uniform_, math.sqrt(2 / 1100), math.sqrt(6 / 1100)),
    (lambda w: init.xavier_normal_(w, 2.0), 2 * math.sqrt(2 / 1100), None),
    (init.kaiming_uniform_, math.sqrt(2 / 300), math.sqrt(6 / 300)),
    (lambda w: init.kaiming_normal_(w, mode="fan_out", nonlinearity="relu"), math.sqrt(2 / 800), None),
]


@pytest.mark.parametrize(("fill", "deviation", "bound"), DRAWN, ids=range(len(DRAWN)))
def test_moments(fill: Callable[[Any], Any], deviation: float, bound: float | None) -> None:
    w = weight(800, 300)
    assert fill(w) is w and w.requires_grad
    numbers = w.numpy()
    assert abs(numbers.std() / deviation - 1) < 0.02 and abs(numbers.mean()) < 0.02 * deviation
    assert bound is None or np.abs(numbers).max() <= bound
    np.testing.assert_array_equal(fill(weight(800, 300)).numpy(), numbers)


def test_drawn_within_limits() -> None:
    w = init.trunc_normal_(weight(200, 50), 1.0, 2.0, 0.0, 2.0).numpy()
    assert w.min() >= 0.0 and w.max() <= 2.0 and abs(w.mean() - 1) < 0.02
    for dtype in (nc.float16, nc.bfloat16, nc.float64):
        rare = init.trunc_normal_(nn.Parameter(nc.zeros((300, 100), dtype=dtype)), 0.0, 1.0, 4.0, 1e9).numpy()
        assert rare.astype(float).min() >= 4.0
    with pytest.raises(nc.ArgumentError, match="must contain a number of dtype float16; got"):
        init.trunc_normal_(nn.Parameter(nc.zeros(9, dtype=nc.float16)), 0.0, 1.0, 1.0001, 1.0002)


def test_fixed_numbers() -> None:
    assert init.ones_(weight(2)).tolist() == [1.0, 1.0] and init.zeros_(weight(2)).tolist() == [0.0, 0.0]
    np.testing.assert_array_equal(init.eye_(weight(2, 3)).numpy(), np.eye(2, 3))
    x = nc.random.normal((1, 3, 5, 5))
    same = nn.functional.conv2d(x, init.dirac_(weight(3, 3, 3, 3)), padding=1)
    np.testing.assert_array_equal(same.numpy(), x.numpy())
    assert float(init.dirac_(weight(4, 2, 3), groups=2).sum()) == 4.0
    np.testing.assert_array_equal(init.copy_(weight(2, 2), np.eye(2)).numpy(), np.eye(2))


@pytest.mark.parametrize("shape", [(5, 5), (4, 7), (7, 2, 2)], ids=label)
def test_orthogonal(shape: tuple[int, ...]) -> None:
    w = init.orthogonal_(weight(*shape), 2.0).numpy().reshape(shape[0], -1)
    product = w @ w.T if w.shape[0] <= w.shape[1] else w.T @ w
    np.testing.assert_allclose(product, 4 * np.eye(len(product)), atol=1e-5)


def test_sparse() -> None:
    w = init.sparse_(weight(10, 4), 0.25).numpy()
    assert ((w == 0).sum(0) == 3).all()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: init.xavier_uniform_(weight(3)), "two axes"), (lambda: init.eye_(weight(3)), "matrix"),
        (lambda: init.kaiming_normal_(weight(3, 3), mode="both"), "fan_in"),
        (lambda: init.dirac_(weight(3, 3)), "filters"),

        (lambda: init.calculate_gain("swish"), "one of"), (lambda: init.copy_(weight(3), [1.0]), "must have shape"),
        (lambda: init.trunc_normal_(weight(3), 100.0), "be near"), (lambda: init.sparse_(weight(3), 0.5), "matrix"),
    ],
    ids=label,
)  # fmt: skip
def test_errors(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(nc.Error, match=message):
        make()


def test_complex_parameters_have_random_parts() -> None:
    for layer in (nn.Linear(300, 100, dtype=nc.complex64), nn.Embedding(300, 100, dtype=nc.complex128)):
        w = layer.weight.numpy()
        spread = np.sqrt(np.mean(np.abs(w) ** 2))
        assert np.isclose(spread, math.sqrt(2 / 3 / 300) if isinstance(layer, nn.Linear) else 1.0, rtol=0.02)
        assert np.isclose(np.mean(w.real**2), np.mean(w.imag**2), rtol=0.05)
    w = init.normal_(nn.Parameter(nc.zeros((300, 100), dtype=nc.complex64)), 2.0, 0.5).numpy()
    assert np.isclose(w.mean(), 2.0, atol=0.01) and np.isclose(np.mean(np.abs(w - 2.0) ** 2), 0.25, rtol=0.02)
    layer = nn.Linear(3, 2, dtype=nc.complex64)
    x = nc.asarray(np.ones((4, 3), np.complex64))
    before = nc.sum(nc.abs(layer(x)) ** 2)
    before.backward()
    assert layer.weight.grad.dtype is nc.complex64
    nc.optim.SGD(layer.parameters(), lr=0.01).step()
    assert nc.sum(nc.abs(layer(x)) ** 2).item() < before.item()
