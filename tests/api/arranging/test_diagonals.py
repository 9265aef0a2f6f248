"""Diagonals, blocks and windows against NumPy; derivatives, batches, compiled code, errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nacre as nc

X = np.arange(24.0).reshape(2, 3, 4)


@pytest.mark.parametrize("offset", [-3, -1, 0, 2, 5])
@pytest.mark.parametrize("axes", [(0, 1), (1, 2), (-1, 0)])
def test_diagonals_and_traces_are_numpys(axes: tuple[int, int], offset: int) -> None:
    assert nc.diagonal(X, offset, *axes).tolist() == np.diagonal(X, offset, *axes).tolist()
    assert nc.tensor(X).trace(offset, *axes).tolist() == np.trace(X, offset, *axes).tolist()
    nc.check_grads(lambda x: nc.diagonal(x, offset, *axes), (nc.tensor(X),))


@pytest.mark.parametrize("k", [-2, 0, 1])
@pytest.mark.parametrize("held", [np.arange(1.0, 4.0), np.zeros(0), X[0], X[0].astype(np.int8), X[0] > 3], ids=str)
def test_diag_is_numpys(held: np.ndarray, k: int) -> None:
    found = nc.diag(held, k)
    assert found.tolist() == np.diag(held, k).tolist() and found.numpy().dtype == held.dtype
    assert nc.diagflat(held, k).tolist() == np.diagflat(held, k).tolist()
    assert nc.jit(lambda x: nc.diag(x, k))(nc.tensor(held)).tolist() == found.tolist()


def test_embedded_diagonals_have_their_places() -> None:
    x = nc.tensor(X)
    for offset in (-2, 0, 1):
        for dims in ((-2, -1), (0, 2), (1, -1)):
            made = nc.diag_embed(x, offset, *dims)
            assert nc.diagonal(made, offset, *dims).tolist() == X.tolist()
            assert nc.sum(made).item() == X.sum()
    assert nc.vmap(nc.diag_embed)(x).tolist() == nc.diag_embed(x).tolist()
    nc.check_grads(lambda x: nc.diag_embed(x, 1), (x,), order=2)


def test_blocks_and_products() -> None:
    found = nc.block_diag([[1, 2], [3, 4]], 5, [6, 7], nc.zeros((0, 2), nc.int64))
    assert found.tolist() == [
        [1, 2, 0, 0, 0, 0, 0],
        [3, 4, 0, 0, 0, 0, 0],
        [0, 0, 5, 0, 0, 0, 0],
        [0, 0, 0, 6, 7, 0, 0],
    ]
    for a, b in ((X[0], X[1]), (X, X[0]), (X[0, 0], X), (2.0, X)):
        assert nc.kron(a, b).tolist() == np.kron(a, b).tolist()
    nc.check_grads(nc.kron, (nc.tensor(X[0]), nc.tensor(X[1])), order=2)


def test_windows_are_numpys() -> None:
    view = np.lib.stride_tricks.sliding_window_view
    for sizes, axes in ((2, -1), ((2, 3), (0, 2)), ((1, 2, 3), None), ((2, 2), (1, 1))):
        assert nc.sliding_window_view(X, sizes, axes).tolist() == view(X, sizes, axes).tolist()
    x = nc.tensor(X)
    assert x.unfold(2, 2, 2).tolist() == view(X, 2, 2)[:, :, ::2].tolist()
    assert x.unfold(0, 0, 1).shape == (3, 3, 4, 0) and x.unfold(0, 2, 9).shape == (1, 3, 4, 2)
    nc.check_grads(lambda x: x.unfold(1, 2, 1), (x,), order=2)
    assert nc.jit(lambda x: x.unfold(1, 2, 1))(x).tolist() == x.unfold(1, 2, 1).tolist()


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: nc.diagonal(X, 0, 1, 1), "must differ"),
        (lambda: nc.diagonal(X[0, 0]), "axis"),
        (lambda: nc.diag(X), "use diagonal or diag_embed"),
        (lambda: nc.diag_embed(1.0), "at least one axis"),
        (lambda: nc.diag_embed(X, 0, 1, 1), "must differ"),
        (lambda: nc.block_diag(X), "at most two axes"),
        (lambda: nc.block_diag(), "at least one"),
        (lambda: nc.sliding_window_view(X, 5, 0), "from 0 to 2"),
        (lambda: nc.sliding_window_view(X, (2, 2), 0), "one size for each of 1 axes"),
        (lambda: nc.tensor(X).unfold(0, 1, 0), "at least 1"),
    ],
)
def test_bad_arguments_are_refused(call: Callable[[], Any], words: str) -> None:
    with pytest.raises(nc.Error) as found:
        call()
    assert words in str(found.value), found.value


def test_bools_have_a_kronecker_product_and_differences() -> None:
    a, b = np.array([[True, False], [True, True]]), np.array([True, False, True])
    assert nc.kron(a, b).tolist() == np.kron(a, b).tolist() and nc.kron(a, b).dtype is nc.bool
    for n in range(4):
        assert nc.diff(b, n=n).tolist() == np.diff(b, n=n).tolist() and nc.diff(b, n=n).dtype is nc.bool
    assert nc.diff(b, prepend=True).tolist() == np.diff(b, prepend=True).tolist()
