"""Special functions.  Names follow `scipy.special`; PyTorch and JAX have most of them under the same names.

Operands broadcast.  Float32 and shorter formats are computed in float64 and rounded.  All functions have derivatives of
every order, in jit and batches too, where a docstring does not say otherwise.
"""

from nacre.api.elementwise.transcendental import erf, erfc, exp2, expm1, log1p, sigmoid
from nacre.api.special.bessel import i0, i0e, i1, i1e
from nacre.api.special.error import erfcinv, erfcx, erfinv, log_ndtr, ndtr, ndtri
from nacre.api.special.gamma import beta, betaln, digamma, gamma, gammaln, multigammaln, polygamma, zeta
from nacre.api.special.incomplete import betainc, gammainc, gammaincc
from nacre.api.special.logs import entr, kl_div, logit, rel_entr, sinc, xlog1py, xlogy
from nacre.api.statistical import logsumexp
from nacre.base.boundary import publish_all

__all__ = [
    "beta",
    "betainc",
    "betaln",
    "digamma",
    "entr",
    "erf",
    "erfc",
    "erfcinv",
    "erfcx",
    "erfinv",
    "exp2",
    "expit",
    "expm1",
    "gamma",
    "gammainc",
    "gammaincc",
    "gammaln",
    "i0",
    "i0e",
    "i1",
    "i1e",
    "kl_div",
    "lgamma",
    "log1p",
    "log_ndtr",
    "logit",
    "logsumexp",
    "multigammaln",
    "ndtr",
    "ndtri",
    "polygamma",
    "psi",
    "rel_entr",
    "sinc",
    "xlog1py",
    "xlogy",
    "zeta",
]


_OTHER_NAMES = ("expit", "lgamma", "psi")


def __dir__() -> list[str]:
    return __all__


publish_all(__name__, [name for name in __all__ if name not in _OTHER_NAMES])
expit, lgamma, psi = sigmoid, gammaln, digamma
