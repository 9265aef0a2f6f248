"""The gamma function, its logarithm, and the derivative of this, the digamma function.

A recurrence leads from |x| < 8 to [1, 2], where the polynomials have the zeros as factors.  Above, Stirling's series
holds.  For x < 0, the functions at 1 − x are reflected.
"""

from __future__ import annotations

from math import inf, nan, pi

from nacre.base.dtypes import float64
from nacre.kernel.elementary.coefficients import LN2_HIGH, LN2_LOW
from nacre.kernel.elementary.exponential import exp
from nacre.kernel.elementary.logarithm import log, log_parts
from nacre.kernel.elementary.value import (
    Real,
    Truth,
    at_most,
    fast_two_sum,
    fma,
    polynomial,
    rarely,
    two_product,
    two_sum,
    where,
)
from nacre.kernel.special.coefficients import COSPI, DIGAMMA, DIGAMMA_TAIL, LGAMMA, SINPI, STIRLING

BOUND = 8  # from which Stirling's series holds
STIRLING_CONSTANT = 0.4189385332046727  # ½ log 2π − ½
GAMMA_OVERFLOWS = 171.7  # above
ROOT_HIGH, ROOT_LOW = 0.46163214496836236, -1.5522348162858677e-17  # the zero of ψ(1 + t)


def fraction(x: Real) -> Real:
    """x less the nearest whole number."""
    return x - x.unary("roundeven")


def sin_pi(r: Real) -> Real:
    """sin(πr) / π for |r| ≤ ½."""
    return r * polynomial(r * r, SINPI)


def cot_pi(r: Real) -> Real:
    """π cot(πr) for |r| ≤ ½."""
    size = abs(r)
    cosine = where(size < 0.25, polynomial(r * r, COSPI), sin_pi(0.5 - size) * pi)
    return cosine / sin_pi(r)


def log_in_two(x: Real) -> tuple[Real, Real]:
    """log x in two parts, for finite x > 0."""
    k, f, tail = log_parts(x)
    p, p_low = two_product(k, k.constant(LN2_HIGH[float64]))
    high, low = two_sum(p, f)
    return fast_two_sum(high, low + (fma(k, LN2_LOW[float64], p_low) - tail))


def place(size: Real, negative: Truth) -> tuple[Truth, Real, Real]:
    """Whether the size is large; else t in [0, 1) and the number n of factors.

    Γ at the place, `size` or 1 + `size` for negative numbers, is Γ(1 + t) (t + 1) … (t + n), or Γ(1 + t) / t for n < 0.
    """
    large = size >= float(BOUND)
    a = where(large, 1.0, size)
    whole = a.unary("floor")
    return large, a - whole, where(negative, whole, whole - 1.0)


def rising(t: Real, factors: Real) -> Real:
    """(t + 1) … (t + n) for n up to 7; 1 for n < 1."""
    product = t.constant(1.0)
    for k in range(1, BOUND):
        product = product * where(factors < float(k), 1.0, t + float(k))
    return product


def near_one(t: Real) -> Real:
    """log Γ(1 + t) for t in [0, 1]."""
    return t * (t - 1.0) * polynomial(t - 0.5, LGAMMA)


def lgamma(x: Real) -> Real:
    """log |Γ(x)|; infinite at zero and the negative whole numbers."""
    size, negative = abs(x), x.is_negative()
    large, t, factors = place(size, negative)
    divided = factors < 0.0
    high, low = log_in_two(where(large | divided, size, rising(t, factors)))
    small = near_one(t) + where(divided, -(high + low), high + low)
    p, rest = stirling(size, high, low, negative)
    y = where(large, where(p < inf, p + rest, p), small)
    (y,) = rarely(negative, [y], lambda: [-log(abs(sin_pi(fraction(size)))) - y])
    return where((size > 0.0) & (size < inf), y, where(size.is_nan(), x, inf))


def correction(z: Real) -> Real:
    """log Γ(z) − (z − ½) log z + z − ½ log 2π for z ≥ 8."""
    inverse = 1.0 / z
    return inverse * polynomial(inverse * inverse, STIRLING)


def stirling(z: Real, high: Real, low: Real, above: Truth) -> tuple[Real, Real]:
    """log Γ(z), or log Γ(1 + z) where `above`, in two parts for log z in two parts; the second part is about 1."""
    factor = z + where(above, z.constant(0.5), -0.5)
    p, p_low = two_product(factor, high - 1.0)
    rest = correction(z) + where(above, z.constant(1.0), 0.0) + STIRLING_CONSTANT
    return p, fma(factor, low, p_low) + rest


def gamma(x: Real) -> Real:
    """Γ(x); ±∞ at ±0, NaN at the negative whole numbers."""
    size, negative = abs(x), x.is_negative()
    large, t, factors = place(size, negative)
    divided = factors < 0.0
    z = at_most(where(large, size, float(BOUND)), GAMMA_OVERFLOWS)
    p, rest = stirling(z, *log_in_two(z), negative)
    y = exp(where(large, p, 0.0)) * exp(where(large, rest, near_one(t)))
    y = where(large, y, where(divided, y / t, y * rising(t, factors)))

    def reflected() -> list[Real]:
        """Γ(x) = −1 / (Γ(1 − x) sin(π |x|) / π)."""
        r = fraction(size)
        half = (size - r) * 0.5
        sine = where(half.unary("floor").equals(half), -sin_pi(r), sin_pi(r))
        return [where(r.equals(0.0) | size.equals(inf), nan, 1.0 / (sine * y))]

    (y,) = rarely(negative, [y], reflected)
    return where(size.equals(0.0), 1.0 / x, where(x.is_nan(), x, y))


def digamma(x: Real) -> Real:
    """The derivative of log Γ; ∓∞ at ±0, NaN at the negative whole numbers."""
    size, negative = abs(x), x.is_negative()
    large, t, factors = place(size, negative)
    divided = factors < 0.0
    above, below = where(divided, x.constant(-1.0), 0.0), where(divided, t, 1.0)  # the sum of 1 / (t + k) as a fraction
    for k in range(1, BOUND):
        factor, more = t + float(k), factors >= float(k)
        above, below = where(more, fma(above, factor, below), above), where(more, below * factor, below)
    small = ((t - ROOT_HIGH) - ROOT_LOW) * polynomial(t - 0.5, DIGAMMA) + above / below
    inverse = 1.0 / size
    w = inverse * inverse
    half = where(negative, inverse * 0.5, inverse * -0.5)
    y = where(large, log(size) + fma(-w, polynomial(w, DIGAMMA_TAIL), half), small)

    def reflected() -> list[Real]:
        """ψ(x) = ψ(1 − x) + π cot(π |x|)."""
        r = fraction(size)
        return [where((size > 0.0) & (r.equals(0.0) | size.equals(inf)), nan, y + cot_pi(r))]

    return rarely(negative, [y], reflected)[0]
