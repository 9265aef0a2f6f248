"""Programs of constants, which are inlined into their readers up to a number of steps, have the bits of eager code."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nacre as nc
from nacre.api.primitives import view

SIZES = (1, 1, 2, 3)
Program = Callable[[], nc.Tensor]
READERS: dict[str, Callable[[Any], Any]] = {
    "itself": lambda x: x,
    "a reshape": lambda x: nc.reshape(x, (-1,)),
    "a product": lambda x: nc.reshape(x, (-1, 1)) @ nc.ones((1, 2), dtype=x.dtype),
    "a sum": lambda x: nc.sum(x, axis=0) if x.ndim else x,
    "a running sum": lambda x: nc.cumulative_sum(nc.reshape(x, (-1,))),
    "a sort": lambda x: nc.sort(nc.reshape(x, (-1,))),
    "a loop": lambda x: nc.scan(lambda c, row: (c + row, c), nc.zeros((), dtype=x.dtype), nc.reshape(x, (-1,)))[1],
    "a branch": lambda x: nc.cond(nc.sum(x) > 2, lambda x: x + 1, lambda x: x, x),
}


def step(choose: random.Random, x: Any) -> Callable[[Any], Any]:
    """A tensor like x from a random operation."""
    shape = x.shape
    axes = choose.sample(range(x.ndim), x.ndim)
    size, more = choose.choice(SIZES), choose.choice((2.0, -1.5, 0.5))
    cut = tuple(slice(0, max(1, n - choose.randrange(2))) for n in shape)
    factors = [n for n in range(1, math.prod(shape) + 1) if math.prod(shape) % n == 0]
    first = choose.choice(factors)
    return choose.choice(
        [
            lambda x: nc.reshape(x, (first, math.prod(shape) // first)),
            lambda x: nc.reshape(x, (math.prod(shape),)),
            lambda x: nc.reshape(x, (1, *shape)),
            lambda x: nc.permute_dims(x, axes),
            lambda x: view.broadcast(x, (*shape, size), tuple(range(len(shape)))),
            lambda x: view.broadcast(x, (size, *shape), tuple(range(1, len(shape) + 1))),
            lambda x: x * more,
            lambda x: x + nc.arange(shape[-1] if shape else 1).astype(x.dtype),
            lambda x: nc.where(x > 0.5, x, more),
            lambda x: x[cut],
            lambda x: nc.flip(x),
        ]
    )


def program(seed: int) -> Program:
    """An index pattern that is changed a few times and read."""
    choose = random.Random(seed)
    n = choose.choice(SIZES)
    dtype = choose.choice((nc.float32, nc.float64))

    def pattern() -> Any:
        """An identity matrix."""
        at = nc.arange(n)
        return (at[:, None] == at[None, :]).astype(dtype)

    steps: list[Callable[[Any], Any]] = []
    x = pattern()
    for _ in range(choose.randrange(1, 10)):
        f = step(choose, x)
        grown = f(x)
        if grown.size > 64 or grown.ndim > 6:
            continue
        steps.append(f)
        x = grown
    reader = READERS[choose.choice(list(READERS))]

    def run() -> nc.Tensor:
        found = pattern()
        for f in steps:
            found = f(found)
        return reader(found)

    return run


def check(seed: int) -> None:
    run = program(seed)
    wanted, compiled = run().numpy(), nc.jit(run)
    for _ in range(2):
        np.testing.assert_array_equal(compiled().numpy(), wanted, err_msg=f"seed {seed}")


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("count", [1, 2])
def test_a_long_pattern_is_reshaped(reader: str, count: int) -> None:
    def run() -> nc.Tensor:
        at = nc.arange(count)
        rows = nc.reshape((at[:, None] == at[None, :]).astype(nc.float64), (-1,))
        return READERS[reader](nc.reshape(view.broadcast(rows, (*rows.shape, 1, 2), (0,)), (-1, 2)))

    np.testing.assert_array_equal(nc.jit(run)().numpy(), run().numpy())


@pytest.mark.parametrize("seed", range(40))
def test_programs_of_constants(seed: int) -> None:
    check(seed)


@pytest.mark.exhaustive(8)
@pytest.mark.parametrize("block", range(8))
def test_many_programs_of_constants(block: int) -> None:
    for seed in range(1000 + 250 * block, 1250 + 250 * block):
        check(seed)
