"""Dropout as functions: of elements, of channels, and the kind that preserves mean and variance."""

from __future__ import annotations

import math
from typing import Any

from nacre.api import random
from nacre.api.elementwise.apply import require
from nacre.api.operands import TensorLike, as_tensor, distinct, filled, settled_number
from nacre.api.primitives import pointwise, view
from nacre.api.searching import where
from nacre.api.statistical import wide_float
from nacre.api.tensor import Tensor
from nacre.base.dtypes import FLOATING
from nacre.base.errors import ArgumentError, ShapeError
from nacre.nn.functional.activation import SELU_ALPHA, SELU_SCALE
from nacre.nn.functional.composite import composite

__all__ = [
    "alpha_dropout",
    "dropout",
    "dropout1d",
    "dropout2d",
    "dropout3d",
    "feature_alpha_dropout",
]


def dropout(x: TensorLike, p: float = 0.5, training: bool = True, key: TensorLike | None = None) -> Tensor:
    """x / (1 − p) with probability 1 − p for each element, 0 otherwise; x itself when not training.

    `x` has any shape and a floating-point dtype; the result has its shape and dtype.  Without `key` the random numbers
    come from the global generator.  Raises ArgumentError for a probability outside [0, 1], DTypeError for integers.

    >>> F.dropout([1.0, 1.0], 0.0)
    Tensor([1., 1.], f32[2])
    """
    return _dropped("dropout", x, p, training, key, None)


def dropout1d(x: TensorLike, p: float = 0.5, training: bool = True) -> Tensor:
    """Keeps whole channels of [N, C, L] or [C, L], or sets them to 0.

    The result has the shape and dtype of x.  Raises ArgumentError for a probability outside [0, 1], DTypeError for
    integers, ShapeError for another rank.

    >>> F.dropout1d(nc.ones((2, 3, 4)), 1.0).sum().item()
    0.0
    """
    return _dropped("dropout1d", x, p, training, None, 1)


def dropout2d(x: TensorLike, p: float = 0.5, training: bool = True) -> Tensor:
    """Keeps whole channels of [N, C, H, W] or [C, H, W], or sets them to 0.

    The result has the shape and dtype of x.  Raises ArgumentError for a probability outside [0, 1], DTypeError for
    integers, ShapeError for another rank.

    >>> F.dropout2d(nc.ones((2, 3, 4, 4)), 1.0).sum().item()
    0.0
    """
    return _dropped("dropout2d", x, p, training, None, 2)


def dropout3d(x: TensorLike, p: float = 0.5, training: bool = True) -> Tensor:
    """Keeps whole channels of [N, C, D, H, W] or [C, D, H, W], or sets them to 0.

    The result has the shape and dtype of x.  Raises ArgumentError for a probability outside [0, 1], DTypeError for
    integers, ShapeError for another rank.

    >>> F.dropout3d(nc.ones((2, 3, 4, 4, 4)), 1.0).sum().item()
    0.0
    """
    return _dropped("dropout3d", x, p, training, None, 3)


def _dropped(
    operation: str, x: TensorLike, p: float, training: bool, key: TensorLike | None, inner: int | None
) -> Tensor:
    """x with elements, or slices over the `inner` last axes, unchanged or set to zero."""
    p = check_probability(operation, p)
    held = as_tensor(x)
    require(operation, held.type.dtype, FLOATING)
    shape = held.type.shape
    if inner is not None and len(shape) not in (inner + 1, inner + 2):
        raise ShapeError(f"{operation}: the rank must be {inner + 1} or {inner + 2}; got {held.type}")
    if not training or p == 0.0:
        return distinct(held, held)
    drawn = shape if inner is None else shape[: len(shape) - inner]
    mask = keep_mask(drawn, p, key)
    if inner is not None:
        mask = view.broadcast(mask, shape, tuple(range(len(drawn))))
    return pointwise.select(mask, *scaled(held, p))


def check_probability(operation: str, p: float) -> float:
    """The probability as a number; raises KindError for other values, ArgumentError for a number outside [0, 1]."""
    p = settled_number(p, operation, "p")
    if not 0.0 <= p <= 1.0:
        raise ArgumentError(f"{operation}: p must be a probability in [0, 1]; got {p}")
    return p


def keep_mask(shape: Any, p: float, key: TensorLike | None) -> Any:
    """Bools that are true with probability 1 − p."""
    drawn: Any = random.bits(shape, key=key)
    return pointwise.ge(drawn, filled(drawn, min(round(p * 2**32), 2**32 - 1)))


def scaled(x: Any, p: float) -> tuple[Any, Any]:
    """x / (1 − p), or zeros for p = 1; and zeros."""
    wide = wide_float(x)
    share = filled(wide, 0.0 if p == 1.0 else 1.0 / (1.0 - p))
    return as_tensor(pointwise.mul(wide, share), x.type.dtype), filled(x, 0.0)


def alpha_dropout(x: TensorLike, p: float = 0.5, training: bool = False) -> Tensor:
    """Dropout that preserves a mean of 0 and a variance of 1 (Klambauer et al. 2017), for use with `selu`.

    `x` has any shape and a floating-point dtype; the result has its shape and dtype.  Raises ArgumentError for a
    probability outside [0, 1], DTypeError for integers.

    >>> F.alpha_dropout([1.0, 2.0], training=False)
    Tensor([1., 2.], f32[2])
    """
    return _alpha_dropped("alpha_dropout", x, p, training, None)


def feature_alpha_dropout(x: TensorLike, p: float = 0.5, training: bool = False) -> Tensor:
    """`alpha_dropout` of whole channels (axis 1).

    `x` has a floating-point dtype; the result has its shape and dtype.  Raises ArgumentError for a probability outside
    [0, 1], DTypeError for integers.

    >>> F.feature_alpha_dropout([[1.0, 2.0]], training=False)
    Tensor([[1., 2.]], f32[1, 2])
    """
    return _alpha_dropped("feature_alpha_dropout", x, p, training, 2)


def _alpha_dropped(operation: str, x: TensorLike, p: float, training: bool, leading: int | None) -> Tensor:
    p = check_probability(operation, p)
    held = as_tensor(x)
    require(operation, held.type.dtype, FLOATING)
    if not training or p == 0.0:
        return distinct(held, held)
    low = -SELU_ALPHA * SELU_SCALE
    factor = 0.0 if p == 1.0 else 1.0 / math.sqrt((1.0 - p) * (1.0 + p * low * low))
    shift = -factor * low * p
    shape = held.type.shape

    def compute(v: Any) -> Any:
        """Dropped elements saturate at selu's lower limit."""
        drawn = shape if leading is None else shape[:leading]
        mask = view.broadcast(keep_mask(drawn, p, None), shape, tuple(range(len(drawn))))
        return where(mask, v, filled(v, low)) * factor + shift

    return composite(operation, held, compute)
