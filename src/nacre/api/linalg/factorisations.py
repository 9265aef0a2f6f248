"""Factorisations of matrices: Cholesky, LU and QR."""

from __future__ import annotations

from typing import NamedTuple

from nacre.api.linalg.operands import matrix, shared
from nacre.api.operands import TensorLike, as_tensor, require_inside
from nacre.api.primitives import matrices
from nacre.api.tensor import Tensor
from nacre.base.arguments import require_flag
from nacre.base.errors import ArgumentError, LinAlgError

__all__ = ["cholesky", "lu", "qr"]


class LUResult(NamedTuple):
    """The factors of x = P @ L @ U."""

    P: Tensor
    L: Tensor
    U: Tensor


class QRResult(NamedTuple):
    """The factors of x = Q @ R."""

    Q: Tensor
    R: Tensor


def cholesky(x: TensorLike, /, *, upper: bool = False) -> Tensor:
    """The triangle L with L @ L.mH = x, for Hermitian matrices that are positive definite; or U with U.mH @ U = x.

    Real matrices must be symmetric.  Only the lower triangle of x is read, with `upper` only the upper one, and the
    real parts of the diagonal.  Gradients are Hermitian.  Raises LinAlgError, also in compiled code, for a matrix that
    is not positive definite.

    >>> nc.linalg.cholesky([[4.0, 2.0], [2.0, 5.0]])
    Tensor([[2., 0.],
            [1., 2.]], f32[2, 2])
    """
    require_flag(upper, "cholesky")
    held, dtype = matrix("cholesky", x, square=True)
    found, fault = matrices.cholesky.cholesky(shared.conjugate_transpose(held) if upper else held)
    require_inside(
        fault,
        0,
        1,
        LinAlgError,
        "cholesky: matrices must be positive definite; got one whose leading minor of {got} rows is not positive; "
        "add a multiple of the identity",
    )
    return as_tensor(shared.conjugate_transpose(found) if upper else found, dtype)


def lu(x: TensorLike, /) -> LUResult:
    """P, L and U with x = P @ L @ U: a permutation, a lower triangle with ones on its diagonal, and an upper triangle.

    For [..., m, n] the triangles have min(m, n) columns and rows.  Singular matrices have factors, too.

    >>> nc.linalg.lu([[1.0, 2.0], [2.0, 2.0]]).U
    Tensor([[2., 2.],
            [0., 1.]], f32[2, 2])
    """
    held, dtype = matrix("lu", x)
    found = matrices.lu.lu(held)
    rows, columns = map(int, held.type.shape[-2:])
    least = min(rows, columns)
    lower = shared.block(matrices.lu.lower_factor(found.factors), (0, rows), (0, least))
    upper = shared.triangle(shared.block(found.factors, (0, least), (0, columns)), False)
    square = held.type.with_shape((*held.type.shape[:-1], rows))
    permutation = matrices.rows.permute_rows(shared.identity(square), found.order, True)
    return LUResult(*(as_tensor(t, dtype) for t in (permutation, lower, upper)))


def qr(x: TensorLike, /, *, mode: str = "reduced") -> QRResult:
    """Q with orthonormal columns and the upper triangle R with x = Q @ R, by Householder reflections.

    For [..., m, n], Q has min(m, n) columns, or m with the mode "complete".  Elements on the diagonal of R are
    real, and may be negative.  The derivative exists for linearly independent columns, and for "complete" only if
    m ≤ n.

    >>> nc.linalg.qr([[3.0, 0.0], [4.0, 5.0]]).R
    Tensor([[-5., -4.],
            [ 0.,  3.]], f32[2, 2])
    """
    if mode not in ("reduced", "complete"):
        raise ArgumentError(f"qr: mode must be 'reduced' or 'complete'; got {mode!r}")
    held, dtype = matrix("qr", x)
    found = matrices.qr.qr(held, mode == "complete")
    return QRResult(*(as_tensor(t, dtype) for t in found))
