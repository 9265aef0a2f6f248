"""softfloat against exact rational arithmetic."""

from __future__ import annotations

import math
import struct
from fractions import Fraction

import ml_dtypes
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from nacre.kernel import softfloat

singles = st.floats(width=32)
doubles = st.floats(width=64)
close = st.floats(-4, 4)


def rounded(x: Fraction, digits: int, least: int, top: int) -> float:
    """x to the nearest multiple of its ulp, ties to even; infinite from 2^top on."""
    if x == 0:
        return 0.0
    size = abs(x)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    if size < Fraction(2) ** exponent:
        exponent -= 1
    unit = Fraction(2) ** max(exponent - digits + 1, least)
    nearest = round(size / unit) * unit  # Python's round of a Fraction is to even
    value = math.inf if nearest >= Fraction(2) ** top else float(nearest)
    return -value if x < 0 else value


def check_fma(a: float, b: float, c: float, dtype: type[np.floating]) -> None:
    with np.errstate(all="ignore"):
        got = float(softfloat.fma(dtype(a), dtype(b), dtype(c)))
    if not all(map(math.isfinite, (a, b, c))):
        with np.errstate(all="ignore"):
            plain = float(np.float64(a) * np.float64(b) + np.float64(c))
        if not math.isfinite(a) or not math.isfinite(b):
            assert got == plain or (math.isnan(got) and math.isnan(plain))
        else:
            assert got == c or math.isnan(c)
        return
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    sizes = (24, -149, 128) if dtype is np.float32 else (53, -1074, 1024)
    assert got == rounded(exact, *sizes)
    if exact == 0 and (a == 0 or b == 0) and c == 0:
        product = math.copysign(1, a) * math.copysign(1, b)
        negative = product < 0 and math.copysign(1, c) < 0
        assert math.copysign(1, got) == (-1 if negative else 1)


@given(singles, singles, singles)
@settings(max_examples=600, deadline=None)
def test_fma_of_float32(a: float, b: float, c: float) -> None:
    check_fma(a, b, c, np.float32)


@given(doubles, doubles, doubles)
@settings(max_examples=600, deadline=None)
def test_fma_of_float64(a: float, b: float, c: float) -> None:
    check_fma(a, b, c, np.float64)


def test_fma_of_a_product_out_of_range_and_infinity() -> None:
    for c in (math.inf, -math.inf):
        check_fma(1e300, 1e300, c, np.float64)
        check_fma(-1e300, 1e300, c, np.float64)


@given(close, close, st.integers(-60, 60), st.integers(-3, 3))
@settings(max_examples=600, deadline=None)
def test_fma_with_cancellation(a: float, b: float, scale: int, off: int) -> None:
    """c is next to −a b, or its last bits decide a tie."""
    c = -a * b + math.ldexp(a * b, -scale) if scale > 0 else -a * b
    for _ in range(abs(off)):
        c = math.nextafter(c, math.copysign(math.inf, off))
    check_fma(a, b, c, np.float64)
    x, y, z = (float(np.float32(v)) for v in (a, b, c))
    check_fma(x, y, z, np.float32)


@given(st.floats(1, 2), st.floats(1, 2), st.integers(-1080, -960), st.booleans(), doubles)
@settings(max_examples=400, deadline=None)
def test_fma_of_subnormal_results(a: float, b: float, e: int, half: bool, c: float) -> None:
    check_fma(math.ldexp(a, e // 2), math.ldexp(b, e - e // 2), math.ldexp(a, -1073), np.float64)
    check_fma(a, math.ldexp(1.5, -1074), 0.0 if half else c, np.float64)


@given(st.integers(0, (1 << 32) - 1))
@settings(max_examples=600, deadline=None)
def test_round_to_bfloat16(bits: int) -> None:
    x = np.array([bits], np.uint32).view(np.float32)
    got = softfloat.round_to_bfloat16(x)
    with np.errstate(all="ignore"):
        want = x.astype(ml_dtypes.bfloat16)
    if np.isnan(x[0]):
        assert np.isnan(got.view(ml_dtypes.bfloat16).astype(np.float32)[0])
    else:
        assert got[0] == want.view(np.uint16)[0]


@given(doubles, doubles)
@settings(max_examples=500, deadline=None)
def test_extrema(a: float, b: float) -> None:
    low, high = float(softfloat.minimum(a, b)), float(softfloat.maximum(a, b))
    if math.isnan(a) or math.isnan(b):
        assert math.isnan(low) and math.isnan(high)
        return

    def key(v: float) -> tuple[float, float]:
        return v, math.copysign(1, v)

    bits = [struct.pack("<d", v) for v in (low, high)]
    assert bits == [struct.pack("<d", v) for v in sorted((a, b), key=key)]


def test_fma_broadcasts_and_keeps_shape() -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert softfloat.fma(x, np.float32(2), x[0]).tolist() == (x * 2 + x[0]).tolist()
    assert softfloat.fma(np.zeros((0, 3)), 1.0, np.zeros(3)).shape == (0, 3)
