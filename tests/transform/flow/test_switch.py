"""switch: values, derivatives, batches with one index or many, indices out of range, variables, executables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nacre as nc
from deploy.calls import Library, can_link, same
from nacre import deploy
from nacre.base.errors import ArgumentError, AxisError, DTypeError, KindError, ShapeError
from nacre.trace.variable import Variable
from tensor_bits import bits

X = nc.tensor([0.5, -1.0, 2.0], dtype=nc.float64)
BRANCHES: Sequence[Callable[..., Any]] = (
    lambda x: nc.sin(x) * x,
    lambda x: x * x,
    lambda x: X - x,
    nc.exp,
    lambda x: nc.cond(x.sum() > 0, lambda a: a * a * a, lambda a: -a, x),
    lambda x: nc.scan(lambda c, v: (c + v, c * v), nc.tensor(0.0, dtype=nc.float64), x)[1],
)
COUNTS = (1, 2, 3, 5, 6)


def chosen(count: int) -> Callable[..., Any]:
    return lambda k, x: nc.switch(k, BRANCHES[:count], x)


@pytest.mark.parametrize("count", COUNTS)
def test_the_branch_of_each_index_runs(count: int) -> None:
    f = chosen(count)
    compiled = nc.jit(f)
    for k in range(count):
        wanted = bits(nc.jit(BRANCHES[k])(X))
        assert bits(f(k, X)) == bits(f(nc.tensor(k), X)) == bits(f(nc.tensor(k, dtype=nc.uint8), X)) == wanted
        assert bits(compiled(nc.tensor(k), X)) == wanted
    assert len(compiled.concrete_functions) == 1


@pytest.mark.parametrize("count", COUNTS)
def test_derivatives_are_those_of_the_branch(count: int) -> None:
    def loss(k: Any, x: Any) -> Any:
        return (chosen(count)(k, x) * X).sum()

    for k in range(count):

        def alone(x: Any, k: int = k) -> Any:
            return (BRANCHES[k](x) * X).sum()

        index = nc.tensor(k)
        wanted = bits(nc.grad(alone)(X))
        for found in (nc.grad(loss, argnums=1), nc.jit(nc.grad(loss, argnums=1)), nc.grad(nc.jit(loss), argnums=1)):
            assert bits(found(index, X)) == wanted
        again = nc.grad(lambda x, k=index: nc.checkpoint(lambda v: loss(k, v))(x))
        assert bits(again(X)) == wanted
        x = nc.tensor(X.numpy()).requires_grad_()
        loss(index, x).backward()
        assert bits(x.grad) == wanted
        _, tangent = nc.jvp(lambda x, k=index: loss(k, x), (X,), (X,))
        np.testing.assert_allclose(float(tangent), float(nc.jvp(alone, (X,), (X,))[1]), rtol=1e-13)
        second = nc.hessian(lambda x, k=index: loss(k, x))(X)
        np.testing.assert_allclose(second.numpy(), nc.hessian(alone)(X).numpy(), rtol=1e-12, atol=1e-14)


def test_a_batch_has_one_index_or_one_for_each_example() -> None:
    f, xs = chosen(6), nc.stack([X * (k + 1) for k in range(6)])
    indices = nc.tensor([5, 0, 3, 3, 1, 4])
    for apply in (nc.vmap(f), nc.jit(nc.vmap(f)), nc.vmap(nc.jit(f))):
        assert bits(apply(indices, xs)) == bits(nc.stack([f(k, x) for k, x in zip(indices, xs, strict=True)]))
    for apply in (nc.vmap(f, (None, 0)), nc.jit(nc.vmap(f, (None, 0)))):
        assert bits(apply(nc.tensor(3), xs)) == bits(nc.stack([f(3, x) for x in xs]))
    assert bits(nc.vmap(f, (0, None))(indices, X)) == bits(nc.stack([f(k, X) for k in indices]))

    def slope(k: Any, x: Any) -> Any:
        return nc.grad(lambda v: f(k, v).sum())(x)

    assert bits(nc.vmap(slope)(indices, xs)) == bits(nc.stack([slope(k, x) for k, x in zip(indices, xs, strict=True)]))
    total = nc.grad(lambda v: nc.vmap(f)(indices, v).sum())(xs)
    assert bits(total) == bits(nc.vmap(slope)(indices, xs))


@pytest.mark.parametrize("count", (1, 2, 5))
@pytest.mark.parametrize("index", (-1, 7, 2**40))
def test_an_index_out_of_range_raises(count: int, index: int) -> None:
    f = chosen(count)
    ways: list[Callable[..., Any]] = [f, nc.jit(f), nc.jit(nc.grad(lambda k, x: f(k, x).sum(), argnums=1))]
    for way in ways:
        with pytest.raises(AxisError, match=rf"^switch: the index must be in \[0, {count}\); got {index}$"):
            way(nc.tensor(index), X)
    with pytest.raises(AxisError, match=f"got {index}"):
        nc.vmap(f, (0, None))(nc.tensor([0, index, 0]), X)
    with pytest.raises(AxisError, match="got 18446744073709551615"):
        f(nc.tensor(2**64 - 1, dtype=nc.uint64), X)


def test_an_index_counts_only_where_the_switch_runs() -> None:
    def guarded(k: Any, x: Any) -> Any:
        return nc.cond(k >= 0, lambda x: nc.switch(k, [nc.sin, nc.cos], x), lambda x: x, x)

    assert bits(guarded(nc.tensor(-4), X)) == bits(X)
    found = nc.vmap(guarded, (0, None))(nc.tensor([-4, 1]), X)
    assert bits(found) == bits(nc.stack([X, nc.cos(X)]))
    with pytest.raises(AxisError, match="got 2"):
        nc.vmap(guarded, (0, None))(nc.tensor([-4, 2]), X)


def test_variables_and_operands_that_a_branch_changes() -> None:
    count = Variable(nc.tensor(0))
    w = Variable(X, requires_grad=True)

    def adding(n: int) -> Callable[..., Any]:
        def branch(x: Any) -> Any:
            if n:
                count.assign(count.value + n)
            else:
                x[0] = 9.0
            return (w.value * x).sum() * n

        return branch

    def step(k: Any, x: Any) -> Any:
        y = x * 1.0
        return nc.switch(k, [adding(0), adding(1), adding(10)], y), y

    for way in (step, nc.jit(step)):
        count.assign(nc.tensor(0))
        for k, after in ((1, 1), (2, 11), (0, 11)):
            _, y = way(nc.tensor(k), X)
            assert int(count.value) == after
            assert y.tolist() == ([9.0, -1.0, 2.0] if k == 0 else X.tolist())
    w.gradient = None
    nc.switch(nc.tensor(2), [adding(0), adding(1), adding(10)], X).backward()
    assert w.gradient.tolist() == (X * 10).tolist()


def test_trees_and_no_operands() -> None:
    found = nc.switch(1, [lambda: {"a": X, "b": (X, 1.0)}, lambda: {"a": X * 2, "b": (X, 2.0)}])
    assert bits(found) == bits({"a": X * 2, "b": (X, nc.tensor(2.0))})
    assert nc.switch(nc.tensor(0), [lambda x: x.sum(), lambda x: x.sum() + 1.0], nc.ones((0,))).item() == 0.0


def test_a_switch_in_a_loop() -> None:
    def step(x: Any, k: Any) -> Any:
        return nc.switch(k % 3, BRANCHES[:3], x), x.sum()

    def plain(x: Any) -> Any:
        sums: list[Any] = []
        for k in range(5):
            sums.append(x.sum())
            x = BRANCHES[k % 3](x)
        return x, nc.stack(sums)

    def looped(x: Any) -> Any:
        return nc.scan(step, x, nc.arange(5))

    assert bits(looped(X)) == bits(nc.jit(looped)(X)) == bits(nc.jit(plain)(X))
    slopes = [nc.grad(lambda x, f=f: f(x)[0].sum())(X).numpy() for f in (looped, plain)]
    np.testing.assert_allclose(*slopes, rtol=1e-13)


def test_sizes_of_branches_may_be_symbolic() -> None:
    branches = [nc.sin, nc.exp, lambda x: x * x, lambda x: x[::-1]]
    f = nc.jit(lambda k, x: nc.switch(k, branches, x), dynamic_shapes={"x": {0: nc.Dim("n", max=9)}})
    for n in (0, 1, 2, 7):
        x = nc.arange(n, dtype=nc.float64)
        for k in range(4):
            assert bits(f(nc.tensor(k), x)) == bits(branches[k](x))
    assert len(f.concrete_functions) == 1


@pytest.mark.skipif(not can_link(), reason="nothing here links for this machine")
def test_executables_choose_and_refuse(tmp_path: Path) -> None:
    f = chosen(5)
    made = Library(deploy.compile(f, [nc.tensor(0), X], tmp_path / "libswitch.so", "shared"))
    for k in range(5):
        assert same(made(np.asarray(k), X.numpy())[0], f(k, X).numpy())
    code = made.code([np.asarray(6), X.numpy(), np.empty(3)], [])
    assert code != 0 and b"switch: the index must be in [0, 5)" in made.error(code)


def test_faults() -> None:
    with pytest.raises(DTypeError, match=r"switch: the index must be an integer scalar; got f32\[\]; .* write cond"):
        nc.switch(nc.tensor(1.0), [nc.sin], X)
    with pytest.raises(DTypeError, match=r"got bool\[\]"):
        nc.switch(nc.tensor(True), [nc.sin], X)
    with pytest.raises(DTypeError, match=r"got i64\[2\]"):
        nc.switch(nc.tensor([0, 1]), [nc.sin], X)
    with pytest.raises(ArgumentError, match="at least one branch"):
        nc.switch(0, [], X)
    with pytest.raises(KindError, match="branches must be a list of functions; got 3 at 1"):
        nc.switch(0, [nc.sin, 3], X)
    with pytest.raises(KindError, match="branches must be a sequence"):
        nc.switch(0, nc.sin, X)
    with pytest.raises(ArgumentError, match="the result of branch 1 must have structure"):
        nc.switch(0, [lambda x: x, lambda x: (x, x)], X)
    with pytest.raises(ShapeError, match="the result of branch 2"):
        nc.switch(0, [lambda x: x, nc.sin, lambda x: x.sum()], X)
