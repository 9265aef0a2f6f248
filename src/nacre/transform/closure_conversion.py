"""Functions of trees as graphs, with their captured values and variables as operands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from nacre.base import tree
from nacre.base.errors import ArgumentError, GradientError
from nacre.base.records import dataclass
from nacre.base.types import TensorType
from nacre.interpret.randomness import differs, operand
from nacre.interpret.stage import Trace, VariableRecord, refuse_sweep, stage
from nacre.interpret.tape import rebind
from nacre.ir.graph import Atom, Graph, Var
from nacre.trace.value import Value, make
from nacre.trace.variable import Variable
from nacre.transform.arguments import as_value, is_pair, is_tensor, name_of, require_results
from nacre.transform.leftover import require_changeable

Function = Callable[..., Any]


class Operands:
    """A tree of tensors and plain Python values; the latter are constants."""

    def __init__(self, operation: str, given: Any, numbers: bool = False) -> None:
        self.given = given
        self.leaves, self.structure = tree.flatten(given)
        wanted = (Value, Variable, bool, int, float) if numbers else ()
        self.places = [
            k
            for k, x in enumerate(self.leaves)
            if isinstance(x, wanted) or (is_tensor(x) and not isinstance(x, Variable))
        ]
        self.values = [as_value(self.leaves[k], operation) for k in self.places]

    def unaliased(self, places: Sequence[int]) -> list[Value]:
        """The tensors, with new objects for those that will change, because a backward pass needs the old numbers."""
        return [make(x.type, x.content, x.layout, x.node) if k in places else x for k, x in enumerate(self.values)]

    def put_back(self, places: Sequence[int], values: Sequence[Value]) -> None:
        """Assign the values that a function has written to tensors among the operands."""
        for k, x in zip(places, values, strict=True):
            rebind(self.leaves[self.places[k]], x)

    @property
    def types(self) -> list[TensorType]:
        """The types of the tensors among the operands, in order."""
        return [x.type for x in self.values]

    def filled(self, values: Sequence[Value]) -> Any:
        """The tree with other tensors."""
        leaves = list(self.leaves)
        for k, x in zip(self.places, values, strict=True):
            leaves[k] = x
        return tree.replaced(self.given, iter(leaves), [])


@dataclass
class StagedFunction:
    """A staged function and the structure of its result, or of the two parts of its result."""

    trace: Trace
    structures: list[tree.Structure]
    counts: list[int]
    changed: list[int]  # the operands that `x[i] = v` changes; with `keep`, their new values follow the results

    @property
    def results(self) -> int:
        """The number of leaves of the results."""
        return sum(self.counts)

    @property
    def types(self) -> tuple[TensorType, ...]:
        """The types of the results' leaves."""
        return self.trace.graph.output_types[: self.results]

    def with_changed(self, places: Sequence[int]) -> Trace:
        """The trace with the new values of these operands after the results, or the operands if unchanged."""
        graph, at = self.trace.graph, self.results
        new = dict(zip(self.changed, graph.outputs[at:], strict=False))
        ends = [new.get(k, graph.inputs[k]) for k in places]
        outputs = (*graph.outputs[:at], *ends, *graph.outputs[self.trace.results :])
        graph = Graph(graph.inputs, graph.equations, outputs, graph.name)
        return replace(self.trace, graph=graph, results=at + len(places))


def stage_function(
    operation: str,
    f: Function,
    arguments: Sequence[Operands],
    types: Sequence[TensorType],
    pair: bool = False,
    keep: bool = False,
) -> StagedFunction:
    """Trace f on operands of the given types into a graph; with `pair`, two results are expected.

    With `keep`, the new values of operands that f changes follow the results.  Without, f gets copies of its operands.
    """
    structures: list[tree.Structure] = []
    counts: list[int] = []
    changed: list[int] = []

    def flat(*values: Value) -> list[Value]:
        """The function on flat values; records the structure of its result."""
        rest, before = list(values), [x.content for x in values]
        filled: list[Any] = []
        for a in arguments:
            filled.append(a.filled(rest[: len(a.places)]))
            del rest[: len(a.places)]
        result: Any = f(*filled)
        require_results(operation, [result])
        if pair and not is_pair(result):
            raise ArgumentError(f"{operation}: the function must return (carry, y); got {type(result).__name__}")
        outputs: list[Value] = []
        for part in result if pair else (result,):
            leaves, structure = tree.flatten(part)
            require_results(operation, leaves)
            structures.append(structure)
            counts.append(len(leaves))
            outputs += [as_value(leaf, operation) for leaf in leaves]
        changed.extend(k for k, x in enumerate(values) if x.content is not before[k])
        require_changeable(name_of(f, operation), leaves_of, changed, keep)
        return [*outputs, *(values[k] for k in changed if keep)]

    leaves_of = [a.leaves[k] for a in arguments for k in a.places]
    trace = stage(flat, types, name_of(f, operation))
    given = [x for a in arguments for x in a.values]
    for k in trace.swept:
        refuse_sweep(operation, given[k])
    return StagedFunction(trace, structures, counts, changed)


class Environment:
    """The captures, variables and gradients that staged functions use; every function gets all of them."""

    def __init__(self, operation: str, traces: Sequence[Trace]) -> None:
        self.captures: dict[object, Value] = {}
        self.written: dict[Variable, None] = {}
        self.written_gradients: dict[Variable, None] = {}
        read: dict[Variable, None] = {}
        read_gradients: dict[Variable, None] = {}
        for t in traces:
            self.captures |= {_identity(x): x for x in t.captures}
            read |= dict.fromkeys([r.variable for r in t.variables if r.input is not None or r.written])
            self.written |= dict.fromkeys(t.variable_outputs)
            read_gradients |= dict.fromkeys([*t.gradient_inputs, *t.gradient_outputs])
            self.written_gradients |= dict.fromkeys(t.gradient_outputs)
            for r in t.variables:
                _require_settled(operation, r)
        self.variables, self.gradients = list(read), list(read_gradients)

    def operands(self) -> list[Value]:
        """The current values of all of them."""
        values = [*self.captures.values(), *map(operand, self.variables)]
        return values + [v.gradient for v in self.gradients]

    def inputs(self, t: Trace) -> list[Var]:
        """A graph input for each operand: the trace's own if it has one."""
        at = t.arguments
        own = {_identity(x): v for x, v in zip(t.captures, t.graph.inputs[at:], strict=False)}
        found = [own.get(key) or Var(x.type) for key, x in self.captures.items()]
        records = {r.variable: r for r in t.variables}
        for v in self.variables:
            found.append((v in records and records[v].input) or Var(v.type))
        for v in self.gradients:
            found.append((v in records and records[v].gradient_input) or Var(v.type))
        return found

    def graph(self, t: Trace) -> Graph:
        """(arguments, operands) → (results, written values)."""
        more = self.inputs(t)
        results = [*t.graph.outputs[: t.results], *self.changed(self.outputs(t, more))]
        inputs = (*t.graph.inputs[: t.arguments], *more)
        return Graph(inputs, t.graph.equations, tuple(results), t.graph.name)

    def outputs(self, t: Trace, inputs: Sequence[Var]) -> list[Atom]:
        """The value of each operand at the end of a trace."""
        records = {r.variable: r for r in t.variables}
        found: list[Atom] = list(inputs)
        at = len(self.captures)
        for k, v in enumerate(self.variables, at):
            if v in records and records[v].output is not None:
                found[k] = records[v].output  # type: ignore[call-overload]
        for k, v in enumerate(self.gradients, at + len(self.variables)):
            if v in records and records[v].gradient_output is not None:
                found[k] = records[v].gradient_output  # type: ignore[call-overload]
        return found

    def changed(self, outputs: Sequence[Any]) -> list[Any]:
        """From one item for each operand, those of variables and gradients that were written."""
        at = len(self.captures)
        of_variables = outputs[at : at + len(self.variables)]
        of_gradients = outputs[at + len(self.variables) :]
        values = [x for v, x in zip(self.variables, of_variables, strict=True) if v in self.written]
        return values + [x for v, x in zip(self.gradients, of_gradients, strict=True) if v in self.written_gradients]

    def put_back(self, values: Sequence[Value]) -> None:
        """Assign the values that `changed` selects."""
        rest = iter(values)
        for v in self.variables:
            if v in self.written:
                written = next(rest)
                if not differs(v):
                    v.assign(written)
        for v in self.gradients:
            if v in self.written_gradients:
                v.gradient = next(rest)


def _identity(x: Value) -> object:
    return id(x.content), id(x.node), x.layout, x.type


def _require_settled(operation: str, r: VariableRecord) -> None:
    if r.gradient_written and (r.gradient_output is None) != (r.variable.gradient is None):
        v = r.variable
        shown = v.name or f"variable {v.number}"
        if v.gradient is None:
            raise GradientError(
                f"{operation}: the gradient of {shown} must be a tensor before the call, because "
                f"`backward` adds to it inside; it is None; set `p.grad = nc.zeros_like(p)` before, or call "
                f"`backward` outside of {operation}"
            )
        raise GradientError(
            f"{operation}: the gradient of {shown} must stay a tensor; it is a tensor before the call "
            "and is set to None inside; do that outside, or use `zero_grad(set_to_none=False)`"
        )
