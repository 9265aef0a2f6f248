"""Norms, products, powers and exponentials against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nacre as nc
from nacre.base.errors import ArgumentError, DTypeError, LinAlgError, ShapeError

RNG = np.random.default_rng(2)
X = RNG.normal(size=(2, 4, 3))


@pytest.mark.parametrize("order", [np.inf, -np.inf, 0, 1, 2, 3, 0.5, -1])
@pytest.mark.parametrize("axis", [0, -1])
def test_vector_norms(order: float, axis: int) -> None:
    for keepdims in (False, True):
        found = nc.linalg.vector_norm(X, axis=axis, ord=order, keepdims=keepdims).numpy()
        np.testing.assert_allclose(found, np.linalg.norm(X, order, axis, keepdims))


def test_vector_norms_over_several_axes() -> None:
    assert nc.linalg.vector_norm(X).item() == pytest.approx(np.linalg.norm(X.ravel()))
    found = nc.linalg.vector_norm(X, axis=(0, 2), ord=1).numpy()
    np.testing.assert_allclose(found, np.abs(X).sum((0, 2)))


@pytest.mark.parametrize("order", ["fro", 1, -1, np.inf, -np.inf])
def test_matrix_norms(order: Any) -> None:
    for keepdims in (False, True):
        found = nc.linalg.matrix_norm(X, ord=order, keepdims=keepdims).numpy()
        np.testing.assert_allclose(found, np.linalg.norm(X, order, (-2, -1), keepdims))


def test_refused_norms() -> None:
    with pytest.raises(ArgumentError, match="ord must be 'fro'"):
        nc.linalg.matrix_norm(X, ord="sum")
    wrong: Any = "fro"
    with pytest.raises(ArgumentError, match="ord must be a number"):
        nc.linalg.vector_norm(X, ord=wrong)
    with pytest.raises(DTypeError, match="floating-point"):
        nc.linalg.vector_norm([1, 2])


@pytest.mark.parametrize("offset", [-5, -2, 0, 1, 5])
def test_diagonals_and_traces(offset: int) -> None:
    for x in (X, (10 * X).astype(np.int32), X[:, :0]):
        np.testing.assert_array_equal(nc.linalg.diagonal(x, offset=offset).numpy(), np.diagonal(x, offset, -2, -1))
        np.testing.assert_allclose(nc.linalg.trace(x, offset=offset).numpy(), np.trace(x, offset, -2, -1))


def test_cross_products() -> None:
    y = RNG.normal(size=(4, 3))
    np.testing.assert_allclose(nc.linalg.cross(X, y).numpy(), np.cross(X, y))
    np.testing.assert_allclose(nc.linalg.cross(y.T, y.T + 1, axis=0).numpy(), np.cross(y.T, y.T + 1, axis=0))
    with pytest.raises(ShapeError, match="must have 3 elements"):
        nc.linalg.cross(X, X, axis=1)


def test_matrix_power() -> None:
    a = RNG.normal(size=(2, 4, 4))
    for n in (-3, -1, 0, 1, 2, 7):
        np.testing.assert_allclose(nc.linalg.matrix_power(a, n).numpy(), np.linalg.matrix_power(a, n), rtol=1e-8)
    whole = np.array([[1, 1], [0, 1]])
    np.testing.assert_array_equal(nc.linalg.matrix_power(whole, 9).numpy(), [[1, 9], [0, 1]])
    x = nc.eye(2)
    assert nc.linalg.matrix_power(x, 1) is not x


def test_multi_dot() -> None:
    shapes = [(4, 9), (9, 2), (2, 30), (30, 3)]
    xs = [RNG.normal(size=s) for s in shapes]
    np.testing.assert_allclose(nc.linalg.multi_dot(xs).numpy(), np.linalg.multi_dot(xs))
    ends = [xs[0][0], *xs[1:-1], xs[-1][:, 0]]
    np.testing.assert_allclose(nc.linalg.multi_dot(ends).numpy(), np.linalg.multi_dot(ends))
    with pytest.raises(ShapeError, match="vectors at both ends"):
        nc.linalg.multi_dot([xs[0], xs[1][:, 0], xs[2]])
    with pytest.raises(ArgumentError, match="at least 2"):
        nc.linalg.multi_dot(xs[:1])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("size", [1e-9, 0.1, 3.0, 100.0])
def test_expm(size: float, dtype: Any) -> None:
    """A matrix with known eigenvectors, for which the exponential is known."""
    n = 6
    basis, values = np.linalg.qr(RNG.normal(size=(n, n)))[0], -size * RNG.uniform(size=n)
    x = (basis * values) @ basis.T
    found = nc.linalg.expm(x.astype(dtype)).numpy()
    np.testing.assert_allclose(found, (basis * np.exp(values)) @ basis.T, atol=max(size, 1) * 30 * np.finfo(dtype).eps)


def test_expm_of_batches_and_of_large_matrices() -> None:
    x = RNG.normal(size=(3, 4, 4)) * np.array([0.1, 1, 20])[:, None, None]
    found = nc.linalg.expm(x).numpy()
    for k in range(3):
        assert found[k].tobytes() == nc.linalg.expm(x[k]).numpy().tobytes()
    with pytest.raises(LinAlgError, match="1-norm of at most"):
        nc.linalg.expm(1e6 * np.eye(2))
    assert nc.linalg.expm(nc.zeros((0, 0))).shape == (0, 0)


def test_names_of_the_main_namespace() -> None:
    for name in ("matmul", "matrix_transpose", "outer", "tensordot", "vecdot"):
        assert getattr(nc.linalg, name) is getattr(nc, name)
