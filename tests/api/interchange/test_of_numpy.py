"""NumPy's functions called with tensors: Nacre's functions of the same meaning, or an error that says what to write."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nacre as nc
from nacre import nn
from nacre.api.interchange.numpy_table import FUNCTIONS_OF_NUMPY, UFUNCS

A = np.array([[3.0, 1.0, 2.0], [4.0, 0.5, 6.0]], np.float32)
X = nc.tensor(A)
REDUCTIONS = {
    "sum": np.sum, "mean": np.mean, "max": np.max, "min": np.min, "prod": np.prod, "std": np.std, "var": np.var,
}  # fmt: skip
CALLS: list[Callable[[Any], Any]] = [
    lambda x: np.sum(x, 1), lambda x: np.sum(x, axis=0, keepdims=True), lambda x: np.max(x, 0), np.amin,
    lambda x: np.std(x, ddof=1), lambda x: np.var(x, axis=(0, 1)), lambda x: np.argsort(x, axis=0, kind="stable"),
    np.sort, lambda x: np.clip(x, 1, 2), lambda x: np.clip(x, a_min=1, a_max=None), np.argmax,
    lambda x: np.concatenate([x, x]), lambda x: np.concatenate((x, x), 1), lambda x: np.stack([x, x], -1),
    lambda x: np.cumsum(x, 0), np.diff, lambda x: np.einsum("ij,kj->ik", x, x), lambda x: np.expand_dims(x, 0),
    lambda x: np.flip(x, 1), np.ones_like, np.zeros_like, lambda x: np.full_like(x, 7), lambda x: np.isin(x, [1.0, 2]),
    lambda x: np.transpose(x), lambda x: np.transpose(x, (0, 1)), lambda x: np.moveaxis(x, 0, 1),
    lambda x: np.nonzero(x > 1), lambda x: np.outer(x[0], x[1]), lambda x: np.pad(x, 1),
    lambda x: np.pad(x, 1, constant_values=2.0), np.ravel, lambda x: np.repeat(x, 2, axis=0),
    lambda x: np.reshape(x, (3, 2)), lambda x: np.roll(x, 1), np.round, np.nan_to_num,
    lambda x: np.squeeze(x[None], 0), lambda x: np.swapaxes(x, 0, 1), lambda x: np.take(x, [0], axis=1),
    lambda x: np.tensordot(x, x, axes=2), lambda x: np.tile(x, 2), np.tril, lambda x: np.triu(x, 1),
    lambda x: np.where(x > 1, x, 0.0), lambda x: np.add.reduce(x), lambda x: np.multiply.accumulate(x, axis=1),
    lambda x: np.count_nonzero(x > 1), lambda x: np.any(x > 1), lambda x: np.all(x > 1, axis=0),
    lambda x: np.broadcast_to(x, (2, 2, 3)), lambda x: np.meshgrid(x[0], x[1]), lambda x: np.maximum(A, x),
    lambda x: np.searchsorted(np.array([1.0, 2.0, 3.0], np.float32), x[1]), lambda x: np.angle(x + 1j),
    np.diagonal, lambda x: np.diagonal(x[None], 1, -2, -1), lambda x: np.diagonal(x[None], offset=-1, axis1=2, axis2=0),
    np.trace, lambda x: np.trace(x[None], 1, 1, 2), lambda x: np.vdot(x, x + 1j), lambda x: np.vdot(x * 1j, x),
    lambda x: np.kron(x, x[:, :2]), lambda x: np.kron(x[0], x[:1]), np.modf, lambda x: np.modf(-x / 4 - np.inf),
    lambda x: np.modf(x * 0 - 1.5), lambda x: np.einsum("...i,ij->...j", x, x.T),
]  # fmt: skip


def check(found: Any, wanted: Any) -> None:
    for x, a in zip(*(r if isinstance(r, tuple | list) else [r] for r in (found, wanted)), strict=True):
        assert isinstance(x, nc.Tensor) and tuple(x.shape) == np.shape(a)
        assert np.allclose(x.numpy(), a, rtol=1e-5, equal_nan=True)


@pytest.mark.parametrize("number", range(len(CALLS)))
def test_functions_have_the_meaning_of_numpy_and_give_tensors(number: int) -> None:
    check(CALLS[number](X), CALLS[number](A))


@pytest.mark.parametrize("name", REDUCTIONS)
def test_results_have_the_bits_of_nacres_functions(name: str) -> None:
    wanted = getattr(nc, name)(X)
    for x in (X, nn.Parameter(X, requires_grad=False)):
        found: Any = REDUCTIONS[name](x)
        assert isinstance(found, nc.Tensor) and found.numpy().tobytes() == wanted.numpy().tobytes()
    exact: Any = np.exp(X)
    assert exact.numpy().tobytes() == nc.exp(X).numpy().tobytes()


def test_every_function_in_the_table_exists() -> None:
    def exists(name: str) -> bool:
        room, _, short = name.rpartition(".")
        return hasattr(getattr(nc, room) if room else nc, short)

    names = {*UFUNCS.values(), *(of.name for of in FUNCTIONS_OF_NUMPY.values())}
    assert all(map(exists, names)), "the table names functions that Nacre lacks"


S = A @ A.T + np.eye(2, dtype=np.float32)
ROOMS: list[Callable[[Any, Any], Any]] = [
    *(lambda x, z, f=f: f(x) for f in (np.fft.fft, np.fft.rfft, np.fft.fft2, np.fft.rfftn, np.fft.fftshift)),
    lambda x, z: np.fft.ifft(x, 4, axis=0, norm="ortho"), lambda x, z: np.fft.irfft(x, n=5),
    lambda x, z: np.fft.fftn(x, s=(2, 2), axes=(0, 1)), lambda x, z: np.fft.ifftshift(x, axes=1),
    *(lambda x, z, f=f: f(z) for f in (np.linalg.cholesky, np.linalg.inv, np.linalg.det, np.linalg.slogdet)),
    *(lambda x, z, f=f: f(z) for f in (np.linalg.eigvalsh, np.linalg.pinv, np.linalg.cond, np.linalg.matrix_rank)),
    lambda x, z: np.linalg.solve(z, x), lambda x, z: np.linalg.matrix_power(z, 3), lambda x, z: np.linalg.norm(x),
    lambda x, z: np.linalg.norm(x, 1), lambda x, z: np.linalg.norm(x, np.inf, axis=1, keepdims=True),
    lambda x, z: np.linalg.norm(x, "nuc", (1, 0), True), lambda x, z: np.linalg.multi_dot([z, x]),
    lambda x, z: np.linalg.svd(x, compute_uv=True)[1], lambda x, z: np.linalg.qr(z, "reduced")[1] ** 2,
    lambda x, z: np.linalg.lstsq(z, x[:, 0])[0], lambda x, z: np.linalg.eigh(z, "L")[0],
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(ROOMS)))
def test_fft_and_linalg_have_the_meaning_of_numpy(number: int) -> None:
    found, wanted = ROOMS[number](X, nc.tensor(S)), ROOMS[number](A, S)
    for x, a in zip(*(tuple(r) if isinstance(r, tuple) else (r,) for r in (found, wanted)), strict=True):
        assert isinstance(x, nc.Tensor) and tuple(x.shape) == np.shape(a)
        np.testing.assert_allclose(x.numpy(), a, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("triangle", ["L", "U"])
def test_one_triangle_of_hermitian_matrices_is_read(triangle: str) -> None:
    rng = np.random.default_rng(0)
    a = rng.normal(size=(2, 4, 4)) + 1j * rng.normal(size=(2, 4, 4))
    x = nc.asarray(a)
    wanted = np.linalg.eigvalsh(a, UPLO=triangle)
    values, vectors = np.linalg.eigh(x, UPLO=triangle)
    for found in (values, np.linalg.eigvalsh(x, UPLO=triangle)):
        np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-12)
    other = np.tril(a, -1) if triangle == "L" else np.triu(a, 1)
    whole = other + other.conj().mT + np.eye(4) * a.real
    np.testing.assert_allclose(whole @ vectors.numpy(), vectors.numpy() * wanted[:, None], atol=1e-12)


def test_settings_that_nacre_lacks_are_refused() -> None:
    for call in (
        lambda z: np.linalg.eigh(z, UPLO="X"),
        lambda z: np.linalg.svd(z, compute_uv=False),
        lambda z: np.linalg.pinv(z, hermitian=True),
        lambda z: np.linalg.tensorinv(z),
    ):
        with pytest.raises(nc.KindError, match="must"):
            call(nc.tensor(S))


def test_gradients_flow_and_functions_are_compiled() -> None:
    def f(x: Any) -> Any:
        return np.sum(np.exp(x) + np.concatenate([A, A])[:2])

    assert nc.grad(f)(X).tolist() == nc.exp(X).tolist()
    assert nc.jit(f)(X).item() == f(X).item()
    p = nn.Parameter(X)
    np.sum(p * 2).backward()
    assert p.grad is not None and p.grad.tolist() == [[2.0] * 3] * 2


@pytest.mark.parametrize(("call", "words"), [
    (lambda x: np.put_along_axis(x, np.zeros((1, 3), np.int64), 1.0, 0), r"x = nacre.scatter\(x, axis, i, v\)"),
    (lambda x: np.copyto(x, 1.0), r"write x\[...\] = v"),
    (lambda x: np.putmask(x, A > 1, 0.0), r"write x = nacre.where\(mask, v, x\)"),
])  # fmt: skip
def test_functions_that_write_say_what_to_write(call: Callable[[Any], Any], words: str) -> None:
    with pytest.raises(nc.StateError, match=f"the first argument must be an array of NumPy.*{words}"):
        call(X)


def test_divmod_is_that_of_numpy() -> None:
    for x in (X, nc.tensor([7, -7, 5])):
        a = x.numpy()
        for found, wanted in (
            (divmod(x, 2), np.divmod(a, 2)), (divmod(20, x), np.divmod(20, a)), (divmod(a, x), np.divmod(a, a)),
            (np.divmod(x, 3), np.divmod(a, 3)), (divmod(nn.Parameter(X), 2), np.divmod(X.numpy(), 2)),
        )[: 5 if x is X else 4]:  # fmt: skip
            assert [part.tolist() for part in found] == [part.tolist() for part in wanted]


@pytest.mark.parametrize(("call", "words"), [
    (lambda x: np.exp(x, where=A > 1), "exp: where= must be left out.*write nacre.where"),
    (lambda x: np.mean(x, dtype=np.float64), r"mean: dtype= must be left out.*nacre.mean\(x\).astype\(dtype\)"),
    (lambda x: np.sum(x, initial=3), "sum: initial= must be left out, because nacre.sum has no such setting; got 3"),
    (lambda x: np.sort(x, kind="heapsort"), "sort: kind= must be left out"),
    (lambda x: np.reshape(x, (3, 2), order="F"), "reshape: order= must be left out"),
    (lambda x: np.partition(x, 1), "partition: NumPy's function must have a counterpart.*write nacre.sort"),
    (lambda x: np.heaviside(x, 2), "heaviside: NumPy's function must have a counterpart.*nacre.where"),
    (lambda x: np.add.outer(x, x), r"got a tensor for numpy.add.outer; write nacre.add\(x\[:, None\], y\)"),
    (lambda x: np.gcd.reduce(x), r"got a tensor for numpy.gcd.reduce; pass x.numpy\(\) to numpy.gcd.reduce"),
    (lambda x: np.maximum.accumulate(x), r"maximum: NumPy's function must have.*write nacre.cummax\(x, axis=0\)"),
    (lambda x: np.logaddexp.accumulate(x), r"logaddexp: NumPy's function must have.*write nacre.logcumsumexp\(x"),
    (lambda x: np.add.at(x, [0], 1.0), r"add: NumPy's function must have.*write x = x.at\[i\].add\(v\)"),
    (
        lambda x: np.lib.stride_tricks.sliding_window_view(x, 2, axis=0),
        r"sliding_window_view: NumPy's function must have.*write nacre.sliding_window_view\(x, n\)",
    ),
    (lambda x: np.unique(x, axis=0), r"unique: axis= must be left out.*numpy.unique\(x.numpy\(\), axis=axis\)"),
    (lambda x: np.average(x, returned=True), r"average: returned= must be left out.*got True.*nacre.sum\(weights\)"),
])  # fmt: skip
def test_other_functions_and_settings_are_refused_with_what_to_write(call: Callable[[Any], Any], words: str) -> None:
    with pytest.raises(nc.KindError, match=words):
        call(X)


@pytest.mark.parametrize("settings", [
    {}, {"return_inverse": True}, {"return_counts": True, "return_index": True},
    {"return_inverse": True, "return_counts": True, "equal_nan": False},
], ids=repr)  # fmt: skip
@pytest.mark.parametrize("a", [
    np.array([[3, 0, 3], [1, 0, 4]]), np.array([1.0, np.nan, 2.0, np.nan, 1.0, np.nan]), np.array([]),
    np.array([True, False, True]), np.array([1 + 2j, 1 - 2j, 1 + 2j]),
], ids=repr)  # fmt: skip
def test_distinct_elements_are_those_of_numpy(a: np.ndarray, settings: dict[str, bool]) -> None:
    wanted: Any = np.unique(a, **settings)  # type: ignore[call-overload]
    found: Any = np.unique(nc.tensor(a), **settings)  # type: ignore[call-overload]
    assert isinstance(found, nc.Tensor) is isinstance(wanted, np.ndarray)
    for one, other in zip(*((x if isinstance(x, tuple) else (x,)) for x in (wanted, found)), strict=True):
        assert isinstance(other, nc.Tensor) and other.dtype == one.dtype
        np.testing.assert_array_equal(np.asarray(other).reshape(one.shape), one)


def test_several_complex_nan_as_one_element_are_refused() -> None:
    x = nc.tensor([complex("nan"), complex("nan"), 1j])
    with pytest.raises(nc.KindError, match=r"got 2 of them; write numpy\.unique"):
        np.unique(x)
    assert np.unique(x, equal_nan=False).shape == (3,)


@pytest.mark.parametrize(("axis", "weights", "keepdims"), [
    (None, None, False), (0, None, True), (None, A + 1, False), (1, A, True), (-1, A[0], False), (0, A[:, 0], True),
])  # fmt: skip
def test_averages_are_those_of_numpy(axis: int | None, weights: Any, keepdims: bool) -> None:
    wanted = np.average(A * A, axis=axis, weights=weights, keepdims=keepdims)
    for x, scale in ((X * X, weights), (X * X, None if weights is None else nc.tensor(weights))):
        found: Any = np.average(x, axis=axis, weights=scale, keepdims=keepdims)  # type: ignore[call-overload]
        assert isinstance(found, nc.Tensor) and found.shape == np.shape(wanted)
        np.testing.assert_allclose(found, wanted, rtol=1e-6)


@pytest.mark.parametrize("f", [np.atleast_1d, np.atleast_2d, np.atleast_3d])
def test_axes_are_added_as_in_numpy(f: Callable[..., Any]) -> None:
    arrays = [np.array(1.0), np.arange(3), A, A[None], A[None, None]]
    for a, x in zip(arrays, f(*map(nc.tensor, arrays)), strict=True):
        assert isinstance(x, nc.Tensor) and x.shape == f(a).shape and x.tolist() == f(a).tolist()
        assert f(nc.tensor(a)).shape == x.shape
    assert nc.jit(f)(X[0]).shape == f(A[0]).shape


def test_averages_of_integers_have_the_dtype_of_the_weights() -> None:
    whole = np.array([[7, 2, 1], [3, 4, 9]])
    for a, weights in ((whole, A), (A, whole), (whole > 2, A), (whole, whole)):
        found: Any = np.average(nc.tensor(a), weights=weights)  # type: ignore[call-overload]
        assert found.dtype == nc.float32
        np.testing.assert_allclose(found, np.average(a, weights=weights), rtol=1e-6)


def test_weights_must_fit_the_axis() -> None:
    for axis in (0, None, 2):
        with pytest.raises(nc.ShapeError, match="average: the weights must have the shape of the tensor"):
            np.average(X, axis=axis, weights=A[0])  # type: ignore[call-overload]


def test_tolerances_may_be_tensors() -> None:
    np.testing.assert_allclose(X, A + 1e-3, atol=nc.tensor(2e-3))  # type: ignore[arg-type]
    with pytest.raises(AssertionError):
        np.testing.assert_allclose(X, A + 1e-3, rtol=0, atol=nc.tensor(5e-4))  # type: ignore[arg-type]
    assert np.isclose(X, A).all()  # type: ignore[arg-type]


def test_functions_without_arrays_as_results_are_numpys() -> None:
    assert np.shape(X) == (2, 3) and np.ndim(X) == 2 and np.size(X) == 6
    assert np.array_equal(X, A) and np.allclose(X, A) and "array(" in np.array_repr(X)  # type: ignore[arg-type]
    target = np.zeros((2, 3), np.float32)
    np.copyto(target, X)
    assert np.array_equal(target, A)
    np.testing.assert_array_equal(X, A)


BINARY: list[Callable[[Any, Any], Any]] = [
    lambda a, b: a + b, lambda a, b: a - b, lambda a, b: a * b, lambda a, b: a / b, lambda a, b: a // b,
    lambda a, b: a % b, lambda a, b: a**b, lambda a, b: a @ b, lambda a, b: a & b, lambda a, b: a | b,
    lambda a, b: a ^ b, lambda a, b: a << b, lambda a, b: a >> b, lambda a, b: a < b, lambda a, b: a <= b,
    lambda a, b: a > b, lambda a, b: a >= b, lambda a, b: a == b, lambda a, b: a != b,
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(BINARY)))
def test_operators_with_arrays_give_tensors(number: int) -> None:
    f = BINARY[number]
    a, b = np.array([[7, 2], [3, 4]]), np.array([[1, 2], [2, 3]])
    wanted = f(nc.tensor(a), nc.tensor(b))
    for found in (f(a, nc.tensor(b)), f(nc.tensor(a), b), f(a, nn.Buffer(b)), f(nn.Buffer(a), b)):
        assert isinstance(found, nc.Tensor) and found.type is wanted.type and found.tolist() == wanted.tolist()


def test_operators_in_place_write_numbers_into_the_array() -> None:
    a = A.copy()
    b = a
    a += X
    assert a is b and np.array_equal(a, A + A)
    a @= nc.eye(3)
    assert a is b and np.array_equal(a, A + A)
    np.exp(X, out=a)
    assert a.tobytes() == nc.exp(X).numpy().tobytes()
    x = X
    x += A
    assert isinstance(x, nc.Tensor) and np.array_equal(X.numpy(), A)
    whole = np.ones((2, 3), np.int64)
    for call, kind, words in (
        (lambda: whole.__iadd__(X), nc.DTypeError, "of one kind"),
        (lambda: np.add(X, X, out=whole), nc.DTypeError, "the array must have a dtype that holds the result"),
        (lambda: np.add(A, X, out=np.ones(3, np.float32)), nc.ShapeError, "the array must have the shape"),
        (lambda: np.exp(A, out=X * 1), nc.StateError, r"write x = nacre.exp\(x\)"),
        (lambda: a.__iadd__(nn.Parameter(X)), nc.GradientError, "records no gradient"),
        (lambda: np.copyto(a, nn.Parameter(X)), nc.GradientError, "records no gradient"),
        (lambda: nc.jit(lambda x: np.add(A, x, out=a))(X), nc.TraceError, "needs known numbers"),
    ):
        with pytest.raises(kind, match=words):
            call()
    assert whole.tolist() == [[1] * 3] * 2


def test_functions_of_other_libraries_give_arrays() -> None:
    special = pytest.importorskip("scipy.special")
    assert isinstance(special.expit(X), np.ndarray)
    with pytest.raises(nc.GradientError, match=re.escape("pass x.detach().numpy()")):
        special.expit(nn.Parameter(X))


def test_tensors_beside_unknown_kinds_of_arrays_leave_the_function_to_those() -> None:
    class Other:
        """A kind of array that NumPy asks, too."""

        def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> str:
            return function.__name__

    assert np.concatenate([X, Other()]) == "concatenate"  # type: ignore[list-item]
