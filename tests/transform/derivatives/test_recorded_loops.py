"""`create_graph` through loops and branches: derivatives of every order, with the bits of compiled code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nacre as nc
from nacre import nn
from tensor_bits import bits

XS = nc.tensor([[0.1, -0.2], [0.4, 0.5], [0.7, 0.1]], nc.float64)
W = nc.tensor([0.5, 0.6], nc.float64)


def scanned(w: Any, x: Any) -> Any:
    return nc.scan(lambda c, x: (nc.tanh(c * w + x * w), nc.sin(c) * w), x[0], x)[1]


def repeated(reverse: dict[str, Any]) -> Callable[[Any, Any], Any]:
    def f(w: Any, x: Any) -> Any:
        start = x[0], nc.tensor(0)
        step = lambda c: (nc.tanh(c[0] * w) + nc.sin(c[0]), c[1] + 1)  # noqa: E731
        return nc.while_loop(lambda c: c[1] < 3, step, start, **reverse)[0]

    return f


LOOPS: dict[str, Callable[[Any, Any], Any]] = {
    "scan": scanned,
    "bounded": repeated({"max_iterations": 5}),
    "recomputed": repeated({"reverse": "recompute"}),
    "cond": lambda w, x: nc.cond(x.sum() > 0, lambda x: nc.exp(nc.sin(x) * w), lambda x: x * w, x),
    "map": lambda w, x: nc.map(lambda row: nc.exp(nc.sin(row) * w), x),
    "checkpoint": lambda w, x: nc.checkpoint(lambda x: scanned(w, x))(x),
    "a compiled function": lambda w, x: nc.jit(lambda w, x: scanned(w, x))(w, x),
    "a branch in a loop": lambda w, x: nc.scan(
        lambda c, x: (nc.cond(x[0] > 0.3, lambda c: nc.sin(c * w), lambda c: c * c * w, c), c), x[0], x
    )[0],
}


@pytest.mark.parametrize("name", LOOPS)
def test_three_derivatives(name: str) -> None:
    f, w = LOOPS[name], nn.Parameter(W)

    def derivatives(x: Any) -> list[Any]:
        (g,) = nc.autograd.grad((f(w, x) ** 2).sum(), w, create_graph=True)
        (h,) = nc.autograd.grad((g**2).sum(), w, create_graph=True)
        (k,) = nc.autograd.grad((h * h).sum(), w)
        return [g.detach(), h.detach(), k]

    def error(w: Any) -> Any:
        return (f(w, XS) ** 2).sum()

    def second(w: Any) -> Any:
        return (nc.grad(error)(w) ** 2).sum()

    found = derivatives(XS)
    wanted = [nc.grad(error)(W), nc.grad(second)(W), nc.grad(lambda w: (nc.grad(second)(w) ** 2).sum())(W)]
    assert [bits(a) for a in found] == [bits(a) for a in wanted]
    assert [bits(a) for a in nc.jit(derivatives)(XS)] == [bits(a) for a in found]


def test_sizes_that_change() -> None:
    f, w = nc.jit(scanned), nn.Parameter(W)
    for n in (3, 2, 1, 3):
        (g,) = nc.autograd.grad((f(w, XS[:n]) ** 2).sum(), w, create_graph=True)
        (h,) = nc.autograd.grad((g**2).sum(), w)
        wanted = nc.grad(lambda w, n=n: (nc.grad(lambda w: (scanned(w, XS[:n]) ** 2).sum())(w) ** 2).sum())(W)
        np.testing.assert_allclose(h.numpy(), wanted.numpy(), rtol=1e-10)


def test_loops_that_call_the_host_are_refused() -> None:
    w = nn.Parameter(W)

    def step(c: Any, x: Any) -> tuple[Any, Any]:
        return nc.tanh(c * w) * nc.host_call(np.sin, x.type, x), c

    loss = nc.scan(step, XS[0], XS)[0].sum()
    with pytest.raises(nc.GradientError, match="create_graph"):
        nc.autograd.grad(nc.autograd.grad(loss, w, create_graph=True)[0].sum(), w)
