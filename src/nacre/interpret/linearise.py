"""Linearisation of graphs: forward mode, split into a part without tangents and a part that is linear in them."""

from __future__ import annotations

from nacre.base.records import dataclass
from nacre.interpret.forward import PushedGraph, jvp_graph
from nacre.ir.graph import Atom, Equation, Graph
from nacre.ir.rewrite import live_equations, without_dead_code


@dataclass(frozen=True)
class Linearisation:
    """primal: inputs → outputs and residuals;  linear: residuals and tangents → tangents of the outputs `active`."""

    primal: Graph
    linear: Graph
    active: tuple[bool, ...]


def linearise(graph: Graph, active: tuple[bool, ...]) -> Linearisation:
    """Split the derivative of a graph along its active inputs: equations that read tangents are the linear part."""
    pushed: PushedGraph = jvp_graph(graph, active)
    count = len(graph.inputs)
    moving: set[Atom] = set(pushed.graph.inputs[count:])
    still: list[Equation] = []
    moved: list[Equation] = []
    for e in pushed.graph.equations:
        part = still if moving.isdisjoint(e.inputs) else moved
        part.append(e)
        if part is moved:
            moving.update(e.outputs)
    ys, ts = pushed.graph.outputs[: len(graph.outputs)], pushed.graph.outputs[len(graph.outputs) :]
    moved, read = live_equations(moved, ts)
    inputs, tangents = pushed.graph.inputs[:count], pushed.graph.inputs[count:]
    available = [*inputs, *(v for e in still for v in e.outputs)]
    residuals = tuple(v for v in available if v in read)
    primal = Graph(inputs, tuple(still), (*ys, *residuals), graph.name)
    linear = Graph((*residuals, *tangents), tuple(moved), ts, f"{graph.name}.linear")
    return Linearisation(without_dead_code(primal), linear, pushed.active)
