"""Operands with more elements, which the tests of sizes share."""

from __future__ import annotations

import numpy as np

from ops.samples import Array

LARGE = 300_000  # elements beyond which operands are not made larger


def grown(x: Array, times: bool) -> Array:
    """An array with more elements along each axis of two or more: twice as many, or one more."""
    for k in range(x.ndim):
        if x.shape[k] >= 2:
            x = np.concatenate([x, x if times else np.take(x, [0], axis=k)], axis=k)
    return x
