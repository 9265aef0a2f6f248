"""Linear algebra.  Names follow the array API standard, and NumPy and SciPy where that has none.

Matrices are the last two axes, [..., m, n]; other axes are batch axes.  Factorisations take floating-point numbers, and
compute float16 and bfloat16 in float32.
"""

from nacre.api.linalg.factorisations import cholesky, lu, qr
from nacre.api.linalg.solving import det, inv, slogdet, solve, solve_triangular
from nacre.api.linear_algebra import matmul, matrix_transpose, outer, tensordot, vecdot

__all__ = [
    "cholesky",
    "det",
    "inv",
    "lu",
    "matmul",
    "matrix_transpose",
    "outer",
    "qr",
    "slogdet",
    "solve",
    "solve_triangular",
    "tensordot",
    "vecdot",
]
