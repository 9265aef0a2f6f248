"""Graphs of functions from outside that depend on their arguments alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from nacre.base.errors import TraceError
from nacre.base.state import gradients
from nacre.base.types import TensorType
from nacre.interpret.evaluate import to_numpy
from nacre.interpret.stage import stage
from nacre.ir.graph import Graph, Literal
from nacre.ir.rewrite import substitute
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
    inputs = trace.graph.inputs[trace.arguments :]
    known = {v: Literal(np.array(to_numpy(x)), x.type) for v, x in zip(inputs, trace.captures, strict=True)}
    return substitute(trace.graph, known) if known else trace.graph


def _not_closed(what: str, used: str, advice: str) -> TraceError:
    return TraceError(f"{what}: a rule must depend on its arguments alone; it uses {used}; {advice}")
