"""Exponentials in float64: exp, exp2, expm1 and sigmoid.  Special values follow C's Annex G."""

from __future__ import annotations

from math import inf
from typing import NamedTuple

from nacre.kernel.complex.terms import ComplexTerm, DoubleDouble, RealTerm, fma, two_product, where

STEP, FACTOR = 375.5, 1.1955781094135035e163  # e^STEP is FACTOR within 0.0005 ulp
BINARY_STEP = 600.0
BOUND, BINARY_BOUND = 709.0, 1023.0  # the exponentials overflow slightly above
LN2_HIGH, LN2_LOW = float.fromhex("0x1.62e42fefa39efp-1"), float.fromhex("0x1.abc9e3b39803fp-56")
TINY = 2.0**-500  # sin(y ln 2) is y ln 2 below, which is not rounded to a subnormal number before it is scaled
ONE_IS_SMALL = 40.0  # e^x − 1 is e^x above


class Growth(NamedTuple):
    """An exponential of x that overflows, as f(rest) · first · second, where f(rest) does not."""

    rest: RealTerm
    first: RealTerm
    second: RealTerm


def growth(x: RealTerm, step: float = STEP, factor: float = FACTOR, bound: float = BOUND) -> Growth:
    """x up to twice `step` above the bound as a rest and factors; both factors are 1 below the bound."""
    far, farther = x > bound, x > bound + step
    rest = x - where(farther, 2 * step, where(far, step, 0.0))
    return Growth(rest, where(far, factor, 1.0), where(farther, factor, 1.0))


def grown(part: RealTerm, g: Growth, size: RealTerm) -> RealTerm:
    """A part of a direction times the exponential of which `size` is f(rest); 0 stays, also next to ∞."""
    return where(part.equals(0.0), part, part * g.first * size * g.second)


def with_exp_specials(z: ComplexTerm, y: ComplexTerm) -> ComplexTerm:
    """y = e^z, or of another base above 1, where z has no infinity, NaN, or zero imaginary part next to them."""
    lost = ~z.im.is_finite()
    re = where(lost & z.re.is_infinite(), z.re.call("maximum", 0.0), y.re)
    im = where(lost & z.re.equals(-inf), z.re.constant(0.0).with_sign_of(z.im), y.im)
    return ComplexTerm(re, where(z.im.equals(0.0), z.im, im))


def turn(angle: DoubleDouble, stretch: RealTerm | float = 0.0) -> ComplexTerm:
    """(cos + i sin of an angle in two parts) · (1 + stretch) for a small stretch.

    The low part is of any size, as next to an angle above 2^53: the length is 1 + stretch to rounding for every angle.
    """
    cos, sin = angle.high.call("cos"), angle.high.call("sin")
    low = where(angle.low.is_finite(), angle.low, 0.0)
    low_sin = low.call("sin")
    less_one = low.call("cos") - 1.0 + stretch
    return ComplexTerm(cos + fma(-sin, low_sin, cos * less_one), sin + fma(cos, low_sin, sin * less_one))


def turn_by_ln2(y: RealTerm) -> ComplexTerm:
    """cos + i sin of y ln 2, whose product is in two parts: the error of the angle is about |y| 2^-107.

    Above |y| = 2^107 the angle is any; the length is 1 to rounding for every finite y.
    """
    angle = two_product(y, LN2_HIGH)
    return turn(DoubleDouble(angle.high, fma(y, LN2_LOW, angle.low)))


def exp_of(re: RealTerm, im: RealTerm, direction: ComplexTerm) -> ComplexTerm:
    """e^re times a direction, that of the angle im; parts are finite where only e^re overflows."""
    g = growth(re)
    size = g.rest.call("exp")
    return with_exp_specials(ComplexTerm(re, im), ComplexTerm(*(grown(part, g, size) for part in direction)))


def exp(z: ComplexTerm) -> ComplexTerm:
    """e^re (cos im + i sin im), within 3 ulp; parts are finite where only e^re overflows."""
    return exp_of(z.re, z.im, ComplexTerm(z.im.call("cos"), z.im.call("sin")))


def exp2(z: ComplexTerm) -> ComplexTerm:
    """2^re (cos (im ln 2) + i sin (im ln 2)), within 3 ulp for |im| up to 2^40.

    Above, the error of the angle is about |im| 2^-107, up to any angle above 2^107; the length is right for every im.
    """
    g = growth(z.re, BINARY_STEP, 2.0**BINARY_STEP, BINARY_BOUND)
    size, direction = g.rest.call("exp2"), turn_by_ln2(z.im)
    tiny = z.im * g.first * LN2_HIGH * size * g.second
    sine = where(abs(z.im) < TINY, tiny, grown(direction.im, g, size))
    return with_exp_specials(z, ComplexTerm(grown(direction.re, g, size), sine))


def expm1(z: ComplexTerm) -> ComplexTerm:
    """e^z − 1 as expm1(re) cos im − 2 sin²(im / 2) + i e^re sin im.

    The real part's terms cancel near the curve e^re cos im = 1; its error is up to 4 ulp of the larger term.
    """
    y = exp(z)
    half = (z.im * 0.5).call("sin")
    re = fma(z.re.call("expm1"), z.im.call("cos"), half * half * -2.0)
    re = where((z.re > ONE_IS_SMALL) | z.re.equals(-inf), y.re - 1.0, re)
    return ComplexTerm(where(z.im.equals(0.0), z.re.call("expm1"), re), y.im)


def sigmoid(z: ComplexTerm) -> ComplexTerm:
    """1 / (1 + e^−z), by e^−|re| in both half-planes.

    With e = e^−|re|, the sum 1 + e cos im has two positive terms: 1 − e and 2 e cos²(im / 2).  For re < 0 the real part
    is e (e + cos im) / |1 + e^z|²; its error is up to 6 ulp of the larger term there, elsewhere of the part.
    """
    x, y = z
    below = x < 0.0
    size = -abs(x)
    e = size.call("exp")
    half_cos, cos, sin = (y * 0.5).call("cos"), y.call("cos"), y.call("sin")
    u = fma(e * 2.0 * half_cos, half_cos, -size.call("expm1"))
    v = e * sin
    square = fma(u, u, v * v)
    re = where(below, e * (e + cos), u) / square
    lost = x.is_infinite() & ~y.is_finite()
    re = where(x.is_infinite(), where(below, 0.0, 1.0), re)
    im = where(lost, x.constant(0.0).with_sign_of(y), v / square)
    return ComplexTerm(re, where(y.equals(0.0), y, im))
