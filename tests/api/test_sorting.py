"""Sorting: against NumPy, under every transformation, and refused arguments."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nacre as nc
from nacre.base.errors import ArgumentError, DTypeError, ShapeError
from same_bits import canonical

X = np.random.default_rng(5).normal(size=(4, 50)).astype(np.float32)
X[1, ::7], X[2, 3:9], X[3, ::2] = np.nan, -0.0, 0.5


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("descending", [False, True])
def test_sort_and_argsort(axis: int, descending: bool) -> None:
    wanted = np.argsort(-X if descending else X, axis, kind="stable")
    np.testing.assert_array_equal(nc.argsort(X, axis=axis, descending=descending).numpy(), wanted)
    found = nc.sort(X, axis=axis, descending=descending).numpy()
    assert found.tobytes() == np.take_along_axis(X, wanted, axis).tobytes()


def test_topk() -> None:
    for largest in (True, False):
        order = np.argsort(-X if largest else X, 1, kind="stable")[:, :5]
        values, places = nc.topk(X, 5, axis=1, largest=largest)
        np.testing.assert_array_equal(places.numpy(), order)
        np.testing.assert_array_equal(values.numpy(), np.take_along_axis(X, order, 1))
    assert nc.topk(X, 0)[0].shape == (4, 0)


def test_the_same_bits_in_every_mode() -> None:
    x = nc.tensor(X)

    def f(x: Any) -> Any:
        return nc.sort(x * 2, axis=-1), nc.argsort(x, axis=-1, descending=True), *nc.topk(x, 3)

    eager = [canonical(y) for y in f(x)]
    assert [canonical(y) for y in nc.jit(f)(x)] == eager
    assert [canonical(y) for y in nc.vmap(f)(x)] == eager
    rows = [nc.jit(f)(x[k]) for k in range(4)]
    assert [canonical(nc.stack([r[k] for r in rows])) for k in range(4)] == eager


def test_the_gradient_is_that_of_the_elements_places() -> None:
    x = np.random.default_rng(1).permutation(40).astype(np.float32)
    weights = np.arange(40, dtype=np.float32)
    gradient = nc.grad(lambda v: nc.sum(nc.sort(v) * weights))(nc.tensor(x))
    np.testing.assert_array_equal(gradient.numpy(), x)
    best = nc.grad(lambda v: nc.sum(nc.topk(v, 2)[0]))(nc.tensor(x))
    np.testing.assert_array_equal(best.numpy(), x >= 38)


def test_refused_arguments() -> None:
    with pytest.raises(ShapeError, match="topk: k must be from 0 to 50"):
        nc.topk(X, 51)
    with pytest.raises(ShapeError, match="topk: k must be from 0 to 50"):
        nc.topk(X, -1)
    with pytest.raises(ArgumentError, match="topk: k must be an integer"):
        nc.topk(X, 1.5)  # type: ignore[arg-type]
    for f in (nc.sort, nc.argsort):
        with pytest.raises((ShapeError, ArgumentError, DTypeError), match=f.__name__):
            f(X, axis=2)
        with pytest.raises((ShapeError, ArgumentError), match=f.__name__):
            f(nc.tensor(1.0))


@pytest.mark.parametrize("wrong", [3, -1])
def test_a_sorter_out_of_range_is_refused(wrong: int) -> None:
    x, v, sorter = nc.tensor([3.0, 1.0, 2.0]), nc.tensor([2.5]), nc.tensor([1, 2, wrong])
    for f in (nc.searchsorted, nc.jit(nc.searchsorted)):
        with pytest.raises(nc.AxisError, match=rf"searchsorted: sorter must be in \[0, 3\); got {wrong}"):
            f(x, v, sorter=sorter)
