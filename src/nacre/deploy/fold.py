"""Constant folding: computes values that depend only on constants when a program is built.

An example is the scale of a normalisation.  Bits are the same on every machine, so the target does not matter.  A value
that would take more memory than its constants stays in the program.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from nacre.base.dims import Dim
from nacre.compile.pipeline import compile_graph
from nacre.interpret.evaluate import to_numpy
from nacre.ir.graph import Atom, Equation, Graph, Literal, Var
from nacre.ir.primitive import Element, Reduce
from nacre.ir.rewrite import without_calls
from nacre.trace.value import make


def folded(graph: Graph) -> Graph:
    """The same graph with constants in place of values computed only from constants."""
    graph = without_calls(graph)
    found = _foldable(graph)
    if not found:
        return graph
    part = Graph((), tuple(_behind(graph.equations, found)), tuple(found))
    buffers = compile_graph(part).executable.run([], {})
    known: dict[Atom, Atom] = {
        v: Literal(to_numpy(make(v.type, b)).copy(), v.type) for v, b in zip(found, buffers, strict=True)
    }
    equations = [
        Equation(e.primitive, tuple(known.get(x, x) for x in e.inputs), e.params, e.outputs, e.source)
        for e in graph.equations
        if not any(v in known for v in e.outputs)
    ]
    return Graph(graph.inputs, tuple(_behind(equations, graph.outputs)), graph.outputs, graph.name)


def _foldable(graph: Graph) -> list[Var]:
    """The values computed only from constants, no larger than the largest of those, and read by another equation."""
    largest: dict[Var, int] = {}  # bytes of the largest constant behind a value
    outputs = set(graph.outputs)
    for e in graph.equations:
        if not isinstance(e.primitive.lowering, Element | Reduce):
            continue
        (v,), sizes = e.outputs, [_bytes(x, largest) for x in e.inputs]
        if v not in outputs and v.type.static and None not in sizes and _known(tuple(e.params.values())):
            largest[v] = max((n for n in sizes if n is not None), default=0)
    needed: set[Atom] = set(outputs)
    found: list[Var] = []
    for e in reversed(graph.equations):
        known_outputs = [v for v in e.outputs if v in largest]
        low = e.primitive.lowering
        moves = isinstance(low, Element) and low.view is not None
        folded_outputs = [v for v in known_outputs if v in needed and not moves and int(v.type.nbytes) <= largest[v]]
        found += folded_outputs
        if not folded_outputs and (not known_outputs or known_outputs[0] in needed):
            needed.update(e.inputs)
    return found[::-1]


def _known(param: object) -> bool:
    """Whether a parameter is free of sizes that a call may choose."""
    if isinstance(param, tuple):
        return all(map(_known, cast("tuple[object, ...]", param)))
    return not isinstance(param, Dim)


def _bytes(x: Atom, largest: dict[Var, int]) -> int | None:
    """The bytes of a constant, or of the largest constant behind a value; None for other values."""
    return int(x.type.nbytes) if isinstance(x, Literal) else largest.get(x)


def _behind(equations: Sequence[Equation], wanted: Sequence[Atom]) -> list[Equation]:
    """The equations among these that compute the wanted values."""
    needed = set(wanted)
    found: list[Equation] = []
    for e in reversed(equations):
        if any(v in needed for v in e.outputs):
            found.append(e)
            needed.update(e.inputs)
    return found[::-1]
