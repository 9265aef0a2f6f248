"""Loaded states: complete or refused, with the reason; PyTorch's L-BFGS continues."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nacre as nc
from nacre import nn, optim

EXPECTED: dict[str, Any] = json.loads(Path(__file__).with_name("torch_values.json").read_text())


def stepped(kind: Any, shape: tuple[int, ...] = (2,), steps: int = 2, **settings: Any) -> Any:
    p = nn.Parameter(nc.ones(shape))
    o = kind([p], **settings)
    for k in range(steps):
        p.grad = nc.full(shape, 0.5 + k)
        o.step()
    return o


def facts(o: Any) -> str:
    """All of an optimiser as text."""

    def plain(x: Any) -> Any:
        return (x.tolist(), str(x.dtype)) if isinstance(x, nc.Tensor) else str(x)

    return json.dumps([o.state_dict(), repr(o), o.param_groups[0].params[0].tolist()], default=plain)


def changed(o: Any, setting: dict[str, Any] | None = None, **entry: Any) -> dict[str, Any]:
    """An optimiser's state with other entries for its parameter, and other settings; None removes an entry."""
    saved = o.state_dict()
    held = {**saved["state"].get(0, {}), **entry}
    groups = [{**saved["param_groups"][0], **(setting or {})}]
    return {"state": {0: {k: v for k, v in held.items() if v is not None}}, "param_groups": groups}


WRONG: list[tuple[str, Callable[[], Any], Callable[[], Any]]] = [
    ("settings must be", lambda: stepped(optim.SGD), lambda: stepped(optim.Adam).state_dict()),
    ("settings must be", lambda: stepped(optim.Adam), lambda: stepped(optim.SGD, momentum=0.9).state_dict()),
    ("exp_avg_sq too", lambda: stepped(optim.Lion), lambda: changed(stepped(optim.Lion), exp_avg_sq=nc.ones(2))),
    ("no max_exp_avg_sq", lambda: stepped(optim.Adam), lambda: changed(stepped(optim.Adam), {"amsgrad": True})),
    ("no step", lambda: stepped(optim.Adam), lambda: changed(stepped(optim.Adam), step=None)),
    ("no exp_avg", lambda: stepped(optim.NAdam), lambda: changed(stepped(optim.NAdam), exp_avg=None)),
    ("exp_avg of .* must have shape", lambda: stepped(optim.Adam), lambda: stepped(optim.Adam, (3,)).state_dict()),
    ("must be a count", lambda: stepped(optim.Adam), lambda: changed(stepped(optim.Adam), step=nc.tensor(-1.0))),
    ("must be a count", lambda: stepped(optim.Adam), lambda: changed(stepped(optim.Adam), step=nc.tensor(np.nan))),
    (
        "exp_avg of parameter .* must be a tensor",
        lambda: stepped(optim.Adam),
        lambda: changed(stepped(optim.Adam), exp_avg="much"),
    ),
    ("lr", lambda: stepped(optim.Adam), lambda: changed(stepped(optim.Adam), {"lr": -1.0})),
    ("lr", lambda: stepped(optim.Adam), lambda: changed(stepped(optim.Adam), {"lr": "fast"})),
    ("decoupled", lambda: stepped(optim.Adam), lambda: changed(stepped(optim.AdamW), {"decoupled_weight_decay": True})),
    (
        "decoupled",
        lambda: stepped(optim.AdamW),
        lambda: changed(stepped(optim.Adam), {"decoupled_weight_decay": False}),
    ),
    (r"also \['1'\]", lambda: stepped(optim.Adam), lambda: {**stepped(optim.Adam).state_dict(), "state": {"1": {}}}),
    ("state and param_groups", lambda: stepped(optim.Adam), dict),
    ("state and param_groups", lambda: stepped(optim.Adam), lambda: None),
    (
        "state must have steps",
        lambda: optim.LBFGS([nn.Parameter([1.0])]),
        lambda: {
            "state": {0: {"n_iter": 3}},
            "param_groups": optim.LBFGS([nn.Parameter([1.0])]).state_dict()["param_groups"],
        },
    ),
]


@pytest.mark.parametrize(("text", "make", "give"), WRONG, ids=[text for text, _, _ in WRONG])
def test_states_that_do_not_fit_are_refused_and_change_nothing(
    text: str, make: Callable[[], Any], give: Callable[[], Any]
) -> None:
    o = make()
    before = facts(o)
    with pytest.raises(nc.StateError, match=text):
        o.load_state_dict(give())
    assert facts(o) == before


def test_the_second_parameter_at_fault_leaves_the_first_as_it_was() -> None:
    def made(*shapes: tuple[int, ...]) -> tuple[list[nn.Parameter], Any]:
        held = [nn.Parameter(nc.ones(s)) for s in shapes]
        o = optim.Adam(held)
        for p in held:
            p.grad = nc.ones(p.shape)
        o.step()
        return held, o

    _, o = made((2,), (3,))
    before = facts(o)
    _, other = made((2,), (4,))
    other.param_groups[0]["lr"] = 9.0
    with pytest.raises(nc.StateError, match="parameter 1"):
        o.load_state_dict(other.state_dict())
    assert facts(o) == before

    model, wrong = nn.Linear(2, 3), {"weight": nc.zeros((3, 2)), "bias": "text"}
    before = model.state_dict()["weight"].tolist()
    with pytest.raises(nc.Error):
        model.load_state_dict(wrong)
    assert model.state_dict()["weight"].tolist() == before


def test_a_momentum_is_loaded_into_an_optimiser_without_one() -> None:
    moved, plain = stepped(optim.SGD, momentum=0.9, lr=0.1), stepped(optim.SGD, lr=0.5)
    plain.load_state_dict(moved.state_dict())
    for o in (moved, plain):
        (p,) = o.param_groups[0].params
        p.assign(nc.ones(2))
        p.grad = nc.ones(2)
        o.step()
    assert moved.param_groups[0].params[0].tolist() == plain.param_groups[0].params[0].tolist()
    assert plain.param_groups[0]["momentum"] == 0.9


def test_a_compiled_step_continues_from_a_loaded_state() -> None:
    p = nn.Parameter(nc.ones(2))
    o = optim.Adam([p], lr=0.5)
    blank = o.state_dict()

    @nc.jit
    def step(g: nc.Tensor) -> None:
        p.grad = g
        o.step()

    step(nc.ones(2))
    first = p.tolist()
    for _ in range(2):
        step(nc.ones(2))
    o.load_state_dict(blank)  # without any step
    p.assign(nc.ones(2))
    step(nc.ones(2))
    assert p.tolist() == first and o.state_dict()["state"][0]["step"].item() == 1


@pytest.mark.parametrize("compiled", [False, True])
def test_late_gradients_within_one_step_have_their_own_counts(compiled: bool) -> None:
    a, b = nn.Parameter(nc.ones(2)), nn.Parameter(nc.ones(2))
    o = optim.Adam([a, b], lr=0.1)

    def twice(g: nc.Tensor) -> None:
        a.grad = b.grad = g
        o.step()
        o.zero_grad()
        a.grad = g
        o.step()
        o.zero_grad()

    run = nc.jit(twice) if compiled else twice
    for _ in range(3):
        run(nc.tensor([1.0, -2.0]))
    assert [o.state_dict()["state"][k]["step"].item() for k in (0, 1)] == [6, 3]
    assert b.tolist() == pytest.approx([0.7, 1.3]) and a.tolist() == pytest.approx([0.4, 1.6])


def test_an_aborted_trace_counts_nothing() -> None:
    a, b = nn.Parameter(nc.ones(2)), nn.Parameter(nc.ones(2))
    o = optim.Adam([a, b], lr=0.1)
    for p in (a, b):
        p.grad = nc.ones(2)
    o.step()
    b.grad = None

    @nc.jit
    def step(fail: bool) -> None:
        a.grad = nc.ones(2)
        o.step()
        if fail:
            raise ValueError("on the way")

    with pytest.raises(ValueError, match="on the way"):
        step(True)
    assert [o.state_dict()["state"][k]["step"].item() for k in (0, 1)] == [1, 1]
    for _ in range(2):
        step(False)
    assert [o.state_dict()["state"][k]["step"].item() for k in (0, 1)] == [3, 1]


def test_settings_are_accepted_where_they_apply_and_else_refused() -> None:
    o = stepped(optim.SGD)
    group = o.param_groups[0]
    group |= {"lr": np.float32(0.5), "momentum": nc.tensor(0.5)}
    assert group.rate.value.item() == 0.5
    for name, value in (("speed", 1.0), ("lr", -1.0), ("lr", "fast"), ("momentum", None)):
        with pytest.raises(nc.ArgumentError, match=name):
            group[name] = value
    for take in (lambda: group.pop("lr"), group.clear, group.popitem, lambda: group.__delitem__("lr")):
        with pytest.raises(nc.ArgumentError, match="entries cannot be removed"):
            take()
    adam = optim.Adam([nn.Parameter([1.0])])
    with pytest.raises(nc.ArgumentError, match="betas"):
        adam.param_groups[0]["betas"] = 0.9


def test_states_of_torchs_lbfgs_continue() -> None:
    name = "optim.LBFGS([p], lr=0.3, max_iter=5) saved after two steps"
    settings, state, before, after = EXPECTED[name]
    p = nn.Parameter(np.asarray(before))
    o = optim.LBFGS([p])

    def closure() -> nc.Tensor:
        o.zero_grad()
        loss = (100.0 * (p[:, 1:] - p[:, :-1] ** 2) ** 2 + (1.0 - p[:, :-1]) ** 2).sum()
        loss.backward()
        return loss

    held = {
        k: [np.asarray(x) for x in v] if k in ("old_dirs", "old_stps") else v if v is None else np.asarray(v)
        for k, v in state.items()
    }
    o.load_state_dict({"state": {0: held}, "param_groups": [settings]})
    o.step(closure)
    np.testing.assert_allclose(p.numpy(), after, rtol=1e-9, atol=1e-12)


HUGE = 10**400


@pytest.mark.parametrize("kind", [optim.SGD, optim.Adam, optim.Adagrad, optim.LBFGS])
@pytest.mark.parametrize(
    "part",
    [
        {"param_groups": None},
        {"param_groups": 5},
        {"param_groups": "x"},
        {"param_groups": [[]]},
        {"param_groups": {}},
        {"param_groups": [5]},
        {"param_groups": [{}]},
        {"param_groups": [{"params": None}]},
        {"param_groups": [{"params": [[]]}]},
        {"param_groups": [{"params": "0"}]},
        {"state": []},
        {"state": None},
        {"state": {0: None}},
        {"state": {0: [1]}},
        {"state": {"x": {}}},
        {"state": {0: {"step": HUGE}}},
        {"state": {0: {1: 2, "x": 3}}},
        {"setting": {"lr": HUGE}},
        {"setting": {"lr": None}},
        {"setting": {"lr": []}},
        {"setting": {"lr": {}}},
        {"setting": {"weight_decay": HUGE}},
        {"setting": {"initial_lr": "x"}},
        {"setting": {"initial_lr": HUGE}},
        {"setting": {1: 2}},
        {"setting": {"maximize": "x"}},
        {"setting": {"betas": 5}},
        {"setting": {"betas": [HUGE, 0]}},
        {"setting": {"max_iter": "x"}},
        None,
        5,
        "path",
        [],
    ],
    ids=lambda part: repr(part)[:40],
)
def test_invalid_forms_are_refused_before_anything_changes(kind: Any, part: Any) -> None:
    o = stepped(kind) if kind is not optim.LBFGS else kind([nn.Parameter(nc.ones(2))])
    before = facts(o)
    saved = (
        {**changed(o, part["setting"]), "state": o.state_dict()["state"]}
        if isinstance(part, dict) and "setting" in part
        else {**o.state_dict(), **part}
        if isinstance(part, dict)
        else part
    )
    with pytest.raises(nc.Error, match=f"{kind.__name__}.load_state_dict: .* (required|must|has|groups)"):
        o.load_state_dict(saved)
    assert facts(o) == before
    o.load_state_dict(o.state_dict())
    assert facts(o) == before


@pytest.mark.parametrize(
    "entry",
    [
        {"steps": "x"},
        {"scale": None},
        {"changes": 5},
        {"moves": [None]},
        {"gradient": "x"},
        {"scale": HUGE},
        {"n_iter": "x", "prev_flat_grad": 1, "old_dirs": 2, "old_stps": 3, "H_diag": 4, "d": 5, "t": 6},
    ],
    ids=str,
)
def test_any_memory_of_lbfgs_is_refused(entry: dict[str, Any]) -> None:
    o = optim.LBFGS([nn.Parameter(nc.ones(2))])
    before, saved = facts(o), o.state_dict()
    with pytest.raises(nc.Error, match=r"LBFGS.load_state_dict: .* (required|must|has|groups)"):
        o.load_state_dict({**saved, "state": {0: {**saved["state"][0], **entry} if len(entry) == 1 else entry}})
    assert facts(o) == before


@pytest.mark.parametrize("value", [HUGE, -HUGE])
def test_a_setting_beyond_floats_is_refused(value: int) -> None:
    o = stepped(optim.Adam)
    before = facts(o)
    for name in ("lr", "weight_decay", "eps", "initial_lr"):
        with pytest.raises(nc.Error, match=name):
            o.param_groups[0][name] = value
        assert facts(o) == before
    with pytest.raises(nc.Error, match="lr"):
        optim.SGD([nn.Parameter(1.0)], lr=value)
