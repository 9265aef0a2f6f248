"""Functions that write into the differentiated argument: every path has the analytic gradient."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nacre as nc

W = nc.tensor([1.0, 2.0, 4.0])
AT = np.float32([0.5, 1.5, 2.5])


def put(x: Any) -> Any:
    x[1] = 3.0
    return nc.sum(x * x * W)


def put_after_a_use(x: Any) -> Any:
    y = nc.sum(x * W)
    x[1] = 3.0
    return y + nc.sum(x * x * W)


def scale_a_part(x: Any) -> Any:
    x[1:] *= 2.0
    return nc.sum(x * W)


def put_of_others(x: Any) -> Any:
    x[0] = x[1] * x[2]
    return nc.sum(x * W)


def put_by_an_alias(x: Any) -> Any:
    y = x
    y[2] = y[0] * y[0]
    return nc.sum(x * W)


def put_twice(x: Any) -> Any:
    x[0] = x[1]
    x[1] = x[0] * 3.0
    return nc.sum(x * W)


FUNCTIONS: dict[Callable[[Any], Any], list[float]] = {
    put: [1.0, 0.0, 20.0],
    put_after_a_use: [2.0, 2.0, 24.0],
    scale_a_part: [1.0, 4.0, 8.0],
    put_of_others: [0.0, 4.5, 5.5],
    put_by_an_alias: [5.0, 2.0, 0.0],
    put_twice: [0.0, 7.0, 4.0],
}
Way = Callable[[Callable[[Any], Any]], Callable[[Any], Any]]
WAYS: dict[str, Way] = {
    "grad": nc.grad,
    "value_and_grad": lambda f: lambda x: nc.value_and_grad(f)(x)[1],
    "vjp": lambda f: lambda x: nc.vjp(f, x)[1](nc.tensor(1.0))[0],
    "jacrev": nc.jacrev,
    "jacfwd": nc.jacfwd,
    "grad of jit": lambda f: nc.grad(nc.jit(f)),
    "grad of checkpoint": lambda f: nc.grad(nc.checkpoint(f)),
    "grad of vmap": lambda f: nc.grad(lambda x: nc.sum(nc.vmap(f)(x[None]))),
    "vmap of grad": lambda f: lambda x: nc.vmap(nc.grad(f))(nc.stack([x, x]))[0],
    "grad of value": lambda f: nc.grad(lambda x: nc.value_and_grad(f)(x)[0]),
    "a tree": lambda f: lambda x: nc.grad(lambda t: f(t["x"]))({"x": x})["x"],
    "backward": lambda f: lambda x: backward(f, x),
    "jvp": lambda f: lambda x: nc.stack([nc.jvp(f, (x,), (e,))[1] for e in nc.eye(3)]),
}


def backward(f: Callable[[Any], Any], x: Any) -> Any:
    leaf = nc.tensor(x.numpy()).requires_grad_()
    f(leaf * 1.0).backward()
    return leaf.grad


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "jit"])
@pytest.mark.parametrize("f", FUNCTIONS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("way", WAYS)
def test_gradients(way: str, f: Callable[[Any], Any], compiled: bool) -> None:
    x = nc.tensor(AT)
    derivative = WAYS[way](f)
    if compiled and way != "backward":
        derivative = nc.jit(derivative)
    assert derivative(x).tolist() == FUNCTIONS[f]
    assert x.tolist() == AT.tolist(), "the caller's tensor stays"


def test_second_derivatives() -> None:
    x = nc.tensor(AT)
    for way in (nc.hessian, lambda f: nc.jacrev(nc.grad(f)), lambda f: nc.jacfwd(nc.grad(f))):
        assert way(put)(x).tolist() == [[2, 0, 0], [0, 0, 0], [0, 0, 8]]


def test_numbers_that_a_gradient_needs_are_not_silently_overwritten() -> None:
    def f(x: Any) -> Any:
        y = nc.sum(x * x)
        x[1] = 3.0
        return y + nc.sum(x)

    assert nc.jacfwd(f)(nc.tensor(AT)).tolist() == [2.0, 3.0, 6.0]
    with pytest.raises(nc.GradientError, match="must not change before backward"):
        nc.grad(f)(nc.tensor(AT))


def product_of_both(a: Any, b: Any) -> Any:
    a[0] = 5.0
    return nc.sum(a * b)


THROUGH: dict[str, Callable[[Any], Callable[..., Any]]] = {
    "jit": nc.jit,
    "checkpoint": nc.checkpoint,
    "cond": lambda f: lambda *xs: nc.cond(nc.tensor(True), f, lambda *ys: nc.sum(ys[0]) * 0.0, *xs),
    "the other branch": lambda f: lambda *xs: nc.cond(nc.tensor(False), lambda *ys: nc.sum(ys[0]) * 0.0, f, *xs),
    "jit of checkpoint": lambda f: nc.jit(nc.checkpoint(f)),
    "jit of cond": lambda f: nc.jit(lambda *xs: nc.cond(nc.sum(xs[0]) < 99.0, f, lambda *ys: nc.sum(ys[0]), *xs)),
}
OWN: dict[str, Callable[[Any], Callable[..., Any]]] = {
    "grad": lambda f: nc.grad(f, (0, 1)),
    "grad for one": nc.grad,
    "vjp": lambda f: lambda *xs: nc.vjp(f, *xs),
    "jvp": lambda f: lambda *xs: nc.jvp(f, xs, xs),
    "jacfwd": nc.jacfwd,
    "vmap": lambda f: lambda x, _: (lambda rows: nc.vmap(f)(rows, rows))(x[None]),
    "vmap of a column": lambda f: lambda x, _: (lambda rows: nc.vmap(f, (1, 0))(rows, rows))(x[None] * nc.ones((2, 2))),
    "while_loop": lambda f: lambda *xs: nc.while_loop(lambda c: c[2] < 1.0, lambda c: (*c[:2], f(*c[:2])), (*xs, 0.0)),
    "scan": lambda f: lambda *xs: nc.scan(lambda c, r: (c, f(*c)), xs, nc.ones(2)),
}


@pytest.mark.parametrize("way", THROUGH)
def test_a_write_reaches_the_tensor_of_the_caller(way: str) -> None:
    x, plain, other = nc.tensor([1.0, 2.0]), nc.tensor([1.0, 2.0]), nc.tensor([3.0, 4.0])
    assert THROUGH[way](product_of_both)(x, other).tolist() == product_of_both(plain, other).tolist() == 23.0
    assert x.tolist() == plain.tolist() == [5.0, 2.0] and other.tolist() == [3.0, 4.0]
    gradient = nc.grad(lambda y: product_of_both(y * 1.0, other))(nc.tensor([1.0, 2.0]))
    assert nc.grad(lambda y: THROUGH[way](product_of_both)(y * 1.0, other))(nc.tensor([1.0, 2.0])).tolist() == (
        gradient.tolist()
    )


def test_a_branch_that_does_not_write_does_not_change_the_operand() -> None:
    x = nc.tensor([1.0, 2.0])
    nc.cond(nc.tensor(False), product_of_both, lambda a, b: nc.sum(a), x, nc.ones(2))
    assert x.tolist() == [1.0, 2.0]


@pytest.mark.parametrize("way", [*THROUGH, *OWN])
def test_a_tensor_that_is_passed_twice_is_not_written_to(way: str) -> None:
    x = nc.tensor([1.0, 2.0])
    assert product_of_both(x, x).tolist() == 29.0
    x = nc.tensor([1.0, 2.0])
    with pytest.raises(nc.ArgumentError, match="must be given once"):
        (THROUGH | OWN)[way](product_of_both)(x, x)
    assert x.tolist() == [1.0, 2.0]


@pytest.mark.parametrize("way", ["jit", "checkpoint", "cond"])
def test_arrays_and_leaves_are_not_written_to(way: str) -> None:
    with pytest.raises(nc.ArgumentError, match="must be a tensor; got a NumPy array"):
        THROUGH[way](product_of_both)(AT, nc.tensor(AT))
    leaf = nc.tensor(AT).requires_grad_()
    with pytest.raises(nc.Error):
        THROUGH[way](product_of_both)(leaf, nc.tensor(AT))
