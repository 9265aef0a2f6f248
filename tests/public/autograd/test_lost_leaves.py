"""Leaves that a call of compiled code would lose are refused, and the message says what to write."""

from __future__ import annotations

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
