"""Checks on tensors with numbers; checks where only some examples of a batch run; programs without checks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from nacre.base.errors import CHECKED
from nacre.interpret.evaluate import to_numpy
from nacre.interpret.forward import as_kind
from nacre.ir.graph import Atom, Builder, Equation, Graph, Var, kept_with_graph
from nacre.ir.primitive import Flow, RangeCheck, RuleKind, applying, register_rule
from nacre.ir.rewrite import without_dead_code
from nacre.ops import control
from nacre.ops.shape import broadcast_p
from nacre.trace.value import Value


def check_now(inputs: Sequence[Value], params: Mapping[str, Any]) -> None:
    """Raise the error of the first value out of bounds, in row-major order, of those that the mask chooses."""
    values, low, high = to_numpy(inputs[0]), params["low"], params["high"]
    wrong = (values < low) | (values >= high)
    for mask in map(to_numpy, inputs[1:]):
        wrong = wrong & mask.reshape((*mask.shape, *(1,) * (values.ndim - mask.ndim)))
    if wrong.any():
        got = values.reshape(-1)[int(np.argmax(wrong.reshape(-1)))]
        raise CHECKED[params["kind"]](params["text"].format(low=low, high=high, got=got))


# ---- parts that only some examples run

# of control flow: appends it with its guard to a builder
GUARDED: Final[RuleKind[Callable[[Builder, Equation, Var, Sequence[Atom]], Sequence[Var]]]] = RuleKind("guarding")


@kept_with_graph(1024)
def guarded(graph: Graph) -> Graph:
    """The graph with a bool scalar as a further first input: its checks count only where that is true."""
    b = Builder(graph.name)
    active = b.input(control.CONDITION)
    known: dict[Var, Atom] = {v: b.input(v.type) for v in graph.inputs}
    for e in graph.equations:
        inputs = [known[a] if isinstance(a, Var) else a for a in e.inputs]
        if isinstance(e.primitive.lowering, RangeCheck):
            results = b.add(e.primitive, [inputs[0], _both(b, active, inputs[1:])], e.params, e.source)
        elif isinstance(e.primitive.lowering, Flow) and e.has_effects:
            results = GUARDED.required(e.primitive)(b, e, active, inputs)
        else:
            results = b.add(e.primitive, inputs, e.params, e.source)
        known.update(zip(e.outputs, results, strict=True))
    return b.finish([known[a] if isinstance(a, Var) else a for a in graph.outputs])


def _both(b: Builder, active: Var, masks: Sequence[Atom]) -> Var:
    """A mask that is true where a scalar and the mask there is, if there is one, are."""
    if not masks:
        return active
    (wide,) = b.add(broadcast_p, [active], {"shape": masks[0].type.shape, "axes": ()})
    return b.add(applying("and"), [wide, masks[0]], {})[0]


def _call(b: Builder, e: Equation, active: Var, inputs: Sequence[Atom]) -> Sequence[Var]:
    graph: Graph = e.params["graph"]
    return b.add(e.primitive, [active, *inputs], {"graph": as_kind(graph, guarded(graph))}, e.source)


def _masked(b: Builder, e: Equation, active: Var, inputs: Sequence[Atom]) -> Sequence[Var]:
    graphs = {name: guarded(graph) for name, graph in e.params.items()}
    return b.add(e.primitive, [active, *inputs], graphs, e.source)


def _cond(b: Builder, e: Equation, active: Var, inputs: Sequence[Atom]) -> Sequence[Var]:
    sides = {name: guarded(e.params[name]) for name in ("then", "orelse")}
    return b.add(e.primitive, [inputs[0], active, *inputs[1:]], sides, e.source)


def _carrying(body: Graph) -> Graph:
    """The guarded body of a loop, which returns the guard as its first result, too."""
    found = guarded(body)
    return Graph(found.inputs, found.equations, (found.inputs[0], *found.outputs), found.name)


def _while(b: Builder, e: Equation, active: Var, inputs: Sequence[Atom]) -> Sequence[Var]:
    graphs = {**e.params, "cond": guarded(e.params["cond"]), "body": _carrying(e.params["body"])}
    return b.add(e.primitive, [active, *inputs], graphs, e.source)[1:]


def _scan(b: Builder, e: Equation, active: Var, inputs: Sequence[Atom]) -> Sequence[Var]:
    params = {**e.params, "body": _carrying(e.params["body"]), "carries": e.params["carries"] + 1}
    return b.add(e.primitive, [active, *inputs], params, e.source)[1:]


register_rule(control.call_p, GUARDED, _call)
register_rule(control.masked_p, GUARDED, _masked)
register_rule(control.cond_p, GUARDED, _cond)
register_rule(control.while_p, GUARDED, _while)
register_rule(control.scan_p, GUARDED, _scan)


# ---- parts that run again


@kept_with_graph(1024)
def without_checks(graph: Graph) -> Graph:
    """The graph, or an equal one, without its checks, for values that were computed, and so checked, before."""
    return own_without_checks(graph)


def own_without_checks(graph: Graph) -> Graph:
    """As `without_checks`; the values are those of this graph, for code that has others of them."""

    def bare(p: object) -> object:
        """A parameter without checks."""
        return as_kind(p, without_checks(p)) if isinstance(p, Graph) else p

    equations = [
        Equation(e.primitive, e.inputs, {k: bare(p) for k, p in e.params.items()}, e.outputs, e.source)
        if isinstance(e.primitive.lowering, Flow)
        else e
        for e in graph.equations
        if not isinstance(e.primitive.lowering, RangeCheck)
    ]
    return without_dead_code(Graph(graph.inputs, tuple(equations), graph.outputs, graph.name))
