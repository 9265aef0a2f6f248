"""Structures that Python writes and reads by the names of their fields."""

from __future__ import annotations

import struct as packing
from collections.abc import Callable
from typing import Annotated

import numpy as np
import pytest

from nacre.base.errors import CompileError
from nacre.native.python.types import array, f32, f64, i8, i64, ptr, size_of, struct, u8, u16, u32, u64
from nacre.native.records import pack, read_field, write_field
from nacre.runtime.tables import memory_of


@struct
class Mixed:
    small: i8
    flag: bool
    short: u16
    word: u32
    single: f32
    double: f64
    pointer: ptr[u8]
    function: Callable[[u64], u64]
    long: i64
    several: Annotated[array[u64], 2]


VALUES = {
    "small": -128,
    "flag": True,
    "short": 65535,
    "word": 1 << 31,
    "single": 0.5,
    "double": 0.1,
    "pointer": (1 << 64) - 1,
    "function": 1 << 40,
    "long": -1,
}


def test_every_kind_of_field_is_read_as_written() -> None:
    memory = memory_of(pack(Mixed, **VALUES))
    assert memory.dtype == np.int64 and memory.nbytes == size_of(Mixed) == 64
    assert {name: read_field(memory.ctypes.data, Mixed, name) for name in VALUES} == VALUES
    for name in VALUES:
        write_field(memory.ctypes.data, Mixed, name, 1)
    assert {read_field(memory.ctypes.data, Mixed, name) for name in VALUES} == {1}


def test_rows_follow_each_other_and_begin_with_zeros() -> None:
    memory = memory_of(pack(Mixed), pack(Mixed, long=7), np.array([5], np.int64).tobytes())
    first = memory.ctypes.data
    assert read_field(first, Mixed, "long") == 0
    assert read_field(first + size_of(Mixed), Mixed, "long") == 7
    assert memory[-1] == 5


def test_wrong_fields_and_numbers_are_refused() -> None:
    with pytest.raises(CompileError, match=r"Mixed\.wide: the field must exist; got none; use one of small, flag"):
        pack(Mixed, wide=1)
    with pytest.raises(CompileError, match=r"Mixed\.several: Python writes numbers and addresses"):
        pack(Mixed, several=1)
    with pytest.raises(packing.error):
        pack(Mixed, short=1 << 16)
