"""A machine for the native functions of entries: objects made by hand, and a CPython and runtime that are played.

Every object has a count of references.  At 0 it is freed, and releases the objects that its fields refer to.  `room`
is the number of allocations that succeed from then on.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from nacre.codegen.entry import call, perform, prepacked, tape_stub, view
from nacre.codegen.entry.layouts import InterruptClock, NodeObject, ProgramRecord, SilentThreads, TensorObject
from nacre.native import c_library, cpython, engine
from nacre.native.c_library import TimeSpec
from nacre.native.cpython import PyObject
from nacre.native.python.declarations import native, null
from nacre.native.python.module import module
from nacre.native.python.types import Kind, PointerKind, StructKind, fields_of, i64, ptr, struct, struct_of, u8
from nacre.native.python.unit import NativeModule
from nacre.native.records import pack, read_field, write_field
from nacre.runtime.layouts import BufferObject, Descriptor
from nacre.runtime.tables import memory_of
from native.python.compiled import ctype


@native
def perform_program(
    record: ProgramRecord, read: ptr[BufferObject], bases: ptr[ptr[u8]], made: ptr[BufferObject]
) -> bool:
    return perform.perform(record, record.inputs, record.outputs, read, bases, made)


@native
def has_weak_references(tensor: TensorObject) -> i64:
    return i64(perform.weak_references(tensor) != null)


FUNCTIONS: list[Any] = [
    *(prepacked.alike, prepacked.declare, prepacked.packed, prepacked.keep, prepacked.forget),
    *(
        perform.hold,
        perform.interrupted,
        perform.new_tensor,
        perform.undo,
        perform.fail,
        perform.run_unlocked,
        perform.run_in_arena,
    ),
    *(perform_program, has_weak_references, tape_stub.records, tape_stub.recorded),
    *(call.entry, call.several, view.view),
]


STATE = 77  # of a thread
UNCOUNTED = ("type", "weak_references", *fields_of(PyObject))


@struct
class NumberObject(PyObject):
    number: i64


PLAYED: list[Any] = [
    *(cpython.Py_IncRef, cpython.Py_DecRef, cpython.PyType_GenericAlloc, cpython.PyTuple_New, cpython.PyTuple_SetItem),
    *(cpython.PyIter_Next, cpython.PyThread_get_thread_ident, cpython.PyEval_SaveThread, cpython.PyEval_RestoreThread),
    *(cpython.PyErr_CheckSignals, cpython.PyErr_Clear, cpython.PyLong_AsVoidPtr, cpython.PyLong_AsSsize_t),
    *(cpython.PyLong_FromSsize_t, cpython.PyObject_CallOneArg),
    *(cpython.PyObject_Vectorcall, c_library.clock_gettime),
    *(prepacked.new_buffer, perform.renew, perform.run, perform.run_unless),
]


def function_type(function: Any) -> Any:
    """The type of ctypes that a native function has; calls keep the interpreter lock."""
    signature = NativeModule("signatures", []).signature(function)
    return ctypes.PYFUNCTYPE(ctype(signature.result), *map(ctype, signature.kinds))


@cache
def image() -> bytes:
    return engine.compile_text(module(FUNCTIONS), engine.host_target())


def is_object(kind: Kind) -> bool:
    """Whether a field refers to an object of CPython."""
    owner = kind.element if isinstance(kind, PointerKind) else None
    return isinstance(owner, StructKind) and owner.extends(struct_of(PyObject))


class Machine:
    """The functions by name, and the objects around them."""

    def __init__(self) -> None:
        self.kept: list[Any] = []
        self.counts: dict[int, int] = {}
        self.structures: dict[int, type[Any]] = {}
        self.tuples: dict[int, list[int]] = {}
        self.freed: list[int] = []
        self.log: list[Any] = []
        self.faults: list[Exception] = []
        self.room = 1 << 30
        self.now: tuple[int, int] = (0, 0)
        self.thread, self.raises, self.stops = 5, 0, 0
        self.answer = 0  # of fallbacks
        self.none, self.zero, self.numbers = (self.object(PyObject) for _ in range(3))
        self.tensor_class, self.node_class, self.buffer_class = (self.object(PyObject) for _ in range(3))
        self.silent = self.memory(pack(SilentThreads))
        symbols = {each.symbol: self._callback(each) for each in PLAYED}
        symbols |= {"_Py_NoneStruct": self.none, "nacre.zero": self.zero, "nacre.node_numbers": self.numbers}
        symbols |= {"nacre.node_class": self.node_class, "nacre.silent": self.silent}
        self.library = engine.load(image(), symbols).keep()
        for f in FUNCTIONS:
            setattr(self, f.__name__, function_type(f)(self.library.address(f.symbol)))

    def __getattr__(self, name: str) -> Callable[..., Any]:
        """A native function; here only for the type checker."""
        raise AttributeError(name)

    def _callback(self, played: Any) -> int:
        """The address of the method that plays an external function."""

        def answer(*args: Any) -> Any:
            """What the method answers; native code cannot pass its errors on."""
            try:
                return getattr(self, played.__name__)(*args)
            except Exception as fault:
                self.faults.append(fault)

        made = function_type(played)(answer)
        self.kept.append(made)
        address = ctypes.cast(made, ctypes.c_void_p).value
        assert address is not None
        return address

    # ---- memory

    def memory(self, *parts: bytes) -> int:
        """The address of packed structures."""
        made = memory_of(*parts)
        self.kept.append(made)
        return made.ctypes.data

    def words(self, *values: int) -> Any:
        """Words, as an array."""
        made = np.array(values, np.int64)
        self.kept.append(made)
        return made

    def object(self, structure: type[Any], **fields: int) -> int:
        """A new object with one reference; it takes over those in its fields."""
        made = self.memory(pack(structure, **fields))
        self.counts[made], self.structures[made] = 1, structure
        return made

    def buffer(self, **fields: int) -> int:
        """A Buffer over 64 bytes of its own."""
        data = self.words(*range(8)).ctypes.data
        return self.object(BufferObject, **{"type": self.buffer_class, "data": data, "nbytes": 64, **fields})

    def tensor(self, **fields: int) -> int:
        """A dense tensor without a node."""
        given = {"type": self.tensor_class, "layout": self.none, "node": self.none, **fields}
        if "content" not in given:
            given["content"] = self.buffer()
        for name in ("layout", "node", "value_type"):
            self.counts[given[name]] += 1
        return self.object(TensorObject, **given)

    def get(self, address: int, structure: type[Any], field: str) -> int:
        return read_field(address, structure, field)

    def put(self, address: int, structure: type[Any], field: str, value: int) -> None:
        write_field(address, structure, field, value)

    def descriptor(self, nbytes: int) -> int:
        """A bound plan that needs so much workspace."""
        return self.memory(pack(Descriptor, workspace_bytes=nbytes))

    def living(self) -> dict[int, int]:
        """The references of all objects that are not freed."""
        return {k: n for k, n in self.counts.items() if n}

    # ---- what native code calls

    def may(self) -> bool:
        """Whether an allocation succeeds."""
        self.room -= 1
        return self.room >= 0

    def Py_IncRef(self, x: int) -> None:
        assert self.counts[x] > 0, "the object is freed"
        self.counts[x] += 1

    def Py_DecRef(self, x: int | None) -> None:
        if not x:
            return
        assert self.counts[x] > 0, "the object is freed"
        self.counts[x] -= 1
        if not self.counts[x]:
            self.freed.append(x)
            structure = self.structures[x]
            names = [n for n, f in struct_of(structure).fields.items() if is_object(f.kind) and n not in UNCOUNTED]
            for held in [*(self.get(x, structure, n) for n in names), *self.tuples.get(x, ())]:
                self.Py_DecRef(held)

    def PyType_GenericAlloc(self, kind: int, count: int) -> int:
        structures = {self.tensor_class: TensorObject, self.node_class: NodeObject}
        return self.object(structures[kind], type=kind) if self.may() else 0

    def PyTuple_New(self, count: int) -> int:
        if not self.may():
            return 0
        made = self.object(PyObject)
        self.tuples[made] = [0] * count
        return made

    def PyTuple_SetItem(self, made: int, k: int, item: int) -> int:
        assert not self.tuples[made][k]
        self.tuples[made][k] = item
        return 0

    def PyIter_Next(self, iterator: int) -> int:
        assert iterator == self.numbers
        return self.object(PyObject) if self.may() else 0

    def PyThread_get_thread_ident(self) -> int:
        return self.thread

    def PyEval_SaveThread(self) -> int:
        self.log.append("save")
        return STATE

    def PyEval_RestoreThread(self, state: int) -> None:
        assert state == STATE
        self.log.append("restore")

    def PyErr_CheckSignals(self) -> int:
        self.log.append("signals")
        return self.raises

    def PyErr_Clear(self) -> None:
        self.log.append("clear")

    def PyLong_AsVoidPtr(self, x: int) -> int:
        return x  # the self of an entry is its record

    def PyLong_AsSsize_t(self, x: int) -> int:
        return self.get(x, NumberObject, "number")

    def PyObject_Vectorcall(self, function: int, args: int, count: int, names: int | None) -> int:
        assert not names
        self.log.append(("fallback", function, args, count))
        return self.answer

    def clock_gettime(self, clock: int, place: int) -> int:
        self.put(place, TimeSpec, "seconds", self.now[0])
        self.put(place, TimeSpec, "nanoseconds", self.now[1])
        return 0

    def new_buffer(self, nbytes: int) -> int:
        if not self.may():
            return 0
        self.log.append(("new", nbytes))
        return self.buffer(nbytes=nbytes)

    def renew(self, buffer: int) -> None:
        self.log.append(("renew", buffer))

    def PyLong_FromSsize_t(self, number: int) -> int:
        return self.object(NumberObject, number=number)

    def PyObject_CallOneArg(self, function: int, argument: int) -> int:
        self.log.append(("failure", function, self.get(argument, NumberObject, "number")))
        return 0

    def run(self, descriptor: int, bases: int, workspace: int) -> int:
        self.log.append(("run", descriptor, workspace))
        return self.stops

    def run_unless(self, descriptor: int, bases: int, workspace: int, check: int | None, clock: int) -> int:
        self.log.append(("run_unless", descriptor, workspace, bool(check), self.get(clock, InterruptClock, "thread")))
        return self.stops
