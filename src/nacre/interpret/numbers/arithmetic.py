"""Python's arithmetic of whole numbers of 64 bits and of floats, on scalars of int64 and float64."""

from __future__ import annotations

import os
from typing import Any, Final

from nacre.base.dtypes import bool_, float64, int64
from nacre.interpret.called import user_line
from nacre.ops import pointwise
from nacre.ops.check import check
from nacre.trace.value import Value

SHIFTS: Final = {"lshift": pointwise.shl, "rshift": pointwise.shr}
LARGEST: Final = (1 << 62) - 1  # power or shift
BITWISE: Final = {"and": pointwise.and_, "or": pointwise.or_, "xor": pointwise.xor, **SHIFTS}
ROUNDED: Final = {
    "round": pointwise.round_,
    "floor": pointwise.floor,
    "ceil": pointwise.ceil,
    "trunc": pointwise.trunc,
}


def require_divisor(y: Value) -> None:
    """Check that a divisor is not zero."""
    text = f"division: the divisor must not be zero, as in Python; got {{got}}{_place()}"
    check(pointwise.cast(pointwise.ne(y, pointwise.zeros_like(y)), int64), 1, 2, "argument", text)


def _place() -> str:
    """The user's line, for the text of a check."""
    return f" ({os.path.basename(user_line())})".replace("{", "{{").replace("}", "}}")


def require_count(y: Value, what: str, most: int = LARGEST) -> None:
    """Check that a shift or a power of whole numbers is not negative, nor larger than its dtype has."""
    text = f"{what} of a whole number must be in [{{low}}, {{high}}); got {{got}}{_place()}; use floats"
    check(y, 0, most + 1, "argument", text)


def divided(x: Value, y: Value) -> tuple[Value, Value]:
    """The quotient rounded down, and the remainder, which has the sign of the divisor."""
    return _float_divided(x, y) if x.type.dtype is float64 else _whole_divided(x, y)


def _whole_divided(x: Value, y: Value) -> tuple[Value, Value]:
    rest = pointwise.rem(x, y)
    odd = _has_other_sign(rest, y)
    quotient = pointwise.sub(pointwise.idiv(x, y), pointwise.cast(odd, int64))
    return quotient, pointwise.select(odd, pointwise.add(rest, y), rest)


def _float_divided(x: Value, y: Value) -> tuple[Value, Value]:
    """In the roundings of Python's floats: the quotient is of the exact remainder's complement."""
    rest = pointwise.rem(x, y)
    zero, one, half = (pointwise.fill(n, (), float64) for n in (0.0, 1.0, 0.5))
    odd = _has_other_sign(rest, y)
    exact = pointwise.div(pointwise.sub(x, rest), y)
    exact = pointwise.select(odd, pointwise.sub(exact, one), exact)
    down = pointwise.floor(exact)
    down = pointwise.select(pointwise.gt(pointwise.sub(exact, down), half), pointwise.add(down, one), down)
    quotient = pointwise.select(pointwise.eq(exact, zero), pointwise.copysign(zero, pointwise.div(x, y)), down)
    signed = pointwise.select(odd, pointwise.add(rest, y), rest)
    return quotient, pointwise.select(pointwise.eq(rest, zero), pointwise.copysign(zero, y), signed)


def _has_other_sign(rest: Value, divisor: Value) -> Value:
    """Whether a remainder is not zero and its sign differs from the divisor's."""
    zero = pointwise.zeros_like(rest)
    signs = pointwise.ne(pointwise.lt(rest, zero), pointwise.lt(divisor, zero))
    return pointwise.select(pointwise.ne(rest, zero), signs, pointwise.fill(False, (), bool_))


def rounded(name: str, x: Value) -> Value:
    """A float as a whole number, rounded to the nearest (to even), down, up or towards zero."""
    whole = ROUNDED[name](x)
    limit = pointwise.fill(2.0**63, (), float64)
    fits = pointwise.and_(pointwise.ge(whole, pointwise.neg(limit)), pointwise.lt(whole, limit))
    text = f"{name}: the float must be within the whole numbers of 64 bits; got {{got}} for whether it is{_place()}"
    check(pointwise.cast(fits, int64), 1, 2, "argument", text)
    return pointwise.cast(pointwise.select(fits, whole, pointwise.zeros_like(whole)), int64)


def whole_power(base: Any, exponent: Any, one: Any, zero: Any) -> Any:
    """Square and multiply over the bits of a whole exponent, which is not negative; all have one type."""
    result, square, left = one, base, exponent
    for _ in range(min(base.type.dtype.bits, 64)):
        odd = pointwise.ne(pointwise.and_(left, one), zero)
        result = pointwise.select(odd, pointwise.mul(result, square), result)
        square = pointwise.mul(square, square)
        left = pointwise.shr(left, one)
    return result


def known_power(base: Value, exponent: int) -> Value:
    """A whole number to a known power."""
    result, square = pointwise.fill(1, (), int64), base
    while exponent:
        if exponent & 1:
            result = pointwise.mul(result, square)
        square, exponent = pointwise.mul(square, square), exponent >> 1
    return result
