"""Eigenvalues, singular values, and what is made of them.  NumPy's LAPACK computes them.

Programs can contain them, but not executables and saved programs.  Their bits are the same in every execution mode of
one machine.  They depend on its LAPACK, so other machines may have others.
"""

from __future__ import annotations

from typing import NamedTuple

from nacre.api.linalg.operands import matrix
from nacre.api.operands import TensorLike, as_tensor
from nacre.api.primitives import matrices
from nacre.api.tensor import Tensor
from nacre.base.arguments import require_flag

__all__ = ["eig", "eigh", "eigvals", "eigvalsh", "svd", "svdvals"]


class EighResult(NamedTuple):
    """The eigenvalues, ascending, and the eigenvectors in the columns of a matrix."""

    eigenvalues: Tensor
    eigenvectors: Tensor


class EigResult(NamedTuple):
    """The complex eigenvalues, and the eigenvectors in the columns of a matrix."""

    eigenvalues: Tensor
    eigenvectors: Tensor


class SVDResult(NamedTuple):
    """The factors of x = U @ diag(S) @ Vh."""

    U: Tensor
    S: Tensor
    Vh: Tensor


def eigh(x: TensorLike, /) -> EighResult:
    """The eigenvalues of symmetric or Hermitian matrices, ascending, and orthonormal eigenvectors in columns.

    Only the lower triangle is read.  Gradients are symmetric; those through the vectors need distinct eigenvalues.
    Raises LinAlgError for a matrix with a NaN or an infinity.

    >>> nc.linalg.eigh([[2.0, 0.0], [0.0, 1.0]]).eigenvalues
    Tensor([1., 2.], f32[2])
    """
    held, dtype = matrix("eigh", x, square=True)
    values, vectors = matrices.eigen.eigh(held)
    return EighResult(as_tensor(values, dtype.real), as_tensor(vectors, dtype))


def eigvalsh(x: TensorLike, /) -> Tensor:
    """The eigenvalues of symmetric or Hermitian matrices, ascending; see `eigh`.

    >>> nc.linalg.eigvalsh([[2.0, 0.0], [0.0, 1.0]])
    Tensor([1., 2.], f32[2])
    """
    held, dtype = matrix("eigvalsh", x, square=True)
    return as_tensor(matrices.eigen.eigvalsh(held), dtype.real)


def eig(x: TensorLike, /) -> EigResult:
    """The eigenvalues of square matrices, and eigenvectors of length 1 in columns; both are always complex.

    Gradients through the vectors need distinct eigenvalues, and functions that do not depend on the vectors' phases.
    Raises LinAlgError for a matrix with a NaN or an infinity.

    >>> nc.linalg.eig([[2.0, 0.0], [0.0, 1.0]]).eigenvalues
    Tensor([2.+0.j, 1.+0.j], c64[2])
    """
    held, _ = matrix("eig", x, square=True)
    return EigResult(*matrices.eigen.eig(held))


def eigvals(x: TensorLike, /) -> Tensor:
    """The eigenvalues of square matrices, always complex; see `eig`.

    >>> nc.linalg.eigvals([[0.0, -1.0], [1.0, 0.0]])
    Tensor([0.+1.j, 0.-1.j], c64[2])
    """
    held, _ = matrix("eigvals", x, square=True)
    return matrices.eigen.eigvals(held)


def svd(x: TensorLike, /, *, full_matrices: bool = True) -> SVDResult:
    """U, S and Vh with x = U @ diag(S) @ Vh: orthonormal columns, descending values of at least 0, orthonormal rows.

    For [..., m, n] there are k = min(m, n) singular values.  U has m columns and Vh n rows, or k of each without
    `full_matrices`.  Gradients through U and Vh need distinct singular values, and with `full_matrices` m = n.

    >>> nc.linalg.svd([[3.0, 0.0], [0.0, 2.0]]).S
    Tensor([3., 2.], f32[2])
    """
    require_flag(full_matrices, "svd")
    held, dtype = matrix("svd", x)
    u, s, vh = matrices.singular.svd(held, full_matrices)
    return SVDResult(as_tensor(u, dtype), as_tensor(s, dtype.real), as_tensor(vh, dtype))


def svdvals(x: TensorLike, /) -> Tensor:
    """The singular values of matrices, descending; see `svd`.

    >>> nc.linalg.svdvals([[3.0, 0.0], [0.0, 2.0]])
    Tensor([3., 2.], f32[2])
    """
    held, dtype = matrix("svdvals", x)
    return as_tensor(matrices.singular.svdvals(held), dtype.real)
