"""The entry of a program with variables: it reads their values, runs the program, and stores new values.

All of it runs under the interpreter lock, which a long program releases while it runs.  So no thread sees some
variables with new values and others with old ones.  All steps that may fail come before the program, except the
allocation of its memory, which comes before its first kernel: a call that raises has changed nothing.  Variables whose
memory the program overwrites have placeholders meanwhile (see `hidden` in `trace/variable`), if no other object refers
to their values.  Other calls go to the fallback, which is Python.
"""

from __future__ import annotations

from nacre.codegen.entry.layouts import ProgramRecord, StepRecord, TensorObject
from nacre.codegen.entry.perform import hold, perform
from nacre.codegen.entry.step_operands import prepare, show, updating
from nacre.codegen.entry.step_results import answer, make_tensors, store
from nacre.codegen.entry.watched import watched_are_same
from nacre.native.cpython import (
    Py_DecRef,
    PyErr_Fetch,
    PyErr_Restore,
    PyLong_AsVoidPtr,
    PyObject,
    PyObject_Vectorcall,
    RaisedError,
    false,
    true,
)
from nacre.native.python.declarations import native, null
from nacre.native.python.intrinsics import addr, cast, stack, stack_array
from nacre.native.python.types import i64, ptr, u8, u64
from nacre.runtime.layouts import BufferObject


@native
def ask(function: PyObject, args: ptr[PyObject], count: i64) -> i64:
    """What a function answers: 1 for True, -1 where it raised, else 0."""
    made = PyObject_Vectorcall(function, args, count, null)
    if made == null:
        return -1
    yes = made == true
    Py_DecRef(made)
    return i64(yes)


@native
def lock(step: StepRecord) -> i64:
    """Lock updates unless another thread does: 1 where it did, -1 where that raised, else 0."""
    if step.hidden_count == 0:
        return 1
    wait = stack_array(PyObject, 1)
    wait[0] = false
    return ask(step.acquire, wait, 1)


@native
def unlock(step: StepRecord) -> None:
    """The update is done: unlock updates, if this call locked them."""
    if step.hidden_count != 0:
        updating.thread = 0
        ask(step.release, addr(step.release), 0)


@native
def run_program(program: ProgramRecord, read: ptr[BufferObject], bases: ptr[ptr[u8]], made: ptr[BufferObject]) -> bool:
    """Run a program on its inputs.  Whether it was done: memory may run out, and Ctrl-C may come."""
    return perform(program, program.inputs, program.outputs, read, bases, made)


@native
def take_back(step: StepRecord, operands: ptr[TensorObject], tensors: ptr[TensorObject]) -> None:
    """As if nothing had been: memory ran out, a check failed, or Ctrl-C came.  The exception remains set."""
    error = stack(RaisedError)
    PyErr_Fetch(addr(error.kind), addr(error.value), addr(error.traceback))
    show(step, operands)
    unlock(step)
    hold(cast(ptr[PyObject], operands), step.program.inputs, False)
    hold(cast(ptr[PyObject], tensors), step.program.outputs + 1, False)
    PyErr_Restore(error.kind, error.value, error.traceback)


@native
def fall_back(step: StepRecord, args: ptr[PyObject], given: i64) -> PyObject:
    """The answer of the fallback to the same call."""
    return PyObject_Vectorcall(step.fallback, args, given, null)


@native(symbol="nacre.step")
def call(self: PyObject, args: ptr[PyObject], given: i64) -> PyObject:
    """The function that Python calls, whose self is the address of a StepRecord."""
    step = cast(StepRecord, PyLong_AsVoidPtr(self))
    program = step.program
    if given != step.arguments or program.active[0] != 0:
        return fall_back(step, args, given)
    if step.watched_count != 0 and not watched_are_same(step):
        return fall_back(step, args, given)
    if step.holds != null:  # is all that was read while tracing as it was?
        held = ask(step.holds, args, 0)
        if held != 1:
            return null if held < 0 else fall_back(step, args, given)
    inputs, outputs = program.inputs, program.outputs
    tensors = stack_array(TensorObject, u64(outputs + 1))  # and the tuple for the answer
    if not make_tensors(step, tensors):
        hold(cast(ptr[PyObject], tensors), outputs + 1, False)
        return null
    locked = lock(step)
    if locked != 1:
        hold(cast(ptr[PyObject], tensors), outputs + 1, False)
        return null if locked < 0 else fall_back(step, args, given)
    operands, read = stack_array(TensorObject, u64(inputs)), stack_array(BufferObject, u64(inputs))
    bases = stack_array(ptr[u8], u64(inputs + outputs + 2))  # and those of packed inputs and of the arena
    if not prepare(step, args, operands, read, bases):
        unlock(step)
        hold(cast(ptr[PyObject], tensors), outputs + 1, False)
        return fall_back(step, args, given)
    made = stack_array(BufferObject, u64(outputs))
    if not run_program(program, read, bases, made):
        take_back(step, operands, tensors)
        return null
    replaced_count = 2 * outputs + step.cleared_count
    replaced = stack_array(PyObject, u64(replaced_count))
    store(step, operands, tensors, made, replaced)  # nothing fails from here on but a function that converts the answer
    unlock(step)
    hold(cast(ptr[PyObject], operands), inputs, False)
    hold(replaced, replaced_count, False)
    return answer(step, tensors)
