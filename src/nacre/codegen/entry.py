"""Entry points from Python: one native function that checks its arguments, runs a bound plan, and wraps results.

Python calls a `METH_FASTCALL` function whose self is the address of a record.  The record says which types the
arguments must have and what to run.  Anything unusual (another type, a view, a traced value, an active interpreter)
goes to the record's fallback, which is Python.  Written on exported functions of the C-API only.

Record, in 64-bit words: inputs, outputs, descriptor, whether Ctrl-C may end it midway, fallback, tensor class, buffer
class, whether to release the interpreter lock, address of the number of active interpreters, what to do about nodes
(ignore them, call the fallback, or the address of a Recording's table), the table of what is packed (or 0, see
`codegen/entry_packed`), then for each input its type and, where it may be a view, the bytes of its elements (0: it must
be dense), then for each output its type, its bytes, and the input whose buffer it takes over (or -1).
"""

from __future__ import annotations

import ctypes
import time
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any

import numpy as np

from nacre.base.locks import forkable, once
from nacre.base.types import TensorType
from nacre.codegen import entry_packed, entry_view, record
from nacre.codegen.program import driver_text
from nacre.codegen.record import Recording
from nacre.native import cache as objects
from nacre.native import crew
from nacre.native.engine import Target, host_target
from nacre.native.pool import pool
from nacre.runtime import buffer as buffers
from nacre.runtime.executable import Executable
from nacre.runtime.heaptype import SERIAL_OFFSET
from nacre.trace.bind import ACTIVE, INTERPRETING
from nacre.trace.value import Value, public_class

HEADER_WORDS = 11
PACKED_WORD = 10
SMALL_WORKSPACE = 8192  # kept on the stack
RELEASE_WORK = 400_000  # programs with more work than this release the interpreter lock
METH_FASTCALL = 0x80
CLOCK = time.CLOCK_MONOTONIC

TEXT = """
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

define ptr @nacre_entry(ptr %self, ptr %args, i64 %given) nounwind {
entry:
  %record = call ptr @PyLong_AsVoidPtr(ptr %self)
  %inputs = load i64, ptr %record
  %outputs.at = getelementptr i64, ptr %record, i64 1
  %outputs = load i64, ptr %outputs.at
  %descriptor.at = getelementptr i64, ptr %record, i64 2
  %descriptor = load ptr, ptr %descriptor.at
  %bytes.at = getelementptr i64, ptr %descriptor, i64 12
  %bytes = load i64, ptr %bytes.at
  %fallback.at = getelementptr i64, ptr %record, i64 4
  %class.at = getelementptr i64, ptr %record, i64 5
  %class = load ptr, ptr %class.at
  %buffer.class.at = getelementptr i64, ptr %record, i64 6
  %buffer.class = load ptr, ptr %buffer.class.at
  %release.at = getelementptr i64, ptr %record, i64 7
  %release = load i64, ptr %release.at
  %active.at = getelementptr i64, ptr %record, i64 8
  %active.place = load ptr, ptr %active.at
  %nodes.at = getelementptr i64, ptr %record, i64 9
  %nodes = load i64, ptr %nodes.at
  %types = getelementptr i64, ptr %record, i64 {header}
  %inputs.words = shl i64 %inputs, 1
  %results = getelementptr i64, ptr %types, i64 %inputs.words
  %values = add i64 %inputs, %outputs
  %room = add i64 %values, 2
  %bases = alloca ptr, i64 %room, align 16
  %made = alloca ptr, i64 %room, align 16
  %read = alloca ptr, i64 %room, align 16
  %question = alloca [3 x i64], align 16
  %small.workspace = alloca [{small} x i8], align 64
  %count.fits = icmp eq i64 %given, %inputs
  %checks.nodes = icmp ne i64 %nodes, 0
  br i1 %count.fits, label %quiet, label %slow

quiet:                                            ; is no interpreter active?
  %active = load i64, ptr %active.place
  %idle = icmp eq i64 %active, 0
  %unchecked = xor i1 %checks.nodes, true
  %go = or i1 %idle, %unchecked
  br i1 %go, label %input, label %slow

input:                                            ; each argument: class, type, buffer, dense; those with nodes
  %i = phi i64 [ 0, %quiet ], [ %i.next, %input.good ]
  %mask = phi i64 [ 0, %quiet ], [ %mask.next, %input.good ]
  %i.more = icmp slt i64 %i, %inputs
  br i1 %i.more, label %input.class, label %noded

input.class:
  %arg.at = getelementptr ptr, ptr %args, i64 %i
  %arg = load ptr, ptr %arg.at
  %arg.class.at = getelementptr ptr, ptr %arg, i64 1
  %arg.class = load ptr, ptr %arg.class.at
  %is.tensor = icmp eq ptr %arg.class, %class
  br i1 %is.tensor, label %input.type, label %slow

input.type:
  %arg.type.at = getelementptr i8, ptr %arg, i64 {type}
  %arg.type = load ptr, ptr %arg.type.at
  %expected.index = shl i64 %i, 1
  %expected.at = getelementptr ptr, ptr %types, i64 %expected.index
  %expected = load ptr, ptr %expected.at
  %element.at = getelementptr i64, ptr %expected.at, i64 1
  %element = load i64, ptr %element.at
  %arg.data.at = getelementptr i8, ptr %arg, i64 {data}
  %arg.data = load ptr, ptr %arg.data.at
  %data.class.at = getelementptr ptr, ptr %arg.data, i64 1
  %data.class = load ptr, ptr %data.class.at
  %arg.layout.at = getelementptr i8, ptr %arg, i64 {layout}
  %arg.layout = load ptr, ptr %arg.layout.at
  %same.type = icmp eq ptr %arg.type, %expected
  %is.buffer = icmp eq ptr %data.class, %buffer.class
  %no.layout = icmp eq ptr %arg.layout, @_Py_NoneStruct
  %any.layout = icmp ne i64 %element, 0
  %is.dense = or i1 %no.layout, %any.layout
  %fine.1 = and i1 %same.type, %is.buffer
  %fine = and i1 %fine.1, %is.dense
  br i1 %fine, label %input.node, label %slow

input.node:
  %arg.node.at = getelementptr i8, ptr %arg, i64 {node}
  %arg.node = load ptr, ptr %arg.node.at
  %no.node = icmp eq ptr %arg.node, @_Py_NoneStruct
  %node.fine = or i1 %no.node, %unchecked
  br i1 %node.fine, label %input.start, label %input.noded

input.noded:
  %records = icmp ugt i64 %nodes, 1
  br i1 %records, label %input.level, label %slow

input.level:
  %arg.level.at = getelementptr i8, ptr %arg.node, i64 {level}
  %arg.level = load ptr, ptr %arg.level.at
  %arg.plain = icmp eq ptr %arg.level, @nacre_zero
  %arg.bit = shl i64 1, %i
  br i1 %arg.plain, label %input.start, label %slow

input.start:                                      ; where in its buffer does it begin?
  %bit = phi i64 [ 0, %input.node ], [ %arg.bit, %input.level ]
  %mask.next = or i64 %mask, %bit
  br i1 %no.layout, label %input.good, label %input.view

input.view:
  %first.at = getelementptr i8, ptr %arg.layout, i64 {offset}
  %first = load ptr, ptr %first.at
  %first.number = call i64 @PyLong_AsSsize_t(ptr %first)
  %first.bytes = mul i64 %first.number, %element
  br label %input.good

input.good:
  %arg.offset = phi i64 [ 0, %input.start ], [ %first.bytes, %input.view ]
  %arg.memory.at = getelementptr i8, ptr %arg.data, i64 16
  %arg.memory = load ptr, ptr %arg.memory.at
  %arg.first = getelementptr i8, ptr %arg.memory, i64 %arg.offset
  %base.at = getelementptr ptr, ptr %bases, i64 %i
  store ptr %arg.first, ptr %base.at
  %read.at = getelementptr ptr, ptr %read, i64 %i
  store ptr %arg.data, ptr %read.at
  %i.next = add i64 %i, 1
  br label %input

noded:                                            ; is it recorded, and by which rule?
  %any.node = icmp ne i64 %mask, 0
  br i1 %any.node, label %mode, label %output

mode:
  %recording = call i64 @nacre_records()
  %silent = icmp eq i64 %recording, 0
  br i1 %silent, label %output, label %sure

sure:
  %loud = icmp eq i64 %recording, 1
  br i1 %loud, label %rule.look, label %slow

rule.look:
  %table = inttoptr i64 %nodes to ptr
  %rule.at = getelementptr ptr, ptr %table, i64 %mask
  %rule.found = load ptr, ptr %rule.at
  %known = icmp ne ptr %rule.found, null
  br i1 %known, label %output, label %slow

output:                                           ; a buffer for each output
  %o = phi i64 [ 0, %noded ], [ 0, %mode ], [ 0, %rule.look ], [ %o.next, %output.good ]
  %rule = phi ptr [ null, %noded ], [ null, %mode ], [ %rule.found, %rule.look ], [ %rule, %output.good ]
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
  %old.arg.at = getelementptr ptr, ptr %args, i64 %donor
  %old.arg = load ptr, ptr %old.arg.at
  %old.data.at = getelementptr i8, ptr %old.arg, i64 {data}
  %old = load ptr, ptr %old.data.at
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

work:                                             ; what is packed, the arena, then the program
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
  br i1 %whole, label %wrap, label %undo            ; an exception is set where it was interrupted

unpacked:
  call void @nacre_keep(ptr %about, ptr %read, ptr %bases, ptr %block, i1 false)
  br label %undo

run.held:
  call void @nacre_run(ptr %descriptor, ptr %bases, ptr %workspace)
  call void @Py_DecRef(ptr %arena.buffer)
  br label %ran

ran:
  call void @nacre_keep(ptr %about, ptr %read, ptr %bases, ptr %block, i1 true)
  br label %wrap

wrap:
  %is.one = icmp eq i64 %outputs, 1
  br i1 %is.one, label %one, label %many

one:
  %one.buffer = load ptr, ptr %made
  %one.type = load ptr, ptr %results
  %one.tensor = call ptr @nacre_tensor(ptr %class, ptr %one.type, ptr %one.buffer)
  %is.recorded = icmp ne ptr %rule, null
  %is.made = icmp ne ptr %one.tensor, null
  %to.record = and i1 %is.recorded, %is.made
  br i1 %to.record, label %one.noded, label %one.plain

one.plain:
  ret ptr %one.tensor

one.noded:
  %recorded = call ptr @nacre_record(ptr %rule, ptr %args, i64 %inputs, ptr %one.tensor)
  ret ptr %recorded

many:
  %tuple = call ptr @PyTuple_New(i64 %outputs)
  %no.tuple = icmp eq ptr %tuple, null
  br i1 %no.tuple, label %failed, label %fill

fill:
  %w = phi i64 [ 0, %many ], [ %w.next, %fill.good ]
  %w.more = icmp slt i64 %w, %outputs
  br i1 %w.more, label %fill.one, label %filled

fill.one:
  %w.buffer.at = getelementptr ptr, ptr %made, i64 %w
  %w.buffer = load ptr, ptr %w.buffer.at
  %w.index = mul i64 %w, 3
  %w.type.at = getelementptr ptr, ptr %results, i64 %w.index
  %w.type = load ptr, ptr %w.type.at
  %w.tensor = call ptr @nacre_tensor(ptr %class, ptr %w.type, ptr %w.buffer)
  %no.tensor = icmp eq ptr %w.tensor, null
  br i1 %no.tensor, label %failed, label %fill.good

fill.good:
  %set = call i32 @PyTuple_SetItem(ptr %tuple, i64 %w, ptr %w.tensor)
  %w.next = add i64 %w, 1
  br label %fill

filled:
  ret ptr %tuple

undo:                                             ; memory ran out, or Ctrl-C: drop what was made
  %u = phi i64 [ %o, %output.fresh ], [ %outputs, %unpacked ], [ %outputs, %run.free ], [ %u.next, %undo.one ]
  %u.more = icmp sgt i64 %u, 0
  br i1 %u.more, label %undo.one, label %failed

undo.one:
  %u.next = sub i64 %u, 1
  %u.at = getelementptr ptr, ptr %made, i64 %u.next
  %u.buffer = load ptr, ptr %u.at
  call void @Py_DecRef(ptr %u.buffer)
  br label %undo

failed:
  ret ptr null

slow:
  %fallback = load ptr, ptr %fallback.at
  %answer = call ptr @PyObject_Vectorcall(ptr %fallback, ptr %args, i64 %given, ptr null)
  ret ptr %answer
}

; Hold what a call reads, or let go of it.
define internal void @nacre_hold(ptr %read, i64 %count, i1 %more) nounwind noinline {
entry:
  br label %next

next:
  %k = phi i64 [ 0, %entry ], [ %k.next, %done ]
  %left = icmp slt i64 %k, %count
  br i1 %left, label %one, label %end

one:
  %buffer.at = getelementptr ptr, ptr %read, i64 %k
  %buffer = load ptr, ptr %buffer.at
  br i1 %more, label %hold, label %let.go

hold:
  call void @Py_IncRef(ptr %buffer)
  br label %done

let.go:
  call void @Py_DecRef(ptr %buffer)
  br label %done

done:
  %k.next = add i64 %k, 1
  br label %next

end:
  ret void
}

; Every tenth of a second: take the interpreter lock and let Python handle signals.  1 where that raised.
define internal i64 @nacre_interrupted(ptr %question) nounwind {
entry:
  %now = alloca [2 x i64], align 16
  %told = call i32 @clock_gettime(i32 {clock}, ptr %now)
  %now.part.at = getelementptr i64, ptr %now, i64 1
  %last.part.at = getelementptr i64, ptr %question, i64 1
  %now.seconds = load i64, ptr %now
  %now.part = load i64, ptr %now.part.at
  %last.seconds = load i64, ptr %question
  %last.part = load i64, ptr %last.part.at
  %seconds = sub i64 %now.seconds, %last.seconds
  %part = sub i64 %now.part, %last.part
  %scaled = mul i64 %seconds, 1000000000
  %passed = add i64 %scaled, %part
  %due = icmp sgt i64 %passed, 100000000
  br i1 %due, label %ask, label %on

ask:
  store i64 %now.seconds, ptr %question
  store i64 %now.part, ptr %last.part.at
  %thread.place = getelementptr ptr, ptr %question, i64 2
  %thread = load ptr, ptr %thread.place
  call void @PyEval_RestoreThread(ptr %thread)
  %raised = call i32 @PyErr_CheckSignals()
  %again = call ptr @PyEval_SaveThread()
  store ptr %again, ptr %thread.place
  %stop = icmp ne i32 %raised, 0
  %answer = zext i1 %stop to i64
  ret i64 %answer

on:
  ret i64 0
}

; A tensor around a buffer, whose reference it takes over.
define internal ptr @nacre_tensor(ptr %class, ptr %type, ptr %buffer) nounwind {
entry:
  %tensor = call ptr @PyType_GenericAlloc(ptr %class, i64 0)
  %none = icmp eq ptr %tensor, null
  br i1 %none, label %fail, label %good

good:
  call void @Py_IncRef(ptr %type)
  %type.at = getelementptr i8, ptr %tensor, i64 {type}
  store ptr %type, ptr %type.at
  %data.at = getelementptr i8, ptr %tensor, i64 {data}
  store ptr %buffer, ptr %data.at
  call void @Py_IncRef(ptr @_Py_NoneStruct)
  %layout.at = getelementptr i8, ptr %tensor, i64 {layout}
  store ptr @_Py_NoneStruct, ptr %layout.at
  call void @Py_IncRef(ptr @_Py_NoneStruct)
  %node.at = getelementptr i8, ptr %tensor, i64 {node}
  store ptr @_Py_NoneStruct, ptr %node.at
  ret ptr %tensor

fail:
  call void @Py_DecRef(ptr %buffer)
  ret ptr null
}
"""


class _Method(ctypes.Structure):
    """CPython's PyMethodDef."""

    _fields_ = (("name", ctypes.c_char_p), ("function", ctypes.c_void_p), ("flags", ctypes.c_int),
                ("doc", ctypes.c_char_p))


def entry_text() -> str:
    """The LLVM text of the entry, for this interpreter's object layout."""
    text = TEXT + record.TEXT + entry_view.TEXT + entry_packed.TEXT
    numbers = {"header": HEADER_WORDS, "packed": PACKED_WORD, "small": SMALL_WORKSPACE, "clock": CLOCK,
               "serial": SERIAL_OFFSET}
    for name, number in {**record.offsets(), **numbers}.items():
        text = text.replace("{" + name + "}", str(number))
    return text


def begin() -> None:
    """Have the code that all programs need made by other threads: the driver's and the entry's."""
    for text in (entry_text(), driver_text()):
        crew.begin(len(text), partial(_make, text))


def _make(text: str) -> None:
    objects.compile_cached(text, host_target())


@once
def _methods(target: Target, driver_text: str) -> tuple[_Method, _Method, Callable[[int], None]]:
    """The entry of a program, that of a view, and what lets go of what is packed."""
    driver = objects.library(driver_text, target, pool().symbols()).keep()
    symbols = {name: driver.address(name) for name in ("nacre_run", "nacre_run_unless")}
    known = buffers.symbols()
    symbols |= {name: known[name] for name in ("nacre_buffer_new", "nacre_buffer_renew")} | record.symbols()
    library = objects.library(entry_text(), target, symbols).keep()
    return (_Method(b"nacre_entry", library.address("nacre_entry"), METH_FASTCALL, b"Run a program on tensors."),
            _Method(b"nacre_view", library.address("nacre_view"), METH_FASTCALL, b"A view of a tensor."),
            ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(library.address("nacre_forget")))


@cache
def _new_function() -> Callable[..., Any]:
    new = ctypes.pythonapi.PyCFunction_NewEx
    new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]
    return new


@dataclass(eq=False)
class _Entry:
    """A record and what it was made from, to which native code refers."""

    record: np.ndarray
    held: tuple[object, ...]
    executable: Executable | None = None
    keeps: bool = False
    tables: dict[int, np.ndarray] = field(default_factory=dict[int, np.ndarray])  # of what is packed, by plan
    release: Callable[[int], None] | None = None  # at once, as other threads may call meanwhile

    def bind(self) -> None:
        """Point the record to a plan for the current number of threads.

        Each plan has a table of its own, as kernels pack for their share of the work; calls under way refer to theirs.
        """
        if self.executable is None:
            return
        self.forget()
        bound = self.executable.bound({})
        place, about = bound.descriptor.ctypes.data, bound.packed
        if self.keeps and about.nbytes and place not in self.tables:
            sources = [word for k in about.sources for word in (k, 0, 0)]
            words = [about.nbytes, 0, len(about.sources), len(about.offsets), *sources, *about.offsets]
            self.tables[place] = np.array(words, np.int64)
        self.record[2] = place
        self.record[PACKED_WORD] = self.tables[place].ctypes.data if place in self.tables else 0

    def forget(self) -> None:
        """Let go of what is packed."""
        for table in self.tables.values():
            if self.release is not None:
                self.release(table.__array_interface__["data"][0])  # its `ctypes` would import: it may be too late

    def __del__(self) -> None:
        self.forget()

    def function(self, method: _Method) -> Callable[..., Any]:
        """The native function with this record."""
        place = _Self(self.record.ctypes.data)
        place.entry = self
        return _new_function()(ctypes.addressof(method), place, None)


class _Self(int):
    """The self of a native function: the address of its record, which it keeps alive."""

    entry: _Entry


_entries: weakref.WeakSet[_Entry] = weakref.WeakSet()
_listing = forkable()


def _all() -> list[_Entry]:
    with _listing:
        return list(_entries)


def rebind() -> None:
    """After a change of the number of threads: let all entries run on as many."""
    for each in _all():
        each.bind()


def forget_packed() -> None:
    """Let go of what programs have packed of their operands; they pack it again when they are called."""
    for each in _all():
        each.forget()


def entry(executable: Executable, fallback: Callable[..., Any], nodes: bool | Recording = True,
          donors: Mapping[int, int] | None = None, strided: bool = False, keeps: bool = False,
          any_mode: bool = False) -> Callable[..., Any]:
    """A native callable: tensors of the executable's input types in, its results out (one, or a tuple).

    Whatever does not fit goes to `fallback` with the same arguments: other types, views, traced values, and
    unless `nodes` is False calls inside a transformation and values with nodes, except those that the Recording
    given as `nodes` knows how to record.  `donors` names for some outputs the input whose buffer they take over; the
    caller sees to it that nobody else holds that buffer.  With `strided`, inputs may be views; the caller sees to it
    that they have the strides for which the executable was compiled.  With `keeps`, what kernels pack of inputs
    (packed weights) is kept from the second call with the same ones on.  With `any_mode`, numerics need not be exact:
    the caller sees to it that they are those for which the executable was compiled.
    """
    bound = executable.bound({})
    inputs, outputs = executable.input_types, executable.output_types
    words = [len(inputs), len(outputs), 0, int(not donors), id(fallback), id(public_class()), id(buffers.native().type),
             int(bound.work > RELEASE_WORK), ctypes.addressof(INTERPRETING if any_mode else ACTIVE), _about(nodes), 0]
    for type in inputs:
        words += [id(type), type.dtype.itemsize if strided else 0]
    for k, (type, nbytes) in enumerate(zip(outputs, bound.output_bytes, strict=True)):
        words += [id(type), nbytes, (donors or {}).get(k, -1)]
    method, _, forget = _methods(executable.target, executable.driver_text)
    made = _Entry(np.array(words, np.int64), (fallback, nodes, *inputs, *outputs), executable, keeps, release=forget)
    made.bind()
    with _listing:
        _entries.add(made)
    return made.function(method)


def view_entry(type: TensorType, viewed: Value, fallback: Callable[..., Any],
               nodes: bool | Recording = True) -> Callable[..., Any]:
    """A native callable from a dense tensor of a type to a view of its memory like `viewed`; the rest as in `entry`."""
    words = [id(type), id(viewed.type), id(viewed.layout), id(fallback), id(public_class()), id(buffers.native().type),
             ctypes.addressof(ACTIVE), _about(nodes)]
    made = _Entry(np.array(words, np.int64), (fallback, nodes, type, viewed.type, viewed.layout))
    return made.function(_methods(host_target(), driver_text())[1])


def _about(nodes: bool | Recording) -> int:
    return nodes.table.ctypes.data if isinstance(nodes, Recording) else int(nodes)
