"""Operations and transformations without effect return a new tensor: writing into it does not change the operand."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nacre as nc
import surface
from nacre import nn
from nacre.nn import functional as F
from same_bits import canonical

TRUE = nc.tensor(True)
CALLS: dict[str, Callable[[Any], Any]] = {
    "pad": lambda x: nc.pad(x, 0),
    "pad of pairs": lambda x: nc.pad(x, [(0, 0), (0, 0)]),
    "F.pad": lambda x: F.pad(x, (0, 0)),
    "F.pad reflect": lambda x: F.pad(x, (0, 0), mode="reflect"),
    "einsum": lambda x: nc.einsum("ij->ij", x),
    "einsum without arrow": lambda x: nc.einsum("ij", x),
    "tile": lambda x: nc.tile(x, (1, 1)),
    "repeat": lambda x: nc.repeat(x, 1, axis=0),
    "roll": lambda x: nc.roll(x, 0),
    "flip": lambda x: nc.flip(x, axis=()),
    "squeeze": lambda x: nc.squeeze(x, axis=()),
    "permute": lambda x: nc.permute_dims(x, (0, 1)),
    "moveaxis": lambda x: nc.moveaxis(x, 0, 0),
    "swapaxes": lambda x: nc.swapaxes(x, 1, 1),
    "broadcast_to": lambda x: nc.broadcast_to(x, x.shape),
    "broadcast_arrays": lambda x: nc.broadcast_arrays(x, x)[0],
    "reshape": lambda x: nc.reshape(x, x.shape),
    "concat": lambda x: nc.concat([x]),
    "index": lambda x: x[...],
    "slice": lambda x: x[:],
    "index_update of nothing": lambda x: nc.index_update(x, slice(0, 0), nc.zeros((0, 2))),
    "take": lambda x: nc.take(x, nc.arange(2), axis=0),
    "astype": lambda x: nc.astype(x, x.dtype),
    "asarray": lambda x: nc.asarray(x, copy=True),
    "sum of no axes": lambda x: nc.sum(x, axis=()),
    "max of no axes": lambda x: nc.max(x, axis=()),
    "clip": lambda x: nc.clip(x),
    "triangle": lambda x: nc.tril(x, k=5),
    "power": lambda x: x**1,
    "plus": lambda x: +x,
    "round of integers": lambda x: nc.round(x.astype("int32")),
    "dropout": lambda x: F.dropout(x, 0.0),
    "dropout of evaluation": lambda x: F.dropout(x, 0.5, training=False),
    "flatten": lambda x: F.flatten(x, 1) if hasattr(F, "flatten") else nc.reshape(x, x.shape),
    "interpolate": lambda x: F.interpolate(x[None], size=2)[0],
    "vmap": lambda x: nc.vmap(lambda r: r)(x),
    "vmap of nothing mapped": lambda x: nc.vmap(lambda r, s: s, (0, None), out_axes=None)(nc.ones(3), x),
    "jvp": lambda x: nc.jvp(lambda y: y, (x,), (x,))[0],
    "tangent": lambda x: nc.jvp(lambda y: y, (nc.ones((2, 2)),), (x,))[1],
    "vjp": lambda x: nc.vjp(lambda y: y, x)[0],
    "cotangent": lambda x: nc.vjp(lambda y: y, nc.ones((2, 2)))[1](x)[0],
    "value": lambda x: nc.value_and_grad(lambda y, t: (nc.sum(y), t), has_aux=True)(nc.ones(2), x)[0][1] * 1.0,
    "jit": lambda x: nc.jit(lambda y: y)(x),
    "checkpoint": lambda x: nc.checkpoint(lambda y: y)(x),
    "cond": lambda x: nc.cond(TRUE, lambda y: y, lambda y: y, x),
    "fori_loop": lambda x: nc.fori_loop(0, 0, lambda k, y: y, x),
    "scan": lambda x: nc.scan(lambda c, r: (c, r), x, x)[0],
    "scanned rows": lambda x: nc.scan(lambda c, r: (c, r), x, x)[1],
    "detach": lambda x: x.detach(),
    "reshaped method": lambda x: x.reshape(2, 2),
    "copied": lambda x: copy.copy(x),
}  # fmt: skip


def _takes_one(name: str) -> bool:
    function = surface.FUNCTIONS[name]
    try:
        inspect.signature(function).bind(None)
    except TypeError:
        return False
    return name != "nacre.asarray" and "settings" not in function.__module__


OF_ONE = [
    name
    for name in surface.FUNCTIONS
    if name.rpartition(".")[0] in ("nacre", "nacre.nn.functional") and _takes_one(name)
]


def check(call: Callable[[Any], Any]) -> None:
    x = nc.tensor([[1.0, 2.0], [3.0, 4.0]])
    y = call(x)
    assert y is not x
    before = y.tolist()
    y[0] = 9
    assert x.tolist() == [[1.0, 2.0], [3.0, 4.0]], "a write into the result changes the operand"
    y = call(x)
    x[0] = 9.0
    assert y.tolist() == before, "a write into the operand changes the result"


@pytest.mark.parametrize("name", CALLS)
def test_a_write_changes_only_its_tensor(name: str) -> None:
    check(CALLS[name])


TRANSFORMED = ("vmap", "jvp", "tangent", "vjp", "cotangent", "value", "jit", "checkpoint", "cond", "fori_loop")
TAPED = [n for n in CALLS if not n.startswith(TRANSFORMED) and n not in ("detach", "copied", "round of integers")]


@pytest.mark.parametrize("mode", ["eager", "compiled"])
@pytest.mark.parametrize("name", TAPED)
def test_the_gradient_and_the_hooks_of_the_result_are_its_own(name: str, mode: str) -> None:
    def step(x: Any) -> Any:
        x = (x * 1.0).detach().requires_grad_()
        y = CALLS[name](x)
        loss = nc.sum(x * x) + nc.sum(0.1 * y) + nc.sum(0.7 * x) + nc.sum(y * 0.3)
        own = nc.autograd.grad(loss, [x, y], retain_graph=True)
        y.register_hook(lambda g: 10 * g)
        loss.backward()
        return *own, x.grad

    x = nc.tensor([[1.0, 2.0], [3.0, 4.0]])
    found: Any = (step if mode == "eager" else nc.jit(step))(x)
    of_x, of_y, after_hook = found
    plain: Any = nc.grad(lambda x, y: nc.sum(x * x) + nc.sum(0.1 * y) + nc.sum(0.7 * x) + nc.sum(y * 0.3), argnums=1)
    assert of_y.tolist() == plain(x, x).tolist()
    np.testing.assert_allclose(of_x.numpy(), 2 * x.numpy() + 1.1, rtol=1e-6)
    np.testing.assert_allclose(after_hook.numpy(), 2 * x.numpy() + 0.7 + 4, rtol=1e-6)


@pytest.mark.parametrize("name", TAPED)
def test_the_order_of_the_sum_of_gradients_does_not_depend_on_the_mode(name: str) -> None:
    def loss(x: Any) -> Any:
        y = CALLS[name](x)
        return nc.sum(nc.exp(x)) + nc.sum(0.1 * y) + nc.sum(0.7 * nc.sin(x)) + nc.sum(y * nc.sqrt(x) * 0.3)

    x = nc.random.uniform((2, 2), 0.1, 1.0, key=nc.random.key(3))
    leaf = (x * 1.0).requires_grad_()
    loss(leaf).backward()

    def recorded(x: Any) -> Any:
        own = x.detach().requires_grad_()
        return nc.autograd.grad(loss(own), [own])[0]

    modes: dict[str, Callable[[Any], Any]] = {
        "eager": nc.grad(loss),
        "compiled": nc.jit(nc.grad(loss)),
        "of compiled": nc.grad(nc.jit(loss)),
        "recorded": nc.jit(recorded),
    }
    for mode, f in modes.items():
        assert canonical(f(x * 1.0)) == canonical(leaf.grad), mode


@pytest.mark.parametrize("name", OF_ONE)
def test_functions_of_one_tensor_do_not_return_it(name: str) -> None:
    for x in (
        nc.tensor([[1.0, 2.0], [3.0, 4.0]]),
        nc.tensor([[1, 2], [3, 4]]),
        nc.tensor([[True]]),
        nc.tensor(1.0),
        nc.ones((1, 1, 2, 2)),
    ):
        try:
            y = surface.FUNCTIONS[name](x)
        except nc.Error:
            continue
        found = nc.tree.flatten(y)[0]
        assert all(leaf is not x for leaf in found), x.type


def _forwards_one(held: Any) -> bool:
    try:
        inspect.signature(held.forward).bind(None, None)
    except TypeError:
        return False
    return held is not nn.Module


LAYERS = [name for name, held in surface.CLASSES.items() if issubclass(held, nn.Module) and _forwards_one(held)]


@pytest.mark.parametrize("name", LAYERS)
def test_layers_do_not_return_their_operand(name: str) -> None:
    for arguments in ((), (0,), (1,), (2,), (0.0,)):
        try:
            layer = surface.CLASSES[name](*arguments)
        except (nc.Error, TypeError):
            continue
        for x in (nc.ones((2, 2)), nc.ones((1, 1, 2, 2)), nc.tensor([1, 0])):
            for ready in (layer, layer.eval(), nc.jit(layer), nn.Sequential(layer, nn.Sequential())):
                try:
                    y = ready(x)
                except nc.Error:
                    continue
                assert all(leaf is not x for leaf in nc.tree.flatten(y)[0]), (arguments, x.type)
