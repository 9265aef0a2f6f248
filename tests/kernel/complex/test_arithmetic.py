"""Complex arithmetic: errors by parts, the bits of products, and the special values of C's Annex G."""

from __future__ import annotations

from collections.abc import Callable
from math import copysign, inf, isfinite, isinf, isnan, nan
from typing import Any

import mpmath
import numpy as np
import pytest

from kernel.complex.evaluation import COMPLEX, Array, around, errors, evaluate, grid, same, spread
from nacre.base.dtypes import DType, float32, float64
from nacre.kernel.softfloat import fma

FLOATS = [float32, float64]
SPECIAL = (0.0, -0.0, 1.0, -1.0, 2.5, inf, -inf, nan)


def pairs_of(z: Array) -> tuple[Array, Array]:
    """Every pair of numbers of an array."""
    return np.repeat(z, z.size), np.tile(z, z.size)


def boxed(x: float, y: float) -> tuple[float, float]:
    """±1 for infinities, ±0 for other numbers; +0 for NaN."""
    a, b = (copysign(float(isinf(v)), 0.0 if isnan(v) else v) for v in (x, y))
    return a, b


def without_nan(x: float) -> float:
    return 0.0 if isnan(x) else x


def annex_g_product(z: complex, w: complex) -> complex:
    """Annex G's example implementation of a product; NaN counts as positive."""
    a, b, c, d = z.real, z.imag, w.real, w.imag
    x, y = a * c - b * d, a * d + b * c
    if isnan(x) and isnan(y):
        again = False
        if isinf(a) or isinf(b):
            (a, b), c, d, again = boxed(a, b), without_nan(c), without_nan(d), True
        if isinf(c) or isinf(d):
            (c, d), a, b, again = boxed(c, d), without_nan(a), without_nan(b), True
        if not again and any(isinf(p) for p in (a * c, b * d, a * d, b * c)):
            a, b, c, d, again = without_nan(a), without_nan(b), without_nan(c), without_nan(d), True
        if again:
            x, y = inf * (a * c - b * d), inf * (a * d + b * c)
    return complex(x, y)


def annex_g_quotient(z: complex, w: complex) -> complex:
    """Annex G's example implementation of a quotient; NaN counts as positive.

    An infinite numerator is a direction at once, so that (∞ + ∞i) / (1 + 2.5i) has no NaN, as it has in the example.
    """
    a, b, c, d = z.real, z.imag, w.real, w.imag
    square = c * c + d * d
    with np.errstate(all="ignore"):
        x, y = (float(np.float64(v) / square) for v in (a * c + b * d, b * c - a * d))
    if square == 0:
        x, y = copysign(inf, c) * a, copysign(inf, c) * b
    elif (isinf(a) or isinf(b)) and isfinite(c) and isfinite(d):
        a, b = boxed(a, b)
        x, y = inf * (a * c + b * d), inf * (b * c - a * d)
    elif isnan(x) and isnan(y) and (isinf(c) or isinf(d)) and isfinite(a) and isfinite(b):
        c, d = boxed(c, d)
        x, y = 0.0 * (a * c + b * d), 0.0 * (b * c - a * d)
    return complex(x, y)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize(("op", "exact"), [("mul", annex_g_product), ("div", annex_g_quotient)], ids=["mul", "div"])
def test_special_values_follow_annex_g(op: str, exact: Callable[..., complex], dtype: DType) -> None:
    z, w = pairs_of(grid(*SPECIAL, dtype=dtype))
    want = np.array([exact(complex(a), complex(b)) for a, b in zip(z, w, strict=True)])
    got = evaluate(op, z, w)
    wrong = ~same(got, want.astype(got.dtype))
    assert not wrong.any(), list(zip(z[wrong], w[wrong], got[wrong], want[wrong], strict=True))[:8]


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_a_product_is_two_chains(dtype: DType) -> None:
    a, b, c = around(500, dtype, 1), around(500, dtype, 2), around(500, dtype, 3)
    want = np.empty_like(a)
    want.real = fma(-a.imag, b.imag, a.real * b.real)
    want.imag = fma(a.imag, b.real, a.real * b.imag)
    assert same(evaluate("mul", a, b), want).all()
    want.real = fma(-a.imag, b.imag, fma(a.real, b.real, c.real))
    want.imag = fma(a.imag, b.real, fma(a.real, b.imag, c.imag))
    assert same(evaluate("fma", a, b, c), want).all()


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_parts(dtype: DType) -> None:
    """Operations by parts have NumPy's bits, also on special values."""
    z, w = pairs_of(grid(*SPECIAL, dtype=dtype))
    with np.errstate(all="ignore"):
        for op, numpy in [("add", np.add), ("sub", np.subtract)]:
            assert same(evaluate(op, z, w), numpy(z, w)).all(), op
    assert same(evaluate("neg", z), -z).all() and same(evaluate("conj", z), z.conj()).all()
    assert same(evaluate("real", z), z.real).all() and same(evaluate("imag", z), z.imag).all()
    for op, test in [("isnan", np.isnan), ("isinf", np.isinf), ("isfinite", np.isfinite)]:
        assert (evaluate(op, z) == test(z)).all(), op
    assert (evaluate("eq", z, w) == (z == w)).all() and (evaluate("ne", z, w) == (z != w)).all()


BOUNDS = {"div": {float32: 0.501, float64: 3.2}, "modulus": {float32: 0.501, float64: 0.501}}
EXACT: dict[str, Callable[..., Any]] = {"div": lambda a, b: a / b, "modulus": abs}


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("op", EXACT)
def test_errors(op: str, dtype: DType) -> None:
    wide = (-149, 127) if dtype is float32 else (-1074, 1023)
    for points in (around(300, dtype, 4), spread(600, dtype, 5, *wide), spread(300, dtype, 6, -3, 3)):
        args = [points[: points.size // 2], points[points.size // 2 :]] if op == "div" else [points]
        found = errors(op, EXACT[op], args, 700)
        assert found.max() <= BOUNDS[op][dtype], (found.max(), [a[found.max(1).argmax()] for a in args])


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_quotients_of_products_that_cancel(dtype: DType) -> None:
    """a / b where the parts' products are almost equal."""
    b = around(300, dtype, 7)
    a = (b * (np.random.default_rng(8).uniform(-3, 3, 300) * 1j)).astype(b.dtype)
    assert errors("div", EXACT["div"], [a, b]).max() <= BOUNDS["div"][dtype]


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_length_and_angle_of_special_values(dtype: DType) -> None:
    z = grid(*SPECIAL, np.finfo(dtype.numpy).max, np.finfo(dtype.numpy).smallest_subnormal, dtype=dtype)
    with np.errstate(all="ignore"):
        assert same(evaluate("modulus", z), np.hypot(z.real, z.imag)).all()
    got, want = evaluate("angle", z), np.arctan2(z.imag, z.real)
    assert ((np.abs(got - want) <= 2 * np.spacing(np.abs(want))) | (np.isnan(got) & np.isnan(want))).all()
    assert (np.isnan(want) | (np.signbit(got) == np.signbit(want))).all()


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_sign(dtype: DType) -> None:
    wide = (-149, 127) if dtype is float32 else (-1074, 1023)
    z = spread(400, dtype, 9, *wide)
    assert errors("sign", lambda z: z / abs(z), [z], 700).max() <= (0.501 if dtype is float32 else 1.5)
    special = grid(*SPECIAL, dtype=dtype)
    got = evaluate("sign", special)
    with np.errstate(all="ignore"):
        want = np.sign(special)
    plain = np.isfinite(special)
    assert np.allclose(got[plain], want[plain], rtol=1e-6)
    infinite = np.isinf(special.real) ^ np.isinf(special.imag)
    assert (got[infinite] == want[infinite]).all() and np.isnan(got[~plain & ~infinite]).all()
    assert same(evaluate("sign", special[special == 0]), np.zeros(4, COMPLEX[dtype])).all()


def test_mpmath_has_enough_digits() -> None:
    """Both parts of a quotient are exact to float64 at the digits in use."""
    with mpmath.workdps(700):
        assert mpmath.mpc(3, 1) / mpmath.mpc(1, 1) == mpmath.mpc(2, -1)
