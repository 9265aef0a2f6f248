"""Combinations of transformations with choices of arguments, trees, auxiliary results, dtypes, and each other."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import nacre as nc
from tensor_bits import bits

F = nc.float64
Function = Callable[..., Any]
V = nc.tensor([1.0, 2.0, 3.0], dtype=F)
TWO = nc.tensor(2.0, dtype=F)
P = {"w": nc.tensor([0.5, -1.0, 2.0], dtype=F), "b": (nc.tensor(3.0, dtype=F), [nc.tensor([[1.0, 2.0]], dtype=F)])}


def f(p: Any, x: Any, scale: Any = 1.0) -> Any:
    return (nc.sum(p["w"] ** 3 * x) * p["b"][0] + nc.sum(p["b"][1][0] ** 2)) * scale


def with_aux(p: Any, x: Any) -> Any:
    return f(p, x), {"k": nc.tensor(3), "x": x * 2.0}


W3, B = P["w"] ** 3, P["b"][0]
BY_P = {"w": 3 * P["w"] ** 2 * V * B, "b": (nc.sum(W3 * V), [2 * P["b"][1][0]])}
BY_X = W3 * B


def close(found: Any, wanted: Any) -> None:
    assert nc.tree.structure(found) == nc.tree.structure(wanted)
    for a, b in zip(nc.tree.leaves(found), nc.tree.leaves(wanted), strict=True):
        assert a.shape == b.shape
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-13, atol=1e-14)


def one_row(g: Function) -> Function:
    """A function on a batch of one example."""

    def batched(*args: Any) -> Any:
        rows = nc.tree.map(lambda x: nc.expand_dims(x, axis=0), args)
        return nc.tree.map(lambda y: y[0], nc.vmap(g)(*rows))

    return batched


WAYS: dict[str, Callable[[Function], Function]] = {
    "eager": lambda g: g,
    "jit": nc.jit,
    "vmap": one_row,
    "jit of vmap": lambda g: nc.jit(one_row(g)),
    "vmap of jit": lambda g: one_row(nc.jit(g)),
    "vmap of vmap": lambda g: one_row(one_row(g)),
    "checkpoint": nc.checkpoint,
    "scan": lambda g: lambda *args: nc.tree.map(lambda y: y[0], nc.scan(lambda c, _: (c, g(*c)), args, length=1)[1]),
    "cond": lambda g: lambda *args: nc.cond(nc.tensor(True), g, g, *args),
}
CHOICES: dict[str, tuple[Any, Any]] = {
    "position": (0, BY_P),
    "name": ("x", BY_X),
    "negative": (-1, BY_X),
    "tuple": ((1, 0), (BY_X, BY_P)),
    "names": (("x", "p"), (BY_X, BY_P)),
    "both": (("x", 0), (BY_X, BY_P)),
    "none": ((), ()),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("choice", CHOICES)
def test_choices_of_arguments(way: str, choice: str) -> None:
    argnums, wanted = CHOICES[choice]
    for derivative in (nc.grad, nc.jacrev, nc.jacfwd):
        if way != "eager" and choice == "none":
            continue
        close(WAYS[way](derivative(f, argnums=argnums))(P, V), wanted)


@pytest.mark.parametrize("way", WAYS)
def test_auxiliary_results(way: str) -> None:
    for derivative in (nc.grad, nc.jacrev, nc.jacfwd):
        found, aux = WAYS[way](derivative(with_aux, argnums=(1, 0), has_aux=True))(P, V)
        close(found, (BY_X, BY_P))
        assert int(aux["k"]) == 3 and bits(aux["x"]) == bits(V * 2.0)
    (value, aux), found = WAYS[way](nc.value_and_grad(with_aux, has_aux=True))(P, V)
    close((value, found), (f(P, V), BY_P))
    assert int(aux["k"]) == 3


def test_auxiliary_results_that_are_no_tensors() -> None:
    def g(x: Any) -> Any:
        return nc.sum(x * x), {"name": "text", "nothing": None, "count": 2}

    for derivative in (nc.grad, nc.jacrev, nc.jacfwd, nc.hessian):
        assert derivative(g, has_aux=True)(V)[1] == {"name": "text", "nothing": None, "count": 2}
    assert nc.vjp(g, V, has_aux=True)[2] == nc.jvp(g, (V,), (V,), has_aux=True)[2] == g(V)[1]


@pytest.mark.parametrize("way", WAYS)
def test_second_derivatives_of_trees(way: str) -> None:
    hessian = WAYS[way](nc.hessian(f, argnums=(0, 1)))(P, V)
    diagonal = nc.eye(3, dtype=F)
    close(hessian[0]["w"][0]["w"], diagonal * (6 * P["w"] * V * B))
    close(hessian[0]["w"][1], diagonal * (3 * P["w"] ** 2 * B))
    close(hessian[1][0]["b"][0], W3)
    close(hessian[1][1], nc.zeros((3, 3), dtype=F))
    ones = nc.tree.map(nc.ones_like, P)
    product = WAYS[way](lambda p, x: nc.hvp(f, (p, x), (ones, None))[1])(P, V)
    close(product, 3 * P["w"] ** 2 * B + W3)


@pytest.mark.parametrize("way", WAYS)
def test_pullbacks_and_tangents(way: str) -> None:
    pulled = WAYS[way](lambda p, x: nc.vjp(f, p, x)[1](nc.ones_like(x[0])))(P, V)
    close(pulled, (BY_P, BY_X))
    pushed = WAYS[way](lambda p, x: nc.jvp(f, (p, x), (nc.tree.map(nc.ones_like, p), None)))(P, V)
    close(pushed[1], sum(nc.sum(g) for g in nc.tree.leaves(BY_P)))
    partly = nc.jvp(f, (P, V), ({"w": nc.ones_like(V), "b": None}, None))[1]
    close(partly, nc.sum(BY_P["w"]))


def test_batches_of_pullbacks_and_tangents() -> None:
    basis, wanted = nc.eye(3, dtype=F), nc.eye(3, dtype=F) * 2 * V
    _, pull = nc.vjp(lambda x: x * x, V)
    close(nc.vmap(pull)(basis)[0], wanted)
    close(nc.jit(nc.vmap(pull))(basis)[0], wanted)
    close(nc.vmap(lambda t: nc.jvp(lambda x: x * x, (V,), (t,))[1])(basis), wanted)
    close((pull(V)[0], pull(2 * V)[0]), (2 * V * V, 4 * V * V))
    inner = nc.vmap(lambda x: nc.vjp(lambda y: y * y * x, x)[1](nc.ones_like(x))[0])
    close(inner(V), 2 * V * V)


NESTS: dict[str, tuple[Function, float]] = {  # at 2
    "gradients of one variable are not those of another": (
        lambda x: x * nc.grad(lambda y: x + y)(nc.ones_like(x)),
        1.0,
    ),
    "forward mode inside": (lambda x: x * nc.jvp(lambda y: x * y, (x,), (nc.ones_like(x),))[1], 4.0),
    "reverse mode inside": (lambda x: nc.grad(lambda y: x * y * y)(x), 8.0),
    "a batch inside a gradient inside": (
        lambda x: nc.grad(lambda y: nc.sum(nc.vmap(lambda z: x * y * z)(V)))(x) * x,
        24.0,
    ),
    "compiled inside": (lambda x: nc.grad(nc.jit(lambda y: x * y**3))(x), 9 * 4.0),
    "checkpointed inside": (lambda x: nc.grad(nc.checkpoint(lambda y: x * y**3))(x), 9 * 4.0),
    "a Hessian inside": (lambda x: nc.hessian(lambda y: x * y**3)(x), 12 * 2.0),
    "a product with a Hessian inside": (lambda x: nc.hvp(lambda y: x * y**3, (x,), (x,))[0], 18 * 4.0),
    "a gradient in a branch": (lambda x: nc.cond(x > 1, nc.grad(lambda y: x * y**3), lambda x: x, x), 9 * 4.0),
    "a gradient in a loop": (
        lambda x: nc.fori_loop(0, 2, lambda k, c: nc.grad(lambda y: x * y * y)(c), x),
        12 * 4.0,
    ),
    "a gradient in an unbounded loop": (
        lambda x: nc.while_loop(
            lambda s: s[1] < 2,
            lambda s: (nc.grad(lambda y: x * y * y)(s[0]), s[1] + 1),
            (x, nc.tensor(0)),
            reverse="recompute",
        )[0],
        12 * 4.0,
    ),
}


@pytest.mark.parametrize("name", NESTS)
def test_derivatives_inside_of_derivatives(name: str) -> None:
    g, wanted = NESTS[name]
    ways = (
        nc.grad(g),
        nc.jit(nc.grad(g)),
        nc.grad(nc.jit(g)),
        nc.jacfwd(g),
        nc.grad(nc.checkpoint(g)),
        one_row(nc.grad(g)),
    )
    for way in ways:
        np.testing.assert_allclose(float(way(TWO)), wanted, rtol=1e-14)
    tangent = nc.jvp(g, (TWO,), (nc.ones_like(TWO),))[1]
    np.testing.assert_allclose(float(tangent), wanted, rtol=1e-14)
    total = nc.grad(lambda xs: nc.sum(nc.vmap(g)(xs)))(nc.stack([TWO, TWO]))
    np.testing.assert_allclose(total.numpy(), [wanted, wanted], rtol=1e-14)


def test_four_modes_in_a_row() -> None:
    def sixth_power(x: Any) -> Any:
        return x**6

    for modes in ((nc.grad,) * 4, (nc.jacfwd,) * 4, (nc.jacfwd, nc.grad, nc.jacfwd, nc.grad), (nc.grad, nc.jacfwd) * 2):
        g: Function = sixth_power
        for mode in modes:
            g = mode(g)
        np.testing.assert_allclose([float(g(TWO)), float(nc.jit(g)(TWO))], 360 * 4.0)


Z = nc.tensor(np.array([1 + 2j, 3 - 1j]))


def energy(z: Any) -> Any:
    return nc.sum(nc.abs(z) ** 2 * nc.real(z))


@pytest.mark.parametrize("way", WAYS)
def test_complex_arguments(way: str) -> None:
    x, y = Z.numpy().real, Z.numpy().imag
    steepest = nc.tensor(3 * x * x + y * y + 2j * x * y)
    close(WAYS[way](nc.grad(energy))(Z), steepest)
    close(WAYS[way](nc.jacrev(energy))(Z), steepest)
    both = WAYS[way](nc.grad(lambda z, r: nc.sum(nc.real(z * nc.conj(z)) * r), argnums=(0, 1)))(Z, V[:2])
    close(both, (2 * Z * V[:2], nc.abs(Z) ** 2))
    close(WAYS[way](lambda z: nc.jvp(lambda z: z**3, (z,), (nc.ones_like(z),))[1])(Z), 3 * Z**2)
    close(WAYS[way](lambda z: nc.vjp(lambda z: z**3, z)[1](nc.ones_like(z))[0])(Z), nc.conj(3 * Z**2))


REFUSED: dict[str, tuple[Function, type[Exception], str]] = {
    "a complex result": (lambda: nc.grad(lambda z: nc.sum(z))(Z), nc.DTypeError, "grad: .* take its real part"),
    "jacfwd of complex": (lambda: nc.jacfwd(energy)(Z), nc.DTypeError, "jacfwd: inputs must be real; .*; write jvp"),
    "hessian of complex": (lambda: nc.hessian(energy)(Z), nc.DTypeError, "hessian: inputs must be real"),
    "jacrev to complex": (lambda: nc.jacrev(lambda z: z)(Z), nc.DTypeError, "jacrev: results must be real; .* vjp"),
    "argnums that are equal": (lambda: nc.grad(f, argnums=(0, "p"))(P, V), nc.ArgumentError, "must be distinct"),
    "argnums beyond": (
        lambda: nc.hessian(f, argnums=5)(P, V),
        nc.ArgumentError,
        "hessian: argnums must be less than 2",
    ),
    "a forgotten has_aux": (lambda: nc.grad(with_aux)(P, V), nc.GradientError, "write has_aux=True for"),
    "no auxiliary result": (lambda: nc.hessian(f, has_aux=True)(P, V), nc.ArgumentError, "hessian: with has_aux"),
    "hvp without tuples": (lambda: nc.hvp(f, P, V), nc.ArgumentError, "hvp: primals and tangents must be tuples"),
    "hvp of integers": (
        lambda: nc.hvp(lambda k: k * 1.0, (nc.tensor(1),), (nc.tensor(1),)),
        nc.DTypeError,
        "hvp: inputs must be floating-point",
    ),
    "a tangent of another type": (
        lambda: nc.jvp(lambda z: z, (Z,), (V[:2],)),
        nc.DTypeError,
        "jvp: a tangent must have type c128",
    ),
    "a tangent of another structure": (lambda: nc.jvp(f, (P, V), (V, V)), nc.ArgumentError, "jvp: a tangent must have"),
    "a cotangent of another shape": (lambda: nc.vjp(nc.sin, V)[1](TWO), nc.ShapeError, "vjp: a cotangent must have"),
    "a batch of a scalar": (lambda: nc.vmap(nc.sin)(TWO), nc.ShapeError, "vmap: .* must have an axis; got f64.*None"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_wrong_is_refused_with_the_remedy(name: str) -> None:
    call, error, text = REFUSED[name]
    with pytest.raises(error, match=text):
        call()


@pytest.mark.parametrize("way", WAYS)
def test_integers_are_refused_by_name(way: str) -> None:
    numbers = nc.tensor([1, 2])
    for name, derivative in {"grad": nc.grad, "jacrev": nc.jacrev, "jacfwd": nc.jacfwd, "hessian": nc.hessian}.items():
        for g, x in ((lambda k: nc.sum(k * 1), numbers), (lambda p: nc.sum(p["k"] * 1), {"k": numbers})):
            with pytest.raises(
                nc.DTypeError, match=f"^{name}: inputs must be floating-point; got i64.*argument 0; conv"
            ):
                WAYS[way](derivative(g))(x)
    found = WAYS[way](nc.grad(lambda x, k: nc.sum(x * k.astype(F)), argnums=0))(V, nc.tensor([1, 2, 3]))
    assert found.tolist() == [1.0, 2.0, 3.0]


def test_integer_results_have_derivatives_of_zero() -> None:
    def g(x: Any) -> Any:
        return x * x, nc.argmax(x)

    for derivative in (nc.jacrev(g), nc.jacfwd(g), nc.jit(nc.jacfwd(g))):
        close(derivative(V), (nc.eye(3, dtype=F) * 2 * V, nc.zeros(3, dtype=F)))
    assert bits(nc.vjp(g, V)[0]) == bits(g(V))


def test_arguments_without_elements_or_tensors() -> None:
    empty = nc.zeros((0, 3), dtype=F)
    for derivative in (nc.grad, nc.jacfwd, nc.jacrev):
        assert derivative(lambda x, y: nc.sum(x) * y, argnums=(0, 1))(empty, TWO)[0].shape == (0, 3)
        for nothing in (None, {}, ()):
            assert derivative(lambda _: TWO)(nothing) == nothing
            assert nc.jit(derivative(lambda _, x: x * x, argnums=1))(nothing, TWO).tolist() == 4.0
    assert nc.hessian(lambda x: nc.sum(x))(empty).shape == (0, 3, 0, 3)
    assert nc.jacfwd(lambda _: (TWO, 3), has_aux=True)(None) == (None, 3)


class Scaled:
    def __init__(self) -> None:
        self.k = nc.tensor(4.0, dtype=F)

    def times(self, x: Any) -> Any:
        return self.k * x

    def __call__(self, x: Any) -> Any:
        return self.k * x * x


def test_kinds_of_functions_and_calls() -> None:
    assert float(nc.grad(Scaled().times)(TWO)) == 4.0
    assert float(nc.jit(nc.grad(Scaled()))(TWO)) == float(nc.jacfwd(Scaled())(TWO)) == 16.0
    assert float(nc.grad(partial(f, P, scale=2.0))(V)[0]) == 2 * float(BY_X[0])
    assert float(nc.grad(lambda *, a, b: a * b, argnums="a")(a=TWO, b=TWO)) == 2.0
    assert float(nc.grad(lambda a, **more: a * more["z"], argnums="z")(TWO, z=TWO)) == 2.0
    assert float(nc.grad(lambda *all: all[0] * all[1], argnums=1)(TWO, TWO)) == 2.0
    close(nc.grad(lambda a, b: a * b * b, argnums=(0, 1))(TWO, TWO), (TWO * 2, TWO * 4))
    close(nc.grad(lambda p: p[0] * p[1] ** 2)([TWO, TWO]), [TWO * 2, TWO * 4])
    close(nc.grad(lambda x: x)(TWO), nc.ones_like(TWO))
    close(nc.hessian(lambda x: x)(TWO), nc.zeros_like(TWO))
    close(nc.grad(lambda _: 3.0)(V), nc.zeros_like(V))


def test_axes_of_derivatives_in_batches() -> None:
    rows = nc.stack([V, 2 * V])

    def g(p: Any, x: Any) -> Any:
        return nc.sum(p["a"] * x) ** 2 * p["b"]

    p = {"a": rows, "b": nc.tensor([1.0, 2.0], dtype=F)}
    each = [nc.grad(g)({"a": rows[k], "b": p["b"][k]}, V) for k in range(2)]
    stacked = {name: nc.stack([e[name] for e in each]) for name in ("a", "b")}
    for axes in (({"a": 0, "b": 0}, None), (0, None), [0, None]):
        close(nc.vmap(nc.grad(g), in_axes=axes)(p, V), stacked)
    last = nc.vmap(nc.grad(g), in_axes=({"a": -1, "b": 0}, None), out_axes={"a": 1, "b": 0})(
        {"a": rows.T, "b": p["b"]}, V
    )
    close(last, {"a": stacked["a"].T, "b": stacked["b"]})
