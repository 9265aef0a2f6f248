"""Comparisons of elements.  Names follow the array API standard."""

from __future__ import annotations

from nacre.api.elementwise.apply import binary
from nacre.api.operands import (
    TensorLike,
)
from nacre.api.primitives import pointwise
from nacre.api.tensor import Tensor
from nacre.base.dtypes import ANY, ORDERED

__all__ = [
    "equal",
    "greater",
    "greater_equal",
    "less",
    "less_equal",
    "not_equal",
]


def equal(x: TensorLike, y: TensorLike, /) -> Tensor:
    """True where x = y; NaN equals nothing.

    >>> nc.equal([1, 2], 2)
    Tensor([False,  True], bool[2])
    """
    return binary(pointwise.eq, "equal", x, y, ANY)


def not_equal(x: TensorLike, y: TensorLike, /) -> Tensor:
    """True where x ≠ y.

    >>> nc.not_equal([1, 2], 2)
    Tensor([ True, False], bool[2])
    """
    return binary(pointwise.ne, "not_equal", x, y, ANY)


def less(x: TensorLike, y: TensorLike, /) -> Tensor:
    """True where x < y.  Raises DTypeError for complex numbers, which have no order; so do the other three.

    >>> nc.less([1, 2], 2)
    Tensor([ True, False], bool[2])
    """
    return binary(pointwise.lt, "less", x, y, ORDERED)


def less_equal(x: TensorLike, y: TensorLike, /) -> Tensor:
    """True where x ≤ y.

    >>> nc.less_equal([1, 2], 1)
    Tensor([ True, False], bool[2])
    """
    return binary(pointwise.le, "less_equal", x, y, ORDERED)


def greater(x: TensorLike, y: TensorLike, /) -> Tensor:
    """True where x > y.

    >>> nc.greater([1, 2], 1)
    Tensor([False,  True], bool[2])
    """
    return binary(pointwise.gt, "greater", x, y, ORDERED)


def greater_equal(x: TensorLike, y: TensorLike, /) -> Tensor:
    """True where x ≥ y.

    >>> nc.greater_equal([1, 2], 2)
    Tensor([False,  True], bool[2])
    """
    return binary(pointwise.ge, "greater_equal", x, y, ORDERED)
