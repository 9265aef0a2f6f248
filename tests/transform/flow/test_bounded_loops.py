"""Loops with a bound: both modes of derivatives, the bound, batches, sizes, memory, text, executables."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nacre as nc
from deploy.calls import Library, can_link, same
from nacre import deploy
from nacre.base.errors import ArgumentError, AxisError, GradientError, KindError
from nacre.inspect.explain import explain
from nacre.ir.parse import parse
from nacre.trace.variable import Variable
from tensor_bits import bits

X = nc.tensor([0.5, -1.0, 2.0], dtype=nc.float64)
W = nc.tensor([[0.5, 0.1, 0.2], [0.3, 0.2, 0.1], [0.1, 0.4, 0.3]], dtype=nc.float64)
BOUNDS = (0, 1, 3, 40)


def large(y: Any) -> Any:
    return (y * y).sum() > 0.01


def once(y: Any, w: Any) -> Any:
    return nc.tanh(y @ w) * 0.9


def settled(x: Any, w: Any = W, bound: int | None = 40) -> Any:
    """The state of a loop that ends when it is small, and the number of its iterations."""
    return nc.while_loop(
        lambda s: large(s["y"]),
        lambda s: {"y": once(s["y"], w) + x * 0.01, "k": s["k"] + 1},
        {"y": x, "k": nc.tensor(0)},
        bound,
    )


def unrolled(x: Any, w: Any = W, bound: int = 40) -> Any:
    y, k = x, 0
    while k < bound and bool(large(y)):
        y, k = once(y, w) + x * 0.01, k + 1
    return {"y": y, "k": nc.tensor(k)}


def loss(f: Callable[..., Any], bound: int = 40) -> Callable[..., Any]:
    return lambda x, w: (nc.sin(f(x, w, bound)["y"]) * X).sum()


@pytest.mark.parametrize("bound", BOUNDS)
def test_a_bound_ends_the_loop(bound: int) -> None:
    wanted = bits(nc.jit(unrolled)(X, W, 0)) if not bound else bits(unrolled(X, W, bound))
    assert bits(settled(X, W, bound)) == bits(nc.jit(lambda x: settled(x, W, bound))(X)) == wanted
    forever = nc.while_loop(lambda k: k >= 0, lambda k: k + 1, nc.tensor(0), max_iterations=bound)
    assert int(forever) == bound
    always = nc.while_loop(lambda _: nc.tensor(True), lambda k: k + 1, nc.tensor(0), max_iterations=bound)
    assert int(always) == bound


def test_a_bound_that_is_not_reached_changes_no_bits() -> None:
    assert int(settled(X)["k"]) < 40
    assert bits(settled(X)) == bits(settled(X, W, None)) == bits(settled(X, W, 10**9))


@pytest.mark.parametrize("bound", BOUNDS)
def test_derivatives_are_those_of_the_iterations(bound: int) -> None:
    both = (0, 1)
    wanted = nc.grad(loss(unrolled, bound), argnums=both)(X, W)
    f = loss(settled, bound)
    found = nc.grad(f, argnums=both)(X, W)
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-12, atol=1e-14)
    for other in (nc.jit(nc.grad(f, argnums=both)), nc.grad(nc.jit(f), argnums=both)):
        assert bits(other(X, W)) == bits(found)
    assert bits(nc.grad(nc.checkpoint(f), argnums=both)(X, W)) == bits(found)
    x, w = nc.tensor(X.numpy()).requires_grad_(), nc.tensor(W.numpy()).requires_grad_()
    f(x, w).backward()
    assert bits([x.grad, w.grad]) == bits(found)
    np.testing.assert_allclose(nc.jacfwd(f)(X, W).numpy(), wanted[0].numpy(), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("bound", BOUNDS)
def test_second_derivatives_in_any_order_of_modes(bound: int) -> None:
    f, plain = loss(settled, bound), loss(unrolled, bound)
    wanted = nc.jacrev(nc.grad(plain))(X, W).numpy()
    for outer, inner in ((nc.jacfwd, nc.grad), (nc.jacrev, nc.grad), (nc.jacrev, nc.jacfwd)):
        np.testing.assert_allclose(outer(inner(f))(X, W).numpy(), wanted, rtol=1e-11, atol=1e-13)
    np.testing.assert_allclose(nc.jit(nc.hessian(f))(X, W).numpy(), wanted, rtol=1e-11, atol=1e-13)


def test_examples_of_a_batch_end_alone() -> None:
    f = loss(settled)
    xs = nc.stack([X, X * 0.01, X * 3.0, X * 0.2])
    each = [nc.grad(f, argnums=(0, 1))(x, W) for x in xs]
    for way in (nc.vmap, lambda g, axes: nc.jit(nc.vmap(g, axes))):
        found = way(nc.grad(f, argnums=(0, 1)), (0, None))(xs, W)
        assert bits(found) == bits([nc.stack([g[k] for g in each]) for k in (0, 1)])
    total = nc.grad(lambda xs: nc.vmap(f, (0, None))(xs, W).sum())(xs)
    np.testing.assert_allclose(total.numpy(), np.stack([g[0].numpy() for g in each]), rtol=1e-13)


def test_loops_in_loops() -> None:
    def nested(x: Any) -> Any:
        def outer(y: Any, row: Any) -> Any:
            y = nc.while_loop(large, lambda y: once(y, W), y + row, max_iterations=5)
            return nc.while_loop(lambda y: y.sum() < 1.0, lambda y: y + row * row, y, max_iterations=4), y

        return nc.scan(outer, x, nc.stack([x, x * 2.0, nc.cos(x)]))

    def plain(x: Any) -> Any:
        y, ys = x, list[Any]()
        for row in (x, x * 2.0, nc.cos(x)):
            y = y + row
            for _ in range(5):
                y = once(y, W) if bool(large(y)) else y
            ys.append(y)
            for _ in range(4):
                y = y + row * row if float(y.sum().detach()) < 1.0 else y
        return y, nc.stack(ys)

    def total(f: Callable[..., Any]) -> Callable[..., Any]:
        return lambda x: sum((nc.sin(y) * X).sum() for y in f(x))

    assert bits(nested(X)) == bits(nc.jit(nested)(X))
    wanted = nc.grad(total(plain))(X).numpy()
    for found in (nc.grad(total(nested)), nc.jit(nc.grad(total(nested)))):
        np.testing.assert_allclose(found(X).numpy(), wanted, rtol=1e-12)


def test_an_iteration_may_check_and_assign() -> None:
    count = Variable(nc.tensor(0))
    table = nc.tensor([1.0, 2.0, 3.0], dtype=nc.float64)

    def walk(x: Any, steps: Any) -> Any:
        def body(s: Any) -> Any:
            y, k = s
            count.assign(count.value + 1)
            return y * x * table[k], k + 1

        return nc.while_loop(lambda s: s[1] < steps, body, (x, nc.tensor(0)), max_iterations=6)[0]

    slope = nc.jit(nc.grad(walk))
    x = nc.tensor(2.0, dtype=nc.float64)
    assert float(slope(x, nc.tensor(3))) == 4 * 2.0**3 * 6.0
    assert int(count.value) == 3
    with pytest.raises(AxisError, match="got 3"):
        slope(x, nc.tensor(5))
    assert int(count.value) == 3


def test_a_bound_may_be_a_size() -> None:
    def f(xs: Any) -> Any:
        n = xs.shape[0]
        return nc.while_loop(
            lambda s: s[1].sum() < 3.0, lambda s: (s[0] * nc.cos(s[1]), s[1] + xs), (xs, xs * 0.0), max_iterations=n
        )[0].sum()

    g = nc.jit(nc.grad(f), dynamic_shapes={"xs": {0: nc.Dim("n", min=0, max=20)}})
    for n in (0, 1, 2, 5, 20):
        x = nc.tensor(np.linspace(0.1, 0.4, n))
        np.testing.assert_allclose(g(x).numpy(), nc.grad(f)(x).numpy(), rtol=1e-13)
    assert len(g.concrete_functions) == 1


def test_rows_are_written_in_place_and_only_those_that_happened() -> None:
    def f(x: Any) -> Any:
        y, _ = nc.while_loop(lambda s: s[1] < 3, lambda s: (nc.sin(s[0]), s[1] + 1), (x, nc.tensor(0)), 1000)
        return y.sum()

    compiled = nc.jit(nc.grad(f))
    assert compiled.memory(X).workspace < 1.2 * 1000 * X.numpy().nbytes
    assert "updat" in str(explain(nc.grad(f), X).plan)


def test_fori_loops_with_tensors_as_bounds() -> None:
    def power(x: Any, n: Any, **most: Any) -> Any:
        return nc.fori_loop(0, n, lambda k, c: c * x + k.astype(nc.float64), nc.ones(3, dtype=nc.float64), **most).sum()

    for n in (-2, 0, 3, 5):
        wanted = nc.grad(power)(X, min(n, 4)).numpy()
        for k in (n, nc.tensor(n)):
            np.testing.assert_allclose(nc.grad(lambda x, k=k: power(x, k, max_iterations=4))(X).numpy(), wanted)
        assert float(power(X, nc.tensor(n), max_iterations=4)) == float(power(X, min(n, 4)))


def test_the_text_of_a_bounded_loop() -> None:
    for f in (settled, nc.grad(lambda x: settled(x)["y"].sum())):
        graph = nc.jit(f).trace(X)
        assert "while[bound=40]" in str(graph)
        assert parse(str(graph)) == graph and graph.verify() is graph


@pytest.mark.skipif(not can_link(), reason="nothing here links for this machine")
def test_executables_of_bounded_loops(tmp_path: Path) -> None:
    def slopes(x: Any) -> Any:
        return settled(x, W, 3), nc.grad(loss(settled, 3))(x, W)

    made = Library(deploy.compile(slopes, [X], tmp_path / "libbounded.so", "shared"))
    for scale in (1.0, 0.01, 0.2):
        x = X * scale
        for found, wanted in zip(made(x.numpy()), nc.tree.leaves(slopes(x)), strict=True):
            assert same(found, wanted.numpy())


def test_faults() -> None:
    with pytest.raises(GradientError, match="max_iterations=100"):
        nc.grad(lambda x: settled(x, W, None)["y"].sum())(X)
    with pytest.raises(ArgumentError, match="while_loop: max_iterations must be at least 0; got -1"):
        settled(X, W, -1)
    for wrong in (2.5, "many", True):
        with pytest.raises(KindError, match="max_iterations must be an integer"):
            settled(X, W, wrong)  # type: ignore[arg-type]
    with pytest.raises(KindError, match="max_iterations must be an integer"):
        nc.fori_loop(0, 3, lambda k, c: c, X, max_iterations=X)
    with pytest.raises(ArgumentError, match="must change a value that the condition reads"):
        nc.while_loop(lambda x: x.sum() > 0, lambda x: x, X)
