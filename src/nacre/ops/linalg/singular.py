"""`svd` and `svdvals`: singular values and vectors, by NumPy.

Derivatives of singular vectors are infinite where two singular values are equal.  Those of complex vectors leave one
phase of each pair of vectors free, so functions must not depend on it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from nacre.base.errors import GradientError
from nacre.base.types import TensorType
from nacre.ops.linalg.matrices import conjugate_transpose, identity, matmul, require_matrix
from nacre.ops.linalg.numpy_calls import (
    along_columns,
    along_rows,
    computed,
    inverse_differences,
    numpy_primitive,
    projected,
    real_diagonal,
)
from nacre.ops.pointwise import add, div, mul, scale, sub
from nacre.trace.bind import bind
from nacre.trace.value import Value


def svd(a: Value, full: bool = False) -> tuple[Value, Value, Value]:
    """u [..., m, k], s [..., k], vh [..., k, n] for [..., m, n], k = min(m, n); u and vh are square if `full`."""
    return bind(svd_p, a, full=full)


def svdvals(a: Value) -> Value:
    """The singular values of `svd` alone."""
    return bind(svdvals_p, a)[0]


def _type(a: TensorType, full: bool) -> tuple[TensorType, TensorType, TensorType]:
    (values,), (rows, columns) = _values_type(a), map(int, a.shape[-2:])
    batch, least = a.shape[:-2], min(rows, columns)
    left, right = (rows, rows if full else least), (columns if full else least, columns)
    return a.with_shape((*batch, *left)), values, a.with_shape((*batch, *right))


def _values_type(a: TensorType) -> tuple[TensorType]:
    require_matrix("svd", a)
    return (a.with_shape((*a.shape[:-2], min(map(int, a.shape[-2:])))).with_dtype(a.dtype.real),)


def _numpy_svd(a: Any, full: bool) -> tuple[Any, ...]:
    return tuple(computed("svd", np.linalg.svd, a, full_matrices=full))


def _numpy_svdvals(a: Any) -> tuple[Any]:
    return (computed("svdvals", np.linalg.svd, a, compute_uv=False),)


def _tangents(ys: Sequence[Value], xs: Sequence[Value], ts: Sequence[Value], full: bool) -> tuple[Value, Value, Value]:
    (u, s, vh), (t,) = ys, ts
    rows, columns = map(int, t.type.shape[-2:])
    if full and rows != columns:
        raise GradientError(
            f"svd: full matrices of {rows} rows and {columns} columns have no derivative, because their last columns "
            "are arbitrary; use full_matrices=False"
        )
    v = conjugate_transpose(vh)
    inner = matmul(conjugate_transpose(u), matmul(t, v))
    over = inverse_differences(mul(s, s), inner)
    right, left = mul(inner, along_rows(s, inner)), mul(along_columns(s, inner), inner)
    turn = mul(over, add(right, conjugate_transpose(right)))
    if inner.type.dtype.is_complex:
        turn = add(turn, _phases(inner, s))
    du, dv = matmul(u, turn), matmul(v, mul(over, add(left, conjugate_transpose(left))))
    if rows > columns:
        outside = projected(matmul(t, v), u)
        du = add(du, div(outside, along_rows(s, outside)))
    if columns > rows:
        outside = projected(matmul(conjugate_transpose(t), u), v)
        dv = add(dv, div(outside, along_rows(s, outside)))
    return du, real_diagonal(inner), conjugate_transpose(dv)


def _phases(inner: Value, s: Value) -> Value:
    """The turn of the left vectors' phases: the imaginary diagonal, divided by the singular values."""
    odd = scale(sub(inner, conjugate_transpose(inner)), 0.5)
    return div(mul(odd, identity(inner.type)), along_rows(s, inner))


def _values_tangents(ys: Sequence[Value], xs: Sequence[Value], ts: Sequence[Value]) -> tuple[Value]:
    u, _, vh = svd(xs[0])
    return (real_diagonal(matmul(conjugate_transpose(u), matmul(ts[0], conjugate_transpose(vh)))),)


svd_p = numpy_primitive("svd", _type, _numpy_svd, _tangents)
svdvals_p = numpy_primitive("svdvals", _values_type, _numpy_svdvals, _values_tangents)
