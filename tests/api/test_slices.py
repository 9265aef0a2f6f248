"""Slices at starts known at run time: values, errors, and memory that is updated in place."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nacre as nc

X = np.arange(24, dtype=np.float32).reshape(4, 6)


@pytest.mark.parametrize("starts", [(0, 0), (1, 2), (-5, 9), (2, 4)])
def test_starts_are_clamped_to_the_operand(starts: tuple[int, int]) -> None:
    row, column = min(max(starts[0], 0), 2), min(max(starts[1], 0), 3)
    wanted = X.copy()
    wanted[row : row + 2, column : column + 3] = -1
    at = [nc.tensor(s, dtype=nc.int32) for s in starts]
    assert np.array_equal(nc.dynamic_slice(X, at, (2, 3)).numpy(), X[row : row + 2, column : column + 3])
    assert np.array_equal(nc.dynamic_update_slice(X, -nc.ones((2, 3)), at).numpy(), wanted)


@pytest.mark.parametrize("shape", [(0, 3), (4, 6), (1, 1)])
def test_empty_blocks_and_whole_blocks(shape: tuple[int, int]) -> None:
    wanted = X.copy()
    wanted[: shape[0], : shape[1]] = 5
    assert np.array_equal(nc.dynamic_update_slice(X, nc.full(shape, 5.0), (0, 0)).numpy(), wanted)


def test_an_assigned_variable_is_updated_in_place_unless_its_value_is_referenced() -> None:
    cache = nc.Variable(nc.zeros((3, 8)))

    @nc.jit
    def put(row: Any, n: Any) -> None:
        cache.assign(nc.dynamic_update_slice(cache.value, row, (0, n)))

    put(nc.ones((3, 1)), nc.tensor(2))
    place = cache.cell.content.address
    put(2 * nc.ones((3, 1)), nc.tensor(5))
    assert cache.cell.content.address == place
    held = cache.value
    put(3 * nc.ones((3, 1)), nc.tensor(6))
    assert held.numpy()[0].tolist() == [0, 0, 1, 0, 0, 2, 0, 0]
    assert cache.value.numpy()[0].tolist() == [0, 0, 1, 0, 0, 2, 3, 0]


def test_a_value_that_is_read_afterwards_is_unchanged() -> None:
    def both(x: Any) -> Any:
        y = nc.exp(x)
        z = nc.dynamic_update_slice(y, nc.zeros((1, 6)), (1, 0))
        return nc.sum(y * 2.0, axis=0) + nc.sum(z, axis=0)

    assert np.array_equal(nc.jit(both)(nc.tensor(X / 24)).numpy(), both(nc.tensor(X / 24)).numpy())


def test_errors_say_what_is_required() -> None:
    with pytest.raises(nc.DTypeError, match="starts must be integers"):
        nc.dynamic_slice(X, (0.5, 0), (1, 1))
    with pytest.raises(nc.ShapeError, match="starts must have rank 0"):
        nc.dynamic_slice(X, ([1], 0), (1, 1))
    with pytest.raises(nc.ShapeError, match="needs a start and a size"):
        nc.dynamic_slice(X, (1,), (1, 1))
    with pytest.raises(nc.ShapeError, match="sizes must be within"):
        nc.dynamic_slice(X, (1, 1), (1, 7))
    with pytest.raises(nc.DTypeError, match="update must have dtype float32"):
        nc.dynamic_update_slice(X, [[1]], (0, 0))
