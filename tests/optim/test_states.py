"""Assignments to the state of an optimiser, eagerly and with compiled steps; parameters of another dtype."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

import nacre as nc
from nacre import nn, optim


def trained(compiled: bool) -> tuple[Any, Any, Any]:
    """A parameter, its optimiser and a step, after one step."""
    p = nn.Parameter([1.0, 2.0])
    opt = optim.SGD([p], lr=0.5, momentum=0.5)

    def step() -> None:
        (p * p).sum().backward()
        opt.step()
        opt.zero_grad()

    made = nc.jit(step) if compiled else step
    made()
    return p, opt, made


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("whole", [False, True])
def test_an_assigned_entry_is_seen_by_the_next_step(compiled: bool, whole: bool) -> None:
    p, opt, step = trained(compiled)
    p.assign(nc.tensor([1.0, 2.0]))
    if whole:
        opt.state[p] = {**opt.state[p], "momentum_buffer": nc.tensor([4.0, 8.0])}
    else:
        opt.state[p]["momentum_buffer"] = nc.tensor([4.0, 8.0])
    step()
    assert opt.state[p]["momentum_buffer"].value.tolist() == [4.0, 8.0] and p.tolist() == [-1.0, -2.0]


def test_entries_that_do_not_fit_raise() -> None:
    p, opt, _ = trained(False)
    before = opt.state[p]["momentum_buffer"].value.tolist()
    with pytest.raises(nc.Error):
        opt.state[p]["momentum_buffer"] = nc.zeros(3)
    with pytest.raises(nc.Error):
        opt.state[p]["momentum_buffer"] = nc.zeros(2, dtype=nc.float64)
    with pytest.raises(nc.ArgumentError, match=r"must be among .*got 'other'"):
        opt.state[p]["other"] = nc.zeros(2)
    with pytest.raises(nc.ArgumentError, match="cannot be removed"):
        del opt.state[p]["momentum_buffer"]
    with pytest.raises(nc.ArgumentError, match="its own entries"):
        opt.state[p] = {"other": nc.zeros(2)}
    with pytest.raises(nc.ArgumentError, match="none before its first step"):
        optim.SGD([p], lr=0.1).state[p] = {"momentum_buffer": nc.zeros(2)}
    assert opt.state[p]["momentum_buffer"].value.tolist() == before


def test_copies_of_states() -> None:
    _, opt, _ = trained(False)
    for made in (copy.deepcopy(opt.state), pickle.loads(pickle.dumps(opt.state))):
        assert [v.value.tolist() for held in made.values() for v in held.values()] == [
            v.value.tolist() for held in opt.state.values() for v in held.values()
        ]


@pytest.mark.parametrize("compiled", [False, True])
def test_state_of_another_dtype_names_the_remedy(compiled: bool) -> None:
    m = nn.Linear(1, 1)
    opt = optim.Adam(m.parameters())

    def step(x: Any) -> None:
        m(x).sum().backward()
        opt.step()
        opt.zero_grad()

    run = nc.jit(step) if compiled else step
    run(nc.ones((1, 1)))
    m.double()
    with pytest.raises(nc.DTypeError, match=r"Adam.step: the state of a parameter of float64 .*load the state_dict"):
        run(nc.ones((1, 1), dtype=nc.float64))
    old, opt = opt, optim.Adam(m.parameters())
    opt.load_state_dict(old.state_dict())
    opt.zero_grad()
    step(nc.ones((1, 1), dtype=nc.float64))
    assert m.weight.dtype is nc.float64
