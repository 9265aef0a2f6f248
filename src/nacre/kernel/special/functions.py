"""The special functions by name, for every floating-point format."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from nacre.base.dtypes import float32, float64
from nacre.kernel.elementary.value import Real
from nacre.kernel.special.bessel import i0, i0e, i1, i1e
from nacre.kernel.special.beta import betaln
from nacre.kernel.special.beta_incomplete import beta_density, betainc
from nacre.kernel.special.error_inverse import erfcinv, erfinv
from nacre.kernel.special.gamma import digamma, gamma, lgamma
from nacre.kernel.special.gamma_incomplete import (
    gamma_density,
    gammainc,
    gammainc_slope,
    gammaincc,
    implicit_gamma,
)
from nacre.kernel.special.logs import entr, logit, sinc, xlog1py, xlogy
from nacre.kernel.special.normal import erfcx, log_ndtr, ndtr
from nacre.kernel.special.zeta import zeta


def _in_double(f: Callable[..., Real]) -> Callable[..., Real]:
    """f on float32 operands, too: computed in float64 and rounded."""

    def of_any(*xs: Real) -> Real:
        """The function in the operands' dtype."""
        if xs[0].dtype is float64:
            return f(*xs)
        return f(*(x.cast("fpext", float64) for x in xs)).cast("fptrunc", float32)

    return of_any


FUNCTIONS: Final[dict[str, Callable[..., Real]]] = {
    f.__name__: _in_double(f)
    for f in (
        *(lgamma, gamma, digamma, erfinv, erfcinv, erfcx, ndtr, log_ndtr, i0, i0e, i1, i1e, logit, entr, sinc),
        *(zeta, betaln, xlogy, xlog1py, gammainc, gammaincc, gammainc_slope, gamma_density, implicit_gamma),
        *(betainc, beta_density),
    )
}
