"""Forward mode: symbolic zeros, joint pushes, nesting, and differentiated graphs."""

from __future__ import annotations

import numpy as np
import pytest

from nacre.base.dtypes import float64, int64
from nacre.base.errors import TraceError
from nacre.base.types import TensorType
from nacre.interpret.evaluate import from_numpy, to_numpy
from nacre.interpret.forward import jvp, jvp_graph
from nacre.interpret.stage import stage
from nacre.ops.pointwise import add, cast, eq, full_like, mul, sin, sub
from nacre.ops.view import concatenate
from nacre.trace.value import Value

F = TensorType((3,), float64)
X = from_numpy(np.array([0.5, -1.0, 2.0]))
T = from_numpy(np.array([1.0, 10.0, 100.0]))


def names(f, *active: bool) -> list[str]:
    graph = stage(lambda *xs: f(*xs), [F] * len(active)).graph
    pushed = jvp_graph(graph, active).graph.verify()
    return [e.primitive.name for e in pushed.equations][len(graph.equations) :]


def test_zero_tangents_cost_nothing() -> None:
    assert names(lambda x, y: [add(x, y)], True, False) == []
    assert names(lambda x, y: [sub(x, y)], False, True) == ["neg"]
    assert names(lambda x, y: [mul(x, y)], True, False) == ["mul"]
    assert names(lambda x, y: [eq(x, y)], True, True) == []
    assert jvp(lambda x: [full_like(x, 1)], [X], [T])[1] == [None]


def test_linear_operations_push_jointly() -> None:
    assert names(lambda x, y: [concatenate([x, y], 0)], True, True) == ["concatenate"]
    assert names(lambda x, y: [concatenate([x, y], 0)], True, False) == ["fill", "concatenate"]


def test_values_and_tangents() -> None:
    (y,), (t,) = jvp(lambda x: [mul(sin(x), x)], [X], [T])
    x = to_numpy(X)
    np.testing.assert_allclose(to_numpy(y), np.sin(x) * x)
    assert t is not None
    np.testing.assert_allclose(to_numpy(t), (np.cos(x) * x + np.sin(x)) * to_numpy(T))


def test_levels_do_not_mix() -> None:
    # d/dx (x · d/dy (x + y)) = 1: confusing the two derivatives gives 2
    def outer(x: Value) -> list[Value]:
        _, (inner,) = jvp(lambda y: [add(x, y)], [X], [full_like(X, 1)])
        assert inner is not None
        return [mul(x, inner)]

    _, (t,) = jvp(outer, [X], [full_like(X, 1)])
    assert t is not None
    np.testing.assert_array_equal(to_numpy(t), [1, 1, 1])


def test_conversion_to_integers_ends_a_tangent() -> None:
    assert jvp(lambda x: [cast(x, int64)], [X], [T])[1] == [None]


def test_forced_tangents_are_zeros() -> None:
    graph = stage(lambda x, y: [x, y], [F, F]).graph
    pushed = jvp_graph(graph, (True, False), (True, True))
    assert pushed.active == (True, True) and len(pushed.graph.outputs) == 4


def test_values_of_an_ended_jvp_are_refused() -> None:
    kept: list[Value] = []
    jvp(lambda x: [kept.append(x) or x], [X], [T])
    with pytest.raises(TraceError, match="jvp"):
        sin(kept[0])
