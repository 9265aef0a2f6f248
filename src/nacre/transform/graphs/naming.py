"""Names of intermediate values, by which a graph is run in part, cut and changed."""

from __future__ import annotations

from typing import Any, TypeVar, cast

from nacre.base.arguments import shown
from nacre.base.errors import ArgumentError, KindError
from nacre.interpret.batch import BatchedValue
from nacre.interpret.called import user_line
from nacre.interpret.forward import Dual
from nacre.interpret.stage import StagedValue
from nacre.trace.value import Value
from nacre.transform.graphs.placeholder import DefinedValue

__all__ = ["name"]

T = TypeVar("T")


def name(x: T, label: str, /) -> T:
    """x itself, under a name by which a graph finds it: `graph.run`, `graph.between` and `graph.replace` take it.

    Inside of a function, `nc.checkpoint(f, save=[label])` keeps the value for the backward pass.

    Where no graph is traced or written, and in the body of a loop, the name has no effect.  Inside `nc.vmap` it names
    the batch, and inside a derivative the value without its tangent.

    Raises KindError for anything but a tensor and a string, ArgumentError for a second name of a placeholder's result.

    >>> def f(x):
    ...     return nc.sum(nc.name(nc.tanh(x), "hidden"))
    >>> nc.Graph.trace(f, nc.ones(2)).run({"x": nc.zeros(2)}, "hidden")
    Tensor([0., 0.], f32[2])
    """
    if not isinstance(cast("object", label), str) or not label:
        raise KindError(f"name: the name must be a string with at least one letter; got {shown(label)}")
    if not isinstance(x, Value):
        raise KindError(f"name: the value must be a tensor; got {shown(x)}; write nc.name(x, {label!r})")
    _record(x.content, label)
    return x


def _record(content: Any, name: str) -> None:
    """Give a name to a value without numbers, below the transformations that are under way."""
    while isinstance(content, BatchedValue | Dual):
        below: Value = content.value if isinstance(content, BatchedValue) else content.primal
        content = below.content
    if isinstance(content, StagedValue):
        content.interpreter.names.append((name, content.atom, user_line()))
    elif isinstance(content, DefinedValue):
        if content.name not in ("", name):
            raise ArgumentError(f"name: a value has one name; got {name!r} for {content}")
        content.name = name
