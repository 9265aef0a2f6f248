"""Optimisers against their formulas in float64, groups, state dicts, and compiled steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nacre as nc
from labels import label
from nacre import nn, optim

START = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)
GRADIENTS = np.random.default_rng(1).normal(size=(7, 4, 3)).astype(np.float32)


def sgd(lr: float, momentum: float = 0, dampening: float = 0, weight_decay: float = 0, nesterov: bool = False) -> Any:
    p, b = START.astype(np.float64), None
    for g in GRADIENTS.astype(np.float64):
        g = g + weight_decay * p
        if momentum:
            b = g if b is None else momentum * b + (1 - dampening) * g
            g = g + momentum * b if nesterov else b
        p = p - lr * g
        yield p


def adam(
    lr: float = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8, weight_decay: float = 0,
    decoupled: bool = False,
) -> Any:  # fmt: skip
    p, m, v = START.astype(np.float64), 0.0, 0.0
    for t, g in enumerate(GRADIENTS.astype(np.float64), 1):
        if decoupled:
            p = p * (1 - lr * weight_decay)
        else:
            g = g + weight_decay * p
        m, v = betas[0] * m + (1 - betas[0]) * g, betas[1] * v + (1 - betas[1]) * g * g
        p = p - lr / (1 - betas[0] ** t) * m / (np.sqrt(v) / np.sqrt(1 - betas[1] ** t) + eps)
        yield p


CASES: list[tuple[Callable[..., Any], Callable[..., Any], dict[str, Any]]] = [
    (optim.SGD, sgd, {"lr": 0.1}),
    (optim.SGD, sgd, {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.1}),
    (optim.SGD, sgd, {"lr": 0.1, "momentum": 0.9, "dampening": 0.5}),
    (optim.SGD, sgd, {"lr": 0.1, "momentum": 0.9, "nesterov": True}),
    (optim.Adam, adam, {"lr": 0.01}),
    (optim.Adam, adam, {"lr": 0.01, "weight_decay": 0.1, "betas": (0.8, 0.99), "eps": 1e-3}),
    (optim.AdamW, lambda **k: adam(**k, decoupled=True), {"lr": 0.01, "weight_decay": 0.3}),
]


def stepped(opt: Any, p: nn.Parameter, compiled: bool, gradients: Any = GRADIENTS) -> list[np.ndarray]:
    def step(g: nc.Tensor) -> None:
        p.grad = g
        opt.step()
        opt.zero_grad()

    run = nc.jit(step) if compiled else step
    seen = []
    for g in gradients:
        run(nc.tensor(g))
        assert p.grad is None
        seen.append(p.numpy().copy())
    if compiled:
        assert len(run.concrete_functions) == 1  # type: ignore[attr-defined]
    return seen


@pytest.mark.parametrize(("kind", "formula", "settings"), CASES, ids=label)
def test_formulas_and_compiled_bits(kind: Any, formula: Any, settings: dict[str, Any]) -> None:
    p, q = nn.Parameter(START), nn.Parameter(START)
    eager = stepped(kind([p], **settings), p, compiled=False)
    for found, wanted in zip(eager, formula(**settings), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(eager, stepped(kind([q], **settings), q, compiled=True))


def test_maximising_negates_the_gradient() -> None:
    p, q = nn.Parameter(START), nn.Parameter(START)
    up = stepped(optim.Adam([p], maximize=True), p, False)
    np.testing.assert_array_equal(up, stepped(optim.Adam([q]), q, False, -GRADIENTS))


def test_rates_change_without_compiling_again() -> None:
    p = nn.Parameter([1.0])
    opt = optim.SGD([p], lr=1.0)

    @nc.jit
    def step(g: nc.Tensor) -> None:
        p.grad = g
        opt.step()

    step(nc.tensor([1.0]))
    opt.param_groups[0]["lr"] = 0.5
    step(nc.tensor([1.0]))
    opt.param_groups[0].update(lr=0.25)
    step(nc.tensor([1.0]))
    assert p.item() == 1 - 1.75 and len(step.concrete_functions) == 1


def test_other_settings_compile_again() -> None:
    p = nn.Parameter([1.0])
    opt = optim.SGD([p], lr=1.0)

    @nc.jit
    def step(g: nc.Tensor) -> None:
        p.grad = g
        opt.step()

    step(nc.tensor([1.0]))
    opt.param_groups[0]["weight_decay"] = 0.5
    step(nc.tensor([0.0]))
    assert p.item() == 0.0 and len(step.concrete_functions) == 2
    p.assign(nc.tensor([4.0]))
    step(nc.tensor([0.0]))
    assert p.item() == 2.0


def test_groups() -> None:
    a, b, c = nn.Parameter([1.0]), nn.Parameter([1.0]), nn.Parameter([1.0])
    opt = optim.SGD([{"params": [a]}, {"params": b, "lr": 0.5}], lr=0.1)
    opt.add_param_group({"params": [c], "weight_decay": 1.0})
    for p in (a, b):
        p.grad = nc.tensor([1.0])
    opt.step()
    np.testing.assert_allclose([a.item(), b.item(), c.item()], [0.9, 0.5, 1.0])
    opt.zero_grad(set_to_none=False)
    assert a.grad is not None and a.grad.tolist() == [0.0] and c.grad is None


def test_half_types_update_in_float32() -> None:
    p = nn.Parameter(nc.ones(3, nc.bfloat16))
    opt = optim.AdamW([p], lr=0.1)
    p.grad = nc.ones(3, nc.bfloat16)
    opt.step()
    assert p.dtype is nc.bfloat16 and opt.state[p]["exp_avg_sq"].dtype is nc.float32
    assert p.value.astype(nc.float32).tolist() == pytest.approx([0.8984375] * 3)


@pytest.mark.parametrize(("kind", "formula", "settings"), CASES, ids=label)
def test_state_dicts_continue_where_they_were(kind: Any, formula: Any, settings: dict[str, Any]) -> None:
    p = nn.Parameter(START)
    opt = kind([p], **settings)
    whole = stepped(opt, p, False)
    p = nn.Parameter(START)
    opt = kind([p], **settings)
    stepped(opt, p, False, GRADIENTS[:3])
    q = nn.Parameter(p.value)
    other = kind([q], lr=99.0)
    other.load_state_dict(opt.state_dict())
    np.testing.assert_array_equal(stepped(other, q, False, GRADIENTS[3:]), whole[3:])


def test_a_closure_returns_the_loss() -> None:
    p = nn.Parameter([2.0])
    opt = optim.SGD([p], lr=0.25)

    def closure() -> nc.Tensor:
        opt.zero_grad()
        loss = (p * p).sum()
        loss.backward()
        return loss

    assert opt.step(closure).item() == 4.0 and p.item() == 1.0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda p: optim.SGD([]), "at least one"), (lambda p: optim.SGD([p], lr=-1.0), "not negative"),
        (lambda p: optim.SGD([p, p]), "once"), (lambda p: optim.SGD([p], nesterov=True), "nesterov"),
        (lambda p: optim.Adam([p], betas=(1.0, 0.9)), "betas"), (lambda p: optim.SGD([nc.ones(1)]), "Tensor"),
        (lambda p: optim.SGD([{"params": [p], "speed": 1}]), "speed"),
        (lambda p: optim.SGD([p]).load_state_dict({"state": {}, "param_groups": []}), "groups"),
    ],
    ids=label,
)  # fmt: skip
def test_errors(make: Callable[[nn.Parameter], Any], message: str) -> None:
    with pytest.raises(nc.Error, match=message):
        make(nn.Parameter([1.0]))
