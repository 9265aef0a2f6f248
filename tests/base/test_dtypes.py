"""Element types and the promotion table."""

from __future__ import annotations

import copy
import pickle
from itertools import product
from typing import Any, cast

import ml_dtypes
import numpy as np
import pytest

from nacre.base.dtypes import (
    ALL,
    ANY,
    BITWISE,
    BOOLEAN,
    COMPLEX,
    FLOATING,
    FLOATS,
    INEXACT,
    INTEGERS,
    INTEGRAL,
    NUMERIC,
    ORDERED,
    PROMOTION,
    REAL,
    Category,
    DType,
    DTypeSet,
    as_dtype,
    bfloat16,
    bool_,
    complex64,
    complex128,
    float16,
    float32,
    float64,
    int8,
    int16,
    int64,
    promote,
    uint8,
    uint64,
)
from nacre.base.errors import DTypeError


@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_every_dtype_has_all_its_names(dtype: DType) -> None:
    assert as_dtype(dtype) is as_dtype(dtype.name) is as_dtype(dtype.short) is as_dtype(dtype.numpy) is dtype
    assert as_dtype(dtype.numpy.type) is dtype
    assert dtype.itemsize == dtype.numpy.itemsize
    assert pickle.loads(pickle.dumps(dtype)) is dtype and copy.deepcopy(dtype) is dtype


def test_types_of_python_and_other_libraries() -> None:
    assert [as_dtype(kind) for kind in (bool, int, float, complex)] == [bool_, int64, float32, complex64]
    assert as_dtype(ml_dtypes.bfloat16) is bfloat16
    for bad in (
        "float31",
        "complex256",
        np.clongdouble,
        object,
        np.dtype("datetime64[s]"),
        None,
        3,
        ml_dtypes.float8_e4m3,
    ):
        if bad is None:
            continue  # NumPy's default is float64
        with pytest.raises(DTypeError, match="must be one of"):
            as_dtype(bad)


def test_promotion_is_commutative_associative_and_idempotent() -> None:
    for (a, b), c in PROMOTION.items():
        assert PROMOTION[b, a] is c and promote(c, a) is c and promote(a, a) is a
    for a, b, c in product(ALL, repeat=3):
        try:
            left, right = promote(promote(a, b), c), promote(a, promote(b, c))
        except DTypeError:
            continue
        if {a, b, c} >= {float16, bfloat16}:
            assert left is right or {left, right} <= set(FLOATS)
        else:
            assert left is right


def test_the_promoted_dtype_represents_every_number_of_both() -> None:
    for a, b in product(INTEGERS, repeat=2):
        if (a, b) in PROMOTION:
            c = PROMOTION[a, b]
            for d in (a, b):
                assert np.iinfo(c.numpy).min <= np.iinfo(d.numpy).min and np.iinfo(c.numpy).max >= np.iinfo(d.numpy).max
    assert promote(float16, bfloat16) is float32 and promote(uint8, int8) is int16
    assert promote(float32, float64, float16) is float64


def test_a_real_number_with_a_complex_one_is_complex() -> None:
    for real, paired in product(FLOATS, COMPLEX):
        wide = complex128 if float64 in (real, paired.component) else complex64
        assert promote(real, paired) is promote(paired, real) is wide
        if real is not bfloat16:
            assert np.promote_types(real.numpy, paired.numpy) == wide.numpy
    assert promote(*COMPLEX) is complex128


@pytest.mark.parametrize(
    "a, b", [(bool_, int8), (int64, float32), (uint64, int64), (bool_, float16), (int8, complex64)]
)
def test_kinds_do_not_mix(a: DType, b: DType) -> None:
    with pytest.raises(DTypeError, match="astype"):
        promote(a, b)


# ---- traits


@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_traits_are_those_of_numpy_and_ml_dtypes(dtype: DType) -> None:
    element = np.zeros((), dtype.numpy).item()
    assert type(element) is dtype.python and dtype.storage_bits == 8 * dtype.numpy.itemsize
    assert dtype.kind == (dtype.numpy.kind if dtype is not bfloat16 else "f")
    assert [dtype.is_bool, dtype.is_integer, dtype.is_float, dtype.is_complex].count(True) == 1
    assert dtype.real.numpy == (np.zeros((), dtype.numpy).real.dtype) and not dtype.real.is_complex
    assert dtype.components == dtype.bits // dtype.real.bits and dtype.components == 1 + dtype.is_complex
    assert dtype.is_inexact == dtype.is_differentiable == (dtype.is_float or dtype.is_complex)
    if dtype.is_complex:
        assert dtype.bits == 8 * dtype.numpy.itemsize and dtype.is_signed and dtype.paired is dtype.real.paired is dtype
    elif dtype.is_float:
        facts = cast("Any", ml_dtypes.finfo(dtype.numpy))
        assert dtype.bits == facts.bits and dtype.is_signed == (facts.min < 0)
    elif dtype.is_integer:
        limits = np.iinfo(dtype.numpy)
        assert dtype.bits == limits.bits and dtype.is_signed == (limits.min < 0)
        assert (dtype.category is Category.SIGNED) == dtype.is_signed
    else:
        assert dtype is bool_ and dtype.bits == 1 and not dtype.is_signed


def test_half_types_are_computed_in_float32() -> None:
    assert {d for d in ALL if d.is_widened} == {float16, bfloat16}
    assert all(d.arithmetic is (float32 if d.is_widened else d) for d in ALL)


SETS: dict[DTypeSet, str] = {
    BOOLEAN: "b",
    INTEGRAL: "iu",
    BITWISE: "biu",
    FLOATING: "f",
    INEXACT: "fc",
    REAL: "iuf",
    NUMERIC: "iufc",
    ORDERED: "biuf",
    ANY: "biufc",
}


@pytest.mark.parametrize("named", SETS, ids=repr)
def test_sets_of_dtypes_hold_those_of_their_categories(named: DTypeSet) -> None:
    letters = SETS[named]
    assert {d for d in ALL if d in named} == {d for d in ALL if d.kind in letters}
    for dtype in (*(d.numpy for d in ALL), np.dtype(np.clongdouble), np.dtype(np.longdouble)):
        assert named.holds(dtype) == (dtype.kind in letters)
    for text in (np.dtype("U3"), np.dtype("datetime64[s]"), np.dtype("timedelta64[s]"), np.dtype(object)):
        assert not named.holds(text)
    words = {"b": "bool", "i": "signed integer", "u": "unsigned integer", "f": "floating-point", "c": "complex"}
    assert named.words == " or ".join(words[letter] for letter in letters)
