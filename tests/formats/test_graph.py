"""Graphs as values: names, parts, derivatives, simplification, changes, and files."""

from __future__ import annotations

import json
import operator
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nacre as nc
from nacre import deploy, nn
from nacre.compile.program.executor import EXECUTOR
from nacre.formats.safetensors import opened
from nacre.ir.parse import parse

F = nn.functional


def drawn(*shape: int) -> Any:
    return nc.asarray(np.random.default_rng(len(shape) + sum(shape)).normal(size=shape).astype(np.float32))


X, Y = drawn(3, 4), nc.tensor([0, 1, 0])


class Net(nn.Module):
    def __init__(self) -> None:
        nc.random.seed(1)
        self.encoder, self.head = nn.Linear(4, 8), nn.Linear(8, 2)

    def forward(self, x: Any, y: Any) -> Any:
        hidden = nc.name(F.gelu(nc.name(self.encoder(x), "before")), "hidden")
        scores = nc.name(self.head(hidden), "scores")
        return {"loss": F.cross_entropy(scores, y), "best": nc.argmax(scores, axis=1)}


@pytest.fixture
def net() -> Net:
    return Net()


@pytest.fixture
def graph(net: Net) -> Any:
    return nc.Graph.trace(net, X, Y)


def bits(x: Any) -> list[bytes]:
    return [leaf.numpy().tobytes() for leaf in nc.tree.flatten(x)[0]]


def kernels(graph: Any) -> int:
    return len(EXECUTOR.program(graph.graph).plan.steps)


def test_values_have_names_types_and_lines(graph: Any) -> None:
    assert repr(graph) == "<graph Net(x: f32[3, 4], y: i64[3]) -> (loss: f32[], best: i64[3]), 4 weights>"
    assert graph.inputs == ("x", "y") and graph.outputs == ("loss", "best")
    assert list(graph.weights) == ["encoder.weight", "encoder.bias", "head.weight", "head.bias"]
    nodes = {n.name: n for n in graph.nodes}
    assert nodes["hidden"].operation == "mul" and nodes["hidden"].shape == (3, 8)
    assert nodes["scores"].dtype is nc.float32 and "test_graph.py" in nodes["scores"].source
    assert nodes["before"].inputs[0] == "a" and str(graph.names["hidden"]) == "f32[3, 8]"
    assert repr(nodes["before"]).startswith("<before: f32[3, 8] = add(a, ")
    check = next(n for n in graph.nodes if n.operation == "check")
    assert (check.name, check.shape, check.dtype) == ("", (), None) and "no result = check" in repr(check)
    text = str(graph)
    assert "hidden: f32[3, 8] = mul(" in text and parse(text) == graph.graph


def test_names_that_are_no_words_are_quoted() -> None:
    model = nn.Sequential(nn.Linear(2, 2))
    graph = nc.Graph.trace(lambda f32: nc.name(model(f32), "a b") * 2, nc.ones((1, 2)))
    named = nc.Graph.trace(model, nc.ones((1, 2)))
    for each, word in ((graph, '"a b": f32'), (graph, '"f32": f32'), (named, '"0.weight": f32')):
        assert word in str(each) and parse(str(each)) == each.graph


def test_only_what_a_name_needs_is_computed(net: Net, graph: Any) -> None:
    assert bits(graph.run({"x": X}, "hidden")) == bits(F.gelu(net.encoder(X)))
    part, whole = graph.between("x", "hidden"), graph
    assert len(part.nodes) == 9 and list(part.weights) == ["encoder.weight", "encoder.bias"]
    assert kernels(part) < kernels(whole)
    behind = graph.between("hidden", ("scores", "best"))
    assert list(behind.weights) == ["head.weight", "head.bias"] and len(behind.nodes) == 4
    assert bits(graph.run({"hidden": nc.ones((3, 8))}, "scores")) == bits(net.head(nc.ones((3, 8))))


def test_host_calls_and_checks_of_other_parts_do_not_run() -> None:
    calls: list[str] = []

    def noted(name: str, x: Any) -> Any:
        return nc.host_call(lambda v: calls.append(name) or v, x.type, x)

    def f(x: Any, k: Any) -> Any:
        first = nc.name(noted("first", x), "first")
        return first, nc.name(noted("second", first[k]), "second")

    graph = nc.Graph.trace(f, nc.ones(3), nc.tensor([0, 1, 2]))
    feeds = {"x": nc.ones(3), "k": nc.tensor([0, 9, 2])}
    assert graph.run(feeds, "first").tolist() == [1, 1, 1] and calls == ["first"]
    with pytest.raises(nc.Error, match="got 9"):
        graph.run(feeds, "second")


def test_several_names_and_feeds_of_weights(net: Net, graph: Any) -> None:
    hidden, loss = graph.run({"x": X, "y": Y}, ["hidden", "loss"])
    assert hidden.shape == (3, 8) and bits(loss) == bits(net(X, Y)["loss"])
    zero = graph.run({"x": X, "encoder.weight": nc.zeros((8, 4)), "encoder.bias": nc.zeros(8)}, "hidden")
    assert not nc.any(zero)
    assert graph.run({"x": X}, "a").shape == (3, 8)  # a value without a name of its own


def two() -> Any:
    def f(x: Any, y: Any) -> Any:
        return x + y

    return nc.Graph.trace(f, X, X)


def test_wrong_names_are_named(graph: Any) -> None:
    for words, f in (
        (
            "Graph.run: the name must be one of a value of Net; got 'hiden'; did you mean hidden",
            lambda: graph.run({"x": X}, "hiden"),
        ),
        (r"Graph.run: every input that loss needs must be given; y \(i64", lambda: graph.run({"x": X}, "loss")),
        ("got .nothing.; its values are before", lambda: graph.run({"nothing": X}, "loss")),
        ("Graph.between: hidden must need every input; y is not needed", lambda: graph.between(["x", "y"], "hidden")),
        ("Graph.run: fetch must have at least one name", lambda: graph.run({}, [])),
        ("fetch must have each name once; got 'loss' twice", lambda: graph.run({}, ["loss", "loss"])),
        ("inputs must have each name once; got 'x' twice", lambda: graph.between(["best", "x", "x"], "loss")),
        ("wrt must name inputs or weights; hidden is computed", lambda: graph.grad("hidden", of="loss")),
        ("hidden", lambda: graph.grad("hiddne", of="loss")),
        ("x is an input", lambda: graph.replace("x", nc.exp)),
        ("the new graph must have 1 output; Net has loss, best", lambda: graph.replace("hidden", graph)),
        ("the other graph must take 2 tensors", lambda: graph.then(nc.Graph.trace(nc.exp, X))),
        ("the new graph must take 1; f has x, y", lambda: graph.replace("hidden", two())),
    ):  # fmt: skip
        with pytest.raises(nc.ArgumentError, match=words):
            f()
    for kind, words, g in (
        (nc.KindError, "feeds must be a dict of tensors by name", lambda: graph.run([X], "loss")),
        (nc.KindError, "fetch must be a name or a sequence of names; got 3", lambda: graph.run({}, 3)),
        (nc.GradientError, "one output must be differentiated; Net has loss, best", lambda: graph.grad()),
        (nc.DTypeError, "grad", lambda: graph.grad("y", of="loss")),
        (nc.GradientError, "the result of f must be a scalar", lambda: graph.grad("x", of="hidden")),
        (nc.ShapeError, "x must be f32.3, 4.; got f32.2, 4.", lambda: graph.run({"x": drawn(2, 4)}, "hidden")),
        (nc.DTypeError, "x must be .*; convert it with astype", lambda: graph(X.astype(nc.float64), X)),
        (nc.KindError, "by position .x, y.; got the keyword 'x'; write Net.x, y., or Net.run", lambda: graph(x=X)),
        (nc.ArgumentError, "takes 2 tensors .x, y.; got 1; write Net.x, y.", lambda: graph(X)),
        (nc.ShapeError, "the new value must have type f32.3, 8.", lambda: graph.replace("hidden", nc.sum)),
        (nc.KindError, "the other must be a graph", lambda: graph.then(nc.exp)),
        (nc.KindError, "the value must be a tensor; got 3", lambda: nc.name(3, "x")),
        (nc.KindError, "the name must be a string with at least one letter; got ''", lambda: nc.name(X, "")),
    ):  # fmt: skip
        with pytest.raises(kind, match=words):
            g()


def test_two_values_of_one_name_are_refused() -> None:
    with pytest.raises(nc.ArgumentError, match=r"'h' belongs to two .*test_graph"):
        nc.Graph.trace(lambda x: nc.name(x * 2, "h") + nc.name(x * 3, "h"), X)
    with pytest.raises(nc.ArgumentError, match="'x' belongs to two"):
        nc.Graph.trace(lambda x: nc.name(x * 2, "x"), X)
    assert nc.Graph.trace(lambda x: nc.name(x, "x") * 2, X).named == {}
    alias = nc.Graph.trace(lambda x: nc.name(x, "also x") * 2, X)
    assert bits(alias.run({"also x": X}, "output")) == bits(X * 2)
    with pytest.raises(nc.ArgumentError, match="each value must be given once; two of x, also x are the same"):
        alias.run({"x": X, "also x": X}, "output")
    twice = nc.jit(lambda x: nc.name(x * 2, "h") + nc.name(x * 3, "h"))  # names have no effect here
    assert nc.name(twice(nc.ones(1)), "eager").tolist() == [5]


def test_names_inside_of_transformations() -> None:
    def f(x: Any) -> Any:
        rows = nc.vmap(lambda r: nc.sum(nc.name(r * 2, "rows")))(x)
        return nc.grad(lambda v: nc.sum(nc.name(nc.sin(v), "inner")))(rows)

    graph = nc.Graph.trace(f, X)
    assert bits(graph.run({"x": X}, "rows")) == bits(X * 2)
    assert bits(graph.run({"x": X}, "inner")) == bits(nc.sin(nc.sum(X * 2, axis=1)))


def test_gradients_are_graphs(net: Net, graph: Any) -> None:
    by_input = graph.grad("x", of="loss")
    assert by_input.outputs == ("grad.x",) and bits(by_input(X, Y)) == bits(nc.grad(lambda x: net(x, Y)["loss"])(X))
    wanted = nc.grad(
        lambda w: F.cross_entropy(F.gelu(X @ w.T + net.encoder.bias) @ net.head.weight.T + net.head.bias, Y)
    )
    both = graph.grad(["encoder.weight", "x"], of="loss")
    assert bits(both(X, Y)[1]) == bits(by_input(X, Y)) and bits(both(X, Y)[0]) == bits(wanted(net.encoder.weight.data))
    assert bits(both.run({"x": X}, "hidden")) == bits(graph.run({"x": X}, "hidden"))
    assert bits(both.optimize()(X, Y)) == bits(both(X, Y)) and len(both.optimize().nodes) < len(both.nodes)
    second = (
        nc.Graph.trace(lambda x: nc.sum(x**3), nc.ones(2)).grad().then(nc.Graph.trace(nc.sum, nc.ones(2))).grad("x")
    )
    assert second(nc.tensor([1.0, 2.0])).tolist() == [6, 12]


def test_gradients_leave_out_what_no_grad_leaves_out() -> None:
    def f(x: Any) -> Any:
        with nc.no_grad():
            scale = nc.exp(x)
        return nc.sum(scale * x)

    for graph in (nc.Graph.trace(f, X), nc.freeze(f, X)):
        assert bits(nc.grad(graph)(X)) == bits(graph.grad("x")(X)) == bits(nc.grad(f)(X)) == bits(nc.exp(X))


def test_simplification_keeps_bits_and_names(net: Net, graph: Any) -> None:
    simple = graph.optimize()
    assert bits(simple(X, Y)) == bits(net(X, Y)) and set(simple.named) == {"before", "hidden", "scores"}
    assert len(simple.nodes) < len(graph.nodes) and simple.optimize().graph == simple.graph
    for name in simple.named:
        assert bits(simple.run({"x": X}, name)) == bits(graph.run({"x": X}, name))
    unused = nc.Graph.trace(lambda x: (nc.name(net.head(nc.ones((1, 8))), "unused"), x * 2)[1], X).optimize()
    assert unused.weights == {} and unused.named == {} and unused.inputs == ("x",)
    view = nc.Graph.trace(lambda x: nc.exp(nc.name(x.T, "turned")), X).optimize()
    assert bits(view.run({"x": X}, "turned")) == bits(X.T * 1)


def test_a_value_is_computed_in_another_way(net: Net, graph: Any) -> None:
    wanted = net.head(nc.tanh(F.gelu(net.encoder(X))))
    assert bits(graph.replace("hidden", nc.tanh).run({"x": X}, "scores")) == bits(wanted)
    before = nc.placeholder((3, 8), name="before")
    changed = graph.replace("hidden", nc.Graph.build(before, nc.tanh(before)), "before")
    assert bits(changed.run({"x": X}, "scores")) == bits(net.head(nc.tanh(net.encoder(X))))
    assert bits(changed.run({"x": X}, "hidden")) == bits(nc.tanh(net.encoder(X)))
    assert "erfc" not in str(changed) and "erfc" in str(graph)
    other = nn.Linear(8, 8)
    with_weights = changed.replace("hidden", nc.Graph.trace(other, nc.ones((3, 8))))
    assert bits(with_weights.run({"x": X}, "hidden")) == bits(other(nc.tanh(net.encoder(X))))
    assert {"weight", "bias"} < set(with_weights.weights) and with_weights.graph.verify()
    scores = nc.placeholder((3, 2), name="scores")
    with pytest.raises(nc.ArgumentError, match="must not read a value that is computed from the replaced one"):
        graph.replace("hidden", nc.Graph.build(scores, nc.concat([scores] * 4, axis=1)), "scores")


def test_graphs_in_a_row() -> None:
    sizes = {"x": {0: nc.Dim("n")}}
    first, second = nn.Linear(4, 3), nn.Linear(3, 2)
    one = nc.Graph.trace(lambda x: nc.name(first(x), "h"), X, dynamic_shapes=sizes)
    two = nc.Graph.trace(lambda x: nc.name(second(x), "h"), nc.ones((2, 3)), dynamic_shapes={"x": {0: nc.Dim("m")}})
    both = one.then(two)
    assert list(both.weights) == ["weight", "bias", "weight.1", "bias.1"] and list(both.named) == ["h", "h.1"]
    for n in (1, 5):
        assert bits(both(drawn(n, 4))) == bits(second(first(drawn(n, 4))))
    assert bits(both.run({"x": X}, "h.1")) == bits(second(first(X)))
    with pytest.raises(nc.ShapeError, match=r"x must be f32\[3, 2\]; got f32\[n, 2\]"):
        both.then(nc.Graph.trace(nc.exp, nc.ones((3, 2))))


def test_files_hold_the_names(net: Net, graph: Any, tmp_path: Path) -> None:
    path = tmp_path / "graph.safetensors"
    nc.save_program(graph, path)
    found = nc.load_program(path)
    assert repr(found) == repr(graph) and str(found).split("  #")[0] == str(graph).split("  #")[0]
    assert bits(found(X, Y)) == bits(net(X, Y)) and list(found.named) == list(graph.named)
    assert bits(found.run({"x": X}, "hidden")) == bits(graph.run({"x": X}, "hidden"))
    assert bits(found.grad("x", of="loss")(X, Y)) == bits(graph.grad("x", of="loss")(X, Y))
    with opened(path) as file:
        metadata, weights = file.metadata, nc.load(path)
    for names, words in (
        ('{"h": 1000}', "'h' is not the name of one of its"), ('{"h": true}', "'h' is not the name"),
        ('{"x": 3}', "'x' is a name of two values"), ('{"": 3}', "'' is a name of two values"),
        ("[]", "its names are not"), ("{", "must be a program"),
    ):  # fmt: skip
        nc.save(weights, path, {**metadata, "names": names})
        with pytest.raises(nc.ArgumentError, match=words):
            nc.load_program(path)
    assert json.loads(metadata["names"]).keys() == {"before", "hidden", "scores"}
    old = {k: v for k, v in metadata.items() if k != "names"}
    nc.save(weights, path, old)
    assert nc.load_program(path).named == {}


def test_a_graph_of_placeholders_is_deployed(tmp_path: Path) -> None:
    x = nc.placeholder((nc.Dim("n", max=8), 3), name="x")
    graph = nc.Graph.build(x, nc.tanh(x) * 2)
    made = deploy.compile(graph, [], tmp_path / "graph.o", "object")
    assert "const float *x, float *output, int64_t n" in made.header.read_text()


def test_an_input_and_a_weight_of_one_name(tmp_path: Path) -> None:
    layer = nn.Linear(2, 2)
    graph = nc.Graph.trace(lambda weight: layer(weight), nc.ones((1, 2)))
    assert graph.inputs == ("weight",) and list(graph.weights) == ["weight.1", "bias"]
    nc.save_program(graph, tmp_path / "g.safetensors")
    assert bits(nc.load_program(tmp_path / "g.safetensors")(nc.ones((1, 2)))) == bits(layer(nc.ones((1, 2))))


def test_a_graph_never_changes(tmp_path: Path) -> None:
    x, w = nc.placeholder((2,), name="x"), nn.Parameter([1.0, 2.0])
    graph = nc.Graph.build(x, nc.name(x * w, "h") + 1)
    name, before = next(iter(graph.weights)), graph(nc.ones(2)).tolist()
    mine = graph.weights[name]
    mine[0] = 99.0
    graph.weights[name].requires_grad_()
    changes: list[Any] = [
        lambda: graph.weights.update({name: nc.ones(1)}), lambda: graph.weights.pop(name), graph.weights.clear,
        lambda: operator.setitem(graph.weights, name, nc.ones(3)), lambda: operator.delitem(graph.weights, name),
        lambda: operator.setitem(graph.names, "y", mine.type), lambda: operator.delitem(graph.named, "h"),
        lambda: graph.nodes[0].params.update(axis=1), lambda: setattr(graph, "inputs", ("y",)),
        lambda: delattr(graph, "outputs"),
    ]  # fmt: skip
    for change in changes:
        with pytest.raises(nc.Error, match=r"graph\.replace"):
            change()
    assert graph(nc.ones(2)).tolist() == nc.jit(graph)(nc.ones(2)).tolist() == before
    assert not graph.weights[name].requires_grad and graph.weights == graph.weights and "h" not in graph.weights
    assert nc.tree.flatten(graph.weights)[1] == nc.tree.flatten(dict(graph.weights))[1]
    with pytest.raises(nc.MissingKey, match=r"Graph\.weights: the name must be one of"):
        graph.weights["absent"]
    copied = pickle.loads(pickle.dumps(graph))
    nc.save_program(copied, tmp_path / "graph.safetensors")
    assert nc.load_program(tmp_path / "graph.safetensors")(nc.ones(2)).tolist() == before


def test_weights_are_not_memory_of_another_library() -> None:
    array = np.array([1.0, 2.0], np.float32)
    x, lent = nc.placeholder((2,), name="x"), nc.from_dlpack(array)
    graphs = nc.Graph.build(x, x * lent), nc.Graph.trace(lambda y: y * lent, nc.ones(2))
    array[:] = 7
    assert [g(nc.ones(2)).tolist() for g in graphs] == [[1, 2], [1, 2]]


def test_a_value_is_replaced_by_numbers() -> None:
    graph = nc.Graph.trace(lambda x: nc.sum(nc.name(nc.sum(x), "s") * nc.name(x * 2, "h")), nc.ones(2))
    given = nc.tensor([1.0, 3.0])
    assert graph.replace("h", lambda h: nc.ones(2))(given).item() == 8
    assert graph.replace("h", lambda h: [5, 6])(given).item() == 44
    assert graph.replace("s", lambda s: 3)(given).item() == 24
    other = graph.replace("s", lambda s, x: x[0] + 1, inputs=("s", "x"))
    assert other(given).item() == 16 and other.run({"x": given}, "s").item() == 2
    assert graph.replace("h", lambda h: nc.ones(2)).run({"x": given}, "h").tolist() == [1, 1]
    x = nc.placeholder((2,), name="x")
    for words, f in (
        ("Graph.replace: the new computation must be a function or a graph; got 3; write lambda h", 3),
        ("Graph.replace: the new computation must be a function or a graph; got Tensor", x * 2),
        (r"Graph.replace: the function must take 1 tensors \(h\); <lambda> takes a, b.* by inputs=", lambda a, b: a),
        ("Graph.replace: the function must return one tensor; <lambda> returned None", lambda h: None),
        ("Graph.replace: every placeholder that .* needs must be an input; it needs x", lambda h: h * x),
    ):
        with pytest.raises(nc.ArgumentError, match=words):
            graph.replace("h", f)
    weighted = nc.Graph.build(x, x * nn.Parameter([1.0, 2.0]))
    with pytest.raises(nc.ArgumentError, match=r'is a weight; write graph.between\(\("x", "constant0"\), "output"\)'):
        weighted.replace("constant0", lambda w: w * 2)


def test_lists_of_numbers_are_tensors() -> None:
    x, n = nc.placeholder((2,), name="x"), nc.placeholder((), name="n")
    graph = nc.Graph.build([x, n], nc.name(x * 2, "h") * n)
    assert graph([1, 2], 3).tolist() == graph(([1.0, 2.0], 3)).tolist() == [6, 12]
    assert graph.run({"x": [1, 2]}, "h").tolist() == [2, 4]
    rows = nc.placeholder((None, 2), name="rows")
    free = nc.Graph.build(rows, nc.sum(rows, axis=0))
    assert free([[1, 2], [3, 4]]).tolist() == [4, 6]
    with pytest.raises(nc.ShapeError, match=r"must be f32\[2\]; got f32\[n\]; for other sizes, write None"):
        size = nc.placeholder((nc.Dim("n"),), name="q")
        nc.Graph.build(size, size * 2).then(nc.Graph.build(x, x * 2))
