"""One call of a function with a derivative of its own: its arguments, its graph, and the graphs of its rule.

The function and its rule are traced at each call, when something may differentiate it.  Tensors and variables that they
capture become operands.  A rule may call the function again: such a call refers to the rule that is being traced.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from nacre.base import tree
from nacre.base.errors import ArgumentError, GradientError, TraceError
from nacre.base.types import TensorType, unlike
from nacre.interpret.evaluate import to_numpy
from nacre.interpret.forward import zeros
from nacre.interpret.stage import Trace, refuse_sweep, stage
from nacre.ir.graph import Graph, Literal
from nacre.ir.primitive import Primitive
from nacre.ir.rewrite import substitute
from nacre.ops.control import DerivativeRule, with_derivative
from nacre.trace.value import Value, fresh, is_concrete, stripped
from nacre.trace.variable import Variable, scope
from nacre.transform.arguments import as_value, require_results
from nacre.transform.closure_conversion import Environment
from nacre.transform.reasons import paths

Function = Callable[..., Any]
PASSES: Final = 4  # of tracing a rule, until its captured values are those of the calls in it
NESTED: Final = 64  # calls of one function within the traces of its rules


class Traces(threading.local):
    """The calls whose rules this thread is tracing, the outermost first."""

    def __init__(self) -> None:
        self.calls: list[CustomCall] = []


TRACES: Final = Traces()


def positional(f: Function, operation: str, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
    """The arguments by position, those given by name and defaults included."""
    try:
        bound = inspect.signature(f).bind(*args, **kwargs)
    except ValueError:  # a function without a signature
        if kwargs:
            raise ArgumentError(
                f"{operation}: arguments of {name}, which has no signature, must be positional; got {sorted(kwargs)}"
            ) from None
        return list(args)
    bound.apply_defaults()
    if bound.kwargs:
        raise ArgumentError(
            f"{operation}: arguments of {name} must not be keyword-only, because its rule gets them by position; got "
            f"{sorted(bound.kwargs)}; leave the star out of its signature"
        )
    return list(bound.args)


class Given:
    """The arguments of a call as one tree; its tensors, arrays and variables are operands.

    `places` are the positions among the operands of those that the rule differentiates.
    """

    def __init__(self, operation: str, args: Sequence[Any], left_out: Sequence[int]) -> None:
        self.args, self.left_out = list(args), left_out
        self.leaves, self.structure = tree.flatten(self.args)
        self.at = [k for k, x in enumerate(self.leaves) if isinstance(x, Value | Variable | np.ndarray | np.generic)]
        self.values = [as_value(self.leaves[k], operation) for k in self.at]
        owners = [n for n, child in enumerate(self.structure.children) for _ in range(child.leaves)]
        self.moving = [
            x.type.dtype.is_differentiable and owners[k] not in left_out
            for k, x in zip(self.at, self.values, strict=True)
        ]
        self.places = tuple(k for k, moves in enumerate(self.moving) if moves)

    @property
    def types(self) -> list[TensorType]:
        """The types of the operands."""
        return [x.type for x in self.values]

    def filled(self, values: Sequence[Value]) -> list[Any]:
        """The arguments with other tensors."""
        leaves = list(self.leaves)
        for k, x in zip(self.at, values, strict=True):
            leaves[k] = x
        return tree.replaced(self.args, iter(leaves), [])

    def tangents(self, given: Sequence[Value]) -> tuple[Any, ...]:
        """The arguments' trees of tangents: 0.0 for Python numbers, None for other leaves without a tangent."""
        rest, at = iter(given), iter(self.moving)
        places = set(self.at)
        leaves: list[Any] = []
        for k, leaf in enumerate(self.leaves):
            if k in places:
                leaves.append(next(rest) if next(at) else None)
            else:
                leaves.append(0.0 if isinstance(leaf, float) else None)
        whole = tree.unflatten(self.structure, leaves)
        return tuple(x for n, x in enumerate(whole) if n not in self.left_out)

    def split(self, args: Sequence[Any]) -> tuple[list[Any], tuple[Any, ...]]:
        """The arguments that the rule does not differentiate, and the others."""
        return [args[n] for n in self.left_out], tuple(x for n, x in enumerate(args) if n not in self.left_out)

    def name(self, f: Function, n: int) -> str:
        """The name of an argument."""
        try:
            known = list(inspect.signature(f).parameters)
        except ValueError:
            known = []
        return known[n] if n < len(known) else f"argument {n}"

    def names(self, f: Function) -> list[str]:
        """The names of all leaves, in order."""
        return [path for n, child in enumerate(self.structure.children) for path in paths(self.name(f, n), child)]

    def like(self, other: Given) -> bool:
        """Whether a call with these arguments has the same graphs as one with others."""
        if self.structure != other.structure or self.at != other.at or self.types != other.types:
            return False
        ours = (x for k, x in enumerate(self.leaves) if k not in self.at)
        theirs = (x for k, x in enumerate(other.leaves) if k not in other.at)
        return all(x is y or (type(x) is type(y) and _same(x, y)) for x, y in zip(ours, theirs, strict=True))


def _same(x: Any, y: Any) -> bool:
    """Whether two constants are equal."""
    return isinstance(x, bool | int | float | str | bytes) and repr(x) == repr(y)


class CustomCall:
    """A call of a function whose derivative is a rule."""

    def __init__(self, operation: str, primitive: Primitive, name: str, f: Function, given: Given) -> None:
        self.operation, self.primitive, self.name, self.f, self.given = operation, primitive, name, f, given
        self.structure = tree.LEAF
        self.types: tuple[TensorType, ...] = ()
        self.rule = DerivativeRule(name, given.places)
        self.again = False  # whether the rule calls the function with arguments like these

    def trace(self, function: Callable[[Sequence[Value]], Sequence[Value]], types: Sequence[TensorType]) -> Trace:
        """The graph of a function on flat values, whose constants are literals."""

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
        if traced.variable_outputs or any(r.gradient_written for r in traced.variables):
            raise TraceError(
                f"{self.operation}: {self.name} and its rule must not assign variables, call backward or draw random "
                "numbers without a key; return new values, or pass a key"
            )
        for k in traced.swept:
            refuse_sweep(self.operation, self.given.values[k])
        return _with_literals(traced)

    def flat(self, what: str, found: Any) -> tuple[list[Value], tree.Structure]:
        """The leaves of a result."""
        leaves, structure = tree.flatten(found)
        require_results(self.operation, leaves)
        return [as_value(leaf, f"{self.operation}: {what} of {self.name}") for leaf in leaves], structure

    def require(self, what: str, found: Any) -> list[Value]:
        """The leaves of what a rule returns for the result, which must have its structure and types."""
        values, structure = self.flat(what, found)
        if structure != self.structure:
            raise ArgumentError(
                f"{self.operation}: {what} of {self.name} must have structure {self.structure}; got {structure}"
            )
        return [
            self.leaf(what, path, x, wanted)
            for path, x, wanted in zip(paths("", structure), values, self.types, strict=True)
        ]

    def leaf(self, what: str, path: str, given: Any, type: TensorType) -> Value:
        """A result, tangent or cotangent, which must have a type; None is zero."""
        if given is None:
            return zeros(type)
        named = f"{self.operation}: {what} of {self.name}" + (f", at {path}," if path else "")
        x = as_value(given, named.rstrip(","))
        if x.type is not type:
            raise unlike(named, type, x.type)
        return x

    def run(self, traces: Callable[[], Sequence[Trace]], arrange: Callable[..., tuple[Graph, ...]]) -> Any:
        """The result of the call, with its derivative.

        `traces` gives the traces of the rule, `arrange` its graphs, from these graphs with the operands last.
        """

        def primal(values: Sequence[Value]) -> list[Value]:
            found, self.structure = self.flat("the result", self.f(*self.given.filled(values)))
            return found

        traced = self.trace(primal, self.given.types)
        self.types = traced.graph.output_types
        around = Environment(self.operation, (traced,))
        for _ in range(PASSES):
            self.graph, self.operands = around.graph(traced), around.operands
            self.again = False
            TRACES.calls.append(self)
            try:
                of_rule = traces()
            finally:
                TRACES.calls.pop()
            wider = Environment(self.operation, (traced, *of_rule))
            same = _operands(around) == _operands(wider)
            around = wider
            if same or not self.again:
                break
        else:
            raise TraceError(
                f"{self.operation}: the rule of {self.name} must capture the same tensors whenever it is traced; got "
                "others each time; pass them as arguments"
            )
        count = len(self.given.values)
        self.graph, self.operands = around.graph(traced), around.operands
        more = len(self.graph.inputs) - count
        self.rule.made = arrange(more, *(_moved(around.graph(t), t.arguments) for t in of_rule))
        return self.bind(self.given.values)

    def bind(self, values: Sequence[Value]) -> Any:
        """The result for operands."""
        operands = [*map(fresh, values), *self.operands()]
        if self.rule.made is None:  # variables that the rule reads are not differentiated while it is traced
            staging: Any = scope()
            operands = [stripped(x) if x.node is not None and x.node.level == staging.level else x for x in operands]
        found = with_derivative(self.primitive, self.graph, self.rule, *operands)
        return tree.unflatten(self.structure, found)


def outer_call(f: Function, given: Given) -> CustomCall | None:
    """The call of a function, with arguments like these, whose rule is being traced."""
    own = [c for c in TRACES.calls if c.f is f]
    for call in own:
        if call.given.like(given):
            call.again = True
            return call
    if len(own) > NESTED:
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


def _with_literals(trace: Trace) -> Trace:
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
