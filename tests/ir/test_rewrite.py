"""Substitution, uses, dead code, inlining and the pattern driver."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from nacre.base.dtypes import float32, int32
from nacre.base.errors import GraphError
from nacre.base.types import TensorType
from nacre.ir.graph import Atom, Builder, Equation, Graph, Literal, Var
from nacre.ir.primitive import primitive_named
from nacre.ir.rewrite import (
    Rewriter,
    inline,
    live_equations,
    rewrite,
    substitute,
    uses,
    without_calls,
    without_dead_code,
)
from nacre.ops import control, pointwise

assert control and pointwise  # they register the primitives
F = TensorType((2,), float32)
NEG, ADD, CALL = primitive_named("neg"), primitive_named("add"), primitive_named("call")


def sample() -> tuple[Graph, list[Var]]:
    """(x, y) → x + -(-x), with a dead equation."""
    b = Builder("sample")
    x, y = b.input(F), b.input(F)
    (n,) = b.add(NEG, [x])
    (m,) = b.add(NEG, [n])
    b.add(ADD, [y, y])
    return b.finish(b.add(ADD, [x, m])), [x, y, n, m]


def test_substitute_removes_inputs() -> None:
    graph, (x, y, *_) = sample()
    two = Literal(np.full(2, 2, np.float32), F)
    found = substitute(graph, {y: two}).verify()
    assert found.inputs == (x,) and two in found.equations[2].inputs
    with pytest.raises(GraphError, match="f32"):
        substitute(graph, {y: Var(TensorType((2,), int32))})


def test_uses_are_in_order_and_counted() -> None:
    graph, (x, y, _, m) = sample()
    found = uses(graph)
    assert found[x] == [graph.equations[0], graph.equations[3]]
    assert found[y] == [graph.equations[2]] * 2 and found[m] == [graph.equations[3]]


def test_dead_code_is_removed_and_inputs_stay() -> None:
    graph, _ = sample()
    found = without_dead_code(graph).verify()
    assert [e.primitive.name for e in found.equations] == ["neg", "neg", "add"] and len(found.inputs) == 2
    assert without_dead_code(found) is found
    kept, live = live_equations(graph.equations, [])
    assert kept == [] and live == set()


def double_negation(rewriter: Rewriter, e: Equation) -> Sequence[Atom] | None:
    before = rewriter.definition(e.inputs[0]) if e.primitive is NEG else None
    return [before.inputs[0]] if before is not None and before.primitive is NEG else None


def test_rules_see_definitions() -> None:
    graph, (x, *_) = sample()
    found = without_dead_code(rewrite(graph, double_negation)).verify()
    (e,) = found.equations
    assert e.primitive is ADD and e.inputs == (x, x)
    assert rewrite(found, double_negation) is found


def test_rules_may_add_equations_but_not_change_types() -> None:
    graph, _ = sample()

    def by_subtraction(rewriter: Rewriter, e: Equation) -> Sequence[Atom] | None:
        if e.primitive is not NEG:
            return None
        zero = rewriter.add(primitive_named("fill"), value=0.0, shape=(2,), dtype=float32)
        return [rewriter.add(primitive_named("sub"), zero, *e.inputs)]

    names = [e.primitive.name for e in rewrite(graph, by_subtraction).verify().equations]
    assert names == ["fill", "sub", "fill", "sub", "add", "add"]
    with pytest.raises(GraphError, match="rewrite"):
        rewrite(graph, lambda r, e: [Var(TensorType((), float32))])


def test_calls_are_inlined_at_every_depth() -> None:
    inner, _ = sample()
    b = Builder("middle")
    x = b.input(F)
    middle = b.finish(b.add(CALL, [x, x], {"graph": inner}))
    b = Builder("outer")
    x = b.input(F)
    (y,) = b.add(CALL, [x], {"graph": middle})
    (z,) = b.add(CALL, [y], {"graph": middle}, source="there:1")
    found = without_calls(b.finish([z])).verify()
    assert [e.primitive.name for e in found.equations] == ["neg", "neg", "add", "add"] * 2
    assert found.equations[-1].source == "there:1"


def test_inline_makes_new_values() -> None:
    graph, _ = sample()
    b = Builder("twice")
    x = b.input(F)
    first = inline(b, graph, [x, x])
    b.finish(inline(b, graph, [first[0], x])).verify()
