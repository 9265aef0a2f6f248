"""Eigenvalues and eigenvectors, by NumPy: `eigh` and `eigvalsh` of Hermitian matrices, `eig` and `eigvals` of others.

Of Hermitian matrices only the lower triangle is read.  Derivatives of eigenvectors are infinite where two eigenvalues
are equal.  Those of `eig` do not change the phase of the vectors, so functions must not depend on it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from nacre.base.types import TensorType
from nacre.ops.linalg.least_squares import pseudoinverse
from nacre.ops.linalg.matrices import conjugate_transpose, diagonal, matmul, require_square
from nacre.ops.linalg.numpy_calls import (
    along_rows,
    as_dtype_of,
    computed,
    inverse_differences,
    numpy_primitive,
    real_diagonal,
)
from nacre.ops.parts import conjugate, real
from nacre.ops.pointwise import add, mul, scale, sub
from nacre.ops.shape import sum_
from nacre.trace.bind import bind
from nacre.trace.value import Value

# ---- Hermitian matrices


def eigh(a: Value) -> tuple[Value, Value]:
    """The eigenvalues [..., n] of Hermitian [..., n, n], ascending, and eigenvectors in the columns of [..., n, n]."""
    return bind(eigh_p, a)


def eigvalsh(a: Value) -> Value:
    """The eigenvalues of `eigh` alone."""
    return bind(eigvalsh_p, a)[0]


def _eigh_type(a: TensorType) -> tuple[TensorType, TensorType]:
    return *_eigvalsh_type(a), a


def _eigvalsh_type(a: TensorType) -> tuple[TensorType]:
    require_square("eigh", a)
    return (a.with_shape(a.shape[:-1]).with_dtype(a.dtype.real),)


def _hermitian(a: Value) -> Value:
    return scale(add(a, conjugate_transpose(a)), 0.5)


def _eigh_tangents(ys: Sequence[Value], xs: Sequence[Value], ts: Sequence[Value]) -> tuple[Value, Value]:
    vectors, inner = ys[1], _rotated(ys[1], ts[0])
    turn = mul(inverse_differences(ys[0], inner), inner)
    return real_diagonal(inner), matmul(vectors, turn)


def _eigvalsh_tangents(ys: Sequence[Value], xs: Sequence[Value], ts: Sequence[Value]) -> tuple[Value]:
    return (real_diagonal(_rotated(eigh(xs[0])[1], ts[0])),)


def _rotated(vectors: Value, t: Value) -> Value:
    """A tangent in the basis of the eigenvectors."""
    return matmul(conjugate_transpose(vectors), matmul(_hermitian(t), vectors))


def _numpy_eigh(a: Any) -> tuple[Any, ...]:
    return tuple(computed("eigh", np.linalg.eigh, a, lower=True))


def _numpy_eigvalsh(a: Any) -> tuple[Any]:
    return (computed("eigvalsh", np.linalg.eigvalsh, a, lower=True),)


eigh_p = numpy_primitive("eigh", _eigh_type, _numpy_eigh, _eigh_tangents)
eigvalsh_p = numpy_primitive("eigvalsh", _eigvalsh_type, _numpy_eigvalsh, _eigvalsh_tangents)

# ---- other matrices


def eig(a: Value) -> tuple[Value, Value]:
    """The complex eigenvalues [..., n] of [..., n, n], and the eigenvectors in the columns of [..., n, n]."""
    return bind(eig_p, a)


def eigvals(a: Value) -> Value:
    """The eigenvalues of `eig` alone."""
    return bind(eigvals_p, a)[0]


def _eig_type(a: TensorType) -> tuple[TensorType, TensorType]:
    return *_eigvals_type(a), a if a.dtype.is_complex else a.with_dtype(a.dtype.paired)


def _eigvals_type(a: TensorType) -> tuple[TensorType]:
    require_square("eig", a)
    return (a.with_shape(a.shape[:-1]).with_dtype(a.dtype if a.dtype.is_complex else a.dtype.paired),)


def _eig_tangents(ys: Sequence[Value], xs: Sequence[Value], ts: Sequence[Value]) -> tuple[Value, Value]:
    """The vectors stay of length 1, and the phase of each tangent is that of a rotation alone."""
    values, vectors = ys
    inner = _in_basis(vectors, ts[0])
    free = matmul(vectors, mul(inverse_differences(values, inner), inner))
    along = real(sum_(mul(conjugate(vectors), free), (vectors.type.rank - 2,)))
    return diagonal(inner), sub(free, mul(vectors, along_rows(along, vectors)))


def _eigvals_tangents(ys: Sequence[Value], xs: Sequence[Value], ts: Sequence[Value]) -> tuple[Value]:
    return (diagonal(_in_basis(eig(xs[0])[1], ts[0])),)


def _in_basis(vectors: Value, t: Value) -> Value:
    return matmul(pseudoinverse(vectors, 0.0), matmul(as_dtype_of(t, vectors), vectors))


def _numpy_eig(a: Any) -> tuple[Any, ...]:
    return tuple(computed("eig", np.linalg.eig, a))


def _numpy_eigvals(a: Any) -> tuple[Any]:
    return (computed("eigvals", np.linalg.eigvals, a),)


eig_p = numpy_primitive("eig", _eig_type, _numpy_eig, _eig_tangents)
eigvals_p = numpy_primitive("eigvals", _eigvals_type, _numpy_eigvals, _eigvals_tangents)
