"""Pooling into a given number of windows, as functions."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Final, cast

import numpy as np

from nacre.api.elementwise.apply import require
from nacre.api.operands import TensorLike, as_tensor, filled, in_single, is_half
from nacre.api.primitives import pointwise, reduce, view
from nacre.api.taking import take
from nacre.api.tensor import Tensor
from nacre.base.arguments import few, is_whole, whole_number
from nacre.base.dims import Dim
from nacre.base.dtypes import FLOATING
from nacre.base.errors import ArgumentError, ShapeError
from nacre.nn.functional.max_pooling import PoolingWindows, alone, batched, max_over
from nacre.nn.functional.mean_pooling import mean_over
from nacre.runtime.buffer import require_room

__all__ = [
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "adaptive_max_pool1d",
    "adaptive_max_pool2d",
    "adaptive_max_pool3d",
]


BYTES: Final = 16  # bytes of a window or a position, while they are computed
OptionalSizes = int | Sequence[int | None] | None


def _wanted(value: OptionalSizes, spatial: Any, operation: str) -> tuple[Any, ...]:
    """The number of windows along each axis; None keeps the size of the axis."""
    given: object = value
    single = given is None or isinstance(given, bool) or is_whole(given)
    listed: Any = (given,) if single else few(cast("Any", given), operation)
    listed = tuple(v if v is None else whole_number(v, operation, "output_size") for v in listed)
    listed = listed * len(spatial) if len(listed) == 1 else listed
    if len(listed) != len(spatial) or any(v is not None and v < 1 for v in listed):
        raise ArgumentError(f"{operation}: output_size must have {len(spatial)} positive sizes; got {value!r}")
    if not all(s > 0 for s in spatial):
        raise ShapeError(f"{operation}: sizes must be above 0; got {list(spatial)}")
    counts = tuple(s if v is None else v for v, s in zip(listed, spatial, strict=True))
    pairs = list(zip(counts, spatial, strict=True))
    if any(isinstance(n, Dim) or isinstance(s, Dim) for n, s in pairs) and not all(
        n in (1, s) or (isinstance(n, int) and isinstance(s, int) and s % n == 0) for n, s in pairs
    ):
        raise ShapeError(
            f"{operation}: with symbolic sizes, output_size must be 1 or None, or divide a fixed size, because other "
            f"windows have other lengths for each size; got {list(counts)} for sizes {list(spatial)}; fix the sizes"
        )
    return counts


def _ranges(length: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    """The beginnings and ends of `count` windows: ⌊k · length / count⌋ and ⌈(k + 1) · length / count⌉."""
    require_room(count * BYTES)
    k = np.arange(count)
    return k * length // count, -(-(k + 1) * length // count)


def _gathered(x: Any, axis: int, starts: np.ndarray, ends: np.ndarray) -> tuple[Any, int]:
    """x with the windows along an axis concatenated, each padded with its last element to the longest length."""
    longest = int((ends - starts).max())
    require_room(len(starts) * longest * BYTES)
    places = np.minimum(starts[:, None] + np.arange(longest), ends[:, None] - 1)
    return take(x, as_tensor(places.ravel()), axis=axis), longest


def _adaptive_max(operation: str, rank: int, x: TensorLike, output_size: OptionalSizes) -> Tensor:
    """Maxima; the padding repeats an element of the window, and the first of equals counts, so it changes nothing."""
    held, single = batched(x, rank, operation)
    counts = _wanted(output_size, held.type.shape[2:], operation)
    longest: list[int] = []
    for k, count in enumerate(counts):
        length = held.type.shape[k + 2]
        if length % count:
            held, size = _gathered(held, k + 2, *_ranges(length, count))
        else:
            size = length // count
        longest.append(size)
    return alone(max_over(operation, rank, held, longest, None, 0, 1, False), single)


def _adaptive_avg(operation: str, rank: int, x: TensorLike, output_size: OptionalSizes) -> Tensor:
    """Means by pooling if all windows have one size; else axis by axis, with a separate sum for each window."""
    held, single = batched(x, rank, operation)
    require(operation, held.type.dtype, FLOATING)
    if is_half(held):
        return alone(in_single(partial(_adaptive_avg, operation, rank, output_size=output_size), held), single)
    spatial = held.type.shape[2:]
    counts = _wanted(output_size, spatial, operation)
    if not any(s % n for s, n in zip(spatial, counts, strict=True)):
        w = PoolingWindows(operation, spatial, [s // n for s, n in zip(spatial, counts, strict=True)], None, 0)
        return alone(mean_over(operation, held, w), single)
    for k, count in enumerate(counts):
        held = _means(held, k + 2, count)
    return alone(held, single)


def _means(x: Any, axis: int, count: int) -> Any:
    """The means of windows along one axis."""
    starts, ends = _ranges(x.type.shape[axis], count)
    rows, longest = _gathered(x, axis, starts, ends)
    shape = rows.type.shape
    apart = view.reshape(rows, (*shape[:axis], count, longest, *shape[axis + 1 :]))
    present = view.broadcast(
        as_tensor(np.arange(longest) < (ends - starts)[:, None]), apart.type.shape, (axis, axis + 1)
    )
    total = reduce.sum_(pointwise.select(present, apart, filled(apart, 0.0)), (axis + 1,))
    share = as_tensor(1.0 / (ends - starts), x.type.dtype)
    return pointwise.mul(total, view.broadcast(share, total.type.shape, (axis,)))


def adaptive_max_pool1d(x: TensorLike, output_size: OptionalSizes) -> Tensor:
    """The maxima of a given number of windows that cover signals [N, C, L] or [C, L]; see `adaptive_avg_pool2d`.

    >>> F.adaptive_max_pool1d([[1.0, 2.0, 3.0]], 2)
    Tensor([[2., 3.]], f32[1, 2])
    """
    return _adaptive_max("adaptive_max_pool1d", 1, x, output_size)


def adaptive_max_pool2d(x: TensorLike, output_size: OptionalSizes) -> Tensor:
    """The maxima of a given number of windows that cover images [N, C, H, W] or [C, H, W]; see `adaptive_avg_pool2d`.

    >>> F.adaptive_max_pool2d(nc.ones((1, 2, 5, 7)), (2, None)).shape
    (1, 2, 2, 7)
    """
    return _adaptive_max("adaptive_max_pool2d", 2, x, output_size)


def adaptive_max_pool3d(x: TensorLike, output_size: OptionalSizes) -> Tensor:
    """The maxima of a given number of windows that cover volumes [N, C, D, H, W]; see `adaptive_avg_pool2d`.

    >>> F.adaptive_max_pool3d(nc.ones((1, 2, 5, 7, 3)), 2).shape
    (1, 2, 2, 2, 2)
    """
    return _adaptive_max("adaptive_max_pool3d", 3, x, output_size)


def adaptive_avg_pool1d(x: TensorLike, output_size: OptionalSizes) -> Tensor:
    """The means of a given number of windows that cover signals [N, C, L] or [C, L]; see `adaptive_avg_pool2d`.

    >>> F.adaptive_avg_pool1d([[1.0, 2.0, 3.0]], 2)
    Tensor([[1.5, 2.5]], f32[1, 2])
    """
    return _adaptive_avg("adaptive_avg_pool1d", 1, x, output_size)


def adaptive_avg_pool2d(x: TensorLike, output_size: OptionalSizes) -> Tensor:
    """The means of a given number of windows that cover images [N, C, H, W] or [C, H, W].

    `output_size` is the number of windows, for each axis or for all; None keeps the size of an axis.  Window k of n
    over a length reaches from ⌊k · length / n⌋ up to ⌈(k + 1) · length / n⌉.  Raises ShapeError for another rank or for
    empty axes, ArgumentError for sizes that are not positive.

    >>> F.adaptive_avg_pool2d(nc.ones((1, 2, 4, 7)), 3).shape
    (1, 2, 3, 3)
    """
    return _adaptive_avg("adaptive_avg_pool2d", 2, x, output_size)


def adaptive_avg_pool3d(x: TensorLike, output_size: OptionalSizes) -> Tensor:
    """The means of a given number of windows that cover volumes [N, C, D, H, W]; see `adaptive_avg_pool2d`.

    >>> F.adaptive_avg_pool3d(nc.ones((1, 2, 5, 7, 3)), 2).shape
    (1, 2, 2, 2, 2)
    """
    return _adaptive_avg("adaptive_avg_pool3d", 3, x, output_size)
