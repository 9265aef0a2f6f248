"""Random index expressions of all kinds of parts, against NumPy: reads, assignments, compiled, batched, derivatives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nacre as nc

SHAPE = (3, 4, 2, 3)
X = np.arange(72.0).reshape(SHAPE)
SEEDS = range(12)


def random_part(rng: np.random.Generator, size: int, common: tuple[int, ...]) -> Any:
    """An entry for one axis: an integer, a slice of any step, an array, a list, or an array of rank 0."""
    kind = rng.integers(9)
    places = rng.integers(-size, size, common)
    if kind < 2:
        return int(rng.integers(-size, size))
    if kind < 5:
        ends = (None, *range(-size - 1, size + 2))
        start, stop = (ends[rng.integers(len(ends))] for _ in range(2))
        return slice(start, stop, [None, 1, 2, -1, -2][rng.integers(5)])
    if kind == 5:
        return np.array(rng.integers(-size, size))
    if kind == 6:
        return places.tolist()
    return places if kind == 7 else places[..., :1]


def random_key(rng: np.random.Generator) -> tuple[Any, ...]:
    """A key for at most all axes, with masks, new axes and an ellipsis, which may have no axes."""
    common = [(2,), (2, 2), (3,)][rng.integers(3)]
    parts: list[Any] = []
    used, axes = 0, int(rng.integers(1, len(SHAPE) + 1))
    while used < axes:
        rank = int(rng.integers(1, 3))
        if rng.integers(8) == 0 and used + rank <= axes:
            mask = np.zeros(SHAPE[used : used + rank], bool)
            chosen = rng.choice(mask.size, size=min(common[-1], mask.size), replace=False)
            mask.reshape(-1)[chosen] = True
            parts.append(mask)
            used += rank
        else:
            parts.append(random_part(rng, SHAPE[used], common))
            used += 1
    for _ in range(rng.integers(3)):
        parts.insert(int(rng.integers(len(parts) + 1)), None)
    place = int(rng.integers(len(parts) + 1))
    if used == len(SHAPE) and rng.integers(2):
        parts.insert(place, ...)
    elif rng.integers(3) == 0:
        parts.append(...)
    return tuple(parts)


def random_keys(seed: int, count: int) -> list[tuple[Any, ...]]:
    """Keys that NumPy takes for X."""
    rng = np.random.default_rng(seed)
    found: list[tuple[Any, ...]] = []
    while len(found) < count:
        key = random_key(rng)
        try:
            if X[key].size:
                found.append(key)
        except IndexError:  # index arrays of shapes that do not meet
            continue
    return found


@pytest.mark.parametrize("seed", SEEDS)
def test_reads_and_writes(seed: int) -> None:
    for key in random_keys(seed, 60):
        wanted, x = X.copy(), nc.tensor(X)
        np.testing.assert_array_equal(x[key].numpy(), X[key], err_msg=str(key))
        value = -1.0 - np.arange(X[key].size).reshape(X[key].shape)
        wanted[key] = value
        np.testing.assert_array_equal(nc.index_update(x, key, value).numpy(), wanted, err_msg=str(key))


@pytest.mark.parametrize("seed", SEEDS[:4])
def test_compiled_batched_and_differentiated(seed: int) -> None:
    for key in random_keys(seed + 100, 4):
        x, weight = nc.tensor(X), nc.tensor(1.0 + np.arange(X[key].size).reshape(X[key].shape), dtype=nc.float64)
        slope = np.zeros_like(X)
        np.add.at(slope, key, weight.numpy())
        found = nc.jit(lambda v, k=key: v[k])(x)
        np.testing.assert_array_equal(found.numpy(), X[key], err_msg=str(key))
        both = nc.vmap(lambda v, k=key: v[k])(nc.stack([x, -x]))
        np.testing.assert_array_equal(both.numpy(), np.stack([X[key], -X[key]]), err_msg=str(key))
        of_x = nc.grad(lambda v, k=key, w=weight: nc.sum(v[k] * w))(x)
        np.testing.assert_array_equal(of_x.numpy(), slope, err_msg=str(key))


INDEX = np.array([0, 1])
SEPARATED = [
    np.s_[:, INDEX, ..., INDEX, :], np.s_[INDEX, ..., 1, :, :], np.s_[None, [-2, 0], ..., 1, :, :],
    np.s_[:, :, INDEX, ..., INDEX], np.s_[0, None, INDEX], np.s_[INDEX, None, INDEX, ..., None],
    np.s_[..., INDEX, INDEX], np.s_[INDEX, INDEX, ...], np.s_[1, ..., INDEX, :, :],
    np.s_[:, np.array(1), ..., INDEX], np.s_[INDEX, INDEX, INDEX, INDEX, ...], np.s_[INDEX, INDEX, ..., INDEX, INDEX],
]  # fmt: skip


@pytest.mark.parametrize("key", SEPARATED, ids=str)
def test_slices_new_axes_and_any_ellipsis_separate_index_arrays(key: Any) -> None:
    x, value = nc.tensor(X), -1.0 - np.arange(X[key].size).reshape(X[key].shape)
    np.testing.assert_array_equal(x[key].numpy(), X[key])
    wanted = X.copy()
    wanted[key] = value

    def with_index(i: Any) -> tuple[Any, ...]:
        return tuple(i if part is INDEX else part for part in key)

    i = nc.tensor(INDEX)
    update = nc.jit(lambda x, i, v: nc.index_update(x, with_index(i), v))
    np.testing.assert_array_equal(update(x, i, nc.tensor(value)).numpy(), wanted)
    read = nc.jit(lambda x, i: x[with_index(i)])
    np.testing.assert_array_equal(read(x, i).numpy(), X[key])
    np.testing.assert_array_equal(nc.vmap(read, in_axes=(None, 0))(x, nc.stack([i, i])).numpy(), np.stack([X[key]] * 2))
