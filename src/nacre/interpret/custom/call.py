"""One call of a function with a derivative of its own: its graph, the graphs of its rule, and their operands.

The function and its rule are traced at each call, when something may differentiate it.  Tensors and variables that they
capture become operands.  A rule may call the function again: such a call refers to the rule that is being traced.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from nacre.base.errors import GradientError, TraceError
from nacre.base.types import TensorType
from nacre.interpret.closures.environment import Environment
from nacre.interpret.evaluate import to_numpy
from nacre.interpret.stage import Trace, refuse_arguments, stage
from nacre.ir.graph import Graph, Literal
from nacre.ir.primitive import Primitive
from nacre.ir.rewrite import substitute
from nacre.ops.control import DerivativeRule, with_derivative
from nacre.trace.value import Value, fresh, is_concrete, stripped
from nacre.trace.variable import scope

PASSES: Final = 4  # of tracing a rule, until its captured values are those of the calls in it


class Traces(threading.local):
    """The calls whose rules this thread is tracing, the outermost first."""

    def __init__(self) -> None:
        self.calls: list[Any] = []


TRACES: Final = Traces()


class RuleCall:
    """A call of a function whose derivative is a rule: `values` are its operands, of which the rule has `places`."""

    def __init__(
        self, operation: str, primitive: Primitive, name: str, values: Sequence[Value], places: tuple[int, ...]
    ) -> None:
        self.operation, self.primitive, self.name, self.values = operation, primitive, name, values
        self.rule = DerivativeRule(name, places)
        self.again = False  # whether the rule calls the function with arguments like these

    def trace(
        self,
        function: Callable[[Sequence[Value]], Sequence[Value]],
        types: Sequence[TensorType],
        assigns: bool = False,
    ) -> Trace:
        """The graph of a function on flat values, whose constants are literals; it may assign variables if allowed."""

        def flat(*values: Value) -> list[Value]:
            before = [x.content for x in values]
            found = list(function(values))
            if any(x.content is not was for x, was in zip(values, before, strict=True)):
                raise TraceError(
                    f"{self.operation}: {self.name} and its rule must not change their arguments; got x[i] = v on one; "
                    "write x = nc.copy(x) first"
                )
            return found

        traced = stage(flat, types, self.name)
        if (traced.variable_outputs and not assigns) or any(r.gradient_written for r in traced.variables):
            raise TraceError(self.written())
        refuse_arguments(self.operation, traced, self.values)
        return with_literals(traced)

    def written(self) -> str:
        """The text of the error for a function or a rule that assigns variables."""
        return (
            f"{self.operation}: {self.name} and its rule must not assign variables, call backward or draw random "
            "numbers without a key; return new values, or pass a key"
        )

    def settle(
        self, traced: Trace, traces: Callable[[], Sequence[Trace]], arrange: Callable[..., tuple[Graph, ...]]
    ) -> None:
        """Find the graphs and the operands of a traced call.

        `traces` gives the traces of the rule, `arrange` its graphs, from these graphs with the operands last.
        """
        self.around = Environment(self.operation, (traced,))
        for _ in range(PASSES):
            self.graph = self.around.graph(traced)
            self.again = False
            TRACES.calls.append(self)
            try:
                of_rule = traces()
            finally:
                TRACES.calls.pop()
            wider = Environment(self.operation, (traced, *of_rule))
            same = _operands(self.around) == _operands(wider)
            self.around = wider
            if same or not self.again:
                break
        else:
            raise TraceError(
                f"{self.operation}: the rule of {self.name} must capture the same tensors whenever it is traced; got "
                "others each time; pass them as arguments"
            )
        self.graph = self.around.graph(traced)
        more = len(self.graph.inputs) - len(self.values)
        self.rule.made = arrange(more, *(_moved(self.around.graph(t), t.arguments) for t in of_rule))

    def bind(self, values: Sequence[Value]) -> tuple[Value, ...]:
        """The results for operands."""
        operands = [*map(fresh, values), *self.around.operands()]
        if self.rule.made is None:  # variables that the rule reads are not differentiated while it is traced
            staging: Any = scope()
            operands = [stripped(x) if x.node is not None and x.node.level == staging.level else x for x in operands]
        return with_derivative(self.primitive, self.graph, self.rule, *operands)


def found_again(own: Sequence[RuleCall], like: Callable[[Any], bool], limit: int) -> RuleCall | None:
    """The first of the calls of a function whose rules are being traced that is like a call inside; None if none is.

    Raises GradientError where more than `limit` calls of the function are within each other.
    """
    for call in own:
        if like(call):
            call.again = True
            return call
    if len(own) > limit:
        raise GradientError(
            f"{own[0].operation}: the rule of {own[0].name} must call it with the arguments of an earlier call in the "
            "end; got other ones each time; write its value out in the rule"
        )
    return None


def _moved(graph: Graph, arguments: int) -> Graph:
    """The graph with its operands from outside in front of its arguments."""
    return Graph(graph.inputs[arguments:] + graph.inputs[:arguments], graph.equations, graph.outputs, graph.name)


def _operands(around: Environment) -> tuple[object, ...]:
    """What the operands of an environment are."""
    return tuple(around.captures), tuple(around.variables), tuple(around.gradients)


def with_literals(trace: Trace) -> Trace:
    """The trace with the tensors that were made while the function ran as literals."""
    at = trace.arguments
    known = {
        trace.graph.inputs[at + k]: Literal(np.array(to_numpy(x)), x.type)
        for k in trace.fixed
        if is_concrete(x := trace.captures[k]) and x.node is None
    }
    if not known:
        return trace
    kept = tuple(x for v, x in zip(trace.graph.inputs[at:], trace.captures, strict=False) if v not in known)
    return replace(trace, graph=substitute(trace.graph, known), captures=kept, fixed=frozenset())
