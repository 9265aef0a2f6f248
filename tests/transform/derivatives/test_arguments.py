"""Which arguments are differentiated, by position and by name, and results beside the differentiated one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nacre as nc
from nacre import nn

X, Y = nc.tensor([1.0, 2.0]), nc.tensor([3.0, -1.0])


def f(x: Any, y: Any, scale: Any = 2.0) -> Any:
    return (x * x * y).sum() * scale


OF_SCALARS: dict[str, Callable[..., Any]] = {
    "grad": nc.grad,
    "value_and_grad": lambda f, **k: lambda *a, **named: nc.value_and_grad(f, **k)(*a, **named)[1],
    "jacfwd": nc.jacfwd,
    "jacrev": nc.jacrev,
}


@pytest.mark.parametrize("name", OF_SCALARS)
def test_arguments_are_chosen_by_name(name: str) -> None:
    transform = OF_SCALARS[name]
    wanted = 2 * (X * X).numpy()
    for call in (
        lambda t: t(f, argnums="y")(X, Y),
        lambda t: t(f, argnums="y")(X, y=Y),
        lambda t: t(f, argnums=("y",))(y=Y, x=X)[0],
        lambda t: nc.jit(t(f, argnums="y"))(X, y=Y),
    ):
        np.testing.assert_allclose(call(transform).numpy(), wanted)
    of_y, of_x, of_scale = transform(f, argnums=("y", 0, "scale"))(X, y=Y, scale=nc.tensor(2.0))
    np.testing.assert_allclose(of_y.numpy(), wanted)
    np.testing.assert_allclose(of_x.numpy(), 4 * (X * Y).numpy())
    np.testing.assert_allclose(of_scale.numpy(), (X * X * Y).sum().numpy())


def test_second_derivatives_by_name() -> None:
    found = nc.hessian(f, argnums="x")(X, y=Y)
    assert found.tolist() == nc.hessian(f)(X, Y).tolist() == [[12.0, 0.0], [0.0, -4.0]]


def test_trees_and_modules_by_name() -> None:
    model = nn.Linear(2, 1)
    g = nc.grad(lambda x, model, p: (model(x) * p["w"]).sum(), argnums=("model", "p"))(X, model=model, p={"w": Y[:1]})
    np.testing.assert_allclose(g[0].bias.numpy(), Y[:1].numpy())
    np.testing.assert_allclose(g[1]["w"].numpy(), model(X).numpy())


def test_wrong_names_and_positions_are_refused() -> None:
    for argnums, message in (
        ("z", r"grad: argnums must name an argument of the call; got 'z'; the call has \['x', 'y'\]"),
        ("scale", r"got 'scale'"),
        (1, r"argnums must be less than 1, .*; got 1; write a name for one of \['y'\]"),
        (("x", 0), "argnums must be distinct"),
        (1.5, "argnums must be integers"),
    ):
        with pytest.raises(nc.ArgumentError, match=message):
            nc.grad(f, argnums=argnums)(X, y=Y)  # type: ignore[arg-type]
    for transform in (nc.grad, nc.jacfwd, nc.jacrev, nc.hessian):
        with pytest.raises(nc.DTypeError, match="inputs must be floating-point; got i64"):
            transform(f, argnums="y")(X, y=nc.tensor([1, 2]))


def with_aux(x: Any, y: Any) -> Any:
    return x * y, {"sum": (x * y).sum(), "name": "product"}


@pytest.mark.parametrize("transform", [nc.jacfwd, nc.jacrev])
def test_jacobians_with_aux(transform: Callable[..., Any]) -> None:
    for t in (transform(with_aux, has_aux=True), nc.jit(transform(with_aux, has_aux=True))):
        jacobian, aux = t(X, Y)
        assert jacobian.tolist() == [[3.0, 0.0], [0.0, -1.0]]
        assert (float(aux["sum"]), aux["name"]) == (1.0, "product")
    batched, aux = nc.vmap(lambda x: transform(lambda x: (x * x, x[0]), has_aux=True)(x))(nc.stack([X, Y]))
    assert batched[1].tolist() == [[6.0, 0.0], [0.0, -2.0]]
    assert aux.tolist() == [1.0, 3.0]
    with pytest.raises(nc.ArgumentError, match=r"must return \(result, aux\)"):
        transform(lambda x: x, has_aux=True)(X)


def test_a_hessian_with_aux() -> None:
    found, aux = nc.hessian(lambda x: ((x**3).sum(), x + 1), has_aux=True)(X)
    assert found.tolist() == [[6.0, 0.0], [0.0, 12.0]]
    assert aux.tolist() == [2.0, 3.0]


def test_named_axes_are_reserved() -> None:
    with pytest.raises(nc.ArgumentError, match="axis_name"):
        nc.vmap(f, axis_name="batch")  # type: ignore[call-arg]
    with pytest.raises(AttributeError, match=r"(?s)psum.*vmap"):
        _ = nc.psum  # type: ignore[attr-defined]
