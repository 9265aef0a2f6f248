"""Linear algebra.  Names follow the array API standard, and NumPy and SciPy where that has none.

Matrices are the last two axes, [..., m, n]; other axes are batch axes.  Factorisations take floating-point numbers, and
compute float16 and bfloat16 in float32.
"""

from nacre.api.linalg.decompositions import eig, eigh, eigvals, eigvalsh, svd, svdvals
from nacre.api.linalg.factorisations import cholesky, lu, qr
from nacre.api.linalg.functions import expm, matrix_power, multi_dot
from nacre.api.linalg.norms import matrix_norm, norm, vector_norm
from nacre.api.linalg.products import cross, diagonal, trace
from nacre.api.linalg.ranks import cond, lstsq, matrix_rank, pinv
from nacre.api.linalg.solving import det, inv, slogdet, solve, solve_triangular
from nacre.api.linear_algebra import matmul, matrix_transpose, outer, tensordot, vecdot
from nacre.base.boundary import publish_all

__all__ = [
    "cholesky",
    "cond",
    "cross",
    "det",
    "diagonal",
    "eig",
    "eigh",
    "eigvals",
    "eigvalsh",
    "expm",
    "inv",
    "lstsq",
    "lu",
    "matmul",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "matrix_transpose",
    "multi_dot",
    "norm",
    "outer",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "solve_triangular",
    "svd",
    "svdvals",
    "tensordot",
    "trace",
    "vecdot",
    "vector_norm",
]


def __dir__() -> list[str]:
    return __all__


publish_all(__name__, __all__)
