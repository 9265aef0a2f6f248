"""What singular values decide: pseudoinverses, least squares, ranks and condition numbers.

Singular values of at most `rtol` times the largest one count as 0.  By default `rtol` is the larger of both sizes of
the matrix, times the distance from 1 to the next number of its dtype.
"""

from __future__ import annotations

from math import inf
from typing import Any, NamedTuple

import numpy as np

from nacre.api import statistical, utility
from nacre.api.elementwise import arithmetic, comparison
from nacre.api.linalg.decompositions import svd, svdvals
from nacre.api.linalg.norms import matrix_norm
from nacre.api.linalg.operands import matrix, pair, require_matrices, right_sides, shared
from nacre.api.linalg.solving import inv
from nacre.api.operands import TensorLike, as_tensor
from nacre.api.primitives import matrices, pointwise, view
from nacre.api.searching import where
from nacre.api.tensor import Tensor
from nacre.base.arguments import is_number, shown
from nacre.base.dtypes import int64
from nacre.base.errors import ArgumentError, LinAlgError

__all__ = ["cond", "lstsq", "matrix_rank", "pinv"]


class LstsqResult(NamedTuple):
    """The solution of least squares, sums of squared residuals, and the ranks and singular values of the matrices."""

    solution: Tensor
    residuals: Tensor
    rank: Tensor
    singular_values: Tensor


def pinv(x: TensorLike, /, *, rtol: float | TensorLike | None = None) -> Tensor:
    """The Moore–Penrose inverse of matrices: [..., n, m] for [..., m, n].

    Singular values of at most `rtol` times the largest one count as 0; a tensor of shape [...] has one number for each
    matrix.  Gradients are those at a constant rank.

    >>> nc.linalg.pinv([[2.0, 0.0], [0.0, 0.0]])
    Tensor([[0.5, 0. ],
            [0. , 0. ]], f32[2, 2])
    """
    held, dtype = matrix("pinv", x)
    if _is_batch(rtol):
        return as_tensor(_inverse_by_parts(held, as_tensor(rtol)), dtype)
    return as_tensor(matrices.least_squares.pseudoinverse(held, _cutoff("pinv", held, rtol)), dtype)


def lstsq(x1: TensorLike, x2: TensorLike, /, *, rtol: float | None = None, rcond: float | None = None) -> LstsqResult:
    """The solution x with the least |x2 - x1 @ x|, for [..., m, n] and [..., m, k], or one vector [m].

    Of several solutions it is the shortest.  The residuals are those of each column, also where NumPy leaves them out,
    and one number for a vector, for which NumPy has an axis of size 1.
    Batch axes broadcast.  Gradients are those at a constant rank.  `rcond` is another name of `rtol`, as in NumPy and
    PyTorch.

    >>> nc.linalg.lstsq([[1.0, 0.0], [0.0, 2.0], [0.0, 0.0]], [3.0, 4.0, 5.0]).solution
    Tensor([3., 2.], f32[2])
    """
    if rcond is not None:
        if rtol is not None:
            raise ArgumentError(f"lstsq: rtol and rcond are one setting; got {rtol} and {rcond}; leave out rcond")
        rtol = rcond
    a, b, dtype = pair("lstsq", x1, x2)
    require_matrices("lstsq", a, square=False)
    a, b, restored = right_sides("lstsq", a, b)
    x, rank, values = matrices.least_squares.least_squares(a, b, _cutoff("lstsq", a, rtol))
    missed = arithmetic.square(arithmetic.abs(pointwise.sub(b, shared.matmul(a, x))))
    solution, residuals = as_tensor(restored(x), dtype), statistical.sum(restored(missed), len(a.type.shape) - 2)
    return LstsqResult(solution, as_tensor(residuals, dtype.real), rank, as_tensor(values, dtype.real))


def matrix_rank(x: TensorLike, /, *, rtol: float | TensorLike | None = None) -> Tensor:
    """The number of singular values of matrices that are greater than `rtol` times the largest one.

    A tensor of shape [...] has one `rtol` for each matrix [..., m, n].

    >>> nc.linalg.matrix_rank([[1.0, 1.0], [1.0, 1.0]])
    Tensor(1, i64[])
    """
    held, _ = matrix("matrix_rank", x)
    values: Any = svdvals(held)
    if not values.type.shape[-1]:
        return statistical.sum(as_tensor(values, int64), -1)
    part: Any = as_tensor(rtol)[..., None] if _is_batch(rtol) else _cutoff("matrix_rank", held, rtol)
    return statistical.sum(as_tensor(_counts(values, part), int64), -1)


def cond(x: TensorLike, p: float | str | None = None, /) -> Tensor:
    """The condition number of matrices: the norm of x times that of its inverse.

    p is an order of `matrix_norm`.  2 (or None) and -2 are quotients of singular values, also of matrices that are not
    square; that of zeros is infinite.  With the others, that of a singular matrix is infinite.

    >>> nc.linalg.cond([[2.0, 0.0], [0.0, 1.0]])
    Tensor(2., f32[])
    """
    held, dtype = matrix("cond", x, square=p not in (None, 2, -2))
    if 0 in held.type.shape[-2:]:
        raise LinAlgError(f"cond: matrices must have elements; got shape {list(held.type.shape)}")
    if p in (None, 2, -2):
        values: Any = svdvals(held)
        largest, smallest = values[..., 0], values[..., -1]
        quotient = arithmetic.divide(smallest, largest) if p == -2 else arithmetic.divide(largest, smallest)
        found = where(comparison.equal(largest, 0.0), inf, quotient)
    else:
        assert p is not None
        zeros = comparison.equal(shared.diagonal(matrices.lu.lu(held).factors), 0.0)
        singular = utility.any(zeros, axis=-1)
        wide = view.broadcast(singular, held.type.shape, tuple(range(len(held.type.shape) - 2)))
        regular = where(wide, shared.identity(held.type), held)
        found = arithmetic.multiply(matrix_norm(held, ord=p), matrix_norm(inv(regular), ord=p))
        found = where(singular, inf, found)
    return as_tensor(found, dtype.real)


def _is_batch(rtol: Any) -> bool:
    """Whether `rtol` has a number for each matrix."""
    return isinstance(rtol, list | tuple) or len(getattr(rtol, "shape", ())) > 0


def _counts(values: Any, part: Any) -> Any:
    """Which singular values are greater than a part of the largest one."""
    return comparison.greater(values, arithmetic.multiply(statistical.max(values, axis=-1, keepdims=True), part))


def _inverse_by_parts(x: Any, rtol: Any) -> Any:
    """The pseudoinverse from singular values, of which those up to a part of the largest one count as 0."""
    u, values, vh = svd(x, full_matrices=False)
    left, right = (shared.conjugate_transpose(v) for v in (vh, u))
    if not values.type.shape[-1]:
        return shared.matmul(left, right)
    counts = _counts(values, as_tensor(rtol, values.type.dtype)[..., None])
    inverses: Any = where(counts, arithmetic.reciprocal(where(counts, values, 1.0)), 0.0)
    return arithmetic.multiply(left, inverses[..., None, :]) @ right


def _cutoff(operation: str, x: Any, rtol: Any) -> float:
    """`rtol`, or its default for matrices."""
    if rtol is None:
        return min(1.0, max(map(int, x.type.shape[-2:])) * float(np.finfo(x.type.dtype.numpy).eps))
    if isinstance(rtol, bool) or not is_number(rtol) or not 0 <= float(rtol) < inf:
        raise ArgumentError(f"{operation}: rtol must be a number of at least 0; got {shown(rtol)}")
    return min(float(rtol), 1.0)
