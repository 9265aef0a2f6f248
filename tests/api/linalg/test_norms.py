"""Norms of numbers whose squares their dtype does not hold."""

from __future__ import annotations

from typing import Any

import pytest

import nacre as nc


@pytest.mark.parametrize("norm", [nc.linalg.vector_norm, nc.linalg.matrix_norm])
def test_squares_of_half_types_do_not_overflow(norm: Any) -> None:
    x = nc.full((2, 2), 1000.0, dtype=nc.float16)
    for f in (norm, nc.jit(norm)):
        assert f(x).dtype is nc.float16 and f(x).item() == 2000.0
