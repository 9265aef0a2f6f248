"""The scaled complement of erf, and the distribution function of the normal distribution with its logarithm."""

from __future__ import annotations

from math import inf

from nacre.kernel.elementary.error_function import erfc, scaled_erfc
from nacre.kernel.elementary.exponential import exp
from nacre.kernel.elementary.logarithm import log, log1p
from nacre.kernel.elementary.value import Real, at_most, fma, polynomial, two_product, where

SERIES = (1.0, -1.0, 3.0, -15.0, 105.0, -945.0, 10395.0, -135135.0)  # √π x erfcx(x) in 1 / (2x²) for x ≥ SERIES_FROM
SERIES_FROM = 26.0
SQUARE_OVERFLOWS = 27.0  # exp(x²) above
ROOT_PI, ROOT_HALF, ROOT_HALF_LOW = 1.772453850905516, 0.7071067811865476, -4.833646656726457e-17


def scaled_tail(a: Real) -> Real:
    """exp(a²) erfc(a) for a ≥ 0."""
    near = at_most(a, SERIES_FROM)
    p, p_low, d, _ = scaled_erfc(near)
    inverse = 1.0 / where(a > SERIES_FROM, a, 1.0)
    far = inverse * polynomial(inverse * inverse * 0.5, SERIES) * (1 / ROOT_PI)
    return where(a > SERIES_FROM, far, (p + p_low) / d)


def erfcx(x: Real) -> Real:
    """exp(x²) erfc(x); for x < 0, 2 exp(x²) less this of −x."""
    y = scaled_tail(abs(x))
    a = at_most(abs(x), SQUARE_OVERFLOWS)
    square, low = two_product(a, a)
    e = exp(square)
    return where(x < 0.0, where(x < -SQUARE_OVERFLOWS, inf, fma(e, low, e) * 2.0 - y), where(x.is_nan(), x, y))


def ndtr(x: Real) -> Real:
    """½ erfc(−x/√2), with a correction for the rounding of x/√2."""
    z = x * -ROOT_HALF
    rest = fma(x, -ROOT_HALF, -z) - x * ROOT_HALF_LOW
    y = erfc(z)
    slope = exp(-(z * z)) * (2 / ROOT_PI)
    return where(abs(x) < 40.0, fma(-slope, rest, y), y) * 0.5


def log_ndtr(x: Real) -> Real:
    """log Φ(x): by log(1 − Φ(−x)), and for x < −1 by the scaled tail."""
    falling = x < -1.0
    near = log1p(-ndtr(-where(falling, 0.0, x)))
    z = where(falling, x * -ROOT_HALF, 1.0)
    far = log(scaled_tail(z) * 0.5) - x * x * 0.5
    return where(falling, where(x.equals(-inf), x, far), near)
