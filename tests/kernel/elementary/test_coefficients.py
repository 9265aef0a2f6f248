"""The polynomials approximate their functions as their comments say; the constants are correct."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest

from nacre.base.dtypes import DType, float32, float64
from nacre.kernel.elementary import coefficients as c

mp = mpmath.mp
HALF_LN2, QUARTER_PI_SQUARED = 0.34675, 0.61709


def odd(f: Callable[[Any], Any], x: Any, p: Any) -> Any:
    """The relative error of x + x z P(z) with z = x² for an odd function."""
    return (x + x**3 * p) / f(x) - 1


def erfcx(x: Any) -> Any:
    return mp.exp(x * x) * mp.erfc(x)


def erfcx_error(t: Any, p: Any, k: int) -> Any:
    x = k * (1 + t) / (1 - t)
    return p / (erfcx(x) * (1 + 2 * x)) - 1


# table, variable's interval, error of the value p at v, bounds as powers of two
CASES: list[tuple[str, tuple[float, float], Callable[[Any, Any], Any], tuple[float | None, float]]] = [
    ("EXPM1", (-HALF_LN2, HALF_LN2),
     lambda r, p: (r + r * r * p) / mp.expm1(r) - 1, (-31.0, -59.4)),
    ("EXP2", (-0.5, 0.5), lambda r, p: (1 + r * p) / mp.power(2, r) - 1, (-26.2, -57)),
    ("ATANH", (0, 0.02943), lambda z, p: odd(mp.atanh, mp.sqrt(z), p / 2), (-30.1, -59.4)),
    ("ATANH_REST", (0, 0.02943),
     lambda z, p: odd(mp.atanh, mp.sqrt(z), mp.mpf(1) / 3 + z * p / 2), (-36.7, -66.2)),
    ("SIN", (0, QUARTER_PI_SQUARED), lambda z, p: odd(mp.sin, mp.sqrt(z), p), (-27.8, -57.8)),
    ("COS", (0, QUARTER_PI_SQUARED),
     lambda z, p: 1 - z / 2 + z * z * p - mp.cos(mp.sqrt(z)), (-33.1, -64.1)),
    ("TAN", (0, QUARTER_PI_SQUARED), lambda z, p: odd(mp.tan, mp.sqrt(z), p), (-29.3, -56.1)),
    ("ATAN", (0, 1), lambda z, p: odd(mp.atan, mp.sqrt(z), p), (-27.3, -55.2)),
    ("ASIN", (0, 0.25), lambda z, p: odd(mp.asin, mp.sqrt(z), p), (-27.6, -55.8)),
    ("EXP", (-HALF_LN2, HALF_LN2), lambda r, p: (1 + r + r * r * p) / mp.exp(r) - 1, (-28.1, -59.4)),
    ("TANH", (0, 0.36), lambda z, p: odd(mp.tanh, mp.sqrt(z), p), (None, -57.7)),
    ("SINH", (0, 1), lambda z, p: odd(mp.sinh, mp.sqrt(z), p), (-31.5, -61.7)),
    ("ASINH", (0, 0.25), lambda z, p: odd(mp.asinh, mp.sqrt(z), p), (-29.5, -60.2)),
    ("ERF", (0, 1), lambda z, p: mp.sqrt(z) * (1 + p) / mp.erf(mp.sqrt(z)) - 1, (-28.4, -56.2)),
    ("CBRT", (1, 2), lambda m, p: p / mp.cbrt(m) - 1, (-13.7, -13.7)),
]  # fmt: skip


def value(table: tuple[float, ...], v: Any) -> Any:
    result = mpmath.mpf(0)
    for coefficient in reversed(table):
        result = result * v + coefficient
    return result


def largest(name: str, dtype: DType, interval: tuple[float, float], error: Callable[[Any, Any], Any]) -> float:
    """log2 of the largest error at 400 points, of a table rounded to its format."""
    table = tuple(float(dtype.numpy.type(coefficient)) for coefficient in getattr(c, name)[dtype])
    low, high = map(mpmath.mpf, interval)
    points = [low + (high - low) * (i + mpmath.mpf(1) / 2) / 400 for i in range(400)]
    return float(mp.log(max(abs(error(v, value(table, v))) for v in points), 2))


@pytest.mark.parametrize("name, interval, error, bounds", CASES, ids=[case[0] for case in CASES])
def test_polynomial(
    name: str,
    interval: tuple[float, float],
    error: Callable[[Any, Any], Any],
    bounds: tuple[float | None, float],
) -> None:
    with mpmath.workprec(150):
        for dtype, bound in zip((float32, float64), bounds, strict=True):
            assert bound is None or largest(name, dtype, interval, error) <= bound


def test_tanh_by_pieces() -> None:
    """Each piece ends where the leading bits of the sum change, and approximates tanh up to its ends."""
    sums = [2.0**power * (1 + quarter / 4) for power in range(5) for quarter in range(4)]
    inner = [(s - c.TANH_START) / c.TANH_SLOPE for s in sums if s > c.TANH_START]
    ends = [0.0, *inner[:15], c.TANH_SATURATES]
    assert inner[15] > c.TANH_SATURATES
    for k in range(16):
        middle, *row = (float(np.float32(r[k])) for r in c.TANH_PIECES)
        with mpmath.workprec(150):
            points = [ends[k] + (ends[k + 1] - ends[k]) * (i + mpmath.mpf(1) / 2) / 100 for i in range(100)]
            error = max(abs(value(tuple(row), x - middle) / mp.tanh(x) - 1) for x in points)
        assert mp.log(error, 2) <= -25.2
        bits = int((np.float32(c.TANH_SLOPE * middle + c.TANH_START)).view(np.uint32))
        assert all(
            np.float32(r[bits >> 21 & 15]) == np.float32(p[k]) for r, p in zip(c.TANH_ROWS, c.TANH_PIECES, strict=True)
        )


@pytest.mark.parametrize("dtype, k, top, bound", [(float32, 2, 0.68, -25.1), (float64, 4, 0.744, -54)], ids=str)
def test_scaled_erfc(dtype: DType, k: int, top: float, bound: float) -> None:
    with mpmath.workprec(150):
        error = largest("ERFCX", dtype, (-1, top), lambda t, p: erfcx_error(t, p, k))
    assert error <= bound


def test_two_over_pi_modulo_four() -> None:
    with mpmath.workprec(1400):
        assert mp.floor(2 / mp.pi * mp.power(2, c.TWO_OVER_PI_BITS)) == c.TWO_OVER_PI
        for b in range(31):
            row = c.TWO_OVER_PI_ROWS[c.ROW * b : c.ROW * (b + 1)]
            exact = mp.fmod(2 / mp.pi * mp.power(2, c.BUCKET * b), 4)
            assert abs(sum(map(mpmath.mpf, row)) - exact) < mp.power(2, -205)


def test_constants_in_parts() -> None:
    with mpmath.workprec(400):
        parts = [
            (mp.ln2, c.LN2_HIGH, c.LN2_LOW), (1 / mp.ln2, c.LOG2E_HIGH, c.LOG2E_LOW),
            (1 / mp.ln10, c.LOG10E_HIGH, c.LOG10E_LOW), (mp.pi, c.PI_HIGH, c.PI_LOW),
            (mp.ln2 / mp.ln10, c.LOG10_2_HIGH, c.LOG10_2_LOW),
            (mp.pi / 2, c.HALF_PI_HIGH, c.HALF_PI_MIDDLE, c.HALF_PI_LOW),
            (mpmath.mpf(2) / 3, c.TWO_THIRDS_HIGH, c.TWO_THIRDS_LOW),
        ]  # fmt: skip
        for exact, *tables in parts:
            for dtype, digits in ((float32, 24), (float64, 53)):
                error = sum(mpmath.mpf(t[dtype]) for t in tables) / exact - 1
                assert abs(error) < mp.power(2, -digits * len(tables))
