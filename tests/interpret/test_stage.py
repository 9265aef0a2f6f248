"""Staging: captures, literals, variables, levels, lines, and values that are used after their trace."""

from __future__ import annotations

import numpy as np
import pytest

from nacre.base.dtypes import float32
from nacre.base.errors import TraceError
from nacre.base.types import TensorType
from nacre.interpret.backward import backward
from nacre.interpret.batch import batch
from nacre.interpret.evaluate import from_numpy, to_numpy
from nacre.interpret.stage import Trace, derived, run, stage
from nacre.ir.graph import Literal
from nacre.ops.pointwise import add, full_like, mul, neg
from nacre.ops.reduce import sum_
from nacre.trace.bind import executor
from nacre.trace.value import PLACEHOLDERS, Value, is_concrete
from nacre.trace.variable import Leaf, Variable

F = TensorType((3,), float32)


def tensor(*numbers: float) -> Value:
    return from_numpy(np.array(numbers, np.float32))


def names(trace: Trace) -> list[str]:
    return [e.primitive.name for e in trace.graph.verify().equations]


def test_records_equations_with_the_users_line() -> None:
    trace = stage(lambda x: [add(x, x)], [F], "doubled")
    (e,) = trace.graph.equations
    assert e.source.split(" (")[0].endswith(f"test_stage.py:{LINE}") and trace.graph.name == "doubled"


LINE = test_records_equations_with_the_users_line.__code__.co_firstlineno + 1


def test_captures_are_distinct_and_in_order() -> None:
    a, b = tensor(1, 2, 3), tensor(4, 5, 6)
    trace = stage(lambda x: [add(add(x, b), add(a, b))], [F])
    assert [c.content for c in trace.captures] == [b.content, a.content]
    assert len(trace.graph.inputs) == 3 and trace.arguments == 1
    (y,) = executor().execute(trace.graph, [tensor(1, 1, 1), b, a])
    np.testing.assert_array_equal(to_numpy(y), [10, 13, 16])


def test_plain_scalars_are_literals_and_tracked_ones_captures() -> None:
    scalar = from_numpy(np.float32(2.5))
    trace = stage(lambda: [add(scalar, scalar)], [])
    assert not trace.captures and all(isinstance(a, Literal) for a in trace.graph.equations[0].inputs)
    tracked = from_numpy(np.float32(2.5))
    tracked.node = Leaf(0)
    assert stage(lambda: [neg(tracked)], []).captures == (tracked,)


def test_staging_records_operations_without_staged_operands() -> None:
    a = tensor(1, 2, 3)
    assert names(stage(lambda: [full_like(a, 1), neg(a)], [])) == ["fill", "neg"]


def test_derived_graphs_contain_their_captures() -> None:
    a = tensor(1, 2, 3)
    graph = derived(lambda x: [add(x, a)], [F], "closed")
    assert len(graph.inputs) == 1 and graph.equations[0].source == ""
    np.testing.assert_array_equal(to_numpy(run(graph, [tensor(1, 1, 1)])[0]), [2, 3, 4])


def test_running_a_graph_under_staging_preserves_literals_and_lines() -> None:
    graph = derived(lambda x: [add(x, tensor(1, 2, 3))], [F], "inner")
    outer = stage(lambda x: run(graph, [x]), [F]).graph
    assert outer == graph
    lined = stage(lambda x: [neg(x)], [F]).graph
    assert stage(lambda x: run(lined, [x]), [F]).graph.equations[0].source == lined.equations[0].source


def test_nested_stagings_capture_values_of_outer_ones() -> None:
    inner: list[Trace] = []

    def outer(x: Value) -> list[Value]:
        inner.append(stage(lambda y: [add(x, y)], [F]))
        (capture,) = inner[0].captures
        return run(inner[0].graph, [neg(x), capture])

    trace = stage(outer, [F])
    assert names(trace) == ["neg", "add"] and len(trace.graph.inputs) == 1


def test_values_of_an_ended_trace_are_refused_with_an_explanation() -> None:
    kept: list[Value] = []
    stage(lambda x: [kept.append(x) or x], [F])
    with pytest.raises(TraceError, match=r"(?s)left over.*This code.*Write"):
        neg(kept[0])
    with pytest.raises(TraceError, match="left over"):
        stage(lambda x: [add(x, kept[0])], [F])


def test_values_of_an_inner_transformation_do_not_escape_into_variables() -> None:
    cell = Variable(tensor(0, 0, 0))

    def leak(x: Value) -> list[Value]:
        def inner(row: Value) -> list[Value]:
            cell.assign(row)
            return [row]

        return batch(inner, [x], [0], 2)[0]

    with pytest.raises(TraceError):
        stage(leak, [TensorType((2, 3), float32)])


# ---- variables


def test_reads_are_inputs_and_writes_are_outputs() -> None:
    a, b, c = (Variable(tensor(k, k, k), name=n) for k, n in enumerate("abc"))

    def f(x: Value) -> list[Value]:
        y = add(a.value, add(b.value, x))
        b.assign(y)
        c.assign(b.value)
        return [mul(b.value, a.value)]

    trace = stage(f, [F])
    assert trace.variable_inputs == [b, a] or trace.variable_inputs == [a, b]
    assert trace.variable_outputs == [b, c]
    assert names(trace) == ["add", "add", "mul"]
    assert trace.graph.outputs[1] is trace.graph.outputs[2]
    np.testing.assert_array_equal(to_numpy(b.value), [1, 1, 1])  # staging changed nothing


def test_gradients_are_read_and_written_as_state() -> None:
    w = Variable(tensor(1, 2, 3), requires_grad=True)

    def step(x: Value) -> list[Value]:
        loss = sum_(mul(w.value, x), (0,))
        backward([loss], [full_like(loss, 1)])
        assert w.gradient is not None and not is_concrete(w.gradient)
        return [loss]

    first = stage(step, [F])
    (r,) = first.variables
    assert r.gradient_was_none and first.gradient_outputs == [w] and first.gradient_inputs == []
    w.gradient = tensor(0, 0, 0)
    second = stage(step, [F])
    assert second.gradient_inputs == [w] and names(second)[-1] == "add"
    assert w.value.node is w.leaf and w.leaf is not None and w.leaf.level == 0

    def cleared(x: Value) -> list[Value]:
        step(x)
        w.gradient = None
        return [x]

    third = stage(cleared, [F])
    assert third.gradients_cleared == [w] and third.gradient_outputs == []


def test_a_variable_keeps_its_leaf_after_writes() -> None:
    w = Variable(tensor(1, 2, 3), requires_grad=True)

    def f(x: Value) -> list[Value]:
        before = w.value.node
        w.assign(x)
        assert w.value.node is before is not None and before.level == PLACEHOLDERS + 1
        return []

    stage(f, [F])
