"""Powers: e^(w log z), and products for small whole exponents."""

from __future__ import annotations

from math import inf, nan
from typing import NamedTuple

from nacre.base.dtypes import float32, int64
from nacre.kernel.complex.arithmetic import on_unit_square, square_in_two
from nacre.kernel.complex.double_double import (
    DoubleDouble,
    angle_in_two,
    choice,
    exact,
    log_in_two,
    plus,
    scaled_by,
    times,
)
from nacre.kernel.complex.exponential import exp, exp_of, turn
from nacre.kernel.complex.logarithm import LARGE, SHIFT, SMALL, log_natural
from nacre.kernel.complex.terms import ComplexTerm, RealTerm, choose, fma, larger, product_sum, where

BITS = 5  # of whole exponents for which powers are products
HUGE, ROOM = 2.0**1000, 2.0**12  # exponents above are divided, so that products with logarithms do not overflow
MOST = 2000.0  # the size of a power's logarithm beyond which it is 0 or ∞
MODERATE = 300.0  # the logarithm up to which powers are products


def compensated_product(a: ComplexTerm, b: ComplexTerm) -> ComplexTerm:
    """a · b within 1.5 ulp of each part."""
    return ComplexTerm(product_sum(a.re, b.re, -a.im, b.im), product_sum(a.re, b.im, a.im, b.re))


def whole_power(z: ComplexTerm, n: RealTerm) -> ComplexTerm:
    """z^n for whole n below 2^`BITS` in size, by squares and products; 1 / z^−n below 0."""
    size = abs(n).call("minimum", 2.0**BITS - 1.0)
    bits = where(size.is_nan(), 0.0, size).to(int64)
    found = ComplexTerm(z.re.constant(1.0), z.re.constant(0.0))
    begun = None
    for k in range(BITS):
        bit = ((bits >> k) & 1).equals(1)
        if begun is None:
            found, begun = choose(bit, z, found), bit
        else:
            z = compensated_product(z, z)
            found = choose(bit, choose(begun, compensated_product(found, z), z), found)
            begun = begun | bit
    square = fma(found.re, found.re, found.im * found.im)
    return choose(n < 0.0, ComplexTerm(found.re / square, -found.im / square), found)


class PowerByLogarithm(NamedTuple):
    """A power, and the logarithm of its length."""

    value: ComplexTerm
    log: RealTerm


def narrow_power(z: ComplexTerm, w: ComplexTerm) -> PowerByLogarithm:
    """z^w for parts that are rounded to float32; the error of the angle is about 2^-52 |w log z|."""
    size, angle = log_natural(z)
    re = product_sum(w.re, size, -w.im, angle)
    im = product_sum(w.re, angle, w.im, size)
    by_real, by_imaginary = w.im.equals(0.0), w.re.equals(0.0)
    re = where(by_real, w.re * size, where(by_imaginary, -w.im * angle, re))
    im = where(by_real, w.re * angle, where(by_imaginary, w.im * size, im))
    return PowerByLogarithm(exp(ComplexTerm(re, im)), re)


def log_in_parts(z: ComplexTerm) -> tuple[DoubleDouble, DoubleDouble]:
    """log |z| and the angle, in two parts each; an infinity has the angle of its direction."""
    size = larger(abs(z.re), abs(z.im))
    large, small = size > LARGE, size < SMALL
    scale = where(large, 2.0**-SHIFT, where(small, 2.0**SHIFT, 1.0))
    doublings = where(large, 2.0 * SHIFT, where(small, -2.0 * SHIFT, 0.0))
    log = scaled_by(log_in_two(square_in_two(z.re * scale, z.im * scale), doublings), 0.5)
    infinite = z.is_infinite()
    log = choice(infinite, exact(size.constant(inf)), log)
    return log, angle_in_two(on_unit_square(z, infinite))


def wide_power(z: ComplexTerm, w: ComplexTerm) -> PowerByLogarithm:
    """z^w with a logarithm in two parts: e^(p + q) = e^p (1 + q) for the small part q of the real part of w log z.

    The error of the angle is about that of log z, 2^-64 of its size, times |w|: above 2^64, the angle is
    any, and the length is right.  An angle that overflows counts as 0.
    """
    size, angle = log_in_parts(z)
    by_real, by_imaginary = w.im.equals(0.0), w.re.equals(0.0)

    def part(a: DoubleDouble, b: DoubleDouble) -> DoubleDouble:
        found = choice(by_real, a, choice(by_imaginary, b, plus(a, b)))
        return DoubleDouble(found.high, where(found.low.is_finite(), found.low, 0.0))

    huge = larger(abs(w.re), abs(w.im)) > HUGE
    down, up = where(huge, 1.0 / ROOM, 1.0), where(huge, ROOM, 1.0)
    u, v = exact(w.re * down), exact(w.im * down)
    re = part(product_of(u, size), product_of(scaled_by(v, -1.0), angle))
    im = part(product_of(u, angle), product_of(v, size))
    re, im = scaled_by(re, up), scaled_by(im, up)
    unknown = z.is_nan()
    beyond = im.high.is_infinite() & w.re.is_finite() & w.im.is_finite() & ~z.is_infinite()
    angle = choice(beyond, exact(im.high.constant(0.0)), im)
    angle = DoubleDouble(where(unknown, nan, angle.high), angle.low)
    stretch = where(abs(re.high) < MOST, re.low, 0.0)
    log = where(unknown & ~z.is_infinite(), nan, re.high)
    return PowerByLogarithm(exp_of(log, angle.high, turn(angle, stretch)), re.high)


def product_of(a: DoubleDouble, b: DoubleDouble) -> DoubleDouble:
    """a · b; an overflow leaves the second part unknown, not the first."""
    p = times(a, b)
    return DoubleDouble(where(p.high.is_nan(), a.high * b.high, p.high), p.low)


def power(z: ComplexTerm, w: ComplexTerm) -> ComplexTerm:
    """z^w = e^(w log z), and products for whole real w up to 31 in size.

    An exponent of 0 gives 1 for every z.  Zero gives 0 if the real part of w is above 0, and NaN otherwise, as in
    NumPy.  A zero part of w counts as exact, so that ∞² is ∞.
    """
    narrow = z.dtype is float32
    zero = z.re.constant(0.0)
    found = (narrow_power if narrow else wide_power)(z.wide(), w.wide())
    whole = w.im.equals(0.0) & w.re.call("trunc").equals(w.re) & (abs(w.re) < 2.0**BITS)
    moderate = (abs(found.log) < MODERATE) & ~z.is_infinite()
    y = choose(whole & moderate, whole_power(z.wide(), w.wide().re), found.value).to(z.dtype)
    lost = where(w.re > 0.0, zero, nan)
    y = choose(z.is_zero(), ComplexTerm(lost, lost), y)
    return choose(w.is_zero(), ComplexTerm(z.re.constant(1.0), zero), y)
