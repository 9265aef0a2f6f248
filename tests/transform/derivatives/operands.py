"""Operands of functions with derivative rules, and the comparison of their derivatives."""

from __future__ import annotations

from typing import Any

import numpy as np

import nacre as nc

F = nc.float64
X, Y = nc.tensor(0.3, dtype=F), nc.tensor(2.0, dtype=F)
XS = nc.tensor([0.1, 0.7, 2.0], dtype=F)
ONE = nc.tensor(1.0, dtype=F)


def close(found: Any, wanted: Any) -> None:
    """Check that numbers are equal but for rounding in float64."""
    np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-13, atol=1e-15)
