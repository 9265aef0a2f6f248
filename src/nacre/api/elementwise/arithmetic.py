"""Arithmetic, rounding and extremes of elements.  Names follow the array API standard."""

from __future__ import annotations

from typing import Any

from nacre.api.elementwise.apply import NUMERIC, Operation, binary, of_tensors, require, unary
from nacre.api.elementwise.one_program import one_program
from nacre.api.operands import (
    DEFAULT_FLOAT,
    TensorLike,
    as_tensor,
    distinct,
    filled,
    in_single,
    is_half,
    is_scalar,
    meet,
    operands,
    spread,
)
from nacre.api.primitives import parts, pointwise
from nacre.api.tensor import Tensor
from nacre.base.conversion import bounds
from nacre.base.dtypes import FLOATING, INEXACT, ORDERED, REAL, SIGNED, DTypeSet
from nacre.base.errors import DTypeError
from nacre.interpret.numbers.arithmetic import LARGEST, require_count, whole_power
from nacre.interpret.numbers.staged_number import StagedNumber
from nacre.ops.identity import detach

__all__ = [
    "abs",
    "add",
    "ceil",
    "clip",
    "divide",
    "floor",
    "floor_divide",
    "fma",
    "maximum",
    "minimum",
    "multiply",
    "negative",
    "nextafter",
    "positive",
    "pow",
    "reciprocal",
    "remainder",
    "round",
    "sign",
    "square",
    "subtract",
    "trunc",
]


def add(x: TensorLike, y: TensorLike, /) -> Tensor:
    """x + y; integers wrap on overflow.

    >>> nc.add([1, 2], 3)
    Tensor([4, 5], i64[2])
    """
    return binary(pointwise.add, "add", x, y)


def subtract(x: TensorLike, y: TensorLike, /) -> Tensor:
    """x − y; integers wrap on overflow.

    >>> nc.subtract([1, 2], 3)
    Tensor([-2, -1], i64[2])
    """
    return binary(pointwise.sub, "subtract", x, y)


def multiply(x: TensorLike, y: TensorLike, /) -> Tensor:
    """x · y; integers wrap on overflow.

    >>> nc.multiply([1, 2], 3)
    Tensor([3, 6], i64[2])
    """
    return binary(pointwise.mul, "multiply", x, y)


def divide(x: TensorLike, y: TensorLike, /) -> Tensor:
    """x / y in floating point; integers are converted to float32 first.

    >>> nc.divide([1.0, 2.0], 4)
    Tensor([0.25, 0.5 ], f32[2])
    """
    return of_tensors("divide", _divide, (x, y))


def _divide(x: TensorLike, y: TensorLike) -> Any:
    met, dtype = meet("divide", (x, y))
    require("divide", dtype, NUMERIC)
    return pointwise.div(
        *operands("divide", *(met if dtype.is_inexact else [as_tensor(v, DEFAULT_FLOAT) for v in met]))
    )


def floor_divide(x: TensorLike, y: TensorLike, /) -> Tensor:
    """⌊x / y⌋, as Python's `//`.  Integer division by zero gives 0; floating-point division by zero gives x / 0.

    Quotients with more digits than the dtype has are rounded.  An infinity divided by a finite number stays infinite,
    as in the array API standard.

    >>> nc.floor_divide([7, -7], 2)
    Tensor([ 3, -4], i64[2])
    """
    return of_tensors("floor_divide", _floor_divide, (x, y))


def _floor_divide(x: TensorLike, y: TensorLike) -> Any:
    a, b = operands("floor_divide", x, y)
    require("floor_divide", a.type.dtype, REAL)
    if not a.type.dtype.is_float:
        quotient = pointwise.idiv(a, b)
        if not a.type.dtype.is_signed:
            return quotient
        adjusted = pointwise.sub(quotient, filled(a, 1))
        return pointwise.select(_inexact(pointwise.rem(a, b), b), adjusted, quotient)
    return in_single(_floored, a, b) if is_half(a) else _floored(a, b)


def _floored(a: Any, b: Any) -> Any:
    """The floor of the exact quotient a / b, rounded if it has more digits than the dtype.

    If the rounded quotient is not whole, its floor is right.  If it is whole, the exact quotient may be below it.
    """
    quotient = pointwise.div(a, b)
    whole = pointwise.floor(quotient)
    outside = pointwise.and_(pointwise.isinf(b), pointwise.isfinite(a))
    rest = pointwise.select(outside, a, pointwise.fma(pointwise.neg(whole), b, a))
    below = pointwise.and_(pointwise.eq(whole, quotient), _inexact(rest, b))
    return pointwise.select(below, pointwise.sub(whole, filled(a, 1.0)), whole)


def _inexact(rest: Any, divisor: Any) -> Any:
    """True where a truncated remainder is not zero and its sign differs from the divisor's."""
    zero = filled(rest, 0)
    signs_differ = pointwise.ne(pointwise.lt(rest, zero), pointwise.lt(divisor, zero))
    return pointwise.and_(pointwise.ne(rest, zero), signs_differ)


def remainder(x: TensorLike, y: TensorLike, /) -> Tensor:
    """x − y·⌊x / y⌋, rounded once.  The result has the sign of y, as Python's `%`.  The remainder of integers by zero
    is 0.

    For floating-point numbers, the remainder by zero is NaN.  The remainder by an infinity is x, or that infinity where
    the signs differ.

    >>> nc.remainder([7, -7], 3)
    Tensor([1, 2], i64[2])
    """
    return of_tensors("remainder", _remainder, (x, y))


def _remainder(x: TensorLike, y: TensorLike) -> Any:
    a, b = operands("remainder", x, y)
    require("remainder", a.type.dtype, REAL)
    rest, zero = pointwise.rem(a, b), filled(b, 0)
    if not a.type.dtype.is_signed:
        return rest
    moved = pointwise.select(_inexact(rest, b), pointwise.add(rest, b), rest)
    if not a.type.dtype.is_float:
        return moved
    signed = pointwise.sub(pointwise.copysign(zero, b), pointwise.sub(detach(moved), moved))  # 0, but with a derivative
    return pointwise.select(pointwise.eq(moved, zero), signed, moved)


def pow(x: TensorLike, y: TensorLike, /) -> Tensor:
    """x to the power y.  Integers to integer powers wrap; known negative integer powers raise DTypeError.

    >>> nc.pow([1.0, 2.0, 3.0], 2)
    Tensor([1., 4., 9.], f32[3])
    """
    return of_tensors("pow", _pow, (x, y))


def _pow(x: TensorLike, y: TensorLike) -> Any:
    power: Any = y
    if type(power) is StagedNumber and not is_scalar(x):
        return _staged_power(as_tensor(x), power)
    if is_scalar(y) and not is_scalar(x):
        base = as_tensor(x)
        if base.type.dtype.is_inexact and y in _EXACT_POWERS:
            return distinct(_EXACT_POWERS[y](base), base)
    a, b = operands("pow", x, y)
    require("pow", a.type.dtype, NUMERIC)
    if a.type.dtype.is_inexact:
        return pointwise.pow_(a, b)
    if isinstance(y, int) and y < 0:
        raise DTypeError(f"pow: the power of an integer must be at least 0; got {y}; convert x with astype")
    return _integer_power(a, b)


def _staged_power(base: Any, power: StagedNumber) -> Any:
    """Whole numbers to a whole power that the program computes; of floats, a known power may be a product."""
    if power.kind is not int or not base.type.dtype.is_integer:
        power.unknown("power")
    require_count(power.held, "the power", min(bounds(base.type.dtype)[1], LARGEST))
    return _integer_power(base, spread(power.tensor(base.type.dtype), base.type.shape))


def _itself(x: Any) -> Any:
    return x


def _squared(x: Any) -> Any:
    return pointwise.mul(x, x)


def _inverse(x: Any) -> Any:
    return pointwise.div(filled(x, 1.0), x)


# powers whose value is rounded once by a cheaper operation
_EXACT_POWERS: dict[Any, Operation] = {
    1: _itself,
    2: _squared,
    0.5: pointwise.sqrt,
    -1: _inverse,
}


def _integer_power(base: Any, exponent: Any) -> Any:
    """Square and multiply over the bits of the exponent.  Negative exponents give 0, or ±1 for a base of ±1."""
    one, zero = filled(base, 1), filled(base, 0)
    negative = pointwise.lt(exponent, zero) if base.type.dtype.is_signed else None
    result = whole_power(base, exponent, one, zero)
    if negative is None:
        return result
    return pointwise.select(negative, pointwise.select(_is_unit(base, one), result, zero), result)


def _is_unit(base: Any, one: Any) -> Any:
    return pointwise.eq(pointwise.abs_(base), one)  # the squares of other numbers may wrap to 1


def negative(x: TensorLike, /) -> Tensor:
    """−x.

    >>> nc.negative([1, -2])
    Tensor([-1,  2], i64[2])
    """
    return unary(pointwise.neg, "negative", x)


def positive(x: TensorLike, /) -> Tensor:
    """x itself.

    >>> nc.positive([1, -2])
    Tensor([ 1, -2], i64[2])
    """
    return unary(_itself, "positive", x)


@one_program()
def abs(x: TensorLike, /) -> Tensor:
    """|x|; of complex numbers √(re² + im²), without overflow and underflow in between.

    >>> nc.abs([1, -2])
    Tensor([1, 2], i64[2])
    """
    held = as_tensor(x)
    require("abs", held.type.dtype, NUMERIC)
    if held.type.dtype.is_complex:
        return pointwise.modulus(held)
    return pointwise.abs_(held) if held.type.dtype.is_signed else distinct(held, held)


def sign(x: TensorLike, /) -> Tensor:
    """−1, 0 or 1 by the sign of x; +0 for zeros of either sign; NaN for NaN.  Of complex numbers x/|x|, and 0 for 0.

    >>> nc.sign([-3.0, 0.0, 2.0])
    Tensor([-1.,  0.,  1.], f32[3])
    """
    return unary(_sign, "sign", x)


def _sign(x: Any) -> Any:
    return pointwise.direction(x) if x.type.dtype.is_complex else pointwise.sign(x)


def square(x: TensorLike, /) -> Tensor:
    """x · x.

    >>> nc.square([1, -2])
    Tensor([1, 4], i64[2])
    """
    return unary(_squared, "square", x)


def reciprocal(x: TensorLike, /) -> Tensor:
    """1 / x.

    >>> nc.reciprocal([1.0, 4.0])
    Tensor([1.  , 0.25], f32[2])
    """
    return unary(_EXACT_POWERS[-1], "reciprocal", x, INEXACT)


def fma(x: TensorLike, y: TensorLike, z: TensorLike, /) -> Tensor:
    """x · y + z, rounded once.

    >>> nc.fma(2.0, 3.0, 1.0)
    Tensor(7., f32[])
    """
    a, b, c = operands("fma", x, y, z)
    require("fma", a.type.dtype, FLOATING)
    return pointwise.fma(a, b, c)


def maximum(x: TensorLike, y: TensorLike, /) -> Tensor:
    """The larger of x and y; NaN if either is NaN; +0 is larger than −0.

    >>> nc.maximum([1, 5], 3)
    Tensor([3, 5], i64[2])
    """
    return binary(pointwise.maximum, "maximum", x, y, ORDERED)


def minimum(x: TensorLike, y: TensorLike, /) -> Tensor:
    """The smaller of x and y; NaN if either is NaN; −0 is smaller than +0.

    >>> nc.minimum([1, 5], 3)
    Tensor([1, 3], i64[2])
    """
    return binary(pointwise.minimum, "minimum", x, y, ORDERED)


@one_program(often=True)
def clip(x: TensorLike, /, min: TensorLike | None = None, max: TensorLike | None = None) -> Tensor:
    """x limited to min … max; either bound may be omitted.

    x and the bounds are promoted as the operands of `maximum` are.  Where x equals a bound, the derivative is that of
    x.

    >>> nc.clip([-1.0, 0.5, 2.0], 0, 1)
    Tensor([0. , 0.5, 1. ], f32[3])
    """
    result = held = as_tensor(x)
    for op, bound in ((pointwise.maximum, min), (pointwise.minimum, max)):
        if bound is not None:
            a, b = operands("clip", result, bound)
            require("clip", a.type.dtype, ORDERED)
            result = _limited(op, a, b)
    return distinct(result, held)


def _limited(op: Operation, x: Any, bound: Any) -> Any:
    """The greater, or the smaller, of x and a bound.  Where they are equal, the derivative is that of x."""
    limited = op(x, bound)
    if not x.type.dtype.is_float:
        return limited
    same = pointwise.sub(detach(limited), pointwise.sub(detach(x), x))  # minus 0, but with a derivative
    return pointwise.select(pointwise.eq(x, bound), same, limited)


# ---- rounding


def _rounding(op: Operation, operation: str, x: TensorLike, accepted: DTypeSet = REAL) -> Any:
    held = as_tensor(x)
    require(operation, held.type.dtype, accepted)
    if held.type.dtype.is_complex:
        return parts.complex_(op(parts.real(held)), op(parts.imag(held)))
    return distinct(held, held) if held.type.dtype.is_integer else op(held)


@one_program()
def floor(x: TensorLike, /) -> Tensor:
    """The largest whole number not above x.

    >>> nc.floor([1.5, -1.5])
    Tensor([ 1., -2.], f32[2])
    """
    return _rounding(pointwise.floor, "floor", x)


@one_program()
def ceil(x: TensorLike, /) -> Tensor:
    """The smallest whole number not below x.

    >>> nc.ceil([1.5, -1.5])
    Tensor([ 2., -1.], f32[2])
    """
    return _rounding(pointwise.ceil, "ceil", x)


@one_program()
def trunc(x: TensorLike, /) -> Tensor:
    """x without its fraction.

    >>> nc.trunc([1.5, -1.5])
    Tensor([ 1., -1.], f32[2])
    """
    return _rounding(pointwise.trunc, "trunc", x)


@one_program()
def round(x: TensorLike, /) -> Tensor:
    """The nearest whole number; halves round to even.  Complex numbers are rounded by their parts.

    >>> nc.round([0.5, 1.5, 2.6])
    Tensor([0., 2., 3.], f32[3])
    """
    return _rounding(pointwise.round_, "round", x, NUMERIC)


def nextafter(x: TensorLike, y: TensorLike, /) -> Tensor:
    """The number of the dtype that follows x in the direction of y; y where they are equal; NaN if either is NaN.

    The derivative in x is 1 where x is finite, and that in y is 0.

    >>> nc.nextafter(1.0, 2.0) - 1
    Tensor(1.1920929e-07, f32[])
    """
    return binary(_following, "nextafter", x, y, FLOATING)


def _following(x: Any, y: Any) -> Any:
    """The neighbour by the bits, which count up from 0 to infinity for either sign."""
    bits = pointwise.bitcast(x, next(d for d in SIGNED if d.bits == x.type.dtype.bits))
    zero, one = filled(x, 0.0), filled(bits, 1)
    outwards = pointwise.eq(pointwise.gt(y, x), pointwise.gt(x, zero))
    step = pointwise.select(outwards, one, pointwise.neg(one))
    moved = pointwise.bitcast(pointwise.add(bits, step), x.type.dtype)
    least = pointwise.copysign(pointwise.bitcast(one, x.type.dtype), y)
    moved = pointwise.select(pointwise.eq(x, zero), least, moved)
    moved = pointwise.select(pointwise.eq(x, y), y, moved)
    missing = pointwise.or_(pointwise.isnan(x), pointwise.isnan(y))
    moved = detach(pointwise.select(missing, pointwise.add(x, y), moved))
    same = pointwise.sub(moved, pointwise.sub(detach(x), x))  # minus 0, but with a derivative
    return pointwise.select(pointwise.isfinite(x), same, moved)
