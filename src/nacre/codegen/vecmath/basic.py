"""Operations whose edges hardware leaves open, defined once: signs, extrema, integers, shifts."""

from __future__ import annotations

from math import copysign, inf

from nacre.base.dtypes import DType
from nacre.codegen.vecmath.machine import larger
from nacre.codegen.vecmath.value import Real, Truth, Whole, at_least, at_most, known, where
from nacre.native.llvm_types import lanes_of, vec

# ---- floating point


def minimum(a: Real, b: Real) -> Real:
    """IEEE 754-2019 minimum: NaN wins, −0 is less than +0."""
    for x, bound in ((a, known(b)), (b, known(a))):
        if bound is not None and (bound or copysign(1.0, bound) > 0.0):
            return at_most(x, bound)
    beyond = larger(a, b, smaller=True)
    if beyond is not None:
        return where(a.compare("uno", b), a + b, beyond)
    zero = (a.as_whole() | b.as_whole()).as_real(a.format.scalar)
    return where(a.is_nan(), a, where(a.equals(b), zero, where(a < b, a, b)))


def maximum(a: Real, b: Real) -> Real:
    """IEEE 754-2019 maximum: NaN wins, +0 is greater than −0."""
    for x, bound in ((a, known(b)), (b, known(a))):
        if bound is not None:  # a sum with +0 is never −0
            return at_least(x if bound or copysign(1.0, bound) < 0.0 else x + 0.0, bound)
    beyond = larger(a, b)
    if beyond is not None:
        return where(a.compare("uno", b), a + b, beyond)
    zero = (a.as_whole() & b.as_whole()).as_real(a.format.scalar)
    return where(a.is_nan(), a, where(a.equals(b), zero, where(a > b, a, b)))


def sign(x: Real) -> Real:
    """−1 or 1; +0 for zeros, NaN as it is."""
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
    return Whole(x.b, x.b.sub(x.like(0), x.v))


def integer_abs(x: Whole, dtype: DType) -> Whole:
    """|x|; the least signed integer stays itself."""
    return where(x < 0, integer_negative(x, dtype), x) if dtype.is_signed else x


def integer_sign(x: Whole, dtype: DType) -> Whole:
    """-1, 0 or 1; only 0 or 1 for unsigned dtypes."""
    one = Whole(x.b, x.like(1))
    if not dtype.is_signed:
        return where(x.equals(0), x, one)
    return where(x > 0, one, x >> (dtype.bits - 1))


def truncated_quotient(a: Whole, b: Whole, dtype: DType) -> Whole:
    """a / b toward zero for b ≠ 0 and no overflow; up to 32 bits by float64, exact there."""
    backend, kind = a.b, "s" if dtype.is_signed else "u"
    if dtype.bits > 32:
        return Whole(backend, backend.binary(f"{kind}div", a.v, b.v))
    x, y = (backend.cast(f"{kind}itofp", v, "double") for v in (a.v, b.v))
    quotient = backend.cast(f"fpto{kind}i", backend.fdiv(x, y), "i32")
    return Whole(backend, backend.cast("trunc", quotient, dtype.llvm))


def guarded_division(a: Whole, b: Whole, dtype: DType) -> tuple[Truth, Whole, Whole]:
    """Whether b is 0, a divisor that is safe, and the quotient by it."""
    zero = b.equals(0)
    unsafe = zero
    if dtype.is_signed:
        unsafe = zero | (a.equals(-(1 << dtype.bits - 1)) & b.equals(-1))
    divisor = where(unsafe, Whole(b.b, b.like(1)), b)
    return zero, divisor, truncated_quotient(a, divisor, dtype)


def integer_divide(a: Whole, b: Whole, dtype: DType) -> Whole:
    """Toward zero; x / 0 is 0, and the least integer over −1 wraps to itself."""
    zero, _, quotient = guarded_division(a, b, dtype)
    return where(zero, Whole(a.b, a.like(0)), quotient)


def integer_remainder(a: Whole, b: Whole, dtype: DType) -> Whole:
    """With the sign of a; x % 0 is 0, and the least integer over −1 leaves 0."""
    zero, divisor, quotient = guarded_division(a, b, dtype)
    return where(zero, Whole(a.b, a.like(0)), a - quotient * divisor)


def shift_left(a: Whole, amount: Whole, dtype: DType) -> Whole:
    """By an amount read as unsigned; 0 where it reaches the width."""
    shifted = a << (amount & (dtype.bits - 1))
    return where(amount.compare("uge", dtype.bits), Whole(a.b, a.like(0)), shifted)


def shift_right(a: Whole, amount: Whole, dtype: DType) -> Whole:
    """By an amount read as unsigned; 0, or −1 for negative numbers, where it reaches the width."""
    last = dtype.bits - 1
    over = amount.compare("uge", dtype.bits)
    if dtype.is_signed:
        return a >> where(over, Whole(a.b, amount.like(last)), amount)
    return where(over, Whole(a.b, a.like(0)), a.lshr(amount & last))


# ---- sign bits, for every floating-point type


def change_sign_bit(op: str, args: list[Whole], bits: int) -> Whole:
    """neg, abs or copysign on bit patterns.

    copysign flips where signs differ: LLVM 22 fails on x86 with masks of a scalar bfloat's sign.
    """
    x, *other = args
    mask = 1 << bits - 1
    if op == "neg":
        return x ^ mask
    return where((x ^ other[0]) < 0, x ^ mask, x) if other else x & (mask - 1)


def bits_type(ty: str, bits: int) -> str:
    """The integer type as wide as a floating-point type."""
    return vec(f"i{bits}", lanes_of(ty))
