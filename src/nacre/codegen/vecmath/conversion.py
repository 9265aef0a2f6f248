"""Conversions between element types, each rounded once, ties to even, and the same everywhere.

Floating point to integers goes toward zero and saturates, NaN gives 0; integers to integers wrap;
anything but zero is true.  A narrowing in two steps rounds to odd in the first, so that the second
rounds right.
"""

from __future__ import annotations

from nacre.base.dtypes import DType, bfloat16, float16
from nacre.codegen.vecmath.value import (
    Backend,
    Real,
    Value,
    Whole,
    two_sum,
    where,
)
from nacre.native.llvm_types import lanes_of, vec


def widen(b: Backend, x: Value, dtype: DType) -> Real:
    """A float16 or bfloat16 as a float32, exactly; others as they are."""
    if dtype is bfloat16:
        bits = Whole(b, b.bitcast(x, vec("i16", lanes_of(x.ty))))
        return (bits.cast("zext", "i32") << 16).as_real("float")
    return Real(b, b.cast("fpext", x, "float") if dtype is float16 else x)


def narrow(x: Real, dtype: DType) -> Value:
    """A float32 rounded to float16 or bfloat16; others as they are."""
    b = x.b
    if dtype is bfloat16:
        bits = x.as_whole()
        rounded = bits + ((bits.lshr(16) & 1) + 0x7FFF)
        high = where(x.is_nan(), bits | 0x400000, rounded).lshr(16).cast("trunc", "i16")
        return b.bitcast(high.v, vec("bfloat", lanes_of(x.v.ty)))
    return b.cast("fptrunc", x.v, "half") if dtype is float16 else x.v


def to_odd_float(x: Real) -> Real:
    """A float64 as a float32, rounded to odd: if inexact, to the neighbour with an odd last bit."""
    y = x.cast("fptrunc", "float")
    back = y.cast("fpext", "double")
    bits = y.as_whole()
    neighbour = where(abs(back) > abs(x), bits - 1, bits + 1)
    inexact = (back < x) | (back > x)
    return where(inexact & (bits & 1).equals(0), neighbour, bits).as_real("float")


def sum_to_odd(a: Real, b: Real) -> Real:
    """a + b rounded to odd."""
    s, e = two_sum(a, b)
    bits = s.as_whole()
    neighbour = where((s > 0.0) ^ (e > 0.0), bits - 1, bits + 1)
    inexact = (e > 0.0) | (e < 0.0)
    return where(inexact & (bits & 1).equals(0), neighbour, bits).as_real(s.format.scalar)


def fma_of_halves(b: Backend, args: list[Value], dtype: DType) -> Value:
    """x · y + z of 16-bit numbers rounded once: the product is exact in float64."""
    x, y, z = (widen(b, a, dtype).cast("fpext", "double") for a in args)
    return narrow(to_odd_float(sum_to_odd(x * y, z)), dtype)


def integer_to_double(x: Whole, dtype: DType, to_odd: bool) -> Real:
    """An integer as a float64; one of 64 bits is first cut to 53 bits, to odd, if asked for."""
    if to_odd and dtype.bits == 64:
        kept = x & -2048
        cut = where((x & 2047).equals(0), kept, kept | 2048)
        small = ((x + (1 << 52)).lshr(53)).equals(0)
        x = where(small, x, cut)
    return Real(x.b, x.b.cast("sitofp" if dtype.is_signed else "uitofp", x.v, "double"))


def integer_to_float(x: Whole, source: DType, target: DType) -> Value:
    """The integer rounded once to the target format."""
    if target.bits >= 32:
        return x.b.cast("sitofp" if source.is_signed else "uitofp", x.v, target.llvm)
    return narrow(to_odd_float(integer_to_double(x, source, to_odd=True)), target)


def float_to_integer(x: Real, target: DType) -> Value:
    """x truncated towards zero, saturated at the target's range; NaN gives 0."""
    b, ty = x.b, vec(target.llvm, lanes_of(x.v.ty))
    if target.is_signed and target.bits == 64:
        return _to_signed_64(x).v
    name = "fptosi.sat" if target.is_signed else "fptoui.sat"
    return b.intrinsic(name, ty, [x.v], overload=[ty, x.v.ty])


def _to_signed_64(x: Real) -> Whole:
    """The same for int64: LLVM's saturating conversion goes number by number, the plain one takes vectors."""
    least, end = -(2.0**63), 2.0**63
    whole = Whole(x.b, x.b.cast("fptosi", where((x >= least) & (x < end), x, 0.0).v, "i64"))
    return where(x >= end, (1 << 63) - 1, where(x < least, -(1 << 63), whole))


def float_to_float(x: Value, b: Backend, source: DType, target: DType) -> Value:
    """The float rounded once to the target format."""
    real = widen(b, x, source)
    if source.bits <= 32:
        return narrow(real, target) if target.bits < 64 else b.cast("fpext", real.v, "double")
    if target.bits == 32:
        return b.cast("fptrunc", x, "float")
    return narrow(to_odd_float(real), target)


def from_bool(b: Backend, x: Value, target: DType) -> Value:
    """1 or 0 of the target dtype."""
    if target.is_integer:
        return b.cast("zext", x, target.llvm)
    ty = vec(target.llvm, lanes_of(x.ty))
    return b.select(x, b.const(ty, 1.0), b.const(ty, 0.0))


def convert(b: Backend, x: Value, source: DType, target: DType) -> Value:
    """x of one dtype in another; a bool is an i1 here, as it is in registers."""
    if source is target:
        return x
    if source.is_bool:
        return from_bool(b, x, target)
    if source.is_float:
        if target.is_bool:
            real = widen(b, x, source)
            return real.compare("une", 0.0).v
        if target.is_integer:
            return float_to_integer(widen(b, x, source), target)
        return float_to_float(x, b, source, target)
    whole = Whole(b, x)
    if target.is_bool:
        return (~whole.equals(0)).v
    if target.is_float:
        return integer_to_float(whole, source, target)
    if target.bits == source.bits:
        return x
    grows = "sext" if source.is_signed else "zext"
    return b.cast(grows if target.bits > source.bits else "trunc", x, target.llvm)
