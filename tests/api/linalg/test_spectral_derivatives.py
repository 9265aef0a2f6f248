"""Derivatives of eigenvalues, singular values and least squares, real and complex, against finite differences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nacre as nc
from nacre.base.errors import GradientError

pytestmark = pytest.mark.sampled(3)

RNG = np.random.default_rng(5)
STEP = 1e-5
L = nc.linalg
W = nc.tensor(RNG.normal(size=(4, 4)))
B = nc.tensor(RNG.normal(size=(4, 2)))
RANGE = nc.arange(1.0, 5.0, dtype=nc.float64)

Function = Callable[[Any], Any]


def adjoint(x: Any) -> Any:
    return nc.conj(x).mT


def hermitian(x: Any) -> Any:
    return x + adjoint(x)


def power(x: Any) -> Any:
    """The size of each element, squared: it does not depend on phases."""
    return nc.abs(x) ** 2


def projections(x: Any) -> Any:
    """A function of eigenvectors that does not depend on phases."""
    values, vectors = L.eigh(hermitian(x))
    return nc.sum(W * power(vectors)) + nc.sum(power((vectors * nc.sin(values)) @ adjoint(vectors)) * W)


def factors(x: Any) -> Any:
    u, s, vh = L.svd(x, full_matrices=False)
    return nc.sum(W[: x.shape[0], : s.shape[0]] * power(u)) + nc.sum(power((u * nc.sin(s)) @ vh)[:2] * W[0, 0])


FUNCTIONS: dict[str, Function] = {
    "eigvalsh": lambda x: nc.sum(RANGE * L.eigvalsh(hermitian(x))),
    "eigh": projections,
    "svdvals": lambda x: nc.sum(RANGE * L.svdvals(x)),
    "svd": factors,
    "svd-tall": lambda x: factors(x[:, :3]),
    "svd-wide": lambda x: factors(x[:3]),
    "svd-full": lambda x: nc.sum(W * power(L.svd(x).U)),
    "eigvals": lambda x: nc.sum(power(L.eigvals(x)) ** 2) / 50,
    "eig": lambda x: nc.sum(power(L.eig(x).eigenvectors) ** 2),
    "pinv-tall": lambda x: nc.sum(W[:3] * power(L.pinv(x[:, :3]))),
    "pinv-wide": lambda x: nc.sum(W[:, :3] * power(L.pinv(x[:3]))),
    "pinv-rank": lambda x: nc.sum(W * power(L.pinv(x[:, :2] @ x[:2] / 4, rtol=1e-6))),
    "lstsq": lambda x: nc.sum(power(L.lstsq(x[:, :3], B * x[0, 0]).solution)),
    "lstsq-wide": lambda x: nc.sum(power(L.lstsq(x[:3], B[:3] * x[0, 0]).solution)),
    "lstsq-residuals": lambda x: nc.sum(L.lstsq(x[:, :3], B).residuals),
    "lstsq-values": lambda x: nc.sum(RANGE[:3] * L.lstsq(x[:, :3], B).singular_values),
    "nuclear": lambda x: L.matrix_norm(x, ord="nuc"),
    "spectral": lambda x: L.matrix_norm(x, ord=2),
    "cond": lambda x: L.cond(x),
}


def point(dtype: str) -> tuple[Any, Any]:
    """A matrix, and a direction."""
    rng = np.random.default_rng(7)
    x, v = rng.normal(size=(2, 4, 4))
    if dtype == "complex128":
        x, v = x + 1j * rng.normal(size=(4, 4)), v + 1j * rng.normal(size=(4, 4))
    return nc.tensor(x), nc.tensor(v)


def difference(f: Function, x: Any, v: Any) -> Any:
    """The derivative of f at x along v, by central differences."""
    return ((f(x + STEP * v) - f(x - STEP * v)) / (2 * STEP)).numpy()


def along(gradient: Any, v: Any) -> Any:
    """The derivative along v of a function with this gradient."""
    return nc.sum(nc.real(nc.conj(gradient) * v))


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("f", FUNCTIONS.values(), ids=FUNCTIONS)
def test_first_and_second_derivatives(f: Function, dtype: str) -> None:
    x, v = point(dtype)
    gradient = nc.grad(f)
    _, tangent = nc.jvp(f, (x,), (v,))
    reverse = along(gradient(x), v).item()
    np.testing.assert_allclose(reverse, tangent.item(), rtol=1e-8)
    np.testing.assert_allclose(reverse, difference(f, x, v), rtol=1e-5, atol=1e-7)
    _, second = nc.jvp(gradient, (x,), (v,))
    wanted = difference(gradient, x, v)
    np.testing.assert_allclose(second.numpy(), wanted, rtol=1e-4, atol=1e-5 * np.abs(wanted).max())


@pytest.mark.parametrize("name", ["eigh", "svd-tall", "eig", "lstsq"])
def test_compiled_and_batched_gradients(name: str) -> None:
    f = FUNCTIONS[name]
    x, v = point("complex128")
    wanted = nc.grad(f)(x)
    assert nc.all(nc.jit(nc.grad(f))(x) == wanted)
    both = nc.vmap(nc.grad(f))(nc.stack([x, v]))
    np.testing.assert_allclose(both[0].numpy(), wanted.numpy(), rtol=1e-10, atol=1e-10)


def test_backward() -> None:
    x, _ = point("float64")
    leaf = nc.tensor(x.numpy()).requires_grad_()
    nc.sum(L.svdvals(leaf)).backward()
    assert leaf.grad is not None
    np.testing.assert_allclose(leaf.grad.numpy(), nc.grad(lambda x: nc.sum(L.svdvals(x)))(x).numpy(), rtol=1e-12)


def test_gradients_of_real_matrices_through_complex_eigenvalues_are_real() -> None:
    x, _ = point("float64")
    assert nc.grad(FUNCTIONS["eigvals"])(x).dtype is nc.float64


def test_full_matrices_have_no_derivative_unless_square() -> None:
    with pytest.raises(GradientError, match="svd: full matrices of 4 rows and 3 columns have no derivative"):
        nc.grad(lambda x: nc.sum(L.svd(x).S))(nc.ones((4, 3)))


def test_equal_eigenvalues() -> None:
    """The eigenvalues' sum has a derivative; that of single vectors is not finite."""
    x = nc.eye(3, dtype=nc.float64)
    np.testing.assert_allclose(nc.grad(lambda x: nc.sum(L.eigvalsh(x)))(x).numpy(), np.eye(3))
    np.testing.assert_allclose(nc.grad(lambda x: nc.sum(L.eigh(x).eigenvalues))(x).numpy(), np.eye(3))
    assert not nc.all(nc.isfinite(nc.grad(lambda x: L.eigh(x).eigenvectors[0, 1])(x)))
