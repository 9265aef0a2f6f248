"""The inputs of jit, grad, vmap and control flow: functions that return, NumPy's integers, axes of every form."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import nacre as nc
from nacre import nn
from nacre.nn import functional as F

X = nc.tensor([1.0, 2.0, 3.0])
ROWS = nc.ones((2, 3))
ONE, TWO = np.int64(1), np.int64(2)


def yields(x: Any) -> Any:
    yield x


async def waits(x: Any) -> Any:
    return x


async def streams(x: Any) -> Any:
    yield x


class Holder:
    """A class with one attribute."""

    def __init__(self, x: Any) -> None:
        self.x = x


class Yielding(nn.Module):
    """A module whose `forward` is a generator function."""

    def forward(self, x: Any) -> Any:
        """Yields x."""
        yield x


@pytest.mark.parametrize("f", [yields, waits, streams, Holder, int, Yielding(), partial(yields)])
def test_jit_refuses_functions_that_do_not_return(f: Any) -> None:
    with pytest.raises(nc.KindError, match=r"^jit: the function must"):
        nc.jit(f)
    with pytest.raises(nc.KindError, match=r"^jit: the function must"):
        nc.jit(donate=())(f)


@pytest.mark.parametrize("f", [
    yields, waits, streams, lambda x: yields(x), lambda x: map(nc.sin, [x]), lambda x: (x, (y for y in [x])),
])  # fmt: skip
@pytest.mark.parametrize("call", [
    lambda f: nc.grad(f)(X), lambda f: nc.value_and_grad(f)(X), lambda f: nc.vmap(f)(X), lambda f: nc.jacfwd(f)(X),
    lambda f: nc.checkpoint(f)(X), lambda f: nc.vjp(f, X), lambda f: nc.jvp(f, (X,), (X,)),
    lambda f: nc.cond(nc.tensor(True), f, f, X), lambda f: nc.while_loop(f, f, X),
    lambda f: nc.scan(lambda c, x: f(x), X, X), lambda f: nc.jit(lambda x: f(x))(X),
])  # fmt: skip
def test_results_must_be_computed(call: Callable[[Any], Any], f: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(nc.KindError, match="results must be tensors, or tuples, lists and dicts of them; got an"):
            call(f)


@pytest.mark.parametrize("given", [np.int64(0), np.int8(0), np.uint8(0), np.array(0), nc.tensor(0)], ids=repr)
def test_argnums_may_be_whole_numbers_of_numpy(given: Any) -> None:
    assert nc.grad(lambda x: x.sum(), argnums=given)(X).tolist() == [1.0, 1.0, 1.0]
    assert nc.jacrev(lambda x: x.sum(), argnums=given)(X).tolist() == [1.0, 1.0, 1.0]
    assert nc.hessian(lambda x: x.sum(), argnums=given)(X).shape == (3, 3)
    (found,) = nc.grad(lambda x: x.sum(), argnums=(given,))(X)
    assert found.shape == (3,)
    assert nc.vmap(lambda x: x.sum(), in_axes=given)(ROWS).tolist() == [3.0, 3.0]
    assert nc.vmap(lambda x: x, in_axes=(given,), out_axes=given)(ROWS).shape == (2, 3)


@pytest.mark.parametrize("given", ["0", 0.0, True, None, {0: 0}, (0, 0), 2**70, [[0]], object()])
def test_other_argnums(given: Any) -> None:
    with pytest.raises(nc.ArgumentError, match="argnums"):
        nc.grad(lambda x: x.sum(), argnums=given)(X)


@pytest.mark.parametrize("given", [
    {0: 0}, {"a": 0}, "0", 0.5, True, [0, 0], (), ((0,),), object(), {1}, np.array([0]), np.array([0.0]), nc.ones(2),
])  # fmt: skip
def test_implausible_axes_are_refused(given: Any) -> None:
    with pytest.raises(nc.ArgumentError, match=r"vmap: in_axes: the value must be an axis.*; got .*; write 0"):
        nc.vmap(lambda x: x.sum(), in_axes=given)(ROWS)
    with pytest.raises(nc.ArgumentError, match=r"vmap: out_axes: the value must be an axis or None; got .*; write 0"):
        nc.vmap(lambda x: x, out_axes=given)(ROWS)


@pytest.mark.parametrize("given", [({"b": 0},), ({},), ({"a": 0, "b": 0},), ({0: 0},), ((0, 0),)])
def test_axes_of_a_dict(given: Any) -> None:
    assert nc.vmap(lambda d: d["a"].sum(), in_axes=({"a": 1},))({"a": ROWS}).shape == (3,)
    with pytest.raises(nc.ArgumentError, match=r"keys \['a'\]; got .*; write 0 for the first axis of all, or {'a': 0}"):
        nc.vmap(lambda d: d["a"].sum(), in_axes=given)({"a": ROWS})


IMAGE = nc.ones((1, 4, 8, 8))
WHOLE: list[Callable[[Any], Any]] = [
    lambda n: nc.sum(IMAGE, axis=n), lambda n: F.softmax(IMAGE, n), lambda n: nc.topk(X, n)[0],
    lambda n: nc.tensordot(X, X, axes=n // 2), lambda n: F.adaptive_avg_pool2d(IMAGE, n),
    lambda n: nc.scan(lambda c, _: (c + 1, c), nc.tensor(0.0), length=n)[1], lambda n: nc.split(X, sections=n // n)[0],
    lambda n: nc.random.split(nc.random.key(n), n)[1], lambda n: nc.random.normal(n, key=nc.random.key(0)),
    lambda n: nc.reshape(IMAGE, n ** (n * n * n)), lambda n: nc.reshape(IMAGE, (n, -1)),
    lambda n: nc.dynamic_slice(X, (n // n,), (n,)), lambda n: F.pixel_shuffle(IMAGE, n),
    lambda n: F.group_norm(IMAGE, n), lambda n: nc.zeros((n, n)), lambda n: F.one_hot(nc.tensor([1]), n),
    lambda n: F.pad(X, (n, n)), lambda n: nc.tile(X, (n,)), lambda n: nc.repeat(X, n), lambda n: X[:n],
    lambda n: nc.grad(lambda x: nc.fori_loop(n - n, n, lambda k, c: c * x, x))(nc.tensor(2.0)),
    lambda n: F.max_pool2d(IMAGE, n, stride=n), lambda n: nc.arange(n), lambda n: nc.linspace(0, 1, n),
    lambda n: nc.var(X, correction=n), lambda n: nc.expand_dims(X, n - n), lambda n: nc.permute_dims(ROWS, (n - 1, 0)),
]  # fmt: skip


@pytest.mark.parametrize("call", WHOLE)
def test_whole_numbers_of_numpy_are_whole_numbers(call: Callable[[Any], Any]) -> None:
    expected, found = call(2), call(TWO)
    assert found.tolist() == expected.tolist() and found.shape == expected.shape
    assert all(type(n) is int for n in found.shape)
    traced = str(nc.jit(lambda: call(TWO)).trace())
    assert "np." not in traced and traced == str(nc.jit(lambda: call(2)).trace())
    assert nc.jit(lambda: call(TWO))().tolist() == expected.tolist()


def test_bounds_of_sizes_may_be_whole_numbers_of_numpy() -> None:
    assert nc.Dim("n", min=ONE, max=TWO).bounds() == (1, 2)  # type: ignore[arg-type]
    with pytest.raises(nc.KindError, match="bounds integers"):
        nc.Dim("n", min=True)
    nc.set_memory_limit(np.int64(1 << 33))  # type: ignore[arg-type]
    nc.set_memory_limit(2**70)
    nc.set_memory_limit(None)
