"""The complex functions whose derivatives are compared, written once for all libraries: f(names, *operands)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from peers.cases import Case, conditioned, line, named, plane

well_conditioned = conditioned(plane)


def hermitian(xp: Any, z: Any) -> Any:
    return (z + xp.conj(xp.transpose(z))) / 2


def spectrum(xp: Any, z: Any, f: Callable[[Any], Any]) -> Any:
    """A function of a Hermitian matrix by its eigenvalues: no eigenvector's phase is in it."""
    w, v = xp.linalg.eigh(hermitian(xp, z))
    return (v * f(w)) @ xp.conj(xp.transpose(v))


def orthogonal_factor(xp: Any, z: Any) -> Any:
    u, _, vh = xp.linalg.svd(z)
    return u @ vh


def svd_squares(xp: Any, z: Any) -> Any:
    u, s, _ = xp.linalg.svd(z)
    return (u * s**3) @ xp.conj(xp.transpose(u))


def qr_parts(xp: Any, z: Any) -> Any:
    """What of a QR factorisation does not depend on the phases of the columns."""
    q, r = xp.linalg.qr(z)
    return xp.abs(r), q @ xp.conj(xp.transpose(q))


def transforms(*names: str, **fields: Any) -> list[Case]:
    return [Case(name, lambda xp, z, name=name: getattr(xp.fft, name)(z), **fields) for name in names]


A, B = (3, 4), (4, 2)
SQUARE = ((4, 4),)
HERMITIAN = {"torch second derivatives": "PyTorch raises an error for real factors of complex eigenvectors"}
ROWS = np.array([0, 2, 0])
SECOND = {"jax second derivatives": "JAX does not differentiate eigenvectors of general matrices"}

ELEMENTARY = [
    *named("exp", "log", "sqrt", "square", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh",
           "asinh", "atanh", "reciprocal", "expm1", "log1p", "log2", "log10", "rsqrt"),
    *named("acosh", apart={"jax": "JAX's derivative has the other sign where the real part is negative"}),
    *named("sign", apart={"jax": "JAX's derivative is zero"}),
    *named("abs", "angle", "real", "imag", "conj", "positive", "negative"),
    Case("logistic function", lambda xp, z: 1 / (1 + xp.exp(-z))),
    Case("pow", lambda xp, z, w: z**w, ((3,), (3,))),
    Case("pow by an integer", lambda xp, z: z**3 + z**-2),
    Case("pow by a number", lambda xp, z: z**0.5 + z**(0.3 + 0.2j)),
    Case("pow of a number", lambda xp, z: 2.0**z + (1 + 1j) ** z),
    Case("divide", lambda xp, z, w: z / w + 1j / z, ((3,), (3,))),
    Case("multiply", lambda xp, z, w: z * xp.conj(w) * z + w * 2j, ((3, 2), (2,))),
    Case("phase", lambda xp, z: z / xp.abs(z)),
    Case("where", lambda xp, z: xp.where(xp.real(z) > 0, xp.sqrt(z), xp.conj(z) * z)),
]  # fmt: skip

PRODUCTS = [
    Case("matmul", lambda xp, a, b: a @ b, (A, B)),
    Case("matmul by its adjoint", lambda xp, a: a @ xp.conj(xp.transpose(a)), (A,)),
    Case("matmul of batches", lambda xp, a, b: a @ b, ((2, *A), B)),
    Case("matmul by a vector", lambda xp, a, b: a @ b, (A, (4,))),
    Case("einsum", lambda xp, a, b: xp.einsum("bij,jk,bk->bi", a, b, xp.conj(a[:, 0, :2])), ((2, *A), B)),
    Case("tensordot", lambda xp, a, b: xp.tensordot(a, b, **{xp.axes: 1}), ((2, *A), B)),
    Case("vecdot", lambda xp, a, b: xp.vecdot(a, b), (A, A)),
    Case("outer", lambda xp, a, b: xp.outer(a, b), ((3,), (2,))),
]

REDUCTIONS = [
    *named("sum", "mean", "prod", "cumsum", "cumprod"),
    Case("sum along an axis", lambda xp, z: xp.sum(z * z, axis=0)),
    Case("prod along an axis", lambda xp, z: xp.prod(z, axis=1)),
    Case("prod with a zero", lambda xp, z: xp.prod(z * xp.constant([1.0, 0.0, 1.0]), axis=0), ((3,),)),
    *(
        Case(f"vector_norm {ord}", lambda xp, z, ord=ord: xp.linalg.vector_norm(z, ord=ord))
        for ord in (1, 2, 3, 0.5, float("inf"))
    ),
    *(
        Case(f"matrix_norm {ord}", lambda xp, z, ord=ord: xp.linalg.matrix_norm(z, ord=ord), SQUARE, well_conditioned)
        for ord in ("fro", "nuc", 2, 1, float("inf"))
    ),
]

FOURIER = [
    *transforms("fft", "ifft", "irfft", "hfft", "fftn", "fft2", "ifft2", "irfft2", shapes=((4, 5),)),
    *transforms("rfft", "ihfft", "rfft2", "rfftn", shapes=((4, 5),), draw=line),
    Case("fft of a prime length, scaled", lambda xp, z: xp.fft.fft(z, 7, norm="ortho"), ((11,),)),
    Case("irfft to a length", lambda xp, z: xp.fft.irfft(z, 9, norm="forward"), ((5,),)),
    Case("fft along the first axis", lambda xp, z: xp.fft.fft(z.T).T, ((6, 2),)),
    Case("fftshift", lambda xp, z: xp.fft.fftshift(xp.fft.fft(z)) ** 2, ((5,),)),
]

LINEAR_ALGEBRA = [
    Case("solve", lambda xp, a, b: xp.linalg.solve(a + xp.constant(2 * np.eye(4)), b), ((4, 4), (4, 2))),
    Case("inv", lambda xp, a: xp.linalg.inv(a), SQUARE, well_conditioned),
    Case("inv of batches", lambda xp, a: xp.linalg.inv(a), ((2, 3, 3),), well_conditioned),
    Case("det", lambda xp, a: xp.linalg.det(a), SQUARE, well_conditioned),
    Case("slogdet", lambda xp, a: tuple(xp.linalg.slogdet(a)), SQUARE, well_conditioned),
    Case("cholesky", lambda xp, a: xp.linalg.cholesky(a @ xp.conj(xp.transpose(a))), SQUARE, well_conditioned),
    Case("qr", qr_parts, SQUARE, well_conditioned),
    Case("qr of a tall matrix", qr_parts, ((5, 3),)),
    Case("eigh", lambda xp, a: xp.linalg.eigh(hermitian(xp, a))[0], SQUARE, well_conditioned),
    Case("eigvalsh", lambda xp, a: xp.linalg.eigvalsh(hermitian(xp, a)), SQUARE, well_conditioned),
    Case("function of a Hermitian matrix", lambda xp, a: spectrum(xp, a, xp.exp), SQUARE, well_conditioned, HERMITIAN),
    Case("svdvals", lambda xp, a: xp.linalg.svd(a)[1], ((4, 3),), well_conditioned),
    Case("svd, the orthogonal factor", orthogonal_factor, SQUARE, well_conditioned),
    Case("svd, a function of the left vectors", svd_squares, SQUARE, well_conditioned),
    Case("eigvals", lambda xp, a: xp.linalg.eigensum(a, xp.exp), SQUARE, well_conditioned, SECOND),
    Case("pinv of a tall matrix", lambda xp, a: xp.linalg.pinv(a), ((5, 3),)),
    Case("pinv of a wide matrix", lambda xp, a: xp.linalg.pinv(a), ((2, 4),)),
    Case("expm", lambda xp, a: xp.linalg.expm(a), SQUARE),
    Case("matrix_power", lambda xp, a: xp.linalg.matrix_power(a, 5) + xp.linalg.matrix_power(a, -2), SQUARE,
         well_conditioned),
    Case("trace", lambda xp, a: xp.linalg.trace(a @ a), SQUARE),
]  # fmt: skip

FORMS = [
    Case("index", lambda xp, z: z[1] * z[:, 1][0]),
    Case("slice with steps", lambda xp, z: z[::2, 1:] ** 2),
    Case("index by an array", lambda xp, z: z[ROWS] * xp.conj(z[1])),
    Case("concat", lambda xp, z, w: xp.concat((z, xp.conj(w), z * w)), ((3, 2), (3, 2))),
    Case("stack", lambda xp, z, w: xp.stack((z, w * z))[1], ((3,), (3,))),
    Case("reshape and transpose", lambda xp, z: (z.T * 1j).reshape((-1,)) ** 2),
    Case("flip, roll", lambda xp, z: xp.flip(z) * xp.roll(z, 1)),
    Case("tril, triu", lambda xp, z: xp.tril(z) @ xp.triu(z), SQUARE),
    Case("view_as_real", lambda xp, z: xp.view_as_real(z) ** 3),
    Case("view_as_complex", lambda xp, x: xp.view_as_complex(x) ** 3, draw=line),
]

REAL_TO_REAL = [
    Case("power spectrum", lambda xp, x: xp.abs(xp.fft.fft(x)) ** 2, ((7,),), line),
    Case("filter", lambda xp, x, h: xp.fft.irfft(xp.fft.rfft(x) * xp.fft.rfft(h), 8), ((8,), (8,)), line),
    Case("phase of a signal", lambda xp, x: xp.angle(xp.fft.rfft(x))[1:3], ((8,),), line),
    Case("rotation", lambda xp, x: xp.real(xp.exp(1j * x) * (1 + x)), draw=line),
    Case("complex", lambda xp, x, y: xp.abs(xp.sin(xp.complex(x, y))), ((3,), (3,)), line),
    Case("polar", lambda xp, x, y: xp.imag(xp.polar(x * x, y) ** 2), ((3,), (3,)), line),
    Case("resolvent", lambda xp, x: xp.imag(xp.linalg.inv(x + xp.constant(1j * np.eye(3)))), ((3, 3),), line),
    Case("determinant", lambda xp, x: xp.abs(xp.linalg.det(x * (1 + 2j) + xp.constant(np.eye(3)))), ((3, 3),), line),
    Case("mixed operands", lambda xp, x, y: xp.real((x + 2j) * y / (y - 1j)), ((3, 2), (2,)), line),
    Case("complex contraction", lambda xp, x, y: xp.abs(xp.einsum("ij,jk->ik", x * 1j, xp.exp(1j * y))), (A, B), line),
    Case("eigenvalues", lambda xp, x: xp.real(xp.linalg.eigensum(x, xp.exp)), ((3, 3),), line, SECOND),
]

CASES = (*ELEMENTARY, *PRODUCTS, *REDUCTIONS, *FOURIER, *LINEAR_ALGEBRA, *FORMS, *REAL_TO_REAL)
