"""Tensors from outside that `x[i] = v` changes inside a transformation: they are restored, and an error is raised."""

from __future__ import annotations

import gc
from typing import Any
from weakref import ref

from nacre.base.errors import TraceError, explain
from nacre.base.types import TensorType
from nacre.trace.value import Payload, Value


class Changes:
    """The previous contents of objects of lower levels into which an interpreter's values were written."""

    level: int
    name: str

    def __init__(self) -> None:
        self.changed: list[tuple[ref[Value], Any, Any, Any]] = []

    def rebound(self, x: Value) -> None:
        """Record the contents of an object that is about to receive another value."""
        if not isinstance(x.content, Payload) or x.content.level < self.level:
            self.changed.append((ref(x), x.content, x.layout, x.node))

    def restore(self) -> list[Value]:
        """Restore the contents of objects of lower levels; returns those that still exist, which are from outside."""
        found: list[Value] = []
        for place, content, layout, node in reversed(self.changed):
            x = place()
            if x is not None:
                x.content, x.layout, x.node = content, layout, node
                found.append(x)
        return found

    def require_none_outside(self) -> None:
        """Restore changed tensors; raise TraceError if some of them come from outside."""
        if self.restore():
            gc.collect()  # objects that the function created may be part of a reference cycle
            outside = self.restore()
            if outside:
                raise self.from_outside(outside[0].type)

    def from_outside(self, type: TensorType) -> TraceError:
        """The error for a tensor that is not an argument of the interpreter's function."""
        return TraceError(
            explain(
                f"x[i] = v: x must be created inside the function of {self.name}; got one of type {type} from outside",
                f"seen = nc.zeros(3)\ndef f(x):\n    seen[0] = x.sum()\n    return x\nnc.{self.name}(f)",
                "Inside the function, values are batched or have tangents; outside they have no meaning.",
                f"def f(x):\n    seen = nc.zeros(3)\n    seen[0] = x.sum()\n    return x, seen\nnc.{self.name}(f)",
            )
        )


def mode_left(name: str) -> TraceError:
    """The error for a traced function that sets the gradient mode and does not restore it."""
    return TraceError(
        explain(
            f"{name}: a compiled function must leave the gradient mode as it was; this one changed it",
            "@nc.jit\ndef f(x):\n    nc.set_grad_enabled(False)\n    return x * 2",
            "The function runs once, while it is traced; later calls would not change the mode.",
            "@nc.jit\ndef f(x):\n    with nc.set_grad_enabled(False):\n        return x * 2",
        )
    )


def not_an_argument(name: str, type: TensorType) -> TraceError:
    """The error for a compiled function that writes to a tensor from outside."""
    return TraceError(
        explain(
            f"x[i] = v: x must be an argument of {name}, or created inside it; got one of type {type} from outside",
            "seen = nc.zeros(3)\n@nc.jit\ndef f(x):\n    seen[0] = x.sum()\n    return x",
            "Compiled code reads tensors from outside at each call.  It changes only its arguments, variables and "
            "tensors that it creates.",
            "seen = nc.zeros(3)\n@nc.jit\ndef f(x, seen):\n    seen[0] = x.sum()\n    return x\nf(x, seen)",
        )
    )
