"""`inspect.precision` and `inspect.ranges`: digits that operations lose, and the numbers of activations."""

from __future__ import annotations

import numpy as np
import pytest

import nacre as nc
from nacre import inspect, nn, optimize
from nacre.base.errors import ArgumentError, KindError

F = nn.functional


def test_cancellation_is_named() -> None:
    x = nc.arange(8.0) + 10000

    def variance(x: nc.Tensor) -> nc.Tensor:
        return (x * x).mean() - x.mean() ** 2

    found = inspect.precision(variance, x)
    worst = found.operations[0]
    assert (worst.operation, worst.backward) == ("sub", False)
    assert "test_digits.py" in worst.line and worst.lost > 5 and found.digits[0] < 2
    assert "sub of f32[] lost" in str(found)


def test_a_sound_function_loses_nothing() -> None:
    found = inspect.precision(lambda x: F.softmax(x), nc.random.normal((16, 8)))
    assert found.digits[0] > 6 and all(row.lost < 1.5 for row in found)


def test_digits_agree_with_numpy() -> None:
    x = nc.random.normal((50,))
    exact = np.sum(np.exp(x.numpy().astype(np.float64)))
    found = inspect.precision(lambda x: nc.exp(x).sum(), x)
    error = abs(float(nc.exp(x).sum()) - exact) / exact
    assert error == 0 or abs(found.digits[0] + np.log10(error)) < 0.5


def test_modules_rounds_and_branches() -> None:
    class Shift(nn.Module):
        def forward(self, x: nc.Tensor) -> nc.Tensor:
            return (x + 1e6) - 1e6

    def looped(c: nc.Tensor) -> nc.Tensor:
        return nc.scan(lambda c, k: (nc.cond(k > 2, lambda c: (c + 1e6) - 1e6, lambda c: c, c), c), c, nc.arange(4.0))[
            0
        ]

    assert inspect.precision(Shift(), nc.ones(3) / 3).operations[0].module == "Shift"
    worst = inspect.precision(looped, nc.ones(3) / 3).operations[0]
    assert (worst.operation, worst.rounds) == ("sub", (3,))


def test_branches_of_a_batch_and_solvers() -> None:
    def f(x: nc.Tensor, w: nc.Tensor) -> nc.Tensor:
        return nc.cond(x > 0, lambda x, w: ((x + 1e6) - 1e6) * w, lambda x, w: x * w, x, w)

    found = inspect.precision(nc.vmap(f, (0, None)), nc.tensor([0.1, -0.1]), nc.tensor(2.0))
    assert found.operations[0].operation == "sub" and found.digits[0] < 3
    matrix = nc.tensor([[2.0, 1.0], [1.0, 3.0]])
    assert inspect.precision(lambda b: optimize.linear_solve(lambda v: matrix @ v, b).x, nc.ones(2)).digits[0] > 5


def test_host_calls_are_refused() -> None:
    with pytest.raises(ArgumentError, match="precision: f must call no Python function"):
        inspect.precision(lambda x: nc.host_call(lambda x: x, x.type, x), nc.ones(2))


def test_ranges_of_a_model() -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 2))
    before = {name: x.numpy().copy() for name, x in model.state_dict().items()}
    x = nc.random.normal((6, 4))
    table = inspect.ranges(model, x, lambda y: (y * y).mean())
    first = next(row for row in table if row.place == "[0] (Linear)" and row.what == "activation")
    expected = model[0](x).numpy()
    assert (first.least, first.largest, first.unusual) == (expected.min(), expected.max(), 0)
    assert {row.what for row in table} == {"activation", "gradient", "parameter gradient"}
    assert sum(row.what == "parameter gradient" for row in table) == 6
    assert all(np.array_equal(x.numpy(), before[name]) for name, x in model.state_dict().items())
    assert all(p.grad is None for p in model.parameters())
    assert str(table).splitlines()[0].split()[:3] == ["place", "what", "type"]


def test_ranges_refuse_what_they_cannot_show() -> None:
    with pytest.raises(KindError, match="ranges: model must be a module"):
        inspect.ranges(nc.exp, nc.ones(2))  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="ranges: loss must return a scalar"):
        inspect.ranges(nn.Linear(2, 2), nc.ones((1, 2)), lambda y: y)
