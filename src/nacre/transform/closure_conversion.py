"""Functions of trees as graphs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from nacre.base import tree
from nacre.base.errors import ArgumentError, KindError
from nacre.base.records import dataclass
from nacre.base.types import TensorType
from nacre.interpret.stage import Trace, refuse_arguments, stage
from nacre.interpret.tape import rebind
from nacre.ir.graph import Graph
from nacre.trace.value import Value, fresh
from nacre.trace.variable import Variable
from nacre.transform.arguments import as_value, is_pair, is_tensor, name_of, require_results
from nacre.transform.leftover import require_changeable

Function = Callable[..., Any]


class Operands:
    """A tree of tensors and plain Python values; the latter are constants."""

    def __init__(self, operation: str, given: Any, numbers: bool = False, rows: bool = False) -> None:
        """`numbers` also converts variables and Python numbers; `rows` refuses variables."""
        self.given = given
        self.leaves, self.structure = tree.flatten(given)
        held = next((x for x in self.leaves if isinstance(x, Variable)), None) if rows else None
        if held is not None:
            raise KindError(
                f"{operation}: xs must have tensors, whose rows f gets; got the variable {held.name!r} of type "
                f"{held.value.type}; write xs with its tensor, p.value, or let f use the variable itself to read it "
                "whole"
            )
        wanted = (Value, Variable, bool, int, float) if numbers else ()
        self.places = [
            k
            for k, x in enumerate(self.leaves)
            if isinstance(x, wanted) or (is_tensor(x) and not isinstance(x, Variable))
        ]
        self.values = [as_value(self.leaves[k], operation) for k in self.places]

    def unaliased(self, places: Sequence[int]) -> list[Value]:
        """The tensors, with new objects for those that will change, because a backward pass needs the old numbers."""
        return [fresh(x) if k in places else x for k, x in enumerate(self.values)]

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
    refuse_arguments(operation, trace, given)
    return StagedFunction(trace, structures, counts, changed)
