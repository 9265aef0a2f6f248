"""A linear regression by gradient descent, with its parameters in a dict."""

from __future__ import annotations

from typing import assert_type

import nacre as nc

Parameters = dict[str, nc.Tensor]


def predict(p: Parameters, x: nc.Tensor) -> nc.Tensor:
    return x @ p["w"] + p["b"]


def loss(p: Parameters, x: nc.Tensor, y: nc.Tensor) -> nc.Tensor:
    return nc.mean((predict(p, x) - y) ** 2)


@nc.jit
def step(p: Parameters, x: nc.Tensor, y: nc.Tensor, rate: float = 0.1) -> tuple[nc.Tensor, Parameters]:
    value, slopes = nc.value_and_grad(loss)(p, x, y)
    assert_type(value, nc.Tensor)
    assert_type(slopes, Parameters)
    return value, {name: p[name] - rate * slopes[name] for name in p}


nc.random.seed(0)
inputs = nc.random.normal((64, 3))
outputs = inputs @ nc.tensor([1.0, -2.0, 0.5]) + 3.0
parameters = {"w": nc.zeros(3), "b": nc.tensor(0.0)}
losses: list[float] = []
for _ in range(100):
    value, parameters = step(parameters, inputs, outputs, rate=0.1)
    losses.append(float(value))
assert_type(parameters["w"], nc.Tensor)
assert losses[-1] < losses[0]
