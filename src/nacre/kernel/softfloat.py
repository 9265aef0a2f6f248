# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false, reportUnknownMemberType=false
"""Bit-exact arithmetic on NumPy arrays: fused multiply-add, bfloat16, minimum and maximum."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
F64 = np.float64

SPLIT = F64(2.0**27 + 1)  # Veltkamp's constant: halves a significand of 53 bits
SAFE_LOW, SAFE_HIGH = 2.0**-900, 2.0**900  # the range in which no intermediate of `fma` under- or overflows


def two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """a + b and its rounding error, exactly (Knuth)."""
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


def two_product(a: Array, b: Array) -> tuple[Array, Array]:
    """a · b and its rounding error, exactly (Dekker), if nothing over- or underflows."""
    p = a * b
    ta, tb = SPLIT * a, SPLIT * b
    ah, bh = ta - (ta - a), tb - (tb - b)
    al, bl = a - ah, b - bh
    return p, ((ah * bh - p) + ah * bl + al * bh) + al * bl


def add_to_odd(a: Array, b: Array) -> Array:
    """a + b in float64 rounded to odd: if inexact, to the neighbour whose last bit is set."""
    s, e = two_sum(a, b)
    bits = s.view(np.int64)
    away = (s > 0) == (e > 0)  # the exact sum is farther from zero than s
    neighbour = np.where(away, bits + 1, bits - 1)
    odd = np.where((e != 0) & (bits & 1 == 0), neighbour, bits)
    return odd.view(F64)


def fma(a: npt.ArrayLike, b: npt.ArrayLike, c: npt.ArrayLike) -> Array:
    """a · b + c rounded once, for float32 or float64 arrays of one dtype (broadcasting)."""
    x, y, z = np.broadcast_arrays(a, b, c)
    with np.errstate(all="ignore"):
        if x.dtype == np.float32:
            return fma32(x, y, z)
        return fma64(x, y, z)


def fma32(a: Array, b: Array, c: Array) -> Array:
    """The product is exact in float64; the sum is rounded to odd there, so that the second rounding is correct."""
    product, addend = a.astype(F64) * b.astype(F64), c.astype(F64)
    plain = product + addend
    exact = np.isfinite(product) & np.isfinite(addend) & (plain != 0)
    one = F64(1)
    odd = add_to_odd(np.where(exact, product, one), np.where(exact, addend, one))
    return np.where(exact, odd, plain).astype(np.float32)


def fma64(a: Array, b: Array, c: Array) -> Array:
    """Boldo and Melquiond's algorithm for moderate exponents, integer arithmetic elsewhere."""
    finite_product = np.isfinite(a) & np.isfinite(b)
    plain = np.where(finite_product & np.isinf(c), c, a * b + c)  # a · b itself may overflow
    size_p, size_c = np.abs(a * b), np.abs(c)
    low = np.minimum(np.abs(a), np.abs(b))
    high = np.maximum(np.abs(a), np.abs(b))
    finite = finite_product & np.isfinite(c)
    trivial = ~finite | (a == 0) | (b == 0)
    safe = (size_p > SAFE_LOW) & (size_p < SAFE_HIGH) & (low > SAFE_LOW) & (high < SAFE_HIGH)
    safe &= (size_c < SAFE_HIGH) & ((size_c > SAFE_LOW) | (c == 0)) & ~trivial
    one = F64(1)
    x, y, z = (np.where(safe, v, one) for v in (a, b, c))
    ph, pl = two_product(x, y)
    uh, ul = two_sum(z, pl)
    th, tl = two_sum(ph, uh)
    result = np.where(safe, th + add_to_odd(tl, ul), plain)
    result = np.atleast_1d(result)
    rest = np.atleast_1d(~safe & ~trivial)
    if rest.any():
        flat = (np.atleast_1d(v)[rest].tolist() for v in (a, b, c))
        result[rest] = [fma_integer(*operands) for operands in zip(*flat, strict=True)]
    return result.reshape(plain.shape)


def fma_integer(a: float, b: float, c: float) -> float:
    """a · b + c for finite Python floats, by integers; a zero result has IEEE's sign."""
    (na, da), (nb, db), (nc, dc) = (v.as_integer_ratio() for v in (a, b, c))
    scale = max((da * db).bit_length(), dc.bit_length()) - 1  # denominators are powers of two
    total = (na * nb << scale - (da * db).bit_length() + 1) + (nc << scale - dc.bit_length() + 1)
    return ldexp_integer(total, -scale) if total else a * b + c


def ldexp_integer(n: int, exponent: int) -> float:
    """n · 2^exponent rounded to nearest, ties to even, with overflow to infinity."""
    sign, n = (-1.0, -n) if n < 0 else (1.0, n)
    drop = max(n.bit_length() - 53, -1074 - exponent)
    if drop > 0:
        kept, rest, half = n >> drop, n & ((1 << drop) - 1), 1 << (drop - 1)
        n, exponent = kept + (rest > half or (rest == half and kept & 1 == 1)), exponent + drop
    try:
        return math.ldexp(sign * n, exponent)
    except OverflowError:
        return sign * math.inf


def round_to_bfloat16(x: npt.ArrayLike) -> Array:
    """float32 to the nearest bfloat16, ties to even, as its 16 bits; a NaN stays a (quiet) NaN."""
    bits = np.asarray(x, np.float32).view(np.uint32)
    rounded = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)
    nan = (bits & np.uint32(0x7FFFFFFF)) > np.uint32(0x7F800000)
    return np.where(nan, bits >> np.uint32(16) | np.uint32(0x40), rounded).astype(np.uint16)


def minimum(a: npt.ArrayLike, b: npt.ArrayLike) -> Array:
    """IEEE 754-2019 minimum: NaN if an operand is NaN, and −0 is less than +0."""
    x, y = np.asarray(a), np.asarray(b)
    smaller = np.where((x < y) | ((x == y) & np.signbit(x)), x, y)
    return np.where(np.isnan(x), x, np.where(np.isnan(y), y, smaller))


def maximum(a: npt.ArrayLike, b: npt.ArrayLike) -> Array:
    """IEEE 754-2019 maximum: NaN if an operand is NaN, and +0 is greater than −0."""
    x, y = np.asarray(a), np.asarray(b)
    larger = np.where((x > y) | ((x == y) & ~np.signbit(x)), x, y)
    return np.where(np.isnan(x), x, np.where(np.isnan(y), y, larger))
