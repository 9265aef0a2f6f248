"""`fixed_point`: solutions, and derivatives that do not depend on the iterations."""

from __future__ import annotations

from typing import Any

import pytest

import nacre as nc
from optimize.problems import F64, numbers
from tensor_bits import bits

METHODS = ("anderson", "plain")
W, B = 0.2 * numbers(0, 20, 20), numbers(1, 20)


def layer(w: Any, b: Any, method: str = "anderson") -> Any:
    """The equilibrium z = tanh(W·z + b)."""
    return nc.optimize.fixed_point(
        lambda z: nc.tanh(w @ z + b), nc.zeros(20, dtype=F64), method=method, tolerance=1e-13, strict=True
    ).x


def unrolled(w: Any, b: Any) -> Any:
    return nc.fori_loop(0, 200, lambda _, z: nc.tanh(w @ z + b), nc.zeros(20, dtype=F64))


@pytest.mark.parametrize("method", METHODS)
def test_derivatives_equal_those_of_the_iterations(method: str) -> None:
    def loss(f: Any) -> Any:
        return lambda w, b: (f(w, b) ** 2).sum()

    ours = nc.grad(loss(lambda w, b: layer(w, b, method)), (0, 1))(W, B)
    theirs = nc.grad(loss(unrolled), (0, 1))(W, B)
    assert all(float(abs(a - b).max()) < 1e-11 for a, b in zip(ours, theirs, strict=True))
    nc.check_grads(lambda b: layer(W, b, method), (B,), order=2)


def test_acceleration_takes_fewer_iterations() -> None:
    counts = [
        nc.optimize.fixed_point(lambda z: nc.tanh(W @ z + B), nc.zeros(20, dtype=F64), method=m).iterations.item()
        for m in METHODS
    ]
    assert counts[0] < 0.7 * counts[1]
    far = nc.optimize.fixed_point(lambda x: 3.0 - 2.0 * x, nc.tensor(0.0))  # no contraction
    assert (
        far.x.item() == 1.0 and nc.optimize.fixed_point(lambda x: 3.0 - 2.0 * x, 0.0, method="plain").status.item() == 2
    )


@pytest.mark.parametrize("method", METHODS)
def test_bits_are_equal_eagerly_compiled_and_in_a_batch(method: str) -> None:
    bs = numbers(3, 3, 20)
    alone = [layer(W, b, method) for b in bs]
    assert bits(list(nc.vmap(lambda b: layer(W, b, method))(bs))) == bits(alone)
    assert bits(nc.jit(lambda b: layer(W, b, method))(bs[0])) == bits(alone[0])


def test_a_tree_and_a_model() -> None:
    nc.random.seed(0)
    cell = nc.nn.Linear(4, 4)
    x = nc.random.normal((4,))
    found = nc.optimize.fixed_point(lambda s: {"z": nc.tanh(0.3 * cell(s["z"]) + x)}, {"z": nc.zeros(4)}, strict=True)
    found.x["z"].sum().backward()
    assert float(abs(cell.weight.grad).max()) > 0

    def total(cell: Any) -> Any:
        return nc.optimize.fixed_point(lambda z: nc.tanh(0.3 * cell(z) + x), nc.zeros(4)).x.sum()

    slope = nc.grad(total)(cell)
    assert float(abs(slope.weight - cell.weight.grad).max()) < 1e-4


def test_the_end_is_told_and_bad_input_refused() -> None:
    assert nc.optimize.fixed_point(nc.cos, 1.0, max_iterations=2, method="plain").status.item() == 1
    with pytest.raises(nc.ConvergenceError, match="fixed_point"):
        nc.optimize.fixed_point(nc.cos, 1.0, max_iterations=2, method="plain", strict=True)
    with pytest.raises(nc.ArgumentError, match="tree like its argument"):
        nc.optimize.fixed_point(lambda x: (x, x), nc.ones(2))
    with pytest.raises(nc.ArgumentError, match="memory must be between 1 and 100"):
        nc.optimize.fixed_point(nc.cos, 1.0, memory=0)
