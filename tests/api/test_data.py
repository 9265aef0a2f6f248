"""`x.data`: the numbers of a tensor without a record, through which the tensor changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import nacre as nc
from nacre import nn

MODES: Any = [lambda f: f, nc.jit]  # pyright: ignore[reportUnknownLambdaType]


def test_numbers_without_a_record() -> None:
    x = nc.tensor([1.0, 2.0]).requires_grad_()
    assert (x.data * 2).tolist() == [2, 4] and not x.data.requires_grad
    x.data = x.data * 0.5
    x.data[0] = 1.0
    x.data -= 0.5
    assert x.tolist() == [0.5, 0.5] and x.requires_grad and x.is_leaf
    (x * x).sum().backward()
    assert x.grad is not None and x.grad.data.tolist() == [1, 1]
    x.grad.data[0] = 9.0
    x.grad.data.data[1] = 8.0
    assert x.grad.tolist() == [9, 8]


def test_an_old_value_is_refused() -> None:
    x = nc.ones(2)
    old = x.data
    x.data = x.data * 2
    with pytest.raises(nc.StateError, match="old value"):
        old[0] = 5.0
    assert x.tolist() == [2, 2]


def test_saved_numbers_that_change_are_an_error() -> None:
    x = nc.tensor([1.0, 2.0]).requires_grad_()
    z = x * 1
    w = z * z
    z.data[0] = 0.0
    with pytest.raises(nc.GradientError, match="must not change before backward"):
        w.sum().backward()


def program(v: nc.Tensor) -> nc.Tensor:
    y = v * 2
    y.data[0] = 1.0
    z = y * 3
    z.data = z.data * 2
    return (z * y).sum()


@pytest.mark.parametrize("mode", MODES, ids=["eager", "jit"])
def test_the_record_stays(mode: Callable[..., Callable[..., nc.Tensor]]) -> None:
    x = nc.tensor([1.0, 2.0]).requires_grad_()
    f = mode(program)
    f(x).backward()
    assert f(x).item() == 102 and x.grad is not None and x.grad.tolist() == [18, 72]
    assert mode(nc.grad(program))(x.detach()).tolist() == [18, 72]
    value, tangent = nc.jvp(f, (x.detach(),), (nc.ones(2),))
    assert (value.item(), tangent.item()) == (102, 90)
    assert nc.vmap(f)(nc.ones((3, 2))).tolist() == [30, 30, 30]


def test_descent_inside_a_compiled_function() -> None:
    def descend() -> nc.Tensor:
        x = nc.ones(2).requires_grad_()
        for _ in range(3):
            (x * x).sum().backward()
            assert x.grad is not None
            x.data = x.data - 0.1 * x.grad
            x.grad = None
        return x.data

    assert nc.jit(descend)().tolist() == descend().tolist()


def test_data_of_a_parameter_is_a_constant_in_compiled_code() -> None:
    p = nn.Parameter([1.0, 2.0])

    def scaled(x: nc.Tensor) -> nc.Tensor:
        return (p * p.data * x).sum()

    for f in (scaled, nc.jit(scaled)):
        p.grad = None
        f(nc.ones(2)).backward()
        assert p.grad is not None and p.grad.tolist() == [1, 2]
