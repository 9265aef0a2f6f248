"""The primitives of linear algebra, one family per file."""

from nacre.ops.linalg import cholesky, triangular

__all__ = ["cholesky", "triangular"]
