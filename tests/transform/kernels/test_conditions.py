"""Conditions of `while` in kernels: locals of two dtypes with equal first numbers are two values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nacre as nc


@nc.kernel(out=lambda x: x)
def counted(x: Any, out: Any) -> None:
    """Sums of few terms, below a limit."""
    for i in range(x.shape[0]):
        n = 0
        s = 0
        while n < 3 and s < 4:
            s += x[i]
            n += 1
        out[i] = s


@nc.kernel(out=lambda x: x)
def either(x: Any, out: Any) -> None:
    """Sums until both conditions fail."""
    for i in range(x.shape[0]):
        n = 1
        s = 1
        while s < 4 or n < 3:
            s += x[i]
            n += 1
        out[i] = s


@pytest.mark.parametrize("kernel", [counted, either], ids=["and", "or"])
@pytest.mark.parametrize(
    "dtype", [nc.int8, nc.uint8, nc.int16, nc.int32, nc.int64, nc.float16, nc.bfloat16, nc.float32, nc.float64], ids=str
)
def test_two_dtypes_with_equal_first_numbers(kernel: Any, dtype: nc.DType) -> None:
    x = nc.tensor([1, 2, 3, 5], dtype=dtype)
    found = kernel(x).astype(nc.float64).numpy()
    wanted = []
    for value in (1, 2, 3, 5):
        n = s = 0 if kernel is counted else 1
        while (n < 3 and s < 4) if kernel is counted else (s < 4 or n < 3):
            s, n = s + value, n + 1
        wanted.append(s)
    assert np.array_equal(found, wanted)
