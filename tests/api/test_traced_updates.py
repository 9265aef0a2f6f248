"""`x[key] = v` with traced integers in the key: NumPy's results, derivatives, errors, and work for the places alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nacre as nc
from nacre import nn
from same_bits import canonical

ALL = slice(None)
X = np.random.default_rng(0).standard_normal((4, 5, 6, 7)).astype(np.float32)


def whole(number: int) -> np.ndarray:
    return np.array(number)


KEYS: dict[str, tuple[Any, ...]] = {
    "a row": (ALL, ALL, whole(3)),
    "from the end": (ALL, ALL, whole(-1)),
    "a point and an integer": (whole(2), 1, ALL, whole(-2)),
    "a new axis and a slice": (None, whole(2), slice(1, 4)),
    "a row of each": (np.arange(4), ALL, np.array([5, 0, 0, 2])),
    "repeated": (np.array([0, 1, 0, 0]),),
    "adjacent": (ALL, np.array([0, 1, -1]), np.array([2, 2, 3])),
    "matrices of indices": (ALL, np.array([[0, 1], [4, 2]]), np.array([2, 3])),
    "with an integer": (1, ALL, np.array([2, 3, 2])),
    "within slices": (slice(1, 3), ALL, np.array([2, 3, 2]), slice(2, None)),
    "every axis": (np.array([1, 2]), np.array([0, 0]), np.array([3, 3]), np.array([6, 6])),
    "the last axis": (ALL, ALL, ALL, np.array([6, 0, 6])),
    "a scalar beside a vector": (np.array([3, 0]), whole(2)),
    "none": (np.zeros(0, np.int64),),
}


def update(x: Any, v: Any, key: tuple[Any, ...], arrays: tuple[Any, ...]) -> Any:
    """x with v at the key, whose arrays are given apart."""
    each = iter(arrays)
    return nc.index_update(x, tuple(next(each) if isinstance(e, np.ndarray) else e for e in key), v)


@pytest.mark.parametrize("name", KEYS)
def test_results_and_derivatives(name: str) -> None:
    key = KEYS[name]
    rng, arrays = np.random.default_rng(1), tuple(nc.tensor(e) for e in key if isinstance(e, np.ndarray))
    v, weights = rng.standard_normal(X[key].shape).astype(np.float32), rng.standard_normal(X.shape).astype(np.float32)
    wanted = X.copy()
    wanted[key] = v
    numbers = np.full(X.shape, -1)
    numbers[key] = np.arange(v.size).reshape(v.shape)
    kept = numbers[numbers >= 0]
    of_v = np.zeros(v.size, np.float32)
    of_v[kept] = weights[numbers >= 0]

    def f(x: Any, v: Any, *arrays: Any) -> Any:
        return update(x, v, key, arrays)

    g = nc.grad(lambda *xs: nc.sum(f(*xs) * nc.asarray(weights)), (0, 1))
    given = nc.asarray(X), nc.asarray(v), *arrays
    for result in (f(*given), nc.jit(f)(*given)):
        np.testing.assert_array_equal(result.numpy(), wanted)
    for found in (g(*given), nc.jit(g)(*given)):
        np.testing.assert_array_equal(found[0].numpy(), np.where(numbers < 0, weights, 0))
        np.testing.assert_array_equal(found[1].numpy(), of_v.reshape(v.shape))


def test_batches() -> None:
    x = nc.asarray(X[..., 0])
    indices, v = nc.tensor([[1, 2], [0, 0], [4, 1], [3, 3]]), nc.random.normal((4, 2, 6))
    wanted = nc.stack([nc.index_update(x[n], indices[n], v[n]) for n in range(4)])
    shared = nc.stack([nc.index_update(x[n], indices[0], v[n]) for n in range(4)])

    def both(x: Any, v: Any, indices: Any) -> Any:
        each = nc.vmap(nc.index_update)(x, indices, v)
        return each, nc.vmap(lambda x, v: nc.index_update(x, indices[0], v))(x, v)

    for f in (both, nc.jit(both)):
        assert list(map(canonical, f(x, v, indices))) == [canonical(wanted), canonical(shared)]


def test_values_are_broadcast_and_converted() -> None:
    for f in (nc.index_update, nc.jit(nc.index_update)):
        assert f(nc.zeros((3, 2)), nc.tensor([2, 0]), 1.5).tolist() == [[1.5, 1.5], [0, 0], [1.5, 1.5]]
        assert f(nc.zeros(3, nc.int8), nc.tensor([1]), nc.tensor(7)).tolist() == [0, 7, 0]
    with pytest.raises(nc.ShapeError, match="the value must broadcast to shape"):
        nc.jit(nc.index_update)(nc.zeros((3, 2)), nc.tensor([2, 0]), nc.ones(3))


@pytest.mark.parametrize("index", [5, -6, [0, 7], [1, -9]])
def test_an_index_out_of_range_is_refused(index: Any) -> None:
    texts: set[str] = set()
    for f in (nc.index_update, nc.jit(nc.index_update)):
        with pytest.raises(nc.AxisError) as raised:
            f(nc.zeros((5, 2)), nc.tensor(index), 1.0)
        texts.add(str(raised.value))
    assert len(texts) == 1 and "must be in [-5, 5); got" in texts.pop()


def test_steps_beside_traced_indices() -> None:
    f = nc.jit(lambda x, i: nc.index_update(x, (i, slice(None, None, 2)), 0.0))
    with pytest.raises(nc.TraceError, match="beside traced indices, slices must have step 1"):
        f(nc.ones((5, 4)), nc.tensor([1, 2]))


@pytest.mark.parametrize("place", [3, [3, 1, 1]])
def test_a_buffer_is_updated_in_place(place: Any) -> None:
    buffer = nn.Buffer(nc.zeros((3, 8, 2)))

    def put(p: Any, row: Any) -> None:
        buffer[(slice(None), p) if p.ndim == 0 else (nc.arange(3), p)] = row

    compiled = nc.jit(put)
    addresses: set[int] = set()
    for n in range(4):
        compiled(nc.tensor(place) + n, nc.full((3, 2), float(n + 1)))
        addresses |= {buffer.cell.content.address} if n else set()
    assert len(addresses) == 1
    wanted = np.zeros((3, 8, 2), np.float32)
    for n in range(4):
        wanted[np.arange(3), np.array(place) + n] = n + 1
    np.testing.assert_array_equal(buffer.value.numpy(), wanted)


def test_symbolic_sizes() -> None:
    f = nc.jit(lambda x, i, v: nc.index_update(x, i, v))
    for n, m in ((4, 2), (9, 5), (6, 3), (7, 2)):
        x, i, v = nc.random.normal((n, 3)), nc.arange(m) % n, nc.random.normal((m, 3))
        assert canonical(f(x, i, v)) == canonical(nc.index_update(x, i, v))
    assert len(f.concrete_functions) == 2
