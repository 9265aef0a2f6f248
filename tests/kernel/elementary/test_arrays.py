"""The emitter that evaluates NumPy arrays: constants, and the limits of its conversions."""

from __future__ import annotations

import numpy as np
import pytest

from nacre.base.dtypes import DType, bfloat16, bool_, float32, float64, int8, int32, int64
from nacre.kernel.elementary.arrays import Arrays

ARRAYS = Arrays()


def test_constants_may_be_unsigned_bit_patterns() -> None:
    assert ARRAYS.constant(0xFFFFFFFF, int32, None) == -1
    assert ARRAYS.constant(200, int8, None) == -56


@pytest.mark.parametrize("dtype", [bool_, int8, int64, bfloat16, float32, float64], ids=str)
def test_constants_have_their_dtype(dtype: DType) -> None:
    assert ARRAYS.constant(1, dtype, None).dtype == dtype.numpy


def test_unsigned_operands_are_stored_as_signed_ones() -> None:
    assert ARRAYS.operand(np.array([255], np.uint8)).tolist() == [-1]
    assert ARRAYS.operand(np.array([True])).dtype == np.bool_


def test_instructions_define_the_signedness() -> None:
    a, b = np.array([-7, 7], np.int32), np.array([2, -2], np.int32)

    def value(name: str, *args: np.ndarray, dtype: DType = int32) -> list[object]:
        return ARRAYS.emit(name, args, int32, dtype).tolist()

    assert value("sdiv", a, b) == [-3, -3]
    assert value("udiv", a, b) == [(2**32 - 7) // 2, 0]
    assert value("slt", a, b, dtype=bool_) == [True, False]
    assert value("ult", a, b, dtype=bool_) == [False, True]
    assert value("ashr", a, np.array([1, 1], np.int32)) == [-4, 3]
    assert value("lshr", a, np.array([1, 1], np.int32)) == [2**31 - 4, 3]
    assert value("uitofp", a, dtype=float64) == [2.0**32 - 7, 7.0]
    assert value("zext", a, dtype=int64) == [2**32 - 7, 7]
    assert value("sext", a, dtype=int64) == [-7, 7]
    assert value("trunc", np.array([300, -300], np.int32), dtype=int8) == [44, -44]


def test_saturation() -> None:
    x = np.array([np.nan, np.inf, -np.inf, 127.9, 128.0, -129.0, 2.5])
    assert ARRAYS.emit("fptosi_sat", [x], float64, int8).tolist() == [0, 127, -128, 127, 127, -128, 2]
    assert ARRAYS.emit("fptoui_sat", [x], float64, int8).view(np.uint8).tolist() == [0, 255, 0, 127, 128, 0, 2]
