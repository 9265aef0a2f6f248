"""Eigenvalues, singular values, ranks and least squares have NumPy's numbers in every execution mode."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nacre as nc
from nacre import deploy
from nacre.base.errors import ArgumentError, DTypeError, LinAlgError, ShapeError
from nacre.inspect.explain import explain
from nacre.ops.linalg.numpy_calls import computed

DTYPES = ["float32", "float64", "complex64", "complex128"]

# on a square matrix: ours, and NumPy's
SAME: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "eigh": (nc.linalg.eigh, np.linalg.eigh),
    "eigvalsh": (nc.linalg.eigvalsh, np.linalg.eigvalsh),
    "eig": (nc.linalg.eig, np.linalg.eig),
    "eigvals": (nc.linalg.eigvals, np.linalg.eigvals),
    "svd": (nc.linalg.svd, np.linalg.svd),
    "svd-reduced": (
        lambda x: nc.linalg.svd(x, full_matrices=False),
        lambda x: np.linalg.svd(x, full_matrices=False),
    ),
    "svdvals": (nc.linalg.svdvals, lambda x: np.linalg.svd(x, compute_uv=False)),
    "pinv": (lambda x: nc.linalg.pinv(x, rtol=1e-3), lambda x: np.linalg.pinv(x, 1e-3)),
    "matrix_rank": (nc.linalg.matrix_rank, np.linalg.matrix_rank),
}
SQUARE = {"eigh", "eigvalsh", "eig", "eigvals"}


def matrices(shape: tuple[int, ...], dtype: str, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=shape)
    return (x + 1j * rng.normal(size=shape) if dtype.startswith("c") else x).astype(dtype)


def arrays(found: Any) -> list[Any]:
    return [t.numpy() for t in found] if isinstance(found, tuple) else [found.numpy()]


def bits(found: Any) -> list[bytes]:
    return [x.tobytes() for x in arrays(found)]


@pytest.mark.parametrize("name", SAME)
@pytest.mark.parametrize("dtype", DTYPES)
def test_numbers_of_numpy(name: str, dtype: str) -> None:
    ours, theirs = SAME[name]
    for shape in ((3, 3), (2, 3, 3)) if name in SQUARE else ((3, 3), (4, 2), (2, 2, 3)):
        x = matrices(shape, dtype)
        found, wanted = ours(nc.tensor(x)), theirs(x)
        wanted = wanted if isinstance(wanted, tuple) else (wanted,)
        for y, z in zip(arrays(found), wanted, strict=True):
            assert y.dtype == z.dtype or (name.startswith("eig") and np.iscomplexobj(y))
            assert np.array_equal(y, z)


@pytest.mark.parametrize("name", SAME)
def test_every_mode_has_the_same_bits(name: str) -> None:
    f, _ = SAME[name]
    x = nc.tensor(matrices((3, 4, 4), "float32"))
    wanted = bits(f(x))
    assert bits(nc.jit(f)(x)) == wanted
    assert bits(nc.vmap(f)(x)) == wanted
    assert bits(nc.jit(nc.vmap(f))(x)) == wanted
    assert bits(nc.vmap(f, in_axes=2)(nc.permute_dims(x, (1, 2, 0)))) == wanted
    assert bits(f(nc.permute_dims(nc.permute_dims(x, (2, 1, 0)), (2, 1, 0)))) == wanted
    jitted, more = nc.jit(f), nc.tensor(matrices((5, 4, 4), "float32"))
    for count in (2, 3, 4, 5):
        assert bits(jitted(more[:count])) == bits(f(more[:count]))


def test_loops_and_branches() -> None:
    x = nc.tensor(matrices((4, 3, 3), "float64"))

    def step(carry: Any, each: Any) -> Any:
        return carry + nc.linalg.svdvals(each).sum(), nc.linalg.eigvalsh(each)

    def sums(x: Any) -> Any:
        return nc.scan(step, nc.zeros((), dtype=nc.float64), x)

    total, values = nc.jit(sums)(x)
    assert bits(values) == bits(nc.linalg.eigvalsh(x))
    np.testing.assert_allclose(total.item(), nc.linalg.svdvals(x).sum().item())

    def either(flag: Any, x: Any) -> Any:
        return nc.cond(flag, lambda x: nc.linalg.svdvals(x), lambda x: nc.linalg.eigvalsh(x), x)

    for flag in (True, False):
        f = nc.linalg.svdvals if flag else nc.linalg.eigvalsh
        assert bits(nc.jit(either)(nc.tensor(flag), x)) == bits(f(x))


def test_unused_ones_are_removed_and_equal_ones_merged() -> None:
    def f(x: Any) -> Any:
        unused = nc.linalg.svd(x)
        del unused
        return nc.linalg.eigh(x).eigenvalues + nc.linalg.eigh(x).eigenvectors[0]

    text = explain(f, nc.tensor(matrices((3, 3), "float32"))).simplified
    assert text.count("eigh(") == 1
    assert "svd" not in text


def test_only_the_lower_triangle_is_read() -> None:
    x = matrices((3, 3), "float64")
    other = x + np.triu(np.full((3, 3), np.nan), 1)
    assert bits(nc.linalg.eigh(other)) == bits(nc.linalg.eigh(x))


def test_reconstruction() -> None:
    for dtype in ("float64", "complex128"):
        x = nc.tensor(matrices((2, 4, 3), dtype))
        u, s, vh = nc.linalg.svd(x, full_matrices=False)
        np.testing.assert_allclose(((u * s[:, None]) @ vh).numpy(), x.numpy(), atol=1e-12)
        square = x[:, :3]
        values, vectors = nc.linalg.eig(square)
        np.testing.assert_allclose((square @ vectors).numpy(), (vectors * values[:, None]).numpy(), atol=1e-12)


def test_eig_is_complex_for_real_eigenvalues_too() -> None:
    found = nc.linalg.eig(nc.eye(2))
    assert found.eigenvalues.dtype is nc.complex64
    assert found.eigenvectors.dtype is nc.complex64


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_least_squares(dtype: str) -> None:
    a, b = matrices((2, 5, 3), dtype), matrices((2, 5, 2), dtype, 1)
    found = nc.linalg.lstsq(a, b)
    for k in range(2):
        for y, z in zip(found, np.linalg.lstsq(a[k], b[k]), strict=True):
            np.testing.assert_allclose(y[k].numpy(), z, atol=1e-12)
    assert bits(nc.jit(nc.linalg.lstsq)(nc.tensor(a), nc.tensor(b))) == bits(found)
    assert bits(nc.vmap(nc.linalg.lstsq)(nc.tensor(a), nc.tensor(b))) == bits(found)
    each = nc.vmap(nc.linalg.lstsq, in_axes=(None, 0))(nc.tensor(a[0]), nc.tensor(b))
    assert bits(each.solution[0]) == bits(found.solution[0])
    vector = nc.linalg.lstsq(a[0], b[0, :, 0])
    assert vector.solution.shape == (3,)
    assert vector.residuals.shape == ()
    deficient = nc.linalg.lstsq(np.ones((3, 2)), np.array([1.0, 2.0, 3.0]))
    assert deficient.rank.item() == 1
    np.testing.assert_allclose(deficient.solution.numpy(), [1.0, 1.0])
    few = np.diag([1.0, 1e-3])
    assert bits(nc.linalg.lstsq(few, np.ones(2), rcond=0.1)) == bits(nc.linalg.lstsq(few, np.ones(2), rtol=0.1))
    assert nc.linalg.lstsq(few, np.ones(2), rcond=0.1).rank.item() == 1
    with pytest.raises(nc.ArgumentError, match="rtol and rcond are one setting"):
        nc.linalg.lstsq(few, np.ones(2), rtol=0.1, rcond=0.1)
    np.testing.assert_allclose(deficient.residuals.item(), 2.0)


def test_ranks_and_cutoffs() -> None:
    x = np.diag([1.0, 0.1, 0.001])
    assert nc.linalg.matrix_rank(x).item() == 3
    assert nc.linalg.matrix_rank(x, rtol=0.01).item() == 2
    np.testing.assert_allclose(nc.linalg.pinv(x, rtol=0.01).numpy(), np.diag([1.0, 10.0, 0.0]), atol=1e-12)
    with pytest.raises(ArgumentError, match="pinv: rtol must be a number of at least 0; got -1"):
        nc.linalg.pinv(x, rtol=-1)


@pytest.mark.parametrize("ord", ["fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_norms(ord: Any, dtype: str) -> None:
    x = matrices((2, 3, 4), dtype)
    for keepdims in (False, True):
        found = nc.linalg.matrix_norm(x, ord=ord, keepdims=keepdims).numpy()
        wanted = np.linalg.matrix_norm(x, ord=ord, keepdims=keepdims)
        assert found.dtype == wanted.dtype
        np.testing.assert_allclose(found, wanted)
    order: Any = 3 if isinstance(ord, str) else ord
    np.testing.assert_allclose(
        nc.linalg.vector_norm(x, ord=order, axis=1).numpy(), np.linalg.vector_norm(x, ord=order, axis=1)
    )


@pytest.mark.parametrize("p", [None, "fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf])
def test_condition_numbers(p: Any) -> None:
    x = matrices((2, 3, 3), "float64")
    np.testing.assert_allclose(nc.linalg.cond(x, p).numpy(), np.linalg.cond(x, p))
    if p in (None, 2, -2):
        y = matrices((4, 3), "complex128")
        np.testing.assert_allclose(nc.linalg.cond(y, p).numpy(), np.linalg.cond(y, p))
        assert nc.linalg.cond(np.zeros((2, 3, 3)), p).tolist() == np.linalg.cond(np.zeros((2, 3, 3)), p).tolist()
    with pytest.raises(LinAlgError, match="cond: matrices must have elements"):
        nc.linalg.cond(np.zeros((0, 0)), p)


@pytest.mark.parametrize("shape", [(0, 0), (0, 3), (3, 0), (2, 0, 0), (0, 3, 3)])
def test_matrices_without_elements(shape: tuple[int, ...]) -> None:
    x = np.zeros(shape)
    for name, (ours, theirs) in SAME.items():
        if name in SQUARE and shape[-1] != shape[-2]:
            continue
        for f in (ours, nc.jit(ours)):
            wanted = theirs(x)
            wanted = wanted if isinstance(wanted, tuple) else (wanted,)
            assert [y.shape for y in arrays(f(nc.tensor(x)))] == [z.shape for z in wanted], name
    solution, *_ = nc.linalg.lstsq(x, np.zeros((*shape[:-1], 2)))
    assert solution.numpy().tolist() == np.zeros((*shape[:-2], shape[-1], 2)).tolist()


@pytest.mark.parametrize("name", ["eigh", "eigvalsh", "eig", "eigvals", "svd", "svdvals", "pinv"])
def test_errors(name: str) -> None:
    f = getattr(nc.linalg, name)
    with pytest.raises(DTypeError, match=f"{name}: "):
        f(nc.tensor([[1, 2], [3, 4]]))
    with pytest.raises(ShapeError, match=f"{name}: x must be a matrix"):
        f(nc.ones(3))
    if name in SQUARE:
        with pytest.raises(ShapeError, match=f"{name}: matrices must be square"):
            f(nc.ones((2, 3)))
    for each in (np.nan, np.inf):
        for g in (f, nc.jit(f)):
            with pytest.raises(LinAlgError, match=f"{name}: matrices must be finite"):
                g(nc.tensor([[1.0, 0.0], [each, 1.0]]))


def test_no_convergence() -> None:
    def fails(x: Any) -> Any:
        raise np.linalg.LinAlgError("SVD did not converge")

    with pytest.raises(LinAlgError, match="svd: LAPACK must find a result; got 'SVD did not converge'"):
        computed("svd", fails, np.eye(2))


def test_executables_and_saved_programs_refuse_them(tmp_path: Path) -> None:
    x = nc.ones((2, 2))

    def loop(x: Any) -> Any:
        return nc.scan(lambda carry, each: (nc.linalg.pinv(carry), each), x, x)

    for f, name in ((nc.linalg.eigh, "eigh"), (loop, "pinv")):
        with pytest.raises(ArgumentError, match=f"save_program: .* one with {name}, which NumPy computes"):
            nc.save_program(f, tmp_path / "f.safetensors", x)
        with pytest.raises(ArgumentError, match=f"deploy: .* one with {name}, which NumPy computes"):
            deploy.compile(f, [x], tmp_path / "f")
