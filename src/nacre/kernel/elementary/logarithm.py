"""Logarithms and functions derived from them: log, log2, log10, log1p, asinh, acosh, atanh, pow, cbrt.

x = 2^k (1 + f) with 1 + f in [√½, √2), and log(1 + f) = 2 atanh(s) with s = f / (2 + f).
"""

from __future__ import annotations

from math import inf, nan

from nacre.base.dtypes import DType, float32, float64
from nacre.kernel.elementary.coefficients import (
    ASINH,
    ATANH,
    ATANH_REST,
    CBRT,
    CBRT2,
    CBRT4,
    LN2_HIGH,
    LN2_LOW,
    LOG2E_HIGH,
    LOG2E_LOW,
    LOG10_2_HIGH,
    LOG10_2_LOW,
    LOG10E_HIGH,
    LOG10E_LOW,
    TWO_THIRDS_HIGH,
    TWO_THIRDS_LOW,
)
from nacre.kernel.elementary.exponential import exp2_near_zero
from nacre.kernel.elementary.scaling import nearest_exponent
from nacre.kernel.elementary.value import (
    FORMATS,
    Real,
    Whole,
    at_least,
    at_most,
    fast_two_sum,
    fma,
    polynomial,
    power_of_two,
    two_product,
    two_sum,
    where,
)

SMALLEST_NORMAL = {float32: 2.0**-126, float64: 2.0**-1022}
SUBNORMAL_SHIFT = {float32: 25, float64: 54}
SQUARE_SWAMPS_ONE = {float32: 2.0**13, float64: 2.0**28}  # x² ± 1 is x² (nearly) above


def as_number(k: Whole, dtype: DType) -> Real:
    """A small integer as a floating-point number."""
    fmt = FORMATS[dtype]
    return (k + fmt.magic_bits).as_real(dtype) - fmt.magic


def split(x: Real) -> tuple[Whole, Real]:
    """k and m with x = 2^k m and m in [√½, √2), for finite x > 0, including subnormal numbers."""
    fmt = x.format
    shift = SUBNORMAL_SHIFT[fmt.dtype]
    small = x < SMALLEST_NORMAL[fmt.dtype]
    bits = where(small, x * 2.0**shift, x).as_whole()
    k = (bits - fmt.pattern(0.5**0.5)) >> fmt.fraction
    m = (bits - (k << fmt.fraction)).as_real(fmt.dtype)
    return where(small, k - shift, k), m


def log_tail(f: Real) -> Real:
    """f − log(1 + f), accurate relative to f²."""
    s = f / (f + 2.0)
    z, half_square = s * s, f * f * 0.5
    return half_square - s * fma(z, polynomial(z, ATANH[f.dtype]), half_square)


def log_parts(x: Real) -> tuple[Real, Real, Real]:
    """k, f and f − log(1 + f)."""
    k, m = split(x)
    f = m - 1.0
    return as_number(k, x.dtype), f, log_tail(f)


def with_log_specials(x: Real, y: Real) -> Real:
    """y for finite x > 0; ∞ for ∞, −∞ for ±0, NaN for others."""
    y = where(x < inf, y, x)
    return where(x > 0.0, y, where(x.equals(0.0), x.constant(-inf), nan))


def log(x: Real) -> Real:
    """The natural logarithm; -inf at 0, NaN below."""
    k, f, tail = log_parts(x)
    dtype = x.dtype
    return with_log_specials(x, fma(k, LN2_HIGH[dtype], fma(k, LN2_LOW[dtype], f - tail)))


def log2(x: Real) -> Real:
    """The logarithm to base 2; -inf at 0, NaN below."""
    k, f, tail = log_parts(x)
    high, low = LOG2E_HIGH[x.dtype], LOG2E_LOW[x.dtype]
    return with_log_specials(x, k + fma(f, high, fma(f, low, -(tail * high))))


def log10(x: Real) -> Real:
    """The logarithm to base 10; -inf at 0, NaN below."""
    k, f, tail = log_parts(x)
    dtype = x.dtype
    high, low = LOG10E_HIGH[dtype], LOG10E_LOW[dtype]
    y = fma(f, high, fma(f, low, fma(k, LOG10_2_LOW[dtype], -(tail * high))))
    return with_log_specials(x, fma(k, LOG10_2_HIGH[dtype], y))


def log_of_sum(high: Real, low: Real, doublings: Real | None = None) -> Real:
    """log(2^doublings (high + low)) for high ≥ ½ and |low| ≤ ulp(high)."""
    fmt = high.format
    k, m = split(high)
    scaled = low * power_of_two((k ^ -1) + 1, fmt)
    scaled = where(high < 2.0 ** (fmt.bias // 2), scaled, 0.0)
    f, f_low = two_sum(m - 1.0, scaled)
    n = as_number(k, fmt.dtype)
    n = n if doublings is None else n + doublings
    y = f + (f_low - log_tail(f))
    return fma(n, LN2_HIGH[fmt.dtype], fma(n, LN2_LOW[fmt.dtype], y))


def log1p(x: Real) -> Real:
    """log(high + low) with 1 + x = high + low; a tiny x is its own result."""
    y = log_of_sum(*two_sum(x.constant(1.0), x))
    tiny = abs(x) < 2.0 ** (-x.format.fraction - 2)
    y = where(tiny, x, where(x < inf, y, x))
    return where(x > -1.0, y, where(x.equals(-1.0), x.constant(-inf), nan))


def compensated_sqrt(high: Real, low: Real) -> tuple[Real, Real]:
    """√(high + low) in two parts; 0 for 0."""
    root = high.unary("sqrt")
    rest = (fma(-root, root, high) + low) / (root + root)
    return root, where(root > 0.0, rest, 0.0)


def asinh(x: Real) -> Real:
    """x + x³ P(x²) up to ½; above, log(|x| + √(x² + 1)) in two parts."""
    dtype = x.dtype
    z, size = x * x, abs(x)
    small = fma(x * z, polynomial(z, ASINH[dtype]), x)
    large = size > SQUARE_SWAMPS_ONE[dtype]
    a = where(large, 1.0, size)
    square, square_low = two_product(a, a)
    high, low = two_sum(square, a.constant(1.0))
    root, root_low = compensated_sqrt(high, low + square_low)
    high, low = two_sum(a, root)
    high, low = where(large, size, high), where(large, 0.0, low + root_low)
    y = log_of_sum(high, low, where(large, x.constant(1.0), 0.0))
    y = where(size < inf, y, size)
    return where(size < 0.5, small, y).with_sign_of(x)


def acosh(x: Real) -> Real:
    """log(1 + (t + √(t (t + 2)))) with t = x − 1, in two parts."""
    large = x > SQUARE_SWAMPS_ONE[x.dtype]
    t, t_low = two_sum(where(large, 1.0, x), x.constant(-1.0))
    square, square_low = two_product(t, t)
    high, low = two_sum(t + t, square)
    root, root_low = compensated_sqrt(high, low + square_low + (t_low + t_low) * (t + 1.0))
    w, w_low = two_sum(t, root)
    high, low = two_sum(x.constant(1.0), w)
    low = low + (w_low + (root_low + t_low))
    high, low = where(large, x, high), where(large, 0.0, low)
    y = log_of_sum(high, low, where(large, x.constant(1.0), 0.0))
    return where(x >= 1.0, where(x < inf, y, x), nan)


def atanh(x: Real) -> Real:
    """x + x³ P(x²) where the series of the logarithm is valid; above, ½ log((1 + x) / (1 − x))."""
    size, z = abs(x), x * x
    small = fma(size * z, polynomial(z, ATANH[x.dtype]) * 0.5, size)
    one = x.constant(1.0)
    above, above_low = two_sum(one, size)
    below, below_low = two_sum(one, -size)
    ratio = above / below
    rest = (fma(-ratio, below, above) + above_low - ratio * below_low) / below
    y = log_of_sum(*fast_two_sum(ratio, rest)) * 0.5
    y = where(size < 0.17, small, where(size < 1.0, y, where(size.equals(1.0), one * inf, nan)))
    return y.with_sign_of(x)


def log2_in_two(x: Real) -> tuple[Real, Real]:
    """log2(x) for x > 0 as a sum of two numbers, to about 2^-12 ulp of the first."""
    dtype = x.dtype
    k, m = split(x)
    f = m - 1.0
    d, d_low = fast_two_sum(f.constant(2.0), f)
    s = f / d
    s_low = (fma(-s, d, f) - s * d_low) / d
    z, z_low = two_product(s, s)
    z_low = fma(s + s, s_low, z_low)
    # w = z (2/3 + z Q(z)), so that log(1 + f) = s (2 + w)
    inner, inner_low = fast_two_sum(f.constant(TWO_THIRDS_HIGH[dtype]), z * polynomial(z, ATANH_REST[dtype]))
    inner_low = inner_low + TWO_THIRDS_LOW[dtype]
    w, w_low = two_product(z, inner)
    w_low = w_low + fma(z, inner_low, z_low * inner)
    t, t_low = two_product(s, w)
    t_low = t_low + fma(s, w_low, s_low * w)
    high, low = fast_two_sum(s + s, t)
    low = low + (s_low + s_low + t_low)
    y, y_low = two_product(high, high.constant(LOG2E_HIGH[dtype]))
    y_low = y_low + fma(high, LOG2E_LOW[dtype], low * LOG2E_HIGH[dtype])
    y, rest = two_sum(as_number(k, dtype), y)
    return y, rest + y_low


EXP2_BOUND = {float32: 200.0, float64: 1200.0}  # 2^y over- or underflows beyond


def power(x: Real, y: Real) -> Real:
    """x^y as defined by C's Annex F, by 2^(y log2 |x|) with a logarithm in two parts."""
    dtype = x.dtype
    size = abs(x)
    ordinary = (size > 0.0) & (size < inf)
    high, low = log2_in_two(where(ordinary, size, 1.0))
    p, p_low = two_product(y, high)
    p_low = fma(y, low, p_low)
    bound = EXP2_BOUND[dtype]
    p_low = where(abs(p) < bound, p_low, 0.0)
    p = at_most(at_least(p, -bound), bound)
    k = nearest_exponent(p, 1.0)
    magnitude = k.times(exp2_near_zero((p - k.number) + p_low))

    rising = y > 0.0
    limit = where((size > 1.0) ^ rising, x.constant(0.0), inf)
    limit = where(size.equals(1.0), 1.0, limit)
    magnitude = where(ordinary & (abs(y) < inf), magnitude, limit)

    whole = y.unary("ftrunc").equals(y)
    half = y * 0.5
    odd = whole & ~half.unary("ftrunc").equals(half) & (abs(y) < inf)
    result = where(odd, magnitude.with_sign_of(x), magnitude)
    result = where((x < 0.0) & (size < inf) & ~whole, nan, result)
    result = where(x.is_nan() | y.is_nan(), nan, result)
    return where(x.equals(1.0) | y.equals(0.0), 1.0, result)


def cbrt(x: Real) -> Real:
    """A cubic polynomial, then Halley's iteration, on a value scaled by a power of eight."""
    fmt, dtype = x.format, x.dtype
    size = abs(x)
    ordinary = (size > 0.0) & (size < inf)
    k, m = split(where(ordinary, size, 1.0))
    third = (((k + 3072) * 43691) >> 17) - 1024  # ⌊k / 3⌋
    j = k - third * 3
    one, two = j.equals(1), j.equals(2)
    y = polynomial(m * 1.4143, CBRT[dtype]) * 1.4143 ** (-1 / 3)
    y = y * where(two, y.constant(CBRT4[dtype]), where(one, y.constant(CBRT2[dtype]), 1.0))
    target = m * where(two, m.constant(4.0), where(one, m.constant(2.0), 1.0))
    for _ in range(1 if dtype is float32 else 2):
        cube = y * y * y
        y = fma(y, (target - cube) / fma(y * y, y + y, target), y)
    y = y * power_of_two(third, fmt)
    return where(ordinary, y, size).with_sign_of(x)
