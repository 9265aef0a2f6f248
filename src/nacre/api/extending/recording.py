"""Graphs of functions from outside that depend on their arguments alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from nacre.base.errors import TraceError
from nacre.base.types import TensorType
from nacre.interpret.stage import closed, stage
from nacre.ir.graph import Graph
from nacre.trace.modes import gradients
from nacre.trace.value import Value, is_concrete


def recorded_graph(
    what: str, rule: Callable[..., Sequence[Value]], types: Sequence[TensorType], name: str, advice: str
) -> Graph:
    """The graph of a function for arguments of these types; tensors with numbers are constants of it.

    Raises TraceError if the function uses a variable, or a tensor that is traced or requires a gradient.
    """
    with gradients(True):
        trace = stage(rule, types, name, "")
    if trace.variables:
        named = trace.variables[0].variable
        raise _not_closed(
            what, f"variable {named.name or named.number} of type {named.type}, perhaps the state of nc.random", advice
        )
    for x in trace.captures:
        if not is_concrete(x) or x.node is not None:
            raise _not_closed(what, f"a tensor of type {x.type} that is traced or requires a gradient", advice)
    return closed(trace)


def _not_closed(what: str, used: str, advice: str) -> TraceError:
    return TraceError(f"{what}: a rule must depend on its arguments alone; it uses {used}; {advice}")
