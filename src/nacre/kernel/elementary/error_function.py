"""The error function erf and its complement erfc.

e^(x²) erfc(x) (1 + 2x) is smooth and nearly constant for x ≥ 0: a polynomial in (x − K) / (x + K).
"""

from __future__ import annotations

from nacre.base.dtypes import float32, float64
from nacre.kernel.elementary.coefficients import ERF, ERFCX
from nacre.kernel.elementary.exponential import exp_near_zero, expm1_near_zero, reduce_exp
from nacre.kernel.elementary.value import (
    Real,
    at_most,
    fast_two_sum,
    fma,
    polynomial,
    two_product,
    where,
)

MIDDLE = {float32: 2.0, float64: 4.0}  # K
ERFC_VANISHES = {float32: 10.5, float64: 27.3}  # erfc rounds to 0 above
ERF_SATURATES = {float32: 4.0, float64: 6.0}  # erf rounds to 1 above


def erf_near_zero(x: Real) -> Real:
    """erf x for |x| ≤ 1."""
    return fma(x, polynomial(x * x, ERF[x.dtype]), x)


def scaled_erfc(a: Real) -> tuple[Real, Real, Real, Real]:
    """p in two parts, d and about 1 / d, where e^(a²) erfc a = p / d; one division serves both."""
    dtype = a.dtype
    first, *rest = ERFCX[dtype]
    d, shifted = fma(a, 2.0, 1.0), a + MIDDLE[dtype]
    inverse = 1.0 / (shifted * d)
    t = (a - MIDDLE[dtype]) * (inverse * d)
    p, p_low = fast_two_sum(a.constant(first), t * polynomial(t, rest))
    return p, p_low, d, inverse * shifted


def erfc_positive(a: Real) -> Real:
    """erfc a for a ≥ 0, each factor in two parts, so that only one rounding remains."""
    a = at_most(a, ERFC_VANISHES[a.dtype])
    p, p_low, d, inverse = scaled_erfc(a)
    q = p * inverse
    q_low = (fma(-q, d, p) + fma(-q, fma(a, 2.0, 1.0 - d), p_low)) * inverse
    square, square_low = two_product(a, a)
    k, r = reduce_exp(-square)
    e, e_low = fast_two_sum(a.constant(1.0), expm1_near_zero(r - square_low))
    y, y_low = two_product(e, q)
    return k.times(y + fma(e, q_low, fma(e_low, q, y_low)))


def erfc(x: Real) -> Real:
    """1 − erf x near 0, where that loses no accuracy."""
    size = abs(x)
    y = erfc_positive(size)
    return where(size < 0.5, 1.0 - erf_near_zero(x), where(x < 0.0, 2.0 - y, y))


def erf(x: Real) -> Real:
    """1 − erfc |x| from 1 on, where erfc may have an error of some ulp."""
    size = abs(x)
    a = at_most(size, ERF_SATURATES[x.dtype])
    p, _, _, inverse = scaled_erfc(a)
    k, r = reduce_exp(-(a * a))
    e = exp_near_zero(r) * k.power()
    return where(size < 1.0, erf_near_zero(size), 1.0 - e * (p * inverse)).with_sign_of(x)
