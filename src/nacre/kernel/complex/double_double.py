"""Numbers in two float64 parts, with logarithms and angles to about 2^-64 of their size."""

from __future__ import annotations

from nacre.base.dtypes import float64, int64
from nacre.kernel.complex.terms import (
    FRACTION,
    ComplexTerm,
    DoubleDouble,
    RealTerm,
    fma,
    power_of_two,
    two_product,
    two_sum,
    where,
)

THIRD = float.fromhex("0x1.5555555555555p-2"), float.fromhex("0x1.5555555555555p-56")
LN2 = float.fromhex("0x1.62e42fefa39efp-1"), float.fromhex("0x1.abc9e3b39803fp-56")
PI = float.fromhex("0x1.921fb54442d18p+1"), float.fromhex("0x1.1a62633145c07p-53")
ATAN_OF_QUARTERS = (  # atan(k / 4)
    (0.0, 0.0),
    (float.fromhex("0x1.f5b75f92c80ddp-3"), float.fromhex("0x1.8ab6e3cf7afbdp-57")),
    (float.fromhex("0x1.dac670561bb4fp-2"), float.fromhex("0x1.a2b7f222f65e2p-56")),
    (float.fromhex("0x1.4978fa3269ee1p-1"), float.fromhex("0x1.2419a87f2a458p-56")),
    (float.fromhex("0x1.921fb54442d18p-1"), float.fromhex("0x1.1a62633145c07p-55")),
)
ROOT_HALF = 0x3FE6A09E667F3BCD  # the bits of √½
LOG_TERMS = [1 / (2 * k + 5) for k in range(11)]
ATAN_TERMS = [(-1) ** k / (2 * k + 5) for k in range(11)]


def exact(x: RealTerm) -> DoubleDouble:
    """A number in two parts."""
    return DoubleDouble(x, x.constant(0.0))


def renormalised(high: RealTerm, low: RealTerm) -> DoubleDouble:
    """high + low with the rounded sum as the first part, if |high| ≥ |low| (Dekker)."""
    s = high + low
    return DoubleDouble(s, low - (s - high))


def plus(a: DoubleDouble, b: DoubleDouble) -> DoubleDouble:
    """a + b."""
    s = two_sum(a.high, b.high)
    return renormalised(s.high, s.low + (a.low + b.low))


def times(a: DoubleDouble, b: DoubleDouble) -> DoubleDouble:
    """a · b."""
    p = two_product(a.high, b.high)
    return renormalised(p.high, p.low + fma(a.high, b.low, a.low * b.high))


def over(a: DoubleDouble, b: DoubleDouble) -> DoubleDouble:
    """a / b."""
    q = a.high / b.high
    rest = fma(-q, b.high, a.high) + fma(-q, b.low, a.low)
    return renormalised(q, rest / b.high)


def choice(condition: RealTerm, a: DoubleDouble, b: DoubleDouble) -> DoubleDouble:
    """a where the condition holds, else b."""
    return DoubleDouble(where(condition, a.high, b.high), where(condition, a.low, b.low))


def number(x: tuple[float, float], like: RealTerm) -> DoubleDouble:
    """A constant in two parts."""
    return DoubleDouble(like.constant(x[0]), like.constant(x[1]))


def scaled_by(a: DoubleDouble, factor: RealTerm | float) -> DoubleDouble:
    """a times a power of two or ±1."""
    return DoubleDouble(a.high * factor, a.low * factor)


def odd_series(s: DoubleDouble, terms: list[float], sign: float) -> DoubleDouble:
    """s (1 + sign · s² (⅓ + s² (c0 + c1 s² + …))) for a small s: atanh for sign 1, atan for −1 with its terms."""
    z = times(s, s)
    tail = z.high.constant(terms[-1])
    for c in reversed(terms[:-1]):
        tail = fma(tail, z.high, c)
    third = number(THIRD, z.high)
    inner = renormalised(third.high, z.high * tail * sign)
    w = times(z, DoubleDouble(inner.high, inner.low + third.low))
    return plus(s, scaled_by(times(s, w), sign))


def log_in_two(x: DoubleDouble, doublings: RealTerm) -> DoubleDouble:
    """log(2^doublings x) for a normal number x: log x = k log 2 + 2 atanh((m − 1) / (m + 1))."""
    bits = x.high.bits(int64)
    k = (bits - ROOT_HALF) >> FRACTION
    scale = power_of_two(0 - k)
    m = scaled_by(x, scale)
    f = plus(two_sum(m.high, -1.0), exact(m.low))
    d = plus(exact(f.high.constant(2.0)), f)
    rest = scaled_by(odd_series(over(f, d), LOG_TERMS, 1.0), 2.0)
    return plus(times(exact(k.to(float64) + doublings), number(LN2, x.high)), rest)


def angle_in_two(z: ComplexTerm) -> DoubleDouble:
    """atan2(im, re) of a finite number other than 0: atan a = atan c + atan((a − c) / (1 + a c)), c = k / 4."""
    x, y = abs(z.re), abs(z.im)
    steep = y > x
    a = over(exact(where(steep, x, y)), exact(where(steep, y, x)))
    k = (a.high * 4.0).call("round")
    c, found = k * 0.25, number(ATAN_OF_QUARTERS[0], x)
    for j, entry in enumerate(ATAN_OF_QUARTERS[1:], 1):
        found = choice(k.equals(float(j)), number(entry, x), found)
    above, below = plus(a, exact(-c)), plus(exact(x.constant(1.0)), times(exact(c), a))
    rest = odd_series(over(above, below), ATAN_TERMS, -1.0)
    found = choice(c.equals(0.0), rest, plus(found, rest))
    left = x.constant(1.0).call("copysign", z.re) < 0.0
    base = choice(left, number(PI, x), exact(x.constant(0.0)))
    base = choice(steep, number((PI[0] / 2, PI[1] / 2), x), base)
    turned = scaled_by(found, where(steep.call("xor", left), -1.0, 1.0))
    found = choice(steep | left, plus(base, turned), found)
    return scaled_by(found, x.constant(1.0).with_sign_of(z.im))
