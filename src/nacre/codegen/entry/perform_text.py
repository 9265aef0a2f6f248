"""The parts of the entry with variables as LLVM text."""

from __future__ import annotations

import time

from nacre.codegen.entry.layouts import SMALL_WORKSPACE, OriginObject, ProgramRecord, TensorObject
from nacre.native.python.types import offset_of, size_of
from nacre.runtime.layouts import SERIAL_OFFSET

# The blocks of a function that run a program: a buffer for each output, packed inputs, the arena, then the program.
# The function's block before them jumps to `perform`.  They end in `performed`, or in `failed` after a lack of memory
# or Ctrl-C.  They are inlined in each function, because a call would cost an eager operation a twentieth of its time.
PERFORM = """output:                                           ; a buffer for each output
  %o = phi i64 [ 0, %perform ], [ %o.next, %output.good ]
  %o.more = icmp slt i64 %o, %outputs
  br i1 %o.more, label %output.new, label %work

output.new:
  %result.index = mul i64 %o, 3
  %result.bytes.index = add i64 %result.index, 1
  %result.bytes.at = getelementptr i64, ptr %results, i64 %result.bytes.index
  %result.bytes = load i64, ptr %result.bytes.at
  %donor.index = add i64 %result.index, 2
  %donor.at = getelementptr i64, ptr %results, i64 %donor.index
  %donor = load i64, ptr %donor.at
  %donated = icmp sge i64 %donor, 0
  br i1 %donated, label %output.old, label %output.fresh

output.old:                                       ; the output takes over an input's buffer
  %old.at = getelementptr ptr, ptr %read, i64 %donor
  %old = load ptr, ptr %old.at
  call void @Py_IncRef(ptr %old)
  call void @nacre_buffer_renew(ptr %old)
  br label %output.good

output.fresh:
  %fresh = call ptr @nacre_buffer_new(i64 %result.bytes)
  %no.memory = icmp eq ptr %fresh, null
  br i1 %no.memory, label %undo, label %output.good

output.good:
  %new = phi ptr [ %old, %output.old ], [ %fresh, %output.fresh ]
  %made.at = getelementptr ptr, ptr %made, i64 %o
  store ptr %new, ptr %made.at
  %new.memory.at = getelementptr i8, ptr %new, i64 16
  %new.memory = load ptr, ptr %new.memory.at
  %out.index = add i64 %inputs, %o
  %out.at = getelementptr ptr, ptr %bases, i64 %out.index
  store ptr %new.memory, ptr %out.at
  %o.next = add i64 %o, 1
  br label %output

work:                                             ; packed inputs, the arena, then the program
  %about.at = getelementptr ptr, ptr %record, i64 {packed}
  %about = load ptr, ptr %about.at
  %after.outputs = getelementptr ptr, ptr %bases, i64 %values
  %packed.at = getelementptr ptr, ptr %after.outputs, i64 1
  store ptr null, ptr %packed.at
  %packs = icmp ne ptr %about, null
  br i1 %packs, label %pack, label %start

pack:
  %found = call ptr @nacre_packed(ptr %about, ptr %read, ptr %bases)
  %is.found = icmp ne ptr %found, null
  br i1 %is.found, label %packed, label %start

packed:
  %found.memory.at = getelementptr i8, ptr %found, i64 16
  %found.memory = load ptr, ptr %found.memory.at
  store ptr %found.memory, ptr %packed.at
  br label %start

start:
  %block = phi ptr [ null, %work ], [ null, %pack ], [ %found, %packed ]
  %is.small = icmp sle i64 %bytes, {small}
  %is.quick = icmp eq i64 %release, 0
  %is.held = and i1 %is.small, %is.quick
  br i1 %is.held, label %run.small, label %arena

run.small:
  call void @nacre_run(ptr %descriptor, ptr %bases, ptr %small.workspace)
  br label %ran

arena:
  %arena.buffer = call ptr @nacre_buffer_new(i64 %bytes)
  %no.arena = icmp eq ptr %arena.buffer, null
  br i1 %no.arena, label %unpacked, label %arena.good

arena.good:
  %arena.at = getelementptr i8, ptr %arena.buffer, i64 16
  %workspace = load ptr, ptr %arena.at
  %frees = icmp ne i64 %release, 0
  br i1 %frees, label %run.free, label %run.held

run.free:                                         ; without the interpreter lock: arguments may be given other memory
  call void @nacre_hold(ptr %read, i64 %inputs, i1 true)
  %stoppable.at = getelementptr i64, ptr %record, i64 3
  %stoppable = load i64, ptr %stoppable.at
  %is.stoppable = icmp ne i64 %stoppable, 0
  %check = select i1 %is.stoppable, ptr @nacre_interrupted, ptr null
  %saved = call ptr @PyEval_SaveThread()
  %thread.place = getelementptr ptr, ptr %question, i64 2
  store ptr %saved, ptr %thread.place
  %started = call i32 @clock_gettime(i32 {clock}, ptr %question)
  %stopped = call i64 @nacre_run_unless(ptr %descriptor, ptr %bases, ptr %workspace, ptr %check, ptr %question)
  call void @PyEval_RestoreThread(ptr %saved)
  %whole = icmp eq i64 %stopped, 0
  call void @nacre_keep(ptr %about, ptr %read, ptr %bases, ptr %block, i1 %whole)
  call void @nacre_hold(ptr %read, i64 %inputs, i1 false)
  call void @Py_DecRef(ptr %arena.buffer)
  br i1 %whole, label %performed, label %undo       ; an exception is set where it was interrupted

unpacked:
  call void @nacre_keep(ptr %about, ptr %read, ptr %bases, ptr %block, i1 false)
  br label %undo

run.held:
  call void @nacre_run(ptr %descriptor, ptr %bases, ptr %workspace)
  call void @Py_DecRef(ptr %arena.buffer)
  br label %ran

ran:
  call void @nacre_keep(ptr %about, ptr %read, ptr %bases, ptr %block, i1 true)
  br label %performed

undo:                                             ; memory ran out, or Ctrl-C: release the new buffers
  %u = phi i64 [ %o, %output.fresh ], [ %outputs, %unpacked ], [ %outputs, %run.free ], [ %u.next, %undo.one ]
  %u.more = icmp sgt i64 %u, 0
  br i1 %u.more, label %undo.one, label %failed

undo.one:
  %u.next = sub i64 %u, 1
  %u.at = getelementptr ptr, ptr %made, i64 %u.next
  %u.buffer = load ptr, ptr %u.at
  call void @Py_DecRef(ptr %u.buffer)
  br label %undo
"""

DECLARATIONS = """
declare ptr @PyLong_AsVoidPtr(ptr)
declare ptr @PyObject_Vectorcall(ptr, ptr, i64, ptr)
declare ptr @PyType_GenericAlloc(ptr, i64)
declare ptr @PyTuple_New(i64)
declare i32 @PyTuple_SetItem(ptr, i64, ptr)
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
declare void @Py_IncRef(ptr)
declare void @Py_DecRef(ptr)
declare ptr @nacre_buffer_new(i64)
declare void @nacre_buffer_renew(ptr)
declare i32 @PyErr_CheckSignals()
declare void @PyErr_Clear()
declare i32 @clock_gettime(i32, ptr)
declare void @nacre_run(ptr, ptr, ptr)
declare i64 @nacre_run_unless(ptr, ptr, ptr, ptr, ptr)
declare i64 @PyLong_AsSsize_t(ptr)
@_Py_NoneStruct = external global i8
"""

NUMBERS = {
    "header": size_of(ProgramRecord) // 8,
    "packed": offset_of(ProgramRecord, "packed") // 8,
    "small": SMALL_WORKSPACE,
    "clock": time.CLOCK_MONOTONIC,
    "serial": SERIAL_OFFSET,
    "type": offset_of(TensorObject, "value_type"),
    "data": offset_of(TensorObject, "content"),
    "layout": offset_of(TensorObject, "layout"),
    "node": offset_of(TensorObject, "node"),
    "level": offset_of(OriginObject, "level"),
}
