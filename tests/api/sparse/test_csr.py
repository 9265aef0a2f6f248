"""Products of sparse matrices by rows: SciPy's numbers, derivatives, transforms, errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nacre as nc


def _matrix(rows: int, columns: int, dtype: Any = np.float64, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    held = rng.normal(size=(rows, columns)) * (rng.random((rows, columns)) < 0.4)
    return (held * 4).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16, np.complex128, np.int64])
@pytest.mark.parametrize("shape", [(5, 7), (1, 4), (4, 1), (0, 3), (3, 0)])
def test_products_are_those_of_the_dense_matrix(shape: tuple[int, int], dtype: Any) -> None:
    held = _matrix(*shape, dtype)
    m = nc.sparse.from_dense(held)
    assert m.to_dense().tolist() == held.tolist() and m.T.to_dense().tolist() == held.T.tolist()
    assert m.shape == shape and m.nnz == np.count_nonzero(held) and m.T.shape == shape[::-1]
    rng = np.random.default_rng(1)
    close = {"rtol": 1e-2, "atol": 1e-2} if dtype is np.float16 else {"rtol": 1e-5, "atol": 1e-5}
    for x in (rng.normal(size=shape[1]) * 3, rng.normal(size=(shape[1], 2)) * 3):
        np.testing.assert_allclose((m @ nc.tensor(x.astype(dtype))).numpy(), held @ x.astype(dtype), **close)
    for y in (rng.normal(size=shape[0]) * 3, rng.normal(size=(2, shape[0])) * 3):
        np.testing.assert_allclose((y.astype(dtype) @ m).numpy(), y.astype(dtype) @ held, **close)


@pytest.mark.parametrize("format", ["csr", "csc", "coo", "dia"])
def test_matrices_of_scipy(format: str) -> None:
    sparse = pytest.importorskip("scipy.sparse")
    held = sparse.random(6, 5, 0.3, format=format, random_state=1)
    assert nc.sparse.from_scipy(held).to_dense().tolist() == held.toarray().tolist()


def test_entries_of_one_place_are_added_in_order() -> None:
    m = nc.sparse.csr([1.0, 2.0, 4.0], [1, 1, 0], [0, 2, 2, 3], shape=(3, 2))
    assert m.to_dense().tolist() == [[0, 3], [0, 0], [4, 0]]
    assert (m @ nc.tensor([10.0, 1.0])).tolist() == [3, 0, 40]
    assert m.T.to_dense().tolist() == [[0, 0, 4], [3, 0, 0]]


def test_products_have_derivatives_and_the_same_bits_when_compiled() -> None:
    m, x = nc.sparse.from_dense(_matrix(4, 5)), nc.tensor(np.random.default_rng(2).normal(size=(5, 3)))
    nc.check_grads(lambda data, x: m.with_data(data) @ x, (m.data, x), order=2)
    nc.check_grads(lambda data: nc.ones((2, 4), dtype=nc.float64) @ m.with_data(data), (m.data,))
    f = nc.jit(lambda m, x: (m @ x, m.T))
    product, turned = f(m, x)
    assert str(product) == str(m @ x) and str(turned.to_dense()) == str(m.to_dense().T)
    assert str(nc.vmap(lambda v: m @ v, in_axes=1, out_axes=1)(x)) == str(m @ x)
    weight = x.clone().requires_grad_()
    nc.sum(m @ weight).backward()
    np.testing.assert_allclose(weight.grad.numpy(), np.repeat(m.to_dense().numpy().sum(0)[:, None], 3, 1), rtol=1e-12)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: nc.sparse.csr([1.0], [2], [0, 1], shape=(1, 2)), nc.AxisError, "got 2"),
        (lambda: nc.sparse.csr([1.0], [0], [0, 2], shape=(1, 2)), nc.ArgumentError, "the number of entries, 1"),
        (lambda: nc.sparse.csr([1.0], [0], [1, 1], shape=(1, 2)), nc.ArgumentError, "begin with 0"),
        (lambda: nc.sparse.csr([1.0], [0], [0, 2, 1], shape=(2, 2)), nc.ArgumentError, "must not fall"),
        (lambda: nc.sparse.csr([1.0], [0], [0, 1], shape=(2, 2)), nc.ShapeError, "one number more"),
        (lambda: nc.sparse.csr([1.0], [0], [0.0, 1.0], shape=(1, 2)), nc.DTypeError, "integer"),
        (lambda: nc.sparse.from_scipy([[1.0]]), nc.KindError, "nacre.sparse.from_dense"),
        (lambda: nc.sparse.from_dense([1.0]), nc.ShapeError, "must be a matrix"),
        (lambda: nc.sparse.from_dense([[1.0]]) @ nc.ones(2), nc.ShapeError, "[1] or [1, n]"),
        (lambda: nc.sparse.from_dense([[1.0]]).with_data([1.0, 2.0]), nc.ShapeError, "(1,)"),
        (lambda: nc.jit(nc.sparse.from_dense)(nc.ones((1, 1))), nc.TraceError, "known numbers"),
        (lambda: nc.sum(nc.sparse.from_dense([[1.0]])), nc.KindError, "to_dense()"),
        (lambda: np.asarray(nc.sparse.from_dense([[1.0]])), nc.KindError, "to_dense()"),
    ],
)  # fmt: skip
def test_bad_matrices_are_refused(call: Callable[[], Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error) as found:
        call()
    assert words in str(found.value), found.value
