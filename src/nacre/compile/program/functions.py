"""Public functions on tensors as graphs, and their calls in blocks of `detect_anomalies`.

The graph of a function serves all of its callers, so its equations have no source lines.  A function that is one
program is one in a block of `detect_anomalies`, too: with a flag for all of its equations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Final

from nacre.base.errors import Error
from nacre.base.records import dataclass
from nacre.base.state import STATE
from nacre.base.types import TensorType
from nacre.interpret.anomalies.detector import is_examined
from nacre.interpret.pullback import NoRule, Positions, Rule
from nacre.interpret.reverse import fused_rule
from nacre.interpret.stage import stage
from nacre.interpret.tape import recorded, rule_of_call
from nacre.ir.facts import same_type
from nacre.ir.graph import Equation, Graph
from nacre.trace.bind import PARTS
from nacre.trace.value import Value, is_concrete

MOST: Final = 4096  # functions of given types

Function = Callable[..., Any]


def traced(function: Function, types: Sequence[TensorType]) -> Graph | None:
    """The graph of a public function; None if it has an error, other operands, or returns its own in another object."""
    try:
        trace = stage(lambda *xs: [function(*xs)], types, "operator", "")
        equations = trace.graph.equations
    except Error:  # which a call raises again
        return None
    computes = not all(e.primitive.simplify is same_type and e.inputs[0].type is e.outputs[0].type for e in equations)
    return trace.graph if computes and not trace.captures and not trace.variables else None


def single(graph: Graph) -> Equation | None:
    """The graph's one equation, if it reads all inputs in order."""
    e, *more = graph.equations
    whole = not more and e.inputs == graph.inputs and e.outputs == graph.outputs
    return e if whole and not e.primitive.multiple else None


@dataclass(frozen=True, eq=False)
class WholeFunction:
    """A function of several equations, and how a call is recorded where these operands have nodes."""

    graph: Graph
    rule: Callable[[Positions], Rule | None]


class ExaminedFunctions:
    """The functions that were called in blocks of `detect_anomalies`, by their names and types."""

    def __init__(self) -> None:
        self.known: dict[object, WholeFunction | None] = {}

    def forget(self) -> None:
        """Drop all functions."""
        self.known.clear()

    def within(self, key: object, function: Function) -> Function:
        """The function, which is one program where its operations are examined."""

        def general(*inputs: Value) -> Any:
            """The function on any operands."""
            whole = self._whole(key, function, inputs) if is_examined() else None
            if whole is None:
                return function(*inputs)
            try:
                rule = rule_of_call(inputs, whole.rule)
            except NoRule:
                return function(*inputs)
            (y,) = PARTS.executor.execute(whole.graph, inputs)
            return y if rule is None else recorded(rule, inputs, y)

        return general

    def _whole(self, key: object, function: Function, inputs: Sequence[Value]) -> WholeFunction | None:
        """The function as one program; None for other operands, other numerics, and functions of one primitive."""
        if not STATE.usual or not all([is_concrete(x) and x.layout is None for x in inputs]):
            return None
        if key not in self.known:
            if len(self.known) >= MOST:
                self.known.clear()
            graph = traced(function, tuple([x.type for x in inputs]))
            whole = graph is not None and single(graph) is None
            self.known[key] = WholeFunction(graph, cache(lambda active: fused_rule(graph, active))) if whole else None  # type: ignore[arg-type]
        return self.known[key]
