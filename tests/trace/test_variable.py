"""Variables: cells of one type that only assignment changes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nacre as nc
from nacre.base.errors import DTypeError, ShapeError, TraceError
from nacre.interpret.stage import stage
from nacre.trace.variable import Leaf, Variable, scope

X = nc.tensor([1.0, 2.0, 3.0])


def test_reading_and_assigning() -> None:
    v = Variable(X, name="v")
    assert (v.type, v.shape, v.dtype) == (X.type, (3,), nc.float32)
    v.assign(X * 2)
    assert v.value.tolist() == [2.0, 4.0, 6.0] and scope() is None


def test_other_types_are_refused_by_name() -> None:
    v = Variable(X, name="weight")
    with pytest.raises(DTypeError, match=r"weight.*f32"):
        v.assign(X.astype(nc.float64))
    with pytest.raises(ShapeError, match=r"f32\[2\]"):
        v.assign(X[:2])
    with pytest.raises(ShapeError, match="weight"):
        v.gradient = X[:2]
    assert v.value.tolist() == X.tolist() and v.gradient is None


def test_each_read_returns_its_own_object() -> None:
    given = nc.tensor([1.0, 2.0, 3.0])
    v = Variable(given)
    given[0] = 10.0
    read = v.value
    read[1] = 20.0
    v.assign(given)
    given[2] = 30.0
    assert v.value.tolist() == [10.0, 2.0, 3.0] and read.tolist() == [1.0, 20.0, 3.0]


def test_a_read_inside_a_trace_is_not_a_write() -> None:
    v = Variable(X)

    def f(x: Any) -> Any:
        read = v.value
        read[0] = 100.0
        return x + v.value, read

    (plain, read), (jitted, jitted_read) = f(X), nc.jit(f)(X)
    assert plain.tolist() == jitted.tolist() == [2.0, 4.0, 6.0]
    assert read.tolist() == jitted_read.tolist() == [100.0, 2.0, 3.0]
    assert v.value.tolist() == X.tolist()


def test_gradients_are_stored_in_the_variable() -> None:
    v = Variable(X, requires_grad=True)
    assert isinstance(v.value.node, Leaf) and v.value.node is v.value.node
    (v.value * v.value).sum().backward()
    assert v.gradient.tolist() == [2.0, 4.0, 6.0]
    v.assign(v.value * 3)
    assert v.cell.node is None or isinstance(v.cell.node, Leaf), "the history of what is assigned is not kept"
    v.value.sum().backward()
    assert v.gradient.tolist() == [3.0, 5.0, 7.0]


def test_traced_values_are_refused() -> None:
    with pytest.raises(TraceError, match="variable"):
        stage(lambda x: [Variable(x).value], [X.type])


def test_records_of_a_trace() -> None:
    v, w = Variable(X), Variable(X, requires_grad=True)

    def f(x: Any) -> list[Any]:
        v.assign(v.value + w.value + x)
        w.gradient = None
        return [v.value]

    trace = stage(f, [X.type])
    assert trace.variable_inputs == [v, w] and trace.variable_outputs == [v] and trace.gradients_cleared == [w]
    assert v.value.tolist() == X.tolist(), "tracing assigns nothing"
    np.testing.assert_array_equal(v.cell.numpy(), X.numpy())
