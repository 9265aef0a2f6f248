"""Elementwise functions against NumPy: values, broadcasting, promotion, weak numbers, errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nacre as nc
from nacre.base.dtypes import ALL, PROMOTION, DType
from nacre.base.errors import DTypeError
from nacre.trace.bind import ACTIVE

EDGES = np.array([0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.5, 100.0, np.inf, -np.inf, np.nan], np.float32)
INTEGERS = np.array([0, 1, -1, 2, -7, 7, 100, -128, 127], np.int8)

BINARY = {
    "add": np.add, "subtract": np.subtract, "multiply": np.multiply, "maximum": np.maximum, "minimum": np.minimum,
    "equal": np.equal, "not_equal": np.not_equal, "less": np.less, "less_equal": np.less_equal,
    "greater": np.greater, "greater_equal": np.greater_equal,
}  # fmt: skip
REAL_UNARY = [
    "sqrt", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin",
    "cos", "tan", "arcsin", "arccos", "arctan", "sinh", "cosh", "tanh", "arcsinh",
    "arccosh", "arctanh", "cbrt",
]  # fmt: skip


@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize("values", [EDGES, INTEGERS], ids=["float", "integer"])
def test_binary(name: str, values: np.ndarray) -> None:
    a, b = values[:, None], values[None, :]
    found = getattr(nc, name)(nc.tensor(a), nc.tensor(b)).numpy()
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(found, BINARY[name](a, b))


@pytest.mark.parametrize("values", [EDGES, INTEGERS], ids=["float", "integer"])
def test_division_is_pythons(values: np.ndarray) -> None:
    a, b = np.broadcast_arrays(values[:, None], values[None, :])
    quotient, rest = nc.floor_divide(nc.tensor(a), nc.tensor(b)), nc.remainder(nc.tensor(a), nc.tensor(b))
    known = (b != 0) & (np.isfinite(a) & np.isfinite(b))
    known &= ~((a == -128) & (b == -1))
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(quotient.numpy()[known], (a // b)[known])
        np.testing.assert_array_equal(rest.numpy()[known], (a % b)[known])
        if values.dtype.kind == "i":
            assert not quotient.numpy()[b == 0].any()
            assert not rest.numpy()[b == 0].any()
        else:
            np.testing.assert_array_equal(quotient.numpy()[b == 0], (a / b)[b == 0])


def test_signs_of_zero_remainders() -> None:
    rest = nc.remainder(nc.tensor([4.0, -4.0]), nc.tensor([-2.0, 2.0])).numpy()
    np.testing.assert_array_equal(np.signbit(rest), [True, False])


@pytest.mark.parametrize("name", REAL_UNARY)
def test_real_functions(name: str) -> None:
    ours = name.replace("arc", "a")
    with np.errstate(all="ignore"):
        wanted = getattr(np, name)(EDGES.astype(np.float64)).astype(np.float32)
    found = getattr(nc, ours)(nc.tensor(EDGES)).numpy()
    np.testing.assert_allclose(found, wanted, rtol=3e-7, atol=1e-37)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_real_functions_preserve_the_dtype(dtype: str) -> None:
    assert nc.exp(nc.ones(2, dtype)).dtype is getattr(nc, dtype)


def test_rounding_and_tests() -> None:
    x = nc.tensor(EDGES)
    for name, wanted in (("floor", np.floor), ("ceil", np.ceil), ("trunc", np.trunc), ("round", np.rint)):
        np.testing.assert_array_equal(getattr(nc, name)(x).numpy(), wanted(EDGES))
    for name in ("isnan", "isinf", "isfinite", "signbit"):
        np.testing.assert_array_equal(getattr(nc, name)(x).numpy(), getattr(np, name)(EDGES))
    assert nc.isfinite(nc.tensor([1, 2])).all()
    assert nc.floor(nc.tensor([1, 2])).dtype is nc.int64


def test_hypot_and_logaddexp_do_not_overflow() -> None:
    a, b = np.float32([1e30, 3.0, 0.0, np.inf, np.nan]), np.float32([1e30, 4.0, 0.0, np.nan, 1.0])
    np.testing.assert_allclose(nc.hypot(nc.tensor(a), nc.tensor(b)).numpy(), np.hypot(a, b), rtol=3e-7)
    a, b = np.float32([1000.0, -np.inf, 0.0, np.inf]), np.float32([1000.0, -np.inf, 1.0, np.inf])
    np.testing.assert_allclose(nc.logaddexp(nc.tensor(a), nc.tensor(b)).numpy(), np.logaddexp(a, b), rtol=3e-7)


@given(st.integers(-20, 20), st.integers(0, 12))
@settings(max_examples=25, deadline=None)
def test_integer_powers_wrap(base: int, exponent: int) -> None:
    found = nc.pow(nc.tensor([base], dtype=nc.int32), nc.tensor([exponent], dtype=nc.int32))
    assert found.item() == int(np.array(base**exponent, object).astype(object) + 2**31) % 2**32 - 2**31


def test_powers_of_floats() -> None:
    x = nc.tensor([1.5, 2.0, 4.0])
    np.testing.assert_array_equal((x**2).numpy(), [2.25, 4.0, 16.0])
    np.testing.assert_array_equal((x**0.5).numpy(), np.sqrt(np.float32([1.5, 2.0, 4.0])))
    np.testing.assert_allclose((2.0**x).numpy(), 2.0 ** np.array([1.5, 2.0, 4.0]), rtol=3e-7)
    with pytest.raises(nc.DTypeError, match="pow"):
        nc.tensor([1, 2]) ** -1


def test_clip_and_where() -> None:
    np.testing.assert_array_equal(nc.clip(nc.tensor([-1.0, 0.5, 9.0]), 0, 1).numpy(), [0.0, 0.5, 1.0])
    np.testing.assert_array_equal(nc.clip(nc.tensor([-1, 5]), max=3).numpy(), [-1, 3])
    found = nc.where(nc.tensor([[True], [False]]), nc.tensor([1, 2]), 0)
    np.testing.assert_array_equal(found.numpy(), [[1, 2], [0, 0]])
    with pytest.raises(nc.DTypeError, match="the condition must have dtype bool"):
        nc.where(nc.tensor([1, 0]), 1, 2)


# ---- promotion


@pytest.mark.parametrize("a", ALL, ids=str)
@pytest.mark.parametrize("b", ALL, ids=str)
def test_tensors_are_promoted_by_the_table(a: DType, b: DType) -> None:
    x, y = nc.ones(2, a), nc.ones(2, b)
    if (a, b) in PROMOTION:
        assert nc.equal(x, y).all()
        assert nc.where(nc.tensor(True), x, y).dtype is PROMOTION[a, b] is nc.result_type(a, b)
    else:
        with pytest.raises(nc.DTypeError, match="equal: dtypes must be of one kind"):
            nc.equal(x, y)


@pytest.mark.parametrize(
    ("dtype", "number", "wanted"),
    [
        ("float16", 1.5, "float16"), ("bfloat16", 2, "bfloat16"), ("float64", 1.5, "float64"), ("int8", 3, "int8"),
        ("int32", 1.5, "float32"), ("uint8", 2, "uint8"), ("bool", 2, "int64"), ("bool", 1.5, "float32"),
        ("float32", np.float64(1.5), "float32"), ("float32", True, "float32"),
    ],
)  # fmt: skip
def test_numbers_are_weak(dtype: str, number: Any, wanted: str) -> None:
    x = nc.ones(2, dtype)
    assert (x + number).dtype is (number + x).dtype is getattr(nc, wanted)


def test_numbers_that_do_not_fit_are_refused() -> None:
    with pytest.raises(nc.DTypeError, match="must fit uint8"):
        nc.ones(2, nc.uint8) + 300


def test_integers_divide_in_float32() -> None:
    assert (nc.tensor([1, 2]) / 2).dtype is nc.float32
    np.testing.assert_array_equal((nc.tensor([1, 2]) / nc.tensor([2, 4])).numpy(), [0.5, 0.5])


@given(st.lists(st.integers(1, 3), max_size=3), st.lists(st.integers(1, 3), max_size=3))
@settings(max_examples=30, deadline=None)
def test_broadcasting_is_numpys(a: list[int], b: list[int]) -> None:
    x, y = np.ones(a, np.float32), np.full(b, 2, np.float32)
    try:
        wanted = x + y
    except ValueError:
        with pytest.raises(nc.ShapeError, match="add"):
            nc.tensor(x) + nc.tensor(y)
    else:
        np.testing.assert_array_equal((nc.tensor(x) + nc.tensor(y)).numpy(), wanted)


def test_wrong_kinds_name_the_function() -> None:
    for name, x in (("exp", nc.tensor([1, 2])), ("add", nc.tensor([True])), ("logical_not", nc.tensor([1.0]))):
        with pytest.raises(nc.DTypeError, match=name):
            getattr(nc, name)(*([x, x] if name == "add" else [x]))


def test_bits() -> None:
    a, b = np.uint8([6, 255, 0]), np.uint8([3, 1, 9])
    for name in ("bitwise_and", "bitwise_or", "bitwise_xor"):
        np.testing.assert_array_equal(getattr(nc, name)(nc.tensor(a), nc.tensor(b)).numpy(), getattr(np, name)(a, b))
    np.testing.assert_array_equal((~nc.tensor(a)).numpy(), ~a)
    np.testing.assert_array_equal((nc.tensor(a) << nc.tensor(b)).numpy(), [48, 254, 0])
    np.testing.assert_array_equal((nc.tensor([True, False]) & nc.tensor([True, True])).numpy(), [True, False])


def test_cached_functions_still_refuse_wrong_dtypes() -> None:
    x = nc.tensor([1, 2, 3])
    for _ in range(3):
        assert nc.bitwise_and(x, x).tolist() == [1, 2, 3]
        with pytest.raises(DTypeError):
            nc.logical_and(x, x)
        with pytest.raises(DTypeError):
            nc.logical_not(x)
        assert nc.bitwise_invert(x).tolist() == [-2, -3, -4]


def test_cached_functions_return_new_objects() -> None:
    x = nc.tensor([1.0, 2.0])
    for _ in range(3):
        y = nc.positive(x)
        y[0] = 5.0
        assert x.tolist() == [1.0, 2.0] and y.tolist() == [5.0, 2.0]


def test_fast_numerics_have_separate_cached_functions() -> None:
    x = nc.tensor([1.0, 2.0]).requires_grad_()
    for mode in ("exact", "fast", "exact", "fast"):
        for _ in range(3):
            with nc.numerics(mode):
                y = nc.exp(x * 2 + x)
                assert ACTIVE.value == (mode == "fast") and y.requires_grad
            x.grad = None
            y.sum().backward()
            assert x.grad is not None and x.grad.tolist() == (3 * y.detach()).tolist()
    assert ACTIVE.value == 0
