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
            e[i] = math.radians(x[i]) - math.degrees(y[i]) + math.isclose(x[i], y[i] * (1 + 1e-10))

    require_same(several, lambda x, y: [x, x, x, (x.shape, np.int64), (x.shape, np.float64)], *pairs(dtype))


def test_functions_of_integers() -> None:
    def several(x, y, a, b):
        for i in nc.prange(x.shape[0]):
            a[i] = np.fmod(x[i], y[i]) + 100 * np.mod(x[i], y[i]) - np.square(x[i]) + np.clip(x[i], -3, 3)
            b[i] = np.floor_divide(x[i], y[i]) ^ np.left_shift(x[i], 2) | np.invert(y[i])

    x, y = RNG.integers(-9, 9, 40), RNG.integers(1, 9, 40) * RNG.choice([-1, 1], 40)
    require_same(several, lambda x, y: [x, x], x, y)


@pytest.mark.parametrize("dtype", (np.float64, np.float32))
def test_functions_of_numpy_by_the_name(dtype: Any) -> None:
    def several(x, y, a, b, c):
        for i in nc.prange(x.shape[0]):
            a[i] = np.round(x[i], 2) - np.round(y[i])
            b[i] = np.isclose(x[i], y[i]) + 2 * np.isclose(x[i], x[i] + y[i] * 0.0001, 0.01)
            c[i] = np.nextafter(x[i], y[i])

    require_same(several, lambda x, y: [x, (x.shape, np.int64), x], *pairs(dtype))

    @nc.kernel(out=lambda x, y: [x, x])
    def near(x, y, a, b):
        for i in nc.prange(x.shape[0]):
            a[i] = np.hypot(x[i], y[i]) + np.hypot(x[i], 3)
            b[i] = math.hypot(x[i], y[i])

    x, y = RNG.normal(size=(2, 50)).astype(dtype)
    a, b = near(x, y) if dtype is np.float64 else near(x.astype(np.float64), y.astype(np.float64))
    x, y = x.astype(np.float64), y.astype(np.float64)
    np.testing.assert_allclose(a.numpy(), np.hypot(x, y) + np.hypot(x, 3), rtol=1e-15)
    np.testing.assert_allclose(b.numpy(), np.hypot(x, y), rtol=1e-15)


@pytest.mark.parametrize("dtype", (np.float32, np.float16))
def test_functions_of_nacre(dtype: Any) -> None:
    def several(x, y, a, b, c, d):
        for i in range(x.shape[0]):
            a[i] = nc.hypot(x[i], y[i])
            b[i] = nc.fmod(x[i], y[i]) + nc.remainder(x[i], 2.5)
            c[i] = nc.where(x[i] > y[i], x[i], 2.0) + nc.square(y[i]) + nc.fmin(x[i], i)
            d[i] = nc.isclose(x[i], y[i])

    x, y = (each[::7] for each in pairs(dtype))
    require_same(several, lambda x, y: [x, x, x, (x.shape, np.bool_)], x, y)


def test_a_message_lists_the_functions_of_a_library() -> None:
    @nc.kernel(out=lambda x: x)
    def k(x, out):
        out[0] = math.perm(x[0])

    with pytest.raises(nc.GraphError, match=r"of math, kernels have acos, acosh, .*fmod.*hypot"):
        k(np.ones(2))
