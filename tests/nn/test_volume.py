"""Convolution of volumes and transposed convolutions against sums written out in NumPy."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

import nacre as nc
from labels import label
from nacre.nn import functional as F


def rand(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape)


def correlate(x: np.ndarray, w: np.ndarray, stride: Any, padding: Any, dilation: Any, groups: int) -> np.ndarray:
    """Any number of spatial axes, tap by tap."""
    x = np.pad(x, [(0, 0), (0, 0), *((p, p) for p in padding)])
    out = [
        (n - d * (k - 1) - 1) // s + 1 for n, k, s, d in zip(x.shape[2:], w.shape[2:], stride, dilation, strict=True)
    ]
    o, c = w.shape[0] // groups, w.shape[1]
    y = np.zeros((x.shape[0], w.shape[0], *out))
    for g in range(groups):
        for tap in product(*map(range, w.shape[2:])):
            at = [
                slice(t * d, t * d + (n - 1) * s + 1, s) for t, d, n, s in zip(tap, dilation, out, stride, strict=True)
            ]
            taken = x[(slice(None), slice(g * c, (g + 1) * c), *at)]
            filters = w[(slice(g * o, (g + 1) * o), slice(None), *tap)]
            y[:, g * o : (g + 1) * o] += np.einsum("nc...,oc->no...", taken, filters)
    return y


FORMS = [
    ((2, 4, 5, 6, 7), (6, 4, 2, 3, 3), (1, 1, 1), (0, 0, 0), (1, 1, 1), 1),
    ((1, 4, 7, 6, 5), (6, 2, 3, 3, 2), (2, 1, 3), (1, 1, 0), (2, 1, 1), 2),
    ((2, 3, 1, 4, 4), (3, 1, 1, 3, 3), (1, 2, 2), (0, 1, 1), (1, 1, 1), 3),
    ((0, 2, 3, 3, 3), (2, 2, 3, 3, 3), (1, 1, 1), (1, 1, 1), (1, 1, 1), 1),
]


@pytest.mark.parametrize("form", FORMS, ids=label)
def test_conv3d(form: Any) -> None:
    shape, kernel, stride, padding, dilation, groups = form
    x, w, b = rand(*shape), rand(*kernel, seed=1), rand(kernel[0], seed=2)
    wanted = correlate(x, w, stride, padding, dilation, groups) + b[:, None, None, None]
    for dtype, bound in ((np.float64, 1e-12), (np.float32, 1e-5), (np.float16, 2e-2)):
        given = [nc.asarray(a.astype(dtype)) for a in (x, w, b)]
        y = F.conv3d(*given, stride, padding, dilation, groups)
        assert y.dtype == given[0].dtype
        np.testing.assert_allclose(y.numpy(), wanted, rtol=bound, atol=bound * 10)
        again = nc.jit(lambda *a: F.conv3d(*a, stride, padding, dilation, groups))(*given)
        np.testing.assert_array_equal(again.numpy(), y.numpy())


@pytest.mark.parametrize("form", FORMS[:3], ids=label)
def test_transposed_is_the_adjoint(form: Any) -> None:
    shape, kernel, stride, padding, dilation, groups = form
    x, w = rand(*shape), rand(*kernel, seed=1)
    y = correlate(x, w, stride, padding, dilation, groups)
    g = rand(*y.shape, seed=2)
    rest = [
        (n + 2 * p - d * (k - 1) - 1) % s
        for n, p, d, k, s in zip(shape[2:], padding, dilation, kernel[2:], stride, strict=True)
    ]
    back = F.conv_transpose3d(nc.tensor(g), nc.tensor(w), None, stride, padding, rest, groups, dilation)
    assert back.shape == shape
    np.testing.assert_allclose((back.numpy() * x).sum(), (g * y).sum(), rtol=1e-10)
    _, pull = nc.vjp(lambda a: F.conv3d(a, nc.tensor(w), None, stride, padding, dilation, groups), nc.tensor(x))
    np.testing.assert_allclose(pull(nc.tensor(g))[0].numpy(), back.numpy(), rtol=1e-10, atol=1e-10)


def test_conv3d_has_derivatives_and_batches() -> None:
    x, w = nc.tensor(rand(2, 2, 4, 4, 4)), nc.tensor(rand(4, 1, 2, 2, 2, seed=1))

    def f(a: Any, b: Any) -> Any:
        return F.conv3d(a, b, None, (2, 1, 1), 1, 1, 2)

    t = nc.tensor(rand(4, 1, 2, 2, 2, seed=3))
    value, tangent = nc.jvp(lambda b: f(x, b), (w,), (t,))
    np.testing.assert_allclose(tangent.numpy(), f(x, t).numpy(), rtol=1e-12)
    g = nc.tensor(rand(*value.shape, seed=4))
    (pulled,) = nc.vjp(lambda b: f(x, b), w)[1](g)
    np.testing.assert_allclose((pulled.numpy() * t.numpy()).sum(), (g.numpy() * tangent.numpy()).sum(), rtol=1e-10)
    each = nc.vmap(lambda a: f(a, w))(nc.reshape(x, (2, 1, 2, 4, 4, 4)))
    np.testing.assert_array_equal(each.numpy().reshape(value.shape), value.numpy())


@pytest.mark.parametrize(("stride", "padding", "more", "dilation"), [(1, 0, 0, 1), (3, 1, 2, 1), (2, 2, 1, 2)])
def test_conv_transpose1d(stride: int, padding: int, more: int, dilation: int) -> None:
    g, w = rand(2, 4, 6), rand(4, 3, 5, seed=1)
    y = F.conv_transpose1d(nc.tensor(g), nc.tensor(w), None, stride, padding, (more,), 1, dilation)
    x = rand(*y.shape, seed=2)
    forward = correlate(x, w, (stride,), (padding,), (dilation,), 1)[:, :, :6]
    np.testing.assert_allclose((y.numpy() * x).sum(), (forward * g).sum(), rtol=1e-10)
    one = F.conv_transpose1d(nc.tensor(g[0]), nc.tensor(w), [1.0, 2.0, 3.0], stride, padding, more, 1, dilation)
    np.testing.assert_allclose(one.numpy(), y.numpy()[0] + np.array([[1.0], [2.0], [3.0]]), rtol=1e-12)


@pytest.mark.parametrize(("f", "message"), [
    (lambda: F.conv3d(nc.ones((1, 1, 2, 5, 5)), nc.ones((1, 1, 3, 3, 3))), "conv3d: the padded depth"),
    (lambda: F.conv3d(nc.ones((1, 1, 5, 5)), nc.ones((1, 1, 3, 3))), "conv3d: filters"),
    (lambda: F.conv3d(nc.ones((1, 2, 5, 5, 5)), nc.ones((1, 1, 3, 3, 3))), "groups"),
    (lambda: F.conv3d(nc.ones((1, 1, 5, 5, 5)), nc.ones((1, 1, 3, 3, 3)), stride=(0, 1, 1)), "must be positive"),
    (lambda: F.conv3d(nc.ones((1, 1, 5, 5, 5)), nc.ones((1, 1, 3, 3, 3)), padding="most"), '"same" or "valid"'),
    (lambda: F.conv_transpose3d(nc.ones((1, 2, 5, 5, 5)), nc.ones((1, 1, 3, 3, 3))), "filters"),
    (lambda: F.conv_transpose3d(nc.ones((1, 1, 2, 5, 5)), nc.ones((1, 1, 1, 3, 3)), padding=1), "must be positive"),
    (lambda: F.conv_transpose1d(nc.ones(5), nc.ones((1, 1, 3))), "conv_transpose1d: signals"),
], ids=label)  # fmt: skip
def test_errors(f: Any, message: str) -> None:
    with pytest.raises(nc.Error, match=message):
        f()
