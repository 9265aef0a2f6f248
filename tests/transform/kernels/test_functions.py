"""Functions of `math`, NumPy and Nacre in kernels give the numbers that they give in plain Python."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nacre as nc

RNG = np.random.default_rng(3)
EDGES = np.array([0.0, -0.0, 1.0, -1.0, 0.5, -3.0, 2.5, 7.0, -7.0, math.inf, -math.inf, math.nan, 1e30, -1e-30, 1e3])


def pairs(dtype: Any) -> tuple[Any, Any]:
    """Pairs of special and of random numbers."""
    x, y = np.meshgrid(EDGES, EDGES)
    near = RNG.normal(size=300) * 10.0 ** RNG.integers(-3, 4, 300)
    with np.errstate(over="ignore"):
        return np.append(x.ravel(), near).astype(dtype), np.append(y.ravel(), near[::-1] / 3).astype(dtype)


def require_same(f: Callable[..., Any], out: Any, *inputs: Any) -> None:
    """Require the bits of plain Python from the kernel, eagerly and compiled, signs of zeros included."""
    k = nc.kernel(f, out=out)
    found = k(*inputs)
    found = found if isinstance(found, tuple) else (found,)
    wanted = [np.zeros(y.shape, y.dtype.numpy) for y in found]
    with np.errstate(all="ignore"):
        f(*inputs, *wanted)
    jitted = nc.jit(lambda *xs: k(*xs))(*map(nc.asarray, inputs))
    for y, z, w in zip(found, jitted if isinstance(jitted, tuple) else (jitted,), wanted, strict=True):
        assert y.numpy().tobytes() == z.numpy().tobytes()
        np.testing.assert_array_equal(y.numpy(), w)
        if w.dtype.kind == "f":
            zeros = w == 0
            np.testing.assert_array_equal(np.signbit(y.numpy()[zeros]), np.signbit(w[zeros]))


@pytest.mark.parametrize("dtype", (np.float64, np.float32, np.float16))
def test_remainders_of_floats(dtype: Any) -> None:
    def remainders(x, y, a, b, c, d, e):
        for i in nc.prange(x.shape[0]):
            a[i] = x[i] % y[i]
            b[i] = x[i] // y[i]
            c[i] = np.fmod(x[i], y[i])
            d[i] = np.mod(x[i], 2.5) + x[i] // 0.75
            e[i] = np.floor_divide(x[i], y[i]) - np.remainder(x[i], y[i])

    require_same(remainders, lambda x, y: [x] * 5, *pairs(dtype))


def test_remainders_of_pythons_floats() -> None:
    def remainders(x, y, a, b, c):
        for i in range(x.shape[0]):
            p = float(x[i])
            q = float(y[i])
            a[i] = p % q
            b[i] = p // q
            c[i] = math.fmod(p, q)

    x, y = pairs(np.float64)
    defined = np.isfinite(x) & (y != 0)
    require_same(remainders, lambda x, y: [x] * 3, x[defined], y[defined])


@pytest.mark.parametrize("dtype", (np.float64, np.float32))
def test_functions_of_elements(dtype: Any) -> None:
    def several(x, y, a, b, c, d, e):
        for i in nc.prange(x.shape[0]):
            a[i] = np.fmin(x[i], y[i]) + np.fmax(x[i], 0.5) + np.clip(x[i], -1, 2)
            b[i] = np.where(x[i] > y[i], x[i], 2.0) + np.square(y[i]) - np.negative(x[i])
            c[i] = np.radians(x[i]) + np.degrees(y[i]) + np.add(x[i], 1) * np.divide(y[i], 3)
            d[i] = np.signbit(x[i]) + 2 * np.logical_xor(x[i], y[i]) + 4 * np.logical_not(x[i] > 1)
            d[i] += 8 * np.logical_and(x[i], y[i] > 0) + 16 * np.greater_equal(x[i], y[i])
            e[i] = math.radians(x[i]) - math.degrees(y[i])

    require_same(several, lambda x, y: [x, x, x, (x.shape, np.int64), (x.shape, np.float64)], *pairs(dtype))


def test_functions_of_integers() -> None:
    def several(x, y, a, b):
        for i in nc.prange(x.shape[0]):
            a[i] = np.fmod(x[i], y[i]) + 100 * np.mod(x[i], y[i]) - np.square(x[i]) + np.clip(x[i], -3, 3)
            b[i] = np.floor_divide(x[i], y[i]) ^ np.left_shift(x[i], 2) | np.invert(y[i])

    x, y = RNG.integers(-9, 9, 40), RNG.integers(1, 9, 40) * RNG.choice([-1, 1], 40)
    require_same(several, lambda x, y: [x, x], x, y)
