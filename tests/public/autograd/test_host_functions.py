"""`autograd.Function` with a `forward` that calls the host: every derivative, and one call of the host in each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nacre as nc
from nacre import nn
from tensor_bits import bits

calls: list[str] = []


def host(f: Callable[[Any], Any], x: Any) -> Any:
    def called(a: Any) -> Any:
        calls.append(f.__name__)
        return f(a)

    return nc.host_call(called, x.type, x)


class Exp(nc.autograd.Function):
    """It saves its result."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        y = host(np.exp, x)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g * ctx.saved_tensors[0]


class Product(nc.autograd.Function):
    """x·sin x; it saves an argument, and a value of the host that is no result and therefore a constant."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        sine = host(np.sin, x)
        ctx.save_for_backward(x, sine)
        return sine * x

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        x, sine = ctx.saved_tensors
        return g * (sine + x * nc.cos(x))


class Either(nc.autograd.Function):
    """sin x and exp x; missing gradients are None."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.set_materialize_grads(False)
        sine, power = host(np.sin, x), host(np.exp, x)
        ctx.save_for_backward(x, power)
        return sine, power

    @staticmethod
    def backward(ctx: Any, g: Any, h: Any) -> Any:
        x, power = ctx.saved_tensors
        parts = [c * d for c, d in ((g, nc.cos(x)), (h, power)) if c is not None]
        return sum(parts[1:], parts[0])


FUNCTIONS: dict[str, tuple[Callable[[Any], Any], list[float]]] = {  # and the derivatives at 0.5
    "result": (Exp.apply, [np.exp(0.5)] * 4),
    "constant": (
        Product.apply,
        [
            0.5 * np.sin(0.5),
            np.sin(0.5) + 0.5 * np.cos(0.5),
            np.cos(0.5) - 0.5 * np.sin(0.5),
            -2 * np.sin(0.5) - 0.5 * np.cos(0.5),
        ],
    ),
    "second of two": (lambda x: Either.apply(x)[1], [np.exp(0.5)] * 4),
    "first of two": (lambda x: Either.apply(x)[0], [np.sin(0.5), np.cos(0.5), -np.sin(0.5), -np.cos(0.5)]),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_derivative_in_eager_and_compiled_code(name: str) -> None:
    f, wanted = FUNCTIONS[name]
    x = nc.tensor(0.5)
    counts: list[int] = []
    for value in wanted:
        for way in (f, nc.jit(f)):
            calls.clear()
            assert way(x).item() == pytest.approx(value, rel=1e-6)
            counts.append(len(calls))
        assert bits(f(x)) == bits(nc.jit(f)(x))
        f = nc.grad(f)
    assert len(set(counts)) == 1


@pytest.mark.parametrize("compiled", [False, True])
def test_a_recorded_backward_pass(compiled: bool) -> None:
    w = nn.Parameter(0.5)

    def step() -> Any:
        (g,) = nc.autograd.grad(Exp.apply(w * 2.0), w, create_graph=True)
        (h,) = nc.autograd.grad(g, w)
        return g.detach(), h

    g, h = (nc.jit(step) if compiled else step)()
    assert (g.item(), h.item()) == (pytest.approx(2 * np.e, rel=1e-6), pytest.approx(4 * np.e, rel=1e-6))
