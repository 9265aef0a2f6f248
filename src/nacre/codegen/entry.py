"""Entry points from Python: one native function that checks its arguments, runs a bound plan, and wraps results.

Python calls a `METH_FASTCALL` function whose self is the address of a record.  The record says which types the
arguments must have and what to run.  Anything unusual (another type, a view, a traced value, an active interpreter)
goes to the record's fallback, which is Python.  Written on exported functions of the C-API only.

Record, in 64-bit words: inputs, outputs, descriptor, one unused, fallback, tensor class, buffer class, whether
to release the interpreter lock, address of the number of active interpreters, whether nodes go to the fallback, then
the inputs' types, then for each output its type, its bytes, and the input whose buffer it takes over (or -1).
"""

from __future__ import annotations

import ctypes
import threading
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from nacre.native import cache as objects
from nacre.native.engine import Target
from nacre.native.pool import pool
from nacre.runtime import buffer as buffers
from nacre.runtime.executable import Executable
from nacre.trace.bind import ACTIVE
from nacre.trace.value import Value, public_class

HEADER_WORDS = 10
SMALL_WORKSPACE = 8192  # kept on the stack
RELEASE_WORK = 400_000  # programs with more work than this release the interpreter lock
METH_FASTCALL = 0x80

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
declare void @nacre_run(ptr, ptr, ptr)
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
  %results = getelementptr i64, ptr %types, i64 %inputs
  %values = add i64 %inputs, %outputs
  %room = add i64 %values, 1
  %bases = alloca ptr, i64 %room, align 16
  %made = alloca ptr, i64 %room, align 16
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

input:                                            ; each argument: class, type, buffer, dense, no node
  %i = phi i64 [ 0, %quiet ], [ %i.next, %input.good ]
  %i.more = icmp slt i64 %i, %inputs
  br i1 %i.more, label %input.class, label %output

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
  %expected.at = getelementptr ptr, ptr %types, i64 %i
  %expected = load ptr, ptr %expected.at
  %arg.data.at = getelementptr i8, ptr %arg, i64 {data}
  %arg.data = load ptr, ptr %arg.data.at
  %data.class.at = getelementptr ptr, ptr %arg.data, i64 1
  %data.class = load ptr, ptr %data.class.at
  %arg.layout.at = getelementptr i8, ptr %arg, i64 {layout}
  %arg.layout = load ptr, ptr %arg.layout.at
  %arg.node.at = getelementptr i8, ptr %arg, i64 {node}
  %arg.node = load ptr, ptr %arg.node.at
  %same.type = icmp eq ptr %arg.type, %expected
  %is.buffer = icmp eq ptr %data.class, %buffer.class
  %is.dense = icmp eq ptr %arg.layout, @_Py_NoneStruct
  %no.node = icmp eq ptr %arg.node, @_Py_NoneStruct
  %node.fine = select i1 %checks.nodes, i1 %no.node, i1 true
  %fine.1 = and i1 %same.type, %is.buffer
  %fine.2 = and i1 %is.dense, %node.fine
  %fine = and i1 %fine.1, %fine.2
  br i1 %fine, label %input.good, label %slow

input.good:
  %arg.memory.at = getelementptr i8, ptr %arg.data, i64 16
  %arg.memory = load ptr, ptr %arg.memory.at
  %base.at = getelementptr ptr, ptr %bases, i64 %i
  store ptr %arg.memory, ptr %base.at
  %i.next = add i64 %i, 1
  br label %input

output:                                           ; a buffer for each output
  %o = phi i64 [ 0, %input ], [ %o.next, %output.good ]
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

work:                                             ; the arena, then the program
  %is.small = icmp sle i64 %bytes, {small}
  br i1 %is.small, label %run.small, label %arena

run.small:
  call void @nacre_run(ptr %descriptor, ptr %bases, ptr %small.workspace)
  br label %wrap

arena:
  %arena.buffer = call ptr @nacre_buffer_new(i64 %bytes)
  %no.arena = icmp eq ptr %arena.buffer, null
  br i1 %no.arena, label %undo, label %arena.good

arena.good:
  %arena.at = getelementptr i8, ptr %arena.buffer, i64 16
  %workspace = load ptr, ptr %arena.at
  %frees = icmp ne i64 %release, 0
  br i1 %frees, label %run.free, label %run.held

run.free:
  %saved = call ptr @PyEval_SaveThread()
  call void @nacre_run(ptr %descriptor, ptr %bases, ptr %workspace)
  call void @PyEval_RestoreThread(ptr %saved)
  br label %arena.drop

run.held:
  call void @nacre_run(ptr %descriptor, ptr %bases, ptr %workspace)
  br label %arena.drop

arena.drop:
  call void @Py_DecRef(ptr %arena.buffer)
  br label %wrap

wrap:
  %is.one = icmp eq i64 %outputs, 1
  br i1 %is.one, label %one, label %many

one:
  %one.buffer = load ptr, ptr %made
  %one.type = load ptr, ptr %results
  %one.tensor = call ptr @nacre_tensor(ptr %class, ptr %one.type, ptr %one.buffer)
  ret ptr %one.tensor

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

undo:                                             ; memory ran out: drop what was made
  %u = phi i64 [ %o, %output.fresh ], [ %outputs, %arena ], [ %u.next, %undo.one ]
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


def slot_offset(name: str) -> int:
    """Where a slot of `Value` lies in its instances: PyMemberDescrObject → PyMemberDef.offset."""
    descriptor = Value.__dict__[name]
    member = ctypes.c_void_p.from_address(id(descriptor) + 40).value
    assert member is not None
    return ctypes.c_ssize_t.from_address(member + 16).value


def entry_text() -> str:
    """The LLVM text of the entry, for this interpreter's object layout."""
    offsets = {name: slot_offset(name) for name in ("type", "data", "layout", "node")}
    text = TEXT.replace("{header}", str(HEADER_WORDS)).replace("{small}", str(SMALL_WORKSPACE))
    for name, offset in offsets.items():
        text = text.replace("{" + name + "}", str(offset))
    return text


@cache
def _method(target: Target, driver_text: str) -> _Method:
    run = objects.library(driver_text, target, pool().symbols()).address("nacre_run")
    symbols = {"nacre_run": run, "nacre_buffer_new": buffers.symbols()["nacre_buffer_new"]}
    address = objects.library(entry_text(), target, symbols).address("nacre_entry")
    return _Method(b"nacre_entry", address, METH_FASTCALL, b"Run a compiled program on tensors.")


@cache
def _new_function() -> Callable[..., Any]:
    new = ctypes.pythonapi.PyCFunction_NewEx
    new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]
    return new


@dataclass(frozen=True, eq=False)
class _Entry:
    """A record and what it was made from, to which native code refers."""

    record: np.ndarray
    executable: Executable
    held: tuple[object, ...]

    def bind(self) -> None:
        """Point the record to a plan for the current number of threads."""
        self.record[2] = self.executable.bound({}).descriptor.ctypes.data


class _Self(int):
    """The self of a native function: the address of its record, which it keeps alive."""

    entry: _Entry


_entries: weakref.WeakSet[_Entry] = weakref.WeakSet()
_listing = threading.Lock()


def rebind() -> None:
    """After a change of the number of threads: let all entries run on as many."""
    with _listing:
        known = list(_entries)
    for each in known:
        each.bind()


def entry(executable: Executable, fallback: Callable[..., Any], check_nodes: bool = True,
          donors: Mapping[int, int] | None = None) -> Callable[..., Any]:
    """A native callable: tensors of the executable's input types in, its results out (one, or a tuple).

    Whatever does not fit goes to `fallback` with the same arguments: other types, views, traced values, and
    with `check_nodes` values with nodes and calls inside a transformation.  `donors` names for some outputs the
    input whose buffer they take over; the caller sees to it that nobody else holds that buffer.
    """
    bound = executable.bound({})
    inputs, outputs = executable.input_types, executable.output_types
    words = [len(inputs), len(outputs), 0, 0, id(fallback), id(public_class()), id(buffers.native().type),
             int(bound.work > RELEASE_WORK), ctypes.addressof(ACTIVE), int(check_nodes), *map(id, inputs)]
    for k, (type, nbytes) in enumerate(zip(outputs, bound.output_bytes, strict=True)):
        words += [id(type), nbytes, (donors or {}).get(k, -1)]
    made = _Entry(np.array(words, np.int64), executable, (fallback, *inputs, *outputs))
    made.bind()
    with _listing:
        _entries.add(made)
    method = _method(executable.target, executable.driver_text)
    place = _Self(made.record.ctypes.data)
    place.entry = made
    return _new_function()(ctypes.addressof(method), place, None)
