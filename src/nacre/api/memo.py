"""Operators at the speed of one native call: what is compiled for operands of given types is remembered.

The second time an operator meets two types, its function is staged for them, promotion and broadcasting included,
and compiled to one kernel.  From then on the operator is a lookup and a call.  Operands that are unusual (views,
traced values) go the general way; values with nodes are recorded here where the function is one primitive.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

from nacre.base.state import STATE
from nacre.base.types import TensorType
from nacre.codegen.entry import entry
from nacre.compile.executor import EXECUTOR
from nacre.compile.stored import program
from nacre.interpret.stage import stage
from nacre.ir.graph import Equation, Graph
from nacre.trace.bind import PARTS
from nacre.trace.value import Value, is_concrete

Function = Callable[..., Any]
LIMIT = 20_000  # remembered combinations of an operator


class Memo:
    """What is remembered of one function of tensors."""

    def __init__(self, general: Function) -> None:
        self.general = general
        self.known: dict[Hashable, Function] = {}
        self.met: set[Hashable] = set()

    def first(self, key: Hashable, function: Function, tensors: Sequence[Value]) -> Any:
        """Answer a call that is not remembered; remember it if it was met before."""
        result = function(*tensors)
        if STATE.word or len(self.met) > LIMIT or not all(map(is_concrete, tensors)):
            return result
        if key in self.met:
            made = _compiled(function, tuple(x.type for x in tensors))
            if made is not None:
                self.known[key] = made
        self.met.add(key)
        return result


def _compiled(function: Function, types: tuple[TensorType, ...]) -> Function | None:
    trace = stage(lambda *xs: [function(*xs)], types, "operator")
    graph = trace.graph
    if trace.captures or trace.variables or not graph.equations:
        return None
    single = _single(graph)
    if single is not None:
        return EXECUTOR.prepare(single.primitive, types, single.params, True,
                                 _Recorded(function, single))
    return entry(program(graph), function)


def _single(graph: Graph) -> Equation | None:
    """The graph's one equation, if it reads all inputs in order."""
    if len(graph.equations) == 1 and graph.equations[0].inputs == graph.inputs \
            and graph.outputs == graph.equations[0].outputs and not graph.equations[0].primitive.multiple:
        return graph.equations[0]
    return None


class _Recorded:
    """What a native call falls back to: plain values with nodes are recorded, anything else goes the general way."""

    __slots__ = ("function", "params", "primitive")

    def __init__(self, function: Function, equation: Equation) -> None:
        self.function, self.primitive, self.params = function, equation.primitive, equation.params

    def __call__(self, *xs: Value) -> Any:
        if STATE.word or not STATE.gradients:
            return self.function(*xs)
        noded = False
        for x in xs:
            node = x.node
            if node is not None:
                if node.level:
                    return self.function(*xs)
                noded = True
        if not noded or not all(map(is_concrete, xs)):
            return self.function(*xs)
        return PARTS.tape.record(self.primitive, xs, self.params, 0)
