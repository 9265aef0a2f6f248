"""Hyperbolic functions in float64, and trigonometric ones as the same functions of i z.

Special values follow C's Annex G.  Parts are products, or quotients of products, so no terms cancel.
"""

from __future__ import annotations

from math import nan

from nacre.kernel.complex.exponential import Growth, growth
from nacre.kernel.complex.terms import ComplexTerm, RealTerm, fma, where

SATURATES = 22.0  # tanh of a real number is 1 above


def sinh_product(x: RealTerm, g: Growth, factor: RealTerm) -> RealTerm:
    """sinh(x) times a factor of at most 1, where g is the growth of |x|."""
    return factor * g.first * g.rest.call("copysign", x).call("sinh") * g.second


def cosh_product(g: Growth, factor: RealTerm) -> RealTerm:
    """cosh(x) times a factor of at most 1, where g is the growth of |x|."""
    return factor * g.first * g.rest.call("cosh") * g.second


def sinh(z: ComplexTerm) -> ComplexTerm:
    """sinh re cos im + i cosh re sin im, within 4 ulp."""
    x, y = z
    g = growth(abs(x))
    re, im = sinh_product(x, g, y.call("cos")), cosh_product(g, y.call("sin"))
    simple = ~y.is_finite() & (x.equals(0.0) | x.is_infinite())
    return ComplexTerm(where(simple, x, re), where(y.equals(0.0), y, im))


def cosh(z: ComplexTerm) -> ComplexTerm:
    """cosh re cos im + i sinh re sin im, within 4 ulp."""
    x, y = z
    g = growth(abs(x))
    re, im = cosh_product(g, y.call("cos")), sinh_product(x, g, y.call("sin"))
    lost = ~y.is_finite()
    re = where(lost & x.is_infinite(), abs(x), re)
    im = where(y.equals(0.0) & ~x.equals(0.0), where(x < 0.0, -y, y), im)  # not ∞ · 0
    return ComplexTerm(re, where(lost & x.equals(0.0), where(y < 0.0, -x, x), im))


def tanh(z: ComplexTerm) -> ComplexTerm:
    """(½ sinh 2re + i sin im cos im) / (sinh² re + cos² im), within 6 ulp.

    ±1 + i 0 at infinities; sin im cos im / sinh² re far from the imaginary axis, without overflow.
    """
    x, y = z
    far = abs(x) > SATURATES
    sinh_x, cos_y = x.call("sinh"), y.call("cos")
    square = fma(sinh_x, sinh_x, cos_y * cos_y)
    one = x.constant(1.0).with_sign_of(x)
    re = where(far, one, (x + x).call("sinh") * 0.5 / square)
    half = y.call("sin") * cos_y
    im = where(far, half / abs(sinh_x) / abs(sinh_x), half / square)
    lost, infinite = ~y.is_finite(), x.is_infinite()
    re = where(lost, where(infinite, one, where(x.equals(0.0), x, nan)), re)
    im = where(lost & infinite, x.constant(0.0).with_sign_of(y), im)
    return ComplexTerm(re, where(y.equals(0.0), y, im))


def sin(z: ComplexTerm) -> ComplexTerm:
    """sin re cosh im + i cos re sinh im, within 4 ulp."""
    return sinh(z.swapped()).swapped()


def cos(z: ComplexTerm) -> ComplexTerm:
    """cos re cosh im − i sin re sinh im, within 4 ulp."""
    return cosh(ComplexTerm(-z.im, z.re))


def tan(z: ComplexTerm) -> ComplexTerm:
    """(sin re cos re + i ½ sinh 2im) / (sinh² im + cos² re), within 6 ulp."""
    return tanh(z.swapped()).swapped()
