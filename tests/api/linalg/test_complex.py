"""Complex matrices: factors with small backward errors, the same bits in every mode, and derivatives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nacre as nc
from api.ascent import STEP, ascent
from api.linalg.modes import check_every_mode, check_large_batch
from nacre.base.errors import LinAlgError

pytestmark = pytest.mark.sampled(3)

Array = Any
DTYPES = (np.complex64, np.complex128)
SIZES = (1, 5, 70)
FACTOR = 10  # of the usual bound, n·ε


def random(*shape: int, dtype: Any = np.complex128, seed: int = 0) -> Array:
    rng = np.random.default_rng(seed + sum(shape))
    return np.asarray(rng.normal(size=shape) + 1j * rng.normal(size=shape), dtype)


def definite(*shape: int, dtype: Any = np.complex128) -> Array:
    x = random(*shape, dtype=np.complex128)
    return (x @ np.conj(np.swapaxes(x, -1, -2)) + np.eye(shape[-1])).astype(dtype)


def small(found: Array, wanted: Array, n: int) -> None:
    """Require a backward error within the usual bound."""
    error = np.linalg.norm(found.astype(np.complex128) - wanted) / max(np.linalg.norm(wanted), 1e-300)
    assert error <= FACTOR * max(n, 1) * np.finfo(wanted.dtype).eps


def adjoint(x: Array) -> Array:
    return np.conj(np.swapaxes(x, -1, -2))


# ---- factors


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", SIZES)
def test_cholesky(n: int, dtype: Any) -> None:
    a = definite(n, n, dtype=dtype)
    lower = nc.linalg.cholesky(nc.asarray(a)).numpy()
    assert lower.dtype == dtype and not np.triu(lower, 1).any()
    diagonal = np.diagonal(lower)
    assert not diagonal.imag.any() and (diagonal.real > 0).all()
    small(lower @ adjoint(lower), a, n)
    upper = nc.linalg.cholesky(nc.asarray(adjoint(a)), upper=True).numpy()
    np.testing.assert_array_equal(upper, adjoint(lower))


@pytest.mark.parametrize("n", [4, 70])
def test_cholesky_reads_one_triangle_and_a_real_diagonal(n: int) -> None:
    a = definite(n, n)
    other = np.tril(a) + np.triu(random(n, n, seed=1), 1) + 1j * np.diag(np.arange(n))
    found, wanted = (nc.linalg.cholesky(nc.asarray(x)).numpy() for x in (other, a))
    assert found.tobytes() == wanted.tobytes()


@pytest.mark.parametrize("n", [3, 100])
def test_indefinite_matrices_raise(n: int) -> None:
    a = definite(n, n)
    a[n - 1, n - 1] = -1
    for f in (nc.linalg.cholesky, nc.jit(nc.linalg.cholesky)):
        with pytest.raises(LinAlgError, match=rf"leading minor of {n} rows"):
            f(nc.asarray(a))
    with pytest.raises(LinAlgError, match="leading minor of 1 rows"):
        nc.linalg.cholesky(nc.asarray([[np.nan + 0j]]))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [*((n, n) for n in SIZES), (7, 3), (3, 7), (70, 40), (40, 70), (2, 3, 6, 4)])
def test_lu(shape: tuple[int, ...], dtype: Any) -> None:
    a = random(*shape, dtype=dtype)
    p, lower, upper = (t.numpy() for t in nc.linalg.lu(nc.asarray(a)))
    assert p.dtype == lower.dtype == upper.dtype == dtype
    small(p @ lower @ upper, a, shape[-1])
    assert not np.triu(lower, 1).any() and not np.tril(upper, -1).any()
    assert (np.abs(lower) <= 2**0.5 + 1e-6).all()  # |re| + |im| chooses the pivot


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [*((n, n) for n in SIZES), (7, 3), (3, 7), (70, 40), (40, 70), (2, 3, 6, 4)])
def test_qr(shape: tuple[int, ...], dtype: Any) -> None:
    a = random(*shape, dtype=dtype)
    rows, columns = shape[-2:]
    for mode in ("reduced", "complete"):
        q, r = (t.numpy() for t in nc.linalg.qr(nc.asarray(a), mode=mode))
        assert q.dtype == r.dtype == dtype
        kept = rows if mode == "complete" else min(rows, columns)
        assert q.shape == (*shape[:-2], rows, kept) and r.shape == (*shape[:-2], kept, columns)
        small(q @ r, a, rows)
        small(adjoint(q) @ q, np.broadcast_to(np.eye(kept, dtype=dtype), (*shape[:-2], kept, kept)), rows)
        assert not np.tril(r, -1).any()
        assert not np.diagonal(r, axis1=-2, axis2=-1).imag.any()


@pytest.mark.parametrize("shape", [(4, 4), (6, 4), (3, 5)])
def test_qr_has_the_signs_of_lapack(shape: tuple[int, int]) -> None:
    a = random(*shape)
    found, wanted = nc.linalg.qr(nc.asarray(a)), np.linalg.qr(a)
    np.testing.assert_allclose(found.Q.numpy(), wanted.Q, 1e-12, 1e-13)
    np.testing.assert_allclose(found.R.numpy(), wanted.R, 1e-12, 1e-13)


def test_qr_of_columns_of_zeros_and_of_extreme_sizes() -> None:
    for a in (np.zeros((3, 2)), np.triu(np.ones((3, 3))) * 1j, random(5, 3) * 1e300, random(5, 3) * 1e-300):
        q, r = (t.numpy() for t in nc.linalg.qr(nc.asarray(a.astype(np.complex128))))
        np.testing.assert_allclose(q @ r, a, 1e-13, 1e-14 * np.abs(a).max())
        np.testing.assert_allclose(adjoint(q) @ q, np.eye(q.shape[1]), 1e-13, 1e-14)


# ---- systems and determinants


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", SIZES)
def test_solve(n: int, dtype: Any) -> None:
    a, b = random(n, n, dtype=dtype), random(n, 3, dtype=dtype)
    x = nc.linalg.solve(nc.asarray(a), nc.asarray(b)).numpy()
    assert x.dtype == dtype
    residual = np.linalg.norm(a.astype(np.complex128) @ x - b)
    assert residual <= FACTOR * n * np.finfo(dtype).eps * np.linalg.norm(a) * np.linalg.norm(x)
    inverse = nc.linalg.inv(nc.asarray(a)).numpy()
    residual = np.linalg.norm(a.astype(np.complex128) @ inverse - np.eye(n))
    assert residual <= FACTOR * n * np.finfo(dtype).eps * np.linalg.norm(a) * np.linalg.norm(inverse)
    vector = nc.linalg.solve(nc.asarray(a), nc.asarray(b[:, 0])).numpy()
    assert vector.tobytes() == x[:, 0].tobytes()


@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("unit", [False, True])
@pytest.mark.parametrize("n", [5, 70])
def test_solve_triangular(n: int, unit: bool, left: bool, upper: bool) -> None:
    a = random(n, n) / n + 2 * np.eye(n)
    b = random(n, 2) if left else random(2, n)
    x = nc.linalg.solve_triangular(nc.asarray(a), nc.asarray(b), upper=upper, left=left, unit_diagonal=unit).numpy()
    triangle = np.triu(a) if upper else np.tril(a)
    if unit:
        np.fill_diagonal(triangle, 1)
    np.testing.assert_allclose(triangle @ x if left else x @ triangle, b, 1e-11, 1e-12)


@pytest.mark.parametrize("n", [2, 70])
def test_singular_matrices_raise(n: int) -> None:
    a = random(n, n)
    a[:, -1] = 0
    for f in (nc.linalg.inv, nc.jit(nc.linalg.inv), lambda x: nc.linalg.solve(x, x)):
        with pytest.raises(LinAlgError, match="singular"):
            f(nc.asarray(a))
    sign, size = nc.linalg.slogdet(nc.asarray(a))
    assert sign.item() == 0 and size.item() == -np.inf
    assert nc.linalg.det(nc.asarray(a)).item() == 0


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(1, 1), (4, 4), (2, 3, 5, 5), (70, 70)])
def test_determinants(shape: tuple[int, ...], dtype: Any) -> None:
    a = random(*shape, dtype=dtype)
    bound = {"rtol": FACTOR * shape[-1] ** 2 * np.finfo(dtype).eps}
    sign, size = nc.linalg.slogdet(nc.asarray(a))
    wanted_sign, wanted_size = np.linalg.slogdet(a.astype(np.complex128))
    assert sign.numpy().dtype == dtype and size.numpy().dtype == np.finfo(dtype).dtype
    np.testing.assert_allclose(sign.numpy(), wanted_sign, **bound)
    np.testing.assert_allclose(size.numpy(), wanted_size, **bound)
    if shape[-1] < 10:
        found = nc.linalg.det(nc.asarray(a)).numpy()
        assert found.dtype == dtype
        np.testing.assert_allclose(found, np.linalg.det(a.astype(np.complex128)), **bound)


def test_matrices_without_rows() -> None:
    none, batch = nc.zeros((0, 0), dtype=nc.complex128), nc.zeros((0, 3, 3), dtype=nc.complex64)
    assert nc.linalg.det(none).item() == 1 and nc.linalg.slogdet(none).sign.item() == 1
    for f in (nc.linalg.cholesky, nc.linalg.inv, nc.linalg.expm):
        assert f(none).shape == (0, 0) and f(none).dtype is nc.complex128
        assert f(batch).shape == (0, 3, 3) and f(batch).dtype is nc.complex64
    assert nc.linalg.solve(none, nc.zeros((0, 2), dtype=nc.complex128)).shape == (0, 2)
    for shape in ((0, 3), (3, 0)):
        q, r = nc.linalg.qr(nc.zeros(shape, dtype=nc.complex64))
        assert q.shape == (shape[0], 0) and r.shape == (0, shape[1])
        assert nc.linalg.lu(nc.zeros(shape, dtype=nc.complex64)).P.shape == (shape[0], shape[0])


def test_real_and_complex_operands_meet() -> None:
    a, b = random(3, 3), np.arange(6.0, dtype=np.float32).reshape(3, 2)
    np.testing.assert_allclose(nc.linalg.solve(nc.asarray(a), nc.asarray(b)).numpy(), np.linalg.solve(a, b), 1e-12)
    np.testing.assert_allclose(
        nc.linalg.solve(nc.asarray(a.real), nc.asarray(a)).numpy(), np.linalg.solve(a.real, a), 1e-12
    )


# ---- functions of matrices


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("factor", [0.01, 1, 20])
def test_expm(factor: float, dtype: Any) -> None:
    basis, values = random(5, 5), factor * random(5)
    exact = basis @ np.diag(np.exp(values)) @ np.linalg.inv(basis)
    a = (basis @ np.diag(values) @ np.linalg.inv(basis)).astype(dtype)
    found = nc.linalg.expm(nc.asarray(a)).numpy()
    assert found.dtype == dtype
    error = np.linalg.norm(found - exact) / np.linalg.norm(exact)
    assert error < 1e3 * max(1, factor) * np.finfo(dtype).eps
    skew = nc.asarray((a - adjoint(a)).astype(dtype))
    turn = nc.linalg.expm(skew).numpy()
    small(adjoint(turn) @ turn, np.eye(5, dtype=dtype), 100)


def test_expm_of_great_matrices_raises() -> None:
    with pytest.raises(LinAlgError, match="1-norm"):
        nc.linalg.expm(nc.asarray(1e9j * np.eye(2)))


@pytest.mark.parametrize("n", [-3, 0, 1, 5])
def test_matrix_power(n: int) -> None:
    a = random(4, 4)
    np.testing.assert_allclose(
        nc.linalg.matrix_power(nc.asarray(a), n).numpy(), np.linalg.matrix_power(a, n), 1e-10, 1e-10
    )


# ---- the same bits


def _definite(x: Any) -> Any:
    return nc.matmul(x, x.mH) + nc.eye(x.shape[-1], dtype=x.dtype)


MODES: dict[str, Any] = {
    "cholesky": lambda x: nc.linalg.cholesky(_definite(x)),
    "lu": lambda x: nc.linalg.lu(x),
    "qr": lambda x: nc.linalg.qr(x),
    "solve": lambda x: nc.linalg.solve(x, x[..., :3]),
    "solve_triangular": lambda x: nc.linalg.solve_triangular(_definite(x), x[..., :3]),
    "slogdet": lambda x: nc.linalg.slogdet(x),
    "det": lambda x: nc.linalg.det(x / x.shape[-1]),
    "expm": lambda x: nc.linalg.expm(x),
}


@pytest.mark.parametrize(
    ("name", "n"), [*((name, 5) for name in MODES), *((name, 70) for name in MODES if name != "solve_triangular")]
)
def test_every_mode(name: str, n: int) -> None:
    x = nc.asarray(random(3, n, n, dtype=np.complex64))
    check_every_mode(MODES[name], x)


@pytest.mark.parametrize("f", MODES.values(), ids=MODES)
def test_large_batches_of_small_matrices(f: Any) -> None:
    x = nc.asarray(random(2, 19, 4, 4))
    check_large_batch(f, x)


def test_batches_of_right_hand_sides() -> None:
    a, b = nc.asarray(random(4, 4)), nc.asarray(random(5, 4, 2))
    for f in (nc.linalg.solve, nc.linalg.solve_triangular):
        wanted = b"".join(f(a, b[k]).numpy().tobytes() for k in range(5))
        assert nc.vmap(f, in_axes=(None, 0))(a, b).numpy().tobytes() == wanted


# ---- derivatives

A, B, W = random(4, 4) + 3 * np.eye(4), nc.asarray(random(4, 2)), nc.asarray(random(4, 4, seed=2))

Function = Callable[[Any], Any]


def size(x: Any) -> Any:
    """A real function of a complex result that depends on both parts of each element."""
    weights = nc.reshape(nc.arange(1, 1 + x.size, dtype=nc.float64), x.shape)
    return nc.sum(nc.real(x) ** 2 * weights) + nc.sum(nc.sin(nc.imag(x)) * weights)


def projector(x: Any) -> Any:
    """q @ qᴴ and |r|, which do not depend on the phases of columns."""
    q, r = nc.linalg.qr(x)
    return size(q @ q.mH) / 10 + nc.sum(nc.abs(r) ** 2 * nc.abs(W[: r.shape[0], : r.shape[1]]))


DERIVATIVES: dict[str, Function] = {
    "solve": lambda x: size(nc.linalg.solve(x, B * x[0, 0])),
    "solve_triangular": lambda x: size(nc.linalg.solve_triangular(x, B * x[0, 0])),
    "solve_triangular-right": lambda x: (
        size(nc.linalg.solve_triangular(x, B.mT, upper=True, left=False, unit_diagonal=True)) / 1000
    ),
    "inv": lambda x: size(nc.linalg.inv(x)),
    "det": lambda x: size(nc.linalg.det(x) / 100),
    "slogdet": lambda x: nc.linalg.slogdet(x).logabsdet + size(nc.linalg.slogdet(x).sign),
    "cholesky": lambda x: size(nc.linalg.cholesky(x @ x.mH)),
    "cholesky-upper": lambda x: size(nc.linalg.cholesky(x + 3 * nc.eye(4), upper=True)),
    "lu": lambda x: size(nc.linalg.lu(x).L) + size(nc.linalg.lu(x).U),
    "qr": lambda x: size(nc.linalg.qr(x).Q) + size(nc.linalg.qr(x).R),  # the diagonal of R stays real
    "qr-wide": lambda x: size(nc.linalg.qr(x[:3]).Q) + size(nc.linalg.qr(x[:3]).R),
    "qr-tall": lambda x: size(nc.linalg.qr(x[:, :3]).Q) + size(nc.linalg.qr(x[:, :3]).R),
    "qr-projector": lambda x: projector(x[:, :2]),
    "expm": lambda x: size(nc.linalg.expm(x / 4)),
    "matrix_power": lambda x: size(nc.linalg.matrix_power(x / 4, 3)),
    "matrix_power-inverse": lambda x: size(nc.linalg.matrix_power(x / 4, -2)),
}


@pytest.mark.parametrize("name", DERIVATIVES)
def test_gradients_are_the_steepest_ascent(name: str) -> None:
    f, z = DERIVATIVES[name], A
    if name == "cholesky-upper":
        z = definite(4, 4)
    found = nc.grad(f)(nc.asarray(z)).numpy()
    tangent = random(4, 4, seed=5)
    if name == "cholesky-upper":  # only the lower triangle is read, and gradients are Hermitian
        tangent = tangent + adjoint(tangent)
        ahead, behind = (float(f(nc.asarray(z + s * STEP * tangent))) for s in (1, -1))
        np.testing.assert_allclose(np.sum(found.conj() * tangent).real, (ahead - behind) / (2 * STEP), 1e-6)
        np.testing.assert_allclose(found, adjoint(found), 1e-12, 1e-12)
    else:
        wanted = ascent(f, z)
        np.testing.assert_allclose(found, wanted, 1e-5, 1e-7 * np.abs(wanted).max())
    assert nc.jit(nc.grad(f))(nc.asarray(z)).numpy().tobytes() == found.tobytes()
    _, moved = nc.jvp(f, (nc.asarray(z),), (nc.asarray(tangent),))
    assert float(moved) == pytest.approx(np.sum(found.conj() * tangent).real, rel=1e-10)


@pytest.mark.parametrize("name", ["solve", "inv", "det", "cholesky", "qr", "qr-wide", "expm"])
def test_second_derivatives(name: str) -> None:
    f, z, t = DERIVATIVES[name], nc.asarray(A), nc.asarray(random(4, 4, seed=6))
    gradient = nc.grad(f)
    _, second = nc.jvp(gradient, (z,), (t,))
    wanted = ((gradient(z + STEP * t) - gradient(z - STEP * t)) / (2 * STEP)).numpy()
    np.testing.assert_allclose(second.numpy(), wanted, 1e-4, 1e-6 * np.abs(wanted).max())


def test_gradients_of_matrices_in_blocks() -> None:
    z = random(70, 70) / 10 + 3 * np.eye(70)
    t = random(70, 70, seed=3)
    functions: tuple[Function, ...] = (
        lambda x: nc.sum(nc.abs(nc.linalg.solve(x, x[:, :2] + 1)) ** 2),
        lambda x: nc.linalg.slogdet(x).logabsdet,
        lambda x: nc.sum(nc.abs(nc.linalg.qr(x).R) ** 4) / 1000,
    )
    for f in functions:
        found = nc.grad(f)(nc.asarray(z)).numpy()
        ahead, behind = (float(f(nc.asarray(z + s * STEP * t))) for s in (1, -1))
        np.testing.assert_allclose(np.sum(found.conj() * t).real, (ahead - behind) / (2 * STEP), 1e-5)
