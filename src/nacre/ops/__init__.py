"""The primitives, one family in each file.  Importing the package registers them by name.

The families in `LATE` are imported when one of their functions or names is first used, because few programs need them.
"""

from typing import Final

from nacre.ir.primitive import Lowering, Primitive, declare_late, registered
from nacre.ops import (
    check,
    control,
    convolution,
    dot,
    gather,
    host,
    identity,
    index,
    pointwise,
    random,
    reduce,
    rules,
    search,
    shape,
    sort,
    view,
    window,
)

__all__ = [
    "LATE",
    "OWN",
    "check",
    "control",
    "convolution",
    "dot",
    "gather",
    "host",
    "identity",
    "index",
    "pointwise",
    "random",
    "reduce",
    "rules",
    "search",
    "shape",
    "sort",
    "view",
    "window",
]

# primitives that the package defines, with their lowerings; only programs of these are cached between processes
OWN: dict[Primitive, Lowering] = {
    p: p.lowering
    for p in registered().values()
    if all(
        getattr(rule, "__module__", "").startswith("nacre.")
        for rule in (p.type_rule, getattr(p.lowering, "rule", p.type_rule))
    )
}

LATE: Final = {  # the names of the primitives that each module defines
    "nacre.ops.fft": "fft irfft rfft",
    "nacre.ops.linalg.cholesky": "cholesky",
    "nacre.ops.linalg.determinant": "lu_cofactors lu_det",
    "nacre.ops.linalg.eigen": "eig eigh eigvals eigvalsh",
    "nacre.ops.linalg.householder": "householder",
    "nacre.ops.linalg.least_squares": "lstsq pinv",
    "nacre.ops.linalg.lu": "lu",
    "nacre.ops.linalg.qr": "qr",
    "nacre.ops.linalg.rows": "permute_rows",
    "nacre.ops.linalg.singular": "svd svdvals",
    "nacre.ops.linalg.solve": "lu_solve",
    "nacre.ops.linalg.triangular": "triangular_solve",
    "nacre.ops.special": "beta_density betainc betaln digamma entr erfcinv erfcx erfinv gamma gamma_density gammainc "
    "gammainc_slope gammaincc i0 i0e i1 i1e implicit_gamma lgamma log_ndtr logit ndtr sinc xlog1py xlogy zeta",
    "nacre.ops.special.drawn": "drawn",
}
declare_late(LATE, OWN)
