"""The definition of Fourier transforms: its plans, and its error beside a transform of higher precision."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import pytest

from nacre.kernel import order_fft
from nacre.kernel.order_fft import PRIMES, plan
from ops.samples import Array, generator

pytestmark = pytest.mark.sampled(3)

LENGTHS = (*range(1, 65), 97, 100, 127, 128, 243, 256, 509, 1000, 1024)
MOST = 2.5  # units of rounding of the mean error, relative to the mean result


def exact(x: Array, inverse: bool) -> Array:
    """The transform of pairs in the widest floating-point numbers of the machine."""
    z = x[..., 0].astype(np.longdouble) + 1j * x[..., 1].astype(np.longdouble)
    return np.fft.ifft(z, norm="forward") if inverse else np.fft.fft(z)


def error(found: Array, wanted: Array) -> float:
    """The root of the mean square of differences, in units of rounding and relative to that of the wanted numbers."""
    if found.ndim > wanted.ndim:
        found = found[..., 0].astype(np.longdouble) + 1j * found[..., 1].astype(np.longdouble)
    size = np.sqrt((np.abs(wanted) ** 2).mean())
    return float(np.sqrt((np.abs(found - wanted) ** 2).mean()) / size)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", LENGTHS)
def test_transforms_are_accurate(n: int, dtype: Any) -> None:
    most = MOST * np.finfo(dtype).eps
    z = generator(n).normal(size=(3, n, 2)).astype(dtype)
    for inverse in (False, True):
        assert error(order_fft.fft(z, inverse), exact(z, inverse)) < most
    x = np.ascontiguousarray(z[..., 0])
    assert error(order_fft.rfft(x), np.fft.rfft(x.astype(np.longdouble))) < most
    half = generator(n).normal(size=(3, n // 2 + 1, 2)).astype(dtype)
    wanted = np.fft.irfft(half[..., 0].astype(np.longdouble) + 1j * half[..., 1].astype(np.longdouble), n) * n
    assert error(order_fft.irfft(half, n), wanted) < most


def test_imaginary_parts_of_real_sums_are_zero() -> None:
    for n in (1, 2, 3, 16, 53, 127, 254):
        found = order_fft.rfft(generator(n).normal(size=n))
        assert found[0, 1] == 0
        assert n % 2 or found[-1, 1] == 0


def test_plans_multiply_to_their_length() -> None:
    for n in (*range(1, 300), 1 << 20, 10**6, 999983):
        p = plan(n)
        assert prod(p.radices) == p.passes_length
        assert p.is_convolution == (order_fft.radices(n) is None)
        assert p.passes_length == n or p.passes_length >= 2 * n - 1
        assert {r for r in p.radices if r % 2} <= set(PRIMES)
        s = 1
        for each in p.passes:
            assert (each.s, each.m * each.s * each.radix) == (s, p.passes_length)
            s *= each.radix


@pytest.mark.parametrize(
    ("n", "radices"),
    [(1, ()), (2, (2,)), (16, (4, 4)), (32, (8, 4)), (1024, (8, 8, 4, 4)), (1000, (8, 5, 5, 5)), (6, (3, 2))],
)
def test_plans_of_some_lengths(n: int, radices: tuple[int, ...]) -> None:
    assert plan(n).radices == radices
