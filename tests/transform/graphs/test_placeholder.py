"""Placeholders: all operations work on them, and a graph of them gives the bits of the function it was written as."""

from __future__ import annotations

import gc
import pickle
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nacre as nc
from nacre import nn
from nacre.transform.graphs.placeholder import DEFINITION

F = nn.functional


def drawn(*shape: int) -> Any:
    return nc.asarray(np.random.default_rng(len(shape) + sum(shape)).normal(size=shape).astype(np.float32))


TABLE = drawn(5, 3)
FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "arithmetic": lambda x: (x * 2 + 1) / (x * x + 0.5) - nc.exp(-x),
    "numbers on the left": lambda x: 2 - 3 / (1 + x * x),
    "softmax": lambda x: F.softmax(x @ TABLE[:3].T, axis=-1),
    "reductions": lambda x: (nc.sum(x, axis=1), nc.max(x), nc.mean(x, axis=0), nc.argmax(x, axis=1)),
    "shapes": lambda x: nc.concat([nc.reshape(x, (-1,)), nc.flip(nc.reshape(x.T, (-1,)))]),
    "indices": lambda x: TABLE[nc.clip(nc.astype(x * 3, nc.int32), 0, 4)],
    "a slice written": lambda x: _written(x),
    "a layer": lambda x: F.layer_norm(x, (3,), TABLE[0], TABLE[1]),
    "comparison": lambda x: nc.where(x > 0, x, nc.zeros_like(x) - 1),
    "cond": lambda x: nc.cond(nc.sum(x) > 0, lambda y: y + x, lambda y: y * 2, x),
    "while": lambda x: nc.while_loop(lambda y: nc.sum(y * y) < 100, lambda y: y * 2, x),
    "scan": lambda x: nc.scan(lambda c, r: (c + r, c * r), x[0], x),
    "fori": lambda x: nc.fori_loop(0, 3, lambda k, y: y + x * nc.astype(k, nc.float32), x),
    "grad": lambda x: nc.grad(lambda y: nc.sum(nc.sin(y) * x))(x),
    "hessian": lambda x: nc.hessian(lambda y: nc.sum(y**3))(x[0]),
    "jvp": lambda x: nc.jvp(nc.tanh, (x,), (x,)),
    "vmap": lambda x: nc.vmap(lambda r: r / nc.sum(r * x))(x),
    "jit": lambda x: nc.jit(lambda y: nc.sin(y) + x)(x * 2),
    "checkpoint": lambda x: nc.checkpoint(nc.tanh)(x),
    "no_grad": lambda x: nc.grad(lambda y: nc.sum(y * _constant(y)))(x),
    "linalg": lambda x: nc.linalg.solve(x @ x.T + 4 * nc.eye(x.shape[0]), x),
    "another graph": lambda x: nc.Graph.trace(lambda y: nc.exp(y) * TABLE[0], drawn(4, 3))(x),
}


def _written(x: Any) -> Any:
    y = x * 1
    y[1:, 0] = 7.0
    return y


def _constant(y: Any) -> Any:
    with nc.no_grad():
        return nc.exp(y)


def same(found: Any, wanted: Any) -> None:
    left, right = nc.tree.flatten(found)[0], nc.tree.flatten(wanted)[0]
    assert [x.type for x in left] == [y.type for y in right]
    assert [x.numpy().tobytes() for x in left] == [y.numpy().tobytes() for y in right]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_graph_of_placeholders_gives_the_bits_of_the_function(name: str) -> None:
    f, given = FUNCTIONS[name], drawn(4, 3)
    x = nc.placeholder((4, 3), name="x")
    graph = nc.Graph.build(x, f(x))
    graph.graph.verify()
    same(graph(given), f(given))
    same(nc.jit(graph)(given), f(given))


@pytest.mark.parametrize("name", [n for n in FUNCTIONS if n not in ("hessian", "linalg", "another graph", "indices")])
def test_sizes_that_a_call_chooses(name: str) -> None:
    f = FUNCTIONS[name]
    x = nc.placeholder((nc.Dim("rows", min=2), 3), name="x")
    graph = nc.Graph.build(x, f(x))
    for rows in (2, 4, 9):
        same(graph(drawn(rows, 3)), f(drawn(rows, 3)))


def test_none_is_a_size_of_its_own() -> None:
    x, y = nc.placeholder((None, 3), name="x"), nc.placeholder((None, 2), nc.int32, name="y")
    graph = nc.Graph.build([x, y], (nc.sum(x), nc.sum(y)))
    assert list(map(str, graph.input_types)) == ["f32[x_0, 3]", "i32[y_0, 2]"]
    assert [t.item() for t in graph(nc.ones((4, 3)), nc.ones((2, 2), nc.int32))] == [12, 4]
    assert str(nc.placeholder((None,)).shape[0]).startswith("n")
    with pytest.raises(nc.ShapeError, match=r"got x_0 and z_0 .* use one Dim for both"):
        x + nc.placeholder((None, 3), name="z")


def test_parameters_are_weights_by_name() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.BatchNorm1d(4)).eval()
    x = nc.placeholder((5, 3), name="x")
    graph = nc.Graph.build(x, model(x))
    assert {"weight", "bias"} <= set(graph.weights) and graph.weights["weight"].shape == (4, 3)
    same(graph(drawn(5, 3)), model(drawn(5, 3)))
    before = graph(drawn(5, 3))
    for p in model.parameters():
        p.data = p.data * 0
    same(graph(drawn(5, 3)), before)


def test_constants_are_numbers_of_the_graph_and_not_weights() -> None:
    x = nc.placeholder((4, 3), name="x")
    assert nc.Graph.build(x, nc.zeros((4, 3)) + 1.5 * x - nc.ones(3)).weights == {}


def test_a_check_is_part_of_the_graphs_that_compute_what_it_reads() -> None:
    k, x = nc.placeholder((2,), nc.int64, name="k"), nc.placeholder((3,), name="x")
    picked = x[k]
    graph = nc.Graph.build([x, k], picked)
    with pytest.raises(nc.Error, match=r"must be in \[-3, 3\); got 7"):
        graph(nc.ones(3), nc.tensor([0, 7]))
    assert nc.Graph.build(x, x * 2)(nc.ones(3)).tolist() == [2, 2, 2]


def test_a_host_call_runs_in_calls_of_the_graph() -> None:
    seen: list[Any] = []
    x = nc.placeholder((2,), name="x")
    graph = nc.Graph.build(x, nc.host_call(lambda v: seen.append(v.tolist()) or v, x.type, x))
    assert seen == []
    graph(nc.tensor([1.0, 2.0]))
    assert seen == [[1.0, 2.0]]


def test_what_no_graph_needs_is_freed() -> None:
    x = nc.placeholder((3,), name="x")
    y = nc.exp(x)
    gone = weakref.ref(y.content)
    del y
    gc.collect()
    assert gone() is None
    assert DEFINITION.name


def test_gradients_of_placeholders_by_backward() -> None:
    x = nc.placeholder((3,), name="x")
    w = nc.placeholder((3,), name="w").requires_grad_()
    nc.sum(nc.sin(w) * x).backward()
    graph = nc.Graph.build([x, w], w.grad)
    same(graph(drawn(3), nc.ones(3)), nc.cos(nc.ones(3)) * drawn(3))


def refused(kind: type[nc.Error], words: str, f: Callable[[], Any]) -> None:
    with pytest.raises(kind, match=words):
        f()


def test_wrong_placeholders_are_named() -> None:
    for kind, words, f in (
        (nc.KindError, "placeholder: the name must be a string; got 3", lambda: nc.placeholder((2,), name=3)),
        (nc.KindError, "placeholder: the shape must be a tuple of sizes; got 'x'", lambda: nc.placeholder("x")),
        (nc.KindError, "the size of axis 1 must be a number, a Dim or None; got 0.5", lambda: nc.placeholder((2, 0.5))),
        (nc.ShapeError, "the size of axis 0 must be at least 0; got -1; write None", lambda: nc.placeholder((-1, 2))),
        (nc.DTypeError, "got 'f33'", lambda: nc.placeholder((2,), "f33")),
    ):  # fmt: skip
        refused(kind, words, f)


def test_wrong_graphs_are_named() -> None:
    x, y = nc.placeholder((2,), name="x"), nc.placeholder((2,), name="y")
    build, error = nc.Graph.build, nc.ArgumentError
    refused(
        error, r"every placeholder that output 'output' needs must be an input; it needs y", lambda: build(x, x + y)
    )
    refused(error, r"must be computed from all inputs; none is computed from y", lambda: build([x, y], x * 2))
    refused(error, r"output 'output' must be a placeholder, or computed from one", lambda: build(x, nc.ones(2)))
    refused(error, r"input 'input0' must be a placeholder, or computed from one", lambda: build(nc.ones(2), x))
    refused(error, r"output 'output' must be a placeholder", lambda: build(x, 3))
    refused(error, r"outputs must be tensors; got \[\]", lambda: build(x, []))
    refused(error, r"each input must be listed once", lambda: build({"a": x, "b": x}, x * 2))
    other = nc.placeholder((2,), name="x")
    refused(error, r"'x' belongs to two .*test_placeholder", lambda: build([x, other], x * other))
    a, b = nc.name(x * 2, "h"), nc.name(x * 3, "h")
    refused(error, r"a name must belong to one value; 'h' belongs to two", lambda: build(x, a + b))
    refused(error, r"'x' belongs to two", lambda: build(x, nc.name(x * 4, "x")))
    wide = nc.placeholder((nc.Dim("n", max=4),), name="p"), nc.placeholder((nc.Dim("n", max=5),), name="q")
    refused(error, r"n has two; use one Dim", lambda: build(list(wide), nc.sum(wide[0]) + nc.sum(wide[1])))
    rows = nc.placeholder((None,), name="rows")
    refused(error, r"rows_0 is not, but fill", lambda: build(y, nc.sum(y) + nc.ones(rows.shape)))


def test_a_placeholder_has_no_numbers() -> None:
    x = nc.placeholder((3,), name="x")
    for f in (x.numpy, lambda: float(x[0]), lambda: bool(nc.sum(x) > 0), lambda: nc.save({"x": x}, "x.safetensors")):
        refused(nc.TraceError, "must have known numbers", f)
    norm = nn.BatchNorm1d(3)
    y = nc.placeholder((4, 3), name="y")
    refused(nc.TraceError, r"running_mean: a graph of placeholders must not change variables", lambda: norm(y))
    words = "a placeholder has numbers in calls of its graph alone; got x"
    refused(nc.TraceError, words, lambda: nc.Graph.trace(lambda z: z + x, nc.ones(3)))
    assert repr(x) == "Tensor(f32[3], traced)"


@pytest.mark.parametrize("read", [float, bool, lambda x: x.numpy(), pickle.dumps, np.from_dlpack, lambda x: x.tolist()])
def test_requests_for_numbers_name_the_placeholder(read: Callable[[Any], Any]) -> None:
    words = r"(?s)must have known numbers; got a placeholder of type f32\[\].*Write.*nc.Graph.build\(x, .*y = graph\("
    refused(nc.TraceError, words, lambda: read(nc.placeholder((), name="x")))


def test_a_free_size_is_no_number() -> None:
    rows = nc.placeholder((None,), name="rows")
    refused(nc.ShapeError, "give nc.placeholder its number", lambda: len(rows))
    refused(nc.ShapeError, "give nc.placeholder its number", lambda: list(rows))
    refused(nc.ShapeError, "must be at most 281474976710656; got 4611686", lambda: nc.placeholder((1 << 62,)))


def test_parameters_of_equal_numbers_are_weights() -> None:
    x = nc.placeholder((4,), name="x")
    free, buffer, scalar = nn.Parameter(nc.ones(4)), nc.Variable(nc.zeros(4), name="mean"), nn.Parameter(nc.tensor(2.0))
    graph = nc.Graph.build(x, x * free + buffer.value - scalar + 3 * nc.ones(4))
    assert [w.tolist() for w in graph.weights.values()] == [[1] * 4, [0] * 4, 2] and "mean" in graph.weights
    same(graph(drawn(4)), drawn(4) * free + buffer.value - scalar + 3 * nc.ones(4))
    assert [g.shape for g in nc.Graph.build(x, nc.sum(x * free)).grad("constant0")(drawn(4)).unsqueeze(0)] == [(4,)]


def test_jitted_functions_read_placeholders_from_outside() -> None:
    x, given = nc.placeholder((2,), name="x"), nc.tensor([3.0, 5.0])
    held: dict[str, Any] = {"scale": nc.ones(2)}
    one = nc.jit(lambda a: nc.sum(a) * held["scale"])
    assert one(nc.ones(2)).tolist() == [2, 2]
    for n in (2, 2, 3, 4, 5):
        held["scale"] = x
        assert nc.Graph.build(x, one(nc.ones(n)))(given).tolist() == [3 * n, 5 * n]
        held["scale"] = nc.ones(2) * n
        assert one(nc.ones(n)).tolist() == [n * n, n * n]
    slope = nc.Graph.build(x, nc.grad(lambda a: nc.sum(nc.jit(lambda b: b * b * x)(a)))(nc.ones(2)))
    assert slope(given).tolist() == [6, 10]
    total = nc.Variable(nc.zeros(2))
    change = nc.jit(lambda a: total.assign(total.value + a * x))
    refused(nc.TraceError, "a graph of placeholders must not change variables", lambda: change(nc.ones(2)))
    assert total.value.tolist() == [0, 0]
