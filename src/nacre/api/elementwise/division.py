"""Remainders of truncating division, and extremes that leave out NaN.  Names follow NumPy and C."""

from __future__ import annotations

from typing import Any

from nacre.api.elementwise.apply import binary
from nacre.api.operands import TensorLike
from nacre.api.primitives import pointwise
from nacre.api.tensor import Tensor
from nacre.base.dtypes import ORDERED, REAL

__all__ = ["fmax", "fmin", "fmod"]


def fmod(x: TensorLike, y: TensorLike, /) -> Tensor:
    """x − y·trunc(x / y), exactly.  The result has the sign of x, as C's `fmod`; `remainder` has that of y.

    The remainder of integers by zero is 0, and of floats NaN; the remainder by an infinity is x.

    >>> nc.fmod([7, -7], 3)
    Tensor([ 1, -1], i64[2])
    """
    return binary(pointwise.rem, "fmod", x, y, REAL)


def fmax(x: TensorLike, y: TensorLike, /) -> Tensor:
    """The larger of x and y; the other one where one is NaN.

    >>> nc.fmax([1.0, nc.nan], 0.5)
    Tensor([1. , 0.5], f32[2])
    """
    return binary(_larger, "fmax", x, y, ORDERED)


def fmin(x: TensorLike, y: TensorLike, /) -> Tensor:
    """The smaller of x and y; the other one where one is NaN.

    >>> nc.fmin([1.0, nc.nan], 0.5)
    Tensor([0.5, 0.5], f32[2])
    """
    return binary(_smaller, "fmin", x, y, ORDERED)


def _larger(x: Any, y: Any) -> Any:
    return _of_numbers(pointwise.maximum, x, y)


def _smaller(x: Any, y: Any) -> Any:
    return _of_numbers(pointwise.minimum, x, y)


def _of_numbers(op: Any, x: Any, y: Any) -> Any:
    if not x.type.dtype.is_float:
        return op(x, y)
    found = pointwise.select(pointwise.isnan(y), x, op(x, y))
    return pointwise.select(pointwise.isnan(x), y, found)
