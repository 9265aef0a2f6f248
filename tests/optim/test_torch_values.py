"""Optimisers step by step, and schedules, against PyTorch's results, which `write_torch_values.py` wrote."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nacre as nc
from nacre import nn, optim

HERE = Path(__file__).parent
SPEC = importlib.util.spec_from_file_location("optim_torch_cases", HERE / "torch_cases.py")
assert SPEC is not None and SPEC.loader is not None
cases = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(cases)
EXPECTED: dict[str, Any] = json.loads((HERE / "torch_values.json").read_text())


def walk(line: str, compiled: bool, dtype: Any = np.float64) -> tuple[list[np.ndarray], Any]:
    p = nn.Parameter(cases.START.astype(dtype))
    o = eval(line, {"optim": optim, "p": p})

    def step(g: nc.Tensor) -> None:
        p.grad = g
        o.step()

    run = nc.jit(step) if compiled else step
    seen = []
    for g in cases.GRADIENTS:
        run(nc.tensor(g.astype(dtype)))
        seen.append(p.numpy().copy())
    assert not compiled or len(run.concrete_functions) == 1  # type: ignore[attr-defined]
    return seen, o


@pytest.mark.parametrize("line", cases.OPTIMISERS)
def test_steps_are_those_of_torch(line: str) -> None:
    found, _ = walk(line, compiled=False)
    bound = 1e-7 if "NAdam" in line else 1e-12  # PyTorch keeps the product of momenta in float32
    for k, (a, b) in enumerate(zip(found, EXPECTED[line], strict=True)):
        np.testing.assert_allclose(a.ravel(), b, rtol=bound, atol=bound, err_msg=f"step {k}")


MORE = ["optim.Lion([p], lr=0.1, weight_decay=0.1)", "optim.LAMB([p], lr=0.1, weight_decay=0.1)"]


@pytest.mark.parametrize("line", [*cases.OPTIMISERS[1::2], *MORE])
def test_compiled_bits_are_the_eager_ones(line: str) -> None:
    for a, b in zip(walk(line, True, np.float32)[0], walk(line, False, np.float32)[0], strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("line", [*cases.OPTIMISERS[1::2], *MORE])
def test_state_dicts_continue(line: str) -> None:
    whole, o = walk(line, compiled=False)
    p = nn.Parameter(whole[-1])
    again = eval(line, {"optim": optim, "p": p})
    again.load_state_dict(o.state_dict())
    (own,) = o.param_groups[0].params
    for q in (own, p):
        q.grad = nc.tensor(cases.GRADIENTS[0])
    o.step()
    again.step()
    np.testing.assert_array_equal(own.numpy(), p.numpy())


def lion(p: np.ndarray) -> Any:
    m = np.zeros_like(p)
    for g in cases.GRADIENTS:
        p = p - 0.1 * 0.1 * p - 0.1 * np.sign(0.9 * m + 0.1 * g)
        m = 0.99 * m + 0.01 * g
        yield p


def lamb(p: np.ndarray) -> Any:
    m, v = np.zeros_like(p), np.zeros_like(p)
    for t, g in enumerate(cases.GRADIENTS, 1):
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        step = m / (1 - 0.9**t) / (np.sqrt(v / (1 - 0.999**t)) + 1e-6) + 0.1 * p
        p = p - 0.1 * np.linalg.norm(p) / np.linalg.norm(step) * step
        yield p


@pytest.mark.parametrize(("line", "formula"), [(MORE[0], lion), (MORE[1], lamb)])
def test_formulas(line: str, formula: Any) -> None:
    for a, b in zip(walk(line, compiled=False)[0], formula(cases.START), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)


# ---- schedules


@pytest.mark.parametrize("line", cases.SCHEDULES)
def test_rates_are_those_of_torch(line: str) -> None:
    o = optim.SGD([nn.Parameter(cases.START)], lr=0.2, momentum=0.5)
    schedule = eval(line, {"S": optim, "o": o})
    for k, (rate, momentum) in enumerate(EXPECTED[line]):
        group = o.param_groups[0]
        assert (group["lr"], group["momentum"]) == pytest.approx((rate, momentum), rel=1e-9), k
        assert group.rate.value.item() == group["lr"]
        schedule.step()


@pytest.mark.parametrize("resumed", [False, True])
@pytest.mark.parametrize("line", cases.TOGETHER)
def test_schedules_together_are_those_of_torch(line: str, resumed: bool) -> None:
    def made() -> tuple[optim.Optimizer, tuple[Any, ...]]:
        o = optim.SGD([{"params": [nn.Parameter([1.0])]}, {"params": [nn.Parameter([1.0])], "lr": 0.5}], lr=0.2)
        return o, eval(line, {"S": optim, "o": o})

    o, schedules = made()
    for k, (measure, rates) in enumerate(zip(cases.MEASURES, EXPECTED[line], strict=True)):
        assert [group["lr"] for group in o.param_groups] == pytest.approx(rates, rel=1e-9, abs=1e-15), k
        for schedule in schedules:
            schedule.step(*[measure] * isinstance(schedule, optim.ReduceLROnPlateau))
        if k == cases.HALVED:
            o.param_groups[0]["lr"] *= 0.5
        if resumed:
            before, (o, others) = [group["lr"] for group in o.param_groups], made()
            for other, schedule in zip(others, schedules, strict=True):
                other.load_state_dict(schedule.state_dict())
            schedules = others
            assert [group["lr"] for group in o.param_groups] == before


def test_schedules_take_only_the_state_of_their_kind_and_groups() -> None:
    one, two = (optim.SGD([{"params": [nn.Parameter([1.0])]} for _ in range(n)], lr=0.2) for n in (1, 2))
    cosine = optim.CosineAnnealingLR(one, 5)
    wrong = [optim.ExponentialLR(two, 0.9).state_dict(), optim.CosineAnnealingLR(two, 5).state_dict(), {}, None]
    for saved in [*wrong, optim.ReduceLROnPlateau(one).state_dict()]:
        with pytest.raises(nc.StateError, match=r"CosineAnnealingLR\.load_state_dict"):
            cosine.load_state_dict(saved)
    for saved in [cosine.state_dict(), optim.ReduceLROnPlateau(two).state_dict()]:
        with pytest.raises(nc.StateError, match=r"ReduceLROnPlateau\.load_state_dict"):
            optim.ReduceLROnPlateau(one).load_state_dict(saved)
    with pytest.raises(nc.ArgumentError, match="not need a monitored value"):
        optim.SequentialLR(one, [optim.ReduceLROnPlateau(one)], [])  # type: ignore[list-item]


def test_a_group_that_was_added_later_is_scheduled_from_its_own_rate() -> None:
    o = optim.SGD([nn.Parameter([1.0])], lr=0.2)
    halving, each = optim.ExponentialLR(o, 0.5), optim.LambdaLR(o, [lambda epoch: 1.0])
    halving.step()
    o.add_param_group({"params": [nn.Parameter([1.0])], "lr": 1.0})
    halving.step()
    assert [group["lr"] for group in o.param_groups] == [0.05, 0.5]
    with pytest.raises(nc.ArgumentError, match="added later"):
        each.step()


@pytest.mark.parametrize("line", cases.PLATEAUS)
def test_plateaus_are_those_of_torch(line: str) -> None:
    o = optim.SGD([nn.Parameter(cases.START)], lr=0.2)
    schedule = eval(line, {"S": optim, "o": o})
    for k, (measure, rate) in enumerate(zip(cases.MEASURES, EXPECTED[line], strict=True)):
        if k == 8:
            other = eval(line, {"S": optim, "o": o})
            other.load_state_dict(schedule.state_dict())
            schedule = other
        schedule.step(nc.tensor(measure))
        assert o.param_groups[0]["lr"] == pytest.approx(rate, rel=1e-12), k


@pytest.mark.parametrize("kind", ["SGD([p], lr=0.2, momentum=0.5)", "Adam([p], lr=0.2)"])
def test_momenta_move_without_compiling_again(kind: str) -> None:
    def train(compiled: bool) -> np.ndarray:
        p = nn.Parameter(cases.START.astype(np.float32))
        o = eval(f"optim.{kind}", {"optim": optim, "p": p})
        schedule = optim.OneCycleLR(o, 0.3, total_steps=9)

        def step(g: nc.Tensor) -> None:
            p.grad = g
            o.step()

        run = nc.jit(step) if compiled else step
        for g in cases.GRADIENTS[:8]:
            run(nc.tensor(g.astype(np.float32)))
            schedule.step()
        assert not compiled or len(run.concrete_functions) == 1  # type: ignore[attr-defined]
        return p.numpy()

    np.testing.assert_array_equal(train(True), train(False))


# ---- line searches


@pytest.mark.parametrize("line", cases.SEARCHES)
@pytest.mark.parametrize("compiled", [False, True])
def test_searches_are_those_of_torch(line: str, compiled: bool) -> None:
    p = nn.Parameter(cases.START)
    o = eval(line, {"optim": optim, "p": p})

    def closure() -> nc.Tensor:
        o.zero_grad()
        loss = cases.valley(p)
        loss.backward()
        return loss

    for wanted in EXPECTED[line]:
        o.step(nc.jit(closure) if compiled else closure)
        np.testing.assert_allclose(p.numpy().ravel(), wanted, rtol=1e-6, atol=1e-8)
    q = nn.Parameter(p.value)
    again = eval(line, {"optim": optim, "p": q})
    again.load_state_dict(o.state_dict())
    assert again.memory.steps == o.memory.steps


def test_a_traced_search_says_what_to_do() -> None:
    p = nn.Parameter([1.0])
    o = optim.LBFGS([p])
    with pytest.raises(nc.TraceError, match="closure can be"):
        nc.jit(lambda: o.step(lambda: (p * p).sum()))()
    with pytest.raises(nc.ArgumentError, match="closure"):
        o.step()
