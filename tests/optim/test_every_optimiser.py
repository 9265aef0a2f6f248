"""Every optimiser on walks with late and missing gradients, changed settings, saved and loaded state, and every dtype.

`write_torch_values.py` wrote PyTorch's results for the walks of `torch_cases.py`.  Compiled steps must give the bits of
eager ones, and saving and loading a state on the way must not change any.
"""

from __future__ import annotations

import copy
import importlib.util
import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nacre as nc
import surface
from nacre import nn, optim

HERE = Path(__file__).parent
SPEC = importlib.util.spec_from_file_location("optim_torch_cases_of_walks", HERE / "torch_cases.py")
assert SPEC is not None and SPEC.loader is not None
cases = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(cases)
EXPECTED: dict[str, Any] = json.loads((HERE / "torch_values.json").read_text())

MORE: dict[str, dict[int, dict[str, Any]]] = {  # walks that PyTorch does not support
    "Lion(g, lr=0.1)": {3: {"weight_decay": 0.2}, 5: {"betas": (0.8, 0.9)}, 6: {"maximize": True}},
    "LAMB(g, lr=0.1)": {3: {"weight_decay": 0.2}, 5: {"betas": (0.8, 0.9)}, 6: {"eps": 0.1}},
    "Adam(g, lr=0.1)  # amsgrad from a step on": {3: {"amsgrad": True}},
    "RMSprop(g, lr=0.1)  # centred, with momentum, from a step on": {3: {"centered": True}, 5: {"momentum": 0.9}},
}
WALKS = cases.WALKS | MORE
DTYPES = ["float64", "float32", "bfloat16", "float16"]
Between = Callable[[Any], Any]


def made(line: str, dtype: str, values: Any = None) -> tuple[list[nn.Parameter], Any]:
    held = [nn.Parameter(nc.tensor(w, dtype=getattr(nc, dtype))) for w in values or cases.WALK[-1]]
    groups = [{"params": held[:2]}, {"params": held[2:], "weight_decay": 0.5}]
    return held, eval(f"optim.{line}", {"optim": optim, "g": groups})


def walk(line: str, dtype: str = "float64", compiled: bool = False, between: Between | None = None) -> list[np.ndarray]:
    """The parameters after each step; `between` replaces the optimiser half-way."""
    held, o = made(line, dtype)
    return walked(line, held, o, compiled, range(len(cases.PRESENT)), between)


def walked(
    line: str, held: list[nn.Parameter], o: Any, compiled: bool, steps: range, between: Between | None = None
) -> list[np.ndarray]:
    def step(*given: nc.Tensor | None) -> None:
        for p, g in zip(held, given, strict=True):
            p.grad = g
        opt.step()
        opt.zero_grad()

    opt, seen, run = o, [], nc.jit(step) if compiled else step
    for k in steps:
        for group in opt.param_groups:
            group.update(WALKS[line].get(k, {}))
        run(
            *[
                nc.tensor(g, dtype=p.dtype) if here else None
                for p, g, here in zip(held, cases.WALK[k], cases.PRESENT[k], strict=True)
            ]
        )
        seen.append(np.concatenate([p.numpy().astype(np.float64).ravel() for p in held]))
        if k == cases.SAVED and between is not None:
            opt = between(opt)
    return seen


def flat(values: Any) -> np.ndarray:
    return np.concatenate([np.ravel(v) for v in values])


def test_every_optimiser_has_a_walk() -> None:
    kinds = {held.__name__ for held in surface.CLASSES.values() if issubclass(held, optim.Optimizer)}
    assert kinds - {"Optimizer", "LBFGS"} == {line.partition("(")[0] for line in WALKS}


@pytest.mark.parametrize("line", cases.WALKS)
def test_walks_are_those_of_torch(line: str) -> None:
    _, half, end = EXPECTED[line]
    bound = 1e-6 if "NAdam" in line else 1e-12  # PyTorch keeps the product of momenta in float32
    seen = walk(line)
    np.testing.assert_allclose(seen[cases.SAVED], flat(half), rtol=bound, atol=bound)
    np.testing.assert_allclose(seen[-1], flat(end), rtol=bound, atol=bound)


@pytest.mark.parametrize("line", cases.WALKS)
def test_torch_states_with_different_counts_continue(line: str) -> None:
    state, half, end = EXPECTED[line]
    held, o = made(line, "float64", half)
    for k in range(cases.SAVED + 1):
        for group in o.param_groups:
            group.update(WALKS[line].get(k, {}))
    groups = [{**group, "params": numbers} for group, numbers in zip(o.param_groups, ([0, 1], [2]), strict=True)]
    arrays = {int(n): {k: v if v is None else np.asarray(v) for k, v in e.items()} for n, e in state.items()}
    o.load_state_dict({"state": arrays, "param_groups": groups})
    found = walked(line, held, o, False, range(cases.SAVED + 1, len(cases.PRESENT)))[-1]
    bound = 1e-6 if "NAdam" in line else 1e-12
    np.testing.assert_allclose(found, flat(end), rtol=bound, atol=bound)


@pytest.mark.parametrize("dtype", DTYPES[1:])
@pytest.mark.parametrize("line", cases.WALKS)
def test_narrower_parameters_are_near(line: str, dtype: str) -> None:
    bound = {"float32": 1e-5, "bfloat16": 0.06, "float16": 0.01}[dtype]
    np.testing.assert_allclose(walk(line, dtype)[-1], flat(EXPECTED[line][-1]), rtol=bound, atol=bound)


SAMPLE = [
    pytest.param(line, dtype, id=f"{line}-{dtype}", marks=[] if k % len(DTYPES) == n else [pytest.mark.slow])
    for k, line in enumerate(WALKS)
    for n, dtype in enumerate(DTYPES)
]


@pytest.mark.parametrize(("line", "dtype"), SAMPLE)
def test_compiled_steps_have_the_eager_bits(line: str, dtype: str) -> None:
    for k, (a, b) in enumerate(zip(walk(line, dtype, compiled=True), walk(line, dtype), strict=True)):
        np.testing.assert_array_equal(a, b, err_msg=f"step {k}")


def again(o: Any) -> Any:
    """Another optimiser with the state of one."""
    groups = [{"params": g.params} for g in o.param_groups]
    other = type(o)(groups, lr=3.0)
    other.load_state_dict(o.state_dict())
    return other


def reloaded(o: Any) -> Any:
    """The same optimiser, with a state that is loaded over another."""
    saved = o.state_dict()
    for group in o.param_groups:
        for p in group.params:
            p.grad = nc.zeros(p.shape, p.dtype)
    kept = [p.value for group in o.param_groups for p in group.params]
    o.step()
    for p, value in zip([p for group in o.param_groups for p in group.params], kept, strict=True):
        p.assign(value)
    o.load_state_dict(saved)
    return o


@pytest.mark.parametrize(("line", "dtype"), SAMPLE)
@pytest.mark.parametrize(("between", "compiled"), [(again, False), (reloaded, False), (reloaded, True)])
def test_saving_and_loading_a_state_changes_no_bit(line: str, dtype: str, between: Between, compiled: bool) -> None:
    if compiled and dtype != "float32":
        pytest.skip("one dtype is enough")
    whole = walk(line, dtype)
    for k, (a, b) in enumerate(zip(walk(line, dtype, compiled, between), whole, strict=True)):
        np.testing.assert_array_equal(a, b, err_msg=f"step {k}")


@pytest.mark.parametrize("line", [*WALKS, "LBFGS([p])"])
@pytest.mark.parametrize("copied", [lambda x: pickle.loads(pickle.dumps(x)), copy.deepcopy], ids=["pickle", "deepcopy"])
def test_pickled_and_copied_optimisers_and_schedules_continue(line: str, copied: Callable[[Any], Any]) -> None:
    def stepped(held: Any, o: Any, steps: int, schedule: Any) -> list[np.ndarray]:
        for k in range(steps):
            for p in held:
                p.grad = nc.tensor(np.full(p.shape, 0.5 + k), dtype=p.dtype)
            o.step(*[lambda: nc.tensor(1.0)] * line.startswith("LBFGS"))
            schedule.step()
        return [p.numpy().copy() for p in held]

    if line.startswith("LBFGS"):
        held = [nn.Parameter([1.0, 2.0])]
        o: Any = optim.LBFGS(held, lr=0.1, max_iter=2)
    else:
        held, o = made(line, "float32")
    moved = not line.startswith("LBFGS") and {"momentum", "betas"} & set(o.defaults)
    schedule = optim.OneCycleLR(o, 0.1, total_steps=9) if moved else optim.ExponentialLR(o, 0.5)
    stepped(held, o, 2, schedule)
    others, other, another = copied((held, o, schedule))
    assert another.optimizer is other and all(p is not q for p, q in zip(held, others, strict=True))
    for a, b in zip(stepped(others, other, 3, another), stepped(held, o, 3, schedule), strict=True):
        np.testing.assert_array_equal(a, b)
    assert repr(other) == repr(o)
