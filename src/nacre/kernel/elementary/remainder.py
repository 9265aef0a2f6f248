"""The remainder of floating-point division, exact for every quotient (C's fmod)."""

from __future__ import annotations

from math import inf, nan

from nacre.base.dtypes import float32, float64
from nacre.kernel.elementary.logarithm import split
from nacre.kernel.elementary.value import (
    Real,
    Whole,
    fma,
    power_of_two,
    rarely,
    repeat,
    where,
)

STEP = {float32: 22, float64: 51}  # bits of the quotient that one iteration removes
ROUNDS = {float32: 14, float64: 43}  # iterations for the largest number divided by the smallest


def reduce_once(r: Real, b: Real) -> Real:
    """r modulo b for 0 ≤ r / b < 2^(bits of the significand): the fma is exact."""
    rest = fma(-(r / b).unary("ftrunc"), b, r)
    return where(rest < 0.0, rest + b, rest)


def scaled_by(b: Real, k: Whole) -> Real:
    """b · 2^k by four multiplications, for k up to four times the format's exponents."""
    quarter = k >> 2
    factor = power_of_two(quarter, b.format)
    return b * factor * factor * factor * power_of_two(k - quarter * 3, b.format)


def reduce_in_rounds(r: Real, b: Real) -> Real:
    """r modulo b by b · 2^j for descending j, for positive finite r and b."""
    exponent_r, _ = split(r)
    exponent_b, _ = split(b)
    k = exponent_r - exponent_b - 1
    multiple = scaled_by(b, where(k < 0, k ^ k, k))
    down = 2.0 ** -STEP[r.dtype]

    def step(r: Real, multiple: Real) -> list[Real]:
        """One iteration: r modulo a multiple of b, and the next smaller multiple."""
        lower = multiple * down
        return [reduce_once(r, multiple), where(lower < b, b, lower)]

    return repeat(ROUNDS[r.dtype], [r, multiple], step)[0]


def remainder(a: Real, b: Real) -> Real:
    """a − b trunc(a / b), with the sign of a; NaN for infinite a or b = 0."""
    r, size = abs(a), abs(b)
    ordinary = (r < inf) & (size > 0.0) & (size < inf)
    one = a.constant(1.0)
    dividend, divisor = where(ordinary, r, one), where(ordinary, size, one)
    far = dividend / divisor >= 2.0 ** (a.format.fraction - 1)
    safe = where(dividend > 0.0, dividend, one)
    [y] = rarely(far, [reduce_once(dividend, divisor)], lambda: [reduce_in_rounds(safe, divisor)])
    special = where((r < inf) & size.equals(inf), r, nan)
    return where(ordinary, y, special).with_sign_of(a)
