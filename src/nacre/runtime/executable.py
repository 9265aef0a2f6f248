"""`Executable`: compiled kernels, a plan, constants and a signature; it runs on buffers.

Just-in-time functions call it, and ahead-of-time compilation writes it to files.  Each run allocates a workspace for
the arena, so that several calls may run in parallel.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from functools import cache
from typing import Any, cast

import numpy as np

from nacre.base import size_binding
from nacre.base.errors import CHECKED, Error
from nacre.base.locks import once
from nacre.base.progress import progress
from nacre.base.records import dataclass
from nacre.base.types import TensorType
from nacre.native import cache as objects
from nacre.native import compile_workers
from nacre.native.engine import Library, Target
from nacre.native.pool import begin as begin_pool
from nacre.native.pool import pool
from nacre.native.python.types import fields_of
from nacre.runtime.buffer import Buffer, allocate
from nacre.runtime.layouts import Outcome, PoolFunctions, Stopped
from nacre.runtime.plan import Binding, BoundPlan, Failure, Plan
from nacre.runtime.tables import address, record, row_type
from nacre.runtime.texts import driver_text, host_call_text


@dataclass(frozen=True)
class Unit:
    """A module that is compiled separately, with the names of the functions that it imports from units before.

    `shared` names those that it defines for the units behind it.  In a cached kernel, the key of the module's object
    replaces the text.
    """

    text: str
    names: tuple[str, ...] = ()
    shared: tuple[str, ...] = ()
    key: bytes = b""


@dataclass(frozen=True)
class Code:
    """The text of one kernel, the name of its function, and the units in which it is compiled here.

    The last unit defines the function; the units before are shared with other kernels.  `text` is complete by itself,
    and is the only unit of most kernels; a cached kernel has none.
    """

    text: str
    name: str
    units: tuple[Unit, ...] = ()

    def __post_init__(self) -> None:
        if not self.units:
            object.__setattr__(self, "units", (Unit(self.text),))

    @property
    def texts(self) -> tuple[str, ...]:
        """The texts to compile."""
        return tuple(u.text for u in self.units if not u.key)


HOST_CALL = "nacre.host_call"  # the kernel of host calls
CHECK = "nacre.check"  # the kernel of checks


@once
def driver_library(target: Target, stamped: bool) -> Library:
    """The machine code of the driver, loaded once in a process."""
    return objects.library(driver_text(target, stamped), target).keep()


@once
def pool_functions() -> np.ndarray:
    """The functions of this process's pool, for the driver."""
    symbols = pool().symbols()
    names = {field: symbols[f"nacre.pool_{field}"] for field in fields_of(PoolFunctions)}
    return record(PoolFunctions(**cast("Any", names)))


@cache
def driver(target: Target, stamped: bool = False) -> Any:
    """The native function that runs a bound plan without host calls."""
    run = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
    return run(driver_library(target, stamped).address("nacre.run"))


def failure(failures: Sequence[Failure], outcome: int) -> Error:
    """The error of a check that has failed, from the address of the Outcome."""
    memory: Any = (ctypes.c_char * row_type(Outcome).itemsize).from_address(outcome)
    found: Any = np.frombuffer(memory, row_type(Outcome))[0]
    failed, got = failures[int(found["number"])], int(found["got"])
    text = failed.text.format(low=found["low"], high=found["high"], got=got if failed.signed else got % (1 << 64))
    return CHECKED[failed.kind](text)


@cache
def host_driver(target: Target, stamped: bool = False) -> Any:
    """The native function that runs a bound plan with host calls; it raises their exceptions."""
    run_unless = driver_library(target, stamped).address("nacre.run_unless")
    run = ctypes.PYFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
    native = run(objects.library(host_call_text(target), target).keep().address("nacre.host_run"))

    def raising(descriptor: int, bases: int, workspace: int) -> int:
        """Run a bound plan: why it stopped, or 0."""
        return native(descriptor, bases, workspace, run_unless)

    return raising


@dataclass
class Executable:
    """A compiled graph.  `run` takes dense buffers and returns new ones.  A `stamped` one records times as it runs."""

    codes: tuple[Code, ...]
    plan: Plan
    constants: tuple[np.ndarray, ...]
    input_types: tuple[TensorType, ...]
    output_types: tuple[TensorType, ...]
    target: Target
    libraries: list[Library] = field(default_factory=list[Library])
    addresses: list[int] = field(default_factory=list[int])
    held: list[Buffer] = field(default_factory=list[Buffer])
    bounds: dict[tuple[object, ...], BoundPlan] = field(default_factory=dict[tuple[object, ...], BoundPlan])
    lock: threading.Lock = field(default_factory=threading.Lock)
    stamped: bool = False

    @property
    def driver_text(self) -> str:
        """The LLVM text of its driver."""
        return driver_text(self.target, self.stamped)

    def load(self) -> None:
        """Compile (or fetch) the kernels and load them; done once, at the first run."""
        with compile_workers.under_way(), self.lock:
            if self.addresses or not self.codes:
                return
            texts = {text for c in self.codes for text in c.texts}
            if texts:
                texts.add(self.driver_text)
            progress("compiling units", len(texts))
            objects.compile_all(sorted(texts, key=lambda text: (-len(text), text)), self.target)
            self.held = [_buffer_of(c) for c in self.constants]
            self.libraries = [self._library(c) for c in self.codes]
            self.addresses = [lib.address(c.name) for lib, c in zip(self.libraries, self.codes, strict=True)]

    def _library(self, code: Code) -> Library:
        """The library of the last unit, which keeps those that it needs loaded."""
        *before, last = code.units
        known: dict[str, Library] = {}
        for unit in before:
            found = self._linked(unit, known)
            known |= dict.fromkeys(unit.shared, found)
        return self._linked(last, known)

    def _linked(self, unit: Unit, known: Mapping[str, Library]) -> Library:
        """The library of a unit, which imports functions of known ones."""
        found = self._object(unit, {name: known[name].address(name) for name in unit.names})
        found.needs = tuple({id(known[name]): known[name] for name in unit.names}.values())
        return found

    def _object(self, unit: Unit, symbols: Mapping[str, int]) -> Library:
        if unit.key:
            return objects.shared().loaded(unit.key, symbols)
        return objects.library(unit.text, self.target, symbols)

    def sizes(self, shapes: Sequence[Sequence[int]]) -> dict[str, int]:
        """The values of the symbolic sizes, from the inputs' shapes."""
        return size_binding.solve(self.input_types, shapes)

    def bound(self, sizes: Mapping[str, int]) -> BoundPlan:
        """The plan's tables for given sizes and the current number of threads."""
        threads = pool().threads
        key = (threads, *sorted(sizes.items()))
        found = self.bounds.get(key)
        if found is None:
            binding = Binding(self.plan, sizes, threads)
            if binding.team > 1:
                begin_pool()
            self.load()
            functions = address(pool_functions()) if binding.team > 1 else 0
            found = binding.bound(self.addresses, [b.address for b in self.held], functions)
            found = self.bounds.setdefault(key, found)  # native code refers to the first tables
        return found

    def at(self, sizes: Mapping[str, int]) -> FixedExecutable:
        """The program for given sizes, with the machine code of this one."""
        return FixedExecutable(self, sizes)

    def run(self, inputs: Sequence[int], sizes: Mapping[str, int]) -> list[Buffer]:
        """Run on the inputs' addresses; returns the outputs' buffers.  The interpreter lock is free meanwhile."""
        bound = self.bound(sizes)
        outputs = [allocate(n) for n in bound.output_bytes]
        bases = np.array([*inputs, *(b.address for b in outputs), 0, 0], np.int64)
        workspace = allocate(bound.workspace_bytes)
        stopped = self.driver(bound.descriptor.ctypes.data, bases.ctypes.data, workspace.address)
        if stopped == Stopped.FAILED:
            raise failure(self.plan.failures, workspace.address + bound.outcome)
        return outputs

    @property
    def driver(self) -> Callable[[int, int, int], int]:
        """The native function that runs its plan, bound, and returns why it stopped, or 0.

        It takes the addresses of descriptor, bases and workspace.
        """
        return (host_driver if self.plan.calls_host else driver)(self.target, self.stamped)


class FixedExecutable(Executable):
    """A program for given sizes of another program's symbols, whose machine code it shares."""

    def __init__(self, whole: Executable, sizes: Mapping[str, int]) -> None:
        inputs, outputs = (tuple([t.at(sizes) for t in each]) for each in (whole.input_types, whole.output_types))
        super().__init__(whole.codes, whole.plan, whole.constants, inputs, outputs, whole.target, stamped=whole.stamped)
        self.whole, self.fixed = whole, dict(sizes)

    def load(self) -> None:
        """Load the machine code."""
        self.whole.load()
        self.libraries, self.held, self.addresses = self.whole.libraries, self.whole.held, self.whole.addresses

    def bound(self, sizes: Mapping[str, int]) -> BoundPlan:
        """The plan's tables for its sizes and the current number of threads."""
        return super().bound(self.fixed)


def _buffer_of(array: np.ndarray) -> Buffer:
    buffer = allocate(array.nbytes)
    dense = np.ascontiguousarray(array)
    ctypes.memmove(buffer.address, dense.ctypes.data, dense.nbytes)
    return buffer
