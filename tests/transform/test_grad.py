"""The public derivatives, over trees, variables and each other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

import nacre as nc
from nacre import nn
from nacre.base import tree
from nacre.base.errors import ArgumentError, DTypeError, GradientError, ShapeError
from nacre.trace.variable import Variable
from ops.samples import Array

X = nc.tensor([0.5, -1.0, 2.0], dtype=nc.float64)


def cube(x: Any) -> Any:
    return (x * x * x).sum()


def test_gradients_of_trees_keep_their_structure() -> None:
    def loss(params: Any, y: Any) -> Any:
        return (params["w"] * y).sum() + (params["b"][0] * params["b"][1]).sum()

    params = {"w": X, "b": [X * 2, X * 3]}
    found = nc.grad(loss)(params, X)
    np.testing.assert_array_equal(found["w"].numpy(), X.numpy())
    np.testing.assert_array_equal(found["b"][0].numpy(), X.numpy() * 3)
    both = nc.grad(loss, argnums=(0, -1))(params, X)
    assert tree.flatten(both)[1] == tree.flatten((params, X))[1]


def test_values_and_aux_are_returned() -> None:
    def f(x: Any) -> Any:
        return cube(x), {"square": x * x, "note": "kept", "count": 3}

    (value, aux), found = nc.value_and_grad(f, has_aux=True)(X)
    np.testing.assert_allclose(found.numpy(), 3 * X.numpy() ** 2)
    assert aux["note"] == "kept" and aux["count"] == 3
    assert aux["square"].node is None and value.node is None and not aux["square"].requires_grad
    found, aux = nc.grad(f, has_aux=True)(X)
    np.testing.assert_allclose(aux["square"].numpy(), X.numpy() ** 2)


def test_numbers_and_arrays_are_tensors() -> None:
    assert float(nc.grad(lambda x: x * x)(3.0)) == 6.0
    np.testing.assert_array_equal(nc.grad(cube)(np.array([1.0, 2.0])).numpy(), [3.0, 12.0])


def test_unused_arguments_have_zero_gradient() -> None:
    found = nc.grad(lambda x, y: x.sum(), argnums=1)(X, X)
    np.testing.assert_array_equal(found.numpy(), np.zeros(3))


@pytest.mark.parametrize(
    "f, x, error",
    [
        (lambda x: x * x, X, GradientError),
        (lambda x: (x * x).sum(), nc.tensor([1, 2]), DTypeError),
        (lambda x: (x > 0).sum(), X, DTypeError),
        (lambda x: {"loss": x.sum()}, X, GradientError),
        (lambda x: "text", X, GradientError),
    ],
)
def test_faults(f: Any, x: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match=r"grad: .* must be"):
        nc.grad(f)(x)


def test_argnums_must_exist() -> None:
    with pytest.raises(ArgumentError, match="argnums"):
        nc.grad(cube, argnums=1)(X)
    with pytest.raises(ArgumentError, match="has_aux"):
        nc.grad(cube, has_aux=True)(X)


def test_vjp_and_jvp() -> None:
    y, pullback = nc.vjp(lambda a, b: {"product": a * b, "sum": (a + b).sum()}, X, X * 2)
    one = nc.ones(3, dtype=nc.float64)
    da, db = pullback({"product": one, "sum": nc.tensor(1.0, dtype=nc.float64)})
    np.testing.assert_allclose(da.numpy(), X.numpy() * 2 + 1)
    np.testing.assert_allclose(db.numpy(), X.numpy() + 1)
    assert y["sum"].shape == ()
    with pytest.raises(ArgumentError, match="structure"):
        pullback(one)
    with pytest.raises(ShapeError, match="cotangent"):
        pullback({"product": one, "sum": one})
    out, t = nc.jvp(lambda a, b: (a * b, a), (X, X), (one, one))
    np.testing.assert_allclose(t[0].numpy(), 2 * X.numpy())
    np.testing.assert_array_equal(t[1].numpy(), one.numpy())
    assert len(out) == 2
    with pytest.raises(DTypeError):
        nc.jvp(cube, (X,), (nc.ones(3, dtype=nc.float32),))
    with pytest.raises(ArgumentError):
        nc.jvp(cube, X, X)
    value, pull, aux = nc.vjp(lambda a: (cube(a), a * 2), X, has_aux=True)
    assert aux.node is None and pull(nc.ones_like(value))[0].shape == (3,)


def test_jacobians_in_both_modes() -> None:
    def f(x: Any, y: Any) -> Any:
        return {"outer": x[:, None] * y[None, :], "total": (x * x).sum()}

    a, b = X, nc.tensor([1.0, 4.0], dtype=nc.float64)
    forward, backward = nc.jacfwd(f, (0, 1))(a, b), nc.jacrev(f, (0, 1))(a, b)
    for key in ("outer", "total"):
        for k in (0, 1):
            np.testing.assert_allclose(forward[key][k].numpy(), backward[key][k].numpy())
    assert forward["outer"][0].shape == (3, 2, 3) and forward["total"][1].shape == (2,)
    wanted = np.einsum("ik,j->ijk", np.eye(3), b.numpy())
    np.testing.assert_allclose(forward["outer"][0].numpy(), wanted)


def test_hessians() -> None:
    np.testing.assert_allclose(nc.hessian(cube)(X).numpy(), np.diag(6 * X.numpy()))
    mixed = nc.hessian(lambda x, y: (x * y * y).sum(), (0, 1))(X, X)
    np.testing.assert_allclose(mixed[0][1].numpy(), np.diag(2 * X.numpy()))
    np.testing.assert_allclose(mixed[1][0].numpy(), mixed[0][1].numpy())


def test_every_nesting_agrees() -> None:
    def f(x: Any) -> Any:
        return (nc.sin(x) * nc.exp(x * x)).sum()

    hessian = nc.hessian(f)(X).numpy()
    for g in (
        nc.jacrev(nc.jacrev(f)),
        nc.jacrev(nc.jacfwd(f)),
        nc.jacfwd(nc.jacfwd(f)),
        nc.jacfwd(nc.grad(f)),
        nc.jit(nc.hessian(f)),
        nc.hessian(nc.jit(f)),
        nc.jacrev(nc.grad(nc.jit(f))),
    ):
        np.testing.assert_allclose(g(X).numpy(), hessian, rtol=1e-12)
    third = nc.grad(lambda x: nc.hessian(cube)(x).sum())(X)
    np.testing.assert_allclose(third.numpy(), np.full(3, 6.0))


def model() -> nn.Module:
    nc.random.seed(3)
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))


def gradients(module: Any) -> list[Any]:
    """The tensors in place of a module's parameters, in order."""
    held = [x for x in vars(module).values() if isinstance(x, nn.Module | nc.Tensor)]
    return [g for x in held for g in (gradients(x) if isinstance(x, nn.Module) else [x])]


def test_modules_are_trees_of_variables() -> None:
    net, x = model(), nc.tensor([[0.1, 0.2, 0.3], [1.0, -1.0, 0.5]])

    def loss(net: Any, x: Any) -> Any:
        y = net(x)
        return (y * y).sum()

    value, found = nc.value_and_grad(loss)(net, x)
    assert value.requires_grad and all(p.gradient is None for p in net.parameters())
    loss(net, x).backward()
    for p, g in zip(net.parameters(), gradients(found), strict=True):
        assert p.gradient.numpy().tobytes() == g.numpy().tobytes()
        assert p.value.node is p.leaf and p.leaf.level == 0
    compiled = nc.jit(lambda x: gradients(nc.grad(loss)(net, x)))(x)
    for a, b in zip(gradients(found), compiled, strict=True):
        assert a.numpy().tobytes() == b.numpy().tobytes()


def test_variables_without_gradients_are_omitted_and_writes_stay() -> None:
    w = Variable(X, requires_grad=True)
    steps = Variable(nc.tensor(0))

    def loss(state: Any) -> Any:
        state["steps"].assign(state["steps"].value + 1)
        return (state["w"].value * state["w"].value).sum()

    found = nc.grad(loss)({"w": w, "steps": steps})
    assert found["steps"] is None and int(steps.value) == 1
    np.testing.assert_array_equal(found["w"].numpy(), 2 * X.numpy())
    _, t = nc.jvp(loss, ({"w": w, "steps": steps},), ({"w": X, "steps": 0.0},))
    np.testing.assert_allclose(float(t), 2 * (X.numpy() ** 2).sum())
    np.testing.assert_array_equal(w.value.numpy(), X.numpy())


def test_second_order_over_variables() -> None:
    w = Variable(X, requires_grad=True)

    def curvature(box: Any) -> Any:
        return nc.grad(lambda inner: cube(inner[0].value))(box)[0].sum()

    np.testing.assert_allclose(nc.grad(curvature)([w])[0].numpy(), 6 * X.numpy())


def test_an_error_inside_does_not_change_variables() -> None:
    w = Variable(X, requires_grad=True)
    before = w.value

    def fails(box: Any) -> Any:
        raise KeyError("inside")

    with pytest.raises(KeyError):
        nc.grad(fails)([w])
    assert w.value is before


def test_derivatives_nested_too_deep_are_refused() -> None:
    f: Any = lambda x: nc.sum(x * x)  # noqa: E731
    for _ in range(200):
        f = nc.grad(f)
    with pytest.raises(nc.GradientError, match="deeper than Python's recursion limit") as raised:
        f(nc.tensor(1.0))
    assert isinstance(raised.value, RecursionError)


@pytest.mark.parametrize("transform", [nc.grad, nc.value_and_grad, nc.vmap, nc.checkpoint, nc.jacrev])
def test_mocks_are_transformed(transform: Any) -> None:
    mock = Mock(side_effect=nc.sum)
    mock.__name__ = Mock()
    assert transform(mock)(nc.ones((3, 3)) if transform is nc.vmap else nc.ones(3)) is not None


def penalty(f: Any, x: Any) -> tuple[Array, Array]:
    """The gradient on the tape, and the gradient of the sum of its squares."""
    f(x).backward(create_graph=True)
    first, x.grad = x.grad, None
    nc.sum(first * first).backward()
    return first.numpy(), x.grad.numpy()


SECOND: dict[str, Callable[[Any], Any]] = {
    "pointwise": lambda x: nc.sum(nc.exp(x) * x * x),
    "residuals alone": lambda x: nc.sum(nc.tanh(x) ** 3),
    "product": lambda x: nc.sum(nc.exp(x) @ nc.reshape(x, (-1, 1))),
    "call in a call": lambda x: nc.sum(nc.jit(lambda y: nc.sin(y) * y)(nc.exp(x))),
    "loop": lambda x: nc.sum(nc.jit(lambda y: nc.fori_loop(0, 3, lambda k, z: nc.tanh(z) * z, y))(x)),
    "loop of eager code": lambda x: nc.sum(nc.fori_loop(0, 3, lambda k, y: nc.tanh(y) * y, x)),
    "branch of eager code": lambda x: nc.sum(nc.cond(nc.sum(x) > 0, lambda y: nc.tanh(y) * y, nc.exp, x)),
    "several results": lambda x: nc.sum(nc.jit(lambda y: (nc.exp(y), y * nc.tanh(y)))(x)[1] * nc.jit(nc.exp)(x)),
}


@pytest.mark.parametrize("name", SECOND)
def test_recorded_gradients_of_compiled_functions(name: str) -> None:
    f = SECOND[name]
    jitted = nc.jit(f)
    for n in (3, 3, 4, 5):
        x = np.linspace(0.1, 0.9, n, dtype=np.float64)
        wanted = penalty(f, nc.tensor(x).requires_grad_())
        found = penalty(jitted, nc.tensor(x).requires_grad_())
        again = nc.grad(lambda y: nc.sum(nc.grad(f)(y) ** 2))(nc.tensor(x))
        np.testing.assert_array_equal(found[0], wanted[0])
        np.testing.assert_allclose(found[1], wanted[1], rtol=1e-12)
        np.testing.assert_allclose(found[1], again.numpy(), rtol=1e-12)
