"""Functions made of logarithms and sines: logit, x log y, x log(1 + y), −x log x, and sin(πx) / (πx)."""

from __future__ import annotations

from math import inf, nan

from nacre.kernel.elementary.logarithm import log, log1p
from nacre.kernel.elementary.value import Real, where
from nacre.kernel.special.gamma import fraction, sin_pi


def logit(x: Real) -> Real:
    """log(x / (1 − x)); near ½ by log1p, which does not cancel."""
    rest = 1.0 - x
    near = (x > 0.3) & (x < 0.65)
    y = where(near, log1p((x - 0.5) * 2.0 / rest), log(x / rest))
    return where(x > 1.0, nan, y)


def xlogy(x: Real, y: Real) -> Real:
    """x log y, and 0 for x = 0 unless y is NaN."""
    return where(x.equals(0.0) & ~y.is_nan(), 0.0, x * log(y))


def xlog1py(x: Real, y: Real) -> Real:
    """x log(1 + y), and 0 for x = 0 unless y is NaN."""
    return where(x.equals(0.0) & ~y.is_nan(), 0.0, x * log1p(y))


def entr(x: Real) -> Real:
    """−x log x; 0 for 0, −∞ below."""
    return where(x < 0.0, -inf, where(x.equals(0.0), 0.0, -(x * log(x))))


def sinc(x: Real) -> Real:
    """sin(πx) / (πx); 1 at 0."""
    size = abs(x)
    r = fraction(size)
    half = (size - r) * 0.5
    sine = where(half.unary("floor").equals(half), sin_pi(r), -sin_pi(r))
    y = sine / size
    return where(size.equals(0.0), 1.0, where(size.equals(inf), 0.0, y))
