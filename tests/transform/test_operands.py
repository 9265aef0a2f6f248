"""Differentiable operands and their gradients: gradients by name, tied and frozen parameters, unusual operands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nacre as nc
from nacre import nn
from nacre.base import tree
from nacre.base.errors import ArgumentError, DTypeError, Error, GradientError

WAYS: dict[str, Callable[[Any], Callable[..., Any]]] = {
    "grad": nc.grad,
    "jit of grad": lambda f: nc.jit(nc.grad(f)),
    "value_and_grad": lambda f: lambda *a: nc.value_and_grad(f)(*a)[1],
    "vjp": lambda f: lambda *a: nc.vjp(f, *a)[1](nc.tensor(1.0))[0],
    "jacrev": nc.jacrev,
    "jacfwd": nc.jacfwd,
    "vmap of grad": lambda f: (
        lambda *a: tree.tree_map(
            lambda g: g[0], nc.vmap(lambda s: tree.tree_map(lambda g: g * s, nc.grad(f)(*a)))(nc.ones(2))
        )
    ),
}


class Net(nn.Module):
    def __init__(self) -> None:
        nc.random.seed(0)
        self.layers = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.Linear(3, 3, bias=False))
        self.head = nn.Linear(3, 3, bias=False)
        self.scale = nn.Parameter(nc.ones(3))

    def forward(self, x: Any) -> Any:
        return self.head(nc.tanh(self.layers(x))) * self.scale


X = nc.tensor([[0.5, -1.0], [2.0, 0.25], [1.0, 1.5]])


def loss(net: Any) -> Any:
    return nc.sum(net(X) ** 2)


# ---- gradients are modules with the same names


@pytest.mark.parametrize("way", WAYS)
def test_gradients_have_the_names_of_parameters(way: str) -> None:
    net = Net().eval()
    found = WAYS[way](loss)(net)
    loss(net).backward()
    wanted = {name: p.grad for name, p in net.named_parameters()}
    assert list(dict(found.named_parameters())) == list(wanted) and len(wanted) == 7
    for name, g in found.named_parameters():
        np.testing.assert_allclose(g.numpy(), wanted[name].numpy(), rtol=1e-5, atol=1e-6)
        assert found.get_parameter(name) is g
    assert len(list(found.parameters())) == 7 and list(found.state_dict()) == list(wanted)
    assert next(iter(found.layers.named_parameters()))[0] == "0.weight"
    assert [b for _, b in found.named_buffers()] == [None] * 3


def test_gradients_can_be_used_as_those_of_the_parameters() -> None:
    net, other = Net().eval(), Net().eval()
    loss(other).backward()
    for (name, p), (named, g) in zip(net.named_parameters(), nc.grad(loss)(net).named_parameters(), strict=True):
        assert name == named
        p.grad = g
    for model in (net, other):
        nc.optim.SGD(model.parameters(), lr=0.1).step()
    for p, q in zip(net.parameters(), other.parameters(), strict=True):
        assert p.tolist() == q.tolist()


def test_gradients_have_no_parameters_to_change() -> None:
    found = nc.grad(loss)(Net().eval())
    for change in (found.requires_grad_, found.zero_grad, found.double):
        with pytest.raises(ArgumentError, match="the module must hold parameters"):
            change()


def test_frozen_parameters_have_no_gradient_and_keep_their_name() -> None:
    net = Net().eval()
    net.layers.requires_grad_(False)
    for way in ("grad", "jit of grad", "vjp", "jacrev"):
        found = dict(WAYS[way](loss)(net).named_parameters())
        assert list(found) == [name for name, _ in net.named_parameters()]
        assert [name for name, g in found.items() if g is not None] == ["scale", "head.weight"]


def test_modules_without_parameters() -> None:
    found = nc.grad(lambda m, x: nc.sum(m(x)))(nn.ReLU(), X)
    assert isinstance(found, nn.ReLU) and not list(found.parameters())
    value, moved = nc.jvp(lambda m: nc.sum(m(X)), (nn.ReLU(),), (nn.ReLU(),))
    assert float(value) == 5.25 and float(moved) == 0.0


# ---- one parameter at several places


def tied() -> Net:
    net = Net().eval()
    net.head.weight = net.layers[2].weight
    return net


@pytest.mark.parametrize("way", WAYS)
def test_a_tied_parameter_has_its_whole_gradient_once(way: str) -> None:
    net = tied()
    found = WAYS[way](loss)(net)
    loss(net).backward()
    wanted = net.head.weight.grad.numpy()
    assert [n for n, _ in found.named_parameters()] == [n for n, _ in net.named_parameters()]
    for g in (found.head.weight, found.layers[2].weight):
        np.testing.assert_allclose(g.numpy(), wanted, rtol=1e-5, atol=1e-6)
    both = nc.grad(lambda p: nc.sum(p["a"] * p["b"][0]))({"a": net.scale, "b": [net.scale]})
    assert both["a"].tolist() == both["b"][0].tolist() == [2.0, 2.0, 2.0]


def test_a_tied_parameter_has_one_tangent() -> None:
    net = tied()
    gradient = nc.grad(loss)(net)
    wanted = sum(float(nc.sum(g**2)) for _, g in gradient.named_parameters())
    assert float(nc.jvp(loss, (net,), (gradient,))[1]) == pytest.approx(wanted, rel=1e-5)
    assert float(nc.jvp(loss, (net,), (nc.jit(nc.grad(loss))(net),))[1]) == pytest.approx(wanted, rel=1e-5)
    leaves, structure = tree.flatten(net)
    other = tree.unflatten(structure, [nc.random.normal(p.shape) if p.dtype.is_float else p.value for p in leaves])
    with pytest.raises(ArgumentError, match="a variable that occurs several times must have one tangent"):
        nc.jvp(loss, (net,), (other,))


# ---- tangents


def test_tangents_are_matched_by_their_place() -> None:
    def f(p: Any) -> Any:
        return p["a"] * 10 + p["b"][0]

    at = {"a": nc.tensor(1.0), "b": [nc.tensor(2.0)]}
    one, two = nc.tensor(1.0), nc.tensor(2.0)
    assert float(nc.jvp(f, (at,), ({"a": one, "b": [two]},))[1]) == 12.0
    assert float(nc.jvp(f, (at,), ({"b": [two], "a": one},))[1]) == 12.0
    assert float(nc.jvp(f, (at,), ({"b": [None], "a": one},))[1]) == 10.0
    for wrong in ({"a": one}, {"a": one, "c": [two]}, {"a": one, "b": (two,)}, {"a": one, "b": two}, [one, two], one):
        with pytest.raises(ArgumentError, match="jvp: a tangent"):
            nc.jvp(f, (at,), (wrong,))


# ---- operands of other kinds


@pytest.mark.parametrize("way", ["grad", "value_and_grad", "jacrev", "jacfwd"])
@pytest.mark.parametrize("operand", [nc.tensor([1, 2]), 3, True, np.array([1]), [nc.tensor(1.0), 2], nc.tensor([True])])
def test_integers_are_refused(way: str, operand: Any) -> None:
    with pytest.raises(DTypeError, match="inputs must be floating-point"):
        WAYS[way](lambda x: nc.tensor(1.0))(operand)


def test_integers_have_no_tangent_and_a_cotangent_of_zeros() -> None:
    with pytest.raises(DTypeError, match="inputs must be floating-point"):
        nc.jvp(lambda x: x * 2, (nc.tensor([1]),), (nc.tensor([1]),))
    _, pull = nc.vjp(lambda k, x: x[k], nc.tensor([1, 1]), nc.tensor([1.0, 2.0, 3.0]))
    count, gradient = pull(nc.tensor([1.0, 1.0]))
    assert count.tolist() == [0, 0] and gradient.tolist() == [0.0, 2.0, 0.0]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("operand", ["text", object(), {1, 2}, b"bytes", lambda x: x])
def test_other_objects_than_tensors_are_refused(way: str, operand: Any) -> None:
    with pytest.raises(Error):
        WAYS[way](lambda x: nc.tensor(1.0))(operand)


@pytest.mark.parametrize("way", WAYS)
def test_unused_operands_have_zero_gradients(way: str) -> None:
    spare = nn.Parameter(nc.tensor([1.0, 2.0]))
    for operand in (nc.tensor([1.0, 2.0]), {"p": spare}, [nc.tensor([1.0, 2.0]).requires_grad_()]):
        found = WAYS[way](lambda x: nc.sum(X))(operand)
        (leaf,) = tree.flatten(found)[0]
        assert leaf.tolist() == [0.0, 0.0] and tree.flatten(found)[1] == tree.flatten(operand)[1]


def test_positions_are_given_once() -> None:
    for argnums in ((0, 0), (0, -2), (2,), -3):
        with pytest.raises(ArgumentError, match="argnums"):
            nc.grad(lambda x, y: nc.sum(x * y), argnums=argnums)(nc.ones(2), nc.ones(2))


def test_results_of_other_kinds_are_refused() -> None:
    for result in ("text", None, nc.ones(2), [nc.tensor(1.0)], nc.tensor(1)):
        with pytest.raises((GradientError, DTypeError)):
            nc.grad(lambda x, result=result: result)(nc.ones(2))


def test_a_variable_shows_its_type_while_it_is_differentiated() -> None:
    net = Net().eval()
    found = nc.grad(lambda m: nc.sum(m.scale.value) * m.scale.shape[0])(net)
    assert found.scale.tolist() == [3.0, 3.0, 3.0]
