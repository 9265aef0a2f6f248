"""Leaves that a call of compiled code would lose are refused, and the message says what to write."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import nacre as nc
from nacre import nn


def error(x: Any) -> Any:
    return (x * x).sum()


def slope(x: Any) -> Any:
    x = x.detach().requires_grad_()
    error(x).backward()
    return x.grad


@nc.jit
def by_method(x: Any) -> Any:
    x.requires_grad_()
    error(x).backward()
    return x.grad


@nc.jit
def by_attribute(x: Any) -> Any:
    x.requires_grad = True
    error(x).backward()
    return x.grad


@nc.jit
def returned(x: Any) -> Any:
    x = x.detach().requires_grad_()
    error(x).backward()
    return [x]


@pytest.mark.parametrize("f", [by_method, by_attribute])
def test_an_argument_does_not_become_a_leaf(f: Any) -> None:
    with pytest.raises(nc.GradientError, match="must not change an argument") as told:
        f(nc.ones(2))
    assert "x = x.detach().requires_grad_()" in str(told.value)


def test_a_leaf_is_no_result() -> None:
    with pytest.raises(nc.GradientError, match="must not be leaves made there") as told:
        returned(nc.ones(2))
    assert "return x.detach(), x.grad" in str(told.value)


def test_what_the_messages_say_works() -> None:
    assert nc.jit(slope)(nc.ones(2)).tolist() == [2.0, 2.0]
    w = nn.Parameter([1.0, 2.0])
    value, grad, x = nc.jit(lambda x: (w.value, w.grad, x))(nc.ones(2))
    assert value.requires_grad and grad is None and not x.requires_grad


@pytest.mark.parametrize("x", [nc.ones(2), nc.ones(2).requires_grad_()])
def test_backward_from_arguments_says_what_to_write(x: Any) -> None:
    with pytest.raises(nc.GradientError, match=r"x = x\.detach\(\)\.requires_grad_\(\)"):
        nc.jit(lambda x: error(x).backward())(x)


def doubled(x: nc.Tensor) -> nc.Tensor:
    return x * 2 if x.requires_grad else x


@pytest.mark.parametrize(
    "f",
    [
        nc.jit(doubled),
        nc.jit(lambda x: nc.jit(doubled)(nc.exp(x))),
        lambda x: nc.scan(lambda c, _: (doubled(c), None), x, length=2)[0],
        nc.checkpoint(lambda x: doubled(nc.sin(x))),
    ],
    ids=["jit", "jit in jit", "scan", "checkpoint"],
)
def test_compiled_code_does_not_read_whether_its_arguments_require_gradients(f: Callable[[Any], Any]) -> None:
    x = nc.ones(2)
    plain = f(x)
    x.requires_grad_()
    with pytest.raises(nc.GradientError, match=r"requires_grad: compiled code .* must not read it"):
        f(x)
    with nc.no_grad():
        assert f(x).tolist() == plain.tolist()


def test_compiled_code_reads_requires_grad_of_a_tensor_from_outside() -> None:
    w = nc.ones(2).requires_grad_()
    with pytest.raises(nc.GradientError, match="must not read it"):
        nc.jit(lambda x: doubled(w * x))(nc.ones(2))


def test_compiled_code_reads_requires_grad_of_what_needs_no_gradient() -> None:
    def f(x: nc.Tensor) -> Any:
        leaf = x.detach().requires_grad_()
        with nc.no_grad():
            silent = x * 3
        return doubled(x.detach()), doubled(silent), doubled(leaf * 3).detach()

    x = nc.ones(2).requires_grad_()
    assert [y.tolist() for y in nc.jit(f)(x)] == [y.tolist() for y in f(x)] == [[1, 1], [3, 3], [6, 6]]
