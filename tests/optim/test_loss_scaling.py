"""GradScaler: planned overflows are skipped, the scale follows, and the state survives saving."""

from __future__ import annotations

from math import inf, nan
from typing import Any

import numpy as np
import pytest

import nacre as nc
from labels import label
from nacre import data, nn, optim, train
from same_bits import canonical

F = nn.functional
PLANNED = (0, 5, 6)
KINDS = [optim.SGD, optim.AdamW, optim.NAdam, optim.RAdam, optim.Adagrad, optim.LAMB]


def run(kind: Any, compiled: bool, clipped: bool, overflow: float = inf, count: int = 12, scale: float = 1024.0) -> Any:
    """A training in float16 with overflows in planned steps: losses and scales, weights, and state of the optimiser."""
    nc.random.seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
    opt, scaler = kind(model.parameters(), lr=0.05), optim.GradScaler(scale, growth_interval=3)
    x = nc.random.normal((16, 8))
    y = x.sum(axis=1, keepdims=True)

    def step(factor: Any) -> Any:
        with nc.autocast(nc.float16):
            loss = F.mse_loss(model(x), y)
        scaler.scale(loss * factor).backward()
        if clipped:
            scaler.unscale_(opt)
            optim.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(opt)
        scaler.update()
        opt.zero_grad()
        return loss

    work = nc.jit(step) if compiled else step
    log: list[tuple[float, float]] = []
    for k in range(count):
        loss = work(nc.tensor(overflow if k in PLANNED else 1.0, dtype=nc.float32))
        log.append((loss.item(), scaler.get_scale()))
    weights = [canonical(p.value) for p in model.parameters()]
    state = [{k: canonical(v) for k, v in held.items()} for held in opt.state_dict()["state"].values()]
    return log, weights, state, scaler.state_dict(), opt


@pytest.mark.parametrize("clipped", [False, True])
@pytest.mark.parametrize("kind", KINDS, ids=label)
def test_overflows_are_skipped_with_the_same_bits_eagerly_and_compiled(kind: Any, clipped: bool) -> None:
    eager, compiled = (run(kind, c, clipped) for c in (False, True))
    assert eager[:4] == compiled[:4]
    log, _, _, _, opt = eager
    scales = [scale for _, scale in log]
    wanted = [512, 512, 512, 1024, 1024, 512, 256, 256, 256, 512, 512, 512]
    assert scales == wanted
    for k in PLANNED:
        assert k + 1 == len(log) or log[k + 1][0] == log[k][0] or k == 5  # the weights are those of before
    assert all(int(held["step"]) == 9 for held in opt.state_dict()["state"].values())
    assert log[-1][0] < log[0][0]


def test_nan_is_an_overflow_too() -> None:
    assert run(optim.SGD, True, False)[0] == run(optim.SGD, True, False, nan)[0]


def test_scaling_changes_no_bits_of_steps_without_overflow() -> None:
    """Powers of two are exact, as long as nothing underflows."""
    without = [run(optim.SGD, False, False, 1.0, 2, scale)[1] for scale in (1024.0, 4096.0)]
    assert without[0] == without[1]


def test_small_gradients_survive_in_float16() -> None:
    """1e-8 is zero in float16; times the scale, it is not."""
    w = nn.Parameter([1.0])
    x = nc.full((1, 1), 1.0)

    def gradient(scaler: optim.GradScaler) -> float:
        w.grad = None
        with nc.autocast(nc.float16):
            y = x @ w.reshape(1, 1)
        loss = y.astype(nc.float32).sum() * 1e-8
        scaler.scale(loss).backward()
        scaler.unscale_(optim.SGD([w], lr=1.0))
        return w.grad.item()

    assert gradient(optim.GradScaler(enabled=False)) == 0.0
    assert gradient(optim.GradScaler()) == pytest.approx(1e-8, rel=1e-3)


def test_two_optimisers_share_a_scale() -> None:
    a, b = nn.Parameter([1.0]), nn.Parameter([1.0])
    first, second, scaler = optim.SGD([a], lr=0.5), optim.SGD([b], lr=0.5), optim.GradScaler(8.0)
    scaler.scale((a * inf).sum() + (b * 1.0).sum()).backward()
    for opt in (first, second):
        scaler.step(opt)
    scaler.update()
    assert (a.item(), b.item(), scaler.get_scale()) == (1.0, 0.5, 4.0)


def test_gradients_are_unscaled_once() -> None:
    w = nn.Parameter([1.0])
    opt, scaler = optim.SGD([w], lr=0.5), optim.GradScaler(8.0)

    @nc.jit
    def unscale() -> None:
        scaler.scale((w * 3.0).sum()).backward()
        scaler.unscale_(opt)

    unscale()
    assert w.grad.tolist() == [3.0]
    with pytest.raises(nc.StateError, match="once"):
        scaler.unscale_(opt)
    scaler.step(opt)  # outside of the compiled function, whose unscaling Python does not see
    assert w.tolist() == [-0.5]
    scaler.update()
    opt.zero_grad()
    unscale()

    @nc.jit
    def step() -> None:
        scaler.step(opt)
        scaler.update()

    step()
    assert w.tolist() == [-2.0]


SETTINGS = {"growth_factor": 8.0, "backoff_factor": 0.25, "growth_interval": 1}


@pytest.mark.parametrize("how", ["attributes", "methods", "state"])
def test_new_settings_reach_compiled_steps_without_a_new_variant(how: str) -> None:
    def scales(compiled: bool) -> list[float]:
        w = nn.Parameter([1.0])
        opt, scaler = optim.SGD([w], lr=0.1), optim.GradScaler(4.0)

        def step(factor: Any) -> None:
            scaler.scale((w * factor).sum()).backward()
            scaler.step(opt)
            scaler.update()
            opt.zero_grad()

        work: Any = nc.jit(step) if compiled else step
        for _ in range(2):  # the second call finds state of the optimiser
            work(nc.tensor(1.0))
        variants = len(work.concrete_functions) if compiled else 0
        if how == "state":
            scaler.load_state_dict({**scaler.state_dict(), **SETTINGS})
        for name, value in SETTINGS.items() if how != "state" else ():
            setattr(scaler, name, value) if how == "attributes" else getattr(scaler, f"set_{name}")(value)
        assert {name: getattr(scaler, f"get_{name}")() for name in SETTINGS} == SETTINGS
        found: list[float] = []
        for factor in (1.0, inf, 1.0):
            work(nc.tensor(factor))
            found.append(scaler.get_scale())
        assert not compiled or len(work.concrete_functions) == variants
        return found

    assert scales(False) == scales(True) == [32.0, 8.0, 64.0]


def test_settings_may_be_set_in_a_compiled_function() -> None:
    scaler = optim.GradScaler(4.0, growth_factor=0.1 + 1)

    @nc.jit
    def faster() -> None:
        scaler.growth_interval = 1
        scaler.update()

    faster()
    assert (scaler.growth_interval, scaler.growth_factor) == (1, 1.1)
    assert scaler.get_scale() == np.float32(4.0) * np.float32(1.1)
    with pytest.raises(nc.ArgumentError, match="growth_interval"):
        scaler.set_growth_interval(0)
    with pytest.raises(nc.ArgumentError, match="backoff_factor"):
        scaler.backoff_factor = 2.0
    with pytest.raises(nc.ArgumentError, match="growth_interval"):
        optim.GradScaler(growth_interval=2**63)
    with pytest.raises(nc.ArgumentError, match="update: new_scale"):
        scaler.update(0.0)
    with pytest.raises(nc.ArgumentError, match="load_state_dict: scale"):
        scaler.load_state_dict({**scaler.state_dict(), "scale": inf})


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("first", ["step", "unscale_", "both"])
@pytest.mark.parametrize("second", ["step", "unscale_"])
def test_a_forgotten_update_is_an_error_that_changes_nothing(compiled: bool, first: str, second: str) -> None:
    w = nn.Parameter([1.0])
    opt, scaler = optim.SGD([w], lr=0.5), optim.GradScaler(1024.0)

    def gradients(factor: float) -> None:
        opt.zero_grad()
        scaler.scale((w * factor).sum()).backward()

    def begin() -> None:
        gradients(2.0)
        for name in ("unscale_", "step") if first == "both" else (first,):
            getattr(scaler, name)(opt)

    def again() -> None:
        gradients(1.0)
        getattr(scaler, second)(opt)

    one, two = (nc.jit(f) if compiled else f for f in (begin, again))
    one()
    before = w.tolist()
    if (first, second) == ("unscale_", "step"):
        scaler.step(opt)  # once is right
        assert w.tolist() == [0.0]
        before = [0.0]
    for _ in range(2):
        with pytest.raises(nc.StateError, match=rf"{second}: .* between two calls of update"):
            two()
        assert w.tolist() == before
    scaler.update()
    two()
    assert second == "unscale_" or w.tolist() == [before[0] - 0.5]


def test_two_steps_of_one_compiled_function_need_an_update_between_them() -> None:
    w = nn.Parameter([1.0])
    opt, scaler = optim.SGD([w], lr=0.5), optim.GradScaler(1024.0)

    @nc.jit
    def two() -> None:
        for _ in range(2):
            scaler.scale((w * 1.0).sum()).backward()
            scaler.step(opt)
        scaler.update()

    with pytest.raises(nc.StateError, match=r"GradScaler\.step"):
        two()
    assert w.tolist() == [1.0]


def test_the_scale_has_bounds() -> None:
    w = nn.Parameter([1.0])
    opt, scaler = optim.SGD([w], lr=0.5), optim.GradScaler(2.0**-126)
    w.grad = nc.tensor([inf])
    scaler.step(opt)
    scaler.update()
    assert scaler.get_scale() == 2.0**-126
    high = optim.GradScaler(2.0**126, growth_interval=1)
    high.update()
    assert high.get_scale() == 2.0**126


def test_states_are_saved_and_loaded() -> None:
    _, _, _, saved, _ = run(optim.SGD, True, False)
    assert saved == {
        "scale": 512.0, "growth_factor": 2.0, "backoff_factor": 0.5, "growth_interval": 3, "_growth_tracker": 2,
    }  # fmt: skip
    scaler = optim.GradScaler()
    scaler.load_state_dict(saved)
    assert scaler.state_dict() == saved
    with pytest.raises(nc.StateError, match="scale is missing"):
        scaler.load_state_dict({})
    with pytest.raises(nc.ArgumentError, match="growth_factor"):
        scaler.load_state_dict({**saved, "growth_factor": 0.5})
    assert scaler.state_dict() == saved


def test_bad_input_is_refused() -> None:
    for settings in ({"init_scale": 0.0}, {"growth_factor": 1.0}, {"backoff_factor": 1.0}, {"growth_interval": 0}):
        with pytest.raises(nc.ArgumentError, match=next(iter(settings))):
            optim.GradScaler(**settings)  # type: ignore[arg-type]
    for arguments, settings in ((("cuda",), {}), (("cuda",), {"init_scale": 2.0}), ((), {"device": "cuda"})):
        with pytest.raises(nc.KindError, match=r"without a device|leave this out"):
            optim.GradScaler(*arguments, **settings)  # type: ignore[arg-type]
    scaler = optim.GradScaler()
    with pytest.raises(nc.KindError, match="an optimiser"):
        scaler.step(nn.Linear(2, 2))  # type: ignore[arg-type]
    with pytest.raises(nc.DTypeError, match="floating-point"):
        scaler.scale(nc.tensor(1))
    half = nn.Parameter(nc.ones(2, dtype=nc.float16))
    half.grad = nc.ones(2, dtype=nc.float16)
    with pytest.raises(nc.DTypeError, match="float32 or wider"):
        scaler.unscale_(optim.SGD([half], lr=0.1))


def test_without_scaling_it_only_steps() -> None:
    w = nn.Parameter([1.0])
    opt, scaler = optim.SGD([w], lr=0.5), optim.GradScaler(enabled=False)
    scaler.scale((w * 2.0).sum()).backward()
    scaler.unscale_(opt)
    scaler.step(opt)
    scaler.update()
    assert (w.tolist(), scaler.get_scale(), scaler.state_dict()) == ([0.0], 1.0, {})


def fit(precision: Any, jit: bool = True, epochs: int = 3, resume: bool = False, **settings: Any) -> Any:
    nc.random.seed(0)
    x = nc.random.normal((64, 4))
    loader = data.DataLoader(data.TensorDataset(x, (x[:, 0] > 0).astype(nc.int64)), batch_size=16, shuffle=True)
    model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))
    trainer = train.Trainer(
        model, optim.Adam(model.parameters(), lr=0.05), F.cross_entropy, precision=precision, jit=jit, progress=False,
        clip_norm=1.0, **settings,
    )  # fmt: skip
    history = trainer.fit(loader, loader, epochs=epochs, resume=resume)
    return history[-1], [canonical(p.value) for p in model.parameters()]


@pytest.mark.parametrize("precision", ["bfloat16", nc.float16])
def test_trainer_trains_in_low_precision(precision: Any, tmp_path: Any) -> None:
    row, weights = fit(precision)
    assert fit(precision, jit=False)[1] == weights
    assert row["loss"] == pytest.approx(fit("float32")[0]["loss"], rel=0.05)
    assert np.isfinite(row["gradient_norm"]) and ("loss_scale" in row) == (precision is nc.float16)
    fit(precision, epochs=1, out=tmp_path)
    assert fit(precision, resume=True, out=tmp_path)[1] == weights
    with pytest.raises(nc.StateError, match="precision"):
        fit("float32", epochs=4, resume=True, out=tmp_path)


@pytest.mark.parametrize(
    ("given", "remedy"), [("float64", "bfloat16"), ("fp16", "float16"), (None, "bfloat16"), (3, "bfloat16")]
)
def test_trainer_refuses_other_precisions(given: Any, remedy: str) -> None:
    wanted = f'must be float32, bfloat16 or float16; got .*; write precision="{remedy}"'
    with pytest.raises(nc.ArgumentError, match=wanted):
        fit(given)


def test_history_has_the_last_loss_scale() -> None:
    nc.random.seed(0)
    x = nc.random.normal((64, 4))
    loader = data.DataLoader(data.TensorDataset(x, nc.zeros((64, 1))), batch_size=16)
    model = nn.Linear(4, 1)
    trainer = train.Trainer(
        model, optim.SGD(model.parameters(), lr=0.1), lambda y, t: F.mse_loss(y, t) * 1e4, precision="float16",
        progress=False,
    )  # fmt: skip
    row = trainer.fit(loader, epochs=1)[-1]  # each of the four updates overflows
    assert row["loss_scale"] == 65536.0 / 8


def test_messages_name_what_is_wrong() -> None:
    scaler = optim.GradScaler()
    with pytest.raises(nc.ArgumentError, match=r"GradScaler.update: new_scale must be from"):
        scaler.update(0.0)
    with pytest.raises(nc.ArgumentError, match=r"GradScaler.load_state_dict: scale must be .*; got 'a'"):
        scaler.load_state_dict({**scaler.state_dict(), "scale": "a"})
    p = nn.Parameter([1.0])
    with pytest.raises(nc.DTypeError, match=r"grad: the gradient .*got bf16\[1\]; convert it with astype"):
        p.grad = nc.ones(1, dtype=nc.bfloat16)
