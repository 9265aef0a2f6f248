"""The inverses of erf and erfc, by polynomials in x² up to ½, and in s = √(−log erfc) and 1 / s above."""

from __future__ import annotations

from math import inf, nan

from nacre.kernel.elementary.logarithm import log
from nacre.kernel.elementary.value import Real, polynomial, rarely, where
from nacre.kernel.special.coefficients import ERFINV, TAIL_FAR, TAIL_FARTHEST, TAIL_MIDDLE, TAIL_NEAR

NEAR, MIDDLE, FAR = 2.0, 5.0, 11.0  # the ends of the polynomials' intervals of s
FARTHEST_CENTRE = 0.06376956376956377  # of 1 / s


def inverse_near_zero(x: Real) -> Real:
    """erf⁻¹(x) for |x| ≤ ½."""
    return x * polynomial(x * x, ERFINV)


def inverse_of_tail(q: Real) -> Real:
    """erfc⁻¹(q) for q in (0, ½]."""
    s = (-log(q)).unary("sqrt")
    inverse = 1.0 / s
    y = where(s < NEAR, polynomial(s - 1.415, TAIL_NEAR), polynomial(inverse - 0.35, TAIL_MIDDLE))

    def far() -> list[Real]:
        """The factor for small q."""
        farthest = polynomial(inverse - FARTHEST_CENTRE, TAIL_FARTHEST)
        return [where(s < FAR, polynomial(s - 8.0, TAIL_FAR), farthest)]

    return s * rarely(s > MIDDLE, [y], far)[0]


def inverse(x: Real, tail: Real) -> Real:
    """erf⁻¹(x) for x in [−1, 1], with 1 − |x|; ±∞ at the ends and NaN beyond."""
    near = tail >= 0.5
    inside = tail > 0.0
    y = inverse_of_tail(where(near, 0.25, where(inside, tail, 0.25)))
    y = where(tail.equals(0.0), inf, y)
    y = where(near, inverse_near_zero(x), where(x < 0.0, -y, y))
    return where(tail >= 0.0, y, nan)


def erfinv(x: Real) -> Real:
    """The inverse of erf."""
    return inverse(x, 1.0 - abs(x))


def erfcinv(q: Real) -> Real:
    """The inverse of erfc."""
    return inverse(1.0 - q, where(q < 1.0, q, 2.0 - q))
