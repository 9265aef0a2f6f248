"""The regularised incomplete beta function, by the continued fraction of DiDonato and Morris (ACM TOMS 18 (1992))."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, nan, pi

from nacre.kernel.elementary.exponential import exp
from nacre.kernel.elementary.logarithm import log, log1p
from nacre.kernel.elementary.value import Real, fma, rarely, repeat, where
from nacre.kernel.special.beta import betaln
from nacre.kernel.special.gamma import BOUND, correction
from nacre.kernel.special.gamma_incomplete import excess

ROUNDS = (24, 40, 64, 128, 256, 512, 1024, 2048)  # after each of them, only lanes that have not converged go on
CONVERGED = 2.0**-53


def weight(a: Real, b: Real, x: Real, y: Real) -> Real:
    """x^a y^b / B(a, b) for y = 1 − x; for large a and b by their distance from the mode."""
    large = (a >= float(BOUND)) & (b >= float(BOUND))
    p, q = where(large, a, float(BOUND)), where(large, b, float(BOUND))
    distance = fma(q, x, -(p * y))
    exponent = p * excess(distance / p) + q * excess(-distance / q)
    total = p + q
    root = (p * (q / total) * (1 / (2 * pi))).unary("sqrt")
    far = exp(-exponent + (correction(total) - correction(p) - correction(q))) * root
    near = exp(a * log_of(x, y) + b * log_of(y, x) - betaln(a, b))
    return where(large, far, near)


def log_of(x: Real, rest: Real) -> Real:
    """log x, by its distance from 1 where that is the smaller number."""
    return where(x > 0.5, log1p(-rest), log(x))


def fraction(a: Real, b: Real, x: Real) -> Real:
    """1 / (b₀ + a₁ / (b₁ + a₂ / …)), from its start (Lentz 1976), for x up to about the mean a / (a + b)."""

    def denominator(n: Real) -> Real:
        """The n-th partial denominator."""
        doubled = a + (n + n)
        first = n + n * (b - n) * x / (doubled - 1.0)
        return first + (a + n) * (a - (a + b) * x + 1.0 + n * (2.0 - x)) / (doubled + 1.0)

    def step(n: Real, f: Real, c: Real, d: Real, change: Real) -> Sequence[Real]:
        """One more convergent."""
        doubled = a + (n + n) - 1.0
        numerator = (a + n - 1.0) / doubled * ((a + b + n - 1.0) / doubled) * (n * (b - n)) * (x * x)
        following = denominator(n)
        d = 1.0 / fma(numerator, d, following)
        c = following + numerator / c
        change = c * d
        return n + 1.0, f * change, c, d, change

    zero = a.constant(0.0)
    start = a * (a - (a + b) * x + 1.0) / (a + 1.0)  # `denominator(0)`, whose first part is 0 / 0 for a = 1
    state: list[Real] = [a.constant(1.0), start, start, zero, zero]
    for count in ROUNDS:
        *_, change = state
        going = ~(abs(change - 1.0) <= CONVERGED)

        def more(count: int = count, state: list[Real] = state) -> Sequence[Real]:
            """Some more convergents."""
            return repeat(count, state, step)

        state = rarely(going, state, more)
    return 1.0 / state[1]


def betainc(a: Real, b: Real, x: Real) -> Real:
    """The integral of t^(a−1) (1 − t)^(b−1) / B(a, b) from 0 to x."""
    inside = (a > 0.0) & (b > 0.0) & (a < inf) & (b < inf) & (x > 0.0) & (x < 1.0)
    p, q, t = where(inside, a, 1.0), where(inside, b, 1.0), where(inside, x, 0.5)
    rest = 1.0 - t
    swapped = fma(p + q, t, -p) > 0.0
    p, q, t, rest = where(swapped, q, p), where(swapped, p, q), where(swapped, rest, t), where(swapped, t, rest)
    y = weight(p, q, t, rest) * fraction(p, q, t)
    y = where(swapped, 1.0 - y, y)
    # all of the weight is at 0 for a = 0 or b = ∞, at 1 for b = 0 or a = ∞
    at_zero, at_one = a.equals(0.0) | b.equals(inf), b.equals(0.0) | a.equals(inf)
    between = where(at_zero, 1.0, a.constant(0.0))
    limit = where(x.equals(0.0) | x.equals(1.0), x, between)
    known = (a >= 0.0) & (b >= 0.0) & (x >= 0.0) & (x <= 1.0) & ~(at_zero & at_one)
    return where(inside, y, where(known, limit, nan))


def beta_density(a: Real, b: Real, x: Real) -> Real:
    """x^(a−1) (1 − x)^(b−1) / B(a, b), the derivative of the incomplete function by x."""
    inside = (a > 0.0) & (b > 0.0) & (a < inf) & (b < inf) & (x > 0.0) & (x < 1.0)
    p, q, t = where(inside, a, 1.0), where(inside, b, 1.0), where(inside, x, 0.5)
    y = weight(p, q, t, 1.0 - t) / t / (1.0 - t)
    usual = (a > 0.0) & (b > 0.0) & (x >= 0.0) & (x <= 1.0)
    power = where(x.equals(0.0), a, b)
    other = where(x.equals(0.0), b, a)
    at_end = where(power < 1.0, inf, where(power.equals(1.0), other, 0.0))
    end = x.equals(0.0) | x.equals(1.0)
    return where(inside, y, where(usual, where(end, at_end, 0.0), nan))
