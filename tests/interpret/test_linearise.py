"""Rules of equations, transposes, and derivatives of whole graphs."""

from __future__ import annotations

import numpy as np
import pytest

from nacre.base.dtypes import bool_, float32, float64, int64
from nacre.base.errors import GradientError
from nacre.base.types import TensorType
from nacre.interpret.evaluate import from_numpy, to_numpy
from nacre.interpret.forward import jvp_graph
from nacre.interpret.linearise import linearise, reverse, rule_for, transpose
from nacre.interpret.stage import run, stage
from nacre.ir.graph import Graph
from nacre.ir.primitive import Pointwise, primitive_named
from nacre.ops.pointwise import add, cast, div, exp, maximum, mul, neg, sin
from nacre.ops.reduce import max_, sum_
from nacre.trace.value import Value

F = TensorType((2, 3), float64)
X = np.linspace(-1.0, 1.0, 6).reshape(2, 3)


def graph_of(f, *types: TensorType) -> Graph:
    return stage(lambda *xs: f(*xs), types).graph.verify()


def names(graph: Graph) -> list[str]:
    return [e.primitive.name for e in graph.equations]


def test_a_rule_is_derived_once_and_lists_the_saved_values() -> None:
    types = (F, F)
    rule = rule_for(primitive_named("mul"), {}, types, (0, 1))
    assert rule is rule_for(primitive_named("mul"), {}, types, (0, 1)) and rule is not None
    assert rule.saved == (0, 1) and rule.keeps_operands
    left = rule_for(primitive_named("mul"), {}, types, (0,))
    assert left is not None and left.saved == (1,) and left.pull((0,)).targets == (0,)
    e = rule_for(primitive_named("exp"), {}, (F,), (0,))
    assert e is not None and e.saved == (1,) and e.keeps_results


def test_sums_pass_cotangents_on_without_computing() -> None:
    rule = rule_for(primitive_named("add"), {}, (F, F), (0, 1))
    assert rule is not None and rule.saved == () and rule.pull((0,)).direct == (0, 0)


def test_equations_without_derivative_have_no_rule() -> None:
    assert rule_for(primitive_named("lt"), {}, (F, F), (0, 1)) is None
    assert rule_for(primitive_named("cast"), {"dtype": int64}, (F,), (0,)) is None
    assert rule_for(primitive_named("select"), {}, (F.with_dtype(bool_), F, F), (2,)) is not None


def test_maxima_recompute_their_mask_instead_of_saving_it() -> None:
    rule = rule_for(primitive_named("max"), {"axes": (1,)}, (F,), (0,))
    assert rule is not None and rule.saved == (0, 1) and rule.total == 2


def test_pullbacks_work_with_symbolic_sizes() -> None:
    from_text = stage(lambda x: [sum_(exp(x), (0, 1))], [F]).graph
    back = reverse(from_text, (0,))
    pull, targets = back.pull((0,))
    assert targets == (0,) and pull.verify().output_types == (F,)


def test_transpose_refuses_nonlinear_graphs() -> None:
    graph = graph_of(lambda x: [exp(x)], F)
    with pytest.raises(GradientError, match="linear"):
        transpose(graph, [], [from_numpy(X)])


def test_transpose_of_a_quotient_is_linear_only_in_the_numerator() -> None:
    graph = graph_of(lambda y, t: [div(t, y)], F, F)
    (found,) = transpose(graph, [from_numpy(X)], [from_numpy(np.ones_like(X))])
    assert found is not None
    np.testing.assert_allclose(to_numpy(found), 1 / X)
    with pytest.raises(GradientError, match="linear in operand 1; got div"):
        transpose(graph_of(lambda x, t: [div(x, t)], F, F), [from_numpy(X)], [from_numpy(X)])


def test_an_error_in_a_partial_is_raised() -> None:
    primitive = primitive_named("div")
    right = primitive.derivative
    wrong = Pointwise((lambda q, x, y: q.no_such_attribute, None), linear=(0,))
    object.__setattr__(primitive, "derivative", wrong)
    try:
        with pytest.raises(AttributeError, match="no_such_attribute"):
            transpose(graph_of(lambda y, t: [div(t, y)], F, F), [from_numpy(X)], [from_numpy(X)])
    finally:
        object.__setattr__(primitive, "derivative", right)


def test_transpose_of_a_linear_graph() -> None:
    graph = graph_of(lambda a, t: [sum_(add(mul(t, exp(a)), neg(t)), (0,))], F, F)
    c = np.array([1.0, 2.0, 3.0])
    (found,) = transpose(graph, [from_numpy(X)], [from_numpy(c)])
    assert found is not None
    np.testing.assert_allclose(to_numpy(found), (np.exp(X) - 1) * c)


def composite(x: Value, y: Value) -> list[Value]:
    m = max_(mul(x, y), (1,))
    return [m, sum_(sin(maximum(x, y)), (0, 1)), cast(neg(y), float32)]


def test_linearised_graphs_agree_with_forward_mode() -> None:
    graph = graph_of(composite, F, F)
    split = linearise(graph, (True, False))
    assert split.active == (True, True, False)
    split.primal.verify()
    split.linear.verify()
    x, y, t = from_numpy(X), from_numpy(X[::-1].copy()), from_numpy(np.cos(X))
    outputs = run(split.primal, [x, y])
    moved = run(split.linear, [*outputs[3:], t])
    wanted = run(jvp_graph(graph, (True, False)).graph, [x, y, t])
    for a, b in zip([*outputs[:3], *moved], wanted, strict=True):
        np.testing.assert_array_equal(to_numpy(a), to_numpy(b))
    assert not {"sin", "max"} & set(names(split.linear))


def test_reversed_graphs_compute_the_same_and_save_little() -> None:
    graph = graph_of(composite, F, F)
    back = reverse(graph, (0,))
    assert names(back.graph) == names(graph) and back.traced == (0, 1)
    pull, targets = back.pull((1,))
    pull.verify()
    assert targets == (0,) and "max" not in names(pull)


def test_dead_branches_of_a_graph_save_nothing() -> None:
    graph = graph_of(lambda x: [exp(x), sin(x)][:1], F)
    back = reverse(graph, (0,))
    assert len(back.needed) == 1


def test_outputs_that_are_inputs() -> None:
    graph = graph_of(lambda x, y: [x, x, y], F, F)
    pull, targets = reverse(graph, (0, 1)).pull((0, 1))
    assert targets == (0,) and names(pull) == ["add"]
