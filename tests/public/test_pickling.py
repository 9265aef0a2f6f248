"""Pickled objects are restored completely, in this process and in spawned ones."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nacre as nc
import surface
from nacre import nn

ROUNDS: list[Callable[[Any], Any]] = [lambda x: pickle.loads(pickle.dumps(x)), copy.deepcopy]
DTYPES = sorted(name for name, held in surface.NAMES.items() if isinstance(held, nc.DType))


@nc.jit
def doubled(x: nc.Tensor) -> nc.Tensor:
    return x * 2


@pytest.mark.parametrize("again", ROUNDS)
@pytest.mark.parametrize("name", DTYPES)
def test_tensors(again: Callable[[Any], Any], name: str) -> None:
    dtype = surface.NAMES[name]
    for x in (nc.ones((0, 3), dtype=dtype), nc.ones((), dtype=dtype), nc.ones((2, 3), dtype=dtype).T):
        y = again(x)
        assert type(y) is nc.Tensor and y.type is x.type and not y.requires_grad
        assert np.array_equal(y.astype(nc.complex128).numpy(), x.astype(nc.complex128).numpy())
        assert again(dtype) is dtype


@pytest.mark.parametrize("again", ROUNDS)
def test_leaves_stay_leaves(again: Callable[[Any], Any]) -> None:
    x = nc.tensor([1.0, 2.0]).requires_grad_()
    assert again(x).requires_grad and again(x).is_leaf and again(x).grad is None
    assert not again(x.detach()).requires_grad
    y = again(x)
    (y * y).sum().backward()
    assert y.grad.tolist() == [2.0, 4.0] and x.grad is None
    z = again(y)
    z.grad = nc.zeros(2)
    assert again(y).grad.tolist() == y.grad.tolist() == [2.0, 4.0]


def test_results_of_recorded_operations() -> None:
    x = nc.tensor([1.0, 2.0]).requires_grad_() * 2
    for name, again in zip(("pickle", "deepcopy"), ROUNDS, strict=True):  # another process cannot have the record
        with pytest.raises(nc.GradientError, match=rf"{name}: .* write x.detach\(\)"):
            again(x)
        with nc.no_grad():
            assert again(x).tolist() == [2.0, 4.0]
        assert again(x.detach()).tolist() == [2.0, 4.0]
    assert copy.copy(x).requires_grad and not copy.deepcopy(x.detach()).requires_grad


@pytest.mark.parametrize("again", ROUNDS)
def test_variables(again: Callable[[Any], Any]) -> None:
    total = nc.Variable(nc.tensor([1.0]), requires_grad=True, name="total")
    p, b = nn.Parameter([2.0], requires_grad=False), nn.Buffer([3.0], persistent=False)
    p.name = "weight"
    b.name = "mean"
    total.gradient = nc.tensor([5.0])
    for held in (total, p, b):
        made = again(held)
        assert type(made) is type(held) and made is not held and made.number != held.number
        assert (made.name, made.requires_grad, made.value.tolist()) == (
            held.name,
            held.requires_grad,
            held.value.tolist(),
        )
        assert made.gradient is None
    assert again(b).persistent is False and again(nn.Buffer([1.0])).persistent
    one, other = again((p, p))
    assert one is other


@pytest.mark.parametrize("again", ROUNDS)
def test_modules(again: Callable[[Any], Any]) -> None:
    net = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.Linear(3, 2))
    net[2].weight.requires_grad_(False)
    net.add_module("tied", nn.Linear(2, 3))
    net.tied.weight = net[0].weight
    nc.jit(net[0])(nc.ones((1, 2)))
    net(nc.ones((4, 2))).sum().backward()
    net.eval()
    made = again(net)
    assert {k: v.tolist() for k, v in made.state_dict().items()} == {k: v.tolist() for k, v in net.state_dict().items()}
    assert [(n, p.requires_grad) for n, p in made.named_parameters()] == [
        (n, p.requires_grad) for n, p in net.named_parameters()
    ]
    assert made.tied.weight is made[0].weight is not net[0].weight
    assert not made.training and all(p.grad is None for p in made.parameters())
    x = nc.ones((4, 2))
    assert made[0](x).tolist() == net[0](x).tolist()


def test_jitted_functions() -> None:
    assert copy.deepcopy(doubled)(nc.ones(1)).item() == 2.0
    layer = nn.Linear(2, 1)
    f = nc.jit(layer, dynamic_shapes={"x": {0: nc.Dim("n", max=8)}})
    x = nc.ones((3, 2))
    y = f(x)
    for again in ROUNDS:
        assert again(f)(x).tolist() == y.tolist()


SPAWNED = """
import multiprocessing, pickle
import nacre as nc
from nacre import data, nn

@nc.jit
def doubled(x):
    return x * 2

class Net(nn.Module):
    def __init__(self):
        self.layer = nn.Linear(2, 2)
        self.register_buffer("seen", nc.zeros(()))
        self.f = doubled

    def forward(self, x):
        self.seen += 1
        return self.f(self.layer(x))

class Rows(data.Dataset):
    def __init__(self, net): self.net, self.rows = net, nc.ones((4, 2))
    def __len__(self): return 4
    def __getitem__(self, k): return self.net(self.rows[k:k + 1])[0].detach()

def work(x):
    assert type(x + x) is nc.Tensor, type(x + x)
    return (x + x).detach(), type(x).__name__, x.requires_grad

def call(net, x):
    y = net(x).detach()
    assert net.seen.item() == 1.0 and len(list(net.parameters())) == 2
    return y

if __name__ == "__main__":
    net, x = Net(), nc.ones((1, 2))
    y = doubled(net.layer(x)).detach()
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        for held in (x, net.layer.weight, nn.Buffer([1.0]), nc.ones(2, dtype=nc.bfloat16).requires_grad_()):
            twice, name, wanted = pool.apply(work, (held,))
            assert type(twice) is nc.Tensor and twice.tolist() == (held + held).tolist()
            assert (name, wanted) == (type(held).__name__, held.requires_grad)
        assert pool.apply(call, (net, x)).tolist() == y.tolist()
        assert pool.apply(doubled, (x,)).tolist() == [[2.0, 2.0]]
    loader = data.DataLoader(Rows(net), batch_size=2, num_workers=1, workers="processes")
    assert [b.tolist() for b in loader] == [[y.tolist()[0]] * 2] * 2
    print("whole")
"""


def test_spawned_processes(tmp_path: Path) -> None:
    path = tmp_path / "spawned.py"
    path.write_text(SPAWNED)
    told = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, check=False, timeout=120)
    assert told.stdout == "whole\n", told.stderr
