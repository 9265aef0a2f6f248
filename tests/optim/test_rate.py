"""Schedules and clipping."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nacre as nc
from nacre import nn, optim


def fresh(*shapes: tuple[int, ...]) -> tuple[list[nn.Parameter], list[np.ndarray]]:
    gradients = [np.random.default_rng(k).normal(size=s).astype("f") for k, s in enumerate(shapes)]
    parameters = [nn.Parameter(nc.zeros(s)) for s in shapes]
    for p, g in zip(parameters, gradients, strict=True):
        p.grad = nc.tensor(g)
    return parameters, gradients


@pytest.mark.parametrize("norm_type", [1.0, 2.0, 2.5, math.inf])
@pytest.mark.parametrize("limit", [0.5, 1e6])
def test_norms_are_limited(norm_type: float, limit: float) -> None:
    parameters, gradients = fresh((3, 4), (), (5,))
    whole = np.concatenate([g.ravel() for g in gradients]).astype(np.float64)
    wanted = np.linalg.norm(whole, norm_type)
    found = optim.clip_grad_norm_(parameters, limit, norm_type)
    assert found.item() == pytest.approx(wanted, rel=1e-6)
    factor = min(1.0, limit / (wanted + 1e-6))
    for p, g in zip(parameters, gradients, strict=True):
        assert p.grad is not None
        np.testing.assert_allclose(p.grad.numpy(), g * factor, rtol=1e-6)


def test_norms_that_are_no_numbers_are_told_on_demand() -> None:
    parameters, _ = fresh((3,))
    parameters[0].grad = nc.tensor([1.0, math.inf, 0.0])
    with pytest.raises(nc.StateError, match="finite norm"):
        optim.clip_grad_norm_(parameters, 1.0, error_if_nonfinite=True)
    assert optim.clip_grad_norm_(parameters, 1.0).item() == math.inf


def test_values_are_limited_and_missing_gradients_are_left() -> None:
    parameters, gradients = fresh((20,))
    optim.clip_grad_value_([*parameters, nn.Parameter([1.0])], 0.5)
    assert parameters[0].grad is not None
    np.testing.assert_array_equal(parameters[0].grad.numpy(), np.clip(gradients[0], -0.5, 0.5))
    assert optim.clip_grad_norm_([nn.Parameter([1.0])], 1.0).item() == 0.0


SCHEDULES: list[tuple[Callable[[optim.Optimizer], Any], Callable[[int], float]]] = [
    (lambda o: optim.StepLR(o, 3, 0.5), lambda k: 0.2 * 0.5 ** (k // 3)),
    (lambda o: optim.CosineAnnealingLR(o, 7, 0.01), lambda k: 0.01 + 0.095 * (1 + math.cos(math.pi * k / 7))),
    (lambda o: optim.LambdaLR(o, optim.warm_up(4, lambda k: 0.9**k)),
     lambda k: 0.2 * ((k + 1) / 4 if k < 4 else 0.9 ** (k - 4))),
]  # fmt: skip


@pytest.mark.parametrize(("make", "formula"), SCHEDULES, ids=["step", "cosine", "lambda"])
def test_schedules(make: Callable[[optim.Optimizer], Any], formula: Callable[[int], float]) -> None:
    opt = optim.SGD([nn.Parameter([1.0])], lr=0.2)
    schedule = make(opt)
    for k in range(20):
        assert opt.param_groups[0]["lr"] == pytest.approx(formula(k), rel=1e-12)
        assert opt.param_groups[0].rate.value.item() == opt.param_groups[0]["lr"] == schedule.get_last_lr()[0]
        if k == 9:
            other = make(optim.SGD([nn.Parameter([1.0])], lr=0.2))
            other.load_state_dict(schedule.state_dict())
            assert other.get_last_lr() == schedule.get_last_lr()
        schedule.step()


@pytest.mark.parametrize(
    "make",
    [
        lambda o: optim.StepLR(o, 0), lambda o: optim.CosineAnnealingLR(o, 0), lambda o: optim.LambdaLR(o, []),
        lambda o: optim.warm_up(0), lambda o: optim.clip_grad_norm_([], 1.0, 0.0),
        lambda o: optim.clip_grad_value_([], -1.0),
    ],
)  # fmt: skip
def test_errors(make: Callable[[optim.Optimizer], Any]) -> None:
    with pytest.raises(nc.ArgumentError):
        make(optim.SGD([nn.Parameter([1.0])]))
