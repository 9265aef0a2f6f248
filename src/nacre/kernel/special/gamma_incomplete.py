"""The regularised incomplete gamma functions, and their derivative by the parameter.

For x ≤ a, the lower function is a power series; for x > a, the upper one is a continued fraction.  For small a and x,
the upper one is another series.  For large a and x near it, the method is Temme's uniform expansion
(SIAM J. Math. Anal. 10 (1979)).  Each gives the smaller function, or one that is not close to 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, nan, pi
from typing import NamedTuple

from nacre.kernel.elementary.error_function import erfc
from nacre.kernel.elementary.exponential import exp, expm1
from nacre.kernel.elementary.logarithm import log, log1p, log_tail, power
from nacre.kernel.elementary.value import Real, Truth, at_most, fma, polynomial, rarely, repeat, where
from nacre.kernel.special.coefficients import TEMME
from nacre.kernel.special.gamma import correction, digamma, gamma, lgamma, near_one

LARGE = 20.0  # parameters from which the uniform expansion holds
NEAR = 0.4  # |x / a − 1| up to which it holds
SMALL = 1.1  # arguments up to which the series of the upper function is used
SERIES_TERMS, FRACTION_TERMS, SMALL_TERMS = 80, 120, 22
VANISHED = 800.0  # exp(−x) is 0 above


class ParameterDual(NamedTuple):
    """A number and its derivative by the parameter a."""

    value: Real
    slope: Real


class GammaRegion(NamedTuple):
    """The operands, and the conditions that choose a method."""

    a: Real
    x: Real
    near: Truth  # for the uniform expansion
    lower: Truth  # for the power series
    small: Truth  # for the series of the upper function; otherwise, the continued fraction


def region(a: Real, x: Real) -> GammaRegion:
    """The region of finite positive numbers."""
    near = (a >= LARGE) & (abs(x - a) <= a * NEAR)
    little = (x <= SMALL) & ~near
    at_least_half = where(x < 0.5, fma(-a, log(at_most(x, 0.5)), -0.4), fma(x, -SMALL, a)) < 0.0  # roughly, of Q
    small = little & at_least_half
    lower = ((little & ~at_least_half) | ((x > SMALL) & (x <= a))) & ~near
    return GammaRegion(a, x, near, lower, small)


def excess(m: Real) -> Real:
    """m − log(1 + m), without cancellation for small m."""
    return where((m > -0.29) & (m < 0.41), log_tail(where(abs(m) < 0.5, m, 0.0)), m - log1p(m))


def density(a: Real, x: Real) -> Real:
    """x^a e^−x / Γ(a + 1)."""
    large = a >= LARGE
    big = where(large, a, LARGE)
    ratio = x / big
    near = abs(x - big) <= big * NEAR
    exponent = where(near, excess((x - big) / big), ratio - 1.0 - log(ratio))
    far = exp(-(big * exponent) - correction(big)) / (big * (2 * pi)).unary("sqrt")
    few = where(large, 1.0, a)
    bounded = at_most(x, VANISHED)
    plain = power(bounded, few) * exp(-bounded) / gamma(few + 1.0)
    return where(large, far, plain)


def lower_series(at: GammaRegion) -> ParameterDual:
    """Σ xⁿ / ((a + 1) … (a + n)): the lower function over the density."""
    a, x = at.a, where(at.lower, at.x, 0.5)

    def step(n: Real, term: Real, term_slope: Real, total: Real, slope: Real) -> Sequence[Real]:
        """One more term."""
        d = a + n
        factor = x / d
        term_slope = (term_slope - term / d) * factor
        term = term * factor
        return n + 1.0, term, term_slope, total + term, slope + term_slope

    one = a.constant(1.0)
    zero = a.constant(0.0)
    _, _, _, total, slope = repeat(SERIES_TERMS, [one, one, zero, one, zero], step)
    return ParameterDual(total, slope)


def upper_fraction(at: GammaRegion) -> ParameterDual:
    """The continued fraction of the upper function over the density times a, from its end."""
    a = at.a
    x = where(at.near | at.lower | at.small, a + SMALL, at.x)
    last = float(FRACTION_TERMS)

    def step(n: Real, f: Real, slope: Real) -> Sequence[Real]:
        """f = b − c / f with c = n (n − a) and the b before."""
        c = n * (n - a)
        ratio = c / f
        slope = -1.0 + (n + ratio * slope) / f
        f = (x + (n + n - 1.0) - a) - ratio
        return n - 1.0, f, slope

    start = x + (2.0 * last + 1.0) - a
    _, f, slope = repeat(FRACTION_TERMS, [a.constant(last), start, a.constant(-1.0)], step)
    return ParameterDual(1.0 / f, -slope / (f * f))


def upper_series(at: GammaRegion) -> ParameterDual:
    """The upper function for small a and x: 1 − x^a / Γ(1 + a) (1 + a Σ (−x)ⁿ / (n! (a + n)))."""
    a, x = where(at.small, at.a, 0.5), where(at.small, at.x, 0.5)

    def step(n: Real, term: Real, total: Real, slope: Real) -> Sequence[Real]:
        """One more term."""
        term = term * (-x / n)
        part = term / (a + n)
        return n + 1.0, term, total + part, slope - part / (a + n)

    one, zero = a.constant(1.0), a.constant(0.0)
    _, _, total, slope = repeat(SMALL_TERMS, [one, one, zero, zero], step)
    exponent = a * log(x) - where(a > 1.0, lgamma(a + 1.0), near_one(a))
    rise = log(x) - digamma(a + 1.0)
    factor, whole = exp(exponent), fma(a, total, 1.0)
    value = -expm1(exponent) - factor * (a * total)
    return ParameterDual(value, -(factor * fma(rise, whole, fma(a, slope, total))))


def uniform(at: GammaRegion) -> ParameterDual:
    """The lower function for x < a, the upper one otherwise, by the uniform expansion."""
    a, x = where(at.near, at.a, LARGE), where(at.near, at.x, LARGE)
    m = (x - a) / a
    half_square = excess(m)  # η² / 2
    eta = (half_square * 2.0).unary("sqrt").with_sign_of(m)
    z = eta * (a * 0.5).unary("sqrt")
    e = exp(-(a * half_square))
    inverse = 1.0 / a
    value = slope = by_parameter = a.constant(0.0)
    for k in range(len(TEMME) - 1, -1, -1):
        row = TEMME[k]
        p = polynomial(eta, row)
        q = polynomial(eta, [n * c for n, c in enumerate(row)][1:] or (0.0,))
        value, slope = fma(value, inverse, p), fma(slope, inverse, q)
        by_parameter = fma(by_parameter, inverse, p * -float(k))
    scale = e / (a * (2 * pi)).unary("sqrt")
    rest = scale * value
    rise = log1p(m)
    # by a: η² / 2 · a by −log λ, η by −m / (a η), and log λ / η and m / η are 1 at 0
    at_zero = eta.equals(0.0)
    safe = where(at_zero, 1.0, eta)
    eta_slope = -where(at_zero, 1.0, m / safe) * inverse
    erfc_slope = where(at_zero, 1.0, rise / safe) * scale
    rest_slope = rest * (rise - inverse * 0.5) + scale * (slope * eta_slope + by_parameter * inverse)
    upper = erfc(abs(z)) * 0.5
    below = m < 0.0
    y = upper + where(below, -rest, rest)
    y_slope = erfc_slope + rest_slope
    return ParameterDual(y, where(below, -y_slope, y_slope))


def parts(a: Real, x: Real) -> tuple[ParameterDual, Truth]:
    """One of the functions with its derivative by a, and whether it is the lower one; for finite positive numbers."""
    at = region(a, x)
    d = density(a, x)
    rise = log(x) - digamma(a + 1.0)

    def of_series() -> Sequence[Real]:
        """By the power series."""
        total, slope = lower_series(at)
        return [d * total, d * fma(rise, total, slope)]

    def of_fraction() -> Sequence[Real]:
        """By the continued fraction; the density times a has the derivative (log x − ψ(a)) of its logarithm."""
        total, slope = upper_fraction(at)
        return [d * a * total, d * (fma(a, rise, 1.0) * total + a * slope)]

    start = [a.constant(0.0), a.constant(0.0)]
    found = rarely(at.lower, start, of_series)
    found = rarely(~(at.lower | at.near | at.small), found, of_fraction)
    found = rarely(at.small, found, lambda: upper_series(at))
    found = rarely(at.near, found, lambda: uniform(at))
    return ParameterDual(*found), at.lower | (at.near & (x < a))


def usual(a: Real, x: Real) -> Truth:
    """Whether both are positive and finite."""
    return (a > 0.0) & (a < inf) & (x > 0.0) & (x < inf)


def regularised(a: Real, x: Real, *, upper: bool) -> Real:
    """The lower or the upper function, with its values at the ends."""
    inside = usual(a, x)
    found, is_lower = parts(where(inside, a, 1.0), where(inside, x, 1.0))
    y = where(~is_lower if upper else is_lower, found.value, 1.0 - found.value)
    low, high = (1.0, 0.0) if upper else (0.0, 1.0)
    above = (a.equals(0.0) & (x > 0.0)) | (x.equals(inf) & (a >= 0.0) & (a < inf))
    below = (x.equals(0.0) & (a > 0.0)) | (a.equals(inf) & (x >= 0.0) & (x < inf))
    return where(inside, y, where(above, high, where(below, a.constant(low), nan)))


def gammainc(a: Real, x: Real) -> Real:
    """The lower function P(a, x): the integral of t^(a−1) e^−t / Γ(a) from 0 to x."""
    return regularised(a, x, upper=False)


def gammaincc(a: Real, x: Real) -> Real:
    """The upper function Q(a, x) = 1 − P(a, x)."""
    return regularised(a, x, upper=True)


def gammainc_slope(a: Real, x: Real) -> Real:
    """The derivative of P(a, x) by a."""
    inside = usual(a, x)
    found, is_lower = parts(where(inside, a, 1.0), where(inside, x, 1.0))
    y = where(is_lower, found.slope, -found.slope)
    ends = (a >= 0.0) & (x >= 0.0) & ~(a.equals(0.0) & x.equals(0.0))
    return where(inside, y, where(ends, a.constant(0.0), nan))


def gamma_density(a: Real, x: Real) -> Real:
    """x^(a−1) e^−x / Γ(a), the derivative of P(a, x) by x."""
    inside = usual(a, x)
    p, q = where(inside, a, 1.0), where(inside, x, 1.0)
    y = density(p, q) * (p / q)
    origin = where(a < 1.0, inf, where(a.equals(1.0), a.constant(1.0), 0.0))
    at_zero = x.equals(0.0) & (a > 0.0)
    ends = (a >= 0.0) & (x >= 0.0)
    return where(inside, y, where(at_zero, origin, where(ends, a.constant(0.0), nan)))


def implicit_gamma(a: Real, x: Real) -> Real:
    """x itself: a number of the gamma distribution, which has a derivative by the parameter."""
    return x
