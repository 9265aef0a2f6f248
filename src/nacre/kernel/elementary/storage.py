"""Dtypes that are only stored: the codes of their numbers, by integer operations on the bits of a float32.

A float8 or float4 is the nearest number, ties to even.  Beyond the greatest one it is infinite, or NaN, or the
greatest, whichever the format has.  float8_e8m0fnu, a power of two, rounds ties up, and has no zero: that is NaN, as
are negative numbers.  Integers of 4 and 2 bits wrap like wider ones.
"""

from __future__ import annotations

from nacre.base.dtypes import DType, Encoding, float32, int8, int32
from nacre.base.errors import DTypeError
from nacre.kernel.elementary.emitter import Value
from nacre.kernel.elementary.value import FLOAT, Real, Whole, where

FRACTION, BIAS = FLOAT.fraction, FLOAT.bias
MAGNITUDE, INFINITY, NAN = 0x7FFF_FFFF, 0x7F80_0000, 0x7FC0_0000  # bits of a float32
LEAST_NORMAL = 1 << FRACTION
HALF = 1 << FRACTION - 1
SIGN = 31  # the place of the sign


def encoding_of(dtype: DType) -> Encoding:
    """How a storage dtype encodes numbers.  Raises DTypeError for another dtype."""
    if dtype.encoding is None:
        raise DTypeError(f"storage: the dtype must be one that is only stored; got {dtype.name}; use convert")
    return dtype.encoding


def decode(code: Whole, dtype: DType) -> Value:
    """The number of each code: a float32, an int8 or a uint8."""
    encoding, unused = encoding_of(dtype), int8.bits - dtype.bits
    if encoding.number.is_integer:
        return ((code << unused) >> unused if encoding.is_signed else code & (1 << dtype.bits) - 1).v
    wide = code.cast("zext", int32)
    wide = wide & (1 << dtype.bits) - 1 if unused else wide
    return (_power_of_two(wide, encoding) if not encoding.has_zero else _float(wide, dtype.bits, encoding)).v


def _power_of_two(code: Whole, encoding: Encoding) -> Real:
    """2^(code − bias); the least one is subnormal in float32."""
    bits = where(code.equals(0), HALF, code << FRACTION)
    return where(code.equals(encoding.nan or 0), NAN, bits).as_real(float32)


def _float(code: Whole, bits: int, encoding: Encoding) -> Real:
    magnitude = code & (1 << bits - 1) - 1
    unit = 2.0 ** (1 - encoding.bias - encoding.fraction)
    small = (magnitude.to_real("sitofp", float32) * unit).as_whole()
    large = (magnitude << FRACTION - encoding.fraction) + (BIAS - encoding.bias << FRACTION)
    found = where(magnitude < 1 << encoding.fraction, small, large)
    if encoding.nan is not None:
        if encoding.infinity is not None:
            found = where(magnitude.equals(encoding.infinity), INFINITY, found)
        is_nan = magnitude > (encoding.infinity or encoding.greatest)
        found = where(is_nan if encoding.has_signed_zero else code.equals(encoding.nan), NAN, found)
    sign = (code & 1 << bits - 1) << SIGN - (bits - 1)
    return (found | sign).as_real(float32)


def encode(x: Real | Whole, dtype: DType) -> Value:
    """The code of each number: a float32, where numbers of more bits are rounded to odd, or an int8."""
    encoding = encoding_of(dtype)
    if isinstance(x, Whole):
        return (x & (1 << dtype.bits) - 1).v
    bits = x.as_whole()
    code = _to_float(bits, dtype.bits, encoding) if encoding.has_zero else _to_power_of_two(bits, encoding)
    return code.cast("trunc", int8).v


def _to_power_of_two(bits: Whole, encoding: Encoding) -> Whole:
    code = where(bits < LEAST_NORMAL, bits + HALF // 2, bits + HALF).lshr(FRACTION)
    return where((bits > 0) & (code < encoding.greatest + 1), code, encoding.nan or 0)


def _to_float(bits: Whole, width: int, encoding: Encoding) -> Whole:
    magnitude, shift = bits & MAGNITUDE, FRACTION - encoding.fraction
    up = (magnitude.lshr(shift) & 1) + ((1 << shift - 1) - 1)
    large = (magnitude + up).lshr(shift) - (BIAS - encoding.bias << encoding.fraction)
    least = 2.0 ** (1 - encoding.bias + shift)  # its last place is that of subnormal numbers
    small = (magnitude.as_real(float32) + least).as_whole() - FLOAT.pattern(least)
    code = where(magnitude < (1 + BIAS - encoding.bias) << FRACTION, small, large)
    beyond = next(c for c in (encoding.infinity, encoding.nan, encoding.greatest) if c is not None)
    code = where(code > encoding.greatest, beyond, code)
    if encoding.nan is not None:
        code = where(magnitude > INFINITY, encoding.nan, code)
    signed = code | bits.lshr(SIGN) << width - 1
    if encoding.nan is None:
        return where(magnitude > INFINITY, 1 << width - 1, signed)  # −0, whatever the sign of the NaN
    return signed if encoding.has_signed_zero else where(code.equals(0), 0, signed)
