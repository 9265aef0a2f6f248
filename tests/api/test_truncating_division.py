"""Division with a rounding mode, `fmod`, `fmax` and `fmin`; order and extrema of bools."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import nacre as nc

A = np.array([7.0, -7.0, 0.3, -0.3, 1e30, np.inf, 5.0, -0.0, np.nan, 1.0, -6.0])
B = np.array([2.0, 2.0, 0.1, 0.1, 3.0, 2.0, np.inf, 3.0, 1.0, 0.0, -3.0])


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16])
def test_fmod_fmax_and_fmin_are_numpys(dtype: Any) -> None:
    with np.errstate(all="ignore"):
        a, b = A.astype(dtype), B.astype(dtype)
    for name in ("fmod", "fmax", "fmin"):
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal(getattr(nc, name)(a, b).numpy(), getattr(np, name)(a, b))
        assert str(nc.jit(getattr(nc, name))(nc.tensor(a), nc.tensor(b))) == str(getattr(nc, name)(a, b))
    nc.check_grads(nc.fmod, (nc.tensor([7.3, -7.3]), nc.tensor([2.1, 2.2])))
    nc.check_grads(nc.fmax, (nc.tensor([7.3, -7.3]), nc.tensor([2.1, 2.2])))


@pytest.mark.parametrize("dtype", [np.int8, np.int64, np.uint16])
def test_remainders_of_integers(dtype: Any) -> None:
    a, b = np.array([7, 120, 9, 0], dtype), np.array([3, 7, 9, 5], dtype)
    if dtype is not np.uint16:
        a, b = np.concatenate([a, -a]), np.concatenate([b, b])
    assert nc.fmod(a, b).tolist() == np.fmod(a, b).tolist() and nc.fmod([3], 0).tolist() == [0]
    wanted = [math.trunc(Fraction(int(x), int(y))) for x, y in zip(a, b, strict=True)]
    assert nc.div(a, b, rounding_mode="trunc").tolist() == wanted


def test_truncated_quotients_are_exact() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=200) * 10.0 ** rng.integers(-3, 6, 200), rng.integers(1, 9, 200) * 0.1
    found = nc.div(a, b, rounding_mode="trunc").tolist()
    assert found == [float(math.trunc(Fraction(x) / Fraction(y))) for x, y in zip(a, b, strict=True)]
    assert str(nc.div(A, B, rounding_mode="trunc").tolist()[4:]) == (
        "[3.333333333333333e+29, inf, 0.0, -0.0, nan, inf, 2.0]"
    )
    assert nc.div(A, B, rounding_mode="floor").tolist()[:4] == nc.floor_divide(A, B).tolist()[:4]
    assert nc.div([1.0], 4.0).tolist() == [0.25] and nc.tensor([7]).div(2, rounding_mode="trunc").tolist() == [3]
    with pytest.raises(nc.ArgumentError, match="rounding_mode must be"):
        nc.div(1.0, 2.0, rounding_mode="ceil")


def test_bools_have_an_order() -> None:
    held = np.array([[True, False, True], [False, False, True]])
    x = nc.tensor(held)
    for axis in (0, 1):
        for name in ("max", "min", "argmax", "argmin"):
            found = getattr(nc, name)(x, axis=axis)
            assert found.tolist() == getattr(np, name)(held, axis=axis).tolist()
            assert nc.jit(lambda x, name=name, axis=axis: getattr(nc, name)(x, axis=axis))(x).tolist() == found.tolist()
        assert nc.sort(x, axis=axis).tolist() == np.sort(held, axis=axis).tolist()
    assert nc.maximum(x, x[0]).tolist() == np.maximum(held, held[0]).tolist()
    assert nc.minimum(x, x[0]).tolist() == np.minimum(held, held[0]).tolist()
    assert nc.max(x).dtype is nc.bool and nc.topk(x, 1)[0].tolist() == [[True], [True]]
    with pytest.raises(nc.DTypeError, match="max: operands must have a real dtype"):
        nc.max(nc.tensor([1j]))
