"""Logic, operations on bits, and tests of numbers.  Names follow the array API standard."""

from __future__ import annotations

import math
from typing import Any

from nacre.api.data_types import finfo
from nacre.api.elementwise.apply import binary, require, unary
from nacre.api.elementwise.one_program import one_program
from nacre.api.operands import (
    TensorLike,
    as_tensor,
    constant,
    distinct,
    filled,
    spread,
)
from nacre.api.primitives import pointwise
from nacre.api.searching import where
from nacre.api.tensor import Tensor
from nacre.base.dtypes import BITWISE, BOOLEAN, FLOATING, INTEGRAL, NUMERIC, REAL, bool_

__all__ = [
    "bitwise_and",
    "bitwise_invert",
    "bitwise_left_shift",
    "bitwise_or",
    "bitwise_right_shift",
    "bitwise_xor",
    "isfinite",
    "isinf",
    "isnan",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "nan_to_num",
    "signbit",
]


def _test(op: Any, operation: str, x: TensorLike, integers: bool) -> Any:
    held = as_tensor(x)
    if held.type.dtype.is_inexact:
        return op(held)
    require(operation, held.type.dtype, NUMERIC)
    return spread(constant(integers, bool_), held.type.shape)


@one_program()
def isnan(x: TensorLike, /) -> Tensor:
    """True where x is NaN.

    >>> nc.isnan([1.0, float("nan")])
    Tensor([False,  True], bool[2])
    """
    return _test(pointwise.isnan, "isnan", x, integers=False)


@one_program()
def isinf(x: TensorLike, /) -> Tensor:
    """True where x is infinite.

    >>> nc.isinf([1.0, float("inf")])
    Tensor([False,  True], bool[2])
    """
    return _test(pointwise.isinf, "isinf", x, integers=False)


@one_program()
def isfinite(x: TensorLike, /) -> Tensor:
    """True where x is neither infinite nor NaN.

    >>> nc.isfinite([1.0, float("inf")])
    Tensor([ True, False], bool[2])
    """
    return _test(pointwise.isfinite, "isfinite", x, integers=True)


def signbit(x: TensorLike, /) -> Tensor:
    """True where the sign bit is set, −0 included.

    >>> nc.signbit([1.0, -0.0])
    Tensor([False,  True], bool[2])
    """

    def negative(held: Any) -> Any:
        """Whether the sign bit is set, found by copying it to 1."""
        one = filled(held, 1.0)
        return pointwise.lt(pointwise.copysign(one, held), filled(held, 0.0))

    return unary(negative, "signbit", x, FLOATING)


@one_program(often=True)
def nan_to_num(x: TensorLike, /, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None) -> Tensor:
    """x with NaN and infinities replaced.  Infinities default to the greatest and least finite number of the dtype.

    Integers are unchanged.  Replaced elements have derivative 0.

    >>> nc.nan_to_num([1.0, float("nan"), float("inf")], posinf=9.0)
    Tensor([1., 0., 9.], f32[3])
    """
    held = as_tensor(x)
    require("nan_to_num", held.type.dtype, REAL)
    if held.type.dtype.is_integer:
        return distinct(held, held)
    most = float(finfo(held.type.dtype).max)
    found = where(isnan(held), nan, held)
    found = where(pointwise.eq(held, filled(held, math.inf)), most if posinf is None else posinf, found)
    return where(pointwise.eq(held, filled(held, -math.inf)), -most if neginf is None else neginf, found)


# ---- logic and bits


def logical_and(x: TensorLike, y: TensorLike, /) -> Tensor:
    """True where both are true.

    >>> nc.logical_and([True, True], [True, False])
    Tensor([ True, False], bool[2])
    """
    return binary(pointwise.and_, "logical_and", x, y, BOOLEAN)


def logical_or(x: TensorLike, y: TensorLike, /) -> Tensor:
    """True where at least one is true.

    >>> nc.logical_or([True, False], [False, False])
    Tensor([ True, False], bool[2])
    """
    return binary(pointwise.or_, "logical_or", x, y, BOOLEAN)


def logical_xor(x: TensorLike, y: TensorLike, /) -> Tensor:
    """True where exactly one is true.

    >>> nc.logical_xor([True, True], [True, False])
    Tensor([False,  True], bool[2])
    """
    return binary(pointwise.xor, "logical_xor", x, y, BOOLEAN)


def logical_not(x: TensorLike, /) -> Tensor:
    """True where x is false.

    >>> nc.logical_not([True, False])
    Tensor([False,  True], bool[2])
    """
    return unary(pointwise.not_, "logical_not", x, BOOLEAN)


def bitwise_and(x: TensorLike, y: TensorLike, /) -> Tensor:
    """The bits set in both.

    >>> nc.bitwise_and(6, 3)
    Tensor(2, i64[])
    """
    return binary(pointwise.and_, "bitwise_and", x, y, BITWISE)


def bitwise_or(x: TensorLike, y: TensorLike, /) -> Tensor:
    """The bits set in either.

    >>> nc.bitwise_or(6, 3)
    Tensor(7, i64[])
    """
    return binary(pointwise.or_, "bitwise_or", x, y, BITWISE)


def bitwise_xor(x: TensorLike, y: TensorLike, /) -> Tensor:
    """The bits set in exactly one.

    >>> nc.bitwise_xor(6, 3)
    Tensor(5, i64[])
    """
    return binary(pointwise.xor, "bitwise_xor", x, y, BITWISE)


def bitwise_invert(x: TensorLike, /) -> Tensor:
    """All bits inverted.

    >>> nc.bitwise_invert(0)
    Tensor(-1, i64[])
    """
    return unary(pointwise.not_, "bitwise_invert", x, BITWISE)


def bitwise_left_shift(x: TensorLike, y: TensorLike, /) -> Tensor:
    """The bits shifted left by y places; 0 for shifts beyond the width.

    >>> nc.bitwise_left_shift(1, 3)
    Tensor(8, i64[])
    """
    return binary(pointwise.shl, "bitwise_left_shift", x, y, INTEGRAL)


def bitwise_right_shift(x: TensorLike, y: TensorLike, /) -> Tensor:
    """The bits shifted right by y places; shifts beyond the width give 0, or −1 for negative x.

    >>> nc.bitwise_right_shift(-8, 1)
    Tensor(-4, i64[])
    """
    return binary(pointwise.shr, "bitwise_right_shift", x, y, INTEGRAL)
