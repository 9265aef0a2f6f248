"""Simplified control flow: loop-invariant carries become operands, and unused results are removed.

scan, while    a carry that the body returns unchanged is replaced by the operand, in and after the loop
cond           a result that both sides return unchanged is replaced by the operand
all            unused results, carries and operands are removed, in nested graphs too
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from nacre.ir.graph import Atom, Equation, Graph, Var
from nacre.ir.primitive import Flow
from nacre.ir.rewrite import live_equations, without_calls


def simplify_loops(graph: Graph) -> Graph:
    """The graph with simplified control flow; calls are inlined first."""
    if not any(isinstance(e.primitive.lowering, Flow) for e in graph.equations):
        return graph
    return _needed(_settled(without_calls(graph)))


def unchanged(e: Equation) -> dict[int, int]:
    """Which results of a loop or branch are always equal to which operands: result → operand."""
    params = e.params
    match e.primitive.name:
        case "scan":
            return _given_back(params["body"], range(params["carries"]))
        case "while":
            return _given_back(params["body"], range(len(e.outputs)))
        case _:
            then, orelse = _places(params["then"]), _places(params["orelse"])
            return {k: 1 + a for k, (a, b) in enumerate(zip(then, orelse, strict=True)) if a == b >= 0}


def _places(graph: Graph) -> list[int]:
    """Which input each output is; -1 for one that is computed."""
    at: dict[Atom, int] = {v: k for k, v in enumerate(graph.inputs)}
    return [at.get(a, -1) for a in graph.outputs]


def _given_back(body: Graph, carries: Iterable[int]) -> dict[int, int]:
    return {k: k for k in carries if body.outputs[k] is body.inputs[k]}


def _settled(graph: Graph) -> Graph:
    """Operands in the place of results that are the same, inner graphs first."""
    known: dict[Atom, Atom] = {}
    equations: list[Equation] = []
    for e in graph.equations:
        inputs = tuple(known.get(a, a) for a in e.inputs)
        if isinstance(e.primitive.lowering, Flow):
            params = {k: _settled(without_calls(p)) if isinstance(p, Graph) else p for k, p in e.params.items()}
            e = Equation(e.primitive, inputs, params, e.outputs, e.source)
            known.update({e.outputs[k]: inputs[j] for k, j in unchanged(e).items()})
        else:
            e = Equation(e.primitive, inputs, e.params, e.outputs, e.source)
        equations.append(e)
    return Graph(graph.inputs, tuple(equations), tuple(known.get(a, a) for a in graph.outputs), graph.name)


def _needed(graph: Graph) -> Graph:
    """The graph without what its outputs do not depend on, outer graphs first."""
    live: set[Atom] = set(graph.outputs)
    kept: list[Equation] = []
    for e in reversed(graph.equations):
        if not e.primitive.effects and live.isdisjoint(e.outputs):
            continue
        if isinstance(e.primitive.lowering, Flow):
            e = _lean(e, [k for k, v in enumerate(e.outputs) if v in live])
        kept.append(e)
        live.update(e.inputs)
    return Graph(graph.inputs, tuple(reversed(kept)), graph.outputs, graph.name)


def _lean(e: Equation, wanted: Sequence[int]) -> Equation:
    """A loop or branch with the results that are wanted and those that they depend on."""
    if e.primitive.name == "cond":
        return _lean_branch(e, wanted)
    body: Graph = e.params["body"]
    carries = e.params["carries"] if e.primitive.name == "scan" else len(e.outputs)
    test: Graph | None = e.params.get("cond")
    needed = set(wanted)
    read: set[int] = set()
    while True:
        read = _reads(body, needed) | (_reads(test, (0,)) if test is not None else set())
        more = {k for k in read if k < carries} | {k for k in needed if k < carries}
        if more <= needed:
            break
        needed |= more
    held = sorted(needed)
    operands = sorted(read | {k for k in needed if k < carries})
    params: dict[str, Any] = {**e.params, "body": _restricted(body, operands, held)}
    if test is not None:
        params["cond"] = _restricted(test, operands, (0,))
    if e.primitive.name == "scan":
        params["carries"] = sum(k < carries for k in held)
    return _chosen(e, operands, params, held)


def _lean_branch(e: Equation, wanted: Sequence[int]) -> Equation:
    sides: Mapping[str, Graph] = {k: e.params[k] for k in ("then", "orelse")}
    operands = sorted({k for g in sides.values() for k in _reads(g, wanted)})
    params = {k: _restricted(g, operands, wanted) for k, g in sides.items()}
    return _chosen(e, [0, *(1 + k for k in operands)], params, wanted)


def _chosen(e: Equation, operands: Sequence[int], params: Mapping[str, Any], results: Sequence[int]) -> Equation:
    return Equation(
        e.primitive, tuple(e.inputs[k] for k in operands), params, tuple(e.outputs[k] for k in results), e.source
    )


def _reads(graph: Graph, outputs: Iterable[int]) -> set[int]:
    """The inputs that some outputs of a graph depend on."""
    _, live = live_equations(graph.equations, [graph.outputs[k] for k in outputs])
    return {k for k, v in enumerate(graph.inputs) if v in live}


def _restricted(graph: Graph, inputs: Sequence[int], outputs: Sequence[int]) -> Graph:
    given: tuple[Var, ...] = tuple(graph.inputs[k] for k in inputs)
    return _needed(Graph(given, graph.equations, tuple(graph.outputs[k] for k in outputs), graph.name))
