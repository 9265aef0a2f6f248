"""The logarithm of the beta function."""

from __future__ import annotations

from math import inf, nan

from nacre.kernel.elementary.logarithm import log, log1p
from nacre.kernel.elementary.value import Real, where
from nacre.kernel.special.gamma import BOUND, correction, lgamma

HALF_LOG_TWO_PI = 0.9189385332046728


def betaln(a: Real, b: Real) -> Real:
    """log |Γ(a) Γ(b) / Γ(a + b)|; where Stirling's series holds, its terms are subtracted before they are large."""
    swapped = a > b
    small, big = where(swapped, b, a), where(swapped, a, b)
    positive = (small > 0.0) & (big < inf)
    large = positive & (big >= float(BOUND))
    p, q = where(large, small, 1.0), where(large, big, float(BOUND))
    y = where(large, of_large(p, q), lgamma(a) + lgamma(b) - lgamma(a + b))
    y = where((small > 0.0) & big.equals(inf), -inf, where(small.equals(0.0) & (big >= 0.0), inf, y))
    return where(a.is_nan() | b.is_nan(), nan, y)


def of_large(p: Real, q: Real) -> Real:
    """log B(p, q) for q ≥ 8 and 0 < p ≤ q."""
    total = p + q
    ratio = log1p(p / q)
    both = p >= float(BOUND)
    rest = correction(q) - correction(total)
    a = where(both, p, float(BOUND))
    far = HALF_LOG_TWO_PI - 0.5 * log(q) + (a - 0.5) * log(a / (a + q)) + (correction(a) + rest) - q * ratio
    near = lgamma(where(both, 1.0, p)) + (rest - p * log(total) + (p - (q - 0.5) * ratio))
    return where(both, far, near)
