"""Kernels for any size: shapes share code, and one compiled function serves a range of sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nacre as nc
from nacre.base.errors import ShapeError
from nacre.compile.pipeline import compile_graph
from nacre.interpret.stage import stage
from same_bits import canonical


def codes(f: Callable[..., Any], *shapes: tuple[int, ...]) -> set[str]:
    types = [nc.zeros(s).type for s in shapes]
    compiled = compile_graph(stage(lambda *xs: [f(*xs)], types).graph)
    return {c.text for c in compiled.executable.codes}


@pytest.mark.parametrize(
    "f",
    [
        lambda x: nc.exp(x) + 1,
        lambda x: x.sum(axis=1),
        lambda x: x.sum(axis=0),
        lambda x: nc.exp(x - x.max(axis=1, keepdims=True)),
        lambda x: x.T + 1,
        lambda x: nc.cumulative_sum(x, axis=1),
        lambda x: x @ x.T,
    ],
)
def test_shapes_share_code(f: Callable[..., Any]) -> None:
    assert codes(f, (20, 30)) == codes(f, (7, 300)) != set()


@pytest.mark.parametrize(
    "f",
    [
        lambda x: x - x.mean(axis=(0, 2), keepdims=True),
        lambda x: x.sum(axis=1) + x.max(axis=1),
        lambda x: nc.exp(x.transpose(1, 0, 2)) * 2,
        lambda x: x + x[0, :, 0].reshape(1, -1, 1),
    ],
)
@pytest.mark.parametrize("shape", [(16, 16, 50), (50, 16, 50), (16, 50, 50), (20, 20, 20)])
def test_sizes_that_are_equal_by_chance_share_code(f: Callable[..., Any], shape: tuple[int, ...]) -> None:
    assert codes(f, shape) == codes(f, (16, 24, 50)) != set()
    x = numbers(*shape)
    assert canonical(nc.jit(f)(x)) == canonical(f(x))


def units(f: Callable[..., Any], x: tuple[int, ...], w: tuple[int, ...], name: str) -> set[str]:
    types = [nc.zeros(s).type for s in (x, w)]
    compiled = compile_graph(stage(lambda *xs: list(f(*xs)), types).graph)
    texts = {u.text for c in compiled.executable.codes for u in c.units}
    return {text for text in texts if f"@{name}(ptr %args" in text}


def gradients(x: Any, w: Any, groups: int = 1) -> Any:
    padding = w.shape[-1] // 2
    return nc.grad(lambda x, w: (nc.nn.functional.conv2d(x, w, padding=padding, groups=groups) ** 2).sum(), (0, 1))(
        x, w
    )


@pytest.mark.parametrize("name", ["conv_y", "conv_dx", "conv_dw"])
def test_pointwise_convolutions_of_other_sizes_share_a_kernel(name: str) -> None:
    first = units(gradients, (2, 48, 14, 14), (160, 48, 1, 1), name)
    assert first == units(gradients, (2, 84, 28, 28), (192, 84, 1, 1), name)
    assert len(first) == 1


@pytest.mark.parametrize("name", ["conv_y", "conv_dx", "conv_dw"])
def test_depthwise_convolutions_of_other_channels_share_a_kernel(name: str) -> None:
    first = units(lambda x, w: gradients(x, w, 64), (2, 64, 14, 14), (64, 1, 3, 3), name)
    assert first == units(lambda x, w: gradients(x, w, 80), (2, 80, 14, 14), (80, 1, 3, 3), name)
    assert len(first) == 1


@pytest.mark.parametrize(
    "f",
    [
        lambda c: lambda x: nc.exp(x * c) + 1,
        lambda c: lambda x: (x * c).sum(axis=1) - c,
        lambda c: lambda x: nc.maximum(x @ x.T * c, 0),
        lambda c: lambda x: x.astype(nc.bfloat16) * c,
        lambda c: lambda x: x.astype(nc.int32) * int(1000 * c) + 1,
    ],
)
def test_constants_share_code(f: Callable[[float], Callable[..., Any]]) -> None:
    assert codes(f(0.3), (20, 30)) == codes(f(0.7), (20, 30)) != set()


@pytest.mark.parametrize(("a", "b"), [(0.0, 1.0), (2.0, 0.3), (float("inf"), 0.3)])
def test_numbers_that_code_depends_on_stay_constants(a: float, b: float) -> None:
    assert codes(lambda x: x + a, (20,)) != codes(lambda x: x + b, (20,))


def test_many_constants_are_one_kernel() -> None:
    def stack(x: Any) -> Any:
        for k in range(40):
            x = nc.tanh(x @ SQUARE * (0.9 + k / 1000))
        return x

    assert len(codes(stack, (3, 5))) == 1
    x = numbers(3, 5)
    assert canonical(nc.jit(stack)(x)) == canonical(stack(x))


def numbers(*shape: int) -> Any:
    return nc.tensor(np.random.default_rng(sum(shape)).normal(size=shape).astype(np.float32))


W = numbers(5, 4)
SQUARE = numbers(5, 5)
FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "pointwise": lambda x: nc.exp(x) * 2 + 1,
    "rows": lambda x: x.sum(axis=1),
    "columns": lambda x: x.sum(axis=0),
    "mean": lambda x: x.mean(axis=0),
    "all": lambda x: x.sum(),
    "softmax": lambda x: nc.exp(x) / nc.exp(x).sum(axis=1, keepdims=True),
    "product": lambda x: x @ W,
    "gram": lambda x: x @ x.T,
    "inner": lambda x: x.T @ x,
    "layer": lambda x: nc.maximum(x @ W + 1, 0.0),
    "transposed": lambda x: x.T + 1,
    "reshaped": lambda x: x.reshape((-1,)) * 2,
    "flipped": lambda x: nc.flip(x, axis=0) + x,
    "joined": lambda x: nc.concat([x, x * 2], axis=0),
    "running": lambda x: nc.cumulative_sum(x, axis=0),
    "sliced": lambda x: x[:, 1:3] * 3,
    "gradient": lambda x: nc.grad(lambda y: (nc.tanh(y @ W) ** 2).sum())(x),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_dynamic_sizes(name: str) -> None:
    f = FUNCTIONS[name]
    dynamic = nc.jit(f, dynamic_shapes={"x": {0: nc.Dim("batch", max=100)}})
    for size in (7, 0, 1, 2, 64, 100, 7):
        x = numbers(size, 5)
        assert canonical(dynamic(x)) == canonical(f(x)), f"{name} of {size} rows"
    assert len(dynamic.concrete_functions) == 1
    with pytest.raises(ShapeError, match="100"):
        dynamic(numbers(101, 5))


def test_dynamic_sizes_of_several_arguments() -> None:
    batch, width = nc.Dim("batch", max=64), nc.Dim("width", max=64)

    def f(x: Any, y: Any) -> Any:
        return (x * y).sum(axis=1)

    dynamic = nc.jit(f, dynamic_shapes={"x": {0: batch, 1: width}, "y": {0: batch, 1: width}})
    for shape in ((3, 4), (1, 1), (0, 5), (5, 0), (64, 64)):
        x, y = numbers(*shape), numbers(*shape)
        assert canonical(dynamic(x, y)) == canonical(f(x, y))
    with pytest.raises(ShapeError, match="batch"):
        dynamic(numbers(3, 4), numbers(2, 4))
    assert len(dynamic.concrete_functions) == 1


def test_dynamic_sizes_that_are_multiples() -> None:
    half = nc.Dim("half", max=50)
    dynamic = nc.jit(lambda x: x.reshape((-1, 2, 5)).sum(axis=1), dynamic_shapes={"x": {0: half * 2}})
    for size in (2, 0, 64):
        x = numbers(size, 5)
        assert canonical(dynamic(x)) == canonical(x.reshape((size // 2, 2, 5)).sum(axis=1))
    with pytest.raises(ShapeError, match="half"):
        dynamic(numbers(7, 5))


def test_dynamic_functions_inside_others() -> None:
    dynamic = nc.jit(FUNCTIONS["layer"], dynamic_shapes={"x": {0: nc.Dim("batch", max=100)}})
    x = numbers(6, 5)
    wanted = canonical(FUNCTIONS["layer"](x))
    assert canonical(nc.jit(lambda x: dynamic(x) * 1)(x)) == wanted
    found = nc.grad(lambda x: (dynamic(x) ** 2).sum())(x)
    assert canonical(found) == canonical(nc.grad(lambda x: (FUNCTIONS["layer"](x) ** 2).sum())(x))
    outer = nc.jit(lambda x: dynamic(x) * 1, dynamic_shapes={"x": {0: nc.Dim("rows", max=50)}})
    assert canonical(outer(x)) == wanted
    batched = nc.vmap(dynamic)(nc.stack([x, x]))
    assert canonical(batched.numpy()[1]) == wanted
    tracked = nc.tensor(x.numpy()).requires_grad_()
    dynamic(tracked).sum().backward()
    assert tracked.grad is not None
