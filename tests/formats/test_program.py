"""Programs: frozen, saved, loaded, and run with the bits of the original function."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nacre as nc
from nacre import deploy, nn
from nacre.base.errors import ArgumentError, DTypeError, Error, GraphError, ShapeError
from nacre.examples.digits import network
from nacre.formats.safetensors import opened

BATCH = nc.Dim("batch", min=1, max=64)


@pytest.fixture
def model() -> nn.Sequential:
    nc.random.seed(2)
    return network().eval()


def images(n: int) -> Any:
    return nc.asarray(np.random.default_rng(n).normal(size=(n, 1, 8, 8)).astype(np.float32))


def test_models(model: nn.Sequential, tmp_path: Path) -> None:
    program = nc.save_program(model, tmp_path / "m.safetensors", images(2), dynamic_shapes={"x": {0: BATCH}})
    counts = {name for name in model.state_dict() if name.endswith("num_batches_tracked")}  # without any reader
    assert set(program.weights) == set(model.state_dict()) - counts
    found = nc.load_program(tmp_path / "m.safetensors")
    assert repr(found) == repr(program) and found.graph == program.graph
    for n in (1, 7, 64):
        wanted = model(images(n)).numpy().tobytes()
        assert program(images(n)).numpy().tobytes() == wanted == found(images(n)).numpy().tobytes()


def test_frozen_values_do_not_change(model: nn.Sequential) -> None:
    program = nc.freeze(model, images(3))
    before = program(images(3)).numpy().copy()
    for p in model.parameters():
        p.data = p.data * 0
    assert np.array_equal(program(images(3)).numpy(), before)


def test_structures_and_captures(tmp_path: Path) -> None:
    table = nc.arange(4, dtype=nc.float32)

    def f(pair: Any, rest: Any) -> Any:
        return {"sum": pair[0] + pair[1] + table, "rest": [rest["z"], (None, rest["w"] * 2)]}

    x, z, w = nc.ones(4), nc.tensor([1, 2]), nc.tensor(3.0)
    nc.save_program(f, tmp_path / "p.safetensors", (x, x), {"z": z, "w": w})
    program = nc.load_program(tmp_path / "p.safetensors")
    assert program.inputs == ("pair.0", "pair.1", "rest.z", "rest.w") and list(program.weights) == ["constant0"]
    assert program.outputs == ("sum", "rest.0", "rest.1.1")
    got = program((x, x), {"z": z, "w": w})
    assert got["sum"].tolist() == [2, 3, 4, 5] and got["rest"][1][0] is None and got["rest"][1][1].item() == 6


def test_control_flow_runs_from_a_file(tmp_path: Path) -> None:
    def f(x: Any) -> Any:
        return nc.while_loop(lambda y: nc.sum(y) < 100, lambda y: y * 2, x)

    nc.save_program(f, tmp_path / "p.safetensors", nc.ones(3))
    assert nc.load_program(tmp_path / "p.safetensors")(nc.ones(3)).tolist() == [64, 64, 64]


def test_jitted_functions_bring_their_sizes() -> None:
    program = nc.freeze(nc.jit(lambda x: x + 1, dynamic_shapes={"x": {0: BATCH}}), nc.ones((2, 3)))
    assert str(program.input_types[0]) == "f32[batch, 3]"
    assert nc.freeze(program) is program


@pytest.mark.parametrize(
    ("given", "fault", "message"),
    [
        ([], ArgumentError, r"takes 1 tensors \(x\); got 0"),
        ([nc.ones((2, 3))], ShapeError, r"x must be f32\[batch, 1, 8, 8\]; got f32\[2, 3\]"),
        ([nc.ones((2, 1, 8, 9))], ShapeError, r"x must be .*; got f32\[2, 1, 8, 9\]"),
        ([nc.ones((65, 1, 8, 8))], ShapeError, "batch from 1 to 64; got"),
        ([nc.ones((2, 1, 8, 8), dtype=nc.float64)], DTypeError, r"got f64\[.*; convert it with astype"),
    ],
)
def test_wrong_calls(model: nn.Sequential, given: list[Any], fault: type[Exception], message: str) -> None:
    program = nc.freeze(model, images(2), dynamic_shapes={"x": {0: BATCH}})
    with pytest.raises(fault, match=message):
        program(*given)


# ---- wrong files

CHANGES: dict[str, tuple[dict[str, str | None], str]] = {
    "no format": ({"format": None}, "it has no format"),
    "another format": ({"format": "model"}, "its format is 'model'"),
    "a newer version": ({"version": "2"}, "this Nacre reads 1; use a newer Nacre"),
    "no graph": ({"graph": None}, "it has no graph"),
    "an empty graph": ({"graph": ""}, "expected graph"),
    "a graph with an unknown operation": (
        {"graph": "graph f(a: f32[2]):\n  b: f32[2] = system(a)\n  return b"},
        "the name of a primitive",
    ),
    "other inputs": ({"inputs": "[]"}, "differ from those of the graph's inputs"),
    "inputs that are numbers": ({"inputs": "[1]"}, "not a list of names"),
    "weights twice": ({"weights": '["weight", "weight"]'}, "occurs twice"),
    "weights that are not there": ({"weights": '["weight", "other"]'}, "differ from those of the graph's inputs"),
    "weights in another order": ({"weights": '["bias", "weight"]'}, r"the graph takes f32\[2, 3\] for bias"),
    "no JSON": ({"outputs": "x"}, "Expecting value"),
    "other outputs": ({"outputs": '["a", "b"]'}, "differ from those of the graph's outputs"),
    "another structure": ({"structure": '["tuple", "*", "*"]'}, "differ from those of the graph's outputs"),
    "a structure of classes": ({"structure": '["eval", "*"]'}, "must consist of tuples"),
    "a deep structure": ({"structure": '["list", ' * 100 + '"*"' + "]" * 100}, "nested too deeply"),
    "a structure that never ends": ({"structure": "[" * 100_000}, "recursion"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_wrong_files(name: str, tmp_path: Path) -> None:
    changes, message = CHANGES[name]
    path = tmp_path / "p.safetensors"
    nc.save_program(nn.Linear(3, 2), path, nc.ones((4, 3)))
    with opened(path) as file:
        tensors = {n: file.tensor(n) for n in file.entries}
        metadata = {k: v for k, v in (file.metadata | changes).items() if v is not None}
    nc.save(tensors, path, metadata)
    with pytest.raises((ArgumentError, GraphError), match=message):
        nc.load_program(path)
    nc.save(tensors, path)
    with pytest.raises(ArgumentError, match="it has no format"):
        nc.load_program(path)


@given(st.integers(0, 5000), st.text(max_size=3))
@settings(max_examples=150, deadline=None)
def test_graphs_of_any_text(place: int, text: str) -> None:
    program = nc.freeze(nn.Linear(3, 2), nc.ones((4, 3)))
    graph = str(program.graph)
    at = place % len(graph)
    path = Path("/tmp", f"nacre-any-text-{id(program)}.safetensors")
    metadata = {
        "format": "nacre-program",
        "version": "1",
        "graph": graph[:at] + text + graph[at + 1 :],
        "inputs": '["x"]',
        "outputs": '["output"]',
        "weights": json.dumps(list(program.weights)),
        "structure": '"*"',
    }
    nc.save(program.weights, path, metadata)
    try:
        nc.load_program(path)
    except Error:
        pass
    finally:
        path.unlink()


@pytest.mark.parametrize(
    ("dynamic", "message"),
    [
        ({"input": {0: BATCH}}, "got 'input'"), ({"x": {0: "b"}}, "the size of axis 0 of x must be a Dim; got 'b'"),
        ({"x": {"a": BATCH}}, "an axis of x in dynamic_shapes must be an integer"), ({"x": [BATCH, None]}, "a mapping"),
        ([BATCH], "dynamic_shapes must be a mapping"),
        ({"x": {0: nc.Dim("n", max=2)}}, "must be from 0 to 2; got"),
    ],
)  # fmt: skip
def test_dynamic_shapes_are_checked_as_by_jit(dynamic: Any, message: str, tmp_path: Path) -> None:
    def double(x: Any) -> Any:
        return x * 2

    x = nc.ones((3, 2))
    for make in (
        lambda: nc.freeze(double, x, dynamic_shapes=dynamic), lambda: nc.jit(double, dynamic_shapes=dynamic)(x),
        lambda: nc.save_program(double, tmp_path / "p.safetensors", x, dynamic_shapes=dynamic),
        lambda: deploy.compile(double, [x], tmp_path / "p.so", "shared", dynamic_shapes=dynamic),
    ):  # fmt: skip
        with pytest.raises(nc.Error, match=re.escape(message)):
            make()


def test_a_program_is_differentiated_batched_and_traced_as_its_function_is() -> None:
    x = nc.tensor([0.5, -1.0, 2.0])

    def function(x: Any) -> Any:
        return nc.sin(x) * x

    program = nc.freeze(function, x)
    for use in (
        lambda f: nc.grad(lambda x: nc.sum(f(x)))(x), lambda f: nc.jacrev(f)(x), lambda f: nc.jacfwd(f)(x),
        lambda f: nc.jit(lambda x: f(x) + 1)(x), lambda f: nc.vmap(f)(nc.stack([x, x])),
        lambda f: nc.checkpoint(lambda x: f(x))(x), lambda f: f(nn.Parameter(x)), lambda f: nc.jit(f)(x),
        lambda f: nc.hessian(lambda x: nc.sum(f(x)))(x), lambda f: nc.jit(nc.vmap(nc.jacrev(f)))(nc.stack([x, x])),
    ):  # fmt: skip
        assert use(program).numpy().tobytes() == use(function).numpy().tobytes()
    p = nn.Parameter(x)
    nc.sum(program(p)).backward()
    assert p.grad.tolist() == nc.grad(lambda x: nc.sum(function(x)))(x).tolist()
    program = nc.freeze(lambda x: x * 2.0, x)
    with nc.no_grad():
        assert program(nn.Parameter(nc.ones(3))).tolist() == [2.0, 2.0, 2.0]
