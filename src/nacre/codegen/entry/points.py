"""Entry points from Python: a native function checks its arguments, runs a bound plan, and wraps the results.

Python calls a `METH_FASTCALL` function whose self is the address of a record (`ProgramRecord` or `ViewRecord`), which
has the argument types and the program.  Unusual calls (another type, a view, a traced value, an active interpreter) go
to the record's fallback, which is Python.  The code uses only exported functions of the C API.
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable, Mapping
from dataclasses import field
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from nacre.base.locks import forkable, once
from nacre.base.records import dataclass
from nacre.base.state import SILENT
from nacre.base.types import TensorType
from nacre.codegen.entry import pulls, variables
from nacre.codegen.entry.layouts import (
    IGNORED,
    REFUSED,
    OperandType,
    PackedSource,
    PackedTable,
    ProgramRecord,
    ResultType,
    ViewRecord,
)
from nacre.codegen.entry.recording import Recording
from nacre.codegen.entry.slots import require_slots
from nacre.codegen.entry.texts import begin_text, entry_text, step_text, sweep_text, view_text
from nacre.codegen.entry.variables import ProgramVariables
from nacre.interpret.tape import NUMBERS as NODE_NUMBERS
from nacre.interpret.tape import TapeNode
from nacre.native import cache as objects
from nacre.native.cpython import METHOD_FASTCALL, MethodDefinition
from nacre.native.engine import Library, Target, host_target
from nacre.native.interpreter import require_interpreter
from nacre.native.records import pack, write_field
from nacre.runtime import buffer as buffers
from nacre.runtime.executable import Executable, driver_library, failure
from nacre.runtime.plan import PackedMemory
from nacre.runtime.tables import memory_of
from nacre.trace.bind import ACTIVE, INTERPRETING
from nacre.trace.value import Value, public_class

RELEASE_WORK = 400_000  # programs with more work than this release the interpreter lock, and those with host calls


@cache
def begin_step() -> None:
    """Compile the code that programs with variables need on another thread."""
    begin_text(step_text)


class _Method(NamedTuple):
    """CPython's definition of a native function, and the texts that it refers to."""

    definition: np.ndarray
    texts: tuple[object, ...]


class _Methods(NamedTuple):
    """The entry of programs, the function that frees packed inputs, and the symbols of entries."""

    call: _Method
    forget: Callable[[int], None]
    symbols: dict[str, int]


@once
def _methods(target: Target, stamped: bool) -> _Methods:
    require_interpreter()
    require_slots()
    driver = driver_library(target, stamped)
    symbols = {name: driver.address(name) for name in ("nacre.run", "nacre.run_unless")}
    known = buffers.symbols()
    symbols |= {name: known[name] for name in ("nacre.buffer_new", "nacre.buffer_renew")}
    symbols |= {
        "nacre.node_class": id(TapeNode),
        "nacre.node_numbers": id(NODE_NUMBERS),
        "nacre.zero": id(0),
        "nacre.silent": ctypes.addressof(SILENT),
    }
    library = objects.library(entry_text(target), target, symbols).keep()
    return _Methods(
        _method(library, "nacre.entry", "Run a program on tensors."),
        ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(library.address("nacre.forget")),
        symbols,
    )


@once
def _view_method(target: Target) -> _Method:
    library = objects.library(view_text(target), target, _methods(target, False).symbols).keep()
    return _method(library, "nacre.view", "A view of a tensor.")


@once
def _step_method(target: Target, stamped: bool) -> _Method:
    symbols = _methods(target, stamped).symbols | variables.symbols()
    library = objects.library(step_text(target), target, symbols).keep()
    return _method(library, variables.CALL, "Run a program on tensors and variables.")


@once
def sweep_function(target: Target) -> Callable[..., Any]:
    """The backward pass over plain nodes in native code (see `sweep`)."""
    symbols = _methods(target, False).symbols | pulls.symbols()
    library = objects.library(sweep_text(target), target, symbols).keep()
    method = _method(library, "nacre.sweep", "Process nodes of a backward pass.")
    return _new_function()(method.definition.ctypes.data, method, None)


def _method(library: Library, name: str, documentation: str) -> _Method:
    texts = ctypes.create_string_buffer(name.encode()), ctypes.create_string_buffer(documentation.encode())
    definition = pack(
        MethodDefinition,
        name=ctypes.addressof(texts[0]),
        function=library.address(name),
        flags=METHOD_FASTCALL,
        documentation=ctypes.addressof(texts[1]),
    )
    return _Method(memory_of(definition), texts)


@cache
def _new_function() -> Callable[..., Any]:
    new = ctypes.pythonapi.PyCFunction_NewEx
    new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]
    return new


@dataclass(eq=False)
class _Entry:
    """A record, and the objects that native code refers to through it."""

    record: np.ndarray
    referenced: tuple[object, ...]
    executable: Executable | None = None
    keeps: bool = False
    tables: dict[int, np.ndarray] = field(default_factory=dict[int, np.ndarray])  # of packed inputs, by plan
    release: Callable[[int], None] | None = None  # loaded early, because other threads may call while it runs

    def bind(self) -> None:
        """Point the record to a plan for the current number of threads.

        Each plan has its own table, because kernels pack for their share of the work; running calls refer to theirs.
        """
        if self.executable is None:
            return
        self.forget()
        bound = self.executable.bound({})
        place, packed = bound.descriptor.ctypes.data, bound.packed
        if self.keeps and packed.nbytes and place not in self.tables:
            self.tables[place] = _packed_table(packed)
        record = self.record.ctypes.data
        write_field(record, ProgramRecord, "descriptor", place)
        write_field(record, ProgramRecord, "packed", self.tables[place].ctypes.data if place in self.tables else 0)

    def forget(self) -> None:
        """Free the packed inputs."""
        for table in self.tables.values():
            if self.release is not None:
                self.release(table.__array_interface__["data"][0])  # `.ctypes` would import, too late at exit

    def __del__(self) -> None:
        if hasattr(self, "tables"):  # absent after an interrupt in the constructor
            self.forget()

    def function(self, method: _Method) -> Callable[..., Any]:
        """The native function with this record."""
        place = _Self(self.record.ctypes.data)
        place.entry = self
        return _new_function()(method.definition.ctypes.data, place, None)


def _packed_table(packed: PackedMemory) -> np.ndarray:
    """The table of a plan's packed inputs, none of which is packed yet."""
    head = pack(PackedTable, nbytes=packed.nbytes, source_count=len(packed.sources), value_count=len(packed.offsets))
    offsets = np.array(packed.offsets, np.int64).tobytes()
    return memory_of(head, *(pack(PackedSource, operand=k) for k in packed.sources), offsets)


class _Self(int):
    """The self of a native function: the address of its record, which it keeps alive."""

    entry: _Entry


_entries: weakref.WeakSet[_Entry] = weakref.WeakSet()
_listing = forkable()


def _all() -> list[_Entry]:
    with _listing:
        return list(_entries)


def rebind() -> None:
    """Bind all entries to the current number of threads, after it has changed."""
    for each in _all():
        each.bind()


def forget_packed() -> None:
    """Free the packed operands of all programs; they are packed again at the next call."""
    for each in _all():
        each.forget()


def entry(
    executable: Executable,
    fallback: Callable[..., Any],
    nodes: bool | Recording = True,
    donors: Mapping[int, int] | None = None,
    strided: bool = False,
    keeps: bool = False,
    any_mode: bool = False,
) -> Callable[..., Any]:
    """A native callable: tensors of the executable's input types in, its results out (one, or a tuple).

    Other calls go to `fallback` with the same arguments: other types, views and traced values.  Unless `nodes` is
    False, so do calls inside a transformation and values with nodes, except those that the Recording `nodes` can
    record.

    `donors` names, for some outputs, the input whose buffer they reuse; the caller ensures that no other object refers
    to that buffer.  With `strided`, inputs may be views; the caller ensures that they have the compiled strides.  With
    `keeps`, packed inputs (weights) are reused from the second call with the same inputs.  With `any_mode`, numerics
    need not be exact; the caller ensures that the mode is the compiled one.
    """
    bound, failing = executable.bound({}), _failing(executable)
    inputs, outputs = executable.input_types, executable.output_types
    record = pack(
        ProgramRecord,
        inputs=len(inputs),
        outputs=len(outputs),
        interruptible=int(not donors),
        fallback=id(fallback),
        tensor_class=id(public_class()),
        buffer_class=id(buffers.native().type),
        releases=int(bound.work > RELEASE_WORK or executable.plan.calls_host),
        active=ctypes.addressof(INTERPRETING if any_mode else ACTIVE),
        nodes=_about(nodes),
        failure=0 if failing is None else id(failing),
    )
    operands = [pack(OperandType, type=id(t), element=t.dtype.itemsize if strided else 0) for t in inputs]
    results = [
        pack(ResultType, type=id(t), nbytes=nbytes, donor=(donors or {}).get(k, -1))
        for k, (t, nbytes) in enumerate(zip(outputs, bound.output_bytes, strict=True))
    ]
    methods = _methods(executable.target, executable.stamped)
    new_entry = _Entry(
        memory_of(record, *operands, *results),
        (fallback, nodes, failing, *inputs, *outputs),
        executable,
        keeps,
        release=methods.forget,
    )
    new_entry.bind()
    with _listing:
        _entries.add(new_entry)
    return new_entry.function(methods.call)


def _failing(executable: Executable) -> Callable[[int], None] | None:
    """A function that raises the error of a check of a program; None without checks."""
    failures = executable.plan.failures
    if not failures:
        return None

    def fail(outcome: int) -> None:
        """Raise the error for an address of an Outcome."""
        raise failure(failures, outcome)

    return fail


def view_entry(
    type: TensorType, viewed: Value, fallback: Callable[..., Any], nodes: bool | Recording = True
) -> Callable[..., Any]:
    """A native callable from a dense tensor of a type to a view of its memory like `viewed`; otherwise as `entry`."""
    record = pack(
        ViewRecord,
        operand_type=id(type),
        result_type=id(viewed.type),
        result_layout=id(viewed.layout),
        fallback=id(fallback),
        tensor_class=id(public_class()),
        buffer_class=id(buffers.native().type),
        active=ctypes.addressof(ACTIVE),
        nodes=_about(nodes),
    )
    new_entry = _Entry(memory_of(record), (fallback, nodes, type, viewed.type, viewed.layout))
    return new_entry.function(_view_method(host_target()))


def step_entry(
    program: Callable[..., Any],
    results: int,
    around: ProgramVariables,
    holds: Callable[[], bool] | None,
    finish: object,
    fallback: Callable[..., Any],
) -> Callable[..., Any]:
    """A native callable from a program's arguments to its first results, which reads and writes its variables.

    `program` is a result of `entry`, with donors for hidden values (see `variables`).  `holds` says whether the
    program's other conditions still hold.  `finish` converts the tuple of results to the answer; it is `tuple` for the
    tuple itself, and None for a single result.
    """
    own: _Entry = program.__self__.entry  # type: ignore[attr-defined]
    words, referenced = variables.descriptor(own.record, results, around, holds, finish, fallback)
    new_entry = _Entry(words, (program, *referenced))
    executable = own.executable
    assert executable is not None
    return new_entry.function(_step_method(executable.target, executable.stamped))


def _about(nodes: bool | Recording) -> int:
    """What native code does about nodes, as a number."""
    return nodes.table.ctypes.data if isinstance(nodes, Recording) else REFUSED if nodes else IGNORED
