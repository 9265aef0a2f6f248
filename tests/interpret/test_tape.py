"""The tape: accumulation, order, release, retained gradients, create_graph, nesting, and long chains."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

from nacre.base.dtypes import float32
from nacre.base.errors import GradientError, StateError
from nacre.base.types import TensorType
from nacre.interpret import forward, tape
from nacre.interpret.backward import backward, gradients_of
from nacre.interpret.batch import batch
from nacre.interpret.evaluate import from_numpy, to_numpy
from nacre.interpret.stage import run, stage
from nacre.interpret.vjp import vjp
from nacre.ops.control import call
from nacre.ops.pointwise import add, eq, exp, full_like, mul, neg, sin, sub
from nacre.ops.reduce import sum_
from nacre.ops.view import broadcast
from nacre.trace.bind import executor
from nacre.trace.modes import gradients
from nacre.trace.value import Value, make
from nacre.trace.variable import Leaf, Variable


def leaf(*numbers: float) -> Value:
    x = from_numpy(np.array(numbers, np.float64))
    x.node = Leaf(0)
    return x


def total(x: Value) -> Value:
    return sum_(x, tuple(range(x.type.rank)))


def ones(x: Value) -> Value:
    return full_like(x, 1)


def grad_of(x: Value) -> np.ndarray:
    assert x.node.gradient is not None and x.node.gradient.node is None
    return to_numpy(x.node.gradient)


def test_gradients_add_up_at_leaves() -> None:
    x, y = leaf(1, 2), leaf(3, 4)
    for _ in range(2):
        loss = total(mul(mul(x, x), y))
        backward([loss], [ones(loss)])
    np.testing.assert_array_equal(grad_of(x), 2 * np.array([6, 16]))
    np.testing.assert_array_equal(grad_of(y), 2 * np.array([1, 4]))


def test_variables_receive_gradients() -> None:
    w = Variable(from_numpy(np.array([1.0, 2.0])), requires_grad=True)
    fixed = Variable(from_numpy(np.array([1.0, 2.0])))
    loss = total(mul(w.value, fixed.value))
    backward([loss], [ones(loss)])
    np.testing.assert_array_equal(to_numpy(w.gradient), [1, 2])
    assert fixed.gradient is None and fixed.value.node is None


def test_nothing_is_recorded_if_no_gradient_is_wanted() -> None:
    x, y = leaf(1, 2), from_numpy(np.array([1.0, 2.0]))
    assert add(y, y).node is None and eq(x, x).node is None
    with gradients(False):
        assert add(x, y).node is None
    with pytest.raises(GradientError, match="backward"):
        backward([total(y)], [ones(total(y))])


def test_only_values_that_the_pullback_reads_are_saved() -> None:
    x, y = leaf(1, 2), leaf(3, 4)
    assert len(add(x, y).node.saved) == 0
    assert mul(x, from_numpy(np.ones(2))).node.saved[0] is not x  # the other factor only
    node = exp(x).node
    assert len(node.saved) == 1 and node.saved[0].node is None  # its own result, without a cycle


def test_saved_values_are_freed_during_the_backward_pass() -> None:
    x = leaf(1, 2)
    inner = sin(x)
    held = weakref.ref(inner)
    loss = total(mul(inner, inner))
    del inner
    gc.collect()
    assert held() is not None
    backward([loss], [ones(loss)])
    assert held() is None and loss.node.released


def test_an_unused_graph_is_freed_without_the_garbage_collector() -> None:
    gc.disable()
    try:
        y = exp(sin(leaf(1, 2)))
        node = weakref.ref(y.node)
        del y
        assert node() is None
    finally:
        gc.enable()


def test_a_second_backward_needs_retain_graph() -> None:
    x = leaf(1, 2)
    loss = total(mul(x, x))
    backward([loss], [ones(loss)], retain_graph=True)
    backward([loss], [ones(loss)])
    np.testing.assert_array_equal(grad_of(x), [4, 8])
    with pytest.raises(StateError, match=r"(?s)released.*retain_graph=True"):
        backward([loss], [ones(loss)])


def test_gradients_of_results_on_request() -> None:
    x = leaf(1, 2)
    y, z = mul(x, x), sin(x)
    tape.retain(y.node)
    loss = total(add(mul(y, y), mul(y, z)))
    backward([loss], [ones(loss)])
    np.testing.assert_allclose(to_numpy(tape.retained(y.node)), 2 * np.array([1, 4]) + np.sin([1, 2]))
    assert tape.retained(z.node) is None


def test_gradients_of_chosen_inputs_do_not_change_leaves() -> None:
    x = leaf(1, 2)
    y = mul(x, x)
    loss = total(mul(y, x))
    found = gradients_of([loss], [ones(loss)], [y, x], retain_graph=True)
    np.testing.assert_array_equal(to_numpy(found[0]), [1, 2])
    np.testing.assert_array_equal(to_numpy(found[1]), [3, 12])
    assert x.node.gradient is None
    with pytest.raises(GradientError):
        gradients_of([loss], [ones(loss)], [from_numpy(np.ones(2))])


def test_create_graph_makes_gradients_differentiable() -> None:
    x = leaf(1, 2)
    loss = total(mul(exp(x), x))
    (g,) = gradients_of([loss], [ones(loss)], [x], create_graph=True)
    (h,) = gradients_of([total(g)], [ones(total(g))], [x], create_graph=True)
    (third,) = gradients_of([total(h)], [ones(total(h))], [x])
    e = np.exp([1, 2])
    np.testing.assert_allclose(to_numpy(g), e * np.array([2, 3]))
    np.testing.assert_allclose(to_numpy(h), e * np.array([3, 4]))
    np.testing.assert_allclose(to_numpy(third), e * np.array([4, 5]))


def test_cotangents_are_added_in_descending_order_of_readers() -> None:
    values = np.array([1e16, 1.0, -1e16, 3.0])
    x = leaf(1.0)
    terms = [mul(x, from_numpy(np.array([v]))) for v in values]
    y = add(add(add(terms[0], terms[1]), terms[2]), terms[3])
    backward([total(y)], [ones(total(y))])
    wanted = ((values[3] + values[2]) + values[1]) + values[0]
    np.testing.assert_array_equal(grad_of(x), [wanted])


def f(x: Value) -> list[Value]:
    y = mul(sin(x), exp(x))
    return [total(mul(y, sub(x, y)))]


def gradient(g, x: Value) -> Value:
    (y,), pull = vjp(g, [x])
    (found,) = pull([ones(y)])
    assert found is not None
    return found


X = from_numpy(np.linspace(-1.0, 1.2, 12).reshape(3, 4))


def test_eager_staged_and_functional_give_the_same_bits() -> None:
    x = make(X.type, X.content, None, Leaf(0))
    (loss,) = f(x)
    backward([loss], [ones(loss)])
    eager = grad_of(x).tobytes()
    functional = to_numpy(gradient(f, X)).tobytes()
    graph = stage(lambda v: [gradient(f, v)], [X.type]).graph
    (staged,) = executor().execute(graph, [X])
    inner = stage(f, [X.type]).graph
    (called,) = [gradient(lambda v: list(call(inner, v)), X)]
    assert eager == functional == to_numpy(staged).tobytes() == to_numpy(called).tobytes()


def second(x: Value) -> np.ndarray:
    """d/dx of the sum of f's gradient."""
    return to_numpy(gradient(lambda v: [total(gradient(f, v))], x))


def test_transformations_nest() -> None:
    wanted = second(X)
    _, tangent = forward.jvp(lambda v: [gradient(f, v)], [X], [ones(X)])
    np.testing.assert_allclose(to_numpy(tangent[0]), wanted, rtol=1e-12)

    def slope(v: Value) -> list[Value]:
        _, (t,) = forward.jvp(f, [v], [ones(v)])
        return [t]

    np.testing.assert_allclose(to_numpy(gradient(slope, X)), wanted, rtol=1e-12)
    _, (twice,) = forward.jvp(slope, [X], [ones(X)])
    np.testing.assert_allclose(to_numpy(twice), wanted.sum(), rtol=1e-12)


def test_gradient_of_vmap_and_vmap_of_gradient() -> None:
    rows = [gradient(f, from_numpy(to_numpy(X)[k])) for k in range(3)]
    (found,), axes = batch(lambda row: [gradient(f, row)], [X], [0], 3)
    assert axes == [0]
    outer = gradient(lambda v: [total(batch(f, [v], [0], 3)[0][0])], X)
    for k in range(3):
        assert to_numpy(found)[k].tobytes() == to_numpy(rows[k]).tobytes() == to_numpy(outer)[k].tobytes()


def test_outer_levels_continue_to_record() -> None:
    x = make(X.type, X.content, None, Leaf(0))
    g = gradient(f, x)  # a functional gradient of a tracked tensor is tracked
    backward([total(g)], [ones(total(g))])
    np.testing.assert_allclose(grad_of(x), second(X), rtol=1e-12)


def test_closed_over_values_are_constants_of_inner_levels() -> None:
    def outer(x: Value) -> list[Value]:
        inner = gradient(lambda y: [total(mul(x, y))], X)  # x itself
        return [total(mul(inner, x))]

    np.testing.assert_allclose(to_numpy(gradient(outer, X)), 2 * to_numpy(X))


def test_pullbacks_may_be_called_again_and_under_vmap() -> None:
    _, pull = vjp(lambda x: [mul(x, x)], [X])
    first, again = (to_numpy(pull([ones(X)])[0]) for _ in range(2))
    np.testing.assert_array_equal(first, again)
    seeds = broadcast(ones(X), (2, *X.shape), (1, 2))
    (found,), _ = batch(lambda c: [pull([c])[0]], [seeds], [0], 2)  # type: ignore[list-item]
    np.testing.assert_array_equal(to_numpy(found)[1], first)


def test_long_chains() -> None:
    x = leaf(1.0)
    y = x
    for k in range(20_000):
        y = neg(y) if k % 2 else add(y, x)
    backward([y], [ones(y)])
    assert np.isfinite(grad_of(x)).all()
    z = x
    for _ in range(50_000):
        z = neg(z)
    del z, y  # freed without deep recursion


def test_a_chain_has_the_correct_gradient() -> None:
    x = leaf(0.5)
    y = x
    for _ in range(1000):
        y = mul(y, from_numpy(np.array([0.999])))
    backward([y], [ones(y)])
    np.testing.assert_allclose(grad_of(x), 0.999**1000)


def test_integers_have_no_gradient() -> None:
    k = from_numpy(np.arange(3))
    outputs, pull = vjp(lambda i, x: [mul(x, x), add(i, i)], [k, from_numpy(np.ones(3))])
    found = pull([ones(outputs[0]), None])
    assert found[0] is None and found[1] is not None


def test_staged_pullbacks_have_the_lines_that_they_differentiate() -> None:
    def loss(x: Value) -> list[Value]:
        y = sin(x)
        return [total(y)]

    graph = stage(lambda v: [gradient(loss, v)], [X.type]).graph
    lines = {e.primitive.name: e.source for e in graph.equations}
    assert lines["cos"] == lines["sin"] and lines["broadcast"] == lines["sum"] != lines["sin"]


def test_graphs_are_verified_and_pullbacks_small() -> None:
    t = TensorType((2,), float32)
    graph = stage(lambda v: [gradient(lambda w: [total(mul(w, w))], v)], [t]).graph.verify()
    assert len([e for e in graph.equations if e.primitive.name == "mul"]) == 3  # the value's and two of the gradient's
    (y,) = run(graph, [from_numpy(np.array([1, 2], np.float32))])
    np.testing.assert_array_equal(to_numpy(y), [2, 4])
