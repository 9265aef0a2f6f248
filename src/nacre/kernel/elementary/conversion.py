"""Conversions between element types, each rounded once, ties to even, with the same results on all machines.

Floating point to integers truncates toward zero and saturates, NaN gives 0; integers to integers wrap; every number
except zero is true.  A narrowing in two steps rounds to odd in the first, so that the second rounds correctly.  The
numbers of dtypes that are only stored are in `storage`.
"""

from __future__ import annotations

from nacre.base.conversion import bounds
from nacre.base.dtypes import DType, bfloat16, bool_, float16, float32, float64, int8, int16, int32, int64
from nacre.kernel.elementary import storage
from nacre.kernel.elementary.emitter import Emitter, Value, held
from nacre.kernel.elementary.value import Real, Whole, at_least, at_most, two_sum, where


def widen(emitter: Emitter, x: Value, dtype: DType) -> Real:
    """A float16 or bfloat16 as a float32, exactly; others unchanged."""
    if dtype is bfloat16:
        bits = Whole(emitter, emitter.emit("bitcast", (x,), dtype, int16), int16)
        return (bits.cast("zext", int32) << 16).as_real(float32)
    if dtype is float16:
        return Real(emitter, emitter.emit("fpext", (x,), dtype, float32), float32)
    return Real(emitter, x, dtype)


def narrow(x: Real, dtype: DType) -> Value:
    """A float32 rounded to float16 or bfloat16; others unchanged."""
    if dtype is bfloat16:
        bits = x.as_whole()
        rounded = bits + ((bits.lshr(16) & 1) + 0x7FFF)
        high = where(x.is_nan(), bits | 0x400000, rounded).lshr(16).cast("trunc", int16)
        return high.as_real(dtype).v
    return x.cast("fptrunc", dtype).v if dtype is float16 else x.v


def to_odd_float(x: Real) -> Real:
    """A float64 as a float32, rounded to odd: if inexact, to the neighbour with an odd last bit."""
    y = x.cast("fptrunc", float32)
    back = y.cast("fpext", float64)
    bits = y.as_whole()
    neighbour = where(abs(back) > abs(x), bits - 1, bits + 1)
    inexact = (back < x) | (back > x)
    return where(inexact & (bits & 1).equals(0), neighbour, bits).as_real(float32)


def sum_to_odd(a: Real, b: Real) -> Real:
    """a + b rounded to odd."""
    s, e = two_sum(a, b)
    bits = s.as_whole()
    neighbour = where((s > 0.0) ^ (e > 0.0), bits - 1, bits + 1)
    inexact = (e > 0.0) | (e < 0.0)
    return where(inexact & (bits & 1).equals(0), neighbour, bits).as_real(s.dtype)


def fma_of_halves(emitter: Emitter, args: list[Value], dtype: DType) -> Value:
    """x · y + z of 16-bit numbers rounded once: the product is exact in float64."""
    x, y, z = (widen(emitter, a, dtype).cast("fpext", float64) for a in args)
    return narrow(to_odd_float(sum_to_odd(x * y, z)), dtype)


def integer_to_double(x: Whole, dtype: DType, to_odd: bool) -> Real:
    """An integer as a float64; with `to_odd`, one of 64 bits is first rounded to odd at 53 bits."""
    if to_odd and dtype.bits == 64:
        kept = x & -2048
        cut = where((x & 2047).equals(0), kept, kept | 2048)
        small = ((x + (1 << 52)).lshr(53)).equals(0)
        x = where(small, x, cut)
    return x.to_real("sitofp" if dtype.is_signed else "uitofp", float64)


def integer_to_float(x: Whole, source: DType, target: DType) -> Value:
    """The integer rounded once to the target format."""
    if target.bits >= 32:
        return x.to_real("sitofp" if source.is_signed else "uitofp", target).v
    return narrow(to_odd_float(integer_to_double(x, source, to_odd=True)), target)


def float_to_integer(x: Real, target: DType) -> Value:
    """x truncated towards zero, saturated at the target's range; NaN gives 0."""
    if target.is_signed and target.bits == 64:
        return _to_signed_64(x).v
    return x.to_whole("fptosi_sat" if target.is_signed else "fptoui_sat", target).v


def _to_signed_64(x: Real) -> Whole:
    """`float_to_integer` for int64: LLVM's saturating conversion is scalar, the plain one is vectorised."""
    least, end = -(2.0**63), 2.0**63
    whole = where((x >= least) & (x < end), x, 0.0).to_whole("fptosi", int64)
    return where(x >= end, (1 << 63) - 1, where(x < least, -(1 << 63), whole))


def float_to_float(real: Real, source: DType, target: DType) -> Value:
    """The float, widened from the source, rounded once to the target format."""
    if source.bits <= 32:
        return narrow(real, target) if target.bits < 64 else real.cast("fpext", float64).v
    if target.bits == 32:
        return real.cast("fptrunc", float32).v
    return narrow(to_odd_float(real), target)


def from_bool(emitter: Emitter, x: Value, target: DType) -> Value:
    """1 or 0 of the target dtype."""
    if target.is_integer:
        return emitter.emit("zext", (x,), bool_, held(target))
    one, zero = (emitter.constant(c, target, x) for c in (1.0, 0.0))
    return emitter.emit("select", (x, one, zero), target, target)


def _to_encode(emitter: Emitter, x: Value, source: DType, target: DType) -> Real | Whole:
    """x in the dtype from which a storage dtype encodes: float32, rounded to odd, or int8 with the same low bits."""
    if target.number.is_integer:
        if not source.is_float:
            return Whole(emitter, convert(emitter, x, source, target.number), int8)
        real, (low, high) = widen(emitter, x, source), bounds(target)
        within = where(real.is_nan(), 0.0, at_most(at_least(real, float(low)), float(high)))
        return within.to_whole("fptosi", int32).cast("trunc", int8)
    if source is float64:
        return to_odd_float(Real(emitter, x, float64))
    if source.is_integer and source.bits >= 32:
        return to_odd_float(integer_to_double(Whole(emitter, x, held(source)), source, to_odd=True))
    return Real(emitter, convert(emitter, x, source, float32), float32)


def convert(emitter: Emitter, x: Value, source: DType, target: DType) -> Value:
    """x converted from one dtype to another; a bool is a condition here, as in registers."""
    if source is target:
        return x
    if source.encoding is not None:
        return convert(emitter, storage.decode(Whole(emitter, x, int8), source), source.number, target)
    if target.encoding is not None:
        return storage.encode(_to_encode(emitter, x, source, target), target)
    if source.is_bool:
        return from_bool(emitter, x, target)
    if source.is_float:
        real = widen(emitter, x, source)
        if target.is_bool:
            return real.compare("une", 0.0).v
        return float_to_integer(real, target) if target.is_integer else float_to_float(real, source, target)
    whole = Whole(emitter, x, held(source))
    if target.is_bool:
        return (~whole.equals(0)).v
    if target.is_float:
        return integer_to_float(whole, source, target)
    if target.bits == source.bits:
        return x
    grows = "sext" if source.is_signed else "zext"
    return whole.cast(grows if target.bits > source.bits else "trunc", target).v
