"""Entry points from Python: a native function checks its arguments, runs a bound plan, and wraps the results.

Python calls a `METH_FASTCALL` function whose self is the address of a record.  The record lists the argument types and
the program.  Unusual calls (another type, a view, a traced value, an active interpreter) go to the record's fallback,
which is Python.  The code uses only exported functions of the C API.
"""

from __future__ import annotations

import ctypes
import time
import weakref
from collections.abc import Callable, Mapping
from dataclasses import field
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np

from nacre.base.locks import forkable, once
from nacre.base.records import dataclass
from nacre.base.types import TensorType
from nacre.codegen.entry import call as entry_call
from nacre.codegen.entry import prepacked, tape_stub, variables
from nacre.codegen.entry import view as entry_view
from nacre.codegen.entry.call import DECLARATIONS, PACKED_WORD
from nacre.codegen.entry.driver import driver_text
from nacre.codegen.entry.tape_stub import Recording
from nacre.codegen.entry.variables import ProgramVariables
from nacre.native import cache as objects
from nacre.native import compile_workers
from nacre.native.engine import Library, Target, host_target
from nacre.native.pool import pool
from nacre.runtime import buffer as buffers
from nacre.runtime.executable import Executable
from nacre.runtime.heaptype import SERIAL_OFFSET
from nacre.trace.bind import ACTIVE, INTERPRETING
from nacre.trace.value import Value, public_class

RELEASE_WORK = 400_000  # programs with more work than this release the interpreter lock
METH_FASTCALL = 0x80
CLOCK = time.CLOCK_MONOTONIC


class _Method(ctypes.Structure):
    """CPython's PyMethodDef."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


def entry_text() -> str:
    """The LLVM text of the entries, for this interpreter's object layout."""
    return _numbered(DECLARATIONS + entry_call.TEXT + tape_stub.TEXT + entry_view.TEXT + prepacked.TEXT)


@cache
def step_text() -> str:
    """That of the entry with variables, which many processes do without."""
    return _numbered(DECLARATIONS + variables.TEXT)


def _numbered(text: str) -> str:
    numbers = {
        "header": entry_call.HEADER_WORDS,
        "packed": PACKED_WORD,
        "small": entry_call.SMALL_WORKSPACE,
        "clock": CLOCK,
        "serial": SERIAL_OFFSET,
    }
    for name, number in {**tape_stub.offsets(), **variables.offsets(), **numbers}.items():
        text = text.replace("{" + name + "}", str(number))
    return text


def begin() -> None:
    """Have the code that all programs need made by other threads: the driver's and the entry's."""
    for text in (entry_text(), driver_text()):
        compile_workers.begin(len(text), partial(_make, text))


@cache
def begin_step() -> None:
    """Have the code that programs with variables need made by another thread, unless an earlier process made it."""
    target = host_target()
    if not objects.shared().known(objects.key_of(step_text(), target)):
        objects.begin(step_text(), target)


def _make(text: str) -> None:
    objects.compile_cached(text, host_target())


class _Methods(NamedTuple):
    """The entry of a program, that of a view, what lets go of what is packed, and what `step_text` refers to."""

    call: _Method
    view: _Method
    forget: Callable[[int], None]
    symbols: dict[str, int]


@once
def _methods(target: Target, driver_text: str) -> _Methods:
    driver = objects.library(driver_text, target, pool().symbols()).keep()
    symbols = {name: driver.address(name) for name in ("nacre_run", "nacre_run_unless")}
    known = buffers.symbols()
    symbols |= {name: known[name] for name in ("nacre_buffer_new", "nacre_buffer_renew")}
    library = objects.library(entry_text(), target, symbols | tape_stub.symbols()).keep()
    return _Methods(
        _method(library, "nacre_entry", "Run a program on tensors."),
        _method(library, "nacre_view", "A view of a tensor."),
        ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(library.address("nacre_forget")),
        symbols | {name: library.address(name) for name in variables.SHARED},
    )


@once
def _step_method(target: Target, driver_text: str) -> _Method:
    symbols = _methods(target, driver_text).symbols | variables.symbols()
    library = objects.library(step_text(), target, symbols).keep()
    return _method(library, "nacre_step", "Run a program on tensors and variables.")


def _method(library: Library, name: str, about: str) -> _Method:
    return _Method(name.encode(), library.address(name), METH_FASTCALL, about.encode())


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
        if hasattr(self, "tables"):  # else an interrupt came while it was made
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

    `donors` names for some outputs the input whose buffer they take over; the caller ensures that no other object holds
    that buffer.  With `strided`, inputs may be views; the caller ensures that they have the compiled strides.  With
    `keeps`, packed inputs (weights) are kept from the second call with the same inputs.  With `any_mode`, numerics need
    not be exact; the caller ensures that the mode is the compiled one.
    """
    bound = executable.bound({})
    inputs, outputs = executable.input_types, executable.output_types
    words = [
        len(inputs),
        len(outputs),
        0,
        int(not donors),
        id(fallback),
        id(public_class()),
        id(buffers.native().type),
        int(bound.work > RELEASE_WORK),
        ctypes.addressof(INTERPRETING if any_mode else ACTIVE),
        _about(nodes),
        0,
    ]
    for type in inputs:
        words += [id(type), type.dtype.itemsize if strided else 0]
    for k, (type, nbytes) in enumerate(zip(outputs, bound.output_bytes, strict=True)):
        words += [id(type), nbytes, (donors or {}).get(k, -1)]
    methods = _methods(executable.target, executable.driver_text)
    made = _Entry(
        np.array(words, np.int64), (fallback, nodes, *inputs, *outputs), executable, keeps, release=methods.forget
    )
    made.bind()
    with _listing:
        _entries.add(made)
    return made.function(methods.call)


def view_entry(
    type: TensorType, viewed: Value, fallback: Callable[..., Any], nodes: bool | Recording = True
) -> Callable[..., Any]:
    """A native callable from a dense tensor of a type to a view of its memory like `viewed`; the rest as in `entry`."""
    words = [
        id(type),
        id(viewed.type),
        id(viewed.layout),
        id(fallback),
        id(public_class()),
        id(buffers.native().type),
        ctypes.addressof(ACTIVE),
        _about(nodes),
    ]
    made = _Entry(np.array(words, np.int64), (fallback, nodes, type, viewed.type, viewed.layout))
    return made.function(_methods(host_target(), driver_text()).view)


def step_entry(
    program: Callable[..., Any],
    results: int,
    around: ProgramVariables,
    holds: Callable[[], bool] | None,
    finish: object,
    fallback: Callable[..., Any],
) -> Callable[..., Any]:
    """A native callable from a program's arguments to its first results, with all else that it reads and writes.

    `program` is what `entry` made, with donors for what is hidden (see `variables`).  `holds` says whether
    what else the program depends on is as it was.  `finish` makes the answer of the tuple of results; it is `tuple` for
    that tuple itself, and None for the one result.
    """
    own: _Entry = program.__self__.entry  # type: ignore[attr-defined]
    words, held = variables.descriptor(own.record, results, around, holds, finish, fallback)
    made = _Entry(words, (program, *held))
    executable = own.executable
    assert executable is not None
    return made.function(_step_method(executable.target, executable.driver_text))


def _about(nodes: bool | Recording) -> int:
    return nodes.table.ctypes.data if isinstance(nodes, Recording) else int(nodes)
