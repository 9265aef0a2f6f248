"""Convolution of images [N, C, H, W] (and signals [N, C, L]) as functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nacre.api.functions import require
from nacre.api.operands import TensorLike, as_tensor, constant, meet
from nacre.api.primitives import pointwise, view, winograd
from nacre.api.tensor import Tensor
from nacre.base.dtypes import FLOATING
from nacre.base.errors import ArgumentError, ShapeError
from nacre.nn.functions.pool import Sizes, alone, batched, sizes

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
    """The padding before and behind each axis, as numbers or by name."""
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


def with_bias(y: Any, bias: TensorLike | None, operation: str) -> Any:
    """y [N, O, …] plus a number for each channel."""
    if bias is None:
        return y
    held = as_tensor(bias, y.type.dtype)
    if held.type.shape != (y.type.shape[1],):
        raise ShapeError(
            f"{operation}: bias must have one number for each of {y.type.shape[1]} channels; got {held.type}"
        )
    return pointwise.add(y, view.broadcast(held, y.type.shape, (1,)))


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
    y = winograd.correlate(images, filters, steps, around, spacing, groups)
    return alone(with_bias(y, bias, "conv2d"), single)


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
    # whole steps of output_padding are rows that the margin would cut off, and beyond those rows of zeros
    whole = tuple(m // s * s for m, s in zip(more, steps, strict=True))
    beyond = tuple(max(0, w - m) for w, m in zip(whole, margin, strict=True))
    y = winograd.correlate_input_grad(
        images,
        filters,
        shape=(count, filters.type.shape[1] * groups, *(n - b for n, b in zip(spatial, beyond, strict=True))),
        stride=steps,
        padding=tuple((m, max(0, m - w)) for m, w in zip(margin, whole, strict=True)),
        dilation=spacing,
        groups=groups,
    )
    if any(beyond):
        y = view.pad(y, constant(0.0, y.type.dtype), (0,) * 4, (0, 0, *beyond), (0,) * 4)
    return alone(with_bias(y, bias, operation), single)
