"""Logarithms in float64: log, log2, log10 and log1p.  Special values follow C's Annex G."""

from __future__ import annotations

from math import inf, log, log10
from typing import NamedTuple

from nacre.kernel.complex.terms import (
    ComplexTerm,
    RealTerm,
    fma,
    larger,
    two_product,
    two_sum,
    where,
)

LARGE, SMALL, SHIFT = 2.0**500, 2.0**-400, 600  # squares of numbers between do not over- or underflow
NEAR = 0.5, 2.0  # squares of lengths, between which the logarithm is of their distance to 1


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
    scale = where(large, 2.0**-SHIFT, where(small, 2.0**SHIFT, 1.0))
    shift = where(large, SHIFT * base.of_2, where(small, -SHIFT * base.of_2, 0.0))
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
