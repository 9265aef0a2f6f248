"""Every exception Nacre raises: `Error` and one subclass for each kind of fault.

Messages read `operation: what is required; what it got; what to do`.
"""

from __future__ import annotations


class Error(Exception):
    """The root of all of Nacre's exceptions."""


class ShapeError(Error, ValueError):
    """Shapes, axes or sizes do not fit."""


class DTypeError(Error, TypeError):
    """An operation was given dtypes that it does not take together."""


class ArgumentError(Error, ValueError):
    """An argument's value is outside what the operation takes."""


class KindError(ArgumentError, TypeError):
    """An argument is of another kind than the operation takes: a string for a number, say."""


class AxisError(ShapeError, IndexError):
    """An axis or an index is out of range."""


class TraceError(Error, TypeError):
    """A traced value met Python code that needs its number, or left its trace."""


class GradientError(Error, RuntimeError):
    """A derivative was asked for where there is none."""


class DepthError(GradientError, RecursionError):
    """Derivatives were nested deeper than Python calls functions."""


class GraphError(Error, ValueError):
    """A graph or kernel text is malformed or breaks a type rule."""


class CompileError(Error, RuntimeError):
    """The compiler could not produce code; this is a fault of Nacre or of its installation."""


class OutOfMemory(Error, MemoryError):
    """Memory was exhausted, or the limit that was set is reached."""


class StateError(Error, RuntimeError):
    """An object is not in the state the call needs (a freed tape, a missing gradient …)."""


class MissingAttribute(Error, AttributeError):
    """An object has no attribute of this name; the message says what is written in its place."""


class MissingExtra(Error, ImportError):
    """An optional dependency is not installed; the message names the extra that brings it."""


class DeviceError(Error, RuntimeError):
    """The machine lacks something that is needed (an instruction set, a thread, a file system)."""


def explain(title: str, wrong: str, why: str, right: str) -> str:
    """A long message: the wrong code, why it is wrong, and the right code."""

    def indent(text: str) -> str:
        """The text in from the margin by four columns."""
        return "\n".join("    " + line for line in text.strip("\n").splitlines())

    return f"{title}\n\n  This code\n{indent(wrong)}\n\n  {why}\n\n  Write\n{indent(right)}"
