"""Compiled operators: an operator on operands of known types is one native call.

At the second call with the same two types, the operator's function is staged, with promotion and broadcasting, and
compiled to one kernel.  From then on a call is a lookup and one native call, which also records it on the tape.  Views,
traced values and other unusual operands take the general path.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

from nacre.base.locks import Turns
from nacre.base.state import STATE
from nacre.base.types import TensorType
from nacre.codegen.entry.points import entry
from nacre.codegen.entry.recording import Recording
from nacre.compile.extensions import forget_on_change, generation
from nacre.compile.program.cache import program
from nacre.compile.program.executor import EXECUTOR
from nacre.interpret.reverse import fused_rule
from nacre.interpret.stage import stage
from nacre.ir.graph import Equation, Graph
from nacre.trace.value import Value, is_concrete

Function = Callable[..., Any]
LIMIT = 2048  # cached combinations of an operator; where they keep changing, old ones are compiled again


class Memo:
    """The compiled functions of tensors, by operand types."""

    def __init__(self) -> None:
        self.known: dict[Hashable, Function] = {}
        self.met: set[Hashable] = set()
        self.turns = Turns()  # one thread compiles a function that several need at the same time
        forget_on_change(self.forget)

    def forget(self) -> None:
        """Drop all compiled functions, because code is compiled in another way from now on."""
        self.met.clear()
        self.turns.clear(self.known)

    def first(self, key: Hashable, function: Function, tensors: Sequence[Value]) -> Any:
        """Answer a call that has no compiled function; compile one if the types occurred before."""
        result = function(*tensors)
        if STATE.word or STATE.numerics != "exact" or not all(map(is_concrete, tensors)):
            return result
        if key in self.met:
            types = tuple(x.type for x in tensors)
            self.turns.fill(self.known, key, LIMIT, lambda: _compiled(function, types) or function, generation)
        if len(self.met) >= LIMIT:
            self.met.clear()
        self.met.add(key)
        return result


def _compiled(function: Function, types: tuple[TensorType, ...]) -> Function | None:
    trace = stage(lambda *xs: [function(*xs)], types, "operator")
    graph = trace.graph
    if trace.captures or trace.variables or not graph.equations:
        return None
    single = _single(graph)
    if single is not None:
        return EXECUTOR.quick(single.primitive, types, single.params)
    recording = Recording(len(types), lambda active: fused_rule(graph, active))
    return entry(program(graph), recording.fallback(function), recording)


def _single(graph: Graph) -> Equation | None:
    """The graph's one equation, if it reads all inputs in order."""
    if (
        len(graph.equations) == 1
        and graph.equations[0].inputs == graph.inputs
        and graph.outputs == graph.equations[0].outputs
        and not graph.equations[0].primitive.multiple
    ):
        return graph.equations[0]
    return None
