"""How an entry runs its program: a buffer for each output, packed inputs, the workspace, then the program.

`perform` is inlined in each entry, because a call would cost an eager operation a twentieth of its time.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from nacre.codegen.entry.layouts import (
    SMALL_WORKSPACE,
    InterruptClock,
    PackedTable,
    ProgramRecord,
    ResultType,
    SmallWorkspace,
    TensorObject,
)
from nacre.codegen.entry.prepacked import keep, new_buffer, packed
from nacre.native.c_library import TimeSpec, clock_gettime
from nacre.native.cpython import (
    HAS_OBJECT_HEADERS,
    ObjectHeader,
    Py_DecRef,
    Py_IncRef,
    PyErr_CheckSignals,
    PyEval_RestoreThread,
    PyEval_SaveThread,
    PyLong_FromSsize_t,
    PyObject,
    PyObject_CallOneArg,
    PyType_GenericAlloc,
    none,
)
from nacre.native.linux import NANOSECONDS
from nacre.native.python.declarations import external, inline, native, null
from nacre.native.python.intrinsics import addr, cast, stack
from nacre.native.python.types import embed, i64, ptr, size_of, u8, u64
from nacre.runtime.layouts import BufferObject, Descriptor, Stopped

CLOCK: Final[int] = time.CLOCK_MONOTONIC
BETWEEN_SIGNALS: Final = NANOSECONDS // 10
FAILED: Final = int(Stopped.FAILED)


@external(symbol="nacre.buffer_renew")
def renew(buffer: BufferObject) -> None: ...


@external(symbol="nacre.run")
def run(descriptor: Descriptor, bases: ptr[ptr[u8]], workspace: ptr[u8]) -> i64: ...


@external(symbol="nacre.run_unless")
def run_unless(
    descriptor: Descriptor,
    bases: ptr[ptr[u8]],
    workspace: ptr[u8],
    check: Callable[[InterruptClock], i64],
    clock: InterruptClock,
) -> i64: ...


@inline
def results_of(record: ProgramRecord, inputs: i64) -> ptr[embed[ResultType]]:
    """The rows of a program's results."""
    return cast(ptr[embed[ResultType]], addr(record.operands[inputs]))


@native(symbol="nacre.hold")
def hold(objects: ptr[PyObject], count: i64, more: bool) -> None:
    """Acquire or release references to objects, such as the buffers that a call reads."""
    for k in range(count):
        if more:
            Py_IncRef(objects[k])
        else:
            Py_DecRef(objects[k])


@native(symbol="nacre.interrupted")
def interrupted(last: InterruptClock) -> i64:
    """Every tenth of a second: take the interpreter lock and let Python handle signals.  1 where that raised."""
    now = stack(TimeSpec, 16)
    clock_gettime(CLOCK, now)
    passed = (now.seconds - last.seconds) * NANOSECONDS + (now.nanoseconds - last.nanoseconds)
    if passed <= BETWEEN_SIGNALS:
        return 0
    last.seconds = now.seconds
    last.nanoseconds = now.nanoseconds
    PyEval_RestoreThread(last.thread)
    raised = PyErr_CheckSignals()
    last.thread = PyEval_SaveThread()
    return i64(raised != 0)


@native(symbol="nacre.tensor")
def new_tensor(tensor_class: PyObject, value_type: PyObject, buffer: BufferObject) -> TensorObject:
    """A tensor around a buffer, whose reference it takes over; null without memory."""
    tensor = cast(TensorObject, PyType_GenericAlloc(tensor_class, 0))
    if tensor == null:
        Py_DecRef(buffer)
        return null
    Py_IncRef(value_type)
    tensor.value_type = value_type
    tensor.content = buffer
    Py_IncRef(none)
    tensor.layout = none
    Py_IncRef(none)
    tensor.node = none
    return tensor


@inline
def weak_references(tensor: TensorObject) -> PyObject:
    """The first weak reference to a tensor, or null."""
    if HAS_OBJECT_HEADERS:
        return cast(ObjectHeader, cast(u64, tensor) - size_of(ObjectHeader)).weak_references
    return tensor.weak_references


@native(cold=True)
def undo(made: ptr[BufferObject], count: i64) -> None:
    """Release the new buffers: memory ran out, a check failed, or Ctrl-C came."""
    for k in range(count, 0, -1):
        Py_DecRef(made[k - 1])


@native(cold=True)
def fail(record: ProgramRecord, descriptor: Descriptor, workspace: ptr[u8]) -> None:
    """Raise the error of the check that has failed."""
    place = PyLong_FromSsize_t(cast(i64, addr(workspace[descriptor.scratch_offset])))
    if place != null:
        answer = PyObject_CallOneArg(record.failure, place)
        Py_DecRef(place)
        if answer != null:
            Py_DecRef(answer)


@native(cold=True)
def run_unlocked(record: ProgramRecord, descriptor: Descriptor, bases: ptr[ptr[u8]], workspace: ptr[u8]) -> bool:
    """Run a program without the interpreter lock; whether it ran to its end.  Otherwise an exception is set."""
    check: Callable[[InterruptClock], i64] = null
    if record.interruptible != 0:
        check = interrupted
    clock = stack(InterruptClock, 16)
    thread = PyEval_SaveThread()
    clock.thread = thread
    clock_gettime(CLOCK, clock)
    stopped = run_unless(descriptor, bases, workspace, check, clock)
    PyEval_RestoreThread(thread)
    if stopped == FAILED:
        fail(record, descriptor, workspace)
    return stopped == 0


@native
def run_in_arena(
    record: ProgramRecord,
    descriptor: Descriptor,
    nbytes: u64,
    inputs: i64,
    read: ptr[BufferObject],
    bases: ptr[ptr[u8]],
    table: PackedTable,
    block: BufferObject,
) -> bool:
    """Run a program with a workspace of its own, without the interpreter lock where it is long; whether it was done."""
    arena = new_buffer(nbytes)
    if arena == null:
        keep(table, read, bases, block, False)
        return False
    if record.releases == 0:
        done = run(descriptor, bases, arena.data) == 0
        if not done:
            fail(record, descriptor, arena.data)
        Py_DecRef(arena)
        keep(table, read, bases, block, done)
        return done
    buffers = cast(ptr[PyObject], read)
    hold(buffers, inputs, True)  # because arguments may be given other memory meanwhile
    whole = run_unlocked(record, descriptor, bases, arena.data)
    keep(table, read, bases, block, whole)
    hold(buffers, inputs, False)
    Py_DecRef(arena)
    return whole


@inline
def perform(
    record: ProgramRecord,
    inputs: i64,
    outputs: i64,
    read: ptr[BufferObject],
    bases: ptr[ptr[u8]],
    made: ptr[BufferObject],
) -> bool:
    """Run a program; whether it was done: otherwise an exception is set, as memory ran out, or a check failed.

    `read` are the buffers of the inputs, and `bases` the addresses of their first elements.  `made` receives a buffer
    with a reference for each output.  `bases` has room for the addresses of the outputs and two more.
    """
    results = results_of(record, inputs)
    descriptor = record.descriptor
    nbytes = descriptor.workspace_bytes
    for k in range(outputs):
        donor = results[k].donor
        buffer: BufferObject
        if donor >= 0:  # the output takes over an input's buffer
            buffer = read[donor]
            Py_IncRef(buffer)
            renew(buffer)
        else:
            buffer = new_buffer(results[k].nbytes)
            if buffer == null:
                undo(made, k)
                return False
        made[k] = buffer
        bases[inputs + k] = buffer.data
    table = record.packed
    bases[inputs + outputs + 1] = null
    block: BufferObject = null
    if table != null:
        block = packed(table, read, bases)
        if block != null:
            bases[inputs + outputs + 1] = block.data
    if nbytes > SMALL_WORKSPACE or record.releases != 0:
        if run_in_arena(record, descriptor, u64(nbytes), inputs, read, bases, table, block):
            return True
        undo(made, outputs)
        return False
    workspace = stack(SmallWorkspace, 64).memory
    if run(descriptor, bases, workspace) != 0:
        fail(record, descriptor, workspace)
        if block != null:
            keep(table, read, bases, block, False)
        undo(made, outputs)
        return False
    if block != null:
        keep(table, read, bases, block, True)
    return True
