"""Roots of unity are the numbers of their dtype that are nearest to the exact ones."""

from __future__ import annotations

from typing import Any

import mpmath
import numpy as np
import pytest

from nacre.kernel.roots_of_unity import FEW, roots


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", [1, 3, 8, 24, 1000, 4096, 12345])
def test_roots_are_correctly_rounded(n: int, dtype: Any) -> None:
    numbers = np.arange(n)
    cos, sin = roots(n, numbers, dtype)
    with mpmath.workprec(300):
        for k in range(0, n, max(1, n // 150)):
            angle = 2 * mpmath.pi * k / n
            for found, exact in ((cos[k], mpmath.cos(angle)), (sin[k], mpmath.sin(angle))):
                error = abs(mpmath.mpf(float(found)) - exact)
                gap = mpmath.mpf(float(np.spacing(np.abs(found))))
                assert error <= gap / 2 or abs(exact) < 1e-80


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_few_roots_are_those_of_many(dtype: Any) -> None:
    for n in (7, 96, 5000):
        many = roots(n, np.arange(n * 40 // min(n, 40)), dtype)
        few = roots(n, np.arange(min(n, FEW)), dtype)
        for a, b in zip(many, few, strict=True):
            np.testing.assert_array_equal(a[: b.size], b)


def test_roots_at_quarters_are_exact() -> None:
    cos, sin = roots(4, np.arange(-4, 5), np.float64)
    np.testing.assert_array_equal(cos, [1, 0, -1, 0, 1, 0, -1, 0, 1])
    np.testing.assert_array_equal(sin, [0, 1, 0, -1, 0, 1, 0, -1, 0])
    assert not np.signbit(cos[cos == 0]).any()
    assert not np.signbit(sin[sin == 0]).any()
