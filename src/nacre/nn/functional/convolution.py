"""Convolution of images [N, C, H, W] (and signals [N, C, L]) as functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from nacre.api import statistical
from nacre.api.elementwise.apply import of_tensors, require
from nacre.api.operands import TensorLike, as_tensor, constant, is_half, meet
from nacre.api.primitives import pointwise, view, winograd
from nacre.api.tensor import Tensor
from nacre.base.dtypes import FLOATING
from nacre.base.errors import ArgumentError, ShapeError
from nacre.base.types import Shape
from nacre.interpret.precision.functions import autocasting
from nacre.nn.functional.max_pooling import Sizes, alone, batched, sizes

__all__ = [
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
]

Pair = tuple[int, int]


def pair(value: Sizes, operation: str, what: str) -> Pair:
    """One number for both axes, or one for each."""
    rows, columns = sizes(value, 2, operation, what)
    return rows, columns


def one(value: Sizes, operation: str, what: str) -> int:
    """One number, given directly or as a sequence of one."""
    return sizes(value, 1, operation, what)[0]


def margins(
    value: Sizes | str, kernel: Sequence[int], dilation: Sequence[int], stride: Sequence[int], operation: str
) -> tuple[Pair, ...]:
    """The padding before and after each axis, from numbers or a name."""
    rank = len(kernel)
    if value == "valid":
        return ((0, 0),) * rank
    if value == "same":
        if stride != (1,) * rank:
            raise ArgumentError(f'{operation}: padding "same" needs stride 1; got {stride}')
        totals = [d * (k - 1) for k, d in zip(kernel, dilation, strict=True)]
        return tuple((n // 2, n - n // 2) for n in totals)
    if isinstance(value, str):
        raise ArgumentError(f'{operation}: padding must be numbers, "same" or "valid"; got {value!r}')
    return tuple((n, n) for n in sizes(value, rank, operation, "padding"))


def with_bias(operation: str, f: Callable[..., Any], x: Any, w: Any, bias: TensorLike | None, *settings: Any) -> Any:
    """f(x, w, *settings), a convolution [N, O, …], plus a number for each channel.

    The bias is added to the sums of half types in float32, which are rounded once.
    """
    if bias is None:
        return f(x, w, *settings)
    b = as_tensor(bias, x.type.dtype)

    def computed(x: Any, w: Any, b: Any) -> Any:
        """The convolution with its bias, in at least float32."""
        sums = f(statistical.wide_float(x), statistical.wide_float(w), *settings)
        return as_tensor(_plus(sums, b, operation), b.type.dtype)

    return of_tensors(operation, computed, (x, w, b), settings=settings) if is_half(b) else computed(x, w, b)


def _plus(y: Any, bias: TensorLike, operation: str) -> Any:
    """y [N, O, …] plus a number for each channel."""
    held = as_tensor(bias, y.type.dtype)
    if held.type.shape != (y.type.shape[1],):
        raise ShapeError(
            f"{operation}: bias must have one number for each of {y.type.shape[1]} channels; got {held.type}"
        )
    return pointwise.add(y, view.broadcast(held, y.type.shape, (1,)))


@autocasting
def conv2d(
    x: TensorLike,
    weight: TensorLike,
    bias: TensorLike | None = None,
    stride: Sizes = 1,
    padding: Sizes | str = 0,
    dilation: Sizes = 1,
    groups: int = 1,
) -> Tensor:
    """The cross-correlation of images [N, C, H, W] with filters [O, C/groups, kh, kw], plus a bias [O].

    The result is [N, O, H', W']; the axis N may be absent.  `padding` is a number, one for each axis, "same" or
    "valid".  The result has the promoted dtype.  Raises ShapeError if channels, groups or sizes do not fit, DTypeError
    for integers.

    >>> F.conv2d(nc.ones((1, 1, 3, 3)), nc.ones((1, 1, 2, 2))).shape
    (1, 1, 2, 2)
    """
    (images, filters), dtype = meet("conv2d", (x, weight))
    require("conv2d", dtype, FLOATING)
    images, single = batched(images, 2, "conv2d", "images")
    shape = filters.type.shape
    if len(shape) != 4:
        raise ShapeError(f"conv2d: filters must be [O, C/groups, kh, kw]; got {filters.type}")
    steps, spacing = pair(stride, "conv2d", "stride"), pair(dilation, "conv2d", "dilation")
    around = margins(padding, shape[2:], spacing, steps, "conv2d")
    y = with_bias("conv2d", winograd.correlate, images, filters, bias, steps, around, spacing, groups)
    return alone(y, single)


@autocasting
def conv1d(
    x: TensorLike,
    weight: TensorLike,
    bias: TensorLike | None = None,
    stride: Sizes = 1,
    padding: Sizes | str = 0,
    dilation: Sizes = 1,
    groups: int = 1,
) -> Tensor:
    """The cross-correlation of signals [N, C, L] with filters [O, C/groups, k], plus a bias [O] → [N, O, L'].

    The axis N may be absent.  The other arguments and the errors are those of `conv2d`.

    >>> F.conv1d(nc.ones((1, 1, 5)), nc.ones((1, 1, 2))).shape
    (1, 1, 4)
    """
    signals: Any = as_tensor(x)
    filters: Any = as_tensor(weight)
    if signals.type.rank not in (2, 3) or filters.type.rank != 3:
        raise ShapeError(
            f"conv1d: signals must be [N, C, L] or [C, L], and filters [O, C/groups, k]; got {signals.type} and "
            f"{filters.type}"
        )
    rows = view.reshape(signals, (*signals.type.shape[:-1], 1, signals.type.shape[-1]))
    flat = view.reshape(filters, (*filters.type.shape[:2], 1, filters.type.shape[2]))
    margin = padding if isinstance(padding, str) else (0, one(padding, "conv1d", "padding"))
    step, spacing = one(stride, "conv1d", "stride"), one(dilation, "conv1d", "dilation")
    y: Any = conv2d(rows, flat, bias, (1, step), margin, (1, spacing), groups)
    return view.reshape(y, (*y.type.shape[:-2], y.type.shape[-1]))


@autocasting
def conv_transpose2d(
    x: TensorLike,
    weight: TensorLike,
    bias: TensorLike | None = None,
    stride: Sizes = 1,
    padding: Sizes = 0,
    output_padding: Sizes = 0,
    groups: int = 1,
    dilation: Sizes = 1,
) -> Tensor:
    """The transpose of `conv2d`: images [N, C, H, W] and filters [C, O/groups, kh, kw] give [N, O, …].

    The axis N may be absent.  Raises ShapeError if channels, groups or sizes do not fit, ArgumentError for an
    output_padding that is too large.

    >>> F.conv_transpose2d(nc.ones((1, 1, 2, 2)), nc.ones((1, 1, 2, 2)), stride=2).shape
    (1, 1, 4, 4)
    """
    operation = "conv_transpose2d"
    (images, filters), dtype = meet(operation, (x, weight))
    require(operation, dtype, FLOATING)
    images, single = batched(images, 2, operation, "images")
    steps, spacing = pair(stride, operation, "stride"), pair(dilation, operation, "dilation")
    more, margin = pair(output_padding, operation, "output_padding"), pair(padding, operation, "padding")
    count, channels, *sizes = images.type.shape
    if len(filters.type.shape) != 4 or filters.type.shape[0] != channels:
        raise ShapeError(f"{operation}: filters must be [{channels}, O/groups, kh, kw]; got {filters.type}")
    if any(not 0 <= m < max(s, d) for m, s, d in zip(more, steps, spacing, strict=True)):
        raise ArgumentError(f"{operation}: output_padding must be below stride or dilation; got {more}")
    kernel = filters.type.shape[2:]
    spatial = tuple(
        (sizes[k] - 1) * steps[k] - 2 * margin[k] + spacing[k] * (kernel[k] - 1) + more[k] + 1 for k in (0, 1)
    )
    if any([isinstance(n, int) and n < 0 for n in spatial]):
        raise ShapeError(
            f"{operation}: the result must not have negative sizes; got {list(spatial)} from images of {sizes}, "
            f"windows of {list(kernel)} and padding {list(margin)}; use less padding"
        )
    # whole steps of output_padding are rows that the margin would cut off, followed by rows of zeros
    whole = tuple(m // s * s for m, s in zip(more, steps, strict=True))
    beyond = tuple(max(0, w - m) for w, m in zip(whole, margin, strict=True))
    shape = (count, filters.type.shape[1] * groups, *(n - b for n, b in zip(spatial, beyond, strict=True)))
    around = tuple((m, max(0, m - w)) for m, w in zip(margin, whole, strict=True))
    y = with_bias(operation, _transposed, images, filters, bias, shape, steps, around, spacing, groups, beyond)
    return alone(y, single)


def _transposed(
    x: Any, w: Any, shape: Shape, stride: Pair, padding: Any, dilation: Pair, groups: int, beyond: Pair
) -> Any:
    """The transpose of a convolution, with `beyond` rows and columns of zeros at the ends."""
    y = winograd.correlate_input_grad(
        x, w, shape=shape, stride=stride, padding=padding, dilation=dilation, groups=groups
    )
    return view.pad(y, constant(0.0, y.type.dtype), (0,) * 4, (0, 0, *beyond), (0,) * 4) if any(beyond) else y


Triple = tuple[int, int, int]


def triple(value: Sizes, operation: str, what: str) -> Triple:
    """One number for all three axes, or one for each."""
    depth, rows, columns = sizes(value, 3, operation, what)
    return depth, rows, columns


def _finished(y: Any, bias: TensorLike | None, single: bool, dtype: Any, operation: str) -> Any:
    """The result with its bias, in the dtype of the operands, without a batch axis if the input had none."""
    return as_tensor(alone(y if bias is None else _plus(y, bias, operation), single), dtype)


@autocasting
def conv3d(
    x: TensorLike,
    weight: TensorLike,
    bias: TensorLike | None = None,
    stride: Sizes = 1,
    padding: Sizes | str = 0,
    dilation: Sizes = 1,
    groups: int = 1,
) -> Tensor:
    """The cross-correlation of volumes [N, C, D, H, W] with filters [O, C/groups, kd, kh, kw], plus a bias [O].

    The result is [N, O, D', H', W']; the axis N may be absent.  Padding of the depth is planes of zeros, which are
    multiplied, so that infinite filters give NaN there.  Raises ShapeError if channels, groups or sizes do not fit,
    DTypeError for integers.

    >>> F.conv3d(nc.ones((1, 1, 3, 3, 3)), nc.ones((1, 1, 2, 2, 2))).shape
    (1, 1, 2, 2, 2)
    """
    (given, filters), dtype = meet("conv3d", (x, weight))
    require("conv3d", dtype, FLOATING)
    volumes, single = batched(statistical.wide_float(given), 3, "conv3d", "volumes")
    filters = statistical.wide_float(filters)
    if filters.type.rank != 5:
        raise ShapeError(f"conv3d: filters must be [O, C/groups, kd, kh, kw]; got {filters.type}")
    outputs, inner, *kernel = filters.type.shape
    steps, spacing = triple(stride, "conv3d", "stride"), triple(dilation, "conv3d", "dilation")
    around = margins(padding, kernel, spacing, steps, "conv3d")
    planes, count = _planes(volumes, kernel[0], steps[0], around[0], spacing[0])
    flat = view.reshape(filters, (outputs, inner * kernel[0], *kernel[1:]))
    y = winograd.correlate(planes, flat, steps[1:], around[1:], spacing[1:], groups)
    batch = volumes.type.shape[0]
    y = view.permute(view.reshape(y, (batch, count, *y.type.shape[1:])), (0, 2, 1, 3, 4))
    return _finished(y, bias, single, dtype, "conv3d")


def _planes(x: Any, kernel: int, stride: int, margin: tuple[int, int], dilation: int) -> tuple[Any, int]:
    """[N, C, D, H, W] as images [N · D', C · kd, H, W] of the planes that each result plane reads, and D'."""
    if stride < 1 or dilation < 1 or min(margin) < 0:
        raise ArgumentError(
            f"conv3d: stride and dilation must be positive, and padding must not be negative; got stride {stride}, "
            f"padding {margin}, dilation {dilation}"
        )
    batch, channels, depth, height, width = x.type.shape
    span = depth + margin[0] + margin[1] - dilation * (kernel - 1) - 1
    if span < 0 or kernel < 1:
        raise ShapeError(
            f"conv3d: the padded depth must be at least the window; got {depth} with padding {margin} for a window of "
            f"{kernel} with dilation {dilation}"
        )
    count = span // stride + 1
    low, high = ((0, 0, margin[side], 0, 0) for side in (0, 1))
    padded = view.pad(x, constant(0.0, x.type.dtype), low, high)
    taps = [
        view.slice_axis(padded, 2, k * dilation, k * dilation + (count - 1) * stride + 1, stride) for k in range(kernel)
    ]
    together = view.concatenate([view.reshape(t, (batch, channels, 1, count, height, width)) for t in taps], 2)
    moved = view.permute(together, (0, 3, 1, 2, 4, 5))
    return view.reshape(moved, (batch * count, channels * kernel, height, width)), count


@autocasting
def conv_transpose3d(
    x: TensorLike,
    weight: TensorLike,
    bias: TensorLike | None = None,
    stride: Sizes = 1,
    padding: Sizes = 0,
    output_padding: Sizes = 0,
    groups: int = 1,
    dilation: Sizes = 1,
) -> Tensor:
    """The transpose of `conv3d`: volumes [N, C, D, H, W] and filters [C, O/groups, kd, kh, kw] give [N, O, …].

    The axis N may be absent.  Raises ShapeError if channels, groups or sizes do not fit, ArgumentError for an
    output_padding that is too large.

    >>> F.conv_transpose3d(nc.ones((1, 1, 2, 2, 2)), nc.ones((1, 1, 2, 2, 2)), stride=2).shape
    (1, 1, 4, 4, 4)
    """
    operation = "conv_transpose3d"
    (given, filters), dtype = meet(operation, (x, weight))
    require(operation, dtype, FLOATING)
    volumes, single = batched(statistical.wide_float(given), 3, operation, "volumes")
    filters = statistical.wide_float(filters)
    batch, channels, depth, height, width = volumes.type.shape
    if filters.type.rank != 5 or filters.type.shape[0] != channels:
        raise ShapeError(f"{operation}: filters must be [{channels}, O/groups, kd, kh, kw]; got {filters.type}")
    _, inner, kernel, *window = filters.type.shape
    steps, spacing = triple(stride, operation, "stride"), triple(dilation, operation, "dilation")
    margin, more = triple(padding, operation, "padding"), triple(output_padding, operation, "output_padding")
    if not 0 <= more[0] < max(steps[0], spacing[0]):
        raise ArgumentError(f"{operation}: output_padding must be below stride or dilation; got {more}")
    images = view.reshape(view.permute(volumes, (0, 2, 1, 3, 4)), (batch * depth, channels, height, width))
    flat = view.reshape(filters, (channels, inner * kernel, *window))
    y: Any = conv_transpose2d(images, flat, None, steps[1:], margin[1:], more[1:], groups, spacing[1:])
    y = view.reshape(y, (batch, depth, inner * groups, kernel, *y.type.shape[2:]))
    total = _spread(view.permute(y, (0, 2, 3, 1, 4, 5)), steps[0], margin[0], more[0], spacing[0])
    return _finished(total, bias, single, dtype, operation)


def _spread(parts: Any, stride: int, margin: int, more: int, dilation: int) -> Any:
    """Add [N, O, kd, D, H, W], one plane for each tap and position, up to [N, O, D', H, W], taps ascending."""
    _, _, kernel, depth, *_ = parts.type.shape
    if stride < 1 or dilation < 1 or margin < 0 or kernel < 1:
        raise ArgumentError(
            "conv_transpose3d: stride, dilation and window must be positive, and padding must not be negative; got "
            f"stride {stride}, dilation {dilation}, window {kernel}, padding {margin}"
        )
    length = (depth - 1) * stride + dilation * (kernel - 1) + 1 + more
    if length - 2 * margin < 1:
        raise ShapeError(f"conv_transpose3d: the depth of the result must be positive; got {length - 2 * margin}")
    total: Any = None
    for k in range(kernel):
        tap = view.slice_axis(parts, 2, k, k + 1)
        tap = view.reshape(tap, (*parts.type.shape[:2], *parts.type.shape[3:]))
        after = length - (depth - 1) * stride - 1 - k * dilation
        low, high, inside = ((0, 0, n, 0, 0) for n in (k * dilation, after, stride - 1))
        placed = view.pad(tap, constant(0.0, tap.type.dtype), low, high, inside)
        total = placed if total is None else pointwise.add(total, placed)
    return view.slice_axis(total, 2, margin, length - margin)


@autocasting
def conv_transpose1d(
    x: TensorLike,
    weight: TensorLike,
    bias: TensorLike | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    output_padding: int | Sequence[int] = 0,
    groups: int = 1,
    dilation: int | Sequence[int] = 1,
) -> Tensor:
    """The transpose of `conv1d`: signals [N, C, L] and filters [C, O/groups, k] give [N, O, …].

    The axis N may be absent.  Raises ShapeError if channels, groups or sizes do not fit, ArgumentError for an
    output_padding that is too large.

    >>> F.conv_transpose1d(nc.ones((1, 1, 2)), nc.ones((1, 1, 2)), stride=2).shape
    (1, 1, 4)
    """
    operation = "conv_transpose1d"
    signals: Any = as_tensor(x)
    filters: Any = as_tensor(weight)
    if signals.type.rank not in (2, 3) or filters.type.rank != 3:
        raise ShapeError(
            f"{operation}: signals must be [N, C, L] or [C, L], and filters [C, O/groups, k]; got {signals.type} and "
            f"{filters.type}"
        )
    rows = view.reshape(signals, (*signals.type.shape[:-1], 1, signals.type.shape[-1]))
    flat = view.reshape(filters, (*filters.type.shape[:2], 1, filters.type.shape[2]))
    step, margin, more, spacing = (
        one(n, operation, what)
        for n, what in (
            (stride, "stride"),
            (padding, "padding"),
            (output_padding, "output_padding"),
            (dilation, "dilation"),
        )
    )
    y: Any = conv_transpose2d(rows, flat, bias, (1, step), (0, margin), (0, more), groups, (1, spacing))
    return view.reshape(y, (*y.type.shape[:-2], y.type.shape[-1]))
