"""Captured tensors that a batched or differentiated function updates in place: refused, and unchanged."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import nacre as nc

X = nc.tensor([[1.0, 2.0], [3.0, 4.0]])


def pair(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda x: f(nc.stack([x, x]))


def total(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda x: nc.sum(f(x))


def pushed(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda x: nc.jvp(f, (x,), (x,))


def chosen(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda x: nc.cond(x[0] > 0, lambda: f(x), lambda: x)


Transformed = Callable[[Callable[[Any], Any]], Any]
TRANSFORMED: dict[str, Transformed] = {
    "vmap": lambda f: nc.vmap(f)(X),
    "jvp": lambda f: nc.jvp(f, (X,), (X,)),
    "jacfwd": lambda f: nc.jacfwd(f)(X),
    "vmap in vmap": lambda f: nc.vmap(nc.vmap(pair(f)))(X),
    "vmap in jvp": lambda f: nc.jvp(nc.vmap(f), (X,), (X,)),
    "jvp in vmap": lambda f: nc.vmap(pushed(f))(X),
    "vmap in jit": lambda f: nc.jit(nc.vmap(f))(X),
    "vmap of grad": lambda f: nc.vmap(nc.grad(total(f)))(X),
    "jit in vmap": lambda f: nc.vmap(nc.jit(f))(X),
    "cond in vmap": lambda f: nc.vmap(chosen(f))(X),
}


@pytest.mark.parametrize("name", TRANSFORMED)
@pytest.mark.parametrize("raises", [False, True])
def test_captured_tensors_are_unchanged(name: str, raises: bool) -> None:
    kept = nc.tensor([7.0, 8.0, 9.0])

    def f(x: Any) -> Any:
        kept[0] = nc.sum(x)
        kept[1] = 2.0
        if raises:
            raise KeyError
        return x * 2

    with pytest.raises(KeyError if raises else nc.TraceError):
        TRANSFORMED[name](f)
    assert kept.tolist() == [7, 8, 9] and (kept * 2).tolist() == [14, 16, 18]


def test_an_argument_that_is_not_batched_is_unchanged() -> None:
    kept = nc.tensor([7.0, 8.0])

    def f(x: Any, kept: Any) -> Any:
        kept[0] = nc.sum(x)
        return x

    with pytest.raises(nc.TraceError, match="vmap"):
        nc.vmap(f, in_axes=(0, None))(X, kept)
    assert kept.tolist() == [7, 8]


@pytest.mark.parametrize("name", TRANSFORMED)
def test_tensors_made_inside_are_updated(name: str) -> None:
    def f(x: Any) -> Any:
        made = nc.zeros((2,))
        made[0] = nc.sum(x)
        own = x * 1
        own[0] = own[0] * 3
        return own * made[0]

    def same(x: Any) -> Any:
        return x * nc.where(nc.arange(x.shape[0]) == 0, 3.0, 1.0).reshape(-1, *(1 for _ in x.shape[1:])) * nc.sum(x)

    def leaves(found: Any) -> list[Any]:
        return [x.tolist() for x in nc.tree.leaves(found)]

    assert leaves(TRANSFORMED[name](f)) == leaves(TRANSFORMED[name](same))
