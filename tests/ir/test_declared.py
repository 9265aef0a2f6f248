"""Equations of every primitive are checked against its type rule: operands, parameters, their kinds."""

from __future__ import annotations

import random
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

import mutations
from nacre.base.errors import Error, GraphError
from nacre.ir.declared import declared_types
from nacre.ir.graph import Equation, Graph
from nacre.ir.parse import parse
from nacre.ir.primitive import registered


def equations(graph: Graph) -> list[Equation]:
    within = [p for e in graph.equations for p in e.params.values() if isinstance(p, Graph)]
    return [*graph.equations, *(e for g in within for e in equations(g))]


EQUATIONS: dict[str, Equation] = {e.primitive.name: e for g in mutations.graphs() for e in equations(g)}
OPTIONAL = ("stride", "padding", "dilation", "groups")  # parameters of windows
ANY_NUMBER = {"concatenate"}  # takes any number of operands


def types(e: Equation, inputs: tuple[Any, ...]) -> Any:
    return declared_types(e.primitive, tuple(a.type for a in inputs), e.params)


def test_add_takes_two_operands() -> None:
    for operands in ("(a)", "(a, a, a)", "()"):
        with pytest.raises(GraphError, match="add: the operation takes 2 operands"):
            parse(f"graph g(a: f32[2]):\n  b: f32[2] = add{operands}\n  return b")


def test_a_reduction_has_an_axis() -> None:
    with pytest.raises(GraphError, match="sum: there must be an axis to reduce"):
        parse("graph g(a: f32[2]):\n  b: f32[2] = sum[axes=()](a)\n  return b")


@pytest.mark.parametrize("name", EQUATIONS)
def test_other_numbers_of_operands_and_other_parameters_are_refused(name: str) -> None:
    e = EQUATIONS[name]
    assert types(e, e.inputs) == tuple(v.type for v in e.outputs)
    if name not in ANY_NUMBER:
        for inputs in (e.inputs[:-1], (*e.inputs, *e.inputs[-1:])):
            if inputs != e.inputs:
                with pytest.raises(Error):
                    types(e, inputs)
    with pytest.raises(GraphError, match="parameters"):
        types(replace(e, params={**e.params, "more": 1}), e.inputs)
    for parameter in e.params:
        has_default = parameter in OPTIONAL and name.startswith(("window", "convolve"))
        with suppress(Error) if has_default else pytest.raises(Error):
            types(replace(e, params={k: v for k, v in e.params.items() if k != parameter}), e.inputs)
        for wrong in ("word", 0.5, None, ((("a",),),), 1 << 80):
            if parameter in ("value", "cutoff") and isinstance(wrong, float):
                continue
            with pytest.raises(Error):
                types(replace(e, params={**e.params, parameter: wrong}), e.inputs)


@pytest.mark.parametrize("name", sorted(registered()))
def test_no_rule_raises_other_errors(name: str) -> None:
    """For any operands and parameters, a rule raises one of Nacre's errors or returns types."""
    primitive, rng = registered()[name], random.Random(name)
    held = [a.type for e in EQUATIONS.values() for a in e.inputs]
    params = sorted({k for e in EQUATIONS.values() for k in e.params})
    own = EQUATIONS[name].params if name in EQUATIONS else {}
    for _ in range(60):
        given = {**own, **{k: rng.choice(mutations.VALUES) for k in rng.sample(params, rng.randrange(3))}}
        try:
            found = declared_types(primitive, tuple(rng.choices(held, k=rng.randrange(4))), given)
        except Error:
            continue
        assert isinstance(found, tuple)
