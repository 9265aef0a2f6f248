"""Gradients of real functions of complex numbers by finite differences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import nacre as nc
from ops.samples import Array

STEP = 1e-6


def ascent(f: Callable[[Any], Any], z: Array) -> Array:
    """∂f/∂x + i·∂f/∂y by central differences."""
    found = np.zeros_like(z)
    for k in np.ndindex(z.shape):
        for direction in (1, 1j):
            moved = np.zeros_like(z)
            moved[k] = STEP * direction
            ahead, behind = (float(f(nc.asarray(z + s * moved))) for s in (1, -1))
            found[k] += direction * (ahead - behind) / (2 * STEP)
    return found
