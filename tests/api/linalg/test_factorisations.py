"""Factorisations: backward errors, triangles, orthonormal columns, and matrices that have no factors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nacre as nc
from nacre.base.errors import ArgumentError, DTypeError, GradientError, LinAlgError, ShapeError

pytestmark = pytest.mark.sampled(3)

FACTOR = 10  # of the usual bound, n·ε
SIZES = (1, 5, 64, 65, 150)
Array = Any


def random(shape: tuple[int, ...], dtype: Any) -> Array:
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(dtype)


def graded(n: int, dtype: Any) -> Array:
    """A matrix whose columns differ by powers of 10."""
    return (random((n, n), dtype) * np.logspace(0, -12 if dtype is np.float64 else -5, n)).astype(dtype)


def small(found: Array, wanted: Array, n: int) -> None:
    """Require a backward error within the usual bound."""
    size = np.linalg.norm(wanted.astype(np.float64))
    error = np.linalg.norm(found.astype(np.float64) - wanted.astype(np.float64))
    assert error <= FACTOR * n * np.finfo(wanted.dtype).eps * size


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", SIZES)
def test_cholesky(n: int, dtype: Any) -> None:
    x = random((n, n), dtype)
    scale = np.logspace(0, 3, n).astype(dtype)
    for a in (x @ x.T + np.eye(n, dtype=dtype), (x @ x.T + n * np.eye(n, dtype=dtype)) * scale * scale[:, None]):
        lower = nc.linalg.cholesky(a).numpy()
        small(lower @ lower.T, a, n)
        assert not np.triu(lower, 1).any()
        assert nc.linalg.cholesky(np.tril(a)).numpy().tobytes() == lower.tobytes()
        upper = nc.linalg.cholesky(np.triu(a.T), upper=True).numpy()
        np.testing.assert_array_equal(upper, lower.T)


def test_the_upper_factor_reads_the_upper_triangle() -> None:
    a = np.array([[4.0, 2.0, 0.5], [9.0, 5.0, 1.0], [-7.0, 3.0, 6.0]])
    symmetric = np.triu(a) + np.triu(a, 1).T
    exact: Any = np.linalg.cholesky(symmetric).T

    def total(x: Any) -> Any:
        return nc.sum(nc.linalg.cholesky(x, upper=True) ** 3)

    np.testing.assert_allclose(nc.linalg.cholesky(a, upper=True).numpy(), exact, rtol=1e-14)
    np.testing.assert_allclose(np.linalg.cholesky(nc.tensor(a), upper=True).numpy(), exact, rtol=1e-14)
    for f in (total, nc.jit(total)):
        np.testing.assert_array_equal(nc.grad(f)(nc.tensor(a)).numpy(), nc.grad(f)(nc.tensor(symmetric)).numpy())


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(1, 1), (5, 5), (70, 70), (150, 150), (90, 40), (40, 90), (2, 6, 4)])
def test_lu(shape: tuple[int, ...], dtype: Any) -> None:
    singular = random(shape, dtype)
    singular[..., :, -1] = singular[..., :, 0]
    for a in (random(shape, dtype), singular, np.zeros(shape, dtype)):
        p, lower, upper = (t.numpy() for t in nc.linalg.lu(a))
        small(p @ lower @ upper, a, max(shape))
        assert np.abs(lower).max() <= 1
        assert not np.triu(lower, 1).any() and not np.tril(upper, -1).any()
        np.testing.assert_array_equal(np.sort(p, -1)[..., -1], 1)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(1, 1), (5, 5), (70, 70), (150, 150), (90, 40), (40, 90), (2, 6, 4), (0, 3), (3, 0)])
def test_qr(shape: tuple[int, ...], dtype: Any) -> None:
    rows, columns = shape[-2:]
    for a in (random(shape, dtype), np.zeros(shape, dtype), random(shape, dtype) * dtype(1e30)):
        for mode in ("reduced", "complete"):
            q, r = (t.numpy() for t in nc.linalg.qr(a, mode=mode))
            kept = rows if mode == "complete" else min(rows, columns)
            assert q.shape[-2:] == (rows, kept) and r.shape[-2:] == (kept, columns)
            small(q @ r, a, max(rows, columns))
            small(
                np.swapaxes(q, -1, -2) @ q, np.broadcast_to(np.eye(kept, dtype=dtype), (*shape[:-2], kept, kept)), rows
            )
            assert not np.tril(r, -1).any()


def test_graded_matrices() -> None:
    for dtype in (np.float32, np.float64):
        a = graded(40, dtype)
        q, r = (t.numpy() for t in nc.linalg.qr(a))
        for k in range(40):  # each column alone
            small(q @ r[:, k : k + 1], a[:, k : k + 1], 40)


def test_matrices_that_are_not_positive_definite() -> None:
    batch = np.stack([np.eye(3), np.diag([1.0, -1.0, 1.0]), np.eye(3)]).astype(np.float32)
    for f in (nc.linalg.cholesky, nc.jit(nc.linalg.cholesky), nc.vmap(nc.linalg.cholesky)):
        with pytest.raises(LinAlgError, match="leading minor of 2 rows is not positive"):
            f(nc.tensor(batch))
    large = np.eye(100)
    large[80, 80] = 0
    with pytest.raises(ValueError, match="leading minor of 81 rows"):
        nc.linalg.cholesky(large)
    with pytest.raises(LinAlgError, match="1 rows"):
        nc.linalg.cholesky([[nc.nan]])


def test_refused_operands() -> None:
    for f in (nc.linalg.cholesky, nc.linalg.lu, nc.linalg.qr):
        with pytest.raises(DTypeError, match="floating-point"):
            f([[1, 2], [3, 4]])
        with pytest.raises(ShapeError, match="must be a matrix"):
            f([1.0, 2.0])
    with pytest.raises(ShapeError, match="must be square"):
        nc.linalg.cholesky(nc.ones((2, 3)))
    with pytest.raises(ArgumentError, match="mode must be"):
        nc.linalg.qr(nc.ones((2, 2)), mode="full")
    with pytest.raises(GradientError, match="complete"):
        nc.grad(lambda x: nc.sum(nc.linalg.qr(x, mode="complete").R))(nc.ones((3, 2)))


def test_half_types_are_computed_in_float32() -> None:
    x = nc.tensor([[4.0, 2.0], [2.0, 5.0]], dtype=nc.float16)
    assert nc.linalg.cholesky(x).dtype is nc.float16
    assert nc.linalg.qr(x).R.dtype is nc.float16


def test_matrices_without_elements() -> None:
    assert nc.linalg.cholesky(nc.ones((0, 0))).shape == (0, 0)
    assert nc.linalg.cholesky(nc.ones((0, 3, 3))).shape == (0, 3, 3)
    assert [t.shape for t in nc.linalg.lu(nc.ones((2, 0)))] == [(2, 2), (2, 0), (0, 0)]
