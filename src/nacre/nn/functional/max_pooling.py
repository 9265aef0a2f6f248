"""PoolingWindows over signals [N, C, L], images [N, C, H, W] and volumes [N, C, D, H, W], and their maxima.

The axis N may be absent.  The windows of a volume are pooled over H and W first, then over D.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from nacre.api.creation import zeros
from nacre.api.elementwise.apply import require
from nacre.api.indexing import index_update
from nacre.api.operands import TensorLike, as_tensor, filled, require_inside
from nacre.api.primitives import picking, pointwise, sorting, view, window
from nacre.api.tensor import Tensor
from nacre.base.arguments import whole_numbers
from nacre.base.dims import Dim, product
from nacre.base.dtypes import REAL, float64, int64, uint64
from nacre.base.errors import ArgumentError, DTypeError, ShapeError
from nacre.ops.identity import detach
from nacre.trace.value import is_concrete

__all__ = [
    "max_pool1d",
    "max_pool2d",
    "max_pool3d",
    "max_unpool1d",
    "max_unpool2d",
    "max_unpool3d",
]

Sizes = int | Sequence[int]
Row = tuple[int, ...]
Margins = tuple[tuple[int, int], ...]

_SHAPES = {1: "[N, C, L] or [C, L]", 2: "[N, C, H, W] or [C, H, W]", 3: "[N, C, D, H, W] or [C, D, H, W]"}


def sizes(value: Sizes, rank: int, operation: str, what: str) -> Row:
    """One number for all axes, or one for each."""
    return whole_numbers(value, operation, what, rank)


def batched(x: TensorLike, rank: int, operation: str, what: str = "") -> tuple[Any, bool]:
    """x with a batch axis, and whether it had none; an error calls it `what`."""
    held: Any = as_tensor(x)
    found = len(held.type.shape)
    if found not in (rank + 1, rank + 2):
        wanted = f"{what} {_SHAPES[rank]} are" if what else f"a shape {_SHAPES[rank]} is"
        raise ShapeError(f"{operation}: {wanted} required; got {held.type}")
    single = found == rank + 1
    return view.reshape(held, (1, *held.type.shape)) if single else held, single


def alone(y: Any, single: bool) -> Any:
    return view.reshape(y, y.type.shape[1:]) if single else y


class PoolingWindows:
    """The geometry of windows over the spatial axes: size, stride, margins on both sides, dilation."""

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
        given = stride is None or (not isinstance(stride, int | Dim) and not stride)
        default = tuple(1 if isinstance(s, Dim) else s for s in self.size)  # a window of symbolic size is alone
        self.stride = default if given else sizes(stride or 0, rank, operation, "stride")
        self.dilation = sizes(dilation, rank, operation, "dilation")
        self.padding = sizes(padding, rank, operation, "padding")
        if any(n < 1 for n in (*self.size, *self.stride, *self.dilation)):
            raise ArgumentError(
                f"{operation}: kernel size, stride and dilation must be positive; got {kernel_size}, {stride}, "
                f"{dilation}"
            )
        if any(not 0 <= 2 * m <= s for m, s in zip(self.padding, self.size, strict=True)):
            raise ArgumentError(
                f"{operation}: padding must be at most half the kernel size; got {self.padding} for {self.size}"
            )
        self.over = tuple(self._over(shape[k], k) if ceil_mode else 0 for k in range(rank))

    def _over(self, length: int, k: int) -> int:
        """The elements by which the last window may exceed the right margin; it must start before the margin."""
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


def planes(x: Any, w: Row, f: Callable[[Any, Row], Any]) -> Any:
    """Apply f, which pools the last two axes of [N, C, H, W], to one, two or three spatial axes.

    f receives the indices of the axes among the spatial ones; −1 stands for an axis of size 1.
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


def pick(values: Sequence[Any], axes: Row, default: Any) -> tuple[Any, Any]:
    first, second = (default if k < 0 else values[k] for k in axes)
    return first, second


# ---- maxima


def max_over(
    operation: str,
    rank: int,
    x: TensorLike,
    kernel_size: Sizes,
    stride: Sizes | None,
    padding: Sizes,
    dilation: Sizes,
    ceil_mode: bool,
    return_indices: bool = False,
) -> Any:
    held, single = batched(x, rank, operation)
    require(operation, held.type.dtype, REAL)
    w = PoolingWindows(operation, held.type.shape[2:], kernel_size, stride, padding, dilation, ceil_mode)

    def pool(v: Any, axes: Row) -> Any:
        """The maxima over two axes."""
        return window.window_max(v, *_windows(w, axes))

    found = alone(planes(held, w.size, pool), single)
    return (found, alone(_places(held, w), single)) if return_indices else found


def _windows(w: PoolingWindows, axes: Row) -> tuple[Any, Any, Any, Any]:
    """Size, stride, margins and dilation over two axes."""
    size, stride = pick(w.size, axes, 1), pick(w.stride, axes, 1)
    return size, stride, pick(w.margins, axes, (0, 0)), pick(w.dilation, axes, 1)


def _places(x: Any, w: PoolingWindows) -> Any:
    """The position of each window's maximum in the flattened spatial axes; the first one if several are equal.

    Positions have the dtype in which elements are compared: float64, which is exact below 2^53, or 64-bit integers.
    """
    dtype = float64 if x.type.dtype.is_float else uint64 if x.type.dtype is uint64 else int64
    wide = detach(as_tensor(x, dtype))
    count = product(x.type.shape[2:])
    place = view.broadcast(
        view.reshape(pointwise.iota((count,), 0, dtype), x.type.shape[2:]), x.type.shape, tuple(range(2, x.type.rank))
    )
    values = [wide]  # the maxima after each stage; the next stage selects positions from them

    def pool(v: Any, axes: Row) -> Any:
        """The positions of the maxima over two axes."""
        like = view.reshape(values[-1], v.type.shape)
        values.append(window.window_max(like, *_windows(w, axes)))
        return window.window_max_take(v, like, *_windows(w, axes))

    return pointwise.cast(planes(place, w.size, pool), int64)


def max_pool1d(
    x: TensorLike,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """The largest element of each window of signals [N, C, L] or [C, L]; the default stride is the window size.

    With `return_indices` the result is a pair, as for `max_pool2d`.  Raises ShapeError for another rank, ArgumentError
    for sizes out of range.

    >>> F.max_pool1d([[1.0, 2.0, 4.0, 3.0]], 2)
    Tensor([[2., 4.]], f32[1, 2])
    """
    return max_over("max_pool1d", 1, x, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


def max_pool2d(
    x: TensorLike,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """The largest element of each window of images [N, C, H, W] or [C, H, W]; the default stride is the window size.

    With `ceil_mode` a last window may reach beyond the margin, if it starts within the image or its left margin.  With
    `return_indices` the result is a pair: the maxima, and their int64 positions in the flattened image.  Raises
    ShapeError for another rank, ArgumentError for sizes out of range.

    >>> F.max_pool2d([[[[1.0, 2.0], [3.0, 4.0]]]], 2)
    Tensor([[[[4.]]]], f32[1, 1, 1, 1])
    """
    return max_over("max_pool2d", 2, x, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


def max_pool3d(
    x: TensorLike,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """The largest element of each window of volumes [N, C, D, H, W]; the default stride is the window size.

    With `return_indices` the result is a pair, as for `max_pool2d`.  Raises ShapeError for another rank, ArgumentError
    for sizes out of range.

    >>> F.max_pool3d(nc.ones((1, 2, 4, 4, 4)), 2).shape
    (1, 2, 2, 2, 2)
    """
    return max_over("max_pool3d", 3, x, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


def _placed(values: Any, places: Any, total: int) -> Any:
    """Values at traced positions among zeros; of equal positions the last one counts, and −1 is no position."""
    count = int(values.type.size)
    if not count or not total:
        return zeros(total, values.type.dtype)
    order = sorting.argsort(places, 0)  # equal places keep their order
    held = picking.take(places, order, 0)
    following = view.concatenate([view.slice_axis(held, 0, 1, count), filled(view.slice_axis(held, 0, 0, 1), -1)], 0)
    last = pointwise.ne(held, following)
    number = pointwise.select(last, pointwise.add(order, filled(order, 1)), filled(order, 0))
    whose = picking.take_add(zeros(total, int64), held, number, 0)  # from 1; 0 for a position without a value
    found = picking.take(values, pointwise.maximum(pointwise.sub(whose, filled(whose, 1)), filled(whose, 0)), 0)
    return pointwise.select(pointwise.gt(whose, filled(whose, 0)), found, filled(found, 0))


def _max_unpool(
    operation: str,
    rank: int,
    x: TensorLike,
    indices: TensorLike,
    kernel_size: Sizes,
    stride: Sizes | None,
    padding: Sizes,
    output_size: Sequence[int] | None,
) -> Tensor:
    """Each element at its position, with zeros elsewhere."""
    held, single = batched(x, rank, operation)
    places, _ = batched(indices, rank, operation)
    if not places.type.dtype.is_integer:
        raise DTypeError(f"{operation}: indices must be integers from max pooling; got {places.type}")
    places = as_tensor(places, int64)
    if places.type.shape != held.type.shape:
        raise ShapeError(f"{operation}: indices must have shape {list(held.type.shape)}; got {places.type}")
    w = PoolingWindows(operation, held.type.shape[2:], kernel_size, stride, padding)
    rows = zip(held.type.shape[2:], w.size, w.stride, w.padding, strict=True)
    spatial = tuple((n - 1) * step - 2 * margin + size for n, size, step, margin in rows)
    if output_size is not None:
        wanted = tuple(output_size)[-rank:]
        if any(abs(n - m) >= step for n, m, step in zip(wanted, spatial, w.stride, strict=True)):
            raise ShapeError(f"{operation}: output_size must be near {list(spatial)}; got {list(wanted)}")
        spatial = wanted
    outer, count = held.type.shape[:2], product(spatial)
    text = f"{operation}: indices must be in [{{low}}, {{high}}) for {list(spatial)}; got {{got}}; give the output_size"
    require_inside(places, 0, count, ArgumentError, text)
    first = view.reshape(pointwise.iota((outer[0] * outer[1],), 0, int64) * count, outer)
    whole = places + view.broadcast(first, places.type.shape, (0, 1))
    total = outer[0] * outer[1] * count
    if is_concrete(whole):
        found: Any = index_update(zeros(total, held.type.dtype), whole.flatten(), held.flatten())
    else:
        end = filled(places, int(count))
        inside = pointwise.and_(pointwise.ge(places, filled(places, 0)), pointwise.lt(places, end))
        found = _placed(held.flatten(), pointwise.select(inside, whole, filled(whole, -1)).flatten(), int(total))
    return alone(view.reshape(found, (*outer, *spatial)), single)


def max_unpool1d(
    x: TensorLike,
    indices: TensorLike,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    output_size: Sequence[int] | None = None,
) -> Tensor:
    """The inverse of `max_pool1d` with `return_indices`: maxima at their positions among zeros.

    [N, C, windows] or [C, windows] → [N, C, L] or [C, L].  Raises DTypeError, ShapeError or ArgumentError for indices
    that do not fit.

    >>> F.max_unpool1d([[2.0, 4.0]], [[1, 2]], 2)
    Tensor([[0., 2., 4., 0.]], f32[1, 4])
    """
    return _max_unpool("max_unpool1d", 1, x, indices, kernel_size, stride, padding, output_size)


def max_unpool2d(
    x: TensorLike,
    indices: TensorLike,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    output_size: Sequence[int] | None = None,
) -> Tensor:
    """The inverse of `max_pool2d` with `return_indices`: maxima at their positions among zeros.

    [N, C, h, w] or [C, h, w] → [N, C, H, W] or [C, H, W].  Raises DTypeError, ShapeError or ArgumentError for indices
    that do not fit.

    >>> F.max_unpool2d([[[4.0]]], [[[3]]], 2).tolist()
    [[[0.0, 0.0], [0.0, 4.0]]]
    """
    return _max_unpool("max_unpool2d", 2, x, indices, kernel_size, stride, padding, output_size)


def max_unpool3d(
    x: TensorLike,
    indices: TensorLike,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    output_size: Sequence[int] | None = None,
) -> Tensor:
    """The inverse of `max_pool3d` with `return_indices`: maxima at their positions among zeros.

    [N, C, d, h, w] or [C, d, h, w] → [N, C, D, H, W] or [C, D, H, W].  Raises DTypeError, ShapeError or ArgumentError
    for indices that do not fit.

    >>> F.max_unpool3d([[[[4.0]]]], [[[[7]]]], 2).shape
    (1, 2, 2, 2)
    """
    return _max_unpool("max_unpool3d", 3, x, indices, kernel_size, stride, padding, output_size)
