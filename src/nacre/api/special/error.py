"""The inverses of the error function, its scaled complement, and the normal distribution."""

from __future__ import annotations

from functools import partial
from math import sqrt
from typing import Any

from nacre.api.elementwise.apply import of_float
from nacre.api.operands import TensorLike, filled, in_double
from nacre.api.primitives import pointwise, special
from nacre.api.tensor import Tensor
from nacre.base.dtypes import FLOATING


def erfinv(x: TensorLike, /) -> Tensor:
    """The inverse of erf: ±∞ at ±1, NaN beyond.

    >>> nc.special.erfinv(0.5)
    Tensor(0.47693628, f32[])
    """
    return of_float(special.erfinv, "special.erfinv", x, FLOATING)


def erfcinv(x: TensorLike, /) -> Tensor:
    """The inverse of erfc, accurate near 0: +∞ at 0, −∞ at 2, NaN beyond.

    >>> nc.special.erfcinv(1e-20)
    Tensor(6.6015806, f32[])
    """
    return of_float(special.erfcinv, "special.erfcinv", x, FLOATING)


def erfcx(x: TensorLike, /) -> Tensor:
    """exp(x²) erfc(x), which does not underflow.

    >>> nc.special.erfcx(100.0)
    Tensor(0.00564161, f32[])
    """
    return of_float(special.erfcx, "special.erfcx", x, FLOATING)


def ndtr(x: TensorLike, /) -> Tensor:
    """The probability that a normally distributed number is at most x.

    >>> nc.special.ndtr(-1.0)
    Tensor(0.15865526, f32[])
    """
    return of_float(special.ndtr, "special.ndtr", x, FLOATING)


def log_ndtr(x: TensorLike, /) -> Tensor:
    """The logarithm of `ndtr`, accurate for all x.

    >>> nc.special.log_ndtr(-100.0)
    Tensor(-5005.5244, f32[])
    """
    return of_float(special.log_ndtr, "special.log_ndtr", x, FLOATING)


def ndtri(x: TensorLike, /) -> Tensor:
    """The inverse of `ndtr`, the quantile of the normal distribution: −∞ at 0, +∞ at 1, NaN beyond.

    >>> nc.special.ndtri(0.975)
    Tensor(1.9599644, f32[])
    """
    return of_float(partial(in_double, _quantile), "special.ndtri", x, FLOATING)


def _quantile(p: Any) -> Any:
    """−√2 erfc⁻¹(2p)."""
    z = special.erfcinv(pointwise.mul(p, filled(p, 2.0)))
    return pointwise.sub(filled(z, 0.0), pointwise.mul(z, filled(z, sqrt(2.0))))  # 0 at ½, not −0
