"""Modified Bessel functions of the first kind."""

from __future__ import annotations

from nacre.api.elementwise.apply import of_float
from nacre.api.operands import TensorLike
from nacre.api.primitives import special
from nacre.api.tensor import Tensor
from nacre.base.dtypes import FLOATING


def i0(x: TensorLike, /) -> Tensor:
    """The modified Bessel function of order 0.

    >>> nc.special.i0(1.0)
    Tensor(1.2660658, f32[])
    """
    return of_float(special.i0, "special.i0", x, FLOATING)


def i0e(x: TensorLike, /) -> Tensor:
    """exp(−|x|) times the modified Bessel function of order 0, which does not overflow.

    >>> nc.special.i0e(100.0)
    Tensor(0.03994438, f32[])
    """
    return of_float(special.i0e, "special.i0e", x, FLOATING)


def i1(x: TensorLike, /) -> Tensor:
    """The modified Bessel function of order 1.

    >>> nc.special.i1(1.0)
    Tensor(0.5651591, f32[])
    """
    return of_float(special.i1, "special.i1", x, FLOATING)


def i1e(x: TensorLike, /) -> Tensor:
    """exp(−|x|) times the modified Bessel function of order 1, which does not overflow.

    >>> nc.special.i1e(100.0)
    Tensor(0.03974415, f32[])
    """
    return of_float(special.i1e, "special.i1e", x, FLOATING)
