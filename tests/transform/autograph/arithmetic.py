"""Programs that compute with Python's numbers, which only the running program knows, and with tensors."""

from __future__ import annotations

import math
from typing import Any

import nacre as nc
from transform.autograph.programs import program

PAIRS = [([a], [b]) for a in (0.0, 1.5, 8.0, 125.0, 3000.0) for b in (1.0, 3.0, 100.0)]


def halvings(x: Any, fewer: int) -> Any:
    """A number that the program counts."""
    n = 0
    while x.sum() > 1:
        x, n = x / 2, n + 1
    return n - fewer


@program(*PAIRS)
def bits_of_numbers(x: Any, y: Any) -> Any:
    n, m = halvings(x, 2), halvings(y, 0)
    pairs = [(n, m), (m, n), (n, 3), (3, n), (n, -4), (-7, m)]
    bits = [(a & b, a | b, a ^ b) for a, b in pairs]
    return bits, ~n, n << 2, n >> 1, 1 << m, -5 >> m, n << m


@program(*PAIRS)
def powers_of_numbers(x: Any, y: Any) -> Any:
    n, m = halvings(x, 2), halvings(y, 0)
    return n**0, n**1, n**2, n**7, m**5, 3**m, (-2) ** m, n**m, pow(m, m)


@program(*PAIRS)
def power_of_a_whole_tensor(x: Any, y: Any) -> Any:
    m = halvings(y, 0)
    whole = x.astype(nc.int32) % 7 - 3
    return whole**m, nc.pow(whole.astype(nc.uint8), m)


@program(*PAIRS)
def quotients_of_numbers(x: Any, y: Any) -> Any:
    n, m = halvings(x, 2), halvings(y, 0)
    return divmod(n, 3), divmod(7, m + 1), divmod(n, -4), divmod(n, m + 1)


@program(*PAIRS)
def quotients_of_floats(x: Any, y: Any) -> Any:
    n, m = halvings(x, 2), halvings(y, 0)
    f, g = n * 0.37 + 0.1, m * -1.3
    own = [(a // b, a % b, divmod(a, b)) for a, b in ((f, 0.3), (f, -0.3), (g, 1.0), (g, -0.7), (f, 2))]
    return own, 5.5 // f, 5.5 % f, n // 0.5, n % 0.25, divmod(-3, f)


@program(*PAIRS)
def rounded_numbers(x: Any, y: Any) -> Any:
    n, m = halvings(x, 2), halvings(y, 0)
    f, g = n * 0.37 + 0.1, m * -1.3
    floats = [(round(a), math.floor(a), math.ceil(a), math.trunc(a)) for a in (f, g, m * 0.5, m * 1.5)]
    return floats, round(n), math.floor(n), math.trunc(m)


@program(*PAIRS)
def extremes(x: Any, y: Any) -> Any:
    n, m = halvings(x, 2), halvings(y, 0)
    return max(n, m), min(n, m, 3), max(4, n), min(n * 0.5, m * 0.25), max(x[0], y[0]), min(y[0], x[0], y[0] / 2)


@program(*PAIRS)
def filled_with_a_number(x: Any, y: Any) -> Any:
    n = halvings(x, 2)
    return nc.full((3,), n), nc.full((2,), n * 0.5), nc.full_like(y, n), nc.where(y > 2, n, 0), nc.tensor([n, 1])


@program(*PAIRS)
def compared_with_a_large_number(x: Any, y: Any) -> Any:
    n = halvings(x, 2)
    small = n < 1 << 70 and n > -(1 << 70)
    return y if small and n != 1 << 63 else -y
