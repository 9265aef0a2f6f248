"""Square roots and their reciprocals in float64, scaled by powers of two."""

from __future__ import annotations

from math import inf, nan
from typing import NamedTuple

from nacre.base.dtypes import float64
from nacre.kernel.complex.arithmetic import length_in_range
from nacre.kernel.complex.terms import (
    BIAS,
    FRACTION,
    ComplexTerm,
    RealTerm,
    choose,
    exponent_bits,
    larger,
    where,
)

EVEN = ~(1 << FRACTION)  # the mask that makes an exponent even
LARGEST = 2047 << FRACTION


class RootParts(NamedTuple):
    """The parts of √z without signs, and the numbers that scale them."""

    large: RealTerm  # √((|re| + |z|) / 2), scaled
    small: RealTerm  # |im| / (2 large)
    length: RealTerm  # |z|, scaled
    scale: RealTerm  # the factor of z, a power of 4
    root_scale: RealTerm  # its root, the factor of the root
    unscale: RealTerm  # and that factor's reciprocal


def root_parts(z: ComplexTerm) -> RootParts:
    """The parts of √z, of z scaled by a power of 4 so that neither the length nor its square over- or underflows.

    The smaller part is not scaled, because it may be as small as numbers are.
    """
    bits = exponent_bits(larger(abs(z.re), abs(z.im))).call("maximum", 2 << FRACTION) & EVEN
    scale = (LARGEST - bits).bits(float64)
    half = bits >> 1
    root_scale = ((BIAS + 512 << FRACTION) - half).bits(float64)
    unscale = (half + (BIAS - 512 << FRACTION)).bits(float64)
    x = abs(z.re) * scale
    size = length_in_range(x, z.im * scale)
    large = ((x + size) * 0.5).call("sqrt")
    small = abs(z.im) * root_scale / (large + large)
    return RootParts(large, where(z.is_zero(), 0.0, small), size, scale, root_scale, unscale)


def plain_root(z: ComplexTerm) -> ComplexTerm:
    """√z of finite numbers, without the sign of its imaginary part."""
    root = root_parts(z)
    large = root.large * root.unscale
    right = z.re >= 0.0
    return ComplexTerm(where(right, large, root.small), where(right, root.small, large))


def sqrt(z: ComplexTerm) -> ComplexTerm:
    """√z in the right half-plane, within 2.5 ulp; the cut is the negative real axis, continuous with the sign of im.

    An infinite imaginary part gives an infinite real part, even next to NaN.
    """
    x, y = z
    root = plain_root(z)
    rest = y * 0.0
    upward = ComplexTerm(x.constant(inf), rest)
    sideways = ComplexTerm(abs(rest), x.constant(inf))
    found = choose(x.equals(inf), upward, choose(x.equals(-inf), sideways, root))
    found = choose(y.is_infinite(), ComplexTerm(x.constant(inf), abs(y)), found)
    return ComplexTerm(found.re, found.im.with_sign_of(y))


def rsqrt(z: ComplexTerm) -> ComplexTerm:
    """1 / √z within 3.5 ulp, as the conjugate of √z over |z|; +∞ and NaN for zeros, zeros for infinities."""
    root = root_parts(z)
    large = root.large / root.length * root.root_scale
    small = root.small / root.length * root.scale
    right = z.re >= 0.0
    found = ComplexTerm(where(right, large, small), where(right, small, large))
    zero = z.re.constant(0.0)
    found = choose(z.is_infinite(), ComplexTerm(zero, zero), found)
    found = choose(z.is_zero(), ComplexTerm(z.re.constant(inf), z.re.constant(nan)), found)
    return ComplexTerm(found.re, found.im.with_sign_of(-z.im))
