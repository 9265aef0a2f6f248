"""The driver's functions, compiled and called with tables that are made by hand."""

from __future__ import annotations

import ctypes
import random
from collections.abc import Callable, Sequence
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np

from nacre.native import engine
from nacre.native.python.declarations import native
from nacre.native.python.module import module
from nacre.native.python.types import embed, i64, ptr, u8, u64
from nacre.native.python.unit import NativeModule
from nacre.runtime import driver, stamped_driver
from nacre.runtime.driver import Context, RunIterations
from nacre.runtime.layouts import Descriptor, Fixup, Move, PlanRow, PoolFunctions
from nacre.runtime.tables import record, row_type, table
from native.python.compiled import ctype

KERNEL = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)
CHECK = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)
CHUNK = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
ENTER = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)
SHARE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
LEAVE = ctypes.CFUNCTYPE(None)
SCRATCH = 64  # bytes of each thread


@native
def extent_of(context: Context, row: PlanRow) -> i64:
    return driver.extent_of(context, row)


@native
def take_chunk(context: Context, chunk: i64, thread: i64, run: RunIterations) -> None:
    driver.take_chunk(context, chunk, thread, run)


@native
def count_chunks(context: Context, rows: ptr[embed[PlanRow]], count: i64, first: i64, result: ptr[i64]) -> None:
    behind, chunks = driver.count_chunks(context, rows, count, first)
    result[0] = behind
    result[1] = chunks


@native
def move_addresses(arguments: ptr[u64], row: PlanRow, parity: i64) -> None:
    driver.move_addresses(arguments, row, parity)


@native
def restore_addresses(arguments: ptr[u64], row: PlanRow, iterations: i64) -> None:
    driver.restore_addresses(arguments, row, iterations)


@native
def control_flow(context: Context, row: PlanRow, following: i64, many: bool, several: bool, result: ptr[i64]) -> None:
    target, together = driver.control_flow(context, row, following, many, several)
    result[0] = target
    result[1] = i64(together)


@native
def write_arguments(descriptor: Descriptor, arguments: ptr[u64], bases: ptr[ptr[u8]], workspace: ptr[u8]) -> None:
    driver.write_arguments(descriptor, arguments, bases, workspace)


FUNCTIONS: list[Any] = [
    *(extent_of, take_chunk, count_chunks, move_addresses, restore_addresses, control_flow, write_arguments),
    *(driver.run_iterations, driver.must_stop, driver.walk, driver.run, driver.run_unless),
]
STAMPED: list[Any] = [stamped_driver.now, stamped_driver.stamp, stamped_driver.run, stamped_driver.run_unless]


@cache
def image(stamped: bool) -> bytes:
    return engine.compile_text(module(STAMPED if stamped else FUNCTIONS), engine.host_target())


def loaded(pool: SerialPool, stamped: bool = False) -> Any:
    """The functions by name, and the pool that their calls use."""
    library = engine.load(image(stamped)).keep()
    made = SimpleNamespace(pool=pool)
    for f in STAMPED if stamped else FUNCTIONS:
        signature = NativeModule("signatures", []).signature(f)
        kind = ctypes.CFUNCTYPE(ctype(signature.result), *map(ctype, signature.kinds))
        setattr(made, f.__name__, kind(library.address(f.symbol)))
    return made


class SerialPool:
    """A pool that runs the chunks of an epoch in any order, as if so many threads had taken them."""

    def __init__(self, threads: int = 1, seed: int = 0) -> None:
        self.threads, self.team, self.shared, self.inside = threads, 1, list[int](), False
        self.order = random.Random(seed)
        self.functions = ENTER(self.enter), SHARE(self.share), LEAVE(self.leave)
        places = [ctypes.cast(f, ctypes.c_void_p).value for f in self.functions]
        self.table = np.array(tuple(places), row_type(PoolFunctions))

    def enter(self, most: int) -> int:
        assert not self.inside
        self.team = min(most, self.threads)
        self.inside = self.team > 1
        return self.team

    def share(self, function: int, context: int, chunks: int) -> None:
        assert self.inside
        self.shared.append(chunks)
        for k in self.order.sample(range(chunks), chunks):
            CHUNK(function)(context, k, self.order.randrange(self.team))

    def leave(self) -> None:
        assert self.inside
        self.inside = False


def plan_row(**fields: Any) -> PlanRow:
    """A row whose other fields are zero."""
    return PlanRow(**fields)


def moves_of(*moves: tuple[int, int, int]) -> np.ndarray:
    """The table of some moves: argument, distances after even and odd iterations."""
    return table(Move, [Move(argument=a, distances=(even, odd)) for a, even, odd in moves])  # type: ignore[arg-type]


class HandMadeCall:
    """The tables of a call: rows, arguments, a workspace, and the context in which single functions run."""

    def __init__(
        self,
        rows: Sequence[PlanRow],
        arguments: Sequence[int],
        fixups: Sequence[Fixup] = (),
        team: int = 1,
        check: Callable[[int], int] | None = None,
    ) -> None:
        self.rows, self.fixups = table(PlanRow, rows), table(Fixup, fixups)
        self.template = np.array(arguments, np.int64)
        self.asked: list[int] = []
        self.check = CHECK(lambda question: self.asked.append(question) or check(question)) if check else None
        places = np.cumsum([0, 64, 8 * len(arguments), 8 * len(rows), SCRATCH * team]).tolist()
        self.workspace = np.zeros(places[-1] // 8, np.int64)
        self.arguments = self.workspace[places[1] // 8 : places[2] // 8]
        self.arguments[:] = arguments
        self.ends = self.workspace[places[2] // 8 : places[3] // 8]
        self.scratch = self.workspace.ctypes.data + places[3]
        self.descriptor = record(
            Descriptor(
                arguments=self.template.ctypes.data,  # type: ignore[arg-type]
                argument_count=len(arguments),
                fixups=self.fixups.ctypes.data,  # type: ignore[arg-type]
                fixup_count=len(fixups),
                rows=self.rows.ctypes.data,  # type: ignore[arg-type]
                row_count=len(rows),
                arguments_offset=places[1],
                ends_offset=places[2],
                scratch_offset=places[3],
                scratch_stride=SCRATCH,
                shared=2,
                team=team,
                pool=0,  # type: ignore[arg-type]
                workspace_bytes=places[-1],
                stamps=0,  # type: ignore[arg-type]
            )
        )
        self.context = np.zeros((), row_type(Context))
        values = {
            "descriptor": self.descriptor.ctypes.data,
            "arguments": self.arguments.ctypes.data,
            "ends": self.ends.ctypes.data,
            "scratch": self.scratch,
            "check": self.check_address,
            "question": 77,
        }
        for name, value in values.items():
            self.context[name] = value
        self.place = self.context.ctypes.data

    @property
    def check_address(self) -> int:
        """The address of the function that decides whether to stop, or 0."""
        return (ctypes.cast(self.check, ctypes.c_void_p).value or 0) if self.check else 0

    def row(self, k: int) -> int:
        """The address of a row."""
        return self.rows[k:].ctypes.data

    def run(self, functions: Any, bases: Sequence[int] = (0, 0, 0, 0)) -> int:
        """Run the whole plan; the answer of the check."""
        held = np.array(bases, np.int64)
        self.descriptor["pool"] = functions.pool.table.ctypes.data
        return functions.run_unless(
            self.descriptor.ctypes.data, held.ctypes.data, self.workspace.ctypes.data, self.check_address, 77
        )


class Recorder:
    """A kernel that notes its calls: the words at its first arguments, the iterations, and the scratch memory."""

    def __init__(self, words: int = 2) -> None:
        self.calls: list[tuple[tuple[int, ...], int, int, int]] = []
        self.words = words
        self.function = KERNEL(self.call)

    def call(self, arguments: int, low: int, high: int, scratch: int) -> None:
        held = (ctypes.c_int64 * self.words).from_address(arguments)
        self.calls.append((tuple(held), low, high, scratch))

    @property
    def address(self) -> Any:
        """The address for a row."""
        return ctypes.cast(self.function, ctypes.c_void_p).value
