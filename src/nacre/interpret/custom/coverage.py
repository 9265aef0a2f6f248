"""The operands for which a derivative rule has no derivative: captured values, and arguments that it leaves out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from nacre.base.errors import GradientError
from nacre.ir.graph import Atom, Builder, Graph, Var, kept_with_graph
from nacre.ir.primitive import Constant
from nacre.ops.control import DerivativeRule, refused_p

Params = Mapping[str, Any]


@kept_with_graph(1024)
def _sources(graph: Graph) -> frozenset[int]:
    """The positions of the inputs by which an output may have a derivative."""
    live = {a for a in graph.outputs if a.type.dtype.is_differentiable}
    for e in reversed(graph.equations):
        if not isinstance(e.primitive.derivative, Constant) and not live.isdisjoint(e.outputs):
            live.update(a for a in e.inputs if a.type.dtype.is_differentiable)
    return frozenset(k for k, v in enumerate(graph.inputs) if v in live)


def uncovered(params: Params, active: Sequence[int]) -> list[int]:
    """The operands in `active` that the function differentiably depends on, and its rule leaves out."""
    rule: DerivativeRule = params["rule"]
    return [k for k in active if k not in rule.places and k in _sources(params["graph"])]


def _fault(operation: str, params: Params, k: int) -> str:
    rule: DerivativeRule = params["rule"]
    return rule.refusal or (
        f"{operation}: the rule of {rule.name} has derivatives by its arguments only; got one by a "
        f"{params['graph'].input_types[k]} that the function captures, or that nondiff_argnums names; pass it as "
        "an argument, which the rule then differentiates, or stop its gradient with x.detach()"
    )


def require_covered(operation: str, params: Params, active: Sequence[int]) -> None:
    """Raise GradientError for a derivative by an operand that the rule leaves out."""
    for k in uncovered(params, active):
        raise GradientError(_fault(operation, params, k))


def refusals(b: Builder, operation: str, params: Params, active: Sequence[int], given: Atom) -> dict[int, Var]:
    """For each operand that the rule leaves out, a cotangent that raises GradientError where something reads it."""
    types = params["graph"].input_types
    return {
        k: b.add(
            refused_p,
            (given,),
            {"shape": types[k].shape, "dtype": types[k].dtype, "text": _fault(operation, params, k)},
        )[0]
        for k in uncovered(params, active)
    }
