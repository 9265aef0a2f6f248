"""The primitives of linear algebra, one family per file."""

from nacre.ops.linalg import (
    cholesky,
    determinant,
    eigen,
    householder,
    least_squares,
    lu,
    matrices,
    qr,
    rows,
    singular,
    solve,
    triangular,
)

__all__ = [
    "cholesky",
    "determinant",
    "eigen",
    "householder",
    "least_squares",
    "lu",
    "matrices",
    "qr",
    "rows",
    "singular",
    "solve",
    "triangular",
]
