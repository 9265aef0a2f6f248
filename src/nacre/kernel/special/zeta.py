"""Hurwitz's zeta function, by the sum formula of Euler and Maclaurin."""

from __future__ import annotations

from math import inf, nan

from nacre.kernel.elementary.logarithm import power
from nacre.kernel.elementary.value import Real, rarely, repeat, where
from nacre.kernel.special.gamma import fraction

TERMS = 9  # that are added one by one
BERNOULLI = (  # B₂ₖ / (2k)!
    0.08333333333333333,
    -0.001388888888888889,
    3.306878306878307e-05,
    -8.267195767195768e-07,
    2.08767569878681e-08,
    -5.284190138687493e-10,
    1.3382536530684679e-11,
    -3.3896802963225827e-13,
    8.586062056277845e-15,
    -2.174868698558062e-16,
    5.5090028283602295e-18,
    -1.3954464685812522e-19,
)


def zeta_of_positive(s: Real, q: Real) -> Real:
    """Σ (q + k)^−s over k ≥ 0, for s > 1 and finite q > 0."""

    def add(total: Real, a: Real) -> tuple[Real, Real]:
        """One more term."""
        return total + power(a, -s), a + 1.0

    total, a = repeat(TERMS, [s.constant(0.0), q], add)
    integral = power(a, 1.0 - s)
    term = integral / a
    w = 1.0 / (a * a)
    y = s.constant(BERNOULLI[-1])
    for k in range(len(BERNOULLI) - 1, 0, -1):
        y = (s + (2.0 * k - 1.0)) * (s + 2.0 * k) * w * y + BERNOULLI[k - 1]
    rest = where(term > 0.0, term * (s / a * y + 0.5), 0.0)
    return total + (integral / (s - 1.0) + rest)


def zeta(s: Real, q: Real) -> Real:
    """Σ (q + k)^−s over k ≥ 0: infinite at s = 1 and whole q ≤ 0, NaN for s < 1, and for q < 0 if s is not whole."""
    size = abs(q)
    usual = (size > 0.0) & (size < inf)
    exponent = where(s > 1.0, where(s < inf, s, 1e300), 2.0)

    def at_negative() -> list[Real]:
        """The sum over all whole numbers, less that over those below."""
        half = exponent * 0.5
        even = half.unary("floor").equals(half)
        d = fraction(q)
        below = zeta_of_positive(exponent, 1.0 - d) - zeta_of_positive(exponent, 1.0 - q)
        above = power(d, -exponent) + zeta_of_positive(exponent, d + 1.0)
        whole = exponent.unary("floor").equals(exponent)
        y = where(d.equals(0.0), inf, above + where(even, below, -below))
        return [where(whole, y, nan)]

    y = zeta_of_positive(exponent, where(usual & (q > 0.0), q, 1.0))
    (y,) = rarely(usual & (q < 0.0), [y], at_negative)
    y = where(usual, y, where(q.equals(0.0), s.constant(inf), where(q > 0.0, s.constant(0.0), nan)))
    y = where(s > 1.0, y, where(s.equals(1.0), s.constant(inf), nan))
    return where(q.is_nan() | s.is_nan(), nan, y)
