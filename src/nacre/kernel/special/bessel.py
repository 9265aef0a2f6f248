"""The modified Bessel functions of the first kind of orders 0 and 1, and these times exp(−|x|)."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from nacre.kernel.elementary.exponential import exp, exp_falling
from nacre.kernel.elementary.value import Real, at_least, at_most, polynomial, where
from nacre.kernel.special.coefficients import I0, I0_TAIL, I1, I1_TAIL

BOUND = 8.0  # between the series at 0 and that at infinity
OVERFLOWS = 1500.0


def series(size: Real, coefficients: Sequence[float]) -> Real:
    """The polynomial in (x / 2)² for |x| ≤ 8."""
    a = at_most(size, BOUND)
    return polynomial(a * a * 0.25, coefficients)


def scaled_tail(size: Real, coefficients: Sequence[float]) -> Real:
    """The function times exp(−|x|), for |x| ≥ 8."""
    a = at_least(size, BOUND)
    return polynomial(BOUND / a - 0.5, coefficients) / a.unary("sqrt")


def unscaled(size: Real, near: Real, tail: Real) -> Real:
    """A function from its values near 0 and far from it."""
    half = exp(at_most(size, OVERFLOWS) * 0.5)
    return where(size <= BOUND, near, where(half < inf, tail * half * half, tail + where(tail < 0.0, -half, half)))


def i0(x: Real) -> Real:
    """I₀(x)."""
    size = abs(x)
    return unscaled(size, series(size, I0), scaled_tail(size, I0_TAIL))


def i1(x: Real) -> Real:
    """I₁(x)."""
    size = abs(x)
    return unscaled(size, x * 0.5 * series(size, I1), signed(x, scaled_tail(size, I1_TAIL)))


def signed(x: Real, y: Real) -> Real:
    """y with the other sign where x < 0.

    LLVM makes a copysign of a float16 in float64 a call of a function for the conversion.
    """
    return where(x < 0.0, -y, y)


def i0e(x: Real) -> Real:
    """exp(−|x|) I₀(x)."""
    size = abs(x)
    return where(size <= BOUND, exp_falling(-size) * series(size, I0), scaled_tail(size, I0_TAIL))


def i1e(x: Real) -> Real:
    """exp(−|x|) I₁(x)."""
    size = abs(x)
    near = exp_falling(-size) * (x * 0.5) * series(size, I1)
    return where(size <= BOUND, near, signed(x, scaled_tail(size, I1_TAIL)))
