"""Derivatives of a recorded backward pass through fused operations: the same bits as in a compiled function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nacre as nc
from nacre import nn
from same_bits import canonical

F = nn.functional


def tensor(n: int, seed: int = 0) -> Any:
    return nc.tensor((np.random.default_rng(seed).normal(size=(n, 7)) * 0.7).astype(np.float32))


def cubed(y: Any) -> Any:
    return nc.sum(y * y * y)


def read_often(y: Any, x: Any) -> Any:
    return nc.sum(y / (1 + y * y) * (x + y) + nc.sqrt(y * y + 1) * nc.sin(y))


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "mean": lambda x: cubed(x * nc.mean(x)),
    "row": lambda x: read_often(x + x[0], x),
    "both": lambda x: read_often((x + x[0]) * nc.mean(x), x),
    "softmax": lambda x: read_often(F.softmax(x) * nc.max(x), x),
    "norm": lambda x: read_often(F.layer_norm(x, (7,)), x * nc.std(x)),
    "gelu": lambda x: read_often(F.gelu(x - nc.mean(x, axis=0)), x),
    "cross entropy": lambda x: F.cross_entropy(x * nc.mean(x), nc.arange(x.shape[0]) % 7) * nc.sum(x * x),
    "windows": lambda x: read_often(F.avg_pool2d(x[None, None], 2)[0, 0] * nc.mean(x), nc.mean(x)),
}


def derivatives(f: Callable[[Any], Any], x: Any, count: int = 3) -> list[bytes]:
    """The bits of the first derivatives of sums, each from the one before."""
    x = x.detach().requires_grad_()
    found: list[bytes] = []
    y = f(x)
    for _ in range(count):
        y.backward(create_graph=True)
        g, x.grad = x.grad, None
        found.append(canonical(g))
        y = nc.sum(g * g) * 0.1 + nc.sum(nc.sin(g) * g)
    return found


def squares(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The sum of which `derivatives` takes the second derivatives."""

    def summed(x: Any) -> Any:
        g = nc.grad(f)(x)
        return nc.sum(g * g) * 0.1 + nc.sum(nc.sin(g) * g)

    return summed


@pytest.mark.parametrize("name", FUNCTIONS)
def test_derivatives_of_values_with_several_readers(name: str) -> None:
    f = FUNCTIONS[name]
    compiled = nc.jit(f)
    for n in (5, 4, 6):
        x = tensor(n, n)
        found = derivatives(f, x)
        assert found == derivatives(compiled, x), n
        assert found[:1] == [canonical(nc.grad(f)(x))] and found[1:2] == [canonical(nc.grad(squares(f))(x))]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_compiled_step_with_a_recorded_backward_pass(name: str) -> None:
    weight = nn.Parameter(tensor(5))

    def step() -> Any:
        FUNCTIONS[name](weight).backward(create_graph=True)
        first, weight.grad = weight.grad, None
        nc.sum(first * first).backward()
        second, weight.grad = weight.grad, None
        return first, second

    assert list(map(canonical, nc.jit(step)())) == list(map(canonical, step()))


def test_a_second_pass_over_the_same_nodes() -> None:
    x = tensor(5).requires_grad_()
    y = FUNCTIONS["both"](x)
    found: list[bytes] = []
    for create in (False, True, True, False):
        y.backward(retain_graph=True, create_graph=create)
        found.append(canonical(x.grad))
        x.grad = None
    assert len(set(found)) == 1


def test_an_operand_that_was_changed_is_reported() -> None:
    x = tensor(5).requires_grad_()
    y = x * 1.0
    z = nc.sum(y * nc.mean(y) * y)
    y[0] = 3.0
    with pytest.raises(nc.Error, match="changed"):
        z.backward(create_graph=True)
