"""The modes of indices out of range: results, derivatives that belong to them, and errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nacre as nc
from nacre import nn
from nacre.base.errors import ArgumentError, AxisError, DTypeError

F = nn.functional
X = nc.tensor([10.0, 11.0, 12.0, 13.0, 14.0])
I = nc.tensor([1, 7, -2, -9])
WEIGHTS = nc.tensor([1.0, 2.0, 3.0, 4.0])
RESULTS = {"clip": [11, 14, 10, 10], "drop": [11, 0, 13, 0], "fill": [11, np.nan, 13, np.nan]}
GRADIENTS = {"clip": [7, 1, 0, 0, 2], "drop": [0, 1, 0, 3, 0], "fill": [0, 1, 0, 3, 0]}


@pytest.mark.parametrize("along", [False, True])
@pytest.mark.parametrize("mode", RESULTS)
def test_results_and_gradients(mode: str, along: bool) -> None:
    def read(x: Any, i: Any) -> Any:
        return nc.take_along_axis(x, i, mode=mode) if along else nc.take(x, i, mode=mode)

    def total(x: Any) -> Any:
        return nc.sum(read(x, I) * WEIGHTS)

    for f in (read, nc.jit(read)):
        np.testing.assert_array_equal(f(X, I).numpy(), np.array(RESULTS[mode], np.float32))
    for g in (nc.grad(total), nc.jit(nc.grad(total))):
        assert g(X).tolist() == GRADIENTS[mode]
    rows = nc.vmap(read, (None, 0))(X, I[:, None])
    np.testing.assert_array_equal(rows.numpy()[:, 0], np.array(RESULTS[mode], np.float32))
    assert "check" not in str(nc.jit(read).trace(X, I))


def test_rows_of_a_matrix() -> None:
    x = nc.arange(6.0).reshape(2, 3)
    assert nc.take(x, nc.tensor([[0, 5]]), axis=1, mode="drop").tolist() == [[[0, 0]], [[3, 0]]]
    assert nc.take(x, nc.tensor(4), axis=0, mode="clip").tolist() == [3, 4, 5]


@pytest.mark.parametrize("dtype", [nc.int8, nc.uint8, nc.int64, nc.uint64], ids=str)
def test_dtypes_of_indices(dtype: nc.DType) -> None:
    i = nc.tensor(np.array([1, np.iinfo(dtype.numpy).max], dtype.numpy))
    assert nc.take(X, i, mode="clip").tolist() == [11, 14]
    assert nc.take(X, i, mode="drop").tolist() == [11, 0]


def test_numbers_to_fill_with() -> None:
    numbers = nc.arange(5)
    assert nc.take(numbers, I, mode="fill", fill_value=-1).tolist() == [1, -1, 3, -1]
    assert nc.take(numbers, I, mode="fill").tolist() == [1, 0, 3, 0]
    with pytest.raises(DTypeError, match="the number must fit int64"):
        nc.take(numbers, I, mode="fill", fill_value=1 << 70)
    with pytest.raises(ArgumentError, match='fill_value needs mode "fill"'):
        nc.take(X, I, fill_value=1.0)
    with pytest.raises(ArgumentError, match="mode must be one of raise, clip, drop, fill; got 'wrap'"):
        nc.take(X, I, mode="wrap")
    with pytest.raises(ArgumentError, match="mode must be one of raise, clip, drop; got 'fill'"):
        F.embedding(I, X[:, None], mode="fill")


def test_embedding() -> None:
    table = X[:, None]
    assert F.embedding(I, table, mode="clip")[:, 0].tolist() == [11, 14, 10, 10]
    assert F.embedding(I, table, mode="drop")[:, 0].tolist() == [11, 0, 0, 0]
    gradient = nc.grad(lambda w: nc.sum(F.embedding(I, w, mode="drop") * WEIGHTS[:, None]))
    assert gradient(table)[:, 0].tolist() == [0, 1, 0, 0, 0]
    with pytest.raises(AxisError):
        F.embedding(I, table)


@pytest.mark.parametrize("loss", [F.cross_entropy, F.nll_loss])
def test_losses(loss: Any) -> None:
    logits, y = nc.arange(12.0).reshape(4, 3) % 5, nc.tensor([0, 9, -100, -3])
    clipped = loss(logits, nc.tensor([0, 2, -100, 0]), reduction="none")
    dropped = loss(logits, nc.tensor([0, -100, -100, -100]))
    for f in (
        lambda m, r: loss(logits, y, reduction=r, mode=m),
        nc.jit(lambda m, r: loss(logits, y, reduction=r, mode=m)),
    ):
        assert f("clip", "none").tolist() == clipped.tolist()
        assert f("drop", "mean").tolist() == dropped.tolist()
    with pytest.raises(ArgumentError, match="got 9"):
        loss(logits, y)
