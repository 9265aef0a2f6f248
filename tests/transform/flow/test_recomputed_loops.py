"""Loops whose iterations reverse mode computes again: bits, orders of modes, memory, batches, checks, faults."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nacre as nc
from deploy.calls import Library, can_link, same
from nacre import deploy
from nacre.base.errors import ArgumentError, AxisError, GradientError
from nacre.interpret.loops import recomputed
from nacre.ir.parse import parse
from tensor_bits import bits

X = nc.tensor([0.5, -1.0, 2.0], dtype=nc.float64)
W = nc.tensor([[0.5, 0.1, 0.2], [0.3, 0.2, 0.1], [0.1, 0.4, 0.3]], dtype=nc.float64)
COUNTS = (0, 1, 2, 3, 4, 5, 16, 17, 100)
BOTH = (0, 1)
AGAIN = {"reverse": "recompute"}


def loss(x: Any, w: Any, n: Any, **way: Any) -> Any:
    """A loop with carries that vary, one that does not, and one that counts."""
    y, _, k = nc.while_loop(
        lambda s: s[2] < n, lambda s: (nc.tanh(s[0] @ w) + s[1] * 0.1, s[1], s[2] + 1), (x, x, nc.tensor(0)), **way
    )
    return (nc.sin(y) * X).sum() + k.astype(nc.float64)


def recomputing(n: Any) -> Callable[..., Any]:
    return lambda x, w: loss(x, w, n, **AGAIN)


@pytest.mark.parametrize("n", COUNTS)
def test_the_bits_are_those_of_a_bounded_loop(n: int) -> None:
    f = recomputing(n)
    assert bits(f(X, W)) == bits(loss(X, W, n))
    wanted = bits(nc.grad(lambda x, w: loss(x, w, n, max_iterations=128), argnums=BOTH)(X, W))
    for way in (nc.grad(f, argnums=BOTH), nc.jit(nc.grad(f, argnums=BOTH)), nc.grad(nc.jit(f), argnums=BOTH)):
        assert bits(way(X, W)) == wanted
    assert bits(nc.grad(nc.checkpoint(f), argnums=BOTH)(X, W)) == wanted
    x, w = nc.tensor(X.numpy()).requires_grad_(), nc.tensor(W.numpy()).requires_grad_()
    f(x, w).backward()
    assert bits([x.grad, w.grad]) == wanted
    most = nc.grad(lambda x, w: loss(x, w, 10**6, max_iterations=n, **AGAIN), argnums=BOTH)
    assert bits(most(X, W)) == wanted


@pytest.mark.parametrize("n", (0, 1, 6))
def test_second_derivatives_in_any_order_of_modes(n: int) -> None:
    f = recomputing(n)
    wanted = nc.hessian(lambda x, w: loss(x, w, n, max_iterations=8))(X, W).numpy()
    for outer, inner in ((nc.jacfwd, nc.grad), (nc.jacrev, nc.grad), (nc.jacrev, nc.jacfwd), (nc.jacfwd, nc.jacfwd)):
        np.testing.assert_allclose(outer(inner(f))(X, W).numpy(), wanted, rtol=1e-12, atol=1e-14)
    nc.check_grads(f, (X, W), order=2)


@pytest.mark.parametrize("slots", (2, 3, 4))
def test_more_iterations_than_the_saved_carries_divide(slots: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recomputed, "SLOTS", slots)
    scale = 1.0 + slots / 64  # a loop of its own, so that its rule is derived here

    def f(x: Any, **way: Any) -> Any:
        return nc.while_loop(lambda s: s[1] < 21, lambda s: (nc.sin(s[0]) * scale, s[1] + 1), (x, nc.tensor(0)), **way)[
            0
        ].sum()

    wanted = nc.grad(lambda x: f(x, max_iterations=32))(X)
    assert bits(nc.grad(lambda x: f(x, **AGAIN))(X)) == bits(wanted)


def test_memory_does_not_grow_with_the_iterations() -> None:
    x = nc.tensor(np.linspace(-1, 1, 1000))

    def f(x: Any, n: Any) -> Any:
        y, _ = nc.while_loop(lambda s: s[1] < n, lambda s: (nc.sin(s[0]), s[1] + 1), (x, nc.tensor(0)), **AGAIN)
        return y.sum()

    slope = nc.jit(nc.grad(f))
    assert slope.memory(x, nc.tensor(3)).workspace < 2 * recomputed.SLOTS * x.numpy().nbytes
    found, wanted = slope(x, nc.tensor(3000)), np.ones(1000)
    y = x.numpy()
    for _ in range(3000):
        wanted, y = wanted * np.cos(y), np.sin(y)
    np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-9)
    assert len(slope.concrete_functions) == 1


def test_examples_of_a_batch_end_alone() -> None:
    xs, counts = nc.stack([X, X * 0.1, -X]), nc.tensor([0, 7, 3])
    slope = nc.grad(lambda x, n: loss(x, W, n, **AGAIN))
    each = nc.stack([slope(x, n) for x, n in zip(xs, counts, strict=True)])
    assert bits(nc.vmap(slope)(xs, counts)) == bits(nc.jit(nc.vmap(slope))(xs, counts)) == bits(each)
    total = nc.grad(lambda xs: nc.vmap(lambda x, n: loss(x, W, n, **AGAIN))(xs, counts).sum())(xs)
    np.testing.assert_allclose(total.numpy(), each.numpy(), rtol=1e-13)


def test_loops_in_loops_and_branches() -> None:
    def f(x: Any, **way: Any) -> Any:
        def inner(y: Any) -> Any:
            return nc.while_loop(lambda y: (y * y).sum() > 0.5, lambda y: nc.tanh(y @ W) * 0.9, y, **way)

        def body(s: Any) -> Any:
            return nc.cond(s[1] > 1, inner, lambda y: y * x, s[0] + x), s[1] + 1

        return nc.while_loop(lambda s: s[1] < 4, body, (x, nc.tensor(0)), **way)[0].sum()

    wanted = nc.grad(lambda x: f(x, max_iterations=30))(X)
    assert bits(nc.grad(lambda x: f(x, **AGAIN))(X)) == bits(wanted)


def test_fori_loops() -> None:
    def power(x: Any, n: Any, **way: Any) -> Any:
        return nc.fori_loop(0, n, lambda k, c: c * x + k.astype(nc.float64), nc.ones(3, dtype=nc.float64), **way).sum()

    for n in (-1, 0, 5):
        wanted = nc.grad(lambda x, n=n: power(x, nc.tensor(n), max_iterations=8))(X)
        for count in (n, nc.tensor(n)):
            assert bits(nc.grad(lambda x, n=count: power(x, n, **AGAIN))(X)) == bits(wanted)


def test_an_iteration_may_check() -> None:
    table = nc.tensor([1.0, 2.0, 3.0], dtype=nc.float64)

    def walk(x: Any, steps: Any) -> Any:
        return nc.while_loop(
            lambda s: s[1] < steps, lambda s: (s[0] * x * table[s[1]], s[1] + 1), (x, nc.tensor(0)), **AGAIN
        )[0]

    slope = nc.jit(nc.grad(walk))
    assert float(slope(nc.tensor(2.0, dtype=nc.float64), nc.tensor(3))) == 4 * 2.0**3 * 6.0
    with pytest.raises(AxisError, match="got 3"):
        slope(nc.tensor(2.0, dtype=nc.float64), nc.tensor(4))


def test_the_text_of_a_recomputed_loop() -> None:
    f = recomputing(4)
    for each in (f, nc.grad(f)):
        graph = nc.jit(each).trace(X, W)
        assert "while[recompute=True]" in str(graph)
        assert parse(str(graph)) == graph and graph.verify() is graph


@pytest.mark.skipif(not can_link(), reason="nothing here links for this machine")
def test_executables_of_recomputed_loops(tmp_path: Path) -> None:
    slope = nc.grad(recomputing(9))
    made = Library(deploy.compile(slope, [X, W], tmp_path / "librecomputed.so", "shared"))
    assert same(made(X.numpy(), W.numpy())[0], slope(X, W).numpy())


def test_faults() -> None:
    with pytest.raises(GradientError, match='reverse="recompute"'):
        nc.grad(lambda x: loss(x, W, 3))(X)
    for operation in (
        lambda: nc.while_loop(lambda x: x < 3, lambda x: x + 1, X.sum(), reverse="again"),
        lambda: nc.fori_loop(0, 3, lambda k, x: x, X, reverse="again"),
    ):
        with pytest.raises(ArgumentError, match="_loop: reverse must be \"recompute\" or None; got 'again'"):
            operation()

    def body(x: Any) -> Any:
        return x * nc.host_call(lambda v: v, x.type, x)

    with pytest.raises(GradientError, match="calls the host, which must run once"):
        nc.grad(lambda x: nc.while_loop(lambda x: x < 3, body, x, **AGAIN))(X.sum())
