"""Keys of plain values: values that code can distinguish have different keys, also in jitted functions."""

from __future__ import annotations

import enum
import math
from collections import namedtuple
from dataclasses import dataclass
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
        """One of several classes with the same name."""

        factor = scale

    return Mode(1)


class Color(enum.StrEnum):
    """Strings that are also members of an enum."""

    RED = "r"


@dataclass(frozen=True)
class Place:
    """A key with a field."""

    at: float


Point = namedtuple("Point", "x y")
PAIRS: list[tuple[Any, Any]] = [
    (1, True), (1, 1.0), (0.0, -0.0), (range(0), range(5, 5)), (frozenset([1]), frozenset([1.0])),
    (frozenset([0.0]), frozenset([-0.0])), (Decimal(0), Decimal("-0")), (complex(0, 0.0), complex(0, -0.0)),
    (mode(2.0), mode(5.0)), ("r", Color.RED), (unit(1.0), unit(9.0)), (np.float32(0.0), np.float32(-0.0)),
    (np.float32(1.0), np.float64(1.0)), ((1, 2), (True, 2)), (b"a", "a"),
]  # fmt: skip


@pytest.mark.parametrize(("a", "b"), PAIRS, ids=repr)
def test_jitted_functions_and_modules_distinguish_values(a: Any, b: Any) -> None:
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


KEYS = [*PAIRS, (Place(1), Place(1.0)), (Place(0.0), Place(-0.0)), (Point(1, 2), Point(True, 2)), ((1,), Point(1, 2))]


@pytest.mark.parametrize(("a", "b"), KEYS, ids=repr)
def test_keys_of_dicts_are_distinguished_like_values(a: Any, b: Any) -> None:
    seen: list[Any] = []

    @nc.jit
    def f(held: Any) -> Any:
        (key,) = held
        seen.append(key)
        return {key: held[key] * 2.0}

    x = nc.ones(2)
    for value in (a, b, a, b):
        ((found, doubled),) = f({value: x}).items()
        assert exact_key(found) == exact_key(value) and doubled.tolist() == [2.0, 2.0]
    assert [id(v) for v in seen] == [id(a), id(b)]


def test_dicts_with_keys_of_many_kinds_are_rebuilt() -> None:
    held = {"a": 1, 2: 3, (1, True): 4, math.nan: 5, Color.RED: 6, -0.0: 7, None: 8}
    leaves, structure = nc.tree.flatten(held)
    made = nc.tree.unflatten(structure, leaves)
    assert made == held and [*map(exact_key, made)] == [*map(exact_key, held)]
    assert structure == nc.tree.structure(made) and hash(structure) == hash(nc.tree.structure(made))
    assert str(structure) == "(*, *, *, *, *, *, *)"
    assert nc.tree.structure({1: 0}) != nc.tree.structure({True: 0})
    assert nc.jit(lambda d: d[math.nan])({math.nan: nc.ones(())}).item() == 1.0


def test_dataclasses_without_hashable_fields_are_compared_by_identity() -> None:
    @dataclass(frozen=True)
    class Odd:
        """A key that has a hash although its field has none."""

        at: Any

        def __hash__(self) -> int:
            return 1

    one = Odd([1])
    assert exact_key(one) == exact_key(one) != exact_key(Odd([1]))
    assert repr(exact_key(Place(2))) == "Place(at=2)"
