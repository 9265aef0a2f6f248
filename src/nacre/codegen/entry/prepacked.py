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


@external(symbol="nacre_buffer_new")
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


@native
def declare(table: PackedTable, block: BufferObject, ready: i64) -> None:
    """Say of all that is in a block whether it is ready."""
    offsets = cast(ptr[i64], addr(table.sources[table.source_count]))
    for k in range(table.value_count):
        place = cast(ptr[i64], addr(block.data[offsets[k]]))
        place[0] = ready


@native(symbol="nacre_packed")
def packed(table: PackedTable, read: ptr[BufferObject], bases: ptr[ptr[u8]]) -> BufferObject:
    """What is packed of the inputs, a new block to pack it into at the second call with them, or null."""
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


@native(symbol="nacre_keep")
def keep(table: PackedTable, read: ptr[BufferObject], bases: ptr[ptr[u8]], block: BufferObject, whole: bool) -> None:
    """After a call: store a block that was packed for inputs that are still the last ones; else release it."""
    if block == null:
        return
    if table.block == null and whole and alike(table, read, bases):
        declare(table, block, 1)
        table.block = block
    else:
        Py_DecRef(block)


@native(symbol="nacre_forget")
def forget(table: PackedTable) -> None:
    """Release packed inputs; a running call has its own reference."""
    block = table.block
    table.block = null
    if block != null:
        Py_DecRef(block)


TEXT = """
; Whether the inputs that something is packed of are those of the last call; notes them for the next one.
define internal i1 @nacre_alike(ptr %table, ptr %read, ptr %bases) nounwind {
entry:
  %count.at = getelementptr i64, ptr %table, i64 2
  %count = load i64, ptr %count.at
  %sources = getelementptr i64, ptr %table, i64 4
  br label %next

next:
  %k = phi i64 [ 0, %entry ], [ %k.next, %one ]
  %alike = phi i1 [ true, %entry ], [ %alike.next, %one ]
  %more = icmp slt i64 %k, %count
  br i1 %more, label %one, label %end

one:
  %k.words = mul i64 %k, 3
  %source = getelementptr i64, ptr %sources, i64 %k.words
  %place = load i64, ptr %source
  %data.at = getelementptr ptr, ptr %read, i64 %place
  %data = load ptr, ptr %data.at
  %serial.at = getelementptr i8, ptr %data, i64 {serial}
  %serial = load i64, ptr %serial.at
  %base.at = getelementptr i64, ptr %bases, i64 %place
  %base = load i64, ptr %base.at
  %last.serial.at = getelementptr i64, ptr %source, i64 1
  %last.serial = load i64, ptr %last.serial.at
  %last.base.at = getelementptr i64, ptr %source, i64 2
  %last.base = load i64, ptr %last.base.at
  store i64 %serial, ptr %last.serial.at
  store i64 %base, ptr %last.base.at
  %same.serial = icmp eq i64 %serial, %last.serial
  %same.base = icmp eq i64 %base, %last.base
  %ours = icmp ne i64 %serial, 0
  %same = and i1 %same.serial, %same.base
  %sure = and i1 %same, %ours
  %alike.next = and i1 %alike, %sure
  %k.next = add i64 %k, 1
  br label %next

end:
  ret i1 %alike
}

; Say of all that is in a block whether it is ready.
define internal void @nacre_declare(ptr %table, ptr %block, i64 %ready) nounwind {
entry:
  %memory.at = getelementptr i8, ptr %block, i64 16
  %memory = load ptr, ptr %memory.at
  %count.at = getelementptr i64, ptr %table, i64 2
  %count = load i64, ptr %count.at
  %values.at = getelementptr i64, ptr %table, i64 3
  %values = load i64, ptr %values.at
  %words = mul i64 %count, 3
  %sources = getelementptr i64, ptr %table, i64 4
  %offsets = getelementptr i64, ptr %sources, i64 %words
  br label %next

next:
  %k = phi i64 [ 0, %entry ], [ %k.next, %one ]
  %more = icmp slt i64 %k, %values
  br i1 %more, label %one, label %end

one:
  %offset.at = getelementptr i64, ptr %offsets, i64 %k
  %offset = load i64, ptr %offset.at
  %place = getelementptr i8, ptr %memory, i64 %offset
  store i64 %ready, ptr %place
  %k.next = add i64 %k, 1
  br label %next

end:
  ret void
}

; What is packed of the inputs, a new block to pack it into at the second call with them, or null.
define dso_local ptr @nacre_packed(ptr %table, ptr %read, ptr %bases) nounwind noinline {
entry:
  %block.at = getelementptr ptr, ptr %table, i64 1
  %alike = call i1 @nacre_alike(ptr %table, ptr %read, ptr %bases)
  %block = load ptr, ptr %block.at
  %none = icmp eq ptr %block, null
  br i1 %alike, label %same, label %other

same:
  br i1 %none, label %make, label %take

take:
  call void @Py_IncRef(ptr %block)
  ret ptr %block

make:
  %bytes = load i64, ptr %table
  %new = call ptr @nacre_buffer_new(i64 %bytes)
  %no.memory = icmp eq ptr %new, null
  br i1 %no.memory, label %without, label %made

without:
  call void @PyErr_Clear()
  ret ptr null

made:
  call void @nacre_declare(ptr %table, ptr %new, i64 0)
  ret ptr %new

other:
  store ptr null, ptr %block.at
  br i1 %none, label %end, label %drop

drop:
  call void @Py_DecRef(ptr %block)
  br label %end

end:
  ret ptr null
}

; After a call: store a block that was packed for inputs that are still the last ones; else release it.
define dso_local void @nacre_keep(ptr %table, ptr %read, ptr %bases, ptr %block, i1 %whole) nounwind noinline {
entry:
  %none = icmp eq ptr %block, null
  br i1 %none, label %end, label %some

some:
  %held.at = getelementptr ptr, ptr %table, i64 1
  %held = load ptr, ptr %held.at
  %free = icmp eq ptr %held, null
  %fills = and i1 %free, %whole
  br i1 %fills, label %check, label %drop

check:
  %alike = call i1 @nacre_alike(ptr %table, ptr %read, ptr %bases)
  br i1 %alike, label %keep, label %drop

keep:
  call void @nacre_declare(ptr %table, ptr %block, i64 1)
  store ptr %block, ptr %held.at
  ret void

drop:
  call void @Py_DecRef(ptr %block)
  br label %end

end:
  ret void
}

; Release packed inputs; a running call has its own reference.
define void @nacre_forget(ptr %table) nounwind {
entry:
  %block.at = getelementptr i64, ptr %table, i64 1
  %block = load ptr, ptr %block.at
  store ptr null, ptr %block.at
  %none = icmp eq ptr %block, null
  br i1 %none, label %end, label %drop

drop:
  call void @Py_DecRef(ptr %block)
  br label %end

end:
  ret void
}
"""
