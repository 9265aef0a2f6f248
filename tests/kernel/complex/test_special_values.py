"""Special values and symmetries of complex elementary functions."""

from __future__ import annotations

import numpy as np
import pytest

from kernel.complex.annex_g import ANNEX_G, EitherSign, Part, cases
from kernel.complex.evaluation import COMPLEX, Array, around, evaluate, grid, same, spread
from nacre.base.dtypes import DType, float32, float64

FLOATS = [float32, float64]
NUMBERS = (0.0, -0.0, 0.5, -0.5, 1.0, -1.0, 3.0, 800.0, -800.0, np.inf, -np.inf, np.nan)
ODD = ["sinh", "tanh", "sin", "tan", "asin", "atan", "asinh", "atanh"]
ROTATED = {"sin": "sinh", "tan": "tanh", "asin": "asinh", "atan": "atanh"}


def agrees(got: float, wanted: Part, eps: float) -> bool:
    """Whether a part is the number, with its sign; π's multiples are within an ulp."""
    if isinstance(wanted, EitherSign):
        return agrees(abs(got), wanted.size, eps)
    if np.isnan(wanted):
        return bool(np.isnan(got))
    close = got == wanted or abs(got - wanted) <= eps * abs(wanted) < np.inf
    return bool(close and np.signbit(got) == np.signbit(wanted))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("op", ANNEX_G)
def test_annex_g(op: str, dtype: DType) -> None:
    """Each row, and its conjugate."""
    eps = float(np.finfo(dtype.numpy).eps)
    rows = cases(op)
    z = np.array([z for z, _ in rows], COMPLEX[dtype])
    for conjugate in (False, True):
        got = evaluate(op, z.conj() if conjugate else z)
        got = got.conj() if conjugate else got
        wrong = [
            (z, w, g)
            for (z, w), g in zip(rows, got, strict=True)
            if not (agrees(g.real, w[0], eps) and agrees(g.imag, w[1], eps)) and not (conjugate and np.isnan(z.imag))
        ]
        assert not wrong, wrong


def points(dtype: DType) -> Array:
    """Special values and ordinary numbers."""
    return np.concatenate([grid(*NUMBERS, dtype=dtype), around(60, dtype, 11), spread(60, dtype, 12, -40, 40)])


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("op", ANNEX_G)
def test_conjugates(op: str, dtype: DType) -> None:
    """f of a conjugate is the conjugate of f, to the bit; NaN has no sign."""
    z = points(dtype)
    z = z[~np.isnan(z.real) & ~np.isnan(z.imag)]
    got, other = evaluate(op, z), evaluate(op, z.conj()).conj()
    free = np.isnan(got.real) | np.isnan(got.imag)
    assert (same(got, other) | free).all(), z[~(same(got, other) | free)]


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("op", ODD)
def test_odd_functions(op: str, dtype: DType) -> None:
    z = points(dtype)
    z = z[~np.isnan(z.real) & ~np.isnan(z.imag)]
    got, other = evaluate(op, z), -evaluate(op, -z)
    free = np.isnan(got.real) | np.isnan(got.imag)
    assert (same(got, other) | free).all(), z[~(same(got, other) | free)]


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize(("op", "hyperbolic"), ROTATED.items())
def test_trigonometric_functions_are_rotated(op: str, hyperbolic: str, dtype: DType) -> None:
    """sin z = −i sinh(i z), and so on, to the bit."""
    z = points(dtype)
    turned = np.empty_like(z)
    turned.real, turned.imag = z.imag, z.real
    got, other = evaluate(op, z), evaluate(hyperbolic, turned)
    assert same(got.real, other.imag).all() and same(got.imag, other.real).all()


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_cos_and_acosh(dtype: DType) -> None:
    """cos z = cosh(i z), and acosh z is i acos z or its negative."""
    z = points(dtype)
    turned = np.empty_like(z)
    turned.real, turned.imag = -z.imag, z.real
    assert same(evaluate("cos", z), evaluate("cosh", turned)).all()
    z = z[~np.isnan(z.real) & ~np.isnan(z.imag)]
    got, other = evaluate("acosh", z), evaluate("acos", z)
    assert same(got.real, abs(other.imag)).all()
    assert same(got.imag, np.copysign(other.real, z.imag)).all()
