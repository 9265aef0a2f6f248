"""No derivative passes through `detach` or `no_grad`, in any transformation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nacre as nc
from nacre import nn
from nacre.compile.passes.simplify import simplify
from nacre.ir.graph import Graph
from nacre.nn import functional as F
from same_bits import canonical

X = nc.tensor(np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32))


def detached(x: Any) -> Any:
    return ((x * 2.0).detach() * x).sum()


def silent(x: Any) -> Any:
    with nc.no_grad():
        y = nc.tanh(x) * 2.0
    return (y * x).sum()


def silent_and_back(x: Any) -> Any:
    with nc.no_grad():
        y = x * 2.0
        with nc.enable_grad():
            z = y * x
    return (z * y).sum()


def rounded(x: Any) -> Any:
    return ((nc.round(x).detach() + (x - x.detach())) ** 2).sum()


def hard(x: Any) -> Any:
    soft = F.softmax(x)
    chosen = F.one_hot(nc.argmax(soft, axis=-1), x.shape[-1]).astype(x.dtype)
    return (((chosen - soft.detach()) + soft) * X).sum()


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "detach": detached,
    "no_grad": silent,
    "enable_grad": silent_and_back,
    "straight through": rounded,
    "hard": hard,
    "softmax": lambda x: (F.softmax(x) * X).sum(),
    "log-softmax": lambda x: (F.log_softmax(x) * X).sum(),
    "attention": lambda x: (F.scaled_dot_product_attention(x, x, x) * X).sum(),
    "cross-entropy": lambda x: F.cross_entropy(x, nc.tensor([1, 0, 3])),
}


def scanned(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda x: nc.scan(lambda total, y: (total + f(y), y), nc.tensor(0.0), x[None])[0]


def names(graph: Graph) -> list[str]:
    return [e.primitive.name for e in graph.equations]


SEEN: dict[str, Callable[[Callable[[Any], Any]], Callable[[Any], Any]]] = {
    "jit": nc.jit,
    "jit of jit": lambda f: nc.jit(nc.jit(f)),
    "checkpoint": nc.checkpoint,
    "scan": scanned,
    "cond": lambda f: lambda x: nc.cond(x[0, 0] > 9, lambda y: y.sum(), f, x),
    "vmap": lambda f: lambda x: nc.vmap(f)(x[None])[0],
    "jit of vmap": lambda f: lambda x: nc.jit(nc.vmap(f))(x[None])[0],
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("seen", SEEN)
def test_derivatives_are_those_of_the_function(name: str, seen: str) -> None:
    f, g = FUNCTIONS[name], SEEN[seen](FUNCTIONS[name])
    wanted = canonical(nc.grad(f)(X))
    assert canonical(nc.grad(g)(X)) == wanted
    assert canonical(nc.jit(nc.grad(g))(X)) == wanted
    leaf = nc.tensor(X).requires_grad_()
    g(leaf).backward()
    assert canonical(leaf.grad) == wanted


@pytest.mark.parametrize("name", FUNCTIONS)
def test_tangents_are_those_of_the_compiled_function(name: str) -> None:
    f = FUNCTIONS[name]
    plain, compiled = (nc.jvp(g, (X,), (X,))[1] for g in (f, nc.jit(f)))
    assert canonical(plain) == canonical(compiled)
    np.testing.assert_allclose(plain.numpy(), (nc.grad(f)(X) * X).sum().numpy(), rtol=1e-4, atol=1e-5)


def test_simplified_graphs_have_no_detach() -> None:
    f = nc.jit(lambda x: (x.detach() + 1.0).detach())
    assert canonical(f(X)) == canonical(X + 1.0)
    assert "detach" in names(f.trace(X))
    assert names(simplify(f.trace(X))).count("detach") == 0


def test_a_function_traced_in_no_grad_computes_the_same() -> None:
    with nc.no_grad():
        f = nc.jit(lambda x: nc.tanh(x) * 2.0)
        assert canonical(f(X)) == canonical(nc.tanh(X) * 2.0)
        assert "detach" not in names(f.trace(X))
        _, tangent = nc.jvp(lambda x: x * 2.0, (X,), (X,))
    assert canonical(tangent) == canonical(X * 2.0)


def signed(x: Any) -> Any:
    return nc.sign(x).detach() + (nc.tanh(x) - nc.tanh(x).detach())


def test_a_function_with_the_gradient_of_another_has_its_exact_value() -> None:
    """Eagerly, compiled and batched; the second derivative is the other function's too."""
    for f in (signed, nc.jit(signed), nc.vmap(signed), nc.jit(nc.vmap(signed))):
        assert bool(nc.all(f(X * 1e6) == nc.sign(X))) and bool(nc.all(f(X) == nc.sign(X)))

    def second(f: Callable[[Any], Any]) -> Any:
        return nc.grad(lambda x: (nc.grad(lambda x: f(x).sum())(x) * X).sum())(X)

    def first(f: Callable[[Any], Any]) -> Any:
        return nc.grad(lambda x: f(x).sum())(X)

    for of in (first, second):
        for f in (signed, nc.jit(signed)):
            np.testing.assert_allclose(of(f).numpy(), of(nc.tanh).numpy(), rtol=1e-6)


@pytest.mark.parametrize("requires_grad", [False, True])
def test_a_detached_capture_is_read_at_each_call(requires_grad: bool) -> None:
    x = nc.tensor([1.0, 2.0])
    x.requires_grad_(requires_grad)
    f = nc.jit(lambda y: x.detach() * y)
    for number in (5.0, 7.0):
        with nc.no_grad():
            x[0] = number
        assert f(nc.ones(2)).tolist() == [number, 2.0]
    x = nc.tensor([3.0, 4.0])
    assert f(nc.ones(2)).tolist() == [3.0, 4.0] and len(f.concrete_functions) == 1


def slopes(x: nc.Tensor) -> nc.Tensor:
    """The derivative of w·x³ by x, then that of its square by w."""
    x = x.detach().requires_grad_()
    (slope,) = nc.autograd.grad((W * x**3).sum(), x, create_graph=True)
    return nc.autograd.grad((slope**2).sum(), W)[0]


W = nn.Parameter(nc.tensor([1.0, 2.0]))


def test_a_compiled_function_differentiates_by_what_it_detaches_itself() -> None:
    x = nc.tensor([3.0, 5.0]).requires_grad_()
    wanted = slopes(x)
    assert wanted.tolist() == (18 * W.value * x**4).tolist()
    assert nc.jit(slopes)(x).tolist() == wanted.tolist()
    captured = nc.jit(lambda: slopes(x))
    assert captured().tolist() == wanted.tolist()
    with nc.no_grad():
        x[0] = 1.0
    assert captured().tolist() == slopes(x).tolist()


def test_a_compiled_function_differentiates_by_a_constant_of_its_own() -> None:
    @nc.jit
    def f(y: nc.Tensor) -> nc.Tensor:
        x = nc.tensor([1.0, 2.0]).requires_grad_()
        return nc.autograd.grad((x**3 * y).sum(), x)[0]

    assert f(nc.tensor([1.0, 2.0])).tolist() == [3.0, 24.0]


def test_a_tensor_from_outside_does_not_become_a_leaf_while_a_function_is_compiled() -> None:
    x = nc.ones(2)
    with pytest.raises(nc.GradientError, match=r"requires_grad_: .* write `x = x.detach\(\).requires_grad_\(\)`"):
        nc.jit(lambda: nc.autograd.grad((x.requires_grad_() ** 2).sum(), x))()
    assert not x.requires_grad
    x.requires_grad_()
    with pytest.raises(nc.GradientError, match=r"grad: inputs .* compute the outputs from `x = x.detach\(\)"):
        nc.jit(lambda: nc.autograd.grad((x * W).sum(), x))()
