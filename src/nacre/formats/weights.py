"""The weights of a graph: tensors by name that nothing changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nacre.base.tree import ReadOnlyMapping
from nacre.formats.freezing import free_name
from nacre.ir.graph import Graph, Var
from nacre.trace.value import Value, fresh, owned, stripped

UNCHANGING = "write graph.replace, graph.between or graph.then, which return another graph"


class GraphWeights(ReadOnlyMapping[Value]):
    """Tensors by name.  Each read gives another object of the same memory, which `x[i] = v` changes alone."""

    __slots__ = ()

    def __init__(self, tensors: Mapping[str, Value]) -> None:
        held = tensors.held if isinstance(tensors, GraphWeights) else {n: _own(x) for n, x in tensors.items()}
        super().__init__(held, "Graph.weights", f"{UNCHANGING}, or feed a tensor by graph.run")

    def lent(self, value: Value) -> Value:
        """Another object of the same value."""
        return fresh(value)


def _own(x: Value) -> Value:
    """An object that no one else has, over memory that no other library writes to."""
    return fresh(stripped(owned(x)))


def merged(
    weights: GraphWeights, graph: Graph, other: GraphWeights, taken: Sequence[str]
) -> tuple[dict[str, Value], list[Var]]:
    """The weights of a graph and then another graph's, and the other's inputs for them; equal tensors are shared.

    `taken` are the names of the graph's other values.
    """
    found = dict(weights.held)
    own = dict(zip(weights, graph.inputs[len(graph.inputs) - len(weights) :], strict=True))
    operands: list[Var] = []
    for n, x in other.held.items():
        if n in own and weights.held[n].content is x.content and weights.held[n].type is x.type:
            operands.append(own[n])
        else:
            found[free_name(n, (*taken, *found))] = x
            operands.append(Var(x.type))
    return found, operands
