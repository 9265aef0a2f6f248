"""Linear systems, inverses and determinants."""

from __future__ import annotations

from typing import Any, NamedTuple

from nacre.api.elementwise import arithmetic
from nacre.api.linalg.operands import matrix, pair, require_matrices, require_no_zero, right_sides, shared
from nacre.api.operands import TensorLike, as_tensor, spread
from nacre.api.primitives import matrices, pointwise, reduce
from nacre.api.tensor import Tensor
from nacre.base.arguments import require_flag

__all__ = ["det", "inv", "slogdet", "solve", "solve_triangular"]

INVERTIBLE = "matrices must be invertible"


class SlogdetResult(NamedTuple):
    """The sign of determinants, and the logarithm of their absolute values."""

    sign: Tensor
    logabsdet: Tensor


def solve(x1: TensorLike, x2: TensorLike, /) -> Tensor:
    """The solution x of x1 @ x = x2, for [..., n, n] and [..., n, k], or one vector [n].

    Batch axes broadcast.  Raises LinAlgError for a singular matrix, also in compiled code.

    >>> nc.linalg.solve([[2.0, 0.0], [1.0, 1.0]], [2.0, 3.0])
    Tensor([1., 2.], f32[2])
    """
    a, b, dtype = pair("solve", x1, x2)
    require_matrices("solve", a, square=True)
    factors, own = _factors("solve", a), len(a.type.shape) - 2
    a, b, restored = right_sides("solve", a, b)
    batch = a.type.shape[:-2]
    found = matrices.lu.LU(*[spread(t, (*batch, *t.type.shape[own:])) for t in factors])
    return as_tensor(restored(matrices.solve.lu_solve(a, found, b)), dtype)


def _factors(operation: str, a: Any) -> Any:
    """The factors of invertible matrices."""
    found = matrices.solve.constant_factors(a)
    require_no_zero(operation, shared.diagonal(found.factors), INVERTIBLE)
    return found


def solve_triangular(
    a: TensorLike, b: TensorLike, /, *, upper: bool = False, left: bool = True, unit_diagonal: bool = False
) -> Tensor:
    """The solution x of a @ x = b, where a is its lower (upper) triangle; of x @ a = b if not `left`.

    The other triangle is not read, nor the diagonal with `unit_diagonal`.  A vector b is a column, or a row if not
    `left`.  Raises LinAlgError if an element of the diagonal is 0.

    >>> nc.linalg.solve_triangular([[2.0, 0.0], [1.0, 1.0]], [2.0, 3.0])
    Tensor([1., 2.], f32[2])
    """
    for flag in (upper, left, unit_diagonal):
        require_flag(flag, "solve_triangular")
    x, y, dtype = pair("solve_triangular", a, b)
    require_matrices("solve_triangular", x, square=True)
    if not unit_diagonal:
        require_no_zero("solve_triangular", shared.diagonal(x), "the diagonal of a must have no zeros")
    if not left:
        x, upper = shared.matrix_transpose(x), not upper
        y = shared.matrix_transpose(y) if len(y.type.shape) > 1 else y
    x, y, restored = right_sides("solve_triangular", x, y)
    found = restored(matrices.triangular.triangular_solve(x, y, not upper, unit_diagonal))
    if not left and len(found.type.shape) > 1:
        found = shared.matrix_transpose(found)
    return as_tensor(found, dtype)


def inv(x: TensorLike, /) -> Tensor:
    """The inverse of square matrices.  Raises LinAlgError for a singular matrix, also in compiled code.

    To solve a system, `solve` is faster and more accurate.

    >>> nc.linalg.inv([[2.0, 0.0], [0.0, 4.0]])
    Tensor([[0.5 , 0.  ],
            [0.  , 0.25]], f32[2, 2])
    """
    held, dtype = matrix("inv", x, square=True)
    return as_tensor(matrices.solve.lu_solve(held, _factors("inv", held), shared.identity(held.type)), dtype)


def det(x: TensorLike, /) -> Tensor:
    """The determinant of square matrices; it is 1 for a matrix without rows.

    The gradient is the matrix of cofactors, also for singular matrices: its rank is 1 for matrices of rank n - 1,
    and it is 0 for lower ranks.  Second derivatives exist for matrices that are not singular; at others they are NaN.

    >>> nc.linalg.det([[1.0, 2.0], [4.0, 4.0]])
    Tensor(-4., f32[])
    """
    held, dtype = matrix("det", x, square=True)
    return as_tensor(matrices.determinant.lu_det(held, matrices.solve.constant_factors(held)), dtype)


def slogdet(x: TensorLike, /) -> SlogdetResult:
    """The sign of the determinant of square matrices, and the logarithm of its absolute value.

    The sign of a complex determinant is the complex number of length 1 in its direction.  A singular matrix has the
    sign 0 and the logarithm -inf, and no derivative: gradients are NaN.

    >>> nc.linalg.slogdet([[0.0, 1.0], [1.0, 0.0]])
    SlogdetResult(sign=Tensor(-1., f32[]), logabsdet=Tensor(0., f32[]))
    """
    held, dtype = matrix("slogdet", x, square=True)
    found = matrices.lu.lu(held)
    diagonal = shared.diagonal(found.factors)
    last = (len(diagonal.type.shape) - 1,)
    product, exchanges = reduce.prod(arithmetic.sign(diagonal), last), found.exchanges
    sign = pointwise.mul(product, matrices.determinant.parity(exchanges, product))
    size = reduce.sum_(pointwise.log(arithmetic.abs(diagonal)), last)
    return SlogdetResult(as_tensor(sign, dtype), as_tensor(size, dtype.real))
