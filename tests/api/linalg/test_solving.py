"""Linear systems, inverses and determinants: errors, shapes, and singular matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nacre as nc
from nacre.base.errors import DTypeError, LinAlgError, ShapeError

Array = Any


def matrices(*shape: int, dtype: Any = np.float64) -> Array:
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", [1, 5, 64, 100])
def test_solve(n: int, dtype: Any) -> None:
    scale = np.logspace(-3, 3, n).astype(dtype)
    for a in (matrices(n, n, dtype=dtype), matrices(n, n, dtype=dtype) * scale[:, None]):
        b = matrices(n, 3, dtype=dtype)
        x = nc.linalg.solve(a, b).numpy()
        bound = 10 * n * np.finfo(dtype).eps * (np.abs(a) @ np.abs(x) + np.abs(b)).max(1, keepdims=True)
        assert (np.abs(a @ x - b) <= bound).all()


def test_only_one_axis_is_a_vector() -> None:
    a, b = matrices(4, 3, 3), matrices(4, 3)
    with pytest.raises(ShapeError, match="must have 3 rows"):
        nc.linalg.solve(a, b)
    x = nc.linalg.solve(a, b[0]).numpy()
    assert x.shape == (4, 3)
    np.testing.assert_allclose(np.squeeze(a @ x[..., None], -1), np.broadcast_to(b[0], (4, 3)))
    assert nc.linalg.solve(a[0], matrices(5, 2, 3, 7)).shape == (5, 2, 3, 7)
    assert nc.linalg.solve(a, matrices(2, 1, 3, 7)).shape == (2, 4, 3, 7)


@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("unit", [False, True])
def test_solve_triangular(upper: bool, left: bool, unit: bool) -> None:
    a, b = matrices(2, 5, 5) + 3 * np.eye(5), matrices(2, 5, 3)
    used = np.triu(a) if upper else np.tril(a)
    if unit:
        used = used - used * np.eye(5) + np.eye(5)
    b = b if left else np.swapaxes(b, -1, -2)
    x = nc.linalg.solve_triangular(a, b, upper=upper, left=left, unit_diagonal=unit).numpy()
    np.testing.assert_allclose(used @ x if left else x @ used, b, rtol=1e-10, atol=1e-10)
    vector = nc.linalg.solve_triangular(
        a[0], b[0, :, 0] if left else b[0, 0], upper=upper, left=left, unit_diagonal=unit
    )
    np.testing.assert_array_equal(vector.numpy(), x[0, :, 0] if left else x[0, 0])


def test_inverse() -> None:
    for n in (0, 1, 5, 70):
        a = matrices(2, n, n)
        np.testing.assert_allclose(nc.linalg.inv(a).numpy() @ a, np.broadcast_to(np.eye(n), (2, n, n)), atol=1e-9)


def test_determinants() -> None:
    for n in (0, 1, 2, 5, 70):
        a = matrices(3, n, n)
        np.testing.assert_allclose(nc.linalg.det(a).numpy(), np.linalg.det(a), rtol=1e-8)
        found, wanted = nc.linalg.slogdet(a), np.linalg.slogdet(a)
        np.testing.assert_array_equal(found.sign.numpy(), wanted[0])
        np.testing.assert_allclose(found.logabsdet.numpy(), wanted[1], rtol=1e-8, atol=1e-12)
    singular = nc.tensor([[1.0, 2.0], [2.0, 4.0]])
    assert nc.linalg.det(singular).item() == 0
    assert [t.item() for t in nc.linalg.slogdet(singular)] == [0, -np.inf]
    large = 1e200 * np.eye(3)
    assert nc.linalg.slogdet(large).logabsdet.item() == pytest.approx(3 * np.log(1e200))


def test_singular_matrices() -> None:
    a = nc.tensor([[1.0, 2.0], [2.0, 4.0]])
    for f in (nc.linalg.inv, nc.jit(nc.linalg.inv), lambda x: nc.linalg.solve(x, nc.ones(2)), nc.grad(inverse_sum)):
        with pytest.raises(LinAlgError, match="singular: element 2 of the diagonal"):
            f(a)
    with pytest.raises(LinAlgError, match="element 1"):
        nc.vmap(nc.linalg.inv)(nc.stack([nc.eye(2), nc.zeros((2, 2))]))
    with pytest.raises(LinAlgError, match="no zeros"):
        nc.linalg.solve_triangular(a - a, nc.ones(2))
    assert nc.linalg.solve_triangular(a - a, nc.ones(2), unit_diagonal=True).tolist() == [1, 1]


def inverse_sum(x: Any) -> Any:
    return nc.sum(nc.linalg.inv(x))


def test_a_side_of_a_branch_that_is_not_taken_raises_nothing() -> None:
    def f(x: Any) -> Any:
        return nc.cond(x[0, 0] > 0, lambda: nc.linalg.inv(x), lambda: x)

    singular = nc.zeros((2, 2))
    assert nc.jit(f)(singular).tolist() == singular.tolist()
    assert nc.vmap(f)(nc.stack([singular, nc.eye(2)])).tolist() == [singular.tolist(), nc.eye(2).tolist()]


def test_integers_are_refused() -> None:
    for f in (nc.linalg.inv, nc.linalg.det, nc.linalg.slogdet, lambda x: nc.linalg.solve(x, [1, 2])):
        with pytest.raises(DTypeError, match="floating-point"):
            f([[1, 2], [3, 4]])
