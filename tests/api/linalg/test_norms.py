"""Norms of vectors and matrices by one name, and those of numbers whose squares their dtype does not hold."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nacre as nc
from ops.samples import generator


@pytest.mark.parametrize("norm", [nc.linalg.vector_norm, nc.linalg.matrix_norm, nc.linalg.norm])
def test_squares_of_half_types_do_not_overflow(norm: Any) -> None:
    x = nc.full((2, 2), 1000.0, dtype=nc.float16)
    for f in (norm, nc.jit(norm)):
        assert f(x).dtype is nc.float16 and f(x).item() == 2000.0


A = generator(5).normal(size=(3, 4, 5))


@pytest.mark.parametrize(
    ("ord", "axis"),
    [
        *((None, axis) for axis in (None, 0, -1, (0, 1), (2, 0), (0, 1, 2))),
        *((order, 1) for order in (0, 1, 2, 3.5, np.inf, -np.inf)),
        *((order, (2, 0)) for order in ("fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf)),
    ],
    ids=str,
)
def test_one_name_for_vectors_and_matrices(ord: Any, axis: Any) -> None:
    for keepdims in (False, True):
        if axis == (0, 1, 2):  # which NumPy lacks
            wanted = np.linalg.norm(A.ravel()).reshape((1, 1, 1) if keepdims else ())
        else:
            wanted = np.linalg.norm(A, ord, axis, keepdims)
        found = nc.linalg.norm(nc.asarray(A), ord, axis, keepdims)
        assert tuple(found.shape) == np.shape(wanted)
        np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-12)
    slope = nc.grad(lambda x: nc.linalg.norm(x, ord, axis).sum())(nc.asarray(A))
    assert slope.shape == A.shape and (ord == 0 or bool(nc.any(slope != 0)))


def test_wrong_orders_and_axes_of_norms_are_refused() -> None:
    x = nc.asarray(A)
    with pytest.raises(nc.ShapeError, match=r"norm: with ord, x must be a vector or a matrix; got 3 axes"):
        nc.linalg.norm(x, 1)
    with pytest.raises(nc.ArgumentError, match="norm: ord must be a number for vectors; got 'fro'"):
        nc.linalg.norm(x, "fro", axis=1)
    with pytest.raises(nc.ArgumentError, match="matrix_norm: ord must be"):
        nc.linalg.norm(x, 3, axis=(0, 1))
