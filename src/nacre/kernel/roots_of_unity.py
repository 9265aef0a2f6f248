"""Roots of unity, correctly rounded: cos(2πk/n) and sin(2πk/n) for the tables of Fourier transforms.

A root is a product of two roots from short tables, which exact integers fill.  The product is computed with about 100
bits.  Where these do not decide the rounding, integers compute the root itself.
"""

from __future__ import annotations

import math
from functools import cache, lru_cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from nacre.kernel.softfloat import two_product, two_sum

Array = npt.NDArray[Any]
Double = tuple[Array, Array]  # the sum of both, the second at most half a unit in the last place of the first

BITS: Final = 224  # binary places of the integers
ONE: Final = 1 << BITS
DOUBT: Final = 2.0**-96  # more than the error of a product of two roots
FEW: Final = 64  # roots up to which integers compute each


def roots(n: int, k: npt.ArrayLike, dtype: Any) -> tuple[Array, Array]:
    """cos(2πk/n) and sin(2πk/n), correctly rounded to float32 or float64, for an array of integers k."""
    eighths = 8 * (np.asarray(k, np.int64) % n)
    octant, rest = eighths // n, eighths % n
    odd = octant % 2 == 1
    distinct, place = np.unique(np.where(odd, n - rest, rest), return_inverse=True)
    c, s = (x[place].reshape(odd.shape) for x in _first_octant(n, distinct, np.dtype(dtype)))
    turns = (octant + odd) // 2
    s = np.where(odd, -s, s)
    cos = np.choose(turns % 4, [c, -s, -c, s]) + 0.0
    sin = np.choose(turns % 4, [s, c, -s, -c]) + 0.0
    return cos.astype(dtype), sin.astype(dtype)


@lru_cache(maxsize=4096)
def root(n: int, k: int, dtype: Any) -> tuple[Any, Any]:
    """cos(2πk/n) and sin(2πk/n), correctly rounded, for one k."""
    cos, sin = roots(n, k, dtype)
    return cos[()], sin[()]


def _first_octant(n: int, r: Array, dtype: Any) -> tuple[Array, Array]:
    """The cosines and sines of 2πr/8n, for r from 0 to n."""
    if r.size <= FEW:
        exact = [_integers(8 * n, int(i)) for i in r.ravel()]
        found = [[_rounded(pair[part], dtype) for pair in exact] for part in range(2)]
        return tuple(np.array(x, dtype).reshape(r.shape) for x in found)  # type: ignore[return-value]
    step = 1 << (n.bit_length() + 1) // 2
    high, low = (_table(8 * n, by, count) for by, count in ((step, n // step + 1), (1, step)))
    (c1, s1), (c2, s2) = ([(x[0][i], x[1][i]) for x in table] for table, i in ((high, r // step), (low, r % step)))
    cos = _sum(_product(c1, c2), _negative(_product(s1, s2)))
    sin = _sum(_product(s1, c2), _product(c1, s2))
    return _round(n, r, cos, 0, dtype), _round(n, r, sin, 1, dtype)


def _round(n: int, r: Array, x: Double, part: int, dtype: Any) -> Array:
    """The numbers rounded to a dtype, from integers where they are near the middle of two neighbours."""
    found = x[0].astype(dtype)
    gap = np.spacing(np.abs(found)).astype(np.float64)
    away = np.abs(x[0] - found)
    error = np.abs((x[0] - found) + x[1])
    doubtful = (np.abs(error - gap / 2) < DOUBT) | (np.abs(error - gap / 4) < DOUBT) | ((away > 0) & (away == gap / 2))
    for place in np.argwhere(doubtful):
        at = tuple(place)
        found[at] = _rounded(_integers(8 * n, int(r[at]))[part], dtype)
    return found


def _rounded(value: int, dtype: Any) -> Any:
    """value / 2^BITS rounded once."""
    near = value / ONE
    if dtype == np.float32:  # a middle between two float32 must not hide on which side the number is
        beyond = value - int(near * float(ONE))
        if beyond and float(np.float32(near)) != near:
            near = near if int(np.float64(near).view(np.int64)) & 1 else math.nextafter(near, math.copysign(2, beyond))
    return dtype.type(near)


def _table(n: int, by: int, count: int) -> tuple[Double, Double]:
    """The cosines and the sines of 2πk/n for k = 0, by, 2·by, …, below or at π/4."""
    exact = [_integers(n, min(by * k, n // 8)) for k in range(count)]
    return _doubles([c for c, _ in exact]), _doubles([s for _, s in exact])


def _doubles(values: list[int]) -> Double:
    """Integers over 2^BITS, each as the sum of two floats."""
    high = [v / ONE for v in values]
    low = [(v - int(h * float(ONE))) / ONE for v, h in zip(values, high, strict=True)]
    return np.array(high), np.array(low)


def _integers(n: int, k: int) -> tuple[int, int]:
    """cos(2πk/n) and sin(2πk/n) times 2^BITS, for 0 ≤ k ≤ n/8, by their series."""
    x = 2 * _pi() * k // n
    square = x * x >> BITS
    sums, term, power = [0, 0], ONE, 0
    even = term
    sums[0] = even
    odd = x
    sums[1] = odd
    while even or odd:
        even = -(even * square >> BITS) // ((power + 1) * (power + 2))
        odd = -(odd * square >> BITS) // ((power + 2) * (power + 3))
        if abs(even) <= 1 and abs(odd) <= 1:
            break
        sums[0] += even
        sums[1] += odd
        power += 2
    return sums[0], sums[1]


@cache
def _pi() -> int:
    """π times 2^BITS, by Machin's formula."""
    extra = 32
    one = 1 << BITS + extra

    def arctan(x: int) -> int:
        """The arc tangent of 1/x."""
        total = term = one // x
        k = 1
        while term:
            term = -term // (x * x)
            k += 2
            total += term // k
            if abs(term) <= 1:
                break
        return total

    return 4 * (4 * arctan(5) - arctan(239)) >> extra


def _product(a: Double, b: Double) -> Double:
    high, error = two_product(a[0], b[0])
    return two_sum(high, error + (a[0] * b[1] + a[1] * b[0]))


def _sum(a: Double, b: Double) -> Double:
    high, error = two_sum(a[0], b[0])
    return two_sum(high, error + (a[1] + b[1]))


def _negative(a: Double) -> Double:
    return -a[0], -a[1]
