"""The primitives of linear algebra, one family per file."""

from nacre.ops.linalg import cholesky, lu, rows, solve, triangular

__all__ = ["cholesky", "lu", "rows", "solve", "triangular"]
