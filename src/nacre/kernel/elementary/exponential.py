"""Exponentials and functions derived from them: exp, exp2, expm1, sigmoid, sinh, cosh, tanh.

x = k ln 2 + r with |r| ≤ ½ ln 2, so that e^x = 2^k e^r.
"""

from __future__ import annotations

from typing import NamedTuple

from nacre.base.dtypes import float32, float64
from nacre.kernel.elementary.coefficients import (
    EXP,
    EXP2,
    EXPM1,
    LN2_HIGH,
    LN2_LOW,
    LOG2E_HIGH,
    SINH,
    TANH,
    TANH_ROWS,
    TANH_SATURATES,
    TANH_SLOPE,
    TANH_START,
)
from nacre.kernel.elementary.scaling import Exponent, nearest_exponent
from nacre.kernel.elementary.value import (
    FLOAT,
    Real,
    Whole,
    at_least,
    at_most,
    fast_two_sum,
    fma,
    pick,
    polynomial,
    where,
)


class Limits(NamedTuple):
    """Arguments at which exponentials leave a format's range; arguments are clamped slightly beyond them."""

    exp_low: float  # e^x rounds to 0 below
    exp_high: float  # and overflows above
    half_high: float  # e^x / 2 overflows above
    exp2_low: float
    exp2_high: float
    lost: float  # 1 + e^-x is 1 above
    tiny: float  # x² / 2 is negligible against x below


LIMITS = {
    float32: Limits(-104.0, 89.0, 90.0, -151.0, 129.0, 20.0, 2.0**-26),
    float64: Limits(-746.0, 710.0, 711.0, -1076.0, 1025.0, 42.0, 2.0**-55),
}


def limits(x: Real) -> Limits:
    """The bounds of the argument in this format, beyond which results are constant or simple."""
    return LIMITS[x.dtype]


def nearest(x: Real, scale: float) -> tuple[Real, Whole]:
    """The integer nearest to x · scale, as a number and in two's complement (|x · scale| small)."""
    fmt = x.format
    shifted = fma(x, scale, fmt.magic)
    return shifted - fmt.magic, shifted.as_whole() - fmt.magic_bits


def reduce_exp(x: Real) -> tuple[Exponent, Real]:
    """k and r with x = k ln 2 + r."""
    dtype = x.dtype
    k = nearest_exponent(x, LOG2E_HIGH[dtype])
    return k, fma(k.number, -LN2_LOW[dtype], fma(k.number, -LN2_HIGH[dtype], x))


def reduce_exp_in_two(x: Real) -> tuple[Exponent, Real, Real]:
    """k, and r in two parts."""
    dtype = x.dtype
    k = nearest_exponent(x, LOG2E_HIGH[dtype])
    r, low = fast_two_sum(fma(k.number, -LN2_HIGH[dtype], x), k.number * -LN2_LOW[dtype])
    return k, r, low


def expm1_near_zero(r: Real, low: Real | None = None) -> Real:
    """e^(r + low) − 1 for |r| ≤ ½ ln 2."""
    square, p = r * r, polynomial(r, EXPM1[r.dtype])
    return fma(square, p, r) if low is None else r + fma(square, p, low)


def exp_near_zero(r: Real) -> Real:
    """e^r for |r| ≤ ½ ln 2."""
    return polynomial(r, (1.0, 1.0, *EXP[r.dtype]))


def exp_within(x: Real) -> Real:
    """e^x for x that is within the clamping limits."""
    k, r = reduce_exp(x)
    return k.times(exp_near_zero(r))


def exp(x: Real) -> Real:
    """e to the x; 0 and infinity beyond the format's range."""
    at = limits(x)
    return exp_within(at_most(at_least(x, at.exp_low), at.exp_high))


def exp_falling(x: Real) -> Real:
    """e to the x, for x up to 0."""
    return exp_within(at_least(x, limits(x).exp_low))


def exp2(x: Real) -> Real:
    """2 to the x; 0 and infinity beyond the format's range."""
    at = limits(x)
    x = at_most(at_least(x, at.exp2_low), at.exp2_high)
    k = nearest_exponent(x, 1.0)
    return k.times(exp2_near_zero(x - k.number))


def exp2_near_zero(r: Real) -> Real:
    """2^r for |r| ≤ ½."""
    return fma(r, polynomial(r, EXP2[r.dtype]), 1.0)


def expm1(x: Real) -> Real:
    """2^k (e^r − 1) + (2^k − 1), halved inside so that 2^k may be just out of range."""
    at = limits(x)
    k, r, low = reduce_exp_in_two(at_most(at_least(x, -2 * at.lost), at.exp_high))
    half = k.power(less=1)
    y = fma(half, expm1_near_zero(r, low), half - 0.5) * 2.0
    return where(abs(x) < at.tiny, x, y)


def sigmoid(x: Real) -> Real:
    """1 / (1 + e) with e = e^−|x|; for negative x e − e² / (1 + e), which has a smaller rounding error."""
    e = exp_within(at_least(-abs(x), limits(x).exp_low))
    falling = x < 0.0
    y = where(falling, e, 1.0) / (e + 1.0)
    return where(falling, fma(-e, y, e), y)


def half_exp(x: Real) -> Real:
    """e^x / 2 for x ≥ 0, up to the overflow of the half."""
    k, r = reduce_exp(at_most(x, limits(x).half_high))
    return k.times(exp_near_zero(r), less=1)


def sinh(x: Real) -> Real:
    """x + x³ P(x²) up to 1; above, h − ¼/h with h = e^|x| / 2."""
    z = x * x
    small = fma(x * z, polynomial(z, SINH[x.dtype]), x)
    h = half_exp(abs(x))
    return where(abs(x) < 1.0, small, (h - 0.25 / h).with_sign_of(x))


def cosh(x: Real) -> Real:
    """The hyperbolic cosine."""
    h = half_exp(abs(x))
    return h + 0.25 / h


def tanh(x: Real) -> Real:
    """The hyperbolic tangent, by pieces in float32."""
    if x.dtype is float32:
        return tanh_by_pieces(x)
    return tanh_by_exp(x)


def tanh_by_pieces(x: Real) -> Real:
    """A polynomial around the middle of each of sixteen pieces; the leading bits of a |x| + b select the piece."""
    size = at_most(abs(x), TANH_SATURATES)
    piece = fma(size, TANH_SLOPE, TANH_START).as_whole().lshr(FLOAT.fraction - 2)
    middle, *coefficients = (pick(f"tanh.{k}", row, piece) for k, row in enumerate(TANH_ROWS))
    r, y = size - middle, coefficients.pop()
    for c in reversed(coefficients):
        y = fma(y, r, c)
    return y.with_sign_of(x)


def tanh_by_exp(x: Real) -> Real:
    """x + x³ P(x²) up to 0.6; above, 1 − 2 / (e^2|x| + 1)."""
    z, size = x * x, abs(x)
    small = fma(size * z, polynomial(z, TANH[x.dtype]), size)
    e = exp_within(at_most(size + size, 2 * limits(x).lost))
    large = 1.0 - 2.0 / (e + 1.0)
    return where(size < 0.6, small, large).with_sign_of(x)
