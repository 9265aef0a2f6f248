"""The incomplete gamma and beta functions, which are distribution functions of probabilities."""

from __future__ import annotations

from typing import Any

from nacre.api.elementwise.apply import binary, of_tensors, require
from nacre.api.operands import TensorLike, operands
from nacre.api.primitives import special
from nacre.api.tensor import Tensor
from nacre.base.dtypes import FLOATING


def gammainc(a: TensorLike, x: TensorLike, /) -> Tensor:
    """The regularised lower incomplete gamma function P(a, x), from 0 at x = 0 to 1; NaN for negative numbers.

    It has derivatives by both operands; a second one by a raises GradientError.  Its least results are as accurate as
    its greatest ones.

    >>> nc.special.gammainc(2.0, 3.0)
    Tensor(0.8008517, f32[])
    """
    return binary(special.gammainc, "special.gammainc", a, x, FLOATING)


def gammaincc(a: TensorLike, x: TensorLike, /) -> Tensor:
    """The regularised upper incomplete gamma function Q(a, x) = 1 − P(a, x), without the cancellation.

    >>> nc.special.gammaincc(2.0, 30.0)
    Tensor(2.9008631e-12, f32[])
    """
    return binary(special.gammaincc, "special.gammaincc", a, x, FLOATING)


def betainc(a: TensorLike, b: TensorLike, x: TensorLike, /) -> Tensor:
    """The regularised incomplete beta function of a, b > 0, from 0 at x = 0 to 1 at x = 1; NaN beyond.

    The derivative is by x only; one by a or b raises GradientError.

    >>> nc.special.betainc(2.0, 3.0, 0.5)
    Tensor(0.6875, f32[])
    """
    return of_tensors("special.betainc", _betainc, (a, b, x))


def _betainc(a: TensorLike, b: TensorLike, x: TensorLike) -> Any:
    p, q, t = operands("special.betainc", a, b, x)
    require("special.betainc", p.type.dtype, FLOATING)
    return special.betainc(p, q, t)
