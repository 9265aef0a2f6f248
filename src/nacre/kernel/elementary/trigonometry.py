"""Circular functions and their inverses: sin, cos, tan, asin, acos, atan, atan2.

x = q π/2 + r with |r| ≤ π/4.  Up to a bound, q π/2 is subtracted in three parts by fma.  Above it, x · 2/π is taken
modulo 4 with as many bits of 2/π as needed (Payne and Hanek), in float64 for both formats.
"""

from __future__ import annotations

from math import inf, nan, pi

from nacre.base.dtypes import float32, float64, int32
from nacre.kernel.elementary.coefficients import (
    ASIN,
    ATAN,
    BUCKET,
    COS,
    HALF_PI_HIGH,
    HALF_PI_LOW,
    HALF_PI_MIDDLE,
    PI_HIGH,
    PI_LOW,
    ROW,
    SIN,
    TAN,
    TWO_OVER_PI_ROWS,
)
from nacre.kernel.elementary.exponential import nearest
from nacre.kernel.elementary.value import (
    DOUBLE,
    Real,
    Whole,
    fast_two_sum,
    fma,
    lookup,
    polynomial,
    power_of_two,
    rarely,
    two_product,
    two_sum,
    where,
)

THREE_PARTS_SUFFICE = {float32: 2.0**17, float64: 2.0**30}


def modulo_four(x: Real) -> Real:
    """x − 4 n with |x − 4 n| ≤ 2, exactly."""
    return x - (x * 0.25).unary("roundeven") * 4.0


def sum_in_two(terms: list[Real], passes: int) -> tuple[Real, Real]:
    """The sum of terms in two parts, through cancellation (Ogita, Rump and Oishi's SumK)."""
    for _ in range(passes):
        for i in range(1, len(terms)):
            terms[i], terms[i - 1] = two_sum(terms[i], terms[i - 1])
    low = terms[0]
    for t in terms[1:-1]:
        low = low + t
    return fast_two_sum(terms[-1], low)


def reduce_huge(x: Real, parts: int) -> tuple[Real, Real, Whole]:
    """r in two parts, and q, for float64 x of any size, by `parts` numbers for 2/π.

    A float64 may come within 2^-61 of a multiple of π/2, which needs 4 parts; a float32 may come within 2^-30, for
    which 3 parts are enough and their sum needs one pass.
    """
    exponent = ((x.as_whole() >> DOUBLE.fraction) & 0x7FF) - (DOUBLE.bias + DOUBLE.fraction)
    bucket = where(exponent < 0, exponent ^ exponent, exponent) >> 5
    x = x * power_of_two(bucket * -BUCKET, DOUBLE)
    row = bucket * ROW
    g = [lookup("two_over_pi", TWO_OVER_PI_ROWS, row + i) for i in range(parts)]
    (p0, e0), (p1, e1), *small = (two_product(x, part) for part in g[:-1])
    big = [modulo_four(p0), modulo_four(e0), modulo_four(p1)]
    little = [e1, *(t for pair in small for t in pair), x * g[-1]]
    n = (((big[0] + big[1]) + big[2]) + (little[0] + little[1])).unary("roundeven")
    high, low = sum_in_two([*reversed(little), -n, *reversed(big)], parts - 2)
    pi_high, pi_low = HALF_PI_HIGH[float64], HALF_PI_MIDDLE[float64]
    r, r_low = two_product(high, high.constant(pi_high))
    r, r_low = fast_two_sum(r, r_low + fma(high, pi_low, low * pi_high))
    return r, r_low, (n + DOUBLE.magic).as_whole()


def reduce_huge_as(x: Real) -> tuple[Real, Real, Whole]:
    """`reduce_huge` for x of either format."""
    if x.format is DOUBLE:
        return reduce_huge(x, 4)
    r, _, q = reduce_huge(x.cast("fpext", float64), 3)
    high = r.cast("fptrunc", float32)
    low = (r - high.cast("fpext", float64)).cast("fptrunc", float32)
    return high, low, q.cast("trunc", int32)


def reduce(x: Real) -> tuple[Real, Whole]:
    """r, and q (only its last two bits matter)."""
    dtype = x.dtype
    n, q = nearest(x, 2 / pi)
    r = fma(n, -HALF_PI_HIGH[dtype], x)  # exact
    r = fma(n, -HALF_PI_LOW[dtype], fma(n, -HALF_PI_MIDDLE[dtype], r))
    large = abs(x) > THREE_PARTS_SUFFICE[dtype]
    r, q = rarely(large, (r, q), lambda: reduce_huge_as(x)[::2])
    return r, q


def reduce_in_two(x: Real) -> tuple[Real, Real, Whole]:
    """r in two parts, and q."""
    dtype = x.dtype
    n, q = nearest(x, 2 / pi)
    product, product_low = two_product(n, n.constant(-HALF_PI_MIDDLE[dtype]))
    r, low = two_sum(fma(n, -HALF_PI_HIGH[dtype], x), product)
    low = fma(n, -HALF_PI_LOW[dtype], low + product_low)
    large = abs(x) > THREE_PARTS_SUFFICE[dtype]
    r, low, q = rarely(large, (*fast_two_sum(r, low), q), lambda: reduce_huge_as(x))
    return r, low, q


def sin_within(r: Real, z: Real) -> Real:
    """sin r for |r| ≤ π/4, z = r²."""
    return fma(r * z, polynomial(z, SIN[r.dtype]), r)


def cos_within(z: Real) -> Real:
    """cos r for |r| ≤ π/4, z = r²."""
    return fma(z * z, polynomial(z, COS[z.dtype]), fma(z, -0.5, 1.0))


def quadrant(r: Real, q: Whole) -> Real:
    """The sine of r + q π/2."""
    z = r * r
    y = where((q & 1).equals(0), sin_within(r, z), cos_within(z))
    bits = r.format.bits
    return (y.as_whole() ^ ((q & 2) << (bits - 2))).as_real(r.dtype)


def sin(x: Real) -> Real:
    """The sine of x radians."""
    r, q = reduce(x)
    return where(abs(x) < 2.0 ** -(x.format.fraction // 2 + 2), x, quadrant(r, q))


def cos(x: Real) -> Real:
    """The cosine of x radians."""
    r, q = reduce(x)
    return quadrant(r, q + 1)


def tan(x: Real) -> Real:
    """r + r³ P(r²) + r_low (1 + tan² r) in two parts, or −1 over it in odd quadrants."""
    r, r_low, q = reduce_in_two(x)
    z = r * r
    tail = r * z * polynomial(z, TAN[x.dtype])
    t = r + tail
    t, t_low = fast_two_sum(r, fma(r_low, fma(t, t, 1.0), tail))
    y = -1.0 / t
    y = fma(y, fma(y, t, 1.0) + y * t_low, y)
    tiny = abs(x) < 2.0 ** -(x.format.fraction // 2 + 2)
    return where(tiny, x, where((q & 1).equals(0), t, y))


def asin_tail(x: Real, z: Real) -> Real:
    """asin(x) − x for |x| ≤ ½, z = x²."""
    return x * z * polynomial(z, ASIN[x.dtype])


def asin(x: Real) -> Real:
    """Up to ½ by a polynomial; above, π/2 − 2 asin √((1 − |x|) / 2), the root in two parts."""
    dtype = x.dtype
    size = abs(x)
    near_one = size > 0.5
    z = where(near_one, (1.0 - size) * 0.5, size * size)
    s = z.unary("sqrt")
    s_low = where(s > 0.0, fma(-s, s, z) / (s + s), 0.0)
    a = where(near_one, s, size)
    tail = asin_tail(a, z)
    rest = HALF_PI_MIDDLE[dtype] - (tail + s_low) * 2.0
    high, low = fast_two_sum(x.constant(HALF_PI_HIGH[dtype]), s * -2.0)
    return where(near_one, high + (low + rest), size + tail).with_sign_of(x)


def acos(x: Real) -> Real:
    """π/2 − asin x near 0, 2 asin √((1 − x) / 2) near 1, π − acos |x| near −1."""
    dtype = x.dtype
    size = abs(x)
    far = size > 0.5
    z = where(far, (1.0 - size) * 0.5, size * size)
    s = z.unary("sqrt")
    s_low = where(s > 0.0, fma(-s, s, z) / (s + s), 0.0)
    a = where(far, s, x)
    tail = asin_tail(a, z)
    twice = (s + (tail + s_low)) * 2.0
    near_minus_one = PI_HIGH[dtype] - (twice - PI_LOW[dtype])
    middle = HALF_PI_HIGH[dtype] - (x - (HALF_PI_MIDDLE[dtype] - tail))
    return where(far, where(x < 0.0, near_minus_one, twice), middle)


def atan_tail(x: Real) -> Real:
    """atan(x) − x for |x| ≤ 1."""
    z = x * x
    return x * z * polynomial(z, ATAN[x.dtype])


def atan(x: Real) -> Real:
    """|x| up to 1 by a polynomial; above, π/2 − atan(1 / |x|)."""
    dtype = x.dtype
    size = abs(x)
    inverted = size > 1.0
    a = where(inverted, 1.0 / size, size)
    tail = atan_tail(a)
    far = HALF_PI_HIGH[dtype] - (a - (HALF_PI_MIDDLE[dtype] - tail))
    return where(inverted, far, a + tail).with_sign_of(x)


def atan2(y: Real, x: Real) -> Real:
    """The angle of (x, y), by C's Annex F: a polynomial in min / max, then the octant."""
    dtype = x.dtype
    size_y, size_x = abs(y), abs(x)
    steep = size_y > size_x
    small, large = where(steep, size_x, size_y), where(steep, size_y, size_x)
    a = where(small.equals(0.0), 0.0, where(small.equals(inf), 1.0, small / large))
    tail = atan_tail(a)
    left = x.is_negative()
    # the angle is (base + rest) ± (a + tail)
    base = where(steep, HALF_PI_HIGH[dtype], where(left, x.constant(PI_HIGH[dtype]), 0.0))
    rest = where(steep, HALF_PI_MIDDLE[dtype], where(left, x.constant(PI_LOW[dtype]), 0.0))
    minus = steep ^ left
    a, tail = where(minus, -a, a), where(minus, -tail, tail)
    high, low = fast_two_sum(base, a)
    plain = where(steep | left, high + (low + (tail + rest)), a + tail)
    return where(x.is_nan() | y.is_nan(), nan, plain).with_sign_of(y)
