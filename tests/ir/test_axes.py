"""Maps of axes: which equations only rename axes, and which repeat along them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from nacre.base.dtypes import float32
from nacre.base.types import TensorType
from nacre.interpret.stage import stage
from nacre.ir.axes import permutation, spreads
from nacre.ir.graph import Equation
from nacre.ops.identity import copy
from nacre.ops.pointwise import neg
from nacre.ops.shape import broadcast, permute, reshape
from nacre.trace.value import Value


def equation(f: Callable[[Value], Value], *shape: int) -> Equation:
    (e,) = stage(lambda x: [f(x)], [TensorType(shape, float32)]).graph.equations
    return e


def test_permutations() -> None:
    e = equation(lambda x: permute(x, (2, 0, 1)), 2, 3, 4)
    assert permutation(e) == (2, 0, 1) and not spreads(e)


@pytest.mark.parametrize("shape, axes", [((2, 3, 4), (0, 1)), ((5, 2, 3), (1, 2)), ((2, 3, 4, 5), (0, 1))])
def test_broadcasts_along_new_axes(shape: tuple[int, ...], axes: tuple[int, ...]) -> None:
    e = equation(lambda x: broadcast(x, shape, axes), 2, 3)
    assert spreads(e) and permutation(e) is None


def test_broadcasts_along_an_axis_of_size_1() -> None:
    e = equation(lambda x: broadcast(x, (2, 3), (0, 1)), 2, 1)
    assert spreads(e) and permutation(e) is None


@pytest.mark.parametrize("f", [copy, neg, lambda x: reshape(x, (3, 2))])
def test_other_equations(f: Callable[[Value], Value]) -> None:
    e = equation(f, 2, 3)
    assert permutation(e) is None and not spreads(e)
