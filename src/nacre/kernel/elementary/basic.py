"""Operations whose edge cases differ between machines, defined once: signs, extrema, integers, shifts."""

from __future__ import annotations

from math import copysign, inf

from nacre.base.dtypes import DType, float64, int32
from nacre.kernel.elementary.value import Real, Truth, Whole, at_least, at_most, where

# ---- floating point


def extreme(a: Real, b: Real, *, smaller: bool) -> Real | None:
    """The larger (or smaller) number, NaN if one is NaN; None if no single instruction gives it for other numbers."""
    at_once = a.emitter.extreme(a.v, b.v, a.dtype, smaller=smaller)
    if at_once is None:
        return None
    return where(a.compare("uno", b), a + b, Real(a.emitter, at_once, a.dtype))


def minimum(a: Real, b: Real) -> Real:
    """IEEE 754-2019 minimum: NaN if an operand is NaN, and −0 is less than +0."""
    for x, bound in ((a, b.emitter.known(b.v)), (b, a.emitter.known(a.v))):
        if bound is not None and (bound or copysign(1.0, bound) > 0.0):
            return at_most(x, bound)
    beyond = extreme(a, b, smaller=True)
    if beyond is not None:
        return beyond
    zero = (a.as_whole() | b.as_whole()).as_real(a.dtype)
    return where(a.is_nan(), a, where(a.equals(b), zero, where(a < b, a, b)))


def maximum(a: Real, b: Real) -> Real:
    """IEEE 754-2019 maximum: NaN if an operand is NaN, and +0 is greater than −0."""
    for x, bound in ((a, b.emitter.known(b.v)), (b, a.emitter.known(a.v))):
        if bound is not None:  # a sum with +0 is never −0
            return at_least(x if bound or copysign(1.0, bound) < 0.0 else x + 0.0, bound)
    beyond = extreme(a, b, smaller=False)
    if beyond is not None:
        return beyond
    zero = (a.as_whole() & b.as_whole()).as_real(a.dtype)
    return where(a.is_nan(), a, where(a.equals(b), zero, where(a > b, a, b)))


def sign(x: Real) -> Real:
    """−1 or 1; +0 for zeros, NaN for NaN."""
    return where(x > 0.0, 1.0, where(x < 0.0, -1.0, x + 0.0))


def sqrt(x: Real) -> Real:
    """The square root, correctly rounded; NaN below zero."""
    return x.unary("sqrt")


def rsqrt(x: Real) -> Real:
    """1 / √x, both correctly rounded."""
    return 1.0 / x.unary("sqrt")


def is_inf(x: Real) -> Truth:
    """Whether x is an infinity of either sign."""
    return abs(x).equals(inf)


def is_finite(x: Real) -> Truth:
    """Whether x is neither an infinity nor NaN."""
    return abs(x) < inf


# ---- integers


def integer_minimum(a: Whole, b: Whole, dtype: DType) -> Whole:
    """The lesser integer, compared in the signedness of the dtype."""
    return where(a.compare("slt" if dtype.is_signed else "ult", b), a, b)


def integer_maximum(a: Whole, b: Whole, dtype: DType) -> Whole:
    """The greater integer, compared in the signedness of the dtype."""
    return where(a.compare("sgt" if dtype.is_signed else "ugt", b), a, b)


def integer_negative(x: Whole, dtype: DType) -> Whole:
    """-x, wrapping."""
    return x.constant(0) - x


def integer_abs(x: Whole, dtype: DType) -> Whole:
    """|x|; the least signed integer is unchanged."""
    return where(x < 0, integer_negative(x, dtype), x) if dtype.is_signed else x


def integer_sign(x: Whole, dtype: DType) -> Whole:
    """-1, 0 or 1; only 0 or 1 for unsigned dtypes."""
    one = x.constant(1)
    if not dtype.is_signed:
        return where(x.equals(0), x, one)
    return where(x > 0, one, x >> (dtype.bits - 1))


def truncated_quotient(a: Whole, b: Whole, dtype: DType) -> Whole:
    """a / b toward zero for b ≠ 0 and no overflow; up to 32 bits by float64, exact there."""
    sign = "s" if dtype.is_signed else "u"
    if dtype.bits > 32:
        return a.with_other(f"{sign}div", b)
    x, y = (v.to_real(f"{sign}itofp", float64) for v in (a, b))
    return (x / y).to_whole(f"fpto{sign}i", int32).cast("trunc", dtype)


def guarded_division(a: Whole, b: Whole, dtype: DType) -> tuple[Truth, Whole, Whole]:
    """Whether b is 0, a safe divisor, and the quotient by it."""
    zero = b.equals(0)
    unsafe = zero
    if dtype.is_signed:
        unsafe = zero | (a.equals(-(1 << dtype.bits - 1)) & b.equals(-1))
    divisor = where(unsafe, b.constant(1), b)
    return zero, divisor, truncated_quotient(a, divisor, dtype)


def integer_divide(a: Whole, b: Whole, dtype: DType) -> Whole:
    """The quotient toward zero; x / 0 is 0, and the least integer / −1 wraps to itself."""
    zero, _, quotient = guarded_division(a, b, dtype)
    return where(zero, a.constant(0), quotient)


def integer_remainder(a: Whole, b: Whole, dtype: DType) -> Whole:
    """The remainder with the sign of a; x % 0 is 0, and the least integer % −1 is 0."""
    zero, divisor, quotient = guarded_division(a, b, dtype)
    return where(zero, a.constant(0), a - quotient * divisor)


def shift_left(a: Whole, amount: Whole, dtype: DType) -> Whole:
    """A shift by an unsigned amount; 0 if the amount is at least the width."""
    shifted = a << (amount & (dtype.bits - 1))
    return where(amount.compare("uge", dtype.bits), a.constant(0), shifted)


def shift_right(a: Whole, amount: Whole, dtype: DType) -> Whole:
    """A shift by an unsigned amount; 0, or −1 for negative numbers, if the amount is at least the width."""
    last = dtype.bits - 1
    over = amount.compare("uge", dtype.bits)
    if dtype.is_signed:
        return a >> where(over, amount.constant(last), amount)
    return where(over, a.constant(0), a.lshr(amount & last))


# ---- sign bits, for every floating-point type


def change_sign_bit(op: str, args: list[Whole], bits: int) -> Whole:
    """neg, abs or copysign on bit patterns.

    copysign flips the sign bit where signs differ: LLVM 22 fails on x86 with masks of a scalar bfloat's sign.
    """
    x, *other = args
    mask = 1 << bits - 1
    if op == "neg":
        return x ^ mask
    return where((x ^ other[0]) < 0, x ^ mask, x) if other else x & (mask - 1)
