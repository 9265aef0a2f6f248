"""Derivatives in edge cases of formulas: ties, zeros, and very large and small numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from nacre.interpret.evaluate import from_numpy, to_numpy
from nacre.interpret.tape import vjp
from nacre.ops import dot, gather, pointwise, reduce, view, window
from nacre.trace.value import Value
from ops.samples import Array


def gradients(f: Callable[..., Value], *xs: Any, g: Any = None) -> list[Array]:
    """The gradients of sum(g·f(xs)), with g = 1 unless given; zeros where there is none."""
    arrays = [np.asarray(x, np.float64) for x in xs]
    (y,), pull = vjp(lambda *v: [f(*v)], [from_numpy(x) for x in arrays])
    cotangent = np.ones(y.type.shape) if g is None else np.asarray(g, np.float64)
    found = pull([from_numpy(cotangent)])
    return [np.zeros_like(x) if c is None else to_numpy(c) for x, c in zip(arrays, found, strict=True)]


def test_ties_of_two_share() -> None:
    a, b = gradients(pointwise.maximum, [1.0, 2.0, 3.0], [1.0, 3.0, 2.0])
    assert a.tolist() == [0.5, 0, 1]
    assert b.tolist() == [0.5, 1, 0]
    a, b = gradients(pointwise.minimum, [1.0, 2.0, 3.0], [1.0, 3.0, 2.0])
    assert a.tolist() == [0.5, 1, 0]


def test_ties_of_a_reduction_share_equally() -> None:
    (g,) = gradients(lambda x: reduce.max_(x, (1,)), [[1.0, 3, 3, 3], [4, 0, 0, 0]], g=[3.0, 1.0])
    assert g.tolist() == [[0, 1, 1, 1], [1, 0, 0, 0]]


def test_the_first_maximum_of_a_window_receives_the_gradient() -> None:
    x = np.array([[[[1.0, 5, 5], [5, 0, np.nan], [0, 0, 0]]]])
    (g,) = gradients(lambda v: window.window_max(v, (2, 2)), x)
    assert g.tolist() == [[[[0, 1, 0], [1, 0, 2], [0, 0, 0]]]]


def test_powers_at_zero() -> None:
    base, exponent = gradients(pointwise.pow_, [0.0, 0, 0, 2], [0.0, 1, 2, 3])
    assert base.tolist() == [0, 1, 0, 12]
    np.testing.assert_allclose(exponent, [0, 0, 0, 8 * np.log(2)], rtol=1e-15)


def test_absolute_value_is_flat_at_zero() -> None:
    assert gradients(pointwise.abs_, [-2.0, 0.0, 3.0])[0].tolist() == [-1, 0, 1]


def test_products_with_zeros_to_second_order() -> None:
    def first(x: Value) -> Value:
        _, pull = vjp(lambda v: [reduce.prod(v, (0,))], [x])
        (g,) = pull([from_numpy(np.array(1.0))])
        assert g is not None
        return g

    x = np.array([0.0, 0.0, 5.0])
    assert to_numpy(first(from_numpy(x))).tolist() == [0, 0, 0]
    (row,) = gradients(first, x, g=[1.0, 0.0, 0.0])
    assert row.tolist() == [0, 5, 0]


@pytest.mark.parametrize("size", [1e-200, 1.0, 1e200])
def test_angles_of_any_size(size: float) -> None:
    dy, dx = gradients(pointwise.atan2, [3 * size], [4 * size])
    np.testing.assert_allclose([dy[0] * size, dx[0] * size], [4 / 25, -3 / 25], rtol=1e-15)


@pytest.mark.parametrize(
    ("f", "x", "wanted"),
    [
        (pointwise.tanh, 20.0, 0.0),
        (pointwise.sigmoid, 40.0, np.exp(-40.0)),
        (pointwise.sigmoid, -800.0, 0.0),
        (pointwise.expm1, -30.0, np.exp(-30.0)),
        (pointwise.acosh, 1 + 1e-12, 1 / np.sqrt(2e-12)),
        (pointwise.asin, 1 - 1e-12, 1 / np.sqrt(2e-12)),
        (pointwise.erfc, 6.0, -2 / np.sqrt(np.pi) * np.exp(-36.0)),
        (pointwise.log1p, -1 + 2.0**-40, 2.0**40),
        (pointwise.sqrt, 0.0, np.inf),
    ],
)
def test_no_cancellation(f: Callable[[Value], Value], x: float, wanted: float) -> None:
    np.testing.assert_allclose(gradients(f, [x])[0], [wanted], rtol=2e-4, atol=1e-300 + 1e-16 * (wanted == 0))


def test_padding_receives_the_rest_of_the_gradient() -> None:
    def f(x: Value, v: Value) -> Value:
        return view.pad(x, v, (1,), (2,), (1,))

    inside, around = gradients(f, [1.0, 2.0], 7.0, g=[1.0, 2, 4, 8, 16, 32])
    assert inside.tolist() == [2, 8]
    assert around == 1 + 4 + 16 + 32


def test_integers_and_conditions_have_no_gradient() -> None:
    def rounded(x: Value) -> Value:
        whole = pointwise.cast(x, from_numpy(np.zeros((), np.int32)).type.dtype)
        return pointwise.mul(x, pointwise.cast(whole, x.type.dtype))

    assert gradients(rounded, [2.7])[0].tolist() == [2.0]


def test_repeated_indices_add_up() -> None:
    at = from_numpy(np.array([1, 1, 0, 1]))
    (g,) = gradients(lambda x: gather.take(x, at, 0), [5.0, 6.0, 7.0], g=[1.0, 2, 3, 4])
    assert g.tolist() == [3, 7, 0]


def test_a_value_may_be_both_operands() -> None:
    a = np.array([[1.0, 2], [3, 4]])
    (g,) = gradients(lambda x: dot.dot(x, x, ((1,), (0,))), a)
    ones = np.ones((2, 2))
    assert g.tolist() == (ones @ a.T + a.T @ ones).tolist()
