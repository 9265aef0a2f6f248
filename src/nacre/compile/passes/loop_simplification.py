"""Simplified control flow: loop-invariant carries become operands, and unused results are removed.

scan, while    a carry that the body returns unchanged is replaced by the operand, in and after the loop
cond           a result that both sides return unchanged is replaced by the operand
all            unused results, carries and operands are removed, in nested graphs too
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from nacre.base.records import dataclass
from nacre.ir.graph import Atom, Equation, Graph, Var
from nacre.ir.primitive import Flow, RuleKind, register_rule
from nacre.ir.rewrite import live_equations, without_calls
from nacre.ops import control


def simplify_loops(graph: Graph) -> Graph:
    """The graph with simplified control flow; calls are inlined first."""
    if not any(isinstance(e.primitive.lowering, Flow) for e in graph.equations):
        return graph
    return _needed(_settled(without_calls(graph)))


@dataclass(frozen=True)
class FlowRule:
    """How control flow is simplified.

    `unchanged(e)` says which results are always equal to which operands: result → operand.
    `lean(e, wanted)` is the equation with the results that are wanted and those that they depend on.
    """

    unchanged: Callable[[Equation], dict[int, int]]
    lean: Callable[[Equation, Sequence[int]], Equation]


SIMPLIFIED: Final[RuleKind[FlowRule]] = RuleKind("simplification of control flow")


def unchanged(e: Equation) -> dict[int, int]:
    """Which results of a loop or branch are always equal to which operands: result → operand."""
    return SIMPLIFIED.required(e.primitive).unchanged(e)


def _unchanged_of_branch(e: Equation) -> dict[int, int]:
    then, orelse = _places(e.params["then"]), _places(e.params["orelse"])
    return {k: 1 + a for k, (a, b) in enumerate(zip(then, orelse, strict=True)) if a == b >= 0}


def _unchanged_of_scan(e: Equation) -> dict[int, int]:
    return _unchanged_carries(e.params["body"], range(e.params["carries"]))


def _unchanged_of_while(e: Equation) -> dict[int, int]:
    return _unchanged_carries(e.params["body"], range(len(e.outputs)))


def _places(graph: Graph) -> list[int]:
    """Which input each output is; -1 for one that is computed."""
    at: dict[Atom, int] = {v: k for k, v in enumerate(graph.inputs)}
    return [at.get(a, -1) for a in graph.outputs]


def _unchanged_carries(body: Graph, carries: Iterable[int]) -> dict[int, int]:
    return {k: k for k in carries if body.outputs[k] is body.inputs[k]}


def _settled(graph: Graph) -> Graph:
    """The graph with operands in place of results that equal them, inner graphs first."""
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
    """The graph without equations that its outputs do not depend on, outer graphs first."""
    live: set[Atom] = set(graph.outputs)
    kept: list[Equation] = []
    for e in reversed(graph.equations):
        if live.isdisjoint(e.outputs) and not e.has_effects:
            continue
        if isinstance(e.primitive.lowering, Flow):
            wanted = [k for k, v in enumerate(e.outputs) if v in live]
            e = SIMPLIFIED.required(e.primitive).lean(e, wanted)
        kept.append(e)
        live.update(e.inputs)
    return Graph(graph.inputs, tuple(reversed(kept)), graph.outputs, graph.name)


def _lean_scan(e: Equation, wanted: Sequence[int]) -> Equation:
    body: Graph = e.params["body"]
    carries: int = e.params["carries"]
    operands, results = _needed_by_loop(body, set(), wanted, carries)
    fewer = sum(k < carries for k in results)
    return _chosen(e, operands, {**e.params, "body": _restricted(body, operands, results), "carries": fewer}, results)


def _lean_while(e: Equation, wanted: Sequence[int]) -> Equation:
    body: Graph = e.params["body"]
    test: Graph = e.params["cond"]
    operands, results = _needed_by_loop(body, _reads(test, (0,)), wanted, len(e.outputs))
    params = {**e.params, "body": _restricted(body, operands, results), "cond": _restricted(test, operands, (0,))}
    return _chosen(e, operands, params, results)


def _needed_by_loop(body: Graph, always: set[int], wanted: Sequence[int], carries: int) -> tuple[list[int], list[int]]:
    """The operands and results that a loop needs for some results, if the operands `always` are read in any case."""
    needed = set(wanted)
    read: set[int] = set()
    while True:
        read = _reads(body, needed) | always
        more = {k for k in read if k < carries} | {k for k in needed if k < carries}
        if more <= needed:
            break
        needed |= more
    return sorted(read | {k for k in needed if k < carries}), sorted(needed)


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


register_rule(control.cond_p, SIMPLIFIED, FlowRule(_unchanged_of_branch, _lean_branch))
register_rule(control.while_p, SIMPLIFIED, FlowRule(_unchanged_of_while, _lean_while))
register_rule(control.scan_p, SIMPLIFIED, FlowRule(_unchanged_of_scan, _lean_scan))
