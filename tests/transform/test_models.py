"""Derivatives of models within derivatives, as in meta-learning, gradient penalties and curvature."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nacre as nc
from nacre import nn
from nacre.base import tree
from nacre.base.errors import GradientError


def number(x: Any) -> Any:
    return nc.tensor(x, dtype=nc.float64)


class Line(nn.Module):
    def __init__(self, w: float = 0.5) -> None:
        self.w = nn.Parameter(number([w]))

    def forward(self, x: Any) -> Any:
        return self.w * x


class Critic(nn.Module):
    def __init__(self) -> None:
        self.w = nn.Parameter(number([0.5, -1.5, 2.0]))

    def forward(self, x: Any) -> Any:
        return nc.sum(self.w * x**2, axis=1)


def error(model: Any, x: Any, y: Any) -> Any:
    return nc.sum((model(x) - y) ** 2)


def plainly(f: Callable[..., Any]) -> Callable[..., Any]:
    return f


X = number([[0.5, 1.0, -2.0], [1.5, -0.5, 0.25]])


# ---- a step within a step (model-agnostic meta-learning)


def meta_loss(model: Any) -> Any:
    gradient = nc.grad(error)(model, number([2.0]), number([3.0]))
    adapted = tree.tree_map(lambda p, g: p - 0.1 * g, model, gradient)
    return error(adapted, number([1.5]), number([1.0]))


W2 = 0.5 - 0.1 * 2 * 2 * (0.5 * 2 - 3)
META = 2 * 1.5 * (W2 * 1.5 - 1) * (1 - 0.1 * 2 * 4)


@pytest.mark.parametrize("wrap", [plainly, nc.jit, nc.checkpoint])
def test_a_step_within_a_step(wrap: Any) -> None:
    model = Line()
    wrap(meta_loss)(model).backward()
    assert float(model.w.grad) == pytest.approx(META)
    assert float(nc.grad(wrap(meta_loss))(model).w) == pytest.approx(META)
    assert float(wrap(nc.grad(meta_loss))(model).w) == pytest.approx(META)


def test_a_step_within_a_compiled_step() -> None:
    model = Line()

    @nc.jit
    def step() -> Any:
        model.zero_grad()
        loss = meta_loss(model)
        loss.backward()
        return loss

    for _ in range(2):
        assert float(step()) == pytest.approx((W2 * 1.5 - 1) ** 2)
        assert float(model.w.grad) == pytest.approx(META)


# ---- a penalty on gradients (Wasserstein critics)


def penalty(critic: Any, x: Any) -> Any:
    slope = nc.grad(lambda x: nc.sum(critic(x)))(x)
    return nc.mean((nc.sqrt(nc.sum(slope**2, axis=1)) - 1) ** 2)


def test_a_penalty_on_the_gradient_by_the_input() -> None:
    critic = Critic()
    w, x = critic.w.numpy(), X.numpy()
    norm = np.sqrt((4 * w**2 * x**2).sum(1, keepdims=True))
    wanted = (2 * (norm - 1) / norm * 4 * w * x**2).mean(0)
    for wrap in (plainly, nc.jit, nc.checkpoint):
        critic.zero_grad()
        wrap(penalty)(critic, X).backward()
        np.testing.assert_allclose(critic.w.grad.numpy(), wanted)
        np.testing.assert_allclose(wrap(nc.grad(penalty))(critic, X).w.numpy(), wanted)


def test_a_penalty_on_the_gradient_by_the_parameters() -> None:
    critic = Critic()

    def loss(critic: Any) -> Any:
        slope = nc.grad(lambda c: nc.sum(c(X) ** 2))(critic)
        return nc.sum(slope.w**2)

    q = X.numpy() ** 2
    inner = 2 * (q @ critic.w.numpy()) @ q
    wanted = 2 * (2 * q.T @ q) @ inner
    for wrap in (plainly, nc.jit):
        critic.zero_grad()
        wrap(loss)(critic).backward()
        np.testing.assert_allclose(critic.w.grad.numpy(), wanted)


# ---- curvature


def test_products_with_the_hessian_of_a_module() -> None:
    critic = Critic()

    def loss(c: Any) -> Any:
        return nc.sum(c(X) ** 3)

    v = tree.tree_map(lambda _: number([1.0, 2.0, -1.0]), critic)
    q = X.numpy() ** 2
    wanted = q.T @ (6 * (q @ critic.w.numpy()) * (q @ v.w.numpy()))

    def product(c: Any) -> Any:
        return nc.sum(nc.grad(loss)(c).w * v.w)

    for wrap in (plainly, nc.jit):
        found = wrap(lambda c: nc.jvp(nc.grad(loss), (c,), (v,))[1])(critic)
        np.testing.assert_allclose(found.w.numpy(), wanted)
        np.testing.assert_allclose(wrap(nc.grad(product))(critic).w.numpy(), wanted)
        critic.zero_grad()
        wrap(product)(critic).backward()
        np.testing.assert_allclose(critic.w.grad.numpy(), wanted)
        critic.zero_grad()
        nc.jvp(wrap(loss), (critic,), (v,))[1].backward()
        np.testing.assert_allclose(critic.w.grad.numpy(), wanted)


def test_gradients_of_each_sample() -> None:
    critic = Critic()

    def one(c: Any, x: Any) -> Any:
        return nc.sum(c(x[None]) ** 2)

    q = X.numpy() ** 2
    wanted = 2 * (q @ critic.w.numpy())[:, None] * q
    for wrap in (plainly, nc.jit):
        each = wrap(nc.vmap(nc.grad(one), in_axes=(None, 0)))(critic, X)
        np.testing.assert_allclose(each.w.numpy(), wanted)
        critic.zero_grad()
        nc.sum(each.w**2).backward()  # and further through them
        assert critic.w.grad is not None
        np.testing.assert_allclose(critic.w.grad.numpy(), sum(2 * (2 * np.outer(r, r)) @ g for r, g in zip(q, wanted)))


# ---- recorded and refused calls


def test_backward_within_backward_is_recorded_when_compiled() -> None:
    w = nn.Parameter(number([2.0]))

    def first() -> None:
        nc.sum(w**3).backward(create_graph=True)

    for call in (first, nc.jit(first)):
        for _ in range(2):
            w.grad = None
            call()
            slope, w.grad = w.grad, None
            (nc.sum(slope) + nc.sum(w**2)).backward()
            assert float(w.grad) == 16.0


def test_without_gradients_nothing_is_recorded() -> None:
    w, x = nn.Parameter(number([2.0])), number([2.0]).requires_grad_()
    for operand in (w, x):
        with nc.no_grad():
            value, slope = nc.value_and_grad(lambda w: nc.sum(w**3))(operand)
            result, pullback = nc.vjp(lambda w: w**3, operand)
            (pulled,) = pullback(number([1.0]))
            moved = nc.jvp(lambda w: w**3, (operand,), (number([1.0]),))[1]
        assert float(slope) == float(pulled) == float(moved) == 12.0
        assert not any(y.requires_grad for y in (value, slope, result, pulled, moved))
    with nc.no_grad():  # also if it is differentiated later
        assert float(nc.hessian(lambda w: nc.sum(w**3))(w)) == 12.0
    slope = nc.grad(nc.jit(lambda x: nc.sum(silent(x) * x)))(number([2.0]))
    assert float(slope) == 12.0


def silent(x: Any) -> Any:
    with nc.no_grad():
        return nc.grad(lambda x: nc.sum(x**3))(x)


def test_results_of_a_step_that_overwrites_its_parameters_are_not_differentiated() -> None:
    model, free = Line(), nn.Parameter(number([1.0]))

    @nc.jit
    def step(x: Any) -> Any:
        loss, gradient = nc.value_and_grad(error)(model, x, number([3.0]))
        model.w.assign(model.w - 0.1 * gradient.w)
        return loss

    @nc.jit
    def mixed(x: Any) -> Any:
        loss = error(model, x, free.value)
        model.w.assign(model.w - 0.1)
        return loss

    x = number([2.0])
    loss = step(x)
    assert float(loss) == pytest.approx(4.0) and loss.requires_grad
    with pytest.raises(GradientError, match="assigned all of them"):
        (loss + nc.sum(model.w)).backward()
    with nc.no_grad():
        assert not step(x).requires_grad
    w = float(model.w)
    mixed(x).backward()
    assert float(free.grad) == pytest.approx(-2 * (2 * w - 1))
    w = float(model.w)
    through = step(number([2.0]).requires_grad_())
    through.backward()


def test_backward_reaches_no_tensor_outside_the_compiled_function() -> None:
    w, x = nn.Parameter(number([2.0])), number([3.0]).requires_grad_()

    def loss(x: Any) -> None:
        nc.sum(w * x).backward()

    def captured() -> None:
        loss(x)

    for wrap in (nc.jit, nc.checkpoint, lambda f: lambda x: nc.cond(nc.tensor(True), f, f, x)):
        w.grad = nc.zeros_like(w.value)
        with pytest.raises(GradientError, match="from outside with requires_grad"):
            wrap(loss)(x)
        wrap(loss)(x.detach())
        assert float(w.grad) == 3.0
    with pytest.raises(GradientError, match="from outside with requires_grad"):
        nc.jit(captured)()
    nc.jit(lambda: nc.sum(w * x.detach()).backward())()
    assert x.grad is None


@pytest.mark.parametrize("way", [nc.grad, nc.jacrev, nc.value_and_grad])
def test_backward_on_differentiated_values_is_refused(way: Any) -> None:
    w = nn.Parameter(number([2.0]))

    def f(w: Any) -> Any:
        nc.sum(w**3).backward()
        return nc.sum(w)

    with pytest.raises(GradientError, match="of an enclosing grad, vjp or jacrev"):
        way(f)(w)
    with pytest.raises(GradientError, match="backward"):
        nc.jvp(f, (w,), (number([1.0]),))
    assert w.grad is None


def test_captured_tensors_are_constants() -> None:
    x = number([2.0]).requires_grad_()
    for way in (nc.grad, nc.jacrev, nc.jacfwd):
        assert float(nc.sum(way(lambda _: nc.sum(x**3))(x))) == 0.0


def test_gradients_of_models_leave_no_state() -> None:
    model = Line()
    gc.collect()
    before = len(gc.get_objects())
    for _ in range(20):
        nc.value_and_grad(error)(model, number([2.0]), number([3.0]))
    gc.collect()
    assert len(gc.get_objects()) < before + 200
