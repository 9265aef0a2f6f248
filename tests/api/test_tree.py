"""The public functions that flatten and rebuild trees."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest

import nacre as nc
from nacre import nn


class Pair(NamedTuple):
    first: Any
    second: Any


@dataclass(frozen=True)
class State:
    w: Any
    more: Any = None


TREE = {"b": [1, (2, None)], "a": Pair(3, State(4, {"x": 5}))}


def test_flatten_and_back() -> None:
    leaves, structure = nc.tree.flatten(TREE)
    assert leaves == nc.tree.leaves(TREE) == [1, 2, 3, 4, 5]
    assert structure == nc.tree.structure(TREE) and hash(structure) == hash(nc.tree.structure(TREE))
    assert nc.tree.unflatten(structure, (k * 10 for k in leaves)) == {
        "b": [10, (20, None)],
        "a": Pair(30, State(40, {"x": 50})),
    }


def test_map() -> None:
    assert nc.tree.map(lambda x: -x, TREE) == {"b": [-1, (-2, None)], "a": Pair(-3, State(-4, {"x": -5}))}
    assert nc.tree.map(lambda *xs: sum(xs), [1, (2,)], [10, (20,)], [100, (200,)]) == [111, (222,)]
    assert nc.tree.map(str, 3) == "3" and nc.tree.map(str, []) == [] and nc.tree.map(str, None) is None
    assert nc.tree.structure(State(1)) == nc.tree.structure(State(2)) != nc.tree.structure(State(1, 2))


def test_gradients_as_trees() -> None:
    weights = {"w": nc.tensor([1.0, 2.0]), "b": State(nc.tensor([3.0]))}
    grads = nc.jit(nc.grad(lambda t: nc.sum(t["w"] ** 2) + nc.sum(t["b"].w)))(weights)
    stepped = nc.jit(lambda w, g: nc.tree.map(lambda x, y: x - 0.5 * y, w, g))(weights, grads)
    assert stepped["w"].tolist() == [0.0, 0.0] and stepped["b"].w.tolist() == [2.5]


def test_modules_are_trees() -> None:
    layer = nn.Linear(2, 3)
    assert [p.shape for p in nc.tree.leaves(layer)] == [(3, 2), (3,)]
    sizes = nc.tree.map(lambda p: p.size, layer)
    assert isinstance(sizes, nn.Linear) and (sizes.weight, sizes.bias) == (6, 3)


def test_leaves_that_do_not_fit_the_structure_are_refused() -> None:
    with pytest.raises(nc.ArgumentError, match=r"tree\.map: trees must have one structure; got .* and "):
        nc.tree.map(lambda x, y: x, [1, 2], (1, 2))
    with pytest.raises(nc.ArgumentError, match=r"tree\.unflatten: the structure needs 2 leaves; got 1"):
        nc.tree.unflatten(nc.tree.structure([1, 2]), [1])
    with pytest.raises(nc.DTypeError, match=r"tree\.map: the first argument must be a function"):
        nc.tree.map([1], lambda x: x)
    with pytest.raises(nc.DTypeError, match=r"tree\.unflatten: the first argument must be a structure"):
        nc.tree.unflatten([1, 2], nc.tree.structure([0, 0]))


def test_a_shared_parameter_is_not_mapped_to_several_tensors() -> None:
    class Tied(nc.nn.Module):
        def __init__(self) -> None:
            self.inward, self.outward = nc.nn.Embedding(3, 2), nc.nn.Linear(2, 3, bias=False)
            self.outward.weight = self.inward.weight

        def forward(self, x: Any) -> Any:
            return self.outward(self.inward(x))

    model, x = Tied(), nc.arange(3)
    gradient = nc.grad(lambda m: nc.nn.functional.cross_entropy(m(x), x))(model)
    with pytest.raises(nc.ArgumentError, match=r"tree\.map: a variable must be at one place .* p\.assign\("):
        nc.tree.map(lambda p, g: p - g, model, gradient)
    before = model.inward.weight.numpy().copy()
    for p, g in zip(model.parameters(), gradient.parameters(), strict=True):
        p.assign(p - 0.5 * g)
    wanted = before - np.float32(0.5) * gradient.inward.weight.numpy()
    assert model.outward.weight is model.inward.weight
    np.testing.assert_allclose(model.outward.weight.numpy(), wanted, rtol=1e-6)
    assert nc.tree.map(lambda g: g * 0, gradient).inward.weight.tolist() == np.zeros((3, 2)).tolist()
