"""Normalisations as functions: over features, groups, instances, batches, and to unit length.

Each one is the explicit graph of primitives that its best fused kernel computes.  Half types are cast up, computed in
float32, and cast down.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from nacre.api.data_types import finfo
from nacre.api.elementwise.apply import require
from nacre.api.linalg.norms import vector_norm
from nacre.api.operands import TensorLike, as_tensor, extent, filled, scalar, spread
from nacre.api.primitives import pointwise, reduce, view, window
from nacre.api.tensor import Tensor
from nacre.base.arguments import whole_numbers
from nacre.base.dims import Size, product
from nacre.base.dtypes import FLOATING, DType
from nacre.base.errors import ArgumentError, ShapeError
from nacre.base.types import normal_axis
from nacre.nn.functional.composite import composite
from nacre.nn.functional.softmaxes import along
from nacre.trace.value import stripped
from nacre.trace.variable import Variable

__all__ = [
    "batch_norm",
    "group_norm",
    "instance_norm",
    "layer_norm",
    "local_response_norm",
    "normalize",
    "rms_norm",
]


def _part(n: Size, dtype: DType) -> Any:
    """1 / n, rounded once."""
    if isinstance(n, int):
        return scalar(1.0 / n if n else math.inf, dtype)
    counted = extent(n, dtype)
    return pointwise.div(filled(counted, 1.0), counted)


def _moments(v: Any, axes: tuple[int, ...]) -> tuple[Any, Any, Any]:
    """Mean, v − mean, and the mean of its square (in two passes), the means without the axes."""
    kept = tuple(k for k in range(len(v.type.shape)) if k not in axes)
    share = _part(product([v.type.shape[a] for a in axes]), v.type.dtype)
    total = reduce.sum_(v, axes)
    share = spread(share, total.type.shape)
    mean = pointwise.mul(total, share)
    centred = pointwise.sub(v, view.broadcast(mean, v.type.shape, kept))
    variance = pointwise.mul(reduce.sum_(pointwise.mul(centred, centred), axes), share)
    return mean, centred, variance


def _inverse_root(variance: Any, eps: float) -> Any:
    return pointwise.rsqrt(pointwise.add(variance, filled(variance, eps)))


def layer_norm(
    x: TensorLike,
    normalized_shape: int | Sequence[int],
    weight: TensorLike | None = None,
    bias: TensorLike | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """(x − mean) / √(variance + eps) · weight + bias over the last axes, which have normalized_shape.

    `x` is [..., *normalized_shape] with a floating-point dtype; weight and bias have normalized_shape; the result has
    the shape and dtype of x.  Raises ShapeError if the shapes do not fit.

    >>> F.layer_norm([[1.0, 3.0]], 2, eps=0.0)
    Tensor([[-1.,  1.]], f32[1, 2])
    """
    held = as_tensor(x)
    shape = whole_numbers(normalized_shape, "layer_norm", "normalized_shape")
    rank = len(held.type.shape)
    if not shape or held.type.shape[rank - len(shape) :] != shape:
        raise ShapeError(f"layer_norm: the shape must end in {list(shape)}; got {list(held.type.shape)}")
    axes = tuple(range(rank - len(shape), rank))

    given = [p for p in (weight, bias) if p is not None]

    def compute(v: Any, *given: Any) -> Any:
        """The centred values over their standard deviation, scaled and shifted."""
        _, centred, variance = _moments(v, axes)
        scale = view.broadcast(_inverse_root(variance, eps), v.type.shape, tuple(range(rank - len(shape))))
        w = None if weight is None else given[0]
        return affine(pointwise.mul(centred, scale), w, None if bias is None else given[-1], axes)

    settings = {"axes": len(shape), "eps": eps, "scaled": weight is not None}
    return composite("layer_norm", held, compute, settings, given)


def affine(v: Any, weight: TensorLike | None, bias: TensorLike | None, axes: tuple[int, ...]) -> Any:
    """v · weight + bias, rounded once, for weight and bias over the given axes."""
    w, b = (None if p is None else _placed(p, v, axes) for p in (weight, bias))
    if w is None:
        return v if b is None else pointwise.add(v, b)
    return pointwise.mul(v, w) if b is None else pointwise.fma(v, w, b)


def _placed(parameter: TensorLike, v: Any, axes: tuple[int, ...]) -> Any:
    held = as_tensor(parameter, v.type.dtype)
    wanted = tuple(v.type.shape[a] for a in axes)
    if held.type.shape != wanted:
        raise ShapeError(f"normalisation: weight and bias must have shape {list(wanted)}; got {held.type}")
    return view.broadcast(held, v.type.shape, axes)


def rms_norm(
    x: TensorLike, normalized_shape: int | Sequence[int], weight: TensorLike | None = None, eps: float | None = None
) -> Tensor:
    """x / √(mean(x²) + eps) · weight over the last axes (Zhang and Sennrich 2019).

    `x` is [..., *normalized_shape] with a floating-point dtype; the result has its shape and dtype.  The default eps is
    that of the dtype.  Raises ShapeError if the shapes do not fit.

    >>> F.rms_norm([[2.0, 2.0]], 2, eps=0.0)
    Tensor([[1., 1.]], f32[1, 2])
    """
    held = as_tensor(x)
    shape = whole_numbers(normalized_shape, "rms_norm", "normalized_shape")
    rank = len(held.type.shape)
    if not shape or held.type.shape[rank - len(shape) :] != shape:
        raise ShapeError(f"rms_norm: the shape must end in {list(shape)}; got {list(held.type.shape)}")
    axes = tuple(range(rank - len(shape), rank))
    require("rms_norm", held.type.dtype, FLOATING)
    least = float(finfo(held.type.dtype).eps) if eps is None else eps

    def compute(v: Any, *given: Any) -> Any:
        """The values over the root of their mean square, scaled."""
        total = reduce.sum_(pointwise.mul(v, v), axes)
        share = spread(_part(product([v.type.shape[a] for a in axes]), v.type.dtype), total.type.shape)
        scale = _inverse_root(pointwise.mul(total, share), least)
        wide = view.broadcast(scale, v.type.shape, tuple(range(rank - len(shape))))
        return affine(pointwise.mul(v, wide), given[0] if given else None, None, axes)

    settings = {"axes": len(shape), "eps": least}
    return composite("rms_norm", held, compute, settings, () if weight is None else (weight,))


def group_norm(
    x: TensorLike, num_groups: int, weight: TensorLike | None = None, bias: TensorLike | None = None, eps: float = 1e-5
) -> Tensor:
    """Normalisation over groups of channels and all positions, for x [N, C, ...].

    weight and bias are [C]; the result has the shape and dtype of x.  Raises ShapeError unless num_groups divides the
    channels.

    >>> F.group_norm([[1.0, 3.0]], 1, eps=0.0)
    Tensor([[-1.,  1.]], f32[1, 2])
    """
    held = as_tensor(x)
    shape = held.type.shape
    if len(shape) < 2 or num_groups < 1 or shape[1] % num_groups != 0:
        raise ShapeError(f"group_norm: {num_groups} groups must divide the channels; got {list(shape)}")

    def compute(v: Any) -> Any:
        """Each group's centred values over their standard deviation."""
        grouped = view.reshape(v, (shape[0], num_groups, shape[1] // num_groups, *shape[2:]))
        axes = tuple(range(2, len(shape) + 1))
        _, centred, variance = _moments(grouped, axes)
        scale = view.broadcast(_inverse_root(variance, eps), grouped.type.shape, (0, 1))
        return affine(view.reshape(pointwise.mul(centred, scale), shape), weight, bias, (1,))

    return composite("group_norm", held, compute)


def batch_norm(
    x: TensorLike,
    running_mean: Variable | None = None,
    running_var: Variable | None = None,
    weight: TensorLike | None = None,
    bias: TensorLike | None = None,
    training: bool = False,
    momentum: float | Tensor = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """(x − mean) · (weight / √(variance + eps)) + bias for each channel of x [N, C, ...].

    In training the statistics are those of the batch, and the running statistics (variables [C]) move towards them by
    momentum, the variance without bias.  In evaluation the statistics are the running ones.  A batch without examples
    leaves them unchanged.

    Raises ShapeError for shapes that do not fit, and in training for a single value per channel, which has no variance.

    >>> F.batch_norm([[1.0], [3.0]], training=True, eps=0.0)
    Tensor([[-1.],
            [ 1.]], f32[2, 1])
    """
    held = as_tensor(x)
    rank = len(held.type.shape)
    if rank < 2:
        raise ShapeError(f"batch_norm: the shape must be [N, C, ...]; got {list(held.type.shape)}")
    _require_channels("batch_norm", held, running_mean, running_var, weight, bias)
    own = training or running_mean is None or running_var is None
    values = product([s for k, s in enumerate(held.type.shape) if k != 1])
    if own and values == 1:
        raise ShapeError(
            f"batch_norm: training needs more than one value per channel; got {held.type}; use the running statistics "
            "(`eval`)"
        )

    def compute(v: Any) -> Any:
        """The values normalised by the batch's or the running moments."""
        if own:
            axes = (0, *range(2, rank))
            mean, centred, variance = _moments(v, axes)
            if training and values != 0 and running_mean is not None and running_var is not None:
                _move(running_mean, mean, momentum)
                _move(running_var, _unbiased(variance, v, axes), momentum)
        else:
            assert running_mean is not None and running_var is not None
            variance = as_tensor(running_var, v.type.dtype)
            centred = pointwise.sub(v, view.broadcast(as_tensor(running_mean, v.type.dtype), v.type.shape, (1,)))
        scale = _inverse_root(variance, eps)
        if weight is not None:
            scale = pointwise.mul(scale, as_tensor(weight, scale.type.dtype))
        return affine(centred, scale, bias, (1,))

    return composite("batch_norm", held, compute)


def _require_channels(operation: str, x: Any, *given: Any) -> None:
    """Raise ShapeError unless each argument has one element for each channel of x [N, C, ...]."""
    channels = x.type.shape[1]
    for vector in given:
        if vector is None:
            continue
        shape = vector.shape if isinstance(vector, Variable) else as_tensor(vector).type.shape
        if tuple(shape) != (channels,):
            raise ShapeError(
                f"{operation}: statistics, weight and bias must have shape [{channels}] for {x.type}; got shape "
                f"{list(shape)}"
            )


def _unbiased(variance: Any, v: Any, axes: tuple[int, ...]) -> Any:
    n = extent(product([v.type.shape[a] for a in axes]), v.type.dtype)
    one = filled(n, 1.0)
    factor = pointwise.div(n, pointwise.maximum(pointwise.sub(n, one), one))
    return pointwise.mul(variance, spread(factor, variance.type.shape))


def _move(running: Variable, found: Any, momentum: Any) -> None:
    """running + momentum · (found − running)."""
    found = as_tensor(stripped(found), running.dtype)
    current = stripped(running.value)
    share = spread(as_tensor(momentum, running.dtype), found.type.shape)
    running.assign(pointwise.fma(pointwise.sub(found, current), share, current))


def instance_norm(
    x: TensorLike,
    running_mean: Variable | None = None,
    running_var: Variable | None = None,
    weight: TensorLike | None = None,
    bias: TensorLike | None = None,
    use_input_stats: bool = True,
    momentum: float | Tensor = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """(x − mean) / √(variance + eps) · weight + bias for each channel of each instance of x [N, C, ...].

    Running statistics, if given, move towards the means over the instances.  Without `use_input_stats` they are used
    instead.  Raises ShapeError for shapes that do not fit, ArgumentError if needed running statistics are missing.

    >>> F.instance_norm([[[1.0, 3.0]]], eps=0.0)
    Tensor([[[-1.,  1.]]], f32[1, 1, 2])
    """
    held = as_tensor(x)
    rank = len(held.type.shape)
    if rank < 3:
        raise ShapeError(f"instance_norm: the shape must be [N, C, ...] with positions; got {list(held.type.shape)}")
    _require_channels("instance_norm", held, running_mean, running_var, weight, bias)
    if not use_input_stats:
        if running_mean is None or running_var is None:
            raise ArgumentError("instance_norm: without use_input_stats, running statistics are required; got none")
        return batch_norm(held, running_mean, running_var, weight, bias, False, momentum, eps)
    axes = tuple(range(2, rank))
    if all(held.type.shape[a] == 1 for a in axes):
        raise ShapeError(f"instance_norm: more than one position is required; got {held.type}")

    def compute(v: Any) -> Any:
        """The values normalised by the moments of each channel of each instance."""
        mean, centred, variance = _moments(v, axes)
        if running_mean is not None and running_var is not None and held.type.shape[0] != 0:
            for running, found in ((running_mean, mean), (running_var, _unbiased(variance, v, axes))):
                share = spread(_part(v.type.shape[0], v.type.dtype), running.shape)
                _move(running, pointwise.mul(reduce.sum_(found, (0,)), share), momentum)
        scale = view.broadcast(_inverse_root(variance, eps), v.type.shape, (0, 1))
        return affine(pointwise.mul(centred, scale), weight, bias, (1,))

    return composite("instance_norm", held, compute)


def local_response_norm(x: TensorLike, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> Tensor:
    """x / (k + alpha · mean(x²))^beta, with the mean over `size` neighbouring channels of x [N, C, ...].

    Absent channels count as 0.  The result has the shape and dtype of x.  Raises ShapeError for another rank, or unless
    the size is positive.

    >>> F.local_response_norm([[[2.0]]], 1, alpha=1.0, beta=0.5, k=0.0)
    Tensor([[[1.]]], f32[1, 1, 1])
    """
    held = as_tensor(x)
    shape = held.type.shape
    if len(shape) < 3 or size < 1:
        raise ShapeError(
            f"local_response_norm: the shape must be [N, C, L, …] and size positive; got {held.type}, {size}"
        )

    def compute(v: Any) -> Any:
        """The channels are the rows of an image, over which a window slides."""
        squares = view.reshape(pointwise.mul(v, v), (shape[0], 1, shape[1], product(shape[2:])))
        total: Any = window.window_sum(squares, (size, 1), (1, 1), ((size // 2, (size - 1) // 2), (0, 0)))
        mean = view.reshape(total * (1.0 / size), shape)
        return v / pointwise.pow_(mean * alpha + k, filled(v, beta))

    return composite("local_response_norm", held, compute)


def normalize(x: TensorLike, p: float = 2.0, dim: int = 1, eps: float = 1e-12) -> Tensor:
    """x divided by its p-norm along an axis, or by eps where that is larger.

    `x` has a floating-point dtype; the result has its shape and dtype.  `dim` is 1 by default, and p an order of
    `nacre.linalg.vector_norm`.

    >>> F.normalize([3.0, 4.0], dim=0)
    Tensor([0.6, 0.8], f32[2])
    """
    held = as_tensor(x)
    at = normal_axis(dim, len(held.type.shape), "normalize")

    def compute(v: Any) -> Any:
        """The values over their length along the axis."""
        length = vector_norm(v, axis=at, ord=p)
        return pointwise.div(v, along(pointwise.maximum(length, filled(length, eps)), v, at))

    return composite("normalize", held, compute)
