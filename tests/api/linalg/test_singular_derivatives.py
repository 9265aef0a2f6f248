"""Gradients where formulas divide by zero: norms of zeros, and determinants of singular matrices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nacre as nc
from api.linalg.modes import check_every_mode
from ops.samples import generator

Array = np.ndarray
ZEROS = nc.zeros((2, 3), dtype=nc.float64)
NORMS: dict[str, Callable[[Any], Any]] = {
    "fro": nc.linalg.matrix_norm,
    "norm": nc.linalg.norm,
    "rows": lambda x: nc.sum(nc.linalg.vector_norm(x, axis=1, keepdims=True)),
    **{f"{p}": lambda x, p=p: nc.linalg.vector_norm(x, ord=p) for p in (-2, 0.5, 1, 1.5, 2, 3, 4, np.inf)},
}


@pytest.mark.parametrize("f", NORMS.values(), ids=NORMS)
@pytest.mark.parametrize("dtype", [nc.float64, nc.complex128], ids=str)
def test_norms_of_zeros(f: Callable[[Any], Any], dtype: Any) -> None:
    """The slope and the second derivative are 0, in every mode."""
    x = ZEROS.astype(dtype)
    for g in (nc.grad(f), nc.jit(nc.grad(f)), lambda x: nc.vmap(nc.grad(f))(x[None])[0]):
        np.testing.assert_array_equal(g(x).numpy(), np.zeros((2, 3)))
    assert nc.jvp(f, (x,), (x + 1,))[1].item() == 0
    if dtype is nc.float64:
        assert not np.any(nc.hessian(f)(x).numpy())
    leaf = nc.tensor(x).requires_grad_()
    f(leaf).backward()
    np.testing.assert_array_equal(leaf.grad.numpy(), np.zeros((2, 3)))


def test_norms_of_vectors_with_zeros() -> None:
    """An element 0 of a longer vector has the derivatives of the function there."""
    x = nc.asarray(np.array([0.0, 3.0, -4.0]))
    for p, slope in ((2, [0, 0.6, -0.8]), (1.5, None), (3, None), (0.5, None)):
        found = nc.grad(lambda x, p=p: nc.linalg.vector_norm(x, ord=p))(x).numpy()
        size = np.abs(x.numpy()[1:])
        total = (size**p).sum() ** (1 / p - 1)
        wanted = [0, *(np.sign(x.numpy()[1:]) * size ** (p - 1) * total)] if slope is None else slope
        np.testing.assert_allclose(found, wanted, rtol=1e-14)
    unit = x.numpy() / 5
    second = nc.hessian(nc.linalg.vector_norm)(x).numpy()
    np.testing.assert_allclose(second, (np.eye(3) - np.outer(unit, unit)) / 5, rtol=1e-14, atol=1e-16)


def cofactors(a: Array) -> Array:
    """Signed minors."""
    n = len(a)
    found = np.empty_like(a)
    for i, j in np.ndindex(n, n):
        found[i, j] = (-1) ** (i + j) * np.linalg.det(np.delete(np.delete(a, i, 0), j, 1))
    return found


def of_rank(n: int, rank: int, imaginary: bool = False) -> Array:
    """A random matrix of a rank."""
    rng = generator(10 * n + rank)
    parts = [rng.normal(size=(n, rank)) + (1j * rng.normal(size=(n, rank)) if imaginary else 0) for _ in range(2)]
    return parts[0] @ parts[1].T


EXACT = [
    [[1, 2], [2, 4]],
    [[0, 1], [0, 0]],
    [[0, 0], [0, 0]],
    [[0, 1, 0], [0, 0, 1], [0, 0, 0]],
    [[0, 0, 0], [0, 0, 0], [0, 1, 0]],
    [[0, 0, 1], [0, 0, 2], [1, 0, 3]],
    [[1, 2, 3], [4, 5, 6], [7, 8, 9]],
    [[1, 2, 3], [2, 4, 6], [0, 1, 1]],
    [[1, 1, 1], [1, 1, 1], [1, 1, 1]],
    [[0, 2, 0, 1], [0, 0, 0, 3], [0, 0, 5, 4], [0, 0, 0, 0]],
]


@pytest.mark.parametrize("rows", EXACT, ids=str)
def test_the_gradient_of_det_is_the_matrix_of_cofactors(rows: Any) -> None:
    a = np.array(rows, np.float64)
    for g in (nc.grad(nc.linalg.det), nc.jit(nc.grad(nc.linalg.det))):
        np.testing.assert_allclose(g(nc.asarray(a)).numpy(), cofactors(a), atol=1e-14)
    tangent = nc.jvp(nc.linalg.det, (nc.asarray(a),), (nc.ones(a.shape, dtype=nc.float64),))[1]
    np.testing.assert_allclose(tangent.numpy(), cofactors(a).sum(), atol=1e-14)


@pytest.mark.parametrize("n", [1, 2, 5, 8, 40])
@pytest.mark.parametrize("imaginary", [False, True])
def test_ranks(n: int, imaginary: bool) -> None:
    whole = cofactors(of_rank(n, n, imaginary))
    for rank in range(max(n - 2, 0), n + 1):
        a = of_rank(n, rank, imaginary)
        found = nc.grad(lambda x: nc.real(nc.linalg.det(x)))(nc.asarray(a)).numpy()
        np.testing.assert_allclose(found, cofactors(a).conj(), atol=1e-11 * np.abs(whole).max())


def test_gradients_of_batches_with_singular_matrices() -> None:
    batch = np.stack([of_rank(4, rank) for rank in (4, 3, 2, 0)])
    check_every_mode(lambda x: nc.grad(lambda x: nc.sum(nc.linalg.det(x)))(x), nc.asarray(batch))


def test_second_derivatives_of_det() -> None:
    """They are minors of the other rows and columns; a singular matrix has NaN instead of a wrong number."""
    a = of_rank(3, 3)
    found = nc.hessian(nc.linalg.det)(nc.asarray(a)).numpy()
    for i, j, k, m in np.ndindex(3, 3, 3, 3):
        row, column = ({0, 1, 2} - {i, k}, {0, 1, 2} - {j, m})
        if i == k or j == m:
            assert abs(found[i, j, k, m]) < 1e-13
        else:
            sign = (-1) ** (i + j + k + m) * np.sign((i - k) * (j - m))
            np.testing.assert_allclose(found[i, j, k, m], sign * a[min(row), min(column)], rtol=1e-12)
    assert np.isnan(nc.hessian(nc.linalg.det)(nc.zeros((2, 2))).numpy()).all()
    assert np.isnan(nc.grad(lambda x: nc.linalg.slogdet(x).logabsdet)(nc.zeros((2, 2))).numpy()).all()


@pytest.mark.parametrize("ord", [1, 2, np.inf, "fro", "nuc", -1, -2, -np.inf])
@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0, 0), (2, 0, 3), (0, 2, 3)], ids=str)
def test_norms_without_elements(ord: Any, shape: tuple[int, ...]) -> None:
    try:
        wanted = np.linalg.norm(np.zeros(shape), ord, axis=(-2, -1))
    except ValueError:
        with pytest.raises(nc.ShapeError, match=r"matrix_norm: for ord=.*there must be elements along the axes"):
            nc.linalg.matrix_norm(nc.zeros(shape), ord=ord)
    else:
        np.testing.assert_array_equal(nc.linalg.matrix_norm(nc.zeros(shape), ord=ord).numpy(), wanted)


def test_norms_of_empty_vectors() -> None:
    for order in (0, 0.5, 1, 2, 3, np.inf):
        assert nc.linalg.vector_norm(nc.zeros(0), ord=order).item() == 0
    with pytest.raises(nc.ShapeError, match="vector_norm: for ord=-inf"):
        nc.linalg.vector_norm(nc.zeros(0), ord=-np.inf)
