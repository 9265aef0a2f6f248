"""Softmax and its relatives: shares that add up to one along an axis."""

from __future__ import annotations

import math
from typing import Any

from nacre.api import random, searching
from nacre.api.elementwise.apply import require
from nacre.api.operands import TensorLike, as_tensor, filled
from nacre.api.primitives import pointwise, reduce, view
from nacre.api.tensor import Tensor
from nacre.base.dtypes import FLOATING
from nacre.base.types import normal_axis
from nacre.nn.functional.composite import composite
from nacre.nn.functional.linear_maps import one_hot
from nacre.ops.identity import detach

__all__ = [
    "gumbel_softmax",
    "log_softmax",
    "softmax",
    "softmin",
]


def along(reduced: Any, like: Any, axis: int) -> Any:
    """A reduced value broadcast back along the axis."""
    axes = tuple(k for k in range(len(like.type.shape)) if k != axis)
    return view.broadcast(reduced, like.type.shape, axes)


def softmax(x: TensorLike, dim: int = -1) -> Tensor:
    """exp(x − max) · (1 / Σ exp(x − max)) along an axis, the last one by default.

    `x` has a floating-point dtype; the result has its shape and dtype.  A row of only −∞ gives NaN.  Raises DTypeError
    for other dtypes, AxisError for an axis that x does not have.

    >>> F.softmax([0.0, 0.0])
    Tensor([0.5, 0.5], f32[2])
    """
    held = as_tensor(x)
    at = normal_axis(dim, len(held.type.shape), "softmax")

    def compute(v: Any) -> Any:
        """The exponentials over their sum."""
        raised, total = exponentials(v, at)
        return pointwise.mul(raised, along(share(total), v, at))

    return composite("softmax", held, compute, {"axis": at})


def exponentials(v: Any, axis: int, empties: bool = False) -> tuple[Any, Any]:
    """exp(v − max) and its sum along an axis.  max has no derivative: softmax does not depend on it.

    With `empties`, a row of −∞ gives zeros with the sum 0; without it, NaN.
    """
    high = detach(reduce.max_(v, (axis,)))
    if empties:
        high = pointwise.select(pointwise.eq(high, filled(high, -math.inf)), filled(high, 0.0), high)
    raised = pointwise.exp(pointwise.sub(v, along(high, v, axis)))
    return raised, reduce.sum_(raised, (axis,))


def share(total: Any, empties: bool = False) -> Any:
    """1 / total, for the sum of `exponentials`; 1 for an empty row."""
    one = filled(total, 1.0)
    if empties:
        total = pointwise.select(pointwise.eq(total, filled(total, 0.0)), one, total)
    return pointwise.div(one, total)


def masked_softmax(v: Any) -> Any:
    """softmax along the last axis, and zeros with derivative 0 for a row of −∞."""
    last = len(v.type.shape) - 1
    raised, total = exponentials(v, last, True)
    return pointwise.mul(raised, along(share(total, True), v, last))


def softmin(x: TensorLike, dim: int = -1) -> Tensor:
    """softmax(−x) along an axis, the last one by default.

    `x` has a floating-point dtype; the result has its shape and dtype.  Raises DTypeError for other dtypes.

    >>> F.softmin([0.0, 0.0])
    Tensor([0.5, 0.5], f32[2])
    """
    held = as_tensor(x)
    require("softmin", held.type.dtype, FLOATING)
    return softmax(pointwise.neg(held), dim)


def gumbel_softmax(logits: TensorLike, tau: float = 1.0, hard: bool = False, dim: int = -1) -> Tensor:
    """A sample of the relaxed categorical distribution (Jang et al. 2017): softmax((logits + noise) / tau).

    `logits` has a floating-point dtype; the result has its shape and dtype.  `hard` returns a one-hot vector with the
    gradient of the soft one.  Raises DTypeError for other dtypes.

    >>> F.gumbel_softmax([0.0, 0.0], hard=True).sum().item()
    1.0
    """
    held = as_tensor(logits)
    require("gumbel_softmax", held.type.dtype, FLOATING)
    at = normal_axis(dim, len(held.type.shape), "gumbel_softmax")

    def compute(v: Any) -> Any:
        """The noise is −log(−log u) for u in (0, 1)."""
        drawn: Any = 1.0 - random.uniform(v.type.shape, dtype=v.type.dtype)
        noise = pointwise.neg(pointwise.log(pointwise.neg(pointwise.log(drawn)) + 1e-20))
        soft: Any = softmax((v + noise) / tau, at)
        if not hard:
            return soft
        chosen = searching.argmax(detach(soft), axis=at)
        last = view.permute(one_hot(chosen, v.type.shape[at]), _last_to(at, len(v.type.shape)))
        return (as_tensor(last, v.type.dtype) - detach(soft)) + soft

    return composite("gumbel_softmax", held, compute)


def _last_to(axis: int, rank: int) -> tuple[int, ...]:
    """The permutation that moves the last axis to a position."""
    order = list(range(rank - 1))
    order.insert(axis, rank - 1)
    return tuple(order)


def shifted_logits(v: Any, axis: int) -> tuple[Any, Any]:
    """v − max, and log Σ exp(v − max) along an axis.  max has no derivative: it cancels."""
    high = detach(reduce.max_(v, (axis,)))
    moved = pointwise.sub(v, along(high, v, axis))
    return moved, pointwise.log(reduce.sum_(pointwise.exp(moved), (axis,)))


def log_softmax(x: TensorLike, dim: int = -1) -> Tensor:
    """x − max − log Σ exp(x − max) along an axis, the last one by default.

    `x` has a floating-point dtype; the result has its shape and dtype.  Raises DTypeError for other dtypes.

    >>> F.log_softmax([0.0, 0.0])
    Tensor([-0.6931472, -0.6931472], f32[2])
    """
    held = as_tensor(x)
    require("log_softmax", held.type.dtype, FLOATING)
    at = normal_axis(dim, len(held.type.shape), "log_softmax")

    def compute(v: Any) -> Any:
        """The logarithms of the shares."""
        moved, total = shifted_logits(v, at)
        return pointwise.sub(moved, along(total, v, at))

    return composite("log_softmax", held, compute, {"axis": at})
