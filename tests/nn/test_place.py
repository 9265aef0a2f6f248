"""An error in a layer names the layer's path from the outermost module."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

import nacre as nc
from nacre import nn


class Model(nn.Module):
    """A transformer with a layer that does not fit."""

    def __init__(self) -> None:
        self.net = nn.Sequential(nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, 32), 2), nn.Linear(16, 3))
        self.net[0].layers[1].linear1 = nn.Linear(7, 32)

    def forward(self, x: Any) -> Any:
        return self.net(x)


X = nc.ones((2, 5, 16))


@pytest.mark.parametrize(
    "call",
    [
        lambda m: m(X),
        lambda m: nc.jit(m)(X),
        lambda m: nc.grad(lambda m: nc.sum(m(X)))(m),
        lambda m: nc.jit(nc.checkpoint(lambda m: m(X)))(m),
        lambda m: nc.vmap(m, randomness="same")(X),
    ],
)
def test_the_path_of_a_layer(call: Any) -> None:
    with pytest.raises(nc.ShapeError) as caught:
        call(Model())
    notes = [n for n in caught.value.__notes__ if n.startswith("in ")]
    assert notes == ["in Model.net[0].layers[1].linear1 (Linear)"]


def test_a_module_alone_and_one_that_is_not_an_attribute() -> None:
    held = {"layer": nn.Linear(3, 4)}

    class Around(nn.Module):
        def forward(self, x: Any) -> Any:
            return held["layer"](x)

    for model, note in ((held["layer"], "in Linear"), (Around(), "in Around > Linear (Linear)")):
        with pytest.raises(nc.ShapeError) as caught:
            model(X)
        assert caught.value.__notes__ == [note]


def test_other_errors_and_hooks_too() -> None:
    model = nn.Sequential(nn.Identity())

    def hook(module: Any, args: Any) -> None:
        raise ValueError("mine")

    model[0].register_forward_pre_hook(hook)
    with pytest.raises(ValueError, match="mine") as caught:
        model(X)
    assert caught.value.__notes__ == ["in Sequential[0] (Identity)"]
    sent = pickle.loads(pickle.dumps(caught.value))
    assert sent.__notes__ == caught.value.__notes__ and type(sent.__notes__[0]) is str
