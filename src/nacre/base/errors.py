"""Nacre's exceptions: `Error` and one subclass for each kind of fault.

Messages read `operation: what must hold; got what; what to do`.
"""

from __future__ import annotations

import threading
from typing import Any, Final

from nacre.base.state import STATE

__all__ = [
    "AnomalyError",
    "ArgumentError",
    "AxisError",
    "CompileError",
    "ConvergenceError",
    "DTypeError",
    "DepthError",
    "DeviceError",
    "Error",
    "ExchangeError",
    "FailedAssertion",
    "ForbiddenFile",
    "GradientError",
    "GraphError",
    "KindError",
    "LinAlgError",
    "MissingAttribute",
    "MissingExtra",
    "MissingFile",
    "MissingKey",
    "OutOfMemory",
    "ShapeError",
    "StateError",
    "TraceError",
    "UnexpectedFile",
    "UnexpectedFolder",
]

TRACED: Final = "Inside nc.jit, nc.vmap, nc.jvp, nc.jacfwd, nc.hessian, nc.checkpoint, nc.cond and loops"


class Error(Exception):
    """The base class of all of Nacre's exceptions."""

    def __init__(self, *args: object, **more: object) -> None:
        super().__init__(*args, **more)
        if STATE.note_error is not None:
            STATE.note_error(self)


class ShapeError(Error, ValueError):
    """Shapes, axes or sizes do not match."""


class DTypeError(Error, TypeError):
    """An operation does not accept these dtypes."""


class ArgumentError(Error, ValueError):
    """An argument's value is invalid."""


class KindError(ArgumentError, TypeError):
    """An argument has the wrong kind, such as a string instead of a number."""


class AnomalyError(Error, FloatingPointError):
    """An operation had an anomaly inside `detect_anomalies`: `anomaly` says which, of what numbers, and where."""

    anomaly: Any = None


class FailedAssertion(Error, AssertionError):
    """An `assert` on traced values failed when the compiled function ran."""


class AxisError(ShapeError, IndexError):
    """An axis or an index is out of range."""


class LinAlgError(Error, ValueError):
    """A matrix lacks a property that the operation needs: it is singular, for example, or not positive definite."""


class ConvergenceError(Error, ArithmeticError):
    """An iterative method ended without a solution, and the call required one (`strict=True`)."""


class StateError(Error, RuntimeError):
    """An object is not in the state that the call needs (a freed tape, a missing gradient …)."""


CHECKED: Final[dict[str, type[Error]]] = {  # what checks may raise
    "argument": ArgumentError,
    "assertion": FailedAssertion,
    "axis": AxisError,
    "convergence": ConvergenceError,
    "matrix": LinAlgError,
    "shape": ShapeError,
    "state": StateError,
}


class TraceError(Error, TypeError):
    """Python code needs the number of a traced tensor, or uses a traced tensor after its trace ended."""


class UnknownNumber(TraceError):
    """Python requests the number of a traced value: `operation` is what asks, as `bool` for a condition."""

    def __init__(self, message: str, operation: str = "") -> None:
        super().__init__(message)
        self.operation = operation
        if REQUESTS.found is not None:
            REQUESTS.found.append(self)


class _Requests(threading.local):
    def __init__(self) -> None:
        self.found: list[UnknownNumber] | None = None  # those of this thread's innermost trace, if it collects them


REQUESTS: Final = _Requests()


class GradientError(Error, RuntimeError):
    """The requested derivative does not exist."""


class DepthError(GradientError, RecursionError):
    """Derivatives are nested deeper than Python's recursion limit."""


class GraphError(Error, ValueError):
    """A graph or kernel text is malformed or breaks a type rule."""


class ExchangeError(Error, BufferError):
    """Memory cannot be passed to another library, or taken from one, in the requested way."""


class CompileError(Error, RuntimeError):
    """The compiler cannot produce code.  This is a bug in Nacre or its installation."""


class OutOfMemory(Error, MemoryError):
    """The machine has too little memory, or the memory limit is reached."""


class MissingAttribute(Error, AttributeError):
    """An object has no attribute of this name; the message says what to write instead."""


class MissingKey(Error, KeyError):
    """A mapping has no entry of this name."""

    __str__ = Error.__str__


class MissingExtra(Error, ImportError):
    """A dependency is not installed, or in a version that does not fit; the message says what to install."""


class DeviceError(Error, RuntimeError):
    """The machine lacks something (an instruction set, a thread, a file system)."""


class MissingFile(DeviceError, FileNotFoundError):
    """A file or folder does not exist."""


class ForbiddenFile(DeviceError, PermissionError):
    """The system does not permit the access to a file or folder."""


class UnexpectedFolder(DeviceError, IsADirectoryError):
    """A path that must lead to a file leads to a folder."""


class UnexpectedFile(DeviceError, NotADirectoryError):
    """A path that must lead to a folder leads to a file."""


OF_FILES = {kind.__bases__[1]: kind for kind in (MissingFile, ForbiddenFile, UnexpectedFolder, UnexpectedFile)}


def file_error(message: str, fault: BaseException) -> DeviceError:
    """The error for a fault of the system at a file; also a FileNotFoundError, for example, if the fault is one."""
    return next((kind for base, kind in OF_FILES.items() if isinstance(fault, base)), DeviceError)(message)


def reason(fault: BaseException) -> str:
    """The system's description of a fault at a file, without its number and the path."""
    return getattr(fault, "strerror", None) or str(fault)


def explain(title: str, wrong: str, why: str, right: str) -> str:
    """A long message: the wrong code, the reason, and the right code."""

    def indent(text: str) -> str:
        """The text indented by four columns."""
        return "\n".join("    " + line for line in text.strip("\n").splitlines())

    return f"{title}\n\n  This code\n{indent(wrong)}\n\n  {why}\n\n  Write\n{indent(right)}"
