"""Prepacked inputs of programs: native code that checks whether the copies are current.

Packed copies are reused from the second call with the same inputs (see `runtime/plan.Packed`).  All functions are
called with the interpreter lock.
"""

from __future__ import annotations

from nacre.codegen.entry.layouts import PackedTable
from nacre.native.cpython import Py_DecRef, Py_IncRef, PyErr_Clear
from nacre.native.python.declarations import external, native, null
from nacre.native.python.intrinsics import addr, cast
from nacre.native.python.types import i64, ptr, u8, u64
from nacre.runtime.layouts import BufferObject


@external(symbol="nacre.buffer_new")
def new_buffer(nbytes: u64) -> BufferObject: ...


@native
def alike(table: PackedTable, read: ptr[BufferObject], bases: ptr[ptr[u8]]) -> bool:
    """Whether the inputs that something is packed of are those of the last call; notes them for the next one."""
    same = True
    for k in range(table.source_count):
        source = table.sources[k]
        serial = read[source.operand].serial
        address = cast(u64, bases[source.operand])
        last_serial = source.serial
        last_address = source.address
        source.serial = serial
        source.address = address
        same = same & (serial == last_serial) & (address == last_address) & (serial != 0)
    return same


@native(cold=True)
def declare(table: PackedTable, block: BufferObject, ready: i64) -> None:
    """Say of all that is in a block whether it is ready."""
    offsets = cast(ptr[i64], addr(table.sources[table.source_count]))
    for k in range(table.value_count):
        place = cast(ptr[i64], addr(block.data[offsets[k]]))
        place[0] = ready


@native(symbol="nacre.packed")
def packed(table: PackedTable, read: ptr[BufferObject], bases: ptr[ptr[u8]]) -> BufferObject:
    """The block of packed inputs, a new block for them at the second call with these inputs, or null."""
    same = alike(table, read, bases)
    block = table.block
    if not same:
        table.block = null
        if block != null:
            Py_DecRef(block)
        return null
    if block != null:
        Py_IncRef(block)
        return block
    new = new_buffer(table.nbytes)
    if new == null:
        PyErr_Clear()
        return null
    declare(table, new, 0)
    return new


@native(symbol="nacre.keep", cold=True)
def keep(table: PackedTable, read: ptr[BufferObject], bases: ptr[ptr[u8]], block: BufferObject, whole: bool) -> None:
    """After a call: store a block that was packed for inputs that are still the last ones; else release it."""
    if block == null:
        return
    if table.block == null and whole and alike(table, read, bases):
        declare(table, block, 1)
        table.block = block
    else:
        Py_DecRef(block)


@native(symbol="nacre.forget", cold=True)
def forget(table: PackedTable) -> None:
    """Release packed inputs; a running call has its own reference."""
    block = table.block
    table.block = null
    if block != null:
        Py_DecRef(block)
