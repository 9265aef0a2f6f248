"""Scatters, running extrema, quantiles, modes and windows of random tensors, against PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nacre as nc

torch = pytest.importorskip("torch")
REDUCTIONS = ("sum", "prod", "mean", "amax", "amin")
DTYPES = ("float64", "float32", "int64", "int32", "uint8")


def _random(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """Few different numbers, so that some are equal."""
    return (rng.integers(0, 9, shape) / (2 if "float" in dtype else 1)).astype(dtype)


def _shape(rng: np.random.Generator) -> tuple[int, ...]:
    return tuple(int(n) for n in rng.integers(1, 6, rng.integers(1, 4)))


def _same(found: Any, wanted: Any) -> None:
    found, wanted = np.asarray(found), wanted.detach().numpy()
    assert found.shape == wanted.shape and found.dtype == wanted.dtype, (found, wanted)
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6, equal_nan=True)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("dtype", DTYPES)
def test_scatters(dtype: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    shape = _shape(rng)
    axis = int(rng.integers(-len(shape), len(shape)))
    at = [int(rng.integers(1, n + 1)) for n in shape]
    at[axis] = int(rng.integers(1, 8))
    source = tuple(n + int(rng.integers(0, 2)) for n in at)
    x, src = _random(rng, shape, dtype), _random(rng, source, dtype)
    i = rng.integers(0, shape[axis], at)
    theirs = torch.tensor(x), torch.tensor(i), torch.tensor(src)
    _same(nc.scatter_add(x, axis, i, src), theirs[0].scatter_add(axis, theirs[1], theirs[2]))
    _same(nc.scatter(x, axis, i, 3), theirs[0].scatter(axis, theirs[1], 3))
    for reduce in REDUCTIONS:
        for include in (True, False):
            wanted = theirs[0].scatter_reduce(axis, theirs[1], theirs[2], reduce, include_self=include)
            _same(nc.scatter_reduce(x, axis, i, src, reduce, include_self=include), wanted)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("reduce", REDUCTIONS)
def test_gradients_of_scatters(reduce: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    x, src, i = rng.integers(1, 4, 5) * 1.0, rng.integers(1, 4, 7) * 1.0, rng.integers(0, 5, 7)
    weights = rng.normal(size=5)
    for include in (True, False):
        x = x if include else x + 0.5  # PyTorch lets elements that are left out share the gradient of equal updates
        theirs = [torch.tensor(v, requires_grad=True) for v in (x, src)]
        made = theirs[0].scatter_reduce(0, torch.tensor(i), theirs[1], reduce, include_self=include)
        (made * torch.tensor(weights)).sum().backward()

        def run(x: Any, src: Any, include: bool = include) -> Any:
            return nc.sum(nc.scatter_reduce(x, 0, i, src, reduce, include_self=include) * weights)

        for found, other in zip(nc.grad(run, (0, 1))(nc.tensor(x), nc.tensor(src)), theirs, strict=True):
            _same(found, other.grad)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("dtype", DTYPES)
def test_running_extrema_and_modes(dtype: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    shape = _shape(rng)
    axis = int(rng.integers(-len(shape), len(shape)))
    x = _random(rng, shape, dtype)
    if "float" in dtype:
        x[rng.random(shape) < 0.1] = np.nan
    for name in ("cummax", "cummin"):
        for found, wanted in zip(getattr(nc, name)(x, axis), getattr(torch, name)(torch.tensor(x), axis), strict=True):
            _same(found, wanted)
    x = _random(rng, shape, dtype)
    value, place = nc.mode(x, axis)
    _same(value, torch.mode(torch.tensor(x), axis)[0])
    _same(np.take_along_axis(x, np.expand_dims(place.numpy(), axis), axis).squeeze(axis), torch.tensor(value.numpy()))
    _same(nc.tensor(x).unfold(axis, 1, 2), torch.tensor(x).unfold(axis, 1, 2))
    _same(nc.fmod(x, 2), torch.fmod(torch.tensor(x), 2))
    _same(nc.div(x, 2, rounding_mode="trunc"), torch.div(torch.tensor(x), 2, rounding_mode="trunc"))


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("method", ["linear", "lower", "higher", "nearest", "midpoint"])
def test_quantiles(method: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    shape = _shape(rng)
    axis = int(rng.integers(-len(shape), len(shape)))
    x = rng.normal(size=shape)
    q = rng.random(3)
    for name in ("quantile", "nanquantile"):
        for keepdims in (False, True):
            wanted = getattr(torch, name)(torch.tensor(x), torch.tensor(q), axis, keepdims, interpolation=method)
            _same(getattr(nc, name)(x, q, axis, method=method, keepdims=keepdims), wanted)
        x[rng.random(shape) < 0.2] = np.nan
    _same(nc.logcumsumexp(x, axis), torch.logcumsumexp(torch.tensor(x), axis))
    _same(nc.histc(x[~np.isnan(x)], 6, -2, 2), torch.histc(torch.tensor(x[~np.isnan(x)]), 6, -2, 2))
