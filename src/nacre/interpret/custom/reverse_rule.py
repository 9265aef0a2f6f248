"""`custom_vjp`: a function whose derivative is known in reverse mode only.

It is a linear equation that has only a transpose: a backward function, from cotangents of the results to those
of the operands.  A forward function gives the results, and the residuals that the backward function reads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from nacre.base.errors import GradientError
from nacre.base.types import TensorType
from nacre.interpret.custom.coverage import refusals, require_covered, uncovered
from nacre.interpret.flow import fill_zeros
from nacre.interpret.forward import FORWARD, Flowed, Tangents
from nacre.interpret.pullback import REVERSE, Positions, Rule
from nacre.ir.graph import Atom, Builder, Graph, Var
from nacre.ir.primitive import Constant, Primitive, register_rule
from nacre.ir.rewrite import inline
from nacre.ops.control import DerivativeRule, call_p, custom_vjp_p
from nacre.trace.bind import bind
from nacre.trace.value import Value

Params = Mapping[str, Any]
Types = tuple[TensorType, ...]


def _forward(primitive: Primitive, xs: Sequence[Value], ts: Tangents, params: Params) -> Flowed:
    moving = tuple(k for k, t in enumerate(ts) if t is not None)
    require_covered("custom_vjp", params, moving)
    rule: DerivativeRule = params["rule"]
    if any(k in rule.places for k in moving):
        raise GradientError(
            f"custom_vjp: forward mode (jvp, jacfwd, hessian) must not pass through {rule.name}, whose rule is for "
            "reverse mode only; use grad, vjp, jacrev or jacrev(jacrev(f)), or write the rule with nc.custom_jvp"
        )
    results = bind(primitive, *xs, **params)
    return results, [None] * len(results)


def _reverse(primitive: Primitive, params: Params, types: Types, active: Positions) -> Rule | None:
    rule: DerivativeRule = params["rule"]
    forward, backward, *others = rule.graphs
    backwards = dict(zip(rule.some, others, strict=True))
    n, m = len(types), len(params["graph"].outputs)
    outputs = forward.output_types[:m]
    traced = tuple(k for k, t in enumerate(outputs) if t.dtype.is_differentiable)
    residuals = forward.outputs[m:]
    place: dict[Atom, int] = {}  # of a residual among operands, results and further results
    for k, a in enumerate((*forward.inputs, *forward.outputs)):
        if isinstance(a, Var):
            place.setdefault(a, k)
    known = (*forward.inputs, *forward.outputs[:m])
    more = tuple(dict.fromkeys(a for a in residuals if isinstance(a, Var) and a not in known))
    place |= {a: n + m + k for k, a in enumerate(more)}

    def make(present: Positions) -> tuple[Graph, Positions]:
        """The backward function; a result without a cotangent has zeros, or the function is one of its own."""
        b = Builder(f"{rule.name}.pull")
        values = [b.input(t) for t in (*types, *outputs, *(a.type for a in more))]
        given = {k: b.input(outputs[k]) for k in present}
        own = backwards.get(present)
        cotangents = [
            given[k] if k in given else fill_zeros(b, outputs[k]) for k in (traced if own is None else present)
        ]
        saved = [values[place[a]] if isinstance(a, Var) else a for a in residuals]
        found = inline(b, backward if own is None else own, [*values[:n], *saved, *cotangents])
        chosen = [(k, c) for k, c in zip(rule.places, found, strict=True) if k in active]
        refused = refusals(b, "custom_vjp", params, active, next(iter(given.values())))
        return b.finish([*(c for _, c in chosen), *refused.values()]), (*(k for k, _ in chosen), *refused)

    whole = Graph(forward.inputs, forward.equations, (*forward.outputs[:m], *more), rule.name)
    wanted = uncovered(params, active) or any(k in rule.places for k in active)
    if not traced or not wanted:
        return None
    made = Rule(call_p, {"graph": whole}, n, m, n + m + len(more), traced, active, make)
    moving = _moving(forward)
    made.constants = tuple(m + k for k, a in enumerate(more) if a not in moving)
    return made.prepare(tuple(backwards))


def _moving(graph: Graph) -> set[Atom]:
    """The values of a graph that may have a derivative by an input."""
    found: set[Atom] = {v for v in graph.inputs if v.type.dtype.is_differentiable}
    for e in graph.equations:
        if not isinstance(e.primitive.derivative, Constant) and not found.isdisjoint(e.inputs):
            found.update(v for v in e.outputs if v.type.dtype.is_differentiable)
    return found


register_rule(custom_vjp_p, FORWARD, _forward)
register_rule(custom_vjp_p, REVERSE, _reverse)
