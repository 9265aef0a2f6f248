"""Special values: NaN, infinities, signed zeros, thresholds, exact results (C's Annex F)."""

from __future__ import annotations

import math

import numpy as np
import pytest

from kernel.elementary.ulps import WIDE, Array, evaluate
from nacre.base.dtypes import (
    DType,
    float32,
    float64,
    int8,
    int32,
    int64,
    uint8,
)
from nacre.base.errors import DTypeError
from nacre.kernel.elementary import apply, convert, supports
from nacre.kernel.elementary.arrays import Arrays

FLOATS = [float32, float64]
ARRAYS = Arrays()


def grid(dtype: DType) -> Array:
    info = np.finfo(dtype.numpy)
    sizes = [0.0, info.smallest_subnormal, info.tiny, 0.5, 1.0, 1.5, 2.0, 3.0, info.max, np.inf]
    return np.array([*sizes, *(-v for v in sizes), np.nan], dtype.numpy)


def same(got: Array, want: Array) -> Array:
    """Equal, with the signs of zeros; any NaN for NaN."""
    equal = (got == want) & (np.signbit(got) == np.signbit(want))
    return equal | (np.isnan(got) & np.isnan(want))


def special(want: Array) -> Array:
    return np.isnan(want) | np.isinf(want) | (want == 0)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("op", [op for op in WIDE if op not in ("pow", "atan2", "sigmoid")])
def test_zeros_infinities_and_nan(op: str, dtype: DType) -> None:
    """Nacre gives 0, infinity and NaN exactly where the C library does."""
    x = grid(dtype)
    with np.errstate(all="ignore"):
        want, got = WIDE[op](x), evaluate(op, dtype, x)
    assert same(got, want)[special(want)].all(), list(zip(x, got, want, strict=True))
    assert (special(got) == special(want)).all(), list(zip(x, got, want, strict=True))
    assert (np.signbit(got) == np.signbit(want))[~np.isnan(want)].all()


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("op", ["pow", "atan2"])
def test_pairs(op: str, dtype: DType) -> None:
    x, y = (v.ravel() for v in np.meshgrid(grid(dtype), grid(dtype)))
    with np.errstate(all="ignore"):
        want, got = WIDE[op](x, y), evaluate(op, dtype, x, y)
        close = np.isclose(got, want, rtol=4 * np.finfo(dtype.numpy).eps, atol=0)
    ok = np.where(special(want), same(got, want), close)
    assert ok.all(), [(x[i], y[i], got[i], want[i]) for i in np.flatnonzero(~ok)]


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_exact_results(dtype: DType) -> None:
    def value(op: str, *args: float) -> float:
        return float(evaluate(op, dtype, *(np.array([a], dtype.numpy) for a in args))[0])

    info = np.finfo(dtype.numpy)
    k = np.arange(info.minexp - info.nmant, info.maxexp)
    powers = np.ldexp(dtype.numpy.type(1), k)
    assert (evaluate("exp2", dtype, k.astype(dtype.numpy)) == powers).all()
    assert (evaluate("log2", dtype, powers) == k).all()
    for op in ("exp", "cos", "cosh", "erfc"):
        assert value(op, 0.0) == value(op, -0.0) == 1
    assert value("sigmoid", 0.0) == 0.5
    assert value("sigmoid", math.inf) == value("tanh", math.inf) == value("erf", math.inf) == 1
    assert value("sigmoid", -math.inf) == 0 and value("tanh", -math.inf) == -1
    assert value("expm1", -math.inf) == -1 and value("erfc", -math.inf) == 2
    assert value("log", 1.0) == 0 and not math.copysign(1, value("log", 1.0)) < 0
    for n in range(-4, 5):
        assert value("cbrt", float(n**3)) == n
    assert value("pow", 3.0, 2.0) == 9 and value("pow", -2.0, 3.0) == -8


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_overflow_thresholds(dtype: DType) -> None:
    info = np.finfo(dtype.numpy)
    for op, inverse in (("exp", np.log), ("sinh", np.arcsinh), ("cosh", np.arccosh)):
        edge = np.array([dtype.numpy.type(inverse(np.longdouble(info.max)))])
        below, above = np.nextafter(edge, 0), np.nextafter(np.nextafter(edge, np.inf), np.inf)
        below = np.nextafter(below, dtype.numpy.type(0))
        assert np.isfinite(evaluate(op, dtype, below)).all(), op
        assert np.isinf(evaluate(op, dtype, above)).all(), op


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_remainder_is_exact(dtype: DType) -> None:
    rng = np.random.default_rng(3)
    bits = rng.integers(0, 1 << dtype.bits, (2, 4000), dtype=np.uint64)
    x, y = bits.astype(f"u{dtype.itemsize}").view(dtype.numpy)
    pairs = np.meshgrid(grid(dtype), grid(dtype))
    x, y = np.concatenate([x, pairs[0].ravel()]), np.concatenate([y, pairs[1].ravel()])
    with np.errstate(all="ignore"):
        assert same(evaluate("rem", dtype, x, y), np.fmod(x, y)).all()


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_extrema_and_sign(dtype: DType) -> None:
    def value(op: str, *args: float) -> float:
        return float(evaluate(op, dtype, *(np.array([a], dtype.numpy) for a in args))[0])

    for a, b in ((0.0, -0.0), (-0.0, 0.0)):
        assert math.copysign(1, value("minimum", a, b)) == -1
        assert math.copysign(1, value("maximum", a, b)) == 1
    for op in ("minimum", "maximum"):
        assert math.isnan(value(op, math.nan, 1.0)) and math.isnan(value(op, 1.0, math.nan))
    assert value("minimum", -math.inf, 2.0) == -math.inf and value("maximum", 3.0, 2.0) == 3
    assert value("sign", -5.0) == -1 and math.copysign(1, value("sign", -0.0)) == 1
    assert [value("round", v) for v in (0.5, 1.5, 2.5, -0.5)] == [0, 2, 2, 0]


def integers(op: str, dtype: DType, *args: int) -> int:
    lanes = [ARRAYS.operand(np.array([a], dtype.numpy)) for a in args]
    return int(apply(ARRAYS, op, lanes, dtype).view(dtype.numpy)[0])


def test_integer_edges() -> None:
    low = -(1 << 31)
    assert integers("idiv", int32, 7, 0) == 0 and integers("rem", int32, 7, 0) == 0
    assert integers("idiv", int32, low, -1) == low and integers("rem", int32, low, -1) == 0
    assert integers("idiv", int32, -7, 2) == -3 and integers("rem", int32, -7, 2) == -1
    assert integers("idiv", int64, -(1 << 63), -1) == -(1 << 63)
    assert integers("idiv", uint8, 255, 2) == 127 and integers("rem", uint8, 255, 16) == 15
    assert integers("add", int8, 127, 1) == -128 and integers("abs", int8, -128) == -128
    assert integers("shl", int32, 1, 31) == low and integers("shl", int32, 1, 32) == 0
    assert integers("shr", int32, -8, 1) == -4 and integers("shr", int32, -8, 99) == -1
    assert integers("shr", uint8, 200, 3) == 25 and integers("shr", uint8, 200, 8) == 0
    assert integers("sign", int8, -3) == -1 and integers("sign", uint8, 3) == 1


def test_float_to_integer_saturates() -> None:
    x = np.array([np.nan, np.inf, -np.inf, 3e9, -3e9, 2.9, -2.9, 1e30], np.float32)
    got = convert(ARRAYS, ARRAYS.operand(x), float32, int32)
    assert got.tolist() == [0, 2**31 - 1, -(2**31), 2**31 - 1, -(2**31), 2, -2, 2**31 - 1]
    assert convert(ARRAYS, ARRAYS.operand(x), float32, uint8).view(np.uint8).tolist() == [
        0, 255, 0, 255, 0, 2, 0, 255,
    ]  # fmt: skip


def test_operations_without_support_for_a_dtype_are_refused() -> None:
    assert not supports("exp", int32) and not supports("and", float32)
    with pytest.raises(DTypeError, match="exp: the operation does not exist"):
        integers("exp", int32, 1)
