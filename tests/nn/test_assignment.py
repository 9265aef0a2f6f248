"""Assignments to parameters, buffers and modules have the effect that they express, or raise an error at the line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import nacre as nc
from nacre import nn


def line() -> nn.Linear:
    layer = nn.Linear(2, 1)
    layer.weight.data = [[1.0, 2.0]]
    layer.bias.data = [4.0]
    return layer


class Average(nn.Module):
    """A running mean, as in code ported from another library."""

    def __init__(self) -> None:
        self.scale = nn.Parameter([2.0])
        self.register_buffer("mean", nc.zeros(1))

    def forward(self, x: nc.Tensor) -> nc.Tensor:
        self.mean = 0.5 * self.mean + 0.5 * x.mean()
        return x * self.scale - self.mean


# ---- parameters in place


def test_a_loop_over_parameters_updates_them() -> None:
    layer = line()
    layer(nc.ones((1, 2))).sum().backward()
    with nc.no_grad():
        for p in layer.parameters():
            p -= 0.5 * p.grad
    assert (layer.weight.tolist(), layer.bias.tolist()) == ([[0.5, 1.5]], [3.5])
    assert layer.weight.requires_grad and isinstance(layer.weight, nn.Parameter)


@pytest.mark.parametrize(("change", "value"), [
    ("p += 1", 5.0), ("p -= 1", 3.0), ("p *= 2", 8.0), ("p /= 2", 2.0), ("p //= 3", 1.0), ("p %= 3", 1.0),
    ("p **= 2", 16.0), ("p[0] = 7", 7.0), ("p[:] = 7", 7.0), ("p += p", 8.0), ("p += nc.ones(1)", 5.0),
])  # fmt: skip
@pytest.mark.parametrize("jitted", [False, True])
def test_in_place(change: str, value: float, jitted: bool) -> None:
    p = first = nn.Parameter([4.0])
    known = {"nc": nc, "p": p}

    def f() -> None:
        with nc.no_grad():
            exec(change, known)

    (nc.jit(f) if jitted else f)()
    assert known["p"] is first and first.tolist() == [value] and first.requires_grad


def test_in_place_on_bits_of_a_buffer() -> None:
    b = nn.Buffer(nc.tensor([6]))
    b &= 3
    b |= 8
    b ^= 1
    b <<= 2
    b >>= 1
    assert b.tolist() == [22]
    m = nn.Buffer(nc.eye(2))
    m @= nc.tensor([[0.0, 1.0], [1.0, 0.0]])
    assert m.tolist() == [[0.0, 1.0], [1.0, 0.0]]


@pytest.mark.parametrize("change", ["p -= 0.1", "p[0] = 0.0", "module.scale -= 0.1", "module.scale *= p"])
def test_a_change_that_should_be_recorded_is_refused(change: str) -> None:
    module = Average()
    with pytest.raises(nc.GradientError, match=r"nacre\.no_grad"):
        exec(change, {"p": module.scale, "module": module})
    assert module.scale.tolist() == [2.0]


def test_a_change_of_type_is_refused() -> None:
    p = nn.Parameter([4.0])
    with nc.no_grad(), pytest.raises(nc.DTypeError, match=r"must have type f32\[1\]; got f64\[1\]"):
        p += nc.ones(1, dtype=nc.float64)
    with nc.no_grad(), pytest.raises(nc.ShapeError, match=r"must have type f32\[1\]; got f32\[3\]"):
        p += nc.ones(3)
    with pytest.raises(TypeError):
        p += "text"


@pytest.mark.parametrize("jitted", [False, True])
@pytest.mark.parametrize(
    "change",
    [
        "m.scale.data[0] = 9.0",
        "m.scale.data += 7.0",
        "m.scale.detach()[:] = 9.0",
        "m.state_dict()['scale'][...] = 9.0",
        "d = m.scale.data; d[0] = 8.0; d[0] += 1.0",
    ],
)
def test_changes_of_data_change_the_parameter(change: str, jitted: bool) -> None:
    m = Average()

    def f() -> None:
        exec(change, {"m": m})

    (nc.jit(f) if jitted else f)()
    assert m.scale.tolist() == [9.0] and m.scale.requires_grad


def test_an_earlier_value_of_data_does_not_undo_an_update() -> None:
    p = nn.Parameter([1.0, 2.0])
    old = p.data
    p.assign(nc.tensor([3.0, 4.0]))
    with pytest.raises(nc.StateError, match="must be the current value"):
        old[0] = 0.0
    assert p.tolist() == [3.0, 4.0]


def test_a_copy_of_data_is_independent() -> None:
    p = nn.Parameter([1.0, 2.0])
    copy = p.data * 1
    copy[0] = 5.0
    assert p.tolist() == [1.0, 2.0]


def test_parameters_are_frozen_by_the_attribute() -> None:
    layer = line()
    x = nc.ones((1, 2))
    layer(x).sum().backward()
    layer.weight.requires_grad = False
    layer.bias.requires_grad = False
    assert not layer(x).requires_grad
    layer.weight.requires_grad = True
    assert layer(x).requires_grad


@pytest.mark.parametrize("jitted", [False, True])
def test_gradients_change_in_place(jitted: bool) -> None:
    p = nn.Parameter([1.0, 2.0])
    p.grad = nc.tensor([3.0, 4.0])

    def f() -> None:
        p.grad[0] = 5.0
        p.grad *= 2.0

    (nc.jit(f) if jitted else f)()
    assert p.grad.tolist() == [10.0, 8.0]

    def g() -> None:
        p.grad[0] = 1.0

    (nc.jit(g) if jitted else g)()
    assert p.grad.tolist() == [1.0, 8.0]


@pytest.mark.parametrize(
    "call",
    [
        "x.zero_()",
        "x.add_(1)",
        "p.data.copy_(x)",
        "p.add_(x, alpha=2)",
        "p.grad.zero_()",
        "p.fill_(0.0)",
        "p.data.uniform_(-1, 1)",
        "x.clamp_(0, 1)",
    ],
)
def test_errors_of_in_place_methods_say_what_to_write(call: str) -> None:
    x, p = nc.ones(2), nn.Parameter(nc.ones(2))
    p.grad = nc.ones(2)
    with pytest.raises(nc.Error, match="write") as fault:
        exec(call, {"x": x, "p": p})
    assert isinstance(fault.value, AttributeError)
    assert not hasattr(x, "no_such_name") and not hasattr(p, "no_such_name")


# ---- attributes of modules


@pytest.mark.parametrize("value", [nc.ones(1), 3.0, [1.0], "text"])
def test_a_parameter_is_not_lost(value: Any) -> None:
    m = Average()
    with pytest.raises(TypeError, match=r"Average\.scale: a parameter can only be replaced") as fault:
        m.scale = value
    assert isinstance(fault.value, nc.Error)
    assert [n for n, _ in m.named_parameters()] == ["scale"] and m.scale.tolist() == [2.0]


def test_a_parameter_updates_in_place_as_an_attribute() -> None:
    m = Average()
    with nc.no_grad():
        m.scale -= 0.5
        m.scale[0] *= 2.0
    assert list(m.state_dict()) == ["scale", "mean"] and m.scale.tolist() == [3.0]


def test_values_that_may_replace_a_parameter() -> None:
    m = Average()
    m.scale = nn.Parameter([5.0])
    assert m.scale.tolist() == [5.0] and m.scale.name == "scale"
    m.scale = None
    assert list(m.parameters()) == []
    m.scale = nn.Parameter([6.0])
    del m.scale
    m.scale = nc.ones(1)
    assert list(m.parameters()) == []


def test_modules_and_methods_are_not_lost() -> None:
    net = nn.Sequential(nn.Linear(2, 2))
    layer = net[0]
    with pytest.raises(TypeError, match=r"Sequential\.0: a module can only be replaced"):
        setattr(net, "0", nc.ones(2))
    with pytest.raises(TypeError, match=r"Sequential\.train: a method can only be .*module\.train\(False\)"):
        net.train = False
    with pytest.raises(TypeError, match=r"Sequential\.eval"):
        net.eval = True
    with pytest.raises(TypeError, match=r"Sequential\.requires_grad: .*requires_grad_\(False\)"):
        net.requires_grad = False
    assert net[0] is layer and net.train(False) is net


@pytest.mark.parametrize("jitted", [False, True])
def test_a_buffer_stays_a_buffer(jitted: bool) -> None:
    m = Average()
    held = m.mean
    forward: Callable[..., Any] = nc.jit(m) if jitted else m
    with nc.no_grad():
        for _ in range(3):
            y = forward(nc.tensor([8.0]))
    assert m.mean is held and list(m.state_dict()) == ["scale", "mean"]
    assert m.mean.tolist() == [7.0] and y.tolist() == [9.0]
    if jitted:
        assert len(forward.concrete_functions) == 1


def test_a_buffer_of_another_type() -> None:
    m = Average()
    m.mean = nc.arange(3)
    assert isinstance(m.mean, nn.Buffer) and m.state_dict()["mean"].tolist() == [0, 1, 2]

    @nc.jit
    def grow(x: nc.Tensor) -> nc.Tensor:
        m.mean = nc.concat([m.mean, x])
        return m.mean.data

    with pytest.raises(nc.ShapeError, match="mean: the value must have type"):
        grow(nc.arange(2))
    with pytest.raises(TypeError, match=r"Average\.mean: a buffer can only be replaced"):
        m.mean = 3.0


def test_a_buffer_does_not_stop_gradients() -> None:
    m = Average()
    x = nc.ones(2).requires_grad_()
    with pytest.raises(nc.GradientError, match=r"Average\.mean.*detach\(\)"):
        m(x)
    with pytest.raises(nc.GradientError, match=r"detach\(\)"):
        m.mean += x.sum()
    m.mean += x.sum().detach()
    assert m.mean.tolist() == [2.0]


def test_a_method_is_replaced_twice() -> None:
    m = nn.Linear(1, 1)
    m.forward = lambda x: x  # type: ignore[method-assign]
    m.forward = lambda x: x + 1  # type: ignore[method-assign]
    assert m(nc.tensor([1.0])).tolist() == [2.0]
    with pytest.raises(nc.DTypeError, match="a method can only be replaced by a function"):
        m.forward = 3  # type: ignore[assignment,method-assign]
