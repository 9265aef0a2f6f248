"""The public functions that flatten and rebuild trees."""

from __future__ import annotations

import copy
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


class Tied(nn.Module):
    """One matrix for words and for scores."""

    def __init__(self) -> None:
        self.inward, self.between, self.outward = nn.Embedding(5, 3), nn.Linear(3, 3), nn.Linear(3, 5, bias=False)
        self.outward.weight = self.inward.weight

    def forward(self, x: Any) -> Any:
        return self.outward(nc.tanh(self.between(self.inward(x))))


WORDS = nc.tensor([0, 1, 2, 4])


def tied_loss(model: Any) -> Any:
    return nn.functional.cross_entropy(model(WORDS), WORDS)


def trained(model: Any, steps: int = 3) -> Any:
    """A copy of the model behind some steps by `backward`."""
    model = copy.deepcopy(model)
    for _ in range(steps):
        tied_loss(model).backward()
        with nc.no_grad():
            for p in model.parameters():
                p.assign(p - 0.5 * p.grad)
                p.grad = None
    return model


@pytest.mark.parametrize("compiled", [False, True])
def test_a_shared_parameter_has_one_result(compiled: bool) -> None:
    nc.random.seed(0)
    model = Tied()
    wanted = trained(model)

    def step(m: Any) -> Any:
        return nc.tree.map(lambda p, g: p - 0.5 * g, m, nc.grad(tied_loss)(m))

    step = nc.jit(step) if compiled else step
    found = model
    for _ in range(3):
        found = step(found)
    for name, p in wanted.named_parameters():
        np.testing.assert_allclose(found.get_parameter(name).numpy(), p.numpy(), rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(found.outward.weight.numpy(), found.inward.weight.numpy())
    assert [n for n, _ in found.named_parameters()] == [n for n, _ in model.named_parameters()]


def test_an_ensemble_of_models_with_shared_parameters() -> None:
    nc.random.seed(1)
    models = [Tied() for _ in range(3)]
    structure = nc.tree.structure(models[0])

    def step(leaves: list[Any]) -> list[Any]:
        gradients = nc.grad(lambda leaves: tied_loss(nc.tree.unflatten(structure, leaves)))(leaves)
        return [p - 0.5 * g for p, g in zip(leaves, gradients, strict=True)]

    ensemble = [nc.stack([p.data for p in ps]) for ps in zip(*map(nc.tree.leaves, models), strict=True)]
    stacked = nc.tree.map(lambda *ps: nc.stack(ps), *models)
    assert stacked.inward.weight is stacked.outward.weight
    for _ in range(3):
        ensemble = nc.vmap(step)(ensemble)
        stacked = nc.tree.map(lambda p, g: p - 0.5 * g, stacked, nc.vmap(nc.grad(tied_loss))(stacked))
    several = nc.tree.unflatten(structure, ensemble)
    for k, model in enumerate(models):
        for name, p in trained(model).named_parameters():
            for found in (several, stacked):
                np.testing.assert_allclose(found.get_parameter(name)[k].numpy(), p.numpy(), rtol=1e-5, atol=1e-6)


def test_a_variable_at_several_places_of_a_dict_is_refused() -> None:
    p = nn.Parameter(nc.ones(2))
    with pytest.raises(nc.ArgumentError, match=r"tree\.map: a variable must be at one place, .* write `p\.value`"):
        nc.tree.map(lambda x: x * 2, {"a": p, "b": [p]})
    assert nc.tree.map(lambda x: x * 2, {"a": p.value, "b": [p.value]})["b"][0].tolist() == [2.0, 2.0]
