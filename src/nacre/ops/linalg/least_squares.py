"""`pseudoinverse` and `least_squares`, by NumPy: singular values of at most a fraction of the largest one count as 0.

Derivatives are those of matrices of constant rank (G. Golub and V. Pereyra, SIAM J. Numer. Anal. 10 (1973)).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from nacre.base.dtypes import int64
from nacre.base.errors import ArgumentError
from nacre.base.types import TensorType
from nacre.ops.linalg.matrices import conjugate_transpose, matmul, require_matrix
from nacre.ops.linalg.numpy_calls import computed, numpy_primitive, real_diagonal
from nacre.ops.linalg.singular import svd
from nacre.ops.pointwise import add, sub
from nacre.ops.rules import require_dtype, require_shape
from nacre.trace.bind import bind
from nacre.trace.value import Value


def pseudoinverse(a: Value, cutoff: float) -> Value:
    """The Moore–Penrose inverse [..., n, m] of [..., m, n]."""
    return bind(pinv_p, a, cutoff=cutoff)[0]


def _pinv_type(a: TensorType, cutoff: float) -> tuple[TensorType]:
    require_matrix("pinv", a)
    _require_fraction("pinv", cutoff)
    return (a.with_shape((*a.shape[:-2], a.shape[-1], a.shape[-2])),)


def _require_fraction(operation: str, cutoff: float) -> None:
    if not 0 <= cutoff <= 1:
        raise ArgumentError(f"{operation}: the cutoff must be in [0, 1]; got {cutoff}")


def _numpy_pinv(a: Any, cutoff: float) -> tuple[Any]:
    return (computed("pinv", np.linalg.pinv, a, rcond=cutoff),)


def _pinv_tangents(ys: Sequence[Value], xs: Sequence[Value], ts: Sequence[Value], cutoff: float) -> tuple[Value]:
    """-p t p + p pᴴ tᴴ (1 - a p) + (1 - p a) tᴴ pᴴ p."""
    (p,), (a,), (t,) = ys, xs, ts
    adjoint, other = conjugate_transpose(t), conjugate_transpose(p)
    low = matmul(p, matmul(other, adjoint))
    high = matmul(adjoint, matmul(other, p))
    first = sub(sub(low, matmul(matmul(low, a), p)), matmul(p, matmul(t, p)))
    return (add(first, sub(high, matmul(p, matmul(a, high)))),)


pinv_p = numpy_primitive("pinv", _pinv_type, _numpy_pinv, _pinv_tangents)


# ---- least squares


def least_squares(a: Value, b: Value, cutoff: float) -> tuple[Value, Value, Value]:
    """The x [..., n, k] of least length with the least |b - a x|, the ranks [...] of a, and its singular values.

    a is [..., m, n] and b [..., m, k], with equal batch axes.
    """
    return bind(lstsq_p, a, b, cutoff=cutoff)


def _lstsq_type(a: TensorType, b: TensorType, cutoff: float) -> tuple[TensorType, TensorType, TensorType]:
    require_matrix("lstsq", a)
    require_matrix("lstsq", b)
    _require_fraction("lstsq", cutoff)
    require_dtype("lstsq", "b", b, a.dtype)
    require_shape("lstsq", "b", b.shape[:-1], a.shape[:-1])
    batch, columns = a.shape[:-2], a.shape[-1]
    values = a.with_shape((*batch, min(map(int, a.shape[-2:])))).with_dtype(a.dtype.real)
    return b.with_shape((*batch, columns, b.shape[-1])), a.with_shape(batch).with_dtype(int64), values


def _numpy_lstsq(a: Any, b: Any, cutoff: float) -> tuple[Any, ...]:
    """The results of each matrix, because NumPy's function has no batches."""
    (rows, columns), batch = a.shape[-2:], a.shape[:-2]
    x = np.empty((*batch, columns, b.shape[-1]), a.dtype)
    rank, values = np.empty(batch, np.int64), np.empty((*batch, min(rows, columns)), a.real.dtype)
    for at in np.ndindex(batch):
        x[at], _, rank[at], values[at] = computed("lstsq", np.linalg.lstsq, a[at], b[at], rcond=cutoff)
    return x, rank, values


def _lstsq_tangents(
    ys: Sequence[Value], xs: Sequence[Value], ts: Sequence[Value | None], cutoff: float
) -> tuple[Value, None, Value | None]:
    """p u for the tangent u of b; for t of a also -p t x + p pᴴ tᴴ (b - a x) + (1 - p a) tᴴ pᴴ x."""
    (a, b), (t, u), x = xs, ts, ys[0]
    p = pseudoinverse(a, cutoff)
    by_right = None if u is None else matmul(p, u)
    if t is None:
        assert by_right is not None
        return by_right, None, None
    adjoint, other = conjugate_transpose(t), conjugate_transpose(p)
    inside = matmul(p, matmul(other, matmul(adjoint, sub(b, matmul(a, x)))))
    outside = matmul(adjoint, matmul(other, x))
    by_matrix = sub(inside, matmul(p, matmul(t, x)))
    by_matrix = add(by_matrix, sub(outside, matmul(p, matmul(a, outside))))
    left, _, right = svd(a)
    values = real_diagonal(matmul(conjugate_transpose(left), matmul(t, conjugate_transpose(right))))
    return by_matrix if by_right is None else add(by_matrix, by_right), None, values


lstsq_p = numpy_primitive("lstsq", _lstsq_type, _numpy_lstsq, _lstsq_tangents)
