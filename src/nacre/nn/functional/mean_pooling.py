"""Means and p-norms of windows, as functions."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from nacre.api.elementwise.apply import require
from nacre.api.operands import TensorLike, as_tensor, filled, in_single, is_half, spread
from nacre.api.primitives import pointwise, view, window
from nacre.api.slope import power_root, root
from nacre.api.taking import Positions
from nacre.api.tensor import Tensor
from nacre.base.dims import Dim, product
from nacre.base.dtypes import FLOATING
from nacre.base.errors import ArgumentError
from nacre.nn.functional.max_pooling import Margins, PoolingWindows, Row, Sizes, alone, batched, pick, planes

__all__ = [
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "lp_pool1d",
    "lp_pool2d",
    "lp_pool3d",
]


def mean_over(
    operation: str,
    held: Any,
    w: PoolingWindows,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Any:
    """The sums of a batch's windows times the reciprocal of the count, or divided by it where counts differ."""
    require(operation, held.type.dtype, FLOATING)
    if is_half(held):
        return in_single(
            partial(mean_over, operation, w=w, count_include_pad=count_include_pad, divisor_override=divisor_override),
            held,
        )
    if divisor_override == 0:
        raise ArgumentError(f"{operation}: divisor_override must not be 0; got {divisor_override}")
    total = _window_sums(held, w.size, w.stride, w.margins)
    if divisor_override is not None or (not any(w.over) and (count_include_pad or not any(w.padding))):
        divisor = product(w.size) if divisor_override is None else divisor_override
        if not isinstance(divisor, Dim):
            return pointwise.mul(total, filled(total, 1.0 / divisor))
        share = as_tensor(1.0 / Positions(divisor).real(divisor), total.type.dtype)
        return pointwise.mul(total, spread(share, total.type.shape))
    counts = np.ones(())
    for k, length in enumerate(held.type.shape[2:]):
        counts = np.multiply.outer(counts, _counted(w, k, length, count_include_pad))
    shared = as_tensor(counts, held.type.dtype)
    spatial = tuple(range(2, held.type.rank))
    return pointwise.div(total, view.broadcast(shared, total.type.shape, spatial))


def _average(
    rank: int,
    x: TensorLike,
    kernel_size: Sizes,
    stride: Sizes | None,
    padding: Sizes,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None = None,
) -> Tensor:
    operation = f"avg_pool{rank}d"
    held, single = batched(x, rank, operation)
    w = PoolingWindows(operation, held.type.shape[2:], kernel_size, stride, padding, 1, ceil_mode)
    return alone(mean_over(operation, held, w, count_include_pad, divisor_override), single)


def _counted(w: PoolingWindows, k: int, length: int, margin: bool) -> np.ndarray:
    """The number of elements of each window along an axis, with or without the margins."""
    low, high = (-w.padding[k], length + w.padding[k]) if margin else (0, length)
    count = (length + sum(w.margins[k]) - w.size[k]) // w.stride[k] + 1
    starts = np.arange(count) * w.stride[k] - w.padding[k]
    return np.minimum(starts + w.size[k], high) - np.maximum(starts, low)


def _window_sums(x: Any, size: Row, stride: Row, margins: Margins) -> Any:
    def pool(v: Any, axes: Row) -> Any:
        """The sums over two axes."""
        return window.window_sum(v, pick(size, axes, 1), pick(stride, axes, 1), pick(margins, axes, (0, 0)))

    return planes(x, size, pool)


def avg_pool1d(
    x: TensorLike,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Tensor:
    """The mean of each window of signals [N, C, L] or [C, L]; see `avg_pool2d`.

    >>> F.avg_pool1d([[1.0, 2.0, 4.0, 3.0]], 2)
    Tensor([[1.5, 3.5]], f32[1, 2])
    """
    return _average(1, x, kernel_size, stride, padding, ceil_mode, count_include_pad)


def avg_pool2d(
    x: TensorLike,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """The sum of each window of images [N, C, H, W] or [C, H, W] times the reciprocal of its size.

    The default stride is the window size.  Padding counts as zeros, unless `count_include_pad` is false.
    `divisor_override` divides the sums instead of the window size.  Raises ShapeError for another rank, DTypeError for
    integers, ArgumentError for sizes out of range.

    >>> F.avg_pool2d([[[[1.0, 2.0], [3.0, 4.0]]]], 2)
    Tensor([[[[2.5]]]], f32[1, 1, 1, 1])
    """
    return _average(2, x, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)


def avg_pool3d(
    x: TensorLike,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """The mean of each window of volumes [N, C, D, H, W]; see `avg_pool2d`.

    >>> F.avg_pool3d(nc.ones((1, 1, 2, 2, 2)), 2).item()
    1.0
    """
    return _average(3, x, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)


# ---- norms


def _lp_pool(
    operation: str, rank: int, x: TensorLike, p: float, kernel_size: Sizes, stride: Sizes | None, ceil_mode: bool
) -> Tensor:
    if not p:
        raise ArgumentError(f"{operation}: norm_type must not be 0; got {p}")
    held, single = batched(x, rank, operation)
    require(operation, held.type.dtype, FLOATING)
    if is_half(held):
        whole = partial(_lp_pool, operation, rank, p=p, kernel_size=kernel_size, stride=stride, ceil_mode=ceil_mode)
        return alone(in_single(whole, held), single)
    w = PoolingWindows(operation, held.type.shape[2:], kernel_size, stride, 0, 1, ceil_mode)
    powers = pointwise.mul(held, held) if p == 2 else pointwise.pow_(held, filled(held, p))
    total: Any = _window_sums(powers, w.size, w.stride, w.margins)
    if any(w.over):  # the mean over the existing elements, times the size of a whole window
        mean: Any = mean_over(operation, powers, w)
        total = mean * float(np.prod(w.size))
    positive = pointwise.select(pointwise.le(total, filled(total, 0.0)), filled(total, 0.0), total)
    return alone(root(positive) if p == 2 else power_root(positive, p), single)


def lp_pool1d(
    x: TensorLike, norm_type: float, kernel_size: Sizes, stride: Sizes | None = None, ceil_mode: bool = False
) -> Tensor:
    """(Σ xᵖ)^(1/p) of each window of signals [N, C, L] or [C, L].

    The default stride is the window size.  Raises ArgumentError for a norm_type of 0, ShapeError for another rank.

    >>> F.lp_pool1d([[3.0, 4.0]], 2, 2)
    Tensor([[5.]], f32[1, 1])
    """
    return _lp_pool("lp_pool1d", 1, x, norm_type, kernel_size, stride, ceil_mode)


def lp_pool2d(
    x: TensorLike, norm_type: float, kernel_size: Sizes, stride: Sizes | None = None, ceil_mode: bool = False
) -> Tensor:
    """(Σ xᵖ)^(1/p) of each window of images [N, C, H, W] or [C, H, W].

    The default stride is the window size.  Raises ArgumentError for a norm_type of 0, ShapeError for another rank.

    >>> F.lp_pool2d([[[3.0, 4.0]]], 2, (1, 2)).item()
    5.0
    """
    return _lp_pool("lp_pool2d", 2, x, norm_type, kernel_size, stride, ceil_mode)


def lp_pool3d(
    x: TensorLike, norm_type: float, kernel_size: Sizes, stride: Sizes | None = None, ceil_mode: bool = False
) -> Tensor:
    """(Σ xᵖ)^(1/p) of each window of volumes [N, C, D, H, W].

    The default stride is the window size.  Raises ArgumentError for a norm_type of 0, ShapeError for another rank.

    >>> F.lp_pool3d(nc.ones((1, 1, 1, 2, 2)), 1, (1, 2, 2)).item()
    4.0
    """
    return _lp_pool("lp_pool3d", 3, x, norm_type, kernel_size, stride, ceil_mode)
