"""Backward hooks get the gradients of results and arguments, eagerly and traced; their results replace gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nacre as nc
from nacre import nn


class Two(nn.Module):
    """Two arguments, two results."""

    def forward(self, x: Any, y: Any, factor: float = 2.0) -> Any:
        return x + y, {"product": x * y * factor}


def heard(module: nn.Module) -> list[tuple[Any, Any]]:
    seen: list[tuple[Any, Any]] = []
    module.register_full_backward_hook(lambda _, inner, outer: seen.append((inner, outer)))
    return seen


def test_a_hook_gets_the_gradients_of_results_and_arguments() -> None:
    layer = nn.Linear(3, 2)
    seen = heard(layer)
    x = nc.random.normal((4, 3)).requires_grad_()
    scale = nc.random.normal((4, 2))
    (layer(x) * scale).sum().backward()
    ((inner,), (outer,)) = seen[0]
    assert len(seen) == 1
    np.testing.assert_array_equal(outer.numpy(), scale.numpy())
    np.testing.assert_array_equal(inner.numpy(), x.grad.numpy())


def test_several_arguments_and_results() -> None:
    two = Two()
    seen = heard(two)
    x, y = nc.tensor([1.0, 2.0]).requires_grad_(), nc.tensor([3.0, 4.0])
    two(x, y, factor=3.0)[1]["product"].sum().backward()
    (inner, outer) = seen[0]
    assert inner[0].tolist() == [9.0, 12.0] and inner[1] is None  # y requires none
    assert outer[0] is None and outer[1].tolist() == [1.0, 1.0]


def test_without_a_gradient_at_the_arguments_it_is_called_at_the_results() -> None:
    layer = nn.Linear(3, 2)
    seen = heard(layer)
    layer(nc.ones((1, 3))).sum().backward()
    assert seen[0][0] == (None,) and seen[0][1][0].tolist() == [[1.0, 1.0]]


def test_nothing_is_called_without_gradients() -> None:
    layer = nn.Linear(3, 2)
    seen = heard(layer)
    with nc.no_grad():
        layer(nc.ones((1, 3)))
    assert not seen and layer(nc.ones((1, 3))).requires_grad


def test_results_of_hooks_replace_gradients() -> None:
    layer = nn.Linear(2, 2, bias=False)
    layer.register_full_backward_pre_hook(lambda _, outer: outer[0] * 3)
    layer.register_full_backward_hook(lambda _, inner, outer: (inner[0] + outer[0],))
    last = layer.register_full_backward_hook(lambda _, inner, outer: [inner[0] * 10])
    x = nc.tensor([[1.0, -1.0]]).requires_grad_()
    layer(x).sum().backward()
    w = layer.weight.value.numpy()
    np.testing.assert_allclose(x.grad.numpy(), 10 * (3 * w.sum(0, keepdims=True) + 3), rtol=1e-6)
    np.testing.assert_allclose(layer.weight.grad.numpy(), 3 * np.array([[1.0, -1.0]] * 2))
    last.remove()
    x.grad = None
    layer(x).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 3 * w.sum(0, keepdims=True) + 3, rtol=1e-6)


def test_gradients_of_other_types_are_refused() -> None:
    layer = nn.Identity()
    handle = layer.register_full_backward_hook(lambda _, inner, outer: (nc.ones(3),))
    x = nc.ones(2).requires_grad_()
    with pytest.raises(nc.GradientError, match=r"full_backward_hook: .* must return .* \(f32\[2\]\); got \(f32\[3\]\)"):
        layer(x).sum().backward()
    handle.remove()
    layer.register_full_backward_pre_hook(lambda _, outer: ())
    with pytest.raises(nc.GradientError, match="full_backward_pre_hook"):
        layer(x).sum().backward()


def test_compiled_steps_have_the_same_bits() -> None:
    def make() -> tuple[nn.Module, Any]:
        nc.random.seed(0)
        model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
        model[1].register_full_backward_hook(lambda _, inner, outer: (nc.clip(inner[0], -0.01, 0.01),))

        def step(x: Any) -> Any:
            loss = (model(x) ** 2).mean()
            loss.backward()
            return loss

        return model, step

    x = nc.random.normal((5, 4))
    (one, plain), (two, traced) = make(), make()
    assert plain(x).item() == nc.jit(traced)(x).item()
    for p, q in zip(one.parameters(), two.parameters(), strict=True):
        np.testing.assert_array_equal(p.grad.numpy(), q.grad.numpy())


def test_functional_derivatives_call_hooks() -> None:
    layer = nn.Identity()
    layer.register_full_backward_hook(lambda _, inner, outer: (inner[0] * 2,))

    def f(x: Any) -> Any:
        return (layer(x) ** 2).sum()

    x = nc.tensor([1.0, 3.0])
    assert nc.grad(f)(x).tolist() == [4.0, 12.0]
    assert nc.jit(nc.grad(f))(x).tolist() == [4.0, 12.0]
    assert nc.vmap(nc.grad(f))(nc.stack([x, x])).tolist() == [[4.0, 12.0]] * 2
    held = x.requires_grad_()
    y = f(held)
    y.backward(retain_graph=True)
    y.backward()
    assert held.grad.tolist() == [8.0, 24.0]


def test_gradients_of_gradients_go_through_hooks() -> None:
    layer = nn.Identity()
    layer.register_full_backward_hook(lambda _, inner, outer: (inner[0] * 2,))

    def f(x: Any) -> Any:
        return (layer(x) ** 3).sum()

    def norm(x: Any) -> Any:
        return (nc.grad(f)(x) ** 2).sum()

    x = nc.tensor([2.0])
    gradient = nc.grad(f)(x).item()
    assert gradient == 24.0
    step = 1e-3
    slope = (norm(x + step).item() - norm(x - step).item()) / (2 * step)
    assert abs(nc.jvp(norm, (x,), (nc.ones(1),))[1].item() / slope - 1) < 1e-2
