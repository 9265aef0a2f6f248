"""custom_vjp: forward and backward functions, in every nesting of reverse mode, with the same bits everywhere."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import nacre as nc
from nacre import nn
from tensor_bits import bits
from transform.derivatives.operands import ONE, XS, F, X, Y, close


@nc.custom_vjp
def twice(x: Any, y: Any) -> Any:
    """sin(x)·y with twice its derivative by x."""
    return nc.sin(x) * y


twice.defvjp(
    lambda x, y: (twice(x, y), (nc.cos(x), nc.sin(x), y)),
    lambda saved, g: (2 * saved[0] * saved[2] * g, saved[1] * g),
)


FIRST: dict[str, Callable[[Any], Any]] = {
    "grad": lambda f: nc.grad(f)(X),
    "jit of grad": lambda f: nc.jit(nc.grad(f))(X),
    "grad of jit": lambda f: nc.grad(nc.jit(f))(X),
    "vjp": lambda f: nc.vjp(f, X)[1](ONE)[0],
    "jacrev": lambda f: nc.jacrev(f)(X),
    "vmap of grad": lambda f: nc.vmap(nc.grad(f))(nc.stack([Y, X]))[1],
    "grad of vmap": lambda f: nc.grad(lambda xs: nc.vmap(f)(xs).sum())(nc.stack([Y, X]))[1],
    "checkpoint": lambda f: nc.grad(nc.checkpoint(f))(X),
    "cond": lambda f: nc.grad(lambda x: nc.cond(x > 0, f, nc.cos, x))(X),
    "cond of a batch": lambda f: nc.grad(lambda xs: nc.vmap(lambda x: nc.cond(x < 1, f, nc.cos, x))(xs).sum())(
        nc.stack([Y, X])
    )[1],
    "scan": lambda f: nc.grad(lambda x: nc.scan(lambda c, _: (f(c), None), x, length=1)[0])(X),
    "jit of scan": lambda f: nc.jit(nc.grad(lambda x: nc.scan(lambda c, _: (f(c), None), x, length=1)[0]))(X),
}


@pytest.mark.parametrize("name", FIRST)
def test_first_derivatives_use_the_rule(name: str) -> None:
    close(FIRST[name](lambda x: twice(x, Y)), 4 * np.cos(0.3))


SECOND: dict[str, Callable[[Any], Any]] = {
    "grad of grad": lambda f: nc.grad(nc.grad(f))(X),
    "jacrev of jacrev": lambda f: nc.jacrev(nc.jacrev(f))(X),
    "compiled": lambda f: nc.jit(nc.grad(nc.jit(nc.grad(f))))(X),
    "batched": lambda f: nc.vmap(nc.grad(nc.grad(f)))(nc.stack([Y, X]))[1],
}


@pytest.mark.parametrize("name", SECOND)
def test_second_derivatives_differentiate_the_backward_function(name: str) -> None:
    close(SECOND[name](lambda x: twice(x, Y)), -4 * np.sin(0.3))


def test_eager_and_compiled_derivatives_have_the_same_bits() -> None:
    y = nc.tensor([2.0, 1.0, 0.5], dtype=F)

    def f(x: Any) -> Any:
        return twice(twice(x, y), x * y).sum()

    wanted = bits(nc.grad(f)(XS))
    assert bits(nc.jit(nc.grad(f))(XS)) == bits(nc.grad(nc.jit(f))(XS)) == wanted
    x = nc.tensor(XS).requires_grad_()
    f(x).backward()
    assert bits(x.grad) == wanted


def test_an_operand_for_the_whole_batch_gets_the_sum() -> None:
    def total(y: Any) -> Any:
        return nc.vmap(twice, in_axes=(0, None))(XS, y).sum()

    close(nc.grad(total)(Y), np.sin(XS.numpy()).sum())
    close(nc.jit(nc.grad(total))(Y), np.sin(XS.numpy()).sum())


def test_forward_mode_is_refused_with_the_remedy() -> None:
    for f in (nc.jacfwd(twice), nc.hessian(twice), lambda x, y: nc.jvp(twice, (x, y), (x, y))):
        for call in (f, nc.jit(f)):
            with pytest.raises(
                nc.GradientError, match=r"forward mode .* must not pass through twice.*jacrev.*nc\.custom_jvp"
            ):
                call(X, Y)
    close(nc.jvp(lambda x: twice(x.detach(), Y) + x, (X,), (ONE,))[1], 1.0)
    explicit = nc.custom_vjp(lambda x: nc.sin(x))
    explicit.defvjp(lambda x: (nc.sin(x), x), lambda x, g: (2 * nc.cos(x) * g,))
    close(nc.hessian(explicit)(X), -2 * np.sin(0.3))  # passes through forward and backward only


def test_a_recorded_backward_pass_is_differentiated() -> None:
    f = nc.custom_vjp(lambda x: nc.sin(x))
    f.defvjp(lambda x: (f(x), x), lambda x, g: (2 * nc.cos(x) * g,))
    x = nc.tensor(0.3, dtype=F).requires_grad_()
    f(x).backward(create_graph=True)
    slope, x.grad = x.grad, None
    slope.backward()
    close(x.grad, -2 * np.sin(0.3))
    x.grad = None
    twice(x, Y).backward(create_graph=True)
    with pytest.raises(nc.GradientError, match="create_graph"):  # cos(x) was computed in the forward function
        x.grad.backward()


def test_trees_missing_cotangents_and_constants() -> None:
    @nc.custom_vjp
    def f(p: Any, i: Any, power: int = 2) -> Any:
        return {"y": p["w"] ** power, "i": i + 1}, [p["b"]]

    def forward(p: Any, i: Any, power: int = 2) -> Any:
        return f(p, i, power), (p, power, "text")

    def backward(saved: Any, g: Any) -> Any:
        p, power, text = saved
        assert text == "text"
        assert g[0]["i"] is None
        return {"w": 10 * power * p["w"] * g[0]["y"], "b": None}, None, None

    f.defvjp(forward, backward)
    p, i = {"w": XS, "b": Y}, nc.tensor([1, 2])
    for transformed in (nc.grad, lambda f: nc.jit(nc.grad(f))):
        g = transformed(lambda p: f(p, i=i)[0]["y"].sum() + f(p, i)[1][0])(p)
        close(g["w"], 20 * XS.numpy())
        close(g["b"], 0.0)


def test_functions_as_arguments() -> None:
    @partial(nc.custom_vjp, nondiff_argnums=(0, 2))
    def apply(f: Any, x: Any, n: int) -> Any:
        return f(x)

    apply.defvjp(lambda f, x, n: (apply(f, x, n), x), lambda f, n, x, g: (n * f(x) * g,))
    close(nc.grad(lambda x: apply(nc.sin, x, 3))(X), 3 * np.sin(0.3))
    close(nc.jit(nc.grad(lambda x: apply(nc.sin, x, 3)))(X), 3 * np.sin(0.3))


def test_captured_values() -> None:
    def scaled(c: Any) -> Any:
        f = nc.custom_vjp(lambda x: x * 1)
        f.defvjp(lambda x: (f(x), None), lambda _, g: (c * g,))
        return f

    close(nc.grad(lambda c: nc.grad(scaled(c))(X))(Y), 1.0)
    close(nc.jit(nc.grad(lambda c: nc.grad(scaled(c))(X) ** 2))(Y), 4.0)
    close(nc.vmap(lambda c: nc.grad(scaled(c))(X))(XS), XS.numpy())

    def captured(c: Any) -> Any:
        f = nc.custom_vjp(lambda x: x * c)
        f.defvjp(lambda x: (f(x), None), lambda _, g: (c * g,))
        return f

    close(nc.jit(lambda c: nc.grad(captured(c))(X))(Y), 2.0)
    with pytest.raises(nc.GradientError, match=r"custom_vjp: .* that the function captures"):
        nc.grad(lambda c: captured(c)(X))(Y)


def test_complex_cotangents_are_those_of_vjp() -> None:
    f = nc.custom_vjp(lambda z: z * z)
    f.defvjp(lambda z: (f(z), z), lambda z, g: (nc.conj(2 * z) * g,))
    z, g = nc.tensor([1 + 2j, -0.5 + 1j]), nc.tensor([1 + 0j, 2 - 1j])
    found, wanted = nc.vjp(f, z)[1](g)[0], nc.vjp(lambda z: z * z, z)[1](g)[0]
    np.testing.assert_allclose(found.numpy(), wanted.numpy(), rtol=1e-6)
    compiled = nc.jit(nc.grad(lambda z: nc.abs(f(z)).sum()))(z)
    np.testing.assert_allclose(compiled.numpy(), nc.grad(lambda z: nc.abs(z * z).sum())(z).numpy(), rtol=1e-6)


def test_the_forward_function_runs_once() -> None:
    calls: list[int] = []

    def forward(x: Any) -> Any:
        y = nc.host_call(lambda x: calls.append(1) or x.numpy() * 2, x.type, x)
        return y, None

    f = nc.custom_vjp(lambda x: x * 2)
    f.defvjp(forward, lambda _, g: (2 * g,))
    close(nc.grad(f)(X), 2.0)
    assert len(calls) == 1
    close(nc.jit(nc.grad(f))(X), 2.0)
    assert len(calls) == 2


def test_a_straight_through_estimator_in_a_compiled_step() -> None:
    rounded = nc.custom_vjp(lambda x: nc.round(x))
    rounded.defvjp(lambda x: (rounded(x), None), lambda _, g: (g,))
    nc.random.seed(0)
    layer = nn.Linear(2, 2)
    gradients = nc.jit(nc.grad(lambda m, x: (rounded(m(x)) ** 2).sum()))(layer, nc.ones((3, 2)))
    y = layer(nc.ones((3, 2)))
    np.testing.assert_allclose(gradients.bias.numpy(), (2 * nc.round(y)).sum(axis=0).numpy())


def test_second_sizes_share_a_variant() -> None:
    compiled = nc.jit(lambda x: twice(x, x + 1).sum())
    for n in (2, 3, 5, 8):
        x = np.linspace(0.0, 1.0, n)
        wanted = 2 * np.cos(x) * (x + 1) + np.sin(x)
        close(nc.grad(compiled)(nc.tensor(x)), wanted)
        t = nc.tensor(x).requires_grad_()
        compiled(t).backward()
        close(t.grad, wanted)


def plain(x: Any, y: Any) -> Any:
    return nc.sin(x) * y, (x, y)


WRONG: dict[str, tuple[Any, Any, str]] = {
    "no pair": (lambda x, y: nc.sin(x), plain, r"forward function of f must return \(result, residuals\); got Tensor"),
    "result": (lambda x, y: (x[:1], y), plain, r"the result of the forward function of f must have type f64\[3\]; got"),
    "no tuple": (
        plain,
        lambda saved, g: g,
        r"backward function of f must return a tuple of 2 cotangents, .* got Tensor",
    ),
    "too few": (plain, lambda saved, g: (g,), "a tuple of 2 cotangents, one for each argument; got a tuple of 1"),
    "shape": (
        plain,
        lambda saved, g: (g.sum(), None),
        r"the cotangent of f, at x, must have type f64\[3\]; got f64\[\]",
    ),
    "dtype": (plain, lambda saved, g: (g.astype(nc.float32), None), r"the cotangent of f, at x, .* got f32\[3\]"),
    "structure": (plain, lambda saved, g: ((g,), None), "the cotangent of f, at x: values must be .* got tuple"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_rules_are_refused(name: str) -> None:
    forward, backward, message = WRONG[name]

    @nc.custom_vjp
    def f(x: Any, y: Any) -> Any:
        return nc.sin(x) * y

    f.defvjp(forward, backward)
    with pytest.raises(nc.Error, match=message):
        nc.grad(lambda x: f(x, Y).sum())(XS)


def test_a_function_without_a_rule_is_refused() -> None:
    with pytest.raises(nc.ArgumentError, match=r"must have a rule .* f\.defvjp\(forward, backward\)"):
        nc.custom_vjp(lambda x: x)(X)


def test_a_graph_of_placeholders_has_the_rule() -> None:
    @nc.custom_vjp
    def doubled(x: Any) -> Any:
        return x * 2

    doubled.defvjp(lambda x: (doubled(x), None), lambda _, g: (g * 7,))
    p = nc.placeholder((2,), nc.float32, name="p")
    graph = nc.Graph.build([p], [doubled(p)])
    assert nc.grad(lambda x: graph(x)[0].sum())(nc.ones(2)).tolist() == [7.0, 7.0]
