"""The primitives of linear algebra, one family per file."""

from nacre.ops.linalg import cholesky, householder, lu, qr, rows, solve, triangular

__all__ = ["cholesky", "householder", "lu", "qr", "rows", "solve", "triangular"]
