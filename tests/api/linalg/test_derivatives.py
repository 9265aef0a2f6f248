"""Derivatives of linear algebra to the second order, against finite differences; forward mode equals reverse mode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nacre as nc

pytestmark = pytest.mark.sampled(3)

RNG = np.random.default_rng(1)
A = RNG.normal(size=(4, 4)) + 3 * np.eye(4)
S = nc.tensor(A @ A.T)
B, W, V = (nc.tensor(RNG.normal(size=s)) for s in ((4, 2), (4, 4), (4, 4)))
V = V + V.mT
STEP = 1e-5

Function = Callable[[Any], Any]
FUNCTIONS: dict[str, Function] = {
    "cholesky": lambda x: nc.sum(W * nc.linalg.cholesky(x)),
    "cholesky-upper": lambda x: nc.sum(W * nc.linalg.cholesky(x, upper=True)),
    "inv": lambda x: nc.sum(W * nc.linalg.inv(x)),
    "solve": lambda x: nc.sum(nc.linalg.solve(x, B * x[0, 0]) ** 2),
    "solve_triangular": lambda x: nc.sum(nc.linalg.solve_triangular(x, B * x[0, 0]) ** 2),
    "solve_triangular-right": lambda x: nc.sum(
        nc.linalg.solve_triangular(x, B.mT, upper=True, left=False, unit_diagonal=True) ** 2
    ),
    "det": lambda x: nc.linalg.det(x) / 100,
    "slogdet": lambda x: nc.linalg.slogdet(x).logabsdet,
    "lu": lambda x: nc.sum(W * nc.linalg.lu(x).L) + nc.sum(W * nc.linalg.lu(x).U ** 2),
    "lu-wide": lambda x: nc.sum(nc.linalg.lu(x[:3]).L ** 2) + nc.sum(nc.linalg.lu(x[:3]).U ** 2),
    "lu-tall": lambda x: nc.sum(nc.linalg.lu(x[:, :3]).L ** 2) + nc.sum(nc.linalg.lu(x[:, :3]).U ** 2),
    "qr": lambda x: nc.sum(W * nc.linalg.qr(x).Q) + nc.sum(W * nc.linalg.qr(x).R),
    "qr-wide": lambda x: nc.sum(W[:3, :3] * nc.linalg.qr(x[:3]).Q) + nc.sum(W[:3] * nc.linalg.qr(x[:3]).R),
    "qr-tall": lambda x: nc.sum(W[:, :3] * nc.linalg.qr(x[:, :3]).Q) + nc.sum(W[:3, :3] * nc.linalg.qr(x[:, :3]).R),
    "expm": lambda x: nc.sum(W * nc.linalg.expm(x / 10)),
    "matrix_power": lambda x: nc.sum(W * nc.linalg.matrix_power(x / 10, -3)),
}


def difference(f: Function) -> Any:
    """The derivative of f at S along V, by central differences."""
    return ((f(S + STEP * V) - f(S - STEP * V)) / (2 * STEP)).numpy()


@pytest.mark.parametrize("f", FUNCTIONS.values(), ids=FUNCTIONS)
def test_first_and_second_derivatives(f: Function) -> None:
    gradient = nc.grad(f)
    _, tangent = nc.jvp(f, (S,), (V,))
    reverse = nc.sum(gradient(S) * V).item()
    np.testing.assert_allclose(reverse, tangent.item(), rtol=1e-9)
    np.testing.assert_allclose(reverse, difference(f), rtol=1e-5, atol=1e-8)
    _, second = nc.jvp(gradient, (S,), (V,))
    wanted = difference(gradient)
    size = np.abs(wanted).max()
    np.testing.assert_allclose(second.numpy(), wanted, rtol=1e-4, atol=1e-6 * size)
    again = nc.grad(lambda x: nc.sum(gradient(x) * V))(S)
    np.testing.assert_allclose(again.numpy(), second.numpy(), rtol=1e-7, atol=1e-9 * size)


def test_the_gradient_of_blocks() -> None:
    """Matrices of more than one block have the gradients of NumPy's formulas."""
    n = 70
    x = RNG.normal(size=(n, n)) / 8 + 3 * np.eye(n)
    w = nc.tensor(RNG.normal(size=(n, n)))
    inverse = np.linalg.inv(x)
    found = nc.grad(lambda x: nc.sum(w * nc.linalg.inv(x)))(nc.tensor(x)).numpy()
    np.testing.assert_allclose(found, -inverse.T @ w.numpy() @ inverse.T, atol=1e-10)
    found = nc.grad(lambda x: nc.linalg.slogdet(x).logabsdet)(nc.tensor(x)).numpy()
    np.testing.assert_allclose(found, inverse.T, atol=1e-10)
    found = nc.grad(lambda x: nc.sum(nc.log(nc.linalg.diagonal(nc.linalg.cholesky(x)))))(nc.tensor(x @ x.T)).numpy()
    np.testing.assert_allclose(found, np.linalg.inv(x @ x.T) / 2, atol=1e-10)
