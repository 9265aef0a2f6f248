"""Element types and the promotion table."""

from __future__ import annotations

import copy
import pickle
from itertools import product

import ml_dtypes
import numpy as np
import pytest

from nacre.base.dtypes import (
    ALL,
    FLOATS,
    INTEGERS,
    PROMOTION,
    DType,
    as_dtype,
    bfloat16,
    bool_,
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


def test_python_types_and_foreign_ones() -> None:
    assert (as_dtype(bool), as_dtype(int), as_dtype(float)) == (bool_, int64, float32)
    assert as_dtype(ml_dtypes.bfloat16) is bfloat16
    for bad in ("float31", "complex64", complex, object, np.dtype("datetime64[s]"), None, 3, ml_dtypes.float8_e4m3):
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


def test_promotion_holds_every_number_of_both() -> None:
    for a, b in product(INTEGERS, repeat=2):
        if (a, b) in PROMOTION:
            c = PROMOTION[a, b]
            for d in (a, b):
                assert np.iinfo(c.numpy).min <= np.iinfo(d.numpy).min and np.iinfo(c.numpy).max >= np.iinfo(d.numpy).max
    assert promote(float16, bfloat16) is float32 and promote(uint8, int8) is int16
    assert promote(float32, float64, float16) is float64


@pytest.mark.parametrize("a, b", [(bool_, int8), (int64, float32), (uint64, int64), (bool_, float16)])
def test_kinds_do_not_mix(a: DType, b: DType) -> None:
    with pytest.raises(DTypeError, match="astype"):
        promote(a, b)
