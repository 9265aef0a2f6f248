"""`custom_jvp`: the rule gives the tangents of the results; reverse mode transposes it.

The rule is linear in the tangents.  So the derivative of its graph along the tangents is the same linear function,
without the terms of operands that have no tangent.  The pullback computes its coefficients from the operands and
results.

The rule may apply the function itself to tangents, if it is linear.  In reverse mode the function then has the
derivative of its own operations there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from nacre.base.errors import GradientError
from nacre.base.records import dataclass
from nacre.base.types import TensorType
from nacre.interpret.check import own_without_checks
from nacre.interpret.custom.coverage import refusals, require_covered, uncovered
from nacre.interpret.flow import fill_zeros
from nacre.interpret.forward import FORWARD, Flowed, Mask, Tangents, jvp_graph, spread
from nacre.interpret.linearity import obstacle
from nacre.interpret.pullback import REVERSE, Positions, Rule
from nacre.interpret.reverse import own_reverse
from nacre.ir.graph import Atom, Builder, Equation, Graph, Var, kept_with_graph
from nacre.ir.primitive import Primitive, register_rule
from nacre.ir.rewrite import inline, without_calls, without_dead_code
from nacre.ops.control import DerivativeRule, call, call_p, custom_jvp_p
from nacre.trace.value import Value

Params = Mapping[str, Any]
Types = tuple[TensorType, ...]


@dataclass(frozen=True)
class Pushed:
    """(operands, tangents of some) → (results, tangents of the results `active`)."""

    graph: Graph
    active: Mask


def _differentiable(types: Sequence[TensorType]) -> Positions:
    return tuple(k for k, t in enumerate(types) if t.dtype.is_differentiable)


@kept_with_graph(1024)
def _pushed(graph: Graph, name: str, operands: int, moving: Mask) -> Pushed:
    """The graph of a rule along the tangents where `moving` is true; the others are zero."""
    tangents = graph.inputs[operands:]
    count = _results(graph)
    along = without_dead_code(Graph(graph.inputs, graph.equations, graph.outputs[count:], graph.name))
    fault = obstacle(along, tangents)
    if fault is not None:
        raise GradientError(
            f"custom_jvp: the rule of {name} must be linear in the tangents; got {fault} of a tangent; multiply "
            "tangents by values that do not depend on them, and add these terms"
        )
    if _of_tangents(along, tangents, graph):
        return _with_zeros(graph, operands, moving, count)
    pushed = jvp_graph(graph, (False,) * operands + moving)
    if any(pushed.active[:count]):
        raise GradientError(
            f"custom_jvp: the result of the rule of {name} must not depend on the tangents; got one that does; "
            "return (result, tangent)"
        )
    given = [t for t, m in zip(tangents, moving, strict=True) if m]
    b = Builder(f"{name}.jvp")
    xs = [b.input(v.type) for v in graph.inputs[:operands]]
    ts = [b.input(v.type) for v in given]
    zeros = [fill_zeros(b, v.type) for v in tangents]
    found = inline(b, pushed.graph, [*xs, *zeros, *ts])
    results, moved = found[:count], found[len(graph.outputs) :]
    active = [False] * count
    for place, k in enumerate(_differentiable([a.type for a in results])):
        active[k] = pushed.active[count + place]
    return Pushed(without_dead_code(b.finish([*results, *moved])), tuple(active))


def _of_tangents(along: Graph, tangents: Sequence[Var], whole: Graph) -> set[Var]:
    """The results of calls of a rule's own function that depend on tangents; `whole` is the graph of the rule."""
    moved: set[Atom] = set(tangents)
    found: set[Var] = set()
    for e in along.equations:
        if not moved.isdisjoint(e.inputs):
            moved.update(e.outputs)
            rule = e.params.get("rule")
            if isinstance(rule, DerivativeRule) and rule.graphs[0] == whole:
                found.update(e.outputs)
    return found


def _with_zeros(graph: Graph, operands: int, moving: Mask, count: int) -> Pushed:
    """The graph of a rule with zeros for the tangents that are not moving."""
    b = Builder(graph.name)
    xs = [b.input(v.type) for v in graph.inputs[:operands]]
    tangents = graph.inputs[operands:]
    ts = [b.input(v.type) if m else fill_zeros(b, v.type) for v, m in zip(tangents, moving, strict=True)]
    made = without_dead_code(b.finish(inline(b, graph, [*xs, *ts])))
    return Pushed(made, tuple(t.dtype.is_differentiable for t in graph.output_types[:count]))


def _results(graph: Graph) -> int:
    """The number of results of a rule's graph, whose other outputs are the tangents of some of them."""
    types = graph.output_types
    return next(n for n in range(len(types) + 1) if n + len(_differentiable(types[:n])) == len(types))


def _along(params: Params, moving: Positions) -> Pushed:
    rule: DerivativeRule = params["rule"]
    operands = len(params["graph"].inputs)
    return _pushed(rule.graphs[0], rule.name, operands, tuple(k in moving for k in rule.places))


def _forward(primitive: Primitive, xs: Sequence[Value], ts: Tangents, params: Params) -> Flowed:
    moving = tuple(k for k, t in enumerate(ts) if t is not None)
    require_covered("custom_jvp", params, moving)
    rule: DerivativeRule = params["rule"]
    pushed = _along(params, moving)
    given = [t for k in rule.places if (t := ts[k]) is not None]
    results = call(pushed.graph, *xs, *given)
    n = len(pushed.active)
    return results[:n], spread(results[n:], pushed.active)


def _reverse(primitive: Primitive, params: Params, types: Types, active: Positions) -> Rule | None:
    rule: DerivativeRule = params["rule"]
    moving = tuple(k for k in active if k in rule.places)
    pushed = _along(params, moving)
    n, m = len(types), len(pushed.active)
    forward = without_dead_code(
        Graph(pushed.graph.inputs[:n], pushed.graph.equations, pushed.graph.outputs[:m], rule.name)
    )
    linear = without_dead_code(
        Graph(pushed.graph.inputs, pushed.graph.equations, pushed.graph.outputs[m:], f"{rule.name}.jvp")
    )
    own = _of_tangents(linear, linear.inputs[n:], rule.graphs[0])
    linear = without_calls(linear, lambda e: own.isdisjoint(e.outputs)) if own else linear
    back = own_reverse(linear, tuple(range(n, len(linear.inputs))))
    moved = tuple(k for k, a in enumerate(pushed.active) if a)
    traced = tuple(moved[k] for k in back.traced)

    def make(present: Positions) -> tuple[Graph, Positions]:
        """The transposed rule; its coefficients are computed from the operands and results."""
        if forward.calls_host:
            raise GradientError(
                f"custom_jvp: reverse mode computes parts of the rule of {rule.name} again; got a rule that calls the "
                "host, which must run once; write nc.custom_vjp, whose forward function runs once"
            )
        b = Builder(f"{rule.name}.pull")
        inputs = [b.input(t) for t in types]
        results = [b.input(a.type) for a in pushed.graph.outputs[:m]]
        given = [b.input(results[k].type) for k in present]
        zeros = [fill_zeros(b, v.type) for v in linear.inputs[n:]]
        known: dict[Var, Atom] = {
            a: y for a, y in zip(pushed.graph.outputs, results, strict=False) if isinstance(a, Var)
        }
        known |= zip(back.graph.inputs, [*inputs, *zeros], strict=True)
        again = own_without_checks(Graph(back.graph.inputs, back.graph.equations, back.needed, rule.name))
        needed = _continued(b, again, known)
        pulled = [(moved.index(k), c) for k, c in zip(present, given, strict=True) if k in moved]
        pull, targets = back.pull(tuple(k for k, _ in pulled))
        found = inline(b, pull, [*needed, *(c for _, c in pulled)])
        refused = refusals(b, "custom_jvp", params, active, given[0])
        return b.finish([*found, *refused.values()]), (*(moving[k - n] for k in targets), *refused)

    if uncovered(params, active):
        traced = _differentiable(forward.output_types)
    return Rule(call_p, {"graph": forward}, n, m, n + m, traced, active, make).prepare() if traced else None


def _continued(b: Builder, graph: Graph, known: dict[Var, Atom]) -> list[Atom]:
    """The outputs of a graph, from values of it that are known."""
    kept: list[Equation] = []
    live = {a for a in graph.outputs if isinstance(a, Var) and a not in known}
    for e in reversed(graph.equations):
        if not live.isdisjoint(e.outputs):
            kept.append(e)
            live.update(a for a in e.inputs if isinstance(a, Var) and a not in known)
    for e in reversed(kept):
        fresh = b.add(e.primitive, [known[a] if isinstance(a, Var) else a for a in e.inputs], e.params, e.source)
        known.update((v, f) for v, f in zip(e.outputs, fresh, strict=True) if v not in known)
    return [known[a] if isinstance(a, Var) else a for a in graph.outputs]


register_rule(custom_jvp_p, FORWARD, _forward)
register_rule(custom_jvp_p, REVERSE, _reverse)
