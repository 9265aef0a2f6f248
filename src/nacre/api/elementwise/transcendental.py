"""Elementary functions: roots, exponentials, logarithms, circular and hyperbolic functions, erf.

Names follow the array API standard.  Those of complex numbers have C99's branch cuts and special values (Annex G): on
a cut, the sign of a zero says on which side the number is.
"""

from __future__ import annotations

from typing import Any

from nacre.api.elementwise.apply import binary, of_float, require
from nacre.api.elementwise.one_program import one_program
from nacre.api.operands import (
    TensorLike,
    filled,
    in_single,
    is_half,
    operands,
)
from nacre.api.primitives import pointwise
from nacre.api.tensor import Tensor
from nacre.base.dtypes import FLOATING
from nacre.ops.identity import detach

__all__ = [
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "cbrt",
    "copysign",
    "cos",
    "cosh",
    "erf",
    "erfc",
    "exp",
    "exp2",
    "expm1",
    "hypot",
    "log",
    "log1p",
    "log2",
    "log10",
    "logaddexp",
    "rsqrt",
    "sigmoid",
    "sin",
    "sinh",
    "sqrt",
    "tan",
    "tanh",
]


def sqrt(x: TensorLike, /) -> Tensor:
    """√x; NaN below zero.

    >>> nc.sqrt(2.25)
    Tensor(1.5, f32[])
    """
    return of_float(pointwise.sqrt, "sqrt", x)


def rsqrt(x: TensorLike, /) -> Tensor:
    """1/√x.

    >>> nc.rsqrt(4.0)
    Tensor(0.5, f32[])
    """
    return of_float(pointwise.rsqrt, "rsqrt", x)


def exp(x: TensorLike, /) -> Tensor:
    """eˣ.

    >>> nc.exp(0.0)
    Tensor(1., f32[])
    """
    return of_float(pointwise.exp, "exp", x)


def exp2(x: TensorLike, /) -> Tensor:
    """2ˣ.

    >>> nc.exp2(3.0)
    Tensor(8., f32[])
    """
    return of_float(pointwise.exp2, "exp2", x)


def expm1(x: TensorLike, /) -> Tensor:
    """eˣ − 1, accurate near zero.

    >>> nc.expm1(1e-10)
    Tensor(1.e-10, f32[])
    """
    return of_float(pointwise.expm1, "expm1", x)


def log(x: TensorLike, /) -> Tensor:
    """The natural logarithm; −inf at zero, NaN below.

    >>> nc.log(1.0)
    Tensor(0., f32[])
    """
    return of_float(pointwise.log, "log", x)


def log2(x: TensorLike, /) -> Tensor:
    """The logarithm to base 2.

    >>> nc.log2(8.0)
    Tensor(3., f32[])
    """
    return of_float(pointwise.log2, "log2", x)


def log10(x: TensorLike, /) -> Tensor:
    """The logarithm to base 10.

    >>> nc.log10(1.0)
    Tensor(0., f32[])
    """
    return of_float(pointwise.log10, "log10", x)


def log1p(x: TensorLike, /) -> Tensor:
    """log(1 + x), accurate near zero.

    >>> nc.log1p(1e-10)
    Tensor(1.e-10, f32[])
    """
    return of_float(pointwise.log1p, "log1p", x)


def sin(x: TensorLike, /) -> Tensor:
    """The sine of x radians.

    >>> nc.sin(0.0)
    Tensor(0., f32[])
    """
    return of_float(pointwise.sin, "sin", x)


def cos(x: TensorLike, /) -> Tensor:
    """The cosine of x radians.

    >>> nc.cos(0.0)
    Tensor(1., f32[])
    """
    return of_float(pointwise.cos, "cos", x)


def tan(x: TensorLike, /) -> Tensor:
    """The tangent of x radians.

    >>> nc.tan(0.0)
    Tensor(0., f32[])
    """
    return of_float(pointwise.tan, "tan", x)


def asin(x: TensorLike, /) -> Tensor:
    """The angle in [−π/2, π/2] whose sine is x.

    >>> nc.asin(0.0)
    Tensor(0., f32[])
    """
    return of_float(pointwise.asin, "asin", x)


def acos(x: TensorLike, /) -> Tensor:
    """The angle in [0, π] whose cosine is x.

    >>> nc.acos(1.0)
    Tensor(0., f32[])
    """
    return of_float(pointwise.acos, "acos", x)


def atan(x: TensorLike, /) -> Tensor:
    """The angle in [−π/2, π/2] whose tangent is x.

    >>> nc.atan(0.0)
    Tensor(0., f32[])
    """
    return of_float(pointwise.atan, "atan", x)


def sinh(x: TensorLike, /) -> Tensor:
    """The hyperbolic sine.

    >>> nc.sinh(0.0)
    Tensor(0., f32[])
    """
    return of_float(pointwise.sinh, "sinh", x)


def cosh(x: TensorLike, /) -> Tensor:
    """The hyperbolic cosine.

    >>> nc.cosh(0.0)
    Tensor(1., f32[])
    """
    return of_float(pointwise.cosh, "cosh", x)


def tanh(x: TensorLike, /) -> Tensor:
    """The hyperbolic tangent.

    >>> nc.tanh(0.0)
    Tensor(0., f32[])
    """
    return of_float(pointwise.tanh, "tanh", x)


def asinh(x: TensorLike, /) -> Tensor:
    """The inverse of sinh.

    >>> nc.asinh(0.0)
    Tensor(0., f32[])
    """
    return of_float(pointwise.asinh, "asinh", x)


def acosh(x: TensorLike, /) -> Tensor:
    """The inverse of cosh; NaN below one.

    >>> nc.acosh(1.0)
    Tensor(0., f32[])
    """
    return of_float(pointwise.acosh, "acosh", x)


def atanh(x: TensorLike, /) -> Tensor:
    """The inverse of tanh.

    >>> nc.atanh(0.0)
    Tensor(0., f32[])
    """
    return of_float(pointwise.atanh, "atanh", x)


def erf(x: TensorLike, /) -> Tensor:
    """The error function, 2/√π ∫₀ˣ exp(−t²) dt.

    >>> nc.erf(0.0)
    Tensor(0., f32[])
    """
    return of_float(pointwise.erf, "erf", x, FLOATING)


def erfc(x: TensorLike, /) -> Tensor:
    """1 − erf(x), accurate for large x.

    >>> nc.erfc(0.0)
    Tensor(1., f32[])
    """
    return of_float(pointwise.erfc, "erfc", x, FLOATING)


def cbrt(x: TensorLike, /) -> Tensor:
    """The cube root.

    >>> nc.cbrt(8.0)
    Tensor(2., f32[])
    """
    return of_float(pointwise.cbrt, "cbrt", x, FLOATING)


def sigmoid(x: TensorLike, /) -> Tensor:
    """1 / (1 + e⁻ˣ).

    >>> nc.sigmoid(0.0)
    Tensor(0.5, f32[])
    """
    return of_float(pointwise.sigmoid, "sigmoid", x, FLOATING)


def atan2(y: TensorLike, x: TensorLike, /) -> Tensor:
    """The angle of the point (x, y), in [−π, π].

    >>> nc.atan2(0.0, 1.0)
    Tensor(0., f32[])
    """
    return binary(pointwise.atan2, "atan2", y, x, FLOATING)


def copysign(x: TensorLike, y: TensorLike, /) -> Tensor:
    """|x| with the sign of y.

    >>> nc.copysign(2.0, -0.0)
    Tensor(-2., f32[])
    """
    return binary(pointwise.copysign, "copysign", x, y, FLOATING)


@one_program(2)
def hypot(x: TensorLike, y: TensorLike, /) -> Tensor:
    """√(x² + y²) without intermediate overflow.

    >>> nc.hypot(3.0, 4.0)
    Tensor(5., f32[])
    """
    a, b = operands("hypot", x, y)
    require("hypot", a.type.dtype, FLOATING)
    if is_half(a):
        return in_single(hypot, a, b)
    zero, one = filled(a, 0.0), filled(a, 1.0)
    a, b = pointwise.copysign(a, one), pointwise.copysign(b, one)  # |a| and |b|, with a derivative at 0 too
    high, low = _ordered(a, b)
    ratio = pointwise.div(low, pointwise.select(pointwise.eq(high, zero), one, high))
    length = pointwise.mul(high, pointwise.sqrt(pointwise.fma(ratio, ratio, one)))
    length = pointwise.select(pointwise.eq(high, zero), detach(length), length)
    infinite = pointwise.or_(pointwise.isinf(a), pointwise.isinf(b))
    return pointwise.select(infinite, filled(a, float("inf")), length)


@one_program(2)
def logaddexp(x: TensorLike, y: TensorLike, /) -> Tensor:
    """log(eˣ + eʸ) without intermediate overflow.

    >>> nc.logaddexp(0.0, 0.0)
    Tensor(0.6931472, f32[])
    """
    a, b = operands("logaddexp", x, y)
    require("logaddexp", a.type.dtype, FLOATING)
    if is_half(a):
        return in_single(logaddexp, a, b)
    high, low = _ordered(a, b)
    same = pointwise.and_(pointwise.isinf(a), pointwise.eq(a, b))
    gap = pointwise.select(same, filled(a, 0.0), pointwise.sub(low, high))
    return pointwise.add(high, pointwise.log1p(pointwise.exp(gap)))


def _ordered(a: Any, b: Any) -> tuple[Any, Any]:
    """The greater and the smaller number.  Equal numbers stay separate, so that second derivatives are right."""
    less = pointwise.lt(a, b)
    return pointwise.select(less, b, a), pointwise.select(less, a, b)
