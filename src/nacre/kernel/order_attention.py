"""An executable definition of attention over blocks of keys: the bits of long rows of scores in `numerics("fast")`.

A row's keys are processed in blocks of `KEYS`, in order.  The row's state is the greatest score, the sum of the
weights, and the weighted sum of the values (Milakov and Gimelshein, arXiv:1805.02867; Dao and others,
arXiv:2205.14135).  For each block

* the greatest score is updated; earlier sums are scaled by factor = exp(before − after);
* the weights are exp(score − greatest), and their sum, by the tree of `kernel.order`, is added to sum · factor;
* the weighted values are summed in chains of fused multiply-adds from +0, each of `CHAIN` keys, which are added to
  the weighted sum · factor in order.

While all scores are −∞, 0 is subtracted instead of the greatest.  At the end, +0 is added to the weighted sum, so that
it is never −0.  Scores of −∞ at the end of a row, such as those beyond the diagonal, then have no effect on finite
values.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from nacre.kernel.order import tree
from nacre.kernel.softfloat import fma, maximum

KEYS = 512  # keys in a block
CHAIN = 256  # keys in one chain

Array = npt.NDArray[Any]


def forward(scores: Array, v: Array, exp: Callable[[Array], Array]) -> tuple[Array, Array, Array]:
    """The weighted sums [..., L, F], greatest scores and sums [..., L] of scores [..., L, S] and values [..., S, F]."""
    rows, zero = scores.shape[:-1], scores.dtype.type(0)
    most, total = np.full(rows, -np.inf, scores.dtype), np.zeros(rows, scores.dtype)
    mixed = np.zeros((*rows, v.shape[-1]), scores.dtype)
    with np.errstate(all="ignore"):
        for start in range(0, scores.shape[-1], KEYS):
            block, values = scores[..., start : start + KEYS], v[..., start : start + KEYS, :]
            before, most = most, maximum(most, _greatest(block))
            base = np.where(most == -np.inf, zero, most)
            factor, weights = exp(before - base), exp(block - base[..., None])
            total = total * factor + tree(np.moveaxis(weights, -1, 0), np.add)
            mixed = mixed * factor[..., None]
            for k in range(0, block.shape[-1], CHAIN):
                mixed = mixed + _chain(weights[..., k : k + CHAIN], values[..., k : k + CHAIN, :])
        return mixed + zero, most, total


def _greatest(scores: Array) -> Array:
    found = scores[..., 0]
    for k in range(1, scores.shape[-1]):
        found = maximum(found, scores[..., k])
    return found


def _chain(weights: Array, values: Array) -> Array:
    """The weighted sum of the values of one chain."""
    found = np.zeros((*weights.shape[:-1], values.shape[-1]), weights.dtype)
    for k in range(weights.shape[-1]):
        found = fma(weights[..., k, None], values[..., k, None, :], found)
    return found
