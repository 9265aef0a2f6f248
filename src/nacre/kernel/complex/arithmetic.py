"""Arithmetic: sums, products, quotients, the absolute value, the angle and the sign.

Products and quotients recover infinities as in C's Annex G, where both parts would be NaN.
"""

from __future__ import annotations

from math import inf, nan

from nacre.base.dtypes import float32, float64
from nacre.kernel.complex.terms import (
    BIAS,
    EXPONENT,
    FRACTION,
    ComplexTerm,
    DoubleDouble,
    RealTerm,
    choose,
    exponent_bits,
    fma,
    larger,
    power_of_two,
    product_sum,
    two_product,
    two_sum,
    where,
)

HEADROOM = 480  # the exponent of numbers whose products neither overflow nor lose their rounding errors


def add(a: ComplexTerm, b: ComplexTerm) -> ComplexTerm:
    """The sum, by parts."""
    return ComplexTerm(a.re + b.re, a.im + b.im)


def sub(a: ComplexTerm, b: ComplexTerm) -> ComplexTerm:
    """The difference, by parts."""
    return ComplexTerm(a.re - b.re, a.im - b.im)


def neg(z: ComplexTerm) -> ComplexTerm:
    """−z, by parts."""
    return ComplexTerm(-z.re, -z.im)


def conj(z: ComplexTerm) -> ComplexTerm:
    """The conjugate; a zero imaginary part changes its sign, too."""
    return ComplexTerm(z.re, -z.im)


def plain_product(a: ComplexTerm, b: ComplexTerm) -> ComplexTerm:
    """a · b: two chains of an fma, in the order (re·re, −im·im) and (re·im, im·re)."""
    return ComplexTerm(fma(-a.im, b.im, a.re * b.re), fma(a.im, b.re, a.re * b.im))


def multiply_add(a: ComplexTerm, b: ComplexTerm, c: ComplexTerm) -> ComplexTerm:
    """a · b + c: the chains of a product start from c.  Infinities are not recovered, as in sums of products."""
    re = fma(-a.im, b.im, fma(a.re, b.re, c.re))
    return ComplexTerm(re, fma(a.im, b.re, fma(a.re, b.im, c.im)))


def on_unit_square(z: ComplexTerm, condition: RealTerm) -> ComplexTerm:
    """Where the condition holds, an infinite part becomes ±1 and a finite one ±0; NaN becomes 0 everywhere."""

    def part(x: RealTerm) -> RealTerm:
        number = where(x.is_nan(), 0.0, x)
        boxed = where(x.is_infinite(), 1.0, x.constant(0.0)).call("copysign", number)
        return where(condition, boxed, number)

    return ComplexTerm(part(z.re), part(z.im))


def mul(a: ComplexTerm, b: ComplexTerm) -> ComplexTerm:
    """a · b.  An infinite operand, or an overflow next to NaN, gives an infinity (Annex G, `_Cmultd`)."""
    y = plain_product(a, b)
    a_infinite, b_infinite = a.is_infinite(), b.is_infinite()
    overflow = (a.re * b.re).is_infinite() | (a.im * b.im).is_infinite()
    overflow = overflow | (a.re * b.im).is_infinite() | (a.im * b.re).is_infinite()
    lost = y.re.is_nan() & y.im.is_nan() & (a_infinite | b_infinite | overflow)
    direction = plain_product(on_unit_square(a, a_infinite), on_unit_square(b, b_infinite))
    return choose(lost, ComplexTerm(direction.re * inf, direction.im * inf), y)


def quotient_of_float32(a: ComplexTerm, b: ComplexTerm) -> ComplexTerm:
    """a / b in float64 for numbers of float32: products are exact, and no square overflows."""
    square = fma(b.re, b.re, b.im * b.im)
    return ComplexTerm(fma(a.re, b.re, a.im * b.im) / square, fma(a.im, b.re, -(a.re * b.im)) / square)


def scaled(z: ComplexTerm, size: RealTerm) -> ComplexTerm:
    """z times 2^(1024 − e), where `size` has the biased exponent e of z's larger part, in place."""
    factor = (EXPONENT - size).bits(float64)
    return ComplexTerm(z.re * factor, z.im * factor)


def quotient_of_float64(a: ComplexTerm, b: ComplexTerm) -> ComplexTerm:
    """a / b by sums of two products with an error of 1.5 ulp, of numbers scaled to about 2^`HEADROOM`.

    The quotient is scaled in four steps, so that only the last one over- or underflows.
    """
    a_size, b_size = (exponent_bits(larger(abs(z.re), abs(z.im))) >> FRACTION for z in (a, b))

    def near(z: ComplexTerm, size: RealTerm) -> ComplexTerm:
        exponent = (BIAS + HEADROOM) - size
        half = exponent >> 1
        first, second = power_of_two(half), power_of_two(exponent - half)
        return ComplexTerm(z.re * first * second, z.im * first * second)

    c, d = near(a, a_size), near(b, b_size)
    square = fma(d.re, d.re, d.im * d.im) * 2.0 ** (-2 * HEADROOM)
    exponent = (a_size - b_size) - 2 * HEADROOM
    quarter = exponent >> 2
    step, last = power_of_two(quarter), power_of_two(exponent - quarter * 3)

    def part(numerator: RealTerm) -> RealTerm:
        return numerator / square * step * step * step * last

    return ComplexTerm(part(product_sum(c.re, d.re, c.im, d.im)), part(product_sum(c.im, d.re, -c.re, d.im)))


def div(a: ComplexTerm, b: ComplexTerm) -> ComplexTerm:
    """a / b without overflow on the way, within 4 ulp of each part (float32: half an ulp).

    Special values follow Annex G: a number divided by zero is an infinity, an infinity divided by a finite number is
    one, and a finite number divided by an infinity is zero.  An infinite numerator counts as a direction, ±1 and ±0 in
    its parts, even where the plain quotient has a number in one part.
    """
    y = (quotient_of_float32 if a.dtype is float32 else quotient_of_float64)(a.wide(), b.wide()).to(a.dtype)
    a_infinite, b_infinite = a.is_infinite(), b.is_infinite()
    huge, tiny = a_infinite & isfinite(b), b_infinite & isfinite(a)
    across = plain_product(on_unit_square(a, a_infinite), conj(on_unit_square(b, b_infinite)))
    factor = where(huge, inf, across.re.constant(0.0))
    y = choose(huge | tiny, ComplexTerm(across.re * factor, across.im * factor), y)
    infinite = b.re.constant(inf).call("copysign", b.re)
    return choose(b.is_zero(), ComplexTerm(infinite * a.re, infinite * a.im), y)


def real(z: ComplexTerm) -> RealTerm:
    """The real part."""
    return z.re


def imag(z: ComplexTerm) -> RealTerm:
    """The imaginary part."""
    return z.im


def eq(a: ComplexTerm, b: ComplexTerm) -> RealTerm:
    """Whether both parts are equal."""
    return a.re.equals(b.re) & a.im.equals(b.im)


def ne(a: ComplexTerm, b: ComplexTerm) -> RealTerm:
    """Whether a part differs, or one is NaN."""
    return a.re.call("ne", b.re) | a.im.call("ne", b.im)


def isfinite(z: ComplexTerm) -> RealTerm:
    """Whether both parts are finite."""
    return z.re.is_finite() & z.im.is_finite()


# ---- lengths


def square_in_two(x: RealTerm, y: RealTerm) -> DoubleDouble:
    """x² + y² with its rounding error, if nothing over- or underflows."""
    a, b = two_product(x, x), two_product(y, y)
    s = two_sum(a.high, b.high)
    return DoubleDouble(s.high, s.low + (a.low + b.low))


def length_in_range(x: RealTerm, y: RealTerm) -> RealTerm:
    """√(x² + y²) of float64 within 0.5001 ulp, if nothing over- or underflows: a root with a step of Newton's."""
    square = square_in_two(x, y)
    root = square.high.call("sqrt")
    step = (fma(-root, root, square.high) + square.low) / (root + root)
    return where(root.equals(0.0), root, root + step)


def length(z: ComplexTerm) -> RealTerm:
    """|z| of float64, scaled by a power of two; ∞ if a part is infinite."""
    size = exponent_bits(larger(abs(z.re), abs(z.im)))
    near = scaled(z, size)
    y = length_in_range(near.re, near.im) * 0.5 * size.bits(float64)
    return where(z.is_infinite(), inf, y)


def absolute(z: ComplexTerm) -> RealTerm:
    """√(re² + im²), rounded once up to 0.0001 ulp; ∞ if a part is infinite, even next to NaN."""
    if z.dtype is float64:
        return length(z)
    x, y = z.wide()
    return where(z.is_infinite(), inf, fma(x, x, y * y).call("sqrt")).to(z.dtype)


def angle(z: ComplexTerm) -> RealTerm:
    """The angle of z in [−π, π], by Annex F's atan2: ±π on the negative real axis, by the sign of im."""
    x, y = z.wide()
    return y.call("atan2", x).to(z.dtype)


def sign(z: ComplexTerm) -> ComplexTerm:
    """z / |z|, within 1.5 ulp of each part (float32: half an ulp).

    +0 for zeros; ±1 or ±i where only one part is infinite; NaN where both are, or where a part is NaN.
    """
    x, y = z.wide()
    size = exponent_bits(larger(abs(x), abs(y)))
    near = ComplexTerm(x, y) if z.dtype is float32 else scaled(ComplexTerm(x, y), size)
    across = length_in_range(near.re, near.im)
    boxed = on_unit_square(z, z.is_infinite()).wide()
    found = choose(z.is_infinite(), boxed, ComplexTerm(near.re / across, near.im / across))
    found = choose(z.is_zero(), ComplexTerm(x.constant(0.0), x.constant(0.0)), found)
    both = z.re.is_infinite() & z.im.is_infinite()
    unknown = both | (z.is_nan() & ~z.is_infinite())
    return ComplexTerm(where(unknown, nan, found.re), where(unknown, nan, found.im)).to(z.dtype)
