"""Numbers of captured tensors and arrays that Python reads while a function is traced: other numbers are seen."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import nacre as nc
from same_bits import canonical

X = nc.tensor(np.arange(6, dtype=np.float32))
held = SimpleNamespace()

READS: dict[str, Callable[[Any], Any]] = {
    "item": lambda x: x * held.i.item(),
    "int": lambda x: x * int(held.i),
    "float": lambda x: x * float(held.i),
    "tolist": lambda x: x * held.i.tolist(),
    "numpy": lambda x: x * float(held.i.numpy()),
    "text": lambda x: x * len(f"{held.i}"),
    "a slice": lambda x: x[: held.i],
    "an item of a list": lambda x: [x, x + 1, x + 2, x + 3, x + 4][held.i],
    "range": lambda x: sum([x for _ in range(held.i)], x),
    "roll": lambda x: nc.roll(x, held.i),
    "tile": lambda x: nc.tile(x, (held.i,)),
    "also an input": lambda x: x * held.i.item() + held.i.astype(nc.float32),
    "in containers": lambda x: x * held.all["of"][0].item(),
    "a mask": lambda x: x[held.mask],
    "a mask of NumPy": lambda x: x[held.array],
}


def hold(k: int) -> None:
    held.i = nc.tensor(k % 4 + 1)
    held.all = {"of": [held.i]}
    held.mask = nc.tensor(np.arange(6) % (k + 2) == 0)
    held.array = np.arange(6) % (k + 2) == 0


@pytest.mark.parametrize("name", READS)
def test_another_object_is_seen(name: str) -> None:
    f = READS[name]
    compiled = nc.jit(f)
    for k in (0, 1, 2, 1, 2, 0, 0, 3):
        hold(k)
        for _ in range(2):
            assert canonical(compiled(X)) == canonical(f(X)), k
    assert len(compiled.concrete_functions) <= 4


def test_a_change_in_place_is_seen() -> None:
    sizes, mask = nc.tensor([1, 2, 3]), np.array([True, False, True, False, True, False])

    def f(x: Any) -> Any:
        return x[mask] * sizes.tolist()[0]

    compiled = nc.jit(f)
    for k in range(5):
        assert canonical(compiled(X)) == canonical(f(X)), k
        sizes[0] = k + 5
        mask[k] = not mask[k]


def test_the_reason_says_that_numbers_were_read() -> None:
    hold(0)
    compiled = nc.jit(lambda x: x * held.i.item())
    compiled(X)
    hold(1)
    compiled(X)
    assert compiled.concrete_functions[1].reason.endswith("and Python has read its numbers")


def test_a_tensor_whose_numbers_are_not_read_needs_one_variant() -> None:
    compiled = nc.jit(lambda x: x * held.i.astype(nc.float32))
    for k in range(4):
        hold(k)
        compiled(X)
    assert len(compiled.concrete_functions) == 1


def test_an_outer_function_sees_numbers_that_an_inner_one_read() -> None:
    inner = nc.jit(lambda x: x * held.i.item())
    outer = nc.jit(lambda x: inner(x) + 1)
    for k in (0, 1, 2):
        hold(k)
        assert canonical(outer(X)) == canonical(X * held.i.item() + 1)
