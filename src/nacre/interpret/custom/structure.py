"""Functions with derivatives of their own, batched and guarded: their rules are batched and guarded with them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from nacre.base.dims import Size
from nacre.interpret.batch import BATCHED, Flowed, Mask, batch_graph
from nacre.interpret.check import GUARDED, guarded
from nacre.interpret.stage import derived, run
from nacre.ir.graph import Atom, Builder, Equation, Graph, Var
from nacre.ir.primitive import Primitive, register_rule
from nacre.ops.control import DerivativeRule, custom_jvp_p, custom_vjp_p, with_derivative
from nacre.ops.reduce import sum_
from nacre.trace.value import Value

Params = Mapping[str, Any]


def _whole(graph: Graph, mask: Sequence[bool], size: Size) -> Graph:
    """A graph over batched inputs where the mask is true, and batched outputs."""
    return batch_graph(graph, tuple(mask), size, (True,) * len(graph.outputs)).graph


def _batched(primitive: Primitive, xs: Sequence[Value], mask: Mask, params: Params, size: Size) -> Flowed:
    rule: DerivativeRule = params["rule"]

    def change(graphs: tuple[Graph, ...]) -> tuple[Graph, ...]:
        """The rule over batched operands: their tangents and cotangents, and all results, are batched."""
        if len(graphs) == 1:  # of `custom_jvp`
            return (_whole(graphs[0], (*mask, *(mask[k] for k in rule.places)), size),)
        forward, *backwards = graphs
        pulls = [_whole(b, (*mask, *(True,) * (len(b.inputs) - len(mask))), size) for b in backwards]
        return _whole(forward, mask, size), *(_with_sums(pull, [mask[k] for k in rule.places]) for pull in pulls)

    graph = _whole(params["graph"], mask, size)
    batched = rule.over(("batched", mask, size), rule.places, change)
    return with_derivative(primitive, graph, batched, *xs), (True,) * len(graph.outputs)


def _with_sums(pull: Graph, batched: Sequence[bool]) -> Graph:
    """The cotangents, of which those of operands for the whole batch are the sums of those of the examples."""
    if all(batched):
        return pull

    def summed(*xs: Value) -> list[Value]:
        """The cotangents, each of its operand's type."""
        return [c if b else sum_(c, (0,)) for c, b in zip(run(pull, xs), batched, strict=True)]

    return derived(summed, pull.input_types, pull.name)


def _guarded(b: Builder, e: Equation, active: Var, inputs: Sequence[Atom]) -> Sequence[Var]:
    rule: DerivativeRule = e.params["rule"]
    places = tuple(k + 1 for k in rule.places)
    changed = rule.over("guarded", places, lambda graphs: tuple(map(guarded, graphs)))
    return b.add(e.primitive, [active, *inputs], {"graph": guarded(e.params["graph"]), "rule": changed}, e.source)


for each in (custom_jvp_p, custom_vjp_p):
    register_rule(each, BATCHED, _batched)
    register_rule(each, GUARDED, _guarded)
