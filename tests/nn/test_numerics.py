"""`numerics("fast")` changes the algorithm of convolutions in its context, and nowhere else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nacre as nc
from nacre.kernel import order_convolution, order_winograd
from nacre.nn import functional as F


def rand(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


X, W = rand(2, 16, 6, 7), rand(17, 16, 3, 3, seed=1)
CONV = order_convolution.convolution(16, 6, 7, 17, (3, 3), padding=((1, 1), (1, 1)))


def f(x: Any, w: Any) -> Any:
    return F.conv2d(x, w, padding=1)


def names(graph: Any) -> list[str]:
    return [e.primitive.name for e in graph.equations]


def test_the_mode_is_that_of_the_call() -> None:
    x, w = nc.asarray(X), nc.asarray(W)
    fast, exact = order_winograd.forward(CONV, X, W), order_convolution.forward(CONV, X, W)
    assert (fast != exact).any()
    jitted = nc.jit(f)
    outer = nc.jit(lambda x, w: jitted(x, w) + 0.0)
    for _ in range(2):
        for mode, wanted in (("exact", exact), ("fast", fast)):
            with nc.numerics(mode):
                for g in (f, jitted, outer, nc.vmap(lambda a: f(nc.reshape(a, (1, *a.shape)), w)[0])):
                    found = g(x) if g not in (f, jitted, outer) else g(x, w)
                    np.testing.assert_array_equal(found.numpy(), wanted)
    assert len(jitted.concrete_functions) == 2


def test_a_mode_inside_a_function_belongs_to_it() -> None:
    def mixed(x: Any, w: Any) -> Any:
        with nc.numerics("fast"):
            y = f(x, w)
        return y - f(x, w)

    wanted = order_winograd.forward(CONV, X, W) - order_convolution.forward(CONV, X, W)
    for g in (mixed, nc.jit(mixed)):
        np.testing.assert_array_equal(g(nc.asarray(X), nc.asarray(W)).numpy(), wanted)


def test_the_gradient_follows_the_forward_map() -> None:
    def loss(x: Any, w: Any) -> Any:
        return nc.sum(f(x, w) * g)

    g = nc.asarray(rand(2, 17, 6, 7, seed=2))
    with nc.numerics("fast"):
        eager = nc.grad(loss, (0, 1))(nc.asarray(X), nc.asarray(W))
        jitted = nc.jit(nc.grad(loss, (0, 1)))(nc.asarray(X), nc.asarray(W))
        x = nc.asarray(X).requires_grad_()
        whole = loss(x, nc.asarray(W))
    whole.backward()  # the mode outside of the context does not matter
    np.testing.assert_array_equal(eager[0].numpy(), order_winograd.input_grad(CONV, g.numpy(), W))
    np.testing.assert_array_equal(eager[1].numpy(), order_winograd.weight_grad(CONV, X, g.numpy()))
    np.testing.assert_array_equal(x.grad.numpy(), eager[0].numpy())
    for a, b in zip(eager, jitted, strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())


def test_the_gradient_of_many_filters_is_direct() -> None:
    def loss(w: Any) -> Any:
        return nc.sum(f(nc.ones((1, 129, 4, 4)), w))

    with nc.numerics("fast"):
        graph = nc.jit(nc.grad(loss)).trace(nc.ones((128, 129, 3, 3)))
    assert "convolve_weight_grad" in names(graph) and "winograd_weight_grad" not in names(graph)


@pytest.mark.parametrize(("shape", "filters", "params"), [
    ((1, 15, 6, 6), (16, 15, 3, 3), {}), ((1, 16, 6, 6), (15, 16, 3, 3), {}), ((1, 16, 6, 6), (16, 16, 3, 2), {}),
    ((1, 16, 6, 6), (16, 16, 3, 3), {"stride": 2}), ((1, 16, 6, 6), (16, 16, 3, 3), {"dilation": (1, 2)}),
    ((1, 32, 6, 6), (32, 16, 3, 3), {"groups": 2}),
], ids=str)  # fmt: skip
def test_other_convolutions_are_unchanged(shape: Any, filters: Any, params: Any) -> None:
    with nc.numerics("fast"):
        graph = nc.jit(lambda x, w: F.conv2d(x, w, **params)).trace(nc.ones(shape), nc.ones(filters))
    assert names(graph) == ["convolve"]


def test_float64_stays_exact() -> None:
    with nc.numerics("fast"):
        wide = nc.jit(f).trace(nc.asarray(X.astype(np.float64)), nc.asarray(W.astype(np.float64)))
        single = nc.jit(f).trace(nc.asarray(X), nc.asarray(W))
        back = nc.jit(lambda g, w: F.conv_transpose2d(g, w)).trace(nc.ones((1, 17, 4, 4)), nc.asarray(W))
    assert names(wide) == ["convolve"] and names(single) == ["winograd"] and names(back) == ["winograd_input_grad"]
