"""Functions made of logarithms: entropies, logit, x log y; and sinc."""

from __future__ import annotations

from math import inf
from typing import Any

from nacre.api.elementwise.apply import binary, of_float, of_tensors, require
from nacre.api.operands import TensorLike, filled, in_single, is_half, operands
from nacre.api.primitives import pointwise, special
from nacre.api.tensor import Tensor
from nacre.base.dtypes import FLOATING


def entr(x: TensorLike, /) -> Tensor:
    """−x log x, an entropy: 0 at 0, −∞ below.

    >>> nc.special.entr(0.5)
    Tensor(0.3465736, f32[])
    """
    return of_float(special.entr, "special.entr", x, FLOATING)


def logit(x: TensorLike, /) -> Tensor:
    """log(x / (1 − x)), the inverse of `expit`: ∓∞ at 0 and 1, NaN beyond.

    >>> nc.special.logit(0.75)
    Tensor(1.0986123, f32[])
    """
    return of_float(special.logit, "special.logit", x, FLOATING)


def sinc(x: TensorLike, /) -> Tensor:
    """sin(πx) / (πx), and 1 at 0, as in NumPy.

    >>> nc.special.sinc(0.5)
    Tensor(0.63661975, f32[])
    """
    return of_float(special.sinc, "special.sinc", x, FLOATING)


def xlogy(x: TensorLike, y: TensorLike, /) -> Tensor:
    """x log y, and 0 for x = 0 unless y is NaN.

    The derivative by x at x = y = 0 is 0.

    >>> nc.special.xlogy(0.0, 0.0)
    Tensor(0., f32[])
    """
    return binary(special.xlogy, "special.xlogy", x, y, FLOATING)


def xlog1py(x: TensorLike, y: TensorLike, /) -> Tensor:
    """x log(1 + y), accurate for small y, and 0 for x = 0 unless y is NaN.

    >>> nc.special.xlog1py(2.0, 1e-10)
    Tensor(2.e-10, f32[])
    """
    return binary(special.xlog1py, "special.xlog1py", x, y, FLOATING)


def rel_entr(x: TensorLike, y: TensorLike, /) -> Tensor:
    """x log(x / y), an element of the relative entropy: 0 for x = 0 ≤ y, +∞ for other numbers that are not positive.

    >>> nc.special.rel_entr(1.0, 2.0)
    Tensor(-0.6931472, f32[])
    """
    return of_tensors("special.rel_entr", _rel_entr, (x, y))


def kl_div(x: TensorLike, y: TensorLike, /) -> Tensor:
    """x log(x / y) − x + y, an element of Kullback and Leibler's divergence; +∞ outside x ≥ 0, y > 0 and x = y = 0.

    `nacre.nn.functional.kl_div` is a loss, with PyTorch's arguments.

    >>> nc.special.kl_div(1.0, 2.0)
    Tensor(0.30685282, f32[])
    """
    return of_tensors("special.kl_div", _kl_div, (x, y))


def _rel_entr(x: TensorLike, y: TensorLike) -> Any:
    a, b = operands("special.rel_entr", x, y)
    require("special.rel_entr", a.type.dtype, FLOATING)
    if is_half(a):
        return in_single(_rel_entr, a, b)
    zero, one = filled(a, 0.0), filled(a, 1.0)
    positive = pointwise.and_(pointwise.gt(a, zero), pointwise.gt(b, zero))
    p, q = pointwise.select(positive, a, one), pointwise.select(positive, b, one)
    product = pointwise.mul(p, pointwise.log(pointwise.div(p, q)))
    at_zero = pointwise.and_(pointwise.eq(a, zero), pointwise.ge(b, zero))
    rest = pointwise.select(at_zero, zero, filled(a, inf))
    unknown = pointwise.or_(pointwise.isnan(a), pointwise.isnan(b))
    return pointwise.select(positive, product, pointwise.select(unknown, pointwise.add(a, b), rest))


def _kl_div(x: TensorLike, y: TensorLike) -> Any:
    a, b = operands("special.kl_div", x, y)
    if is_half(a):
        return in_single(_kl_div, a, b)
    return pointwise.add(_rel_entr(a, b), pointwise.sub(b, a))
