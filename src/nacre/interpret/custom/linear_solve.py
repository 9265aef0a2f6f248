"""`linear_solve`: the solution of A·x = b, whose derivatives solve systems with A and Aᵀ.

With A·x = b, the tangents satisfy A·dx = db − dA·x.  The cotangent g of x gives λ with Aᵀ·λ = g, which is the cotangent
of b.  That of an operand of A is the one that −λ gives it through A·x, for a fixed x.  No derivative passes through the
iterations of the solver, so derivatives of any order exist.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from nacre.base.dims import Size
from nacre.base.types import TensorType
from nacre.interpret.batch import BATCHED, Mask, batch_graph, to_front
from nacre.interpret.batch import Flowed as Batched
from nacre.interpret.check import GUARDED, guarded
from nacre.interpret.forward import FORWARD, Flowed, Tangents, jvp_graph
from nacre.interpret.pullback import REVERSE, Positions, Rule
from nacre.interpret.reverse import reverse
from nacre.ir.graph import Atom, Builder, Equation, Graph, Var
from nacre.ir.primitive import Primitive, applying, register_rule
from nacre.ir.rewrite import inline
from nacre.ops.control import DerivativeRule, call, linear_solve, linear_solve_p
from nacre.ops.pointwise import neg, sub
from nacre.trace.value import Value

Params = Mapping[str, Any]
Types = tuple[TensorType, ...]


def _transposed(rule: DerivativeRule) -> DerivativeRule:
    """The rule of the transposed system."""

    def swap(graphs: tuple[Graph, ...]) -> tuple[Graph, ...]:
        """The graphs of A and Aᵀ in each other's place."""
        apply, transpose, solver, of_transpose = graphs
        return transpose, apply, of_transpose, solver

    return rule.over("transposed", rule.places, swap)


def _forward(primitive: Primitive, xs: Sequence[Value], ts: Tangents, params: Params) -> Flowed:
    rule: DerivativeRule = params["rule"]
    at = rule.places[0]
    results = linear_solve(params["graph"], rule, *xs)
    none: list[Value | None] = [None] * len(results)
    apply, _, solver, _ = rule.graphs
    moving = tuple(t is not None and k != at for k, t in enumerate(ts))
    side = ts[at]
    if any(moving):
        pushed = jvp_graph(apply, moving)
        if pushed.active[0]:
            here = (*xs[:at], results[0], *xs[at + 1 :])
            change = call(pushed.graph, *here, *(t for t, m in zip(ts, moving, strict=True) if m and t is not None))[1]
            side = neg(change) if side is None else sub(side, change)
    if side is None:
        return results, none
    tangent = linear_solve(solver, rule, *xs[:at], side, *xs[at + 1 :])[0]
    return results, [tangent, *none[1:]]


def _reverse(primitive: Primitive, params: Params, types: Types, active: Positions) -> Rule | None:
    rule: DerivativeRule = params["rule"]
    at, n, m = rule.places[0], len(types), len(params["graph"].outputs)
    apply, _, _, of_transpose = rule.graphs
    moving = tuple(k for k in active if k != at)
    back = reverse(apply, moving)
    if at not in active and not back.traced:
        return None

    def make(present: Positions) -> tuple[Graph, Positions]:
        """The graph that solves the transposed system, and pulls its solution back to the operands of A."""
        b = Builder("linear_solve.pull")
        inputs: list[Atom] = [b.input(t) for t in types]
        results = [b.input(t) for t in params["graph"].output_types]
        solution = results[0]
        given = b.input(solution.type)
        whole = {"graph": of_transpose, "rule": _transposed(rule)}
        turned = b.add(linear_solve_p, [*inputs[:at], given, *inputs[at + 1 :]], whole)[0]
        found: dict[int, Atom] = {at: turned} if at in active else {}
        if back.traced:
            computed = Graph(back.graph.inputs, back.graph.equations, back.needed, apply.name)
            needed = inline(b, computed, [*inputs[:at], solution, *inputs[at + 1 :]])
            pull, targets = back.pull((0,))
            negative = b.add(applying("neg"), (turned,))[0]
            found |= zip(targets, inline(b, pull, [*needed, negative]), strict=True)
        return b.finish(list(found.values())), tuple(found)

    return Rule(primitive, params, n, m, n + m, (0,), active, make).prepare()


def _batched(primitive: Primitive, xs: Sequence[Value], mask: Mask, params: Params, size: Size) -> Batched:
    rule: DerivativeRule = params["rule"]
    at = rule.places[0]
    given = [to_front(x, None, size) if k == at and not mask[at] else x for k, x in enumerate(xs)]
    mask = (*mask[:at], True, *mask[at + 1 :])

    def whole(graph: Graph) -> Graph:
        """A graph over batched operands, with batched results."""
        return batch_graph(graph, mask, size, (True,) * len(graph.outputs)).graph

    changed = rule.over(("batched", mask, size), rule.places, lambda graphs: tuple(map(whole, graphs)))
    results = linear_solve(whole(params["graph"]), changed, *given)
    return results, (True,) * len(results)


def _guarded(b: Builder, e: Equation, active: Var, inputs: Sequence[Atom]) -> Sequence[Var]:
    rule: DerivativeRule = e.params["rule"]
    places = tuple(k + 1 for k in rule.places)
    changed = rule.over("guarded", places, lambda graphs: tuple(map(guarded, graphs)))
    return b.add(e.primitive, [active, *inputs], {"graph": guarded(e.params["graph"]), "rule": changed}, e.source)


register_rule(linear_solve_p, FORWARD, _forward)
register_rule(linear_solve_p, REVERSE, _reverse)
register_rule(linear_solve_p, BATCHED, _batched)
register_rule(linear_solve_p, GUARDED, _guarded)
