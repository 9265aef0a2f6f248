"""map and associative_scan: values, order of operations, derivatives, batches, sizes, faults."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nacre as nc
from nacre.base.errors import ArgumentError, AxisError, DTypeError, KindError, ShapeError, StateError
from nacre.trace.variable import Variable
from tensor_bits import bits

XS = nc.tensor(np.linspace(-1, 2, 21).reshape(7, 3))
W = nc.tensor([[0.5, 0.1, 0.2], [0.3, 0.2, 0.1], [0.1, 0.4, 0.3]], dtype=nc.float64)
SIZES = (0, 1, 2, 3, 4, 5, 8, 13)


# ---- map


def row(x: Any) -> Any:
    return {"a": nc.tanh(x @ W) * x, "b": (x.sum(), nc.cond(x[0] > 0, nc.sin, nc.exp, x))}


def one_by_one(f: Callable[..., Any], xs: Any) -> Any:
    return nc.tree.map(lambda *ys: nc.stack(ys), *[f(x) for x in xs])


@pytest.mark.parametrize("batch_size", [None, 1, 2, 3, 7, 9])
def test_map_stacks_the_results_of_rows(batch_size: int | None) -> None:
    def mapped(xs: Any) -> Any:
        return nc.map(row, xs, batch_size)

    wanted = bits(one_by_one(nc.jit(row), XS))
    assert bits(mapped(XS)) == bits(nc.jit(mapped)(XS)) == wanted

    def loss(f: Callable[..., Any]) -> Callable[..., Any]:
        return lambda xs: sum((nc.sin(y) * y).sum() for y in nc.tree.leaves(f(xs)))

    slope = nc.grad(loss(lambda xs: one_by_one(row, xs)))(XS)
    for found in (nc.grad(loss(mapped)), nc.jit(nc.grad(loss(mapped))), nc.grad(nc.checkpoint(loss(mapped)))):
        np.testing.assert_allclose(found(XS).numpy(), slope.numpy(), rtol=1e-13, atol=1e-15)
    _, tangent = nc.jvp(loss(mapped), (XS,), (XS,))
    np.testing.assert_allclose(float(tangent), float((slope * XS).sum()), rtol=1e-13)
    batch = nc.stack([XS, XS * 2.0])
    assert bits(nc.vmap(mapped)(batch)) == bits(one_by_one(mapped, batch))


def test_map_to_second_order() -> None:
    def loss(xs: Any) -> Any:
        return nc.map(lambda x: nc.sin(x).sum() * x[0], xs, 2).sum()

    wanted = nc.hessian(lambda xs: sum(nc.sin(x).sum() * x[0] for x in xs))(XS[:3])
    np.testing.assert_allclose(nc.hessian(loss)(XS[:3]).numpy(), wanted.numpy(), rtol=1e-13, atol=1e-15)


def test_map_of_trees_and_of_no_rows() -> None:
    found = nc.map(lambda t: t["x"] * t["y"] * t["factor"], {"x": XS, "y": XS[:, 0], "factor": 2.0})
    assert bits(found) == bits(XS * XS[:, :1] * 2.0)
    for batch_size in (None, 2):
        empty = nc.map(row, XS[:0], batch_size)
        assert [y.shape for y in nc.tree.leaves(empty)] == [(0, 3), (0,), (0, 3)]
        assert nc.map(lambda x: x[:0], XS, batch_size).shape == (7, 0)


def test_map_of_a_symbolic_number_of_rows() -> None:
    f = nc.jit(lambda xs: nc.map(row, xs, 3), dynamic_shapes={"xs": {0: nc.Dim("n", max=20)}})
    for n in (0, 1, 2, 3, 6, 7):
        assert bits(f(XS[:n])) == bits(nc.map(row, XS[:n]))
    assert len(f.concrete_functions) == 1


def test_map_runs_in_order_and_may_assign_variables() -> None:
    total = Variable(nc.tensor(0.0, dtype=nc.float64))

    def running(x: Any) -> Any:
        total.assign(total.value + x.sum())
        return total.value * 1.0

    found = nc.map(running, XS)
    np.testing.assert_allclose(found.numpy(), np.cumsum(XS.numpy().sum(1)), atol=1e-14)
    np.testing.assert_allclose(float(total.value), float(XS.sum()), atol=1e-14)
    with pytest.raises(StateError, match="vmap"):
        nc.map(lambda x: x + nc.random.normal((3,), dtype=nc.float64), XS, 2)
    keys = nc.stack([nc.random.key(k) for k in range(7)])
    drawn = [nc.map(lambda k: nc.random.normal((3,), key=k), keys, size) for size in (None, 2)]
    assert bits(drawn[0]) == bits(drawn[1])


def test_map_faults() -> None:
    with pytest.raises(ArgumentError, match="at least one tensor"):
        nc.map(row, ())
    with pytest.raises(ShapeError, match="map: xs must have one leading size; got 7, 2"):
        nc.map(lambda x: x[0], (XS, XS[:2]))
    with pytest.raises(ShapeError, match="leading axis"):
        nc.map(row, nc.tensor(1.0))
    for wrong in (0, -1):
        with pytest.raises(ArgumentError, match=f"batch_size must be at least 1; got {wrong}"):
            nc.map(row, XS, wrong)
    with pytest.raises(KindError, match="batch_size"):
        nc.map(row, XS, 2.5)
    with pytest.raises(KindError, match="f must be a function"):
        nc.map(3, XS)


# ---- associative_scan


def in_rounds(f: Callable[..., Any], xs: list[Any]) -> list[Any]:
    """The documented order of operations, on a list."""
    if len(xs) < 2:
        return xs
    odd = in_rounds(f, [f(xs[k], xs[k + 1]) for k in range(0, len(xs) - 1, 2)])
    return [xs[0]] + [odd[k // 2] if k % 2 else f(odd[k // 2 - 1], xs[k]) for k in range(1, len(xs))]


def affine(a: Any, b: Any) -> Any:
    """The composition of x → m·x + c, first a, then b."""
    return {"m": b["m"] @ a["m"], "c": (b["m"] @ a["c"][..., None])[..., 0] + b["c"]}


def maps(n: int) -> Any:
    rng = np.random.default_rng(n)
    return {"m": nc.tensor(rng.normal(size=(n, 3, 3)) / 2), "c": nc.tensor(rng.normal(size=(n, 3)))}


@pytest.mark.parametrize("n", SIZES)
def test_the_order_is_the_documented_one(n: int) -> None:
    xs = maps(n)
    rows = [nc.tree.map(lambda x, k=k: x[k : k + 1], xs) for k in range(n)]

    def scanned(xs: Any) -> Any:
        return nc.associative_scan(affine, xs)

    def backwards(xs: Any) -> Any:
        return nc.associative_scan(affine, xs, reverse=True)

    for f, given in ((scanned, rows), (backwards, rows[::-1])):
        listed = in_rounds(affine, given)
        listed = listed[::-1] if f is backwards else listed
        wanted = bits(nc.tree.map(lambda *ys: nc.concat(ys), *listed)) if n else bits(xs)
        assert bits(f(xs)) == bits(nc.jit(f)(xs)) == wanted
    two = nc.tree.map(lambda x: nc.stack([x, x * 2.0]), xs)
    assert bits(nc.vmap(scanned)(two)) == bits(
        nc.tree.map(lambda *ys: nc.stack(ys), *[scanned(nc.tree.map(lambda x, k=k: x[k], two)) for k in range(2)])
    )


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("reverse", [False, True])
def test_sums_along_any_axis(axis: int, reverse: bool) -> None:
    x = np.random.default_rng(0).integers(0, 100, (5, 6, 7))
    found = nc.associative_scan(nc.add, nc.tensor(x), reverse, axis)
    wanted = np.flip(np.cumsum(np.flip(x, axis), axis), axis) if reverse else np.cumsum(x, axis)
    np.testing.assert_array_equal(found.numpy(), wanted)


@pytest.mark.parametrize("n", SIZES)
def test_derivatives_are_those_of_the_scan(n: int) -> None:
    xs = XS.flatten()[:n]

    def rounds(v: Any) -> Any:
        return (nc.associative_scan(nc.multiply, nc.cos(v)) * nc.arange(n, dtype=nc.float64)).sum()

    def steps(v: Any) -> Any:
        one = nc.tensor(1.0, dtype=nc.float64)
        return (nc.scan(lambda c, x: (c * x, c * x), one, nc.cos(v))[1] * nc.arange(n, dtype=nc.float64)).sum()

    wanted = nc.grad(steps)(xs)
    for found in (nc.grad(rounds), nc.jit(nc.grad(rounds)), nc.jacfwd(rounds), nc.grad(nc.checkpoint(rounds))):
        np.testing.assert_allclose(found(xs).numpy(), wanted.numpy(), rtol=1e-12, atol=1e-14)
    second = nc.hessian(steps)(xs).numpy()
    np.testing.assert_allclose(nc.hessian(rounds)(xs).numpy(), second, rtol=1e-11, atol=1e-13)


def test_a_linear_recurrence_in_logarithmic_depth() -> None:
    a, b = nc.cos(XS), nc.sin(XS)
    _, wanted = nc.scan(lambda h, ab: (ab[0] * h + ab[1],) * 2, nc.zeros(3, dtype=nc.float64), (a, b))
    found = nc.associative_scan(lambda p, q: (q[0] * p[0], q[0] * p[1] + q[1]), (a, b))[1]
    np.testing.assert_allclose(found.numpy(), wanted.numpy(), rtol=1e-13)


def test_results_are_new_tensors() -> None:
    x = XS[:1] * 1.0
    y = nc.associative_scan(nc.add, x)
    y[0, 0] = 9.0
    assert float(x[0, 0]) == -1.0


def test_a_size_that_changes_gets_programs_of_its_own() -> None:
    f = nc.jit(lambda x: nc.associative_scan(nc.add, x))
    for n in (3, 5, 7):
        assert bits(f(XS[:n])) == bits(nc.associative_scan(nc.add, XS[:n]))
    with pytest.raises(ShapeError, match=r"associative_scan: the size along the axis must be a number.*got n"):
        nc.jit(lambda x: nc.associative_scan(nc.add, x), dynamic_shapes={"x": {0: nc.Dim("n", max=9)}})(XS)


def test_associative_scan_faults() -> None:
    def wrong(match: str, error: type[Exception], f: Any, xs: Any, **rest: Any) -> None:
        with pytest.raises(error, match=f"^associative_scan: {match}"):
            nc.associative_scan(f, xs, **rest)

    wrong("the result of f at leaf 0 must have type", ShapeError, lambda a, b: a.sum(), XS)
    wrong("the result of f at leaf 0 must have type", DTypeError, lambda a, b: a.astype(nc.float32), XS)
    wrong("the result of f must have structure", ArgumentError, lambda a, b: (a, b), XS)
    wrong("axis must be in", AxisError, nc.add, XS, axis=2)
    wrong("axis must be an integer", KindError, nc.add, XS, axis=0.5)
    wrong("xs must have one size along the axis; got 7, 3", ShapeError, nc.add, (XS, XS[:3]))
    wrong("xs must have at least one axis", ShapeError, nc.add, 3.0)
    wrong("xs must have at least one tensor", ArgumentError, nc.add, ())
