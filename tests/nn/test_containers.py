"""Sequences, lists and dicts of modules and parameters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import nacre as nc
from labels import label
from nacre import nn


def kinds(modules: Any) -> list[str]:
    return [type(m).__name__ for m in modules]


def test_lists_change() -> None:
    row = nn.ModuleList([nn.ReLU(), nn.Linear(2, 3)])
    row.insert(1, nn.Tanh()).append(nn.SiLU()).extend([nn.ELU()])
    assert kinds(row) == ["ReLU", "Tanh", "Linear", "SiLU", "ELU"]
    del row[0]
    row[-1] = nn.GELU()
    assert kinds(row) == ["Tanh", "Linear", "SiLU", "GELU"] and sorted(row.state_dict()) == ["1.bias", "1.weight"]
    assert kinds(row[1:3]) == ["Linear", "SiLU"] and isinstance(row[:1], nn.ModuleList)


def test_sequences_take_names() -> None:
    net = nn.Sequential({"first": nn.Linear(2, 3), "act": nn.ReLU()})
    assert sorted(net.state_dict()) == ["first.bias", "first.weight"] and net(nc.ones((1, 2))).shape == (1, 3)
    net[1] = nn.Flatten(0)
    assert net(nc.ones((4, 2))).shape == (12,) and [n for n, _ in net.named_children()] == ["first", "act"]


def test_dicts() -> None:
    held = nn.ModuleDict({"a": nn.Linear(1, 2)})
    held["b"] = nn.ReLU()
    held.update([("c", nn.Tanh())])
    assert list(held) == list(held.keys()) == ["a", "b", "c"] and "b" in held and len(held) == 3
    assert isinstance(held.pop("b"), nn.ReLU) and kinds(held.values()) == ["Linear", "Tanh"]
    assert [k for k, _ in held.items()] == ["a", "c"]
    held.clear()
    assert not len(held)


def test_parameters_in_lists_and_dicts_are_trained() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            self.row = nn.ParameterList([nc.ones(2), nn.Parameter([3.0])])
            self.named = nn.ParameterDict({"scale": nc.ones(())})

        def forward(self, x: nc.Tensor) -> nc.Tensor:
            return (x * self.row[0] * self.row[-1]).sum() * self.named["scale"]

    net = Net()
    assert [n for n, _ in net.named_parameters()] == ["row.0", "row.1", "named.scale"]
    net(nc.ones(2)).backward()
    assert all(p.grad is not None for p in net.parameters())
    net.row[0] = nc.zeros(2)
    assert net(nc.ones(2)).item() == 0.0 and len(net.row.append(nc.ones(1))) == 3


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: nn.ModuleList([1]), r"instances of nn\.Module"), (lambda: nn.ModuleDict({"keys": nn.ReLU()}), "name"),
        (lambda: nn.ParameterList([nn.ReLU()]), r"instances of nn\.Parameter"),
        (lambda: nn.ModuleList()[0], "in .0, 0"),
        (lambda: nn.ModuleDict({"a.b": nn.ReLU()}), "name"), (lambda: nn.ParameterList()[0], "in .0, 0"),
    ],
    ids=label,
)  # fmt: skip
def test_errors(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(nc.Error, match=message):
        make()


@pytest.mark.parametrize("row", [nn.Sequential(), nn.ModuleList(), nn.ParameterList()], ids=lambda r: type(r).__name__)
def test_an_index_out_of_range_is_an_index_error(row: Any) -> None:
    for place in (0, -1, 7):
        with pytest.raises(IndexError) as caught:
            row[place]
        assert isinstance(caught.value, nc.Error)


def test_a_name_without_an_entry() -> None:
    held = nn.ModuleDict({"act": nn.ReLU()})
    for wrong in (lambda: held["b"], lambda: held.pop("b"), lambda: held.__delitem__("b")):
        with pytest.raises(KeyError, match=r"ModuleDict: there is no entry 'b'; its names are \['act'\]") as found:
            wrong()
        assert isinstance(found.value, nc.MissingKey)
