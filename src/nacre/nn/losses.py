"""Losses as explicit graphs of primitives, written so that forward and backward need few passes over the logits.

The class that a target names is picked by comparing with the class's index, which fuses with the exponentials and
whose gradient is a selection, not a scatter.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nacre.api.functions import REAL, require
from nacre.api.operands import TensorLike, as_tensor, constant, filled, numbers, operands, scalar, spread
from nacre.api.primitives import pointwise, reduce, view
from nacre.api.reductions import wide_float
from nacre.api.tensor import Tensor
from nacre.base.dims import Size
from nacre.base.dtypes import DType, float32, int64
from nacre.base.errors import ArgumentError, DTypeError, ShapeError
from nacre.base.types import normal_axis
from nacre.trace.value import is_concrete, stripped


def _reduced(losses: Any, reduction: str, weights: Any | None = None) -> Any:
    """The losses' mean, sum, or themselves; the mean is weighted where weights are given."""
    axes = tuple(range(len(losses.type.shape)))
    if reduction == "none":
        return losses
    total = reduce.sum_(losses, axes) if axes else losses
    if reduction == "sum":
        return total
    if reduction != "mean":
        raise ArgumentError(f'loss: a reduction "mean", "sum" or "none" is required; got {reduction!r}')
    if weights is not None:
        return pointwise.div(total, reduce.sum_(weights, axes) if axes else weights)
    return pointwise.div(total, scalar(losses.type.size, total.type.dtype))


def _classes(x: Any, axis: int) -> Any:
    """The index along the axis of classes, at every element."""
    return pointwise.iota(x.type.shape, axis, int64)


def _rest(x: Any, axis: int) -> tuple[int, ...]:
    return tuple(k for k in range(len(x.type.shape)) if k != axis)


def _shifted(v: Any, axis: int) -> tuple[Any, Any]:
    """v − max, and log Σ exp(v − max) along an axis.  Their difference does not depend on max, so it has no node."""
    high = stripped(reduce.max_(v, (axis,)))
    moved = pointwise.sub(v, view.broadcast(high, v.type.shape, _rest(v, axis)))
    return moved, pointwise.log(reduce.sum_(pointwise.exp(moved), (axis,)))


def log_softmax(x: TensorLike, axis: int = -1) -> Tensor:
    """x − max − log Σ exp(x − max) along an axis.

    >>> F.log_softmax([0.0, 0.0])
    Tensor([-0.6931472, -0.6931472], f32[2])
    """
    held = as_tensor(x)
    require("log_softmax", held.type.dtype, REAL)
    at = normal_axis(axis, len(held.type.shape), "log_softmax")
    v = wide_float(held)
    moved, total = _shifted(v, at)
    result = pointwise.sub(moved, view.broadcast(total, v.type.shape, _rest(v, at)))
    return as_tensor(result, held.type.dtype)


def one_hot(x: TensorLike, num_classes: Size) -> Tensor:
    """Integers as vectors (int64) that are 1 at their index and 0 elsewhere, along a new last axis.

    >>> F.one_hot([1, 0], 3)
    Tensor([[0, 1, 0],
            [1, 0, 0]], i64[2, 3])
    """
    held = as_tensor(x, int64)
    shape = (*held.type.shape, num_classes)
    rank = len(held.type.shape)
    wide = view.broadcast(held, shape, tuple(range(rank)))
    return pointwise.cast(pointwise.eq(wide, pointwise.iota(shape, rank, int64)), int64)


def _picked(v: Any, target: Any, axis: int) -> Any:
    """The elements of v at the target's class."""
    named = pointwise.eq(_classes(v, axis), view.broadcast(target, v.type.shape, _rest(v, axis)))
    return reduce.sum_(pointwise.select(named, v, filled(v, 0.0)), (axis,))


def _check_target(operation: str, target: Any, logits: Any, axis: int, ignored: int) -> None:
    wanted = tuple(s for k, s in enumerate(logits.type.shape) if k != axis)
    if target.type.shape != wanted:
        raise ShapeError(
            f"{operation}: targets of shape {list(wanted)} are required for logits {logits.type}; got {target.type}"
        )
    classes = logits.type.shape[axis]
    if is_concrete(target) and isinstance(classes, int):
        array = numbers(target, operation)
        if not ((array >= 0) & (array < classes) | (array == ignored)).all():
            raise ArgumentError(f"{operation}: classes in [0, {classes}) or {ignored} are required; got others")


def cross_entropy(
    input: TensorLike,
    target: TensorLike,
    weight: TensorLike | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """−log softmax(input) at the target's class, for logits [C], [N, C] or [N, C, ...].

    Targets are integers of the shape without C, or probabilities of the shape of the input.  `weight` [C] weighs
    the classes, and the mean by them; targets equal to `ignore_index` do not count.

    Raises ShapeError and DTypeError for targets that do not fit, ArgumentError for classes out of range.

    >>> F.cross_entropy([[0.0, 0.0]], [1])
    Tensor(0.6931472, f32[])
    """
    logits, wanted = as_tensor(input), as_tensor(target)
    require("cross_entropy", logits.type.dtype, REAL)
    rank = len(logits.type.shape)
    if rank == 0:
        raise ShapeError("cross_entropy: logits with an axis of classes are required; got shape []")
    if not 0.0 <= label_smoothing <= 1.0:
        raise ArgumentError(f"cross_entropy: a label_smoothing in [0, 1] is required; got {label_smoothing}")
    axis = 0 if rank == 1 else 1
    v = wide_float(logits)
    factors = None if weight is None else _class_weights(weight, v, axis)
    if wanted.type.dtype.is_float:
        return as_tensor(_soft(v, wanted, factors, axis, reduction, label_smoothing), logits.type.dtype)
    require("cross_entropy", wanted.type.dtype, "iu")
    wanted = as_tensor(wanted, int64)
    _check_target("cross_entropy", wanted, logits, axis, ignore_index)
    losses, counted = _hard(v, wanted, factors, axis, ignore_index, label_smoothing)
    return as_tensor(_reduced(losses, reduction, counted), logits.type.dtype)


def _class_weights(weight: TensorLike, v: Any, axis: int) -> Any:
    held = as_tensor(weight, v.type.dtype)
    if held.type.shape != (v.type.shape[axis],):
        raise ShapeError(f"cross_entropy: a weight for each class of {v.type} is required; got {held.type}")
    return view.broadcast(held, v.type.shape, (axis,))


def _hard(v: Any, target: Any, factors: Any, axis: int, ignored: int, smoothing: float) -> tuple[Any, Any]:
    """The loss and the weight of each example, for integer targets."""
    moved, total = _shifted(v, axis)
    losses = pointwise.sub(total, _picked(moved, target, axis))
    counts = pointwise.ne(target, filled(target, ignored))
    if factors is None:
        own = filled(losses, 1.0)
    else:
        own = _picked(factors, target, axis)
        losses = pointwise.mul(losses, own)
    if smoothing:
        flat = _uniform(v, moved, total, factors, axis)
        losses = pointwise.fma(flat, filled(flat, smoothing), pointwise.mul(losses, filled(losses, 1.0 - smoothing)))
    zero = filled(losses, 0.0)
    return pointwise.select(counts, losses, zero), pointwise.select(counts, own, zero)


def _uniform(v: Any, moved: Any, total: Any, factors: Any, axis: int) -> Any:
    """The mean over the classes of −log softmax, weighted."""
    logs = pointwise.sub(view.broadcast(total, v.type.shape, _rest(v, axis)), moved)
    summed = reduce.sum_(logs if factors is None else pointwise.mul(logs, factors), (axis,))
    share = pointwise.div(constant(1.0, v.type.dtype), scalar(v.type.shape[axis], v.type.dtype))
    return pointwise.mul(summed, spread(share, summed.type.shape))


def _soft(v: Any, target: Any, factors: Any, axis: int, reduction: str, smoothing: float) -> Any:
    """The loss for probabilities; the mean is over the examples, whatever the weights."""
    if target.type.shape != v.type.shape:
        raise ShapeError(f"cross_entropy: probabilities of shape {list(v.type.shape)} are required; got {target.type}")
    wanted = as_tensor(target, v.type.dtype)
    if smoothing:
        share = pointwise.div(constant(smoothing, v.type.dtype), scalar(v.type.shape[axis], v.type.dtype))
        wanted = pointwise.fma(wanted, filled(wanted, 1.0 - smoothing), spread(share, wanted.type.shape))
    if factors is not None:
        wanted = pointwise.mul(wanted, factors)
    moved, total = _shifted(v, axis)
    logs = pointwise.sub(view.broadcast(total, v.type.shape, _rest(v, axis)), moved)
    return _reduced(reduce.sum_(pointwise.mul(logs, wanted), (axis,)), reduction)


def nll_loss(
    input: TensorLike,
    target: TensorLike,
    weight: TensorLike | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
) -> Tensor:
    """−input at the target's class, for log-probabilities as `log_softmax` gives.

    >>> F.nll_loss([[-1.0, -2.0]], [1])
    Tensor(2., f32[])
    """
    logs, wanted = as_tensor(input), as_tensor(target, int64)
    require("nll_loss", logs.type.dtype, REAL)
    axis = 0 if len(logs.type.shape) == 1 else 1
    _check_target("nll_loss", wanted, logs, axis, ignore_index)
    v = wide_float(logs)
    losses = pointwise.neg(_picked(v, wanted, axis))
    own = filled(losses, 1.0) if weight is None else _picked(_class_weights(weight, v, axis), wanted, axis)
    if weight is not None:
        losses = pointwise.mul(losses, own)
    counts, zero = pointwise.ne(wanted, filled(wanted, ignore_index)), filled(losses, 0.0)
    result = _reduced(pointwise.select(counts, losses, zero), reduction, pointwise.select(counts, own, zero))
    return as_tensor(result, logs.type.dtype)


# ---- losses of two tensors


def _pairwise(
    operation: str, input: TensorLike, target: TensorLike, reduction: str, f: Callable[[Any, Any], Any]
) -> Any:
    a, b = as_tensor(input), as_tensor(target)
    if a.type.shape != b.type.shape:
        raise ShapeError(f"{operation}: input and target of one shape are required; got {a.type} and {b.type}")
    a, b = operands(operation, a, b)
    dtype: DType = a.type.dtype
    if not dtype.is_float:
        raise DTypeError(f"{operation}: a floating-point dtype is required; got {dtype.name}")
    wide = as_tensor(a, float32 if dtype.bits == 16 else dtype), as_tensor(b, float32 if dtype.bits == 16 else dtype)
    return as_tensor(_reduced(f(*wide), reduction), dtype)


def _difference_squared(a: Any, b: Any) -> Any:
    difference = pointwise.sub(a, b)
    return pointwise.mul(difference, difference)


def mse_loss(input: TensorLike, target: TensorLike, reduction: str = "mean") -> Tensor:
    """(input − target)².

    >>> F.mse_loss([1.0, 2.0], [1.0, 4.0])
    Tensor(2., f32[])
    """
    return _pairwise("mse_loss", input, target, reduction, _difference_squared)


def l1_loss(input: TensorLike, target: TensorLike, reduction: str = "mean") -> Tensor:
    """|input − target|.

    >>> F.l1_loss([1.0, 2.0], [1.0, 4.0])
    Tensor(1., f32[])
    """
    return _pairwise("l1_loss", input, target, reduction, lambda a, b: pointwise.abs_(pointwise.sub(a, b)))


def huber_loss(input: TensorLike, target: TensorLike, reduction: str = "mean", delta: float = 1.0) -> Tensor:
    """½d² where |d| ≤ delta, else delta · (|d| − ½delta), for d = input − target.

    >>> F.huber_loss([0.0], [3.0])
    Tensor(2.5, f32[])
    """

    def compute(a: Any, b: Any) -> Any:
        """Half the square up to delta, a line beyond."""
        size = pointwise.abs_(pointwise.sub(a, b))
        square = pointwise.mul(pointwise.mul(size, size), filled(a, 0.5))
        line = pointwise.mul(pointwise.sub(size, filled(a, 0.5 * delta)), filled(a, delta))
        return pointwise.select(pointwise.le(size, filled(a, delta)), square, line)

    return _pairwise("huber_loss", input, target, reduction, compute)


def binary_cross_entropy_with_logits(input: TensorLike, target: TensorLike, reduction: str = "mean") -> Tensor:
    """max(x, 0) − x · target + log(1 + e^−|x|), the cross entropy of sigmoid(x).

    >>> F.binary_cross_entropy_with_logits([0.0], [1.0])
    Tensor(0.6931472, f32[])
    """

    def compute(x: Any, t: Any) -> Any:
        """max(x, 0) - x t + log1p(exp(-|x|)), which does not overflow."""
        zero = filled(x, 0.0)
        high = pointwise.select(pointwise.le(x, zero), zero, x)
        tail = pointwise.log1p(pointwise.exp(pointwise.neg(pointwise.abs_(x))))
        return pointwise.add(pointwise.fma(pointwise.neg(x), t, high), tail)

    return _pairwise("binary_cross_entropy_with_logits", input, target, reduction, compute)


def kl_div(input: TensorLike, target: TensorLike, reduction: str = "mean") -> Tensor:
    """target · (log target − input), for log-probabilities; 0 where the target is 0.

    >>> F.kl_div([0.0], [1.0])
    Tensor(0., f32[])
    """

    def compute(logs: Any, t: Any) -> Any:
        """t (log t - logs), and 0 where t is 0."""
        zero = filled(t, 0.0)
        present = pointwise.gt(t, zero)
        safe = pointwise.select(present, t, filled(t, 1.0))
        return pointwise.select(present, pointwise.mul(t, pointwise.sub(pointwise.log(safe), logs)), zero)

    return _pairwise("kl_div", input, target, reduction, compute)
