"""What the decompositions that NumPy computes share: their primitives, and checks of their matrices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from nacre.base.errors import LinAlgError
from nacre.ir.primitive import Host, Jvp, Primitive
from nacre.ops.linalg.matrices import conjugate_transpose, diagonal, identity, matmul, matrix_sizes
from nacre.ops.parts import from_real, real
from nacre.ops.pointwise import add, reciprocal, sub
from nacre.ops.shape import all_to_front, broadcast
from nacre.trace.bind import bind
from nacre.trace.value import Value

Array = Any


def numpy_primitive(
    name: str, type_rule: Callable[..., Any], function: Callable[..., tuple[Array, ...]], tangents: Callable[..., Any]
) -> Primitive:
    """A primitive that NumPy computes for matrices with leading batch axes."""

    def batch(inputs: Sequence[Value], axes: Sequence[int | None], **params: Any) -> tuple[Any, Any]:
        """The batch is one more leading axis."""
        found = bind(primitive, *all_to_front(inputs, axes), **params)
        return found, (0,) * len(found)

    primitive = Primitive(name, type_rule, Host(function), Jvp(tangents), batch, multiple=True, numbers=matrix_sizes)
    return primitive


def computed(
    operation: str, function: Callable[..., Any], *matrices: Array, lower: bool = False, **settings: Any
) -> Any:
    """The result of a function of NumPy on finite matrices; its errors in Nacre's words.

    With `lower`, the function reads lower triangles alone, so that only these must be finite.
    """
    for x in matrices:
        if not np.isfinite(x).all() and not (lower and np.isfinite(np.tril(x)).all()):
            raise LinAlgError(f"{operation}: matrices must be finite; got one with a NaN or an infinity")
    try:
        return function(*matrices, **settings)
    except np.linalg.LinAlgError as fault:
        raise LinAlgError(f"{operation}: LAPACK must find a result; got {str(fault)!r}; scale the matrix") from None


# ---- matrices, real or complex


def real_diagonal(x: Value) -> Value:
    """The real parts of the diagonals."""
    found = diagonal(x)
    return real(found) if found.type.dtype.is_complex else found


def as_dtype_of(x: Value, like: Value) -> Value:
    """Real numbers x as complex ones, if `like` is complex."""
    return from_real(x) if like.type.dtype.is_complex and not x.type.dtype.is_complex else x


def along_rows(x: Value, like: Value) -> Value:
    """Vectors [..., n] as the rows of matrices: element j in column j."""
    rank = like.type.rank
    return as_dtype_of(broadcast(x, like.type.shape, (*range(rank - 2), rank - 1)), like)


def along_columns(x: Value, like: Value) -> Value:
    """Vectors [..., m] as the columns of matrices: element i in row i."""
    return as_dtype_of(broadcast(x, like.type.shape, tuple(range(like.type.rank - 1))), like)


def inverse_differences(x: Value, like: Value) -> Value:
    """1 / (x[j] - x[i]), and 0 on the diagonal; infinite where two elements are equal."""
    one = identity(like.type)
    difference = sub(along_rows(x, like), along_columns(x, like))
    return sub(reciprocal(add(difference, one)), one)


def projected(x: Value, onto: Value) -> Value:
    """The part of the columns of x that is orthogonal to orthonormal columns."""
    return sub(x, matmul(onto, matmul(conjugate_transpose(onto), x)))
