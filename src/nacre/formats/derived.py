"""Graphs that are derived from one: simplified, of its gradients, fitted to other sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from nacre.base.errors import ShapeError
from nacre.base.types import TensorType
from nacre.compile.passes.simplify import simplify
from nacre.formats.values import fitting_sizes
from nacre.interpret.stage import closed, run, stage
from nacre.ir.graph import Atom, Graph, Var
from nacre.ir.primitive import copies
from nacre.ir.rewrite import specialised, without_dead_code
from nacre.trace.modes import gradients
from nacre.trace.value import Value
from nacre.transform.grad import grad
from nacre.transform.graphs.naming import name as give_name

Named = Mapping[str, Var]


def simplified(graph: Graph, named: Named) -> tuple[Graph, Named]:
    """The graph after the first passes of the compiler, and the named values that it still computes."""
    count = len(graph.outputs)
    found = simplify(replace(graph, outputs=(*graph.outputs, *named.values())))
    copied = {e.outputs[0]: e.inputs[0] for e in found.equations if copies(e.primitive)}
    graph = without_dead_code(replace(found, outputs=found.outputs[:count]))
    made = computed(graph)
    left: dict[str, Var] = {}
    for n, v in zip(named, found.outputs[count:], strict=True):
        place = next((a for a in (v, copied.get(v)) if isinstance(a, Var) and a in made), None)  # type: ignore[arg-type]
        if place is not None:
            left[n] = place
    return graph, left


def computed(graph: Graph) -> set[Var]:
    """The results of the equations."""
    return {v for e in graph.equations for v in e.outputs}


def of_gradients(graph: Graph, named: Named, output: Atom, places: Sequence[int]) -> tuple[Graph, Named]:
    """The graph of the gradients of an output with respect to inputs, and the named values that it computes."""
    whole = replace(graph, outputs=(output, *named.values()))

    def scalar(*inputs: Value) -> Value:
        """The output; other values get their names again."""
        result, *rest = run(whole, inputs)
        for n, x in zip(named, rest, strict=True):
            give_name(x, n)
        return result

    with gradients(True):
        traced = stage(lambda *xs: list(grad(scalar, places)(*xs)), graph.input_types, f"{graph.name}.grad")
    found = without_dead_code(closed(traced))
    results = computed(found)
    return found, {n: v for n, v, _ in traced.names if isinstance(v, Var) and v in results}


def fitted(operation: str, graph: Graph, inputs: Sequence[str], operands: Sequence[Atom]) -> Graph:
    """The graph for operands of other sizes in the place of its inputs.  Raises ShapeError for other types."""
    types: dict[str, TensorType] = dict(zip(inputs, graph.input_types))
    for (n, t), a in zip(types.items(), operands, strict=True):
        if t.dtype is not a.type.dtype or t.rank != a.type.rank:
            raise ShapeError(f"{operation}: {n} of {graph.name} must be {t}; got {a.type}")
    sizes = fitting_sizes(graph.name, types, [a.type for a in operands])
    return specialised(graph, sizes) if sizes else graph
