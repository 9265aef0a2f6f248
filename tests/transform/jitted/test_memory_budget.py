"""jit(memory_budget=…): the same bits in less memory, for more work."""

from __future__ import annotations

from typing import Any

import pytest

import nacre as nc
from nacre import nn, optim
from nacre.nn import functional as F

X = nc.random.normal((64, 48), key=nc.random.key(0))
LABELS = nc.arange(64) % 5


class Block(nn.Module):
    """A layer norm, two products with dropout between them, and a residual connection."""

    def __init__(self, width: int) -> None:
        self.norm, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, 3 * width), nn.Linear(3 * width, width)
        self.dropout = nn.Dropout(0.1)

    def forward(self, x: Any) -> Any:
        return x + self.down(self.dropout(F.gelu(self.up(self.norm(x)))))


def training(budget: int | str | None, steps: int = 2) -> tuple[Any, list[bytes]]:
    nc.random.seed(1)
    model = nn.Sequential(*(Block(48) for _ in range(6)), nn.Linear(48, 5))
    optimiser = optim.AdamW(model.parameters(), lr=1e-3)

    @nc.jit(memory_budget=budget)
    def step(x: Any, y: Any) -> Any:
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimiser.step()
        optimiser.zero_grad()
        return loss

    losses = [step(X, LABELS) for _ in range(steps)]
    return step, [v.numpy().tobytes() for v in (*losses, *(p.value for p in model.parameters()))]


@pytest.fixture(scope="module")
def plain() -> tuple[Any, list[bytes]]:
    return training(None)


@pytest.mark.parametrize("share", [0.8, 0.5, 0.33])
def test_the_same_bits_within_the_budget(plain: Any, share: float) -> None:
    step, wanted = plain
    whole = step.memory(X, LABELS).intermediates
    budget = int(whole * share)
    saving, found = training(budget)
    assert found == wanted
    memory = saving.memory(X, LABELS)
    assert memory.intermediates <= budget
    chosen = memory.recomputation
    assert (chosen.budget, chosen.unconstrained, chosen.intermediates) == (budget, whole, memory.intermediates)
    assert 1 <= chosen.work < 2
    assert f"instead of {whole:,}" in str(chosen) or not chosen.values
    assert saving.concrete_functions[0].executable.plan.recomputation == chosen


def test_a_large_budget_changes_nothing(plain: Any) -> None:
    step, wanted = plain
    saving, found = training("1GiB")
    chosen = saving.memory(X, LABELS).recomputation
    assert found == wanted and chosen.values == () and chosen.work == 1
    assert saving.memory(X, LABELS).intermediates == step.memory(X, LABELS).intermediates
    assert "nothing is computed again" in str(chosen)


def test_a_budget_that_is_too_small_names_the_least() -> None:
    with pytest.raises(nc.OutOfMemory, match=r"must be at least [\d,]+ bytes .* got 64 bytes; without") as fault:
        training("64B")
    least = int(str(fault.value).split("at least ")[1].split(" bytes")[0].replace(",", ""))
    saving, _ = training(least, 1)
    assert saving.memory(X, LABELS).intermediates <= least
    with pytest.raises(nc.OutOfMemory):
        training(least - 1, 1)


def gradient(x: Any) -> Any:
    for _ in range(8):
        x = nc.tanh(x) * 1.01
        x = nc.scan(lambda c, r: (c * 0.9 + r, c), x[0], x)[1] + x
    return nc.sum(x * x)


def test_loops_are_computed_again_as_a_whole() -> None:
    plain = nc.jit(nc.grad(gradient))
    wanted = plain(X)
    whole = plain.memory(X).intermediates
    saving = nc.jit(nc.grad(gradient), memory_budget=whole // 2)
    assert saving(X).numpy().tobytes() == wanted.numpy().tobytes()
    assert saving.memory(X).intermediates <= whole // 2


def test_host_calls_and_checks_run_once() -> None:
    calls: list[float] = []

    def f(x: Any, index: Any) -> Any:
        for _ in range(6):
            x = nc.exp(nc.sin(x @ X[:48]) * 0.1)
            x = x + nc.host_call(noted, x[0, 0].type, x[0, 0].detach()).detach() + x[index][0]
        return nc.sum(x * x)

    def noted(x: Any) -> Any:
        calls.append(float(x))
        return x * 0

    plain = nc.jit(nc.grad(f))
    index = nc.tensor([3, 5])
    wanted = plain(X, index)
    before, whole = list(calls), plain.memory(X, index).intermediates
    calls.clear()
    saving = nc.jit(nc.grad(f), memory_budget=int(whole * 0.7))
    assert saving(X, index).numpy().tobytes() == wanted.numpy().tobytes()
    assert calls == before and len(calls) == 6
    with pytest.raises(nc.AxisError):
        saving(X, nc.tensor([3, 64]))


@pytest.mark.parametrize("budget", ["12", "12 megabytes", "MiB", -1, 1.5, True, "-1MiB"])
def test_a_budget_is_a_number_of_bytes(budget: Any) -> None:
    with pytest.raises(nc.ArgumentError, match=r'jit: memory_budget must be .*; got .*write memory_budget="512MiB"'):
        nc.jit(nc.sin, memory_budget=budget)


def test_sizes_must_be_numbers() -> None:
    with pytest.raises(nc.ArgumentError, match="got dynamic_shapes"):
        nc.jit(lambda x: x, dynamic_shapes={"x": {0: nc.Dim("n")}}, memory_budget="1MiB")
    f = nc.jit(nc.grad(lambda x: nc.sum(nc.sin(x))), memory_budget="1MiB")
    for n in (3, 4, 5):
        f(nc.ones(n))
    assert len(f.concrete_functions) == 3


def test_a_backward_pass_outside_is_refused() -> None:
    model = nn.Linear(3, 3)
    f = nc.jit(lambda x: model(x).sum(), memory_budget="1MiB")
    with pytest.raises(nc.StateError, match="must contain its backward pass"):
        f(nc.ones((2, 3)))
    with nc.no_grad():
        f(nc.ones((2, 3)))
    g = nc.jit(nc.sin, memory_budget="1MiB")
    g(nc.ones(3))
    with pytest.raises(nc.StateError, match="must contain its backward pass"):
        g(nc.ones(3).requires_grad_())


def test_within_other_transformations_the_outermost_function_decides() -> None:
    f = nc.jit(lambda x: nc.sum(nc.sin(nc.exp(x))), memory_budget="1MiB")
    x = nc.ones(4)
    assert nc.jit(nc.grad(f))(x).numpy().tobytes() == nc.grad(lambda x: nc.sum(nc.sin(nc.exp(x))))(x).numpy().tobytes()
    assert nc.vmap(f)(nc.ones((2, 4))).shape == (2,)
