"""NumPy's functions called with tensors: NumPy arrays, tensors for operators, errors where a gradient is lost."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nacre as nc
from nacre import nn

A = np.array([[1.0, 2.0], [3.0, 4.0]], np.float32)
X = nc.tensor(A)
FUNCTIONS = {
    "sum": np.sum, "mean": np.mean, "max": np.max, "min": np.min, "prod": np.prod, "std": np.std, "var": np.var,
    "exp": np.exp, "sin": np.sin, "sqrt": np.sqrt, "abs": np.abs,
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("kind", ["tensor", "parameter"])
def test_functions_have_the_results_of_numpy(name: str, kind: str) -> None:
    x: Any = X if kind == "tensor" else nn.Parameter(X, requires_grad=False)
    found = FUNCTIONS[name](x)
    assert isinstance(found, np.ndarray | np.generic) and np.array_equal(found, FUNCTIONS[name](A))


def test_arguments_of_functions_are_passed_to_numpy() -> None:
    assert np.sum(X, axis=(0, 1)) == 10.0
    assert np.sum(X, axis=0, keepdims=True).tolist() == [[4.0, 6.0]]
    assert np.std(X, ddof=1) == np.std(A, ddof=1) and np.add.reduce(X, axis=1).tolist() == [3.0, 7.0]
    out = A.copy()
    out += X
    np.exp(X, out=out)
    assert np.array_equal(out, np.exp(A)) and np.shape(X) == (2, 2) and np.isnan(X).sum() == 0


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_gradient_is_not_lost(name: str) -> None:
    words = rf"NumPy's function records no gradient; got .*; write nacre.{name}\(x\), or pass x.detach\(\)\.numpy\(\)"
    for x in (nc.tensor(A).requires_grad_(), nn.Parameter(X), nn.Parameter(X) * 2):
        with pytest.raises(nc.GradientError, match=words):
            FUNCTIONS[name](x)
        with nc.no_grad():
            assert np.array_equal(FUNCTIONS[name](x), FUNCTIONS[name](x.numpy()))
    with pytest.raises(nc.GradientError, match=words):
        nc.grad(lambda x: nc.sum(nc.asarray(FUNCTIONS[name](x))))(X)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_error_of_a_traced_tensor_says_what_to_write(name: str) -> None:
    for run in (lambda f: nc.jit(f)(X), lambda f: nc.vmap(f)(X)):
        with pytest.raises(nc.TraceError, match=re.escape(f"; write nacre.{name}(x)")):
            run(lambda x: FUNCTIONS[name](x))


def test_operators_with_arrays_return_tensors() -> None:
    x = nn.Parameter(X)
    shifted = np.left_shift(np.array([1]), nc.tensor([2]))
    for y in (A + x, np.float32(1) * x, A @ x, np.add(A, x), np.greater(A, x), shifted):
        assert isinstance(y, nc.Tensor)
    nc.sum(A * x).backward()
    assert x.grad is not None and np.array_equal(x.grad.numpy(), A)
    assert nc.jit(lambda x: A - x)(X).tolist() == [[0.0, 0.0], [0.0, 0.0]]
    assert np.isfinite(x).all() and np.any(x > 3) and not np.all(x > 3)


@pytest.mark.parametrize("f", [
    lambda x: np.stack([x, x]), lambda x: np.concatenate((x, x)), lambda x: np.linalg.norm(x), lambda x: np.dot(x, x),
    lambda x: np.where([True, False], x, x), lambda x: np.cumsum(x), lambda x: np.clip(x, 0, 1), np.median, np.ravel,
    lambda x: np.einsum("i,i", x, x), lambda x: np.pad(x, 1), lambda x: np.interp(0.5, x, x), np.nansum, np.copy,
    lambda x: np.reshape(x, (2, 1)), lambda x: np.tile(x, 2), lambda x: nc.linspace(x[0], 2.0, 3),
])  # fmt: skip
def test_no_function_of_numpy_drops_a_gradient(f: Callable[[Any], Any]) -> None:
    x = nc.tensor([1.0, 2.0])
    np.asarray(f(x))
    for derivative in (
        lambda: nc.grad(lambda x: nc.sum(nc.asarray(f(x))))(x),
        lambda: f(nn.Parameter(x)),
        lambda: f(nc.tensor([1.0, 2.0]).requires_grad_()),
    ):
        with pytest.raises(nc.GradientError, match=r"records no gradient"):
            derivative()
    with pytest.raises(nc.TraceError):
        nc.jit(f)(x)
    with nc.no_grad():
        np.asarray(f(nn.Parameter(x)))
