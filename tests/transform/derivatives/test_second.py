"""hvp and derivative_graph: second derivatives along a direction, and derivatives as graphs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nacre as nc
from nacre import nn
from nacre.ir.parse import parse

X = nc.tensor([0.5, -1.0, 2.0], dtype=nc.float64)
V = nc.tensor([1.0, 0.25, -2.0], dtype=nc.float64)


def f(x: Any) -> Any:
    return (nc.sin(x) * x * x[0]).sum()


def test_hvp_is_the_product_with_the_hessian() -> None:
    wanted = nc.hessian(f)(X).numpy() @ V.numpy()
    np.testing.assert_allclose(nc.hvp(f, (X,), (V,))[0].numpy(), wanted, rtol=1e-13)
    compiled = nc.jit(lambda x, v: nc.hvp(f, (x,), (v,)))(X, V)[0]
    assert compiled.numpy().tobytes() == nc.hvp(f, (X,), (V,))[0].numpy().tobytes()
    each = nc.vmap(lambda v: nc.hvp(f, (X,), (v,))[0])(nc.stack([V, 2 * V]))
    np.testing.assert_allclose(each[1].numpy(), 2 * wanted, rtol=1e-13)


def test_hvp_of_trees_and_modules() -> None:
    p = {"w": X, "b": V}
    found, of_x = nc.hvp(lambda p, x: (p["w"] ** 2 * p["b"] * x).sum(), (p, X), ({"w": V, "b": None}, None))
    np.testing.assert_allclose(found["w"].numpy(), 2 * (V * X * V).numpy())
    np.testing.assert_allclose(found["b"].numpy(), 2 * (X * V * X).numpy())
    np.testing.assert_allclose(of_x.numpy(), 2 * (X * V * V).numpy())
    nc.random.seed(0)
    model = nn.Linear(3, 1)
    direction = nc.grad(lambda m: m(nc.ones((1, 3))).sum())(model)
    (product,) = nc.hvp(lambda m: m(nc.ones((1, 3))).sum() ** 2, (model,), (direction,))
    assert product.weight.shape == (1, 3)
    np.testing.assert_allclose(product.weight.numpy(), np.full((1, 3), 8.0), rtol=1e-6)


def test_hvp_refuses_what_grad_and_jvp_refuse() -> None:
    with pytest.raises(nc.ArgumentError, match="hvp: primals and tangents must be tuples"):
        nc.hvp(f, X, V)  # type: ignore[arg-type]
    with pytest.raises(nc.GradientError, match="must be a scalar"):
        nc.hvp(lambda x: x, (X,), (V,))
    with pytest.raises(nc.ShapeError, match="a tangent must have type"):
        nc.hvp(f, (X,), (V[:2],))


def test_a_derivative_as_a_graph() -> None:
    graph = nc.derivative_graph(lambda x: nc.sin(x) * x, nc.tensor(1.0))
    assert [e.primitive.name for e in graph.equations] == ["sin", "cos", "mul", "add"]
    assert parse(str(graph)) == graph.verify()
    both = nc.derivative_graph(lambda x, y: (x * y).sum(), X, V, argnums=(0, 1))
    assert both.output_types == (X.type, V.type)
    assert str(both).splitlines()[1:] == ["  return b, a"]


def test_the_jacobian_of_other_results() -> None:
    graph = nc.derivative_graph(lambda x: {"y": x * x}, X)
    assert graph.output_types == (nc.jacrev(lambda x: x * x)(X).type,)
    with pytest.raises(nc.DTypeError, match="results must be real"):
        nc.derivative_graph(lambda z: z * z, nc.tensor([1 + 2j]))


SIDES: dict[str, Callable[[Any, Any], Any]] = {
    "cube": lambda a, b: nc.sum(a**3),
    "product with an element": lambda a, b: nc.sum(a * a[0]),
    "power of the other operand": lambda a, b: nc.sum(a ** nc.floor(b)),
    "number": lambda a, b: nc.sum(a * 0.5 + b),
    "root at 0": lambda a, b: nc.sum(nc.where(a > 0, nc.sqrt(nc.where(a > 0, a, 1.0)), a * b)),
    "powers of functions": lambda a, b: nc.sum(a ** nc.round(nc.exp(b * 0.1)) * nc.sin(a)),
}


@pytest.mark.parametrize("other", SIDES)
@pytest.mark.parametrize("taken", SIDES)
def test_second_derivatives_of_branches_are_those_of_the_side_taken(taken: str, other: str) -> None:
    """What the other side saves for its pullback has no part in them, even where a partial derivative is infinite."""
    a, b = nc.tensor([1.5, -1.0]), nc.tensor([2.0, 2.0])
    first, second = SIDES[taken], SIDES[other]
    wanted: Any = nc.hessian(first)(a, b)
    assert np.isfinite(wanted.numpy()).all()
    for name, f in {
        "then": lambda a, b: nc.cond(nc.tensor(True), first, second, a, b),
        "else": lambda a, b: nc.cond(nc.tensor(False), second, first, a, b),
        "switch": lambda a, b: nc.switch(nc.tensor(1), [second, first], a, b),
    }.items():
        for way, derivative in {
            "eager": nc.hessian(f),
            "compiled": nc.jit(nc.hessian(f)),
            "forward": nc.jacfwd(nc.jacfwd(f)),
            "reverse": nc.jacrev(nc.jacrev(f)),
        }.items():
            np.testing.assert_allclose(derivative(a, b).numpy(), wanted.numpy(), rtol=1e-5, err_msg=f"{name}, {way}")


@pytest.mark.parametrize("inner", [nc.jacfwd, nc.jacrev])
@pytest.mark.parametrize("outer", [nc.jacfwd, nc.jacrev])
def test_powers_of_zero_have_second_derivatives_by_base_and_exponent(outer: Any, inner: Any) -> None:
    x, n = nc.tensor([0.5, 2.0, 3.0], dtype=nc.float64), nc.zeros(3, dtype=nc.float64)
    table = nc.vmap(outer(inner(nc.pow, (0, 1)), (0, 1)))(x, n)
    for found, wanted in zip(nc.tree.leaves(table), (0 * x, 1 / x, 1 / x, nc.log(x) ** 2), strict=True):
        np.testing.assert_allclose(found.numpy(), wanted.numpy(), rtol=1e-14)


def test_softplus_has_derivatives_by_a_sharpness_of_one() -> None:
    def by_sharpness(b: Any) -> Any:
        return nc.grad(lambda b: nn.functional.softplus(X, b).sum())(b)

    near, wanted = (by_sharpness(nc.tensor(b, dtype=nc.float64)) for b in (1.0 + 1e-9, 1.0))
    np.testing.assert_allclose(wanted.numpy(), near.numpy(), rtol=1e-7)
    logistic = 1 / (1 + np.exp(-X.numpy()))
    np.testing.assert_allclose(wanted.numpy(), (X.numpy() * logistic - np.logaddexp(X.numpy(), 0)).sum(), rtol=1e-13)
