"""Conversions of dtypes that are only stored: every code, and every tie between neighbours, against `ml_dtypes`.

Two rules differ from `ml_dtypes`.  Numbers of more than 32 bits are rounded once, not first to float32, so their
reference is the nearest number by search.  A float8_e8m0fnu between 2^-127 and 2^-126 is the nearer one.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from nacre.base.conversion import bounds, element
from nacre.base.dtypes import (
    FLOATS,
    INTEGERS,
    STORAGE,
    STORED_FLOATS,
    STORED_INTEGERS,
    DType,
    bfloat16,
    bool_,
    float8_e8m0fnu,
    float16,
    float32,
    float64,
    int64,
)
from nacre.base.errors import DTypeError
from nacre.kernel import elementary
from nacre.kernel.elementary.arrays import Arrays
from nacre.kernel.interpret import operate

Array = npt.NDArray[Any]
LEAST = 2.0**-126  # from here on, float8_e8m0fnu has ml_dtypes' rounding


def codes(dtype: DType) -> Array:
    """Every number of a storage dtype."""
    return np.arange(1 << dtype.bits, dtype=np.uint8).view(dtype.numpy)


def positive(dtype: DType) -> Array:
    """The positive numbers of a storage dtype in order, as float64."""
    x = codes(dtype).astype(np.float64)
    return np.unique(np.abs(x[np.isfinite(x) & (x != 0)]))


def cast(x: Array, source: DType, target: DType) -> Array:
    return operate("cast", [x], source, target)


def near_ties(dtype: DType, source: DType) -> Array:
    """Numbers of a storage dtype, the midpoints between them, and the neighbours of all of these in another dtype."""
    numbers = positive(dtype)
    beyond = numbers[-1] * np.linspace(1, 2, 33)
    ends = np.array([0.0, np.inf, np.nan, 1e-300, 2.0**-149, 1e38, 3e38, 1e300])
    with np.errstate(all="ignore"):
        x = np.concatenate([numbers, (numbers[1:] + numbers[:-1]) / 2, numbers[:1] / 2, beyond, ends])
        x = x.astype(source.numpy)
        x = np.concatenate([x, np.nextafter(x, source.numpy.type(0)), np.nextafter(x, source.numpy.type(np.inf))])
    return np.concatenate([x, -x])


def same(found: Array, wanted: Array) -> Array:
    """Where codes are equal, or both NaN."""
    both = np.isnan(found.astype(np.float32)) & np.isnan(wanted.astype(np.float32))
    return (found.view(np.uint8) == wanted.view(np.uint8)) | both


@pytest.mark.parametrize("dtype", STORAGE, ids=str)
@pytest.mark.parametrize("target", [*FLOATS, *INTEGERS, bool_], ids=str)
def test_every_code_has_ml_dtypes_number(dtype: DType, target: DType) -> None:
    found, exact = cast(codes(dtype), dtype, target), codes(dtype).astype(np.float64)
    if target.is_float:
        with np.errstate(all="ignore"):
            wanted = exact.astype(target.numpy)
        assert np.array_equal(found.astype(np.float64), wanted.astype(np.float64), equal_nan=True)
        assert np.array_equal(np.signbit(found)[exact == exact], np.signbit(wanted)[exact == exact])
    else:
        wanted = exact if target.is_bool or dtype.python is float else codes(dtype).astype(np.int64)
        kind = float64 if wanted.dtype == np.float64 else int64
        assert np.array_equal(found, cast(wanted, kind, target))


@pytest.mark.parametrize("dtype", STORED_FLOATS, ids=str)
@pytest.mark.parametrize("source", [float16, bfloat16, float32], ids=str)
def test_ties_and_their_neighbours(dtype: DType, source: DType) -> None:
    x = near_ties(dtype, source)
    with np.errstate(all="ignore"):
        wanted = x.astype(dtype.numpy)
    known = ~np.isnan(x.astype(np.float32)) | (codes(dtype).astype(np.float32) != codes(dtype).astype(np.float32)).any()
    if dtype is float8_e8m0fnu:
        known &= ~(np.abs(x.astype(np.float64)) < LEAST) | (x == 0)
    found = cast(x, source, dtype)
    assert same(found, wanted)[known].all(), x[known & ~same(found, wanted)]


@pytest.mark.parametrize("dtype", STORED_FLOATS, ids=str)
@pytest.mark.parametrize("source", [float16, bfloat16], ids=str)
def test_every_number_of_16_bits(dtype: DType, source: DType) -> None:
    x = np.arange(1 << 16, dtype=np.uint16).view(source.numpy)
    with np.errstate(all="ignore"):
        wanted, wide = x.astype(dtype.numpy), x.astype(np.float64)
    known = ~np.isnan(wide)
    if dtype is float8_e8m0fnu:
        known &= ~(np.abs(wide) < LEAST) | (wide == 0)
    assert same(cast(x, source, dtype), wanted)[known].all()


@pytest.mark.parametrize("dtype", STORED_FLOATS, ids=str)
@pytest.mark.parametrize("source", [float32, float64], ids=str)
def test_numbers_are_rounded_once(dtype: DType, source: DType) -> None:
    x = near_ties(dtype, source)
    x = x[np.isfinite(x) & (np.abs(x) >= positive(dtype)[0]) & (np.abs(x) <= positive(dtype)[-1])]
    x = x[x > 0] if dtype is float8_e8m0fnu else x
    numbers, wide = positive(dtype), np.abs(x.astype(np.float64))
    above = np.searchsorted(numbers, wide)
    below = np.maximum(above - (numbers[above] != wide), 0)
    middle = (numbers[above] + numbers[below]) / 2
    even = codes(dtype)[: len(numbers) + 1].astype(np.float64)[::2]  # the codes of positive numbers ascend
    up = (wide > middle) | ((wide == middle) & (np.isin(numbers[above], even) | (dtype is float8_e8m0fnu)))
    wanted = np.copysign(np.where(up, numbers[above], numbers[below]), x)
    assert np.array_equal(cast(cast(x, source, dtype), dtype, float64), wanted)


@pytest.mark.parametrize("dtype", STORED_FLOATS, ids=str)
@pytest.mark.parametrize("source", INTEGERS, ids=str)
def test_integers_are_rounded_once(dtype: DType, source: DType) -> None:
    low, high = bounds(source)
    rng = np.random.default_rng(3)
    powers = [sign * ((2 << k) + (1 << k)) + by for k in range(62) for by in (-1, 0, 1) for sign in (-1, 1)]
    few = [*range(-600, 600), low, low + 1, high, high - 1, *powers, *map(int, rng.integers(-70000, 70000, 2000))]
    x = np.array([n for n in few if low <= n <= high], source.numpy)
    found = cast(x, source, dtype)
    wanted = np.array([element(int(n), dtype) if n > 0 or dtype.has_zero else np.nan for n in x]).astype(dtype.numpy)
    assert same(found, wanted).all()


@pytest.mark.parametrize("dtype", STORED_INTEGERS, ids=str)
def test_integers_of_few_bits(dtype: DType) -> None:
    low, high = bounds(dtype)
    for source in INTEGERS:  # they wrap, as ml_dtypes' do
        x = np.arange(-300, 300).astype(source.numpy)
        assert np.array_equal(cast(x, source, dtype).view(np.uint8), x.astype(dtype.numpy).view(np.uint8))
    x = np.array([0.5, -0.5, 1.9, -1.9, 7.5, 8, 100, 1e30, -8, -9, -1e30, np.inf, -np.inf, np.nan])
    for source in FLOATS:  # they saturate, as Nacre's other integers do
        with np.errstate(all="ignore"):
            given = x.astype(source.numpy)
        wanted = np.clip(np.nan_to_num(np.trunc(given.astype(np.float64)), nan=0.0), low, high)
        assert np.array_equal(cast(given, source, dtype).astype(np.int64), wanted.astype(np.int64))
    flags = np.array([False, True])
    assert cast(flags, bool_, dtype).astype(int).tolist() == [0, dtype.numpy.type(1)]


@pytest.mark.parametrize("source", STORAGE, ids=str)
@pytest.mark.parametrize("target", STORAGE, ids=str)
def test_each_to_each_is_the_way_through_its_numbers(source: DType, target: DType) -> None:
    x = codes(source)
    if source is not target:
        by_number = cast(cast(x, source, source.number), source.number, target)
        assert np.array_equal(cast(x, source, target).view(np.uint8), by_number.view(np.uint8))


@pytest.mark.parametrize("dtype", [d for d in STORAGE if d.bits < 8], ids=str)
def test_unused_bits_are_not_read_and_are_zero(dtype: DType) -> None:
    every, mask = np.arange(256, dtype=np.uint8), (1 << dtype.bits) - 1
    found = cast(every.view(dtype.numpy), dtype, dtype.number)
    assert np.array_equal(found, cast((every & mask).view(dtype.numpy), dtype, dtype.number))
    assert cast(found, dtype.number, dtype).view(np.uint8).max() == mask


def test_no_operation_but_select_takes_them() -> None:
    for dtype in STORAGE:
        assert elementary.supports("select", dtype)
        for op in ("add", "eq", "neg", "and", "isnan", "maximum"):
            assert not elementary.supports(op, dtype)
            with pytest.raises(DTypeError, match=f"{op}: the operation does not exist for {dtype.name}; convert"):
                elementary.apply(Arrays(), op, [codes(dtype).view(np.int8)] * 2, dtype)
