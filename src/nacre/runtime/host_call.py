"""The kernel of host calls in native Python: it calls a Python function in the middle of a program.

The first argument of such a launch is the address of a Python object, which the launch keeps alive.  The object is
called with the address of the arguments.  An exception stays set in the thread, and ends the run.  The caller's own
thread runs the kernel, without the interpreter lock.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from nacre.native.cpython import (
    Py_DecRef,
    PyEval_RestoreThread,
    PyEval_SaveThread,
    PyGILState_Ensure,
    PyGILState_Release,
    PyLong_FromSsize_t,
    PyObject,
    PyObject_CallOneArg,
)
from nacre.native.python.declarations import inline, native, null
from nacre.native.python.intrinsics import cast
from nacre.native.python.types import i64, ptr, struct, u8
from nacre.runtime.layouts import Outcome, Stopped

NO: Final = int(Stopped.NO)
RAISED: Final = int(Stopped.RAISED)


@struct
class HostArguments:
    """The arguments of a launch: the function, then addresses and numbers."""

    function: PyObject


@inline
def called(arguments: HostArguments) -> bool:
    """Call the function with the address of the arguments; whether it returned."""
    place = PyLong_FromSsize_t(cast(i64, arguments))
    if place == null:
        return False
    result = PyObject_CallOneArg(arguments.function, place)
    Py_DecRef(place)
    if result == null:
        return False
    Py_DecRef(result)
    return True


@native(symbol="nacre.host_call")
def call(arguments: HostArguments, low: i64, high: i64, outcome: Outcome) -> None:
    """Call the function under the interpreter lock."""
    lock = PyGILState_Ensure()
    outcome.stopped = NO if called(arguments) else RAISED
    PyGILState_Release(lock)


@native(symbol="nacre.host_run")
def run(
    descriptor: ptr[u8],
    bases: ptr[u8],
    workspace: ptr[u8],
    run_unless: Callable[[ptr[u8], ptr[u8], ptr[u8], ptr[u8], ptr[u8]], i64],
) -> i64:
    """Run a bound plan by the driver, without the interpreter lock: why it stopped.  An exception stays set."""
    thread = PyEval_SaveThread()
    stopped = run_unless(descriptor, bases, workspace, null, null)
    PyEval_RestoreThread(thread)
    return stopped
