"""Logarithms and powers in float64.  Special values of logarithms follow C's Annex G."""

from __future__ import annotations

from math import inf, log, log10, nan
from typing import NamedTuple

from nacre.base.dtypes import int64
from nacre.kernel.complex.exponential import exp
from nacre.kernel.complex.terms import (
    ComplexTerm,
    RealTerm,
    choose,
    fma,
    larger,
    product_sum,
    two_product,
    two_sum,
    where,
)

LARGE, SMALL, SHIFT = 2.0**500, 2.0**-400, 600  # squares of numbers between do not over- or underflow
NEAR = 0.5, 2.0  # squares of lengths, between which the logarithm is of their distance to 1
BITS = 5  # of exponents that are whole numbers, for which powers are products
MODERATE = 300.0  # the logarithm up to which powers are products


class Base(NamedTuple):
    """A base of logarithms: the function of the kernel IR, and log(e), log(2) to the base."""

    function: str
    of_e: float
    of_2: float


NATURAL = Base("log", 1.0, log(2.0))
BINARY = Base("log2", float.fromhex("0x1.71547652b82fep+0"), 1.0)
DECIMAL = Base("log10", float.fromhex("0x1.bcb7b1526e50ep-2"), log10(2.0))


def square_less_one(x: RealTerm, y: RealTerm) -> RealTerm:
    """x² + y² − 1 within an ulp, for |x| ≥ |y| and a result between −½ and 1: the sum of squares in four parts."""
    a, b = two_product(x, x), two_product(y, y)
    s = two_sum(a.high, -1.0)
    t = two_sum(s.high, b.high)
    rest = two_sum(a.low, b.low)
    return t.high + (t.low + s.low + rest.high + rest.low)


def log_of_length(x: RealTerm, y: RealTerm, less_one: RealTerm, base: Base) -> RealTerm:
    """log √(x² + y²), where `less_one` is x² + y² − 1, accurate near 0."""
    size = larger(abs(x), abs(y))
    large, small = size > LARGE, size < SMALL
    scale = where(large, 2.0**-SHIFT, where(small, x.constant(2.0**SHIFT), 1.0))
    shift = where(large, SHIFT * base.of_2, where(small, x.constant(-SHIFT * base.of_2), 0.0))
    x, y = x * scale, y * scale
    square = fma(x, x, y * y)
    far = fma(square.call(base.function), 0.5, shift)
    near = less_one.call("log1p") * (0.5 * base.of_e)
    far = where(x.is_infinite() | y.is_infinite(), inf, far)
    return where((less_one >= NEAR[0] - 1.0) & (less_one <= NEAR[1] - 1.0), near, far)


def log_to_base(z: ComplexTerm, base: Base) -> ComplexTerm:
    """The logarithm: that of the length, and the angle over the base's natural logarithm."""
    x, y = abs(z.re), abs(z.im)
    swap = x < y
    less_one = square_less_one(where(swap, y, x), where(swap, x, y))
    angle = z.im.call("atan2", z.re)
    re = log_of_length(z.re, z.im, less_one, base)
    return ComplexTerm(re, angle if base is NATURAL else angle * base.of_e)


def log_natural(z: ComplexTerm) -> ComplexTerm:
    """log |z| + i angle z, within 2.5 ulp, also where |z| is next to 1."""
    return log_to_base(z, NATURAL)


def log_binary(z: ComplexTerm) -> ComplexTerm:
    """log z / log 2, within 3 ulp; exact for powers of two."""
    return log_to_base(z, BINARY)


def log_decimal(z: ComplexTerm) -> ComplexTerm:
    """log z / log 10, within 3 ulp."""
    return log_to_base(z, DECIMAL)


def log1p(z: ComplexTerm) -> ComplexTerm:
    """log(1 + z), within 2.5 ulp: ½ log1p(re (re + 2) + im²) near 0, with products in two parts."""
    x, y = z
    t = two_sum(x, 2.0)
    p, q = two_product(x, t.high), two_product(y, y)
    s = two_sum(p.high, q.high)
    less_one = s.high + (s.low + (fma(x, t.low, p.low) + q.low))
    above = x + 1.0
    re = log_of_length(above, y, less_one, NATURAL)
    return ComplexTerm(where(z.is_zero(), x, re), y.call("atan2", above))


# ---- powers


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


def power(z: ComplexTerm, w: ComplexTerm) -> ComplexTerm:
    """z^w = e^(w log z), and products for whole real w up to 31 in size.

    An exponent of 0 gives 1 for every z.  Zero gives 0 if the real part of w is above 0, and NaN otherwise, as in
    NumPy.  A zero part of w counts as exact, so that ∞² is ∞.  In float64, the error of e^(w log z) is about
    2 |w log z| ulp.
    """
    logarithm = log_natural(z)
    size, angle = logarithm
    re = product_sum(w.re, size, -w.im, angle)
    im = product_sum(w.re, angle, w.im, size)
    by_real, by_imaginary = w.im.equals(0.0), w.re.equals(0.0)
    re = where(by_real, w.re * size, where(by_imaginary, -w.im * angle, re))
    im = where(by_real, w.re * angle, where(by_imaginary, w.im * size, im))
    y = exp(ComplexTerm(re, im))
    whole = by_real & w.re.call("trunc").equals(w.re) & (abs(w.re) < 2.0**BITS) & (abs(re) < MODERATE)
    y = choose(whole, whole_power(z, w.re), y)
    zero = z.re.constant(0.0)
    lost = where(w.re > 0.0, zero, nan)
    y = choose(z.is_zero(), ComplexTerm(lost, lost), y)
    return choose(w.is_zero(), ComplexTerm(z.re.constant(1.0), zero), y)
