"""Running extrema and logarithms of sums along an axis.  Names follow PyTorch."""

from __future__ import annotations

from functools import partial
from typing import Any

from nacre.api.elementwise.apply import require
from nacre.api.elementwise.transcendental import logaddexp
from nacre.api.manipulation import cut
from nacre.api.operands import TensorLike, as_tensor, in_single
from nacre.api.primitives import picking, reduce, view
from nacre.api.tensor import Tensor
from nacre.base.dtypes import FLOATING, ORDERED, bool_, uint8
from nacre.base.errors import ShapeError
from nacre.base.types import normal_axis

__all__ = ["cummax", "cummin", "logcumsumexp"]


def cummax(x: TensorLike, /, axis: int | None = None) -> tuple[Tensor, Tensor]:
    """The largest element so far along an axis, and its position (int64).

    Of equal elements the last one is taken; NaN is larger than all numbers.  For a vector, the axis may be omitted.

    >>> nc.cummax([1, 3, 2, 3])
    (Tensor([1, 3, 3, 3], i64[4]), Tensor([0, 1, 1, 3], i64[4]))
    """
    return _running("cummax", reduce.cumargmax, x, axis)


def cummin(x: TensorLike, /, axis: int | None = None) -> tuple[Tensor, Tensor]:
    """The smallest element so far along an axis, and its position (int64).

    Of equal elements the last one is taken; NaN is smaller than all numbers.  For a vector, the axis may be omitted.

    >>> nc.cummin([3, 1, 2, 1])
    (Tensor([3, 1, 1, 1], i64[4]), Tensor([0, 1, 1, 3], i64[4]))
    """
    return _running("cummin", reduce.cumargmin, x, axis)


def axis_of(operation: str, x: Any, axis: int | None) -> int:
    """The axis of a running function, which may be omitted for a vector."""
    rank = len(x.type.shape)
    if axis is None and rank != 1:
        raise ShapeError(
            f"{operation}: axis must be given for x of rank {rank}; got none; write axis=0, or x.flatten()"
        )
    return normal_axis(0 if axis is None else axis, rank, operation)


def _running(operation: str, op: Any, x: TensorLike, axis: int | None) -> tuple[Any, Any]:
    held = as_tensor(x)
    require(operation, held.type.dtype, ORDERED)
    at = axis_of(operation, held, axis)
    places = op(as_tensor(held, uint8) if held.type.dtype is bool_ else held, at)
    return picking.gather(held, places, at), places


def logcumsumexp(x: TensorLike, /, axis: int | None = None) -> Tensor:
    """log(Σ eˣ) of the elements so far along an axis, without intermediate overflow.

    The sums are those of windows whose length doubles, each by `logaddexp`.  For a vector, the axis may be omitted.

    >>> nc.logcumsumexp([0.0, 0.0, 0.0])
    Tensor([0.       , 0.6931472, 1.0986123], f32[3])
    """
    held = as_tensor(x)
    require("logcumsumexp", held.type.dtype, FLOATING)
    at = axis_of("logcumsumexp", held, axis)
    return in_single(partial(_windows, axis=at), held)


def _windows(x: Any, axis: int) -> Any:
    size = x.type.shape[axis]
    window = 1
    while window < size:
        sums = logaddexp(cut(x, axis, 0, size - window), cut(x, axis, window, size))
        x = view.concatenate([cut(x, axis, 0, window), sums], axis)
        window *= 2
    return x
