"""Images in blocks of channels have the bits of those in planes, and are converted at the edges of a network only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import nacre as nc
from nacre.compile.passes.nchwc import choose_nchwc
from nacre.compile.passes.simplify import simplify
from nacre.compile.program.executor import CompilingExecutor
from nacre.ir.graph import Graph
from nacre.ir.parse import parse
from nacre.nn import functional as F


def rand(*shape: int, seed: int = 0) -> Any:
    return nc.asarray(np.random.default_rng(seed).standard_normal(shape).astype(np.float32))


def traced(f: Callable[..., Any], operands: list[Any]) -> Graph:
    return nc.jit(f).concrete(*operands).graph


def names(graph: Graph) -> Counter[str]:
    return Counter(e.primitive.name for e in choose_nchwc(simplify(graph)).equations)


def check(f: Callable[..., Any], operands: list[Any]) -> Counter[str]:
    """Compare a compiled function with its single operations; returns the counts of its primitives."""
    graph = traced(f, operands)
    found = CompilingExecutor().execute(graph, operands)
    wanted = f(*operands)
    for a, b in zip(found, wanted if isinstance(wanted, tuple) else (wanted,), strict=True):
        np.testing.assert_array_equal(nc.Tensor.numpy(a).view(np.uint32), b.numpy().view(np.uint32))
    return names(graph)


def norm(x: Any, scale: Any, shift: Any) -> Any:
    shape = (1, -1, 1, 1)
    return x * nc.reshape(scale, shape) + nc.reshape(shift, shape)


def network(x: Any, stem: Any, a: Any, b: Any, down: Any, c: Any, s: Any, t: Any) -> Any:
    """A small residual network: a stem, a maximum, a block, a strided block with a projection, a mean."""
    x = F.max_pool2d(F.relu(norm(F.conv2d(x, stem, stride=2, padding=3), s, t)), 3, 2, padding=1)
    y = F.relu(norm(F.conv2d(x, a, padding=1), s, t))
    x = F.relu(norm(F.conv2d(y, b, padding=1), s, t) + x)
    y = F.gelu(F.conv2d(x, down, stride=2, padding=1))
    x = F.relu(F.conv2d(y, c, padding=1) + F.conv2d(x, down[:, :, :1, :1], stride=2))
    return nc.mean(x, axis=(2, 3))


WEIGHTS = [
    rand(32, 3, 7, 7, seed=1),
    rand(32, 32, 3, 3, seed=2),
    rand(32, 32, 3, 3, seed=3),
    rand(48, 32, 3, 3, seed=4),
    rand(48, 48, 3, 3, seed=5),
    rand(32, seed=6),
    rand(32, seed=7),
]


@pytest.mark.parametrize("mode", ["exact", "fast"])
@pytest.mark.parametrize(("batch", "height", "width"), [(1, 61, 57), (3, 30, 34), (0, 30, 34)])
def test_a_network_is_in_blocks_from_stem_to_mean(mode: str, batch: int, height: int, width: int) -> None:
    with nc.numerics(mode):
        found = check(network, [rand(batch, 3, height, width), *WEIGHTS])
    assert found["convolve"] == found["winograd"] == found["window_max"] == found["permute"] == found["copy"] == 0
    assert found["convolve_blocked"] + found["winograd_blocked"] == 6 and found["window_max_blocked"] == 1


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_threads(threads: int) -> None:
    with nc.numerics("fast"):
        before = nc.get_threads()
        try:
            nc.set_threads(threads)
            check(network, [rand(2, 3, 40, 44), *WEIGHTS])
        finally:
            nc.set_threads(before)


X, W, V = rand(2, 32, 13, 10), rand(32, 32, 3, 3, seed=1), rand(48, 32, 3, 3, seed=2)


@pytest.mark.parametrize("mode", ["exact", "fast"])
def test_values_that_are_also_results(mode: str) -> None:
    def f(x: Any, w: Any) -> Any:
        y = F.relu(F.conv2d(x, w, padding=1))
        z = F.relu(F.conv2d(y, w, padding=1))
        u = F.relu(F.conv2d(z, w, padding=1) + y)
        v = F.conv2d(F.conv2d(F.conv2d(u, w, padding=1) + u, w), w)
        return u, v, nc.sum(z, axis=3), nc.max(z, axis=(2, 3))

    with nc.numerics(mode):
        check(f, [X, W])


def test_operands_and_results_of_other_operations_stay_in_planes() -> None:
    def f(x: Any, w: Any, v: Any) -> Any:
        y = F.conv2d(x, w, padding=1)
        return F.conv2d(nc.concat([y, y * 2.0], axis=1), nc.concat([w, w], axis=1)), y

    for mode in ("exact", "fast"):
        with nc.numerics(mode):
            found = check(f, [X, W, V])
            assert not any(name.endswith("_blocked") for name in found)


def test_gradients_are_unchanged() -> None:
    def loss(w: Any, v: Any, x: Any) -> Any:
        return nc.sum(F.relu(F.conv2d(F.relu(F.conv2d(x, w, padding=1)), v, padding=1)) ** 2)

    with nc.numerics("fast"):
        graph = traced(nc.grad(loss), [W, V, X])
        found, wanted = CompilingExecutor().execute(graph, [W, V, X])[0], nc.grad(loss)(W, V, X)
        np.testing.assert_array_equal(nc.Tensor.numpy(found), wanted.numpy())


def test_images_that_repeat_channels_or_numbers() -> None:
    def f(x: Any, w: Any, s: Any, m: Any) -> Any:
        y = F.conv2d(F.conv2d(x, w, padding=1), w, padding=1)
        gate = nc.reshape(nc.sigmoid(nc.mean(y, axis=(2, 3))), (2, 32, 1, 1))  # for each image and channel
        y = nc.where(y > 0, y * gate, nc.zeros_like(y)) + nc.reshape(s, (32, 1, 1))
        y = nc.clip(y, -1.5, 2.0) + nc.reshape(m, (1, 1, 13, 10))  # and for each pixel
        return F.conv2d(F.conv2d(y, w, padding=1), w)

    with nc.numerics("fast"):
        found = check(f, [X, W, rand(32, seed=4), rand(13, 10, seed=5)])
    assert found["winograd_blocked"] == 4


def test_channels_with_weights_from_convolutions() -> None:
    def f(x: Any, w: Any, v: Any, u: Any) -> Any:
        y = F.conv2d(F.relu(F.conv2d(x, w, padding=1)), w, padding=1)
        gate = F.relu(F.conv2d(nc.reshape(nc.mean(y, axis=(2, 3)), (2, 32, 1, 1)), v))
        return F.conv2d(F.relu(y * nc.sigmoid(F.conv2d(gate, u))), w)

    for mode in ("exact", "fast"):
        with nc.numerics(mode):
            check(f, [X, W, rand(48, 32, 1, 1, seed=4), rand(32, 48, 1, 1, seed=5)])


def test_a_batch_of_unknown_size() -> None:
    def f(x: Any, w: Any) -> Any:
        return F.conv2d(F.relu(F.conv2d(F.relu(F.conv2d(x, w, padding=1)), w, padding=1)), w)

    with nc.numerics("fast"):
        g = nc.jit(f, dynamic_shapes={"x": {0: nc.Dim("batch", max=8)}})
        for batch in (1, 5):
            x = rand(batch, 32, 9, 11, seed=batch)
            np.testing.assert_array_equal(g(x, W).numpy(), f(x, W).numpy())


def test_the_graph_is_text() -> None:
    with nc.numerics("fast"):
        graph = choose_nchwc(simplify(traced(network, [rand(1, 3, 64, 64), *WEIGHTS])))
    assert parse(str(graph)) == graph.verify()


# ---- random networks

Step = tuple[str, int]
KINDS = ["same", "down", "point", "residual", "pool", "relu", "edge", "keep", "half"]
STEPS = st.lists(st.tuples(st.sampled_from(KINDS), st.sampled_from([16, 32, 48])), min_size=2, max_size=7)


def weights(steps: list[Step], channels: int) -> list[Any]:
    """The filters of a network; empty ones for steps without filters."""
    sides = {"same": 3, "down": 3, "half": 3, "point": 1}
    found: list[Any] = []
    for k, (step, wanted) in enumerate(steps):
        made = {"half": 24, "edge": min(2 * channels, 24)}.get(step, wanted if step in sides else channels)
        found.append(rand(made, channels, *[sides.get(step, 0)] * 2, seed=k) * 0.2)
        channels = made
    return found


def run(steps: list[Step], x: Any, filters: Sequence[Any]) -> tuple[Any, ...]:
    """A network of some steps, and its intermediate values."""
    kept: list[Any] = []
    before = x
    for (step, _), w in zip(steps, filters, strict=True):
        match step:
            case "same" | "down" | "point" | "half":
                stride, padding = 1 + (step == "down"), int(step != "point")
                before, x = x, F.conv2d(x, w, stride=stride, padding=padding)
            case "residual":
                x = x + before if before.shape == x.shape else x
            case "pool":
                x = F.max_pool2d(x, 2, 1, padding=1)
            case "edge":
                x = nc.concat([x, x[:, ::-1]], axis=1)[:, :24]
            case "keep":
                kept.append(x)
            case _:
                x = F.relu(x)
    return (x, *kept)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    STEPS,
    st.sampled_from([3, 16, 32]),
    st.sampled_from([(1, 9, 12), (2, 7, 7), (1, 16, 5)]),
    st.sampled_from(["exact", "fast"]),
)
def test_random_networks(steps: list[Step], channels: int, shape: tuple[int, int, int], mode: str) -> None:
    batch, height, width = shape
    with nc.numerics(mode):
        operands = [rand(batch, channels, height, width), *weights(steps, channels)]
        check(lambda x, *filters: run(steps, x, filters), operands)
