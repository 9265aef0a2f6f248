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
def test_norms_are_clipped(norm_type: float, limit: float) -> None:
    parameters, gradients = fresh((3, 4), (), (5,))
    whole = np.concatenate([g.ravel() for g in gradients]).astype(np.float64)
    wanted = np.linalg.norm(whole, norm_type)
    found = optim.clip_grad_norm_(parameters, limit, norm_type)
    assert found.item() == pytest.approx(wanted, rel=1e-6)
    factor = min(1.0, limit / (wanted + 1e-6))
    for p, g in zip(parameters, gradients, strict=True):
        assert p.grad is not None
        np.testing.assert_allclose(p.grad.numpy(), g * factor, rtol=1e-6)


def test_an_infinite_limit_only_measures() -> None:
    parameters, gradients = fresh((3, 4), (5,))
    measured: Any = nc.jit(lambda: optim.clip_grad_norm_(parameters, math.inf))
    wanted = np.linalg.norm(np.concatenate([g.ravel() for g in gradients]))
    for norm in (optim.clip_grad_norm_(parameters, math.inf), measured()):
        assert norm.item() == pytest.approx(wanted, rel=1e-6)
    for p, g in zip(parameters, gradients, strict=True):
        assert p.grad is not None
        np.testing.assert_array_equal(p.grad.numpy(), g)
    for limit in (-1.0, math.nan):
        with pytest.raises(nc.ArgumentError, match="max_norm must be at least 0"):
            optim.clip_grad_norm_(parameters, limit)


@pytest.mark.parametrize("compiled", [False, True])
def test_norms_of_float64_are_float64(compiled: bool) -> None:
    wide, narrow = nn.Parameter(nc.zeros(2, nc.float64)), nn.Parameter(nc.zeros(1))

    def clip() -> nc.Tensor:
        return optim.clip_grad_norm_([wide, narrow], 1.0)

    wide.grad, narrow.grad = nc.tensor([3e20, 4e20], dtype=nc.float64), nc.tensor([1.0])
    norm = (nc.jit(clip) if compiled else clip)()
    assert norm.dtype is nc.float64 and norm.item() == pytest.approx(5e20, rel=1e-15)
    assert wide.grad is not None and wide.grad.tolist() == pytest.approx([0.6, 0.8], rel=1e-15)
    assert narrow.grad is not None and narrow.grad.item() == pytest.approx(2e-21, rel=1e-6)
    wide.grad = nc.tensor([1 / 3, 2 / 3], dtype=nc.float64)
    narrow.grad = None
    assert clip().item() == pytest.approx(np.linalg.norm([1 / 3, 2 / 3]), rel=1e-15)


def test_nan_norms_raise_on_request() -> None:
    parameters, _ = fresh((3,))
    parameters[0].grad = nc.tensor([1.0, math.inf, 0.0])
    with pytest.raises(nc.StateError, match="norm must be finite"):
        optim.clip_grad_norm_(parameters, 1.0, error_if_nonfinite=True)
    assert optim.clip_grad_norm_(parameters, 1.0).item() == math.inf


def test_values_are_clipped_and_missing_gradients_ignored() -> None:
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


HUGE = 10**400


@pytest.mark.parametrize("kind", [lambda o: optim.StepLR(o, 2), optim.ReduceLROnPlateau], ids=["step", "plateau"])
@pytest.mark.parametrize(
    "part",
    [
        {"last_epoch": "x"},
        {"last_epoch": None},
        {"lrs": ["x"]},
        {"lrs": 5},
        {"lrs": [HUGE]},
        {"lrs": [-1.0]},
        {"lrs": [math.nan]},
        {"lrs": []},
        None,
        5,
        "x",
        [],
    ],
    ids=lambda part: repr(part)[:30],
)
def test_any_other_state_is_refused(kind: Callable[[optim.Optimizer], Any], part: Any) -> None:
    schedule = kind(optim.SGD([nn.Parameter([1.0])], lr=0.2))
    before = schedule.state_dict()
    with pytest.raises(nc.StateError, match="must"):
        schedule.load_state_dict({**before, **part} if isinstance(part, dict) else part)
    assert schedule.state_dict() == before
