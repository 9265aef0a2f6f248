"""The real functions whose derivatives are compared: mathematics, indexing, sorting, loops; f(names, *operands)."""

from __future__ import annotations

from typing import Any

import numpy as np

from peers.cases import Case, conditioned, interval, line, named, normal

Array = Any
A, B = (3, 4), (4, 2)
SQUARE = ((4, 4),)
ROWS = np.array([0, 2, 0])
PLACES = np.array([[3, 0, 1], [2, 2, 0]])
well_conditioned = conditioned(normal)

ELEMENTARY = [
    *named("exp", "log1p", "expm1", "exp2", "sqrt", "log", "log2", "log10", "asin", "acos", "rsqrt", "reciprocal",
           "square", "atanh", draw=interval),
    Case("acosh", lambda xp, x: xp.acosh(1 + x), draw=interval),
    *named("sin", "cos", "tan", "atan", "sinh", "cosh", "tanh", "asinh", "erf", "erfc", "sigmoid", "abs", draw=line),
    Case("pow", lambda xp, x, y: x**y, (A, (4,)), interval),
    Case("pow by an integer", lambda xp, x: x**3 + x**-2, draw=line),
    Case("divide", lambda xp, x, y: x / y + 1 / x, (A, (4,)), line),
    Case("hypot, atan2", lambda xp, x, y: xp.hypot(x, y) * xp.atan2(x, y), (A, A), line),
    Case("logaddexp", lambda xp, x, y: xp.logaddexp(x, y), (A, (4,)), normal),
    Case("maximum, minimum", lambda xp, x, y: xp.maximum(x, y) * xp.minimum(x, y * y), (A, A), normal),
    Case("clip", lambda xp, x: xp.clip(x, -0.7, 0.7) ** 2, draw=normal),
    Case("remainder", lambda xp, x, y: xp.remainder(5 * x, y) ** 2, (A, A), line),
    Case("where with a safe operand", lambda xp, x: xp.where(x > 0, xp.sqrt(xp.where(x > 0, x, 1.0)), x * x),
         draw=line),
]  # fmt: skip

PRODUCTS = [
    Case("matmul", lambda xp, a, b: a @ b, (A, B), normal),
    Case("matmul of batches", lambda xp, a, b: a @ b, ((2, *A), B), normal),
    Case("matmul by its transpose", lambda xp, a: a @ a.T, (A,), normal),
    Case("einsum", lambda xp, a, b: xp.einsum("bij,jk,bk->bi", a, b, a[:, 0, :2]), ((2, *A), B), normal),
    Case("einsum of three factors", lambda xp, a, b, c: xp.einsum("ij,jk,kl->li", a, b, c), (A, B, (2, 3)), normal),
    Case("tensordot", lambda xp, a, b: xp.tensordot(a, b, **{xp.axes: 1}), ((2, *A), B), normal),
    Case("outer", lambda xp, a, b: xp.outer(a, b), ((3,), (2,)), normal),
]

REDUCTIONS = [
    *named("sum", "mean", "prod", "cumsum", "cumprod", "cummax", "logcumsumexp", draw=normal),
    Case("prod along an axis", lambda xp, x: xp.prod(x, axis=1), (A,), normal),
    Case("prod with a zero", lambda xp, x: xp.prod(x * xp.constant([1.0, 0.0, 1.0]), axis=0), ((3,),), line),
    Case("maximum along an axis", lambda xp, x: xp.amax(x, axis=1) ** 2, (A,), normal),
    Case("minimum along an axis", lambda xp, x: xp.amin(x, axis=0) ** 2, (A,), normal),
    Case("var", lambda xp, x: xp.var(x, axis=1, correction=1), (A,), normal),
    Case("std", lambda xp, x: xp.std(x, axis=0, correction=0), (A,), normal),
    Case("logsumexp", lambda xp, x: xp.logsumexp(x, 1), (A,), normal),
    Case("logsumexp over two axes", lambda xp, x: xp.logsumexp(x, (0, 2)), ((2, *A),), normal),
    *(Case(f"vector_norm {ord}", lambda xp, x, ord=ord: xp.linalg.vector_norm(x, ord=ord), (A,), normal)
      for ord in (1, 2, 3, 0.5, float("inf"))),
    *(Case(f"matrix_norm {ord}", lambda xp, x, ord=ord: xp.linalg.matrix_norm(x, ord=ord), SQUARE, well_conditioned)
      for ord in ("fro", "nuc", 2, -2, 1, float("inf"))),
]  # fmt: skip

FOURIER = [
    Case("rfft, by its power", lambda xp, x: xp.abs(xp.fft.rfft(x)) ** 2, ((7,),), normal),
    Case("fft and back", lambda xp, x: xp.real(xp.fft.ifft(xp.fft.fft(x) ** 2)), (A,), normal),
    Case("rfft and irfft", lambda xp, x, h: xp.fft.irfft(xp.fft.rfft(x) * xp.fft.rfft(h), 8), ((8,), (8,)), normal),
    Case("fft2, two parts", lambda xp, x: xp.real(xp.fft.fft2(x)) * xp.imag(xp.fft.fft2(x * x)), ((4, 5),), normal),
    Case("complex exponential", lambda xp, x: xp.real(xp.exp(1j * x) / (1 + 2j * x)), draw=line),
    Case("modulus of a determinant", lambda xp, x: xp.abs(xp.linalg.det(x * (1 + 2j) + xp.constant(np.eye(3)))),
         ((3, 3),), normal),
]  # fmt: skip


def symmetric(x: Array) -> Array:
    return (x + x.T) / 2


def positive(xp: Any, x: Array) -> Array:
    return x @ x.T + xp.constant(np.eye(x.shape[0]))


def spectrum(xp: Any, x: Array) -> Array:
    """A function of a symmetric matrix by its eigenvalues: no eigenvector's sign is in it."""
    w, v = xp.linalg.eigh(symmetric(x))
    return (v * xp.exp(w / 4)) @ v.T


def qr_parts(xp: Any, x: Array) -> Any:
    """What of a QR factorisation does not depend on the signs of the columns."""
    q, r = xp.linalg.qr(x)
    return xp.abs(r), q @ q.T


def left_vectors(xp: Any, x: Array) -> Array:
    u, s, _ = xp.linalg.svd(x)
    return (u * xp.sqrt(s)) @ u.T


def log_likelihood(xp: Any, x: Array, y: Array) -> Array:
    """The logarithm of a Gaussian density, by a Cholesky factor and a triangular solve."""
    factor = xp.linalg.cholesky(positive(xp, x))
    white = xp.solve_triangular(factor, y)
    return -xp.sum(white**2) / 2 - xp.sum(xp.log(xp.linalg.diagonal(factor)))


LINEAR_ALGEBRA = [
    Case("solve", lambda xp, a, b: xp.linalg.solve(a, b), ((3, 3), (3, 2)), well_conditioned),
    Case("solve for a vector", lambda xp, a, b: xp.linalg.solve(positive(xp, a), b[:, 0]), ((3, 3), (3, 1)), normal),
    Case("solve_triangular", lambda xp, a, b: xp.solve_triangular(a, b), ((3, 3), (3, 2)), well_conditioned),
    Case("cholesky", lambda xp, a: xp.linalg.cholesky(positive(xp, a)), SQUARE, normal),
    Case("density by cholesky", log_likelihood, ((3, 3), (3, 2)), normal),
    Case("qr", qr_parts, SQUARE, well_conditioned),
    Case("qr of a tall matrix", qr_parts, ((5, 3),), normal),
    Case("inv", lambda xp, a: xp.linalg.inv(a), SQUARE, well_conditioned),
    Case("inv of batches", lambda xp, a: xp.linalg.inv(a), ((2, 3, 3),), well_conditioned),
    Case("det", lambda xp, a: xp.linalg.det(a), SQUARE, well_conditioned),
    Case("slogdet", lambda xp, a: xp.linalg.slogdet(a)[1], SQUARE, well_conditioned),
    Case("svdvals", lambda xp, a: xp.linalg.svd(a)[1], ((4, 3),), well_conditioned),
    Case("svd, a function of the left vectors", left_vectors, ((3, 3),), well_conditioned),
    Case("eigh", lambda xp, a: xp.linalg.eigh(symmetric(a))[0], SQUARE, well_conditioned),
    Case("eigvalsh", lambda xp, a: xp.linalg.eigvalsh(symmetric(a)), SQUARE, well_conditioned),
    Case("function of a symmetric matrix", spectrum, SQUARE, well_conditioned),
    Case("expm", lambda xp, a: xp.linalg.expm(a), SQUARE, line),
    Case("matrix_power", lambda xp, a: xp.linalg.matrix_power(a, 5) / 100 + xp.linalg.matrix_power(a, -2), ((3, 3),),
         well_conditioned),
    Case("pinv of a tall matrix", lambda xp, a: xp.linalg.pinv(a), ((5, 3),), normal),
    Case("trace", lambda xp, a: xp.linalg.trace(a @ a), SQUARE, normal),
]  # fmt: skip

INDEXING = [
    Case("index", lambda xp, x: x[1] * x[:, 1][0], (A,), normal),
    Case("slice with steps", lambda xp, x: x[::2, 1:] ** 2, (A,), normal),
    Case("index by an array", lambda xp, x: x[ROWS] * x[1], (A,), normal),
    Case("index by two arrays", lambda xp, x: x[ROWS, ROWS] ** 2, (A,), normal),
    Case("take", lambda xp, x: xp.take(x, xp.constant(ROWS), axis=0) ** 2, (A,), normal),
    Case("take_along_axis", lambda xp, x: xp.take_along_axis(x, xp.constant(PLACES), axis=1) ** 2, ((2, 4),), normal),
    Case("a mask by where", lambda xp, x: xp.where(x > 0.2, x**3, 0.5 * x), (A,), normal),
    Case("a sum under a mask", lambda xp, x: xp.sum(xp.where(x > 0, x * x, 0.0), axis=1), (A,), normal),
    Case("index_update of a row", lambda xp, x, y: xp.index_update(x * x, 1, y * x[0]), (A, (4,)), normal),
    Case("index_update by an array", lambda xp, x, y: xp.index_update(x, xp.constant(np.array([2, 0])), y * y),
         (A, (2, 4)), normal),
    Case("index_update of a slice", lambda xp, x, y: xp.index_update(x**3, (slice(None), slice(1, 3)), y), (A, (3, 2)),
         normal),
    Case("concat, stack", lambda xp, x, y: xp.stack((xp.concat((x, y)), xp.concat((y * y, x)))), ((2, 3), (2, 3)),
         normal),
    Case("reshape, transpose", lambda xp, x: (x.T * x[0, 0]).reshape((2, 6)) * x.reshape((2, 6)), (A,), normal),
    Case("flip, roll", lambda xp, x: xp.flip(x) * xp.roll(x, 1), (A,), normal),
    Case("tril, triu", lambda xp, x: xp.tril(x) @ xp.triu(x), SQUARE, normal),
]  # fmt: skip


def by_order(xp: Any, x: Array) -> Array:
    return xp.take_along_axis(x * x, xp.argsort(x, -1), axis=-1)


WEIGHTS = np.array([3.0, 2.0, 1.0])
SORTING = [
    Case("sort", lambda xp, x: xp.sort(x, axis=-1) ** 2, (A,), normal),
    Case("sort along the first axis", lambda xp, x: xp.sort(x, axis=0) ** 2, (A,), normal),
    Case("argsort and take_along_axis", by_order, (A,), normal),
    Case("topk", lambda xp, x: xp.topk(x, 3)[0] ** 2 * xp.constant(WEIGHTS), ((2, 5),), normal),
    Case("median of five", lambda xp, x: xp.sort(x, axis=-1)[:, 2] ** 2, ((2, 5),), normal),
]


def recurrent(xp: Any, h: Array, xs: Array, w: Array) -> tuple[Array, Array]:
    def step(h: Array, x: Array) -> tuple[Array, Array]:
        h = xp.tanh(h @ w + x)
        return h, h * h

    return xp.scan(step, h, xs)


def newton(xp: Any, a: Array) -> Array:
    """A square root by as many steps as it takes."""
    return xp.while_loop(lambda x: xp.sum((x * x - a) ** 2) > 1e-3, lambda x: (x + a / x) / 2, a + 1.0, 20)


def branches(xp: Any, x: Array, y: Array) -> Array:
    return xp.choose(xp.sum(x) > xp.sum(y), lambda x, y: x * x * y, lambda x, y: xp.sin(x) / y, x, y)


LOOPS = [
    Case("scan", recurrent, ((2,), (4, 2), (2, 2)), normal),
    Case("fori_loop", lambda xp, x, w: xp.fori_loop(0, 3, lambda i, h: xp.sin(w @ h), x), ((3,), (3, 3)), normal),
    Case("while_loop", newton, ((3,),), interval),
    Case("cond", branches, ((3,), (3,)), line),
    Case("cond, the other way", lambda xp, x, y: branches(xp, y, x), ((3,), (3,)), line),
    Case("map", lambda xp, x: xp.map(lambda row: xp.exp(row) / xp.sum(xp.exp(row)), x), (A,), normal),
    Case("associative_scan", lambda xp, a, b: xp.linear_recurrence(a, b), ((6, 2), (6, 2)), normal),
    Case("checkpoint", lambda xp, x: xp.checkpoint(lambda x: xp.tanh(xp.sin(x) @ x.T))(x), (A,), normal),
]

CASES = (*ELEMENTARY, *PRODUCTS, *REDUCTIONS, *FOURIER, *LINEAR_ALGEBRA, *INDEXING, *SORTING, *LOOPS)
