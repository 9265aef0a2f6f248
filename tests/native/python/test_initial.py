"""Tables that the builder writes for native functions, by the layout of their structures."""

from __future__ import annotations

import ctypes
from typing import Annotated, Any

import pytest

from nacre.base.errors import CompileError
from nacre.native import engine
from nacre.native.engine import host_target
from nacre.native.llvm_values import Val
from nacre.native.python.declarations import native, text
from nacre.native.python.initial import at, constant_rows
from nacre.native.python.intrinsics import addr
from nacre.native.python.module import module
from nacre.native.python.types import array, embed, i64, ptr, struct, u8, u16
from nacre.native.text import ModuleText


@struct
class Pair:
    key: u8
    value: i64


@struct
class Item:
    name: ptr[u8]
    bits: u16
    pair: embed[Pair]
    few: Annotated[array[u16], 3]


@native
def sum_of(items: ptr[embed[Item]], count: i64) -> i64:
    total: i64 = 0
    for k in range(count):
        item = items[k]
        total += i64(item.name[0]) + i64(item.bits) + i64(item.pair.key) + item.pair.value + i64(item.few[2])
        total += i64(addr(item.name[1])[0])
    return total


def test_the_builder_writes_rows_that_native_python_reads() -> None:
    builder = ModuleText("rows")
    name = builder.constant("name", "[3 x i8]", 'c"ab\\00"', 1)
    rows: list[Any] = [Item(name=at(name), bits=500, pair=Pair(key=7, value=-1000)), Item(name=at(name), bits=1)]
    place = constant_rows(builder, "items", rows)
    f = builder.function("total", "i64", {})
    f.ret(f.call("sum_of", "i64", [place, Val("2", "i64")]))
    together = engine.compile_together([module([sum_of]), builder.text()], host_target(), {"total"})
    library = engine.load(together).keep()
    assert ctypes.CFUNCTYPE(ctypes.c_int64)(library.address("total"))() == 2 * (97 + 98) + 500 + 7 - 1000 + 1
    assert constant_rows(builder, "none", []) == Val("null", "ptr")


def test_rows_of_the_builder_have_its_own_addresses() -> None:
    with pytest.raises(CompileError, match="constant_rows: addresses must be those of the builder's constants"):
        constant_rows(ModuleText("rows"), "items", [Item(name=text("a"))])
