"""Losses whose target names a class, as explicit graphs of primitives.

Forward and backward need few passes over the logits.  A comparison with the class indices picks the target's class.  It
fuses with the exponentials, and its gradient is a selection, not a scatter.
"""

from __future__ import annotations

from typing import Any

from nacre.api.elementwise.apply import require
from nacre.api.operands import TensorLike, as_tensor, constant, extent, filled, require_inside, scalar, spread
from nacre.api.primitives import pointwise, reduce, view
from nacre.api.statistical import wide_float
from nacre.api.taking import clipped, require_mode
from nacre.api.tensor import Tensor
from nacre.base.dtypes import FLOATING, INTEGRAL, int64
from nacre.base.errors import ArgumentError, ShapeError
from nacre.interpret.precision.functions import autocasting
from nacre.nn.functional.softmaxes import shifted_logits

__all__ = [
    "cross_entropy",
    "nll_loss",
]


def reduced(losses: Any, reduction: str, weights: Any | None = None) -> Any:
    """The mean or sum of losses, or the losses themselves; the mean is weighted if weights are given."""
    axes = tuple(range(len(losses.type.shape)))
    if reduction == "none":
        return losses
    total = reduce.sum_(losses, axes) if axes else losses
    if reduction == "sum":
        return total
    if reduction != "mean":
        raise ArgumentError(f'loss: reduction must be "mean", "sum" or "none"; got {reduction!r}')
    if weights is not None:
        return pointwise.div(total, reduce.sum_(weights, axes) if axes else weights)
    return pointwise.div(total, extent(losses.type.size, total.type.dtype))


def _classes(x: Any, axis: int) -> Any:
    """The index along the class axis, at every element."""
    return pointwise.iota(x.type.shape, axis, int64)


def _rest(x: Any, axis: int) -> tuple[int, ...]:
    return tuple(k for k in range(len(x.type.shape)) if k != axis)


def picked(v: Any, target: Any, axis: int) -> Any:
    """The elements of v at the target's class."""
    named = pointwise.eq(_classes(v, axis), view.broadcast(target, v.type.shape, _rest(v, axis)))
    return reduce.sum_(pointwise.select(named, v, filled(v, 0.0)), (axis,))


def _by_mode(operation: str, target: Any, logits: Any, axis: int, ignored: int, mode: str) -> Any:
    """Targets that are classes or ignored, by what a mode makes of others."""
    if require_mode(operation, mode, allowed=("raise", "clip", "drop")) == "raise":
        check_target(operation, target, logits, axis, ignored)
        return target
    _require_shape(operation, target, logits, axis)
    within, nothing = clipped(target, logits.type.shape[axis]), filled(target, ignored)
    if mode == "drop":
        return pointwise.select(pointwise.eq(target, within), target, nothing)
    return pointwise.select(pointwise.eq(target, nothing), nothing, within)


def _require_shape(operation: str, target: Any, logits: Any, axis: int) -> None:
    wanted = tuple(s for k, s in enumerate(logits.type.shape) if k != axis)
    if target.type.shape != wanted:
        raise ShapeError(
            f"{operation}: targets must have shape {list(wanted)} for logits {logits.type}; got {target.type}"
        )


def check_target(operation: str, target: Any, logits: Any, axis: int, ignored: int | None = None) -> None:
    """Require targets of the logits' shape without the axis of classes, each a class or the ignored number."""
    _require_shape(operation, target, logits, axis)
    classes = logits.type.shape[axis]
    others = "" if ignored is None else f", or {ignored} to be ignored"
    require_inside(
        target,
        0,
        classes,
        ArgumentError,
        f"{operation}: classes must be in [{{low}}, {{high}}){others}; got {{got}}; number them from 0, with one "
        "output of the model for each",
        ignored,
    )


@autocasting
def cross_entropy(
    input: TensorLike,
    target: TensorLike,
    weight: TensorLike | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
    *,
    mode: str = "raise",
) -> Tensor:
    """−log softmax(input) at the target's class, for logits [C], [N, C] or [N, C, ...].

    Targets are integers of the shape without C, or probabilities of the shape of the input.  `weight` [C] weights the
    classes, and the mean is then weighted too.  Targets equal to `ignore_index` do not count.  The reduction is "mean"
    (default) or "sum", which give a scalar, or "none".

    Raises ShapeError and DTypeError for targets that do not fit, ArgumentError for classes out of range; so does a
    compiled function when it runs.  With the mode "clip" such a class means the nearest one, and with "drop" it does
    not count.

    >>> F.cross_entropy([[0.0, 0.0]], [1])
    Tensor(0.6931472, f32[])
    """
    logits, wanted = as_tensor(input), as_tensor(target)
    require("cross_entropy", logits.type.dtype, FLOATING)
    rank = len(logits.type.shape)
    if rank == 0:
        raise ShapeError("cross_entropy: logits must have an axis of classes; got shape []")
    if not 0.0 <= label_smoothing <= 1.0:
        raise ArgumentError(f"cross_entropy: label_smoothing must be in [0, 1]; got {label_smoothing}")
    axis = 0 if rank == 1 else 1
    v = wide_float(logits)
    factors = None if weight is None else _class_weights(weight, v, axis)
    if wanted.type.dtype.is_float:
        return as_tensor(_soft(v, wanted, factors, axis, reduction, label_smoothing), logits.type.dtype)
    require("cross_entropy", wanted.type.dtype, INTEGRAL)
    wanted = as_tensor(wanted, int64)
    wanted = _by_mode("cross_entropy", wanted, logits, axis, ignore_index, mode)
    losses, counted = _hard(v, wanted, factors, axis, ignore_index, label_smoothing)
    return as_tensor(reduced(losses, reduction, counted), logits.type.dtype)


def _class_weights(weight: TensorLike, v: Any, axis: int) -> Any:
    held = as_tensor(weight, v.type.dtype)
    if held.type.shape != (v.type.shape[axis],):
        raise ShapeError(f"cross_entropy: weight must have one number for each class of {v.type}; got {held.type}")
    return view.broadcast(held, v.type.shape, (axis,))


def _hard(v: Any, target: Any, factors: Any, axis: int, ignored: int, smoothing: float) -> tuple[Any, Any]:
    """The loss and the weight of each example, for integer targets."""
    moved, total = shifted_logits(v, axis)
    losses = pointwise.sub(total, picked(moved, target, axis))
    counts = pointwise.ne(target, filled(target, ignored))
    if factors is None:
        own = filled(losses, 1.0)
    else:
        own = picked(factors, target, axis)
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
    """The loss for probabilities; the mean is over the examples, even with weights."""
    if target.type.shape != v.type.shape:
        raise ShapeError(
            f"cross_entropy: probabilities must have shape {list(v.type.shape)}; got {target.type}; for numbers of "
            "classes write target.astype(nacre.int64)"
        )
    wanted = as_tensor(target, v.type.dtype)
    if smoothing:
        share = pointwise.div(constant(smoothing, v.type.dtype), scalar(v.type.shape[axis], v.type.dtype))
        wanted = pointwise.fma(wanted, filled(wanted, 1.0 - smoothing), spread(share, wanted.type.shape))
    if factors is not None:
        wanted = pointwise.mul(wanted, factors)
    moved, total = shifted_logits(v, axis)
    logs = pointwise.sub(view.broadcast(total, v.type.shape, _rest(v, axis)), moved)
    return reduced(reduce.sum_(pointwise.mul(logs, wanted), (axis,)), reduction)


@autocasting
def nll_loss(
    input: TensorLike,
    target: TensorLike,
    weight: TensorLike | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    *,
    mode: str = "raise",
) -> Tensor:
    """−input at the target's class, for log-probabilities such as those of `log_softmax`.

    Shapes, weights, reductions and modes are those of `cross_entropy` with integer targets, and so are the errors.

    >>> F.nll_loss([[-1.0, -2.0]], [1])
    Tensor(2., f32[])
    """
    logs, wanted = as_tensor(input), as_tensor(target, int64)
    require("nll_loss", logs.type.dtype, FLOATING)
    axis = 0 if len(logs.type.shape) == 1 else 1
    wanted = _by_mode("nll_loss", wanted, logs, axis, ignore_index, mode)
    v = wide_float(logs)
    losses = pointwise.neg(picked(v, wanted, axis))
    own = filled(losses, 1.0) if weight is None else picked(_class_weights(weight, v, axis), wanted, axis)
    if weight is not None:
        losses = pointwise.mul(losses, own)
    counts, zero = pointwise.ne(wanted, filled(wanted, ignore_index)), filled(losses, 0.0)
    result = reduced(pointwise.select(counts, losses, zero), reduction, pointwise.select(counts, own, zero))
    return as_tensor(result, logs.type.dtype)
