"""A network with modules of the user's, an optimiser, a schedule, and a compiled step."""

from __future__ import annotations

from collections.abc import Iterator
from typing import assert_type

import nacre as nc
from nacre import nn, optim
from nacre.nn import functional as F


class Net(nn.Module):
    """Two layers, and a parameter of its own."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first = nn.Linear(2, width)
        self.last = nn.Linear(width, 1)
        self.scale = nn.Parameter(nc.ones(1))
        self.dropout = nn.Dropout(0.1)

    def forward(self, x: nc.Tensor) -> nc.Tensor:
        hidden = F.relu(self.first(x))
        assert_type(hidden, nc.Tensor)
        return self.last(self.dropout(hidden)) * self.scale


nc.random.seed(0)
model = Net(8)
optimizer = optim.AdamW(model.parameters(), lr=1e-2)
schedule = optim.StepLR(optimizer, step_size=10)
assert_type(model.parameters(), Iterator[nn.Parameter])
assert_type(model.state_dict(), dict[str, nc.Tensor])
assert_type(model.first.weight, nn.Parameter)


@nc.jit
def step(x: nc.Tensor, y: nc.Tensor) -> nc.Tensor:
    loss = F.mse_loss(model(x), y)
    assert_type(loss, nc.Tensor)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return loss


inputs = nc.random.normal((32, 2))
outputs = nc.sum(inputs, axis=1, keepdims=True)
for _ in range(3):
    assert_type(step(inputs, outputs), nc.Tensor)
    schedule.step()

with nc.no_grad():
    model.eval()
    prediction = model(inputs)
assert_type(prediction, nc.Tensor)
assert_type(nc.jit(model)(inputs), nc.Tensor)
assert prediction.shape == (32, 1)
for name, parameter in model.named_parameters():
    assert_type(name, str)
    assert_type(parameter.grad, nc.Tensor | None)
    assert_type(parameter * 2, nc.Tensor)
stack = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))
assert stack(inputs).shape == (32, 1)
