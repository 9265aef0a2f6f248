"""Pooling of signals [N, C, L], images [N, C, H, W] and volumes [N, C, D, H, W] as functions.

Without the axis N they are taken as one.  A volume's windows are pooled over H and W first, then over D.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from nacre.api.functions import REAL, require
from nacre.api.indexing import take
from nacre.api.operands import TensorLike, as_tensor, filled
from nacre.api.primitives import pointwise, reduce, view, window
from nacre.api.tensor import Tensor
from nacre.base.errors import ArgumentError, ShapeError

__all__ = [
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "adaptive_max_pool1d",
    "adaptive_max_pool2d",
    "adaptive_max_pool3d",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "lp_pool1d",
    "lp_pool2d",
    "lp_pool3d",
    "max_pool1d",
    "max_pool2d",
    "max_pool3d",
]

Sizes = int | Sequence[int]
OptionalSizes = int | Sequence[int | None] | None
Row = tuple[int, ...]
Margins = tuple[tuple[int, int], ...]

_SHAPES = {1: "[N, C, L] or [C, L]", 2: "[N, C, H, W] or [C, H, W]", 3: "[N, C, D, H, W] or [C, D, H, W]"}


def sizes(value: Sizes, rank: int, operation: str, what: str) -> Row:
    """One number for all axes, or one for each."""
    found = (value,) * rank if isinstance(value, int) else tuple(int(v) for v in value)
    found = found * rank if len(found) == 1 else found
    if len(found) != rank:
        raise ArgumentError(f"{operation}: one number or {rank} are required as {what}; got {value!r}")
    return found


def batched(x: TensorLike, rank: int, operation: str) -> tuple[Any, bool]:
    """x with the axis of the batch, and whether it was without."""
    held: Any = as_tensor(x)
    found = len(held.type.shape)
    if found not in (rank + 1, rank + 2):
        raise ShapeError(f"{operation}: a shape {_SHAPES[rank]} is required; got {held.type}")
    single = found == rank + 1
    return view.reshape(held, (1, *held.type.shape)) if single else held, single


def _alone(y: Any, single: bool) -> Any:
    return view.reshape(y, y.type.shape[1:]) if single else y


class _Windows:
    """How windows lie over the spatial axes: size, stride, margins on both sides, dilation."""

    def __init__(
        self,
        operation: str,
        shape: Any,
        kernel_size: Sizes,
        stride: Sizes | None,
        padding: Sizes,
        dilation: Sizes = 1,
        ceil_mode: bool = False,
    ) -> None:
        rank = len(shape)
        self.size = sizes(kernel_size, rank, operation, "kernel_size")
        given = stride is None or (not isinstance(stride, int) and not stride)
        self.stride = self.size if given else sizes(stride or 0, rank, operation, "stride")
        self.dilation = sizes(dilation, rank, operation, "dilation")
        self.padding = sizes(padding, rank, operation, "padding")
        if any(n < 1 for n in (*self.size, *self.stride, *self.dilation)):
            raise ArgumentError(f"{operation}: positive sizes are required; got {kernel_size}, {stride}, {dilation}")
        if any(not 0 <= 2 * m <= s for m, s in zip(self.padding, self.size, strict=True)):
            raise ArgumentError(
                f"{operation}: a padding of at most half the kernel is required; got {self.padding} for {self.size}"
            )
        self.over = tuple(self._over(shape[k], k) if ceil_mode else 0 for k in range(rank))

    def _over(self, length: int, k: int) -> int:
        """How far the last window may reach beyond the right margin: it starts left of the margin."""
        whole = length + 2 * self.padding[k]
        span = self.dilation[k] * (self.size[k] - 1) + 1
        count = -(-(whole - span) // self.stride[k]) + 1
        if (count - 1) * self.stride[k] >= length + self.padding[k]:
            count -= 1
        return max(0, (count - 1) * self.stride[k] + span - whole)

    @property
    def margins(self) -> Margins:
        """The margins before and after each axis."""
        return tuple((m, m + more) for m, more in zip(self.padding, self.over, strict=True))


def _planes(x: Any, w: Row, f: Callable[[Any, Row], Any]) -> Any:
    """Apply f, which pools the last two axes of [N, C, H, W], to one, two or three spatial axes.

    f takes the places of the axes among the spatial ones; −1 stands for an axis of size 1.
    """
    count, channels, *spatial = x.type.shape
    if len(w) == 1:
        y = f(view.reshape(x, (count, channels, 1, *spatial)), (-1, 0))
        return view.reshape(y, (count, channels, y.type.shape[3]))
    if len(w) == 2:
        return f(x, (0, 1))
    depth, height, width = spatial
    y = f(view.reshape(x, (count, channels * depth, height, width)), (1, 2))
    plane = y.type.shape[2:]
    y = f(view.reshape(y, (count, channels, depth, plane[0] * plane[1])), (0, -1))
    return view.reshape(y, (count, channels, y.type.shape[2], *plane))


def _pick(values: Sequence[Any], axes: Row, default: Any) -> tuple[Any, Any]:
    first, second = (default if k < 0 else values[k] for k in axes)
    return first, second


# ---- maxima


def _max_pool(
    operation: str,
    rank: int,
    x: TensorLike,
    kernel_size: Sizes,
    stride: Sizes | None,
    padding: Sizes,
    dilation: Sizes,
    ceil_mode: bool,
) -> Tensor:
    held, single = batched(x, rank, operation)
    w = _Windows(operation, held.type.shape[2:], kernel_size, stride, padding, dilation, ceil_mode)

    def pool(v: Any, axes: Row) -> Any:
        """The maxima over two axes."""
        size, steps = _pick(w.size, axes, 1), _pick(w.stride, axes, 1)
        return window.window_max(v, size, steps, _pick(w.margins, axes, (0, 0)), _pick(w.dilation, axes, 1))

    return _alone(_planes(held, w.size, pool), single)


def max_pool1d(
    x: TensorLike,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
) -> Tensor:
    """The largest element of each window of signals [N, C, L]; the stride is the window unless given.

    >>> F.max_pool1d([[1.0, 2.0, 4.0, 3.0]], 2)
    Tensor([[2., 4.]], f32[1, 2])
    """
    return _max_pool("max_pool1d", 1, x, kernel_size, stride, padding, dilation, ceil_mode)


def max_pool2d(
    x: TensorLike,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
) -> Tensor:
    """The largest element of each window of images [N, C, H, W]; the stride is the window unless given.

    With `ceil_mode` a last window may reach beyond the margin, if it starts within the image or its left margin.

    >>> F.max_pool2d([[[[1.0, 2.0], [3.0, 4.0]]]], 2)
    Tensor([[[[4.]]]], f32[1, 1, 1, 1])
    """
    return _max_pool("max_pool2d", 2, x, kernel_size, stride, padding, dilation, ceil_mode)


def max_pool3d(
    x: TensorLike,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
) -> Tensor:
    """The largest element of each window of volumes [N, C, D, H, W]; the stride is the window unless given.

    >>> F.max_pool3d(nc.ones((1, 2, 4, 4, 4)), 2).shape
    (1, 2, 2, 2, 2)
    """
    return _max_pool("max_pool3d", 3, x, kernel_size, stride, padding, dilation, ceil_mode)


# ---- means


def _avg_pool(
    operation: str,
    rank: int,
    x: TensorLike,
    w: _Windows,
    count_include_pad: bool,
    divisor_override: int | None,
) -> Tensor:
    """The sums of windows times the reciprocal of what they count, or divided by it where that is not one number."""
    held, single = batched(x, rank, operation)
    require(operation, held.type.dtype, REAL)
    if divisor_override == 0:
        raise ArgumentError(f"{operation}: a divisor_override other than 0 is required; got 0")
    total = _window_sums(held, w.size, w.stride, w.margins)
    if divisor_override is not None or (not any(w.over) and (count_include_pad or not any(w.padding))):
        divisor = int(np.prod(w.size)) if divisor_override is None else divisor_override
        return _alone(pointwise.mul(total, filled(total, 1.0 / divisor)), single)
    counts = np.ones(())
    for k, length in enumerate(held.type.shape[2:]):
        counts = np.multiply.outer(counts, _counted(w, k, length, count_include_pad))
    shared = as_tensor(counts, held.type.dtype)
    spatial = tuple(range(2, rank + 2))
    return _alone(pointwise.div(total, view.broadcast(shared, total.type.shape, spatial)), single)


def _counted(w: _Windows, k: int, length: int, margin: bool) -> np.ndarray:
    """How many elements, with those of the margins or without, each window along an axis has."""
    low, high = (-w.padding[k], length + w.padding[k]) if margin else (0, length)
    count = (length + sum(w.margins[k]) - w.size[k]) // w.stride[k] + 1
    starts = np.arange(count) * w.stride[k] - w.padding[k]
    return np.minimum(starts + w.size[k], high) - np.maximum(starts, low)


def _window_sums(x: Any, size: Row, stride: Row, margins: Margins) -> Any:
    def pool(v: Any, axes: Row) -> Any:
        """The sums over two axes."""
        return window.window_sum(v, _pick(size, axes, 1), _pick(stride, axes, 1), _pick(margins, axes, (0, 0)))

    return _planes(x, size, pool)


def avg_pool1d(
    x: TensorLike,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Tensor:
    """The mean of each window of signals [N, C, L]; see `avg_pool2d`.

    >>> F.avg_pool1d([[1.0, 2.0, 4.0, 3.0]], 2)
    Tensor([[1.5, 3.5]], f32[1, 2])
    """
    shape = batched(x, 1, "avg_pool1d")[0].type.shape[2:]
    w = _Windows("avg_pool1d", shape, kernel_size, stride, padding, 1, ceil_mode)
    return _avg_pool("avg_pool1d", 1, x, w, count_include_pad, None)


def avg_pool2d(
    x: TensorLike,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """The sum of each window of images [N, C, H, W] times the reciprocal of its size.

    Padding counts as zeros unless `count_include_pad` is false; `divisor_override` is what a sum is divided by.

    >>> F.avg_pool2d([[[[1.0, 2.0], [3.0, 4.0]]]], 2)
    Tensor([[[[2.5]]]], f32[1, 1, 1, 1])
    """
    shape = batched(x, 2, "avg_pool2d")[0].type.shape[2:]
    w = _Windows("avg_pool2d", shape, kernel_size, stride, padding, 1, ceil_mode)
    return _avg_pool("avg_pool2d", 2, x, w, count_include_pad, divisor_override)


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
    shape = batched(x, 3, "avg_pool3d")[0].type.shape[2:]
    w = _Windows("avg_pool3d", shape, kernel_size, stride, padding, 1, ceil_mode)
    return _avg_pool("avg_pool3d", 3, x, w, count_include_pad, divisor_override)


# ---- norms


def _lp_pool(
    operation: str, rank: int, x: TensorLike, p: float, kernel_size: Sizes, stride: Sizes | None, ceil_mode: bool
) -> Tensor:
    held, single = batched(x, rank, operation)
    require(operation, held.type.dtype, REAL)
    w = _Windows(operation, held.type.shape[2:], kernel_size, stride, 0, 1, ceil_mode)
    powers = pointwise.mul(held, held) if p == 2 else pointwise.pow_(held, filled(held, p))
    total: Any = _window_sums(powers, w.size, w.stride, w.margins)
    if any(w.over):  # the mean over what is there, times the size of a whole window
        mean: Any = _avg_pool(operation, rank, powers, w, True, None)
        total = mean * float(np.prod(w.size))
    positive = pointwise.maximum(total, filled(total, 0.0))
    return _alone(pointwise.sqrt(positive) if p == 2 else pointwise.pow_(positive, filled(total, 1.0 / p)), single)


def lp_pool1d(
    x: TensorLike, norm_type: float, kernel_size: Sizes, stride: Sizes | None = None, ceil_mode: bool = False
) -> Tensor:
    """(Σ xᵖ)^(1/p) of each window of signals [N, C, L].

    >>> F.lp_pool1d([[3.0, 4.0]], 2, 2)
    Tensor([[5.]], f32[1, 1])
    """
    return _lp_pool("lp_pool1d", 1, x, norm_type, kernel_size, stride, ceil_mode)


def lp_pool2d(
    x: TensorLike, norm_type: float, kernel_size: Sizes, stride: Sizes | None = None, ceil_mode: bool = False
) -> Tensor:
    """(Σ xᵖ)^(1/p) of each window of images [N, C, H, W].

    >>> F.lp_pool2d([[[3.0, 4.0]]], 2, (1, 2)).item()
    5.0
    """
    return _lp_pool("lp_pool2d", 2, x, norm_type, kernel_size, stride, ceil_mode)


def lp_pool3d(
    x: TensorLike, norm_type: float, kernel_size: Sizes, stride: Sizes | None = None, ceil_mode: bool = False
) -> Tensor:
    """(Σ xᵖ)^(1/p) of each window of volumes [N, C, D, H, W].

    >>> F.lp_pool3d(nc.ones((1, 1, 1, 2, 2)), 1, (1, 2, 2)).item()
    4.0
    """
    return _lp_pool("lp_pool3d", 3, x, norm_type, kernel_size, stride, ceil_mode)


# ---- a given number of windows


def _wanted(value: OptionalSizes, spatial: Any, operation: str) -> Row:
    """The number of windows along each axis; None keeps the axis as it is."""
    listed = (value,) * len(spatial) if value is None or isinstance(value, int) else tuple(value)
    listed = listed * len(spatial) if len(listed) == 1 else listed
    if len(listed) != len(spatial) or any(v is not None and v < 1 for v in listed):
        raise ArgumentError(f"{operation}: {len(spatial)} positive sizes are required as output_size; got {value!r}")
    if not all(isinstance(s, int) and s > 0 for s in spatial):
        raise ShapeError(f"{operation}: known sizes above 0 are required; got {list(spatial)}")
    return tuple(s if v is None else v for v, s in zip(listed, spatial, strict=True))


def _ranges(length: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Where window k of `count` begins and ends: ⌊k · length / count⌋ and ⌈(k + 1) · length / count⌉."""
    k = np.arange(count)
    return k * length // count, -(-(k + 1) * length // count)


def _gathered(x: Any, axis: int, starts: np.ndarray, ends: np.ndarray) -> tuple[Any, int]:
    """x with the windows along an axis one after the other, each as long as the longest, ended by its last element."""
    longest = int((ends - starts).max())
    places = np.minimum(starts[:, None] + np.arange(longest), ends[:, None] - 1)
    return take(x, as_tensor(places.ravel()), axis=axis), longest


def _adaptive_max(operation: str, rank: int, x: TensorLike, output_size: OptionalSizes) -> Tensor:
    """An element that stands twice in a window is its first one's equal, which counts, so nothing changes by it."""
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
    return _alone(_max_pool(operation, rank, held, longest, None, 0, 1, False), single)


def _adaptive_avg(operation: str, rank: int, x: TensorLike, output_size: OptionalSizes) -> Tensor:
    """Pooling where the windows are of one size; else axis by axis, each window summed up by itself."""
    held, single = batched(x, rank, operation)
    require(operation, held.type.dtype, REAL)
    spatial = held.type.shape[2:]
    counts = _wanted(output_size, spatial, operation)
    if not any(s % n for s, n in zip(spatial, counts, strict=True)):
        w = _Windows(operation, spatial, [s // n for s, n in zip(spatial, counts, strict=True)], None, 0)
        return _alone(_avg_pool(operation, rank, held, w, True, None), single)
    for k, count in enumerate(counts):
        held = _means(held, k + 2, count)
    return _alone(held, single)


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
    """The maxima of a given number of windows that cover signals [N, C, L]; see `adaptive_avg_pool2d`.

    >>> F.adaptive_max_pool1d([[1.0, 2.0, 3.0]], 2)
    Tensor([[2., 3.]], f32[1, 2])
    """
    return _adaptive_max("adaptive_max_pool1d", 1, x, output_size)


def adaptive_max_pool2d(x: TensorLike, output_size: OptionalSizes) -> Tensor:
    """The maxima of a given number of windows that cover images [N, C, H, W]; see `adaptive_avg_pool2d`.

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
    """The means of a given number of windows that cover signals [N, C, L]; see `adaptive_avg_pool2d`.

    >>> F.adaptive_avg_pool1d([[1.0, 2.0, 3.0]], 2)
    Tensor([[1.5, 2.5]], f32[1, 2])
    """
    return _adaptive_avg("adaptive_avg_pool1d", 1, x, output_size)


def adaptive_avg_pool2d(x: TensorLike, output_size: OptionalSizes) -> Tensor:
    """The means of a given number of windows that cover images [N, C, H, W]; None keeps an axis as it is.

    Window k of n over a length reaches from ⌊k · length / n⌋ up to ⌈(k + 1) · length / n⌉.

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
