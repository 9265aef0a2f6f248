"""Keys of plain values: what code can tell apart has different keys, and jitted functions see it."""

from __future__ import annotations

import enum
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

import nacre as nc
from nacre import nn
from nacre.base.exact import exact_key


class Unit(float):
    """A number with an attribute."""

    unit: float


def unit(value: float) -> Unit:
    made = Unit(1.0)
    made.unit = value
    return made


def mode(scale: float) -> Any:
    class Mode(int):
        """One of several classes of one name."""

        factor = scale

    return Mode(1)


class Color(enum.StrEnum):
    """Texts that are more than texts."""

    RED = "r"


PAIRS: list[tuple[Any, Any]] = [
    (1, True), (1, 1.0), (0.0, -0.0), (range(0), range(5, 5)), (frozenset([1]), frozenset([1.0])),
    (frozenset([0.0]), frozenset([-0.0])), (Decimal(0), Decimal("-0")), (complex(0, 0.0), complex(0, -0.0)),
    (mode(2.0), mode(5.0)), ("r", Color.RED), (unit(1.0), unit(9.0)), (np.float32(0.0), np.float32(-0.0)),
    (np.float32(1.0), np.float64(1.0)), ((1, 2), (True, 2)), (b"a", "a"),
]  # fmt: skip


@pytest.mark.parametrize(("a", "b"), PAIRS, ids=repr)
def test_jitted_functions_and_modules_see_which_value_they_have(a: Any, b: Any) -> None:
    assert exact_key(a) != exact_key(b) and exact_key(a) == exact_key(a)
    seen: list[Any] = []

    def f(x: Any, value: Any) -> Any:
        seen.append(value)
        return x * 2.0

    class Held(nn.Module):
        """Holds a value."""

        def __init__(self) -> None:
            self.value = a

        def forward(self, x: Any) -> Any:
            seen.append(self.value)
            return x * 2.0

    jitted, x = nc.jit(f), nc.ones(2)
    for value in (a, b, a, b):
        jitted(x, value)
    assert [id(v) for v in seen] == [id(a), id(b)]
    model = Held()
    called = nc.jit(lambda x: model(x))
    seen.clear()
    called(x)
    model.value = b
    called(x)
    assert [id(v) for v in seen] == [id(a), id(b)]
