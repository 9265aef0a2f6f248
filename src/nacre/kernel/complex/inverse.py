"""Inverse trigonometric and hyperbolic functions in float64 (Kahan, Branch Cuts for Complex Elementary Functions).

Branch cuts are those of C, continuous with the sign of zero.  Parts are made of sums of terms of one sign.
"""

from __future__ import annotations

from math import inf, log, nan, pi
from typing import NamedTuple

from nacre.kernel.complex.arithmetic import length
from nacre.kernel.complex.roots import plain_root
from nacre.kernel.complex.terms import ComplexTerm, RealTerm, choose, fma, larger, where

HUGE = 2.0**1000  # numbers above are divided by 8, next to which ±1 makes no difference
TINY = 2.0**-400  # the square of a distance below may underflow
FLAT = 2.0**-500  # the square of an imaginary part below makes no difference to that of asin
SHIFT = 100  # an exponent that keeps reciprocals from overflow


class Legs(NamedTuple):
    """The roots of 1 − z and 1 + z without signs, for re ≥ 0, and the hyperbolic part of asin and acos."""

    x: RealTerm  # re, scaled where z is huge
    minus: ComplexTerm
    plus: ComplexTerm
    across: RealTerm  # Re(√(1 − z) √(1 + z))
    height: RealTerm  # asinh |Im(conj(√(1 − z)) √(1 + z))|; ∞ for an infinite z


def legs(z: ComplexTerm) -> Legs:
    """The roots and the hyperbolic part for |re| + i im."""
    huge = larger(abs(z.re), abs(z.im)) > HUGE
    scale = where(huge, 0.125, 1.0)
    x, y = abs(z.re) * scale, z.im * scale
    minus, plus = plain_root(ComplexTerm(1.0 - x, y)), plain_root(ComplexTerm(1.0 + x, y))
    area = fma(minus.re, plus.im, minus.im * plus.re)
    across = fma(minus.re, plus.re, minus.im * plus.im)
    height = area.call("asinh") + where(huge, log(8.0), 0.0)
    height = where((abs(y) < FLAT) & (x < 1.0), abs(y) / across, height)  # the roots halve im, subnormal or not
    return Legs(x, minus, plus, across, where(z.is_infinite(), inf, height))


def asin(z: ComplexTerm) -> ComplexTerm:
    """atan(re / Re(√(1 − z) √(1 + z))) + i asinh(Im(conj(√(1 − z)) √(1 + z))), within 5 ulp."""
    x, y = z
    found = legs(z)
    re = found.x.call("atan2", where(z.is_infinite(), abs(y), found.across))
    return ComplexTerm(where(x.equals(0.0), 0.0, re).with_sign_of(x), found.height.with_sign_of(y))


def acos(z: ComplexTerm) -> ComplexTerm:
    """2 atan(Re √(1 − z) / Re √(1 + z)) − i asinh(Im(conj(√(1 − z)) √(1 + z))), within 5 ulp."""
    x, y = z
    found, infinite, left = legs(z), z.is_infinite(), x < 0.0
    minus, plus = found.minus.re, found.plus.re
    up, right = where(left, plus, minus), where(left, minus, plus)
    up, right = choose(infinite, ComplexTerm(abs(y), x), ComplexTerm(up, right))
    re = up.call("atan2", right) * where(infinite, 1.0, 2.0)
    re = where(x.equals(0.0) & y.is_nan(), pi / 2, re)
    return ComplexTerm(re, found.height.with_sign_of(-y))


def atanh(z: ComplexTerm) -> ComplexTerm:
    """¼ log1p(4 re / |1 − z|²) + i ½ atan2(2 im, (1 − re) (1 + re) − im²) for re ≥ 0, and odd, within 5 ulp.

    Next to ±1, the logarithm is ½ log(2 / |1 − z|).  The imaginary part of a huge number is ±½π.
    """
    x, y = abs(z.re), z.im
    huge = larger(x, abs(y)) > HUGE
    scale = where(huge, 0.125, 1.0)
    away = ComplexTerm((1.0 - x) * scale, y * scale)
    distance = length(away)
    near = distance < TINY
    far = x * scale / distance * (4.0 * scale / distance)
    argument = where(near, 2.0 ** (1 - SHIFT) / distance, far)
    re = argument.call("log1p") * where(near, 0.5, 0.25) + where(near, SHIFT * log(2.0) / 2, 0.0)
    re = where(z.is_infinite(), 0.0, re)
    re = where(x.equals(0.0), 0.0, re).with_sign_of(z.re)
    im = (y + y).call("atan2", (1.0 - x) * (1.0 + x) - y * y) * 0.5
    quarter = where(y.is_nan(), nan, x.constant(pi / 2).with_sign_of(y))
    return ComplexTerm(re, where(huge | z.is_infinite(), quarter, im))


def acosh(z: ComplexTerm) -> ComplexTerm:
    """±i acos z, with a real part of at least 0 and the sign of im."""
    found = acos(z)
    return ComplexTerm(abs(found.im), found.re.with_sign_of(z.im))


def asinh(z: ComplexTerm) -> ComplexTerm:
    """−i asin(i z)."""
    return asin(z.swapped()).swapped()


def atan(z: ComplexTerm) -> ComplexTerm:
    """−i atanh(i z)."""
    return atanh(z.swapped()).swapped()
