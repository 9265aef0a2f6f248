"""Losses of two or three tensors of one shape: differences, probabilities, distances and margins."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

from nacre.api.operands import TensorLike, as_tensor, filled, meet, require_inside, scalar, spread
from nacre.api.primitives import pointwise, reduce, view
from nacre.api.searching import where
from nacre.api.slope import with_slope
from nacre.api.statistical import wide_float
from nacre.api.tensor import Tensor
from nacre.base.dtypes import DType, int64
from nacre.base.errors import ArgumentError, DTypeError, ShapeError
from nacre.base.types import broadcast_shapes
from nacre.interpret.precision.functions import autocasting
from nacre.nn.functional.activation import positive, soft_tail
from nacre.nn.functional.class_losses import reduced
from nacre.nn.functional.distances import narrowed, pairwise_distance, wide_operands

__all__ = [
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "cosine_embedding_loss",
    "gaussian_nll_loss",
    "hinge_embedding_loss",
    "huber_loss",
    "kl_div",
    "l1_loss",
    "margin_ranking_loss",
    "mse_loss",
    "poisson_nll_loss",
    "smooth_l1_loss",
    "soft_margin_loss",
    "triplet_margin_loss",
    "triplet_margin_with_distance_loss",
]


_SATURATED: Final = 1e-12  # the slope of the logarithm does not increase below this probability

Distance = Callable[[Any, Any], Any]


def _pairwise(
    operation: str,
    input: TensorLike,
    target: TensorLike,
    reduction: str,
    f: Callable[[Any, Any], Any],
    weight: TensorLike | None = None,
) -> Any:
    """f of two tensors of one shape in at least float32, weighted and reduced."""
    (a, b), _ = meet(operation, (input, target))
    if a.type.shape != b.type.shape:
        raise ShapeError(f"{operation}: input and target must have one shape; got {a.type} and {b.type}")
    dtype: DType = a.type.dtype
    if not dtype.is_float:
        raise DTypeError(f"{operation}: the dtype must be floating-point; got {dtype.name}")
    wide = dtype.arithmetic
    found = f(as_tensor(a, wide), as_tensor(b, wide))
    if weight is not None:
        found = pointwise.mul(found, _spread(operation, weight, found))
    return as_tensor(reduced(found, reduction), dtype)


def _spread(operation: str, weight: TensorLike, like: Any) -> Any:
    """A weight broadcast to the shape of the losses."""
    held = as_tensor(weight, like.type.dtype)
    shape = like.type.shape
    if broadcast_shapes(held.type.shape, shape, operation=operation) != shape:
        raise ShapeError(f"{operation}: weight must broadcast to {list(shape)}; got {held.type}")
    return spread(held, shape)


def _require_all(good: Any, text: str) -> None:
    """Raise ArgumentError unless all are true; {got} in its text is the flat position of the first that is not."""
    place = view.reshape(pointwise.iota((good.type.size,), 0, int64), good.type.shape)
    require_inside(pointwise.select(good, filled(place, -1), place), -1, 0, ArgumentError, text)


# ---- differences


@autocasting
def mse_loss(
    input: TensorLike, target: TensorLike, reduction: str = "mean", weight: TensorLike | None = None
) -> Tensor:
    """(input − target)².

    Input and target have one shape and a floating-point dtype.  The reduction "mean" (default) or "sum" gives a scalar;
    "none" gives the shape of the input.  `weight` broadcasts to it.  Raises ShapeError or DTypeError for other
    arguments.

    >>> F.mse_loss([1.0, 2.0], [1.0, 4.0])
    Tensor(2., f32[])
    """

    def compute(a: Any, b: Any) -> Any:
        """The square of the difference."""
        difference = pointwise.sub(a, b)
        return pointwise.mul(difference, difference)

    return _pairwise("mse_loss", input, target, reduction, compute, weight)


@autocasting
def l1_loss(input: TensorLike, target: TensorLike, reduction: str = "mean", weight: TensorLike | None = None) -> Tensor:
    """|input − target|.

    Shapes, dtypes, reductions and errors are those of `mse_loss`.

    >>> F.l1_loss([1.0, 2.0], [1.0, 4.0])
    Tensor(1., f32[])
    """
    return _pairwise("l1_loss", input, target, reduction, lambda a, b: pointwise.abs_(pointwise.sub(a, b)), weight)


@autocasting
def huber_loss(
    input: TensorLike,
    target: TensorLike,
    reduction: str = "mean",
    delta: float = 1.0,
    weight: TensorLike | None = None,
) -> Tensor:
    """½d² where |d| ≤ delta, else delta · (|d| − ½delta), for d = input − target.

    Shapes, dtypes, reductions and errors are those of `mse_loss`.  Raises ArgumentError unless delta is positive.

    >>> F.huber_loss([0.0], [3.0])
    Tensor(2.5, f32[])
    """
    if not delta > 0:
        raise ArgumentError(f"huber_loss: delta must be positive; got {delta}")

    def compute(a: Any, b: Any) -> Any:
        """Half the square up to delta, a line beyond."""
        difference = pointwise.sub(a, b)
        size = pointwise.abs_(difference)
        square = pointwise.mul(pointwise.mul(difference, difference), filled(a, 0.5))
        line = pointwise.mul(pointwise.sub(size, filled(a, 0.5 * delta)), filled(a, delta))
        return pointwise.select(pointwise.le(size, filled(a, delta)), square, line)

    return _pairwise("huber_loss", input, target, reduction, compute, weight)


@autocasting
def smooth_l1_loss(input: TensorLike, target: TensorLike, reduction: str = "mean", beta: float = 1.0) -> Tensor:
    """½d²/beta where |d| < beta, else |d| − ½beta, for d = input − target.

    Shapes, dtypes, reductions and errors are those of `mse_loss`.  Raises ArgumentError for a negative beta.

    >>> F.smooth_l1_loss([0.0], [3.0], beta=2.0)
    Tensor(2., f32[])
    """
    if beta < 0:
        raise ArgumentError(f"smooth_l1_loss: beta must not be negative; got {beta}")
    if beta == 0:
        return l1_loss(input, target, reduction)

    def compute(a: Any, b: Any) -> Any:
        """A parabola up to beta, a line beyond."""
        difference: Any = pointwise.sub(a, b)
        size: Any = pointwise.abs_(difference)
        return where(size < beta, difference * difference * (0.5 / beta), size - 0.5 * beta)

    return _pairwise("smooth_l1_loss", input, target, reduction, compute)


# ---- probabilities


@autocasting
def binary_cross_entropy(
    input: TensorLike, target: TensorLike, weight: TensorLike | None = None, reduction: str = "mean"
) -> Tensor:
    """−target · log(input) − (1 − target) · log(1 − input), for probabilities.

    Each logarithm is at least −100 and its slope at most 10¹².  Shapes, dtypes, reductions and errors are those of
    `mse_loss`.  Raises ArgumentError for an input or target that is not in [0, 1], NaN included; so does a compiled
    function when it runs.

    >>> F.binary_cross_entropy([0.5], [1.0])
    Tensor(0.6931472, f32[])
    """

    def compute(x: Any, t: Any) -> Any:
        """The logarithms are limited, so that 0 and 1 give a number."""
        for what, v in (("inputs", x), ("targets", t)):
            _require_all(
                pointwise.and_(pointwise.ge(v, filled(v, 0.0)), pointwise.le(v, filled(v, 1.0))),
                f"binary_cross_entropy: {what} must be probabilities in [0, 1]; got another number at flat position "
                "{got}; for numbers before the sigmoid, write binary_cross_entropy_with_logits",
            )
        low, least, most = (filled(x, bound) for bound in (-100.0, _SATURATED, 1.0))
        nearly = pointwise.and_(pointwise.lt(x, least), pointwise.ge(x, filled(x, 0.0)))
        yes = with_slope(lambda v: pointwise.maximum(pointwise.log(v), low), x, nearly, 1 / _SATURATED)
        no = with_slope(
            lambda v: pointwise.maximum(pointwise.log1p(pointwise.neg(v)), low),
            x,
            pointwise.eq(x, most),
            -1 / _SATURATED,
        )
        return (t - 1.0) * no - t * yes

    return _pairwise("binary_cross_entropy", input, target, reduction, compute, weight)


@autocasting
def binary_cross_entropy_with_logits(
    input: TensorLike,
    target: TensorLike,
    weight: TensorLike | None = None,
    reduction: str = "mean",
    pos_weight: TensorLike | None = None,
) -> Tensor:
    """max(x, 0) − x · target + log(1 + e^−|x|), the cross entropy of sigmoid(x); `pos_weight` weights the targets.

    Shapes, dtypes, reductions and errors are those of `mse_loss`.

    >>> F.binary_cross_entropy_with_logits([0.0], [1.0])
    Tensor(0.6931472, f32[])
    """
    operation = "binary_cross_entropy_with_logits"

    def compute(x: Any, t: Any) -> Any:
        """max(x, 0) - x t + log1p(exp(-|x|)), which does not overflow."""
        tail = soft_tail(x)
        if pos_weight is not None:
            share = (_spread(operation, pos_weight, x) - 1.0) * t + 1.0
            zero = filled(x, 0.0)
            high = pointwise.select(pointwise.le(x, zero), pointwise.neg(x), zero)
            return (1.0 - t) * x + share * (tail + high)
        return pointwise.add(pointwise.fma(pointwise.neg(x), t, positive(x)), tail)

    return _pairwise(operation, input, target, reduction, compute, weight)


@autocasting
def kl_div(input: TensorLike, target: TensorLike, reduction: str = "mean", log_target: bool = False) -> Tensor:
    """target · (log target − input), for log-probabilities; 0 where the target is 0.

    With `log_target` the target holds logarithms too.  The reduction "batchmean" is the sum divided by the leading
    size.  Shapes, dtypes and errors are those of `mse_loss`.

    >>> F.kl_div([0.0], [1.0])
    Tensor(0., f32[])
    """

    def compute(logs: Any, t: Any) -> Any:
        """t (log t - logs), and 0 where t is 0."""
        if log_target:
            return pointwise.mul(pointwise.exp(t), pointwise.sub(t, logs))
        zero = filled(t, 0.0)
        present = pointwise.gt(t, zero)
        safe = pointwise.select(present, t, filled(t, 1.0))
        return pointwise.select(present, pointwise.mul(t, pointwise.sub(pointwise.log(safe), logs)), zero)

    if reduction != "batchmean":
        return _pairwise("kl_div", input, target, reduction, compute)
    total = _pairwise("kl_div", input, target, "sum", compute)
    shape = as_tensor(input).type.shape
    return pointwise.div(total, scalar(shape[0] if shape else 1, total.type.dtype))


@autocasting
def poisson_nll_loss(
    input: TensorLike,
    target: TensorLike,
    log_input: bool = True,
    full: bool = False,
    eps: float = 1e-8,
    reduction: str = "mean",
) -> Tensor:
    """eˣ − target · x, or x − target · log(x + eps) without `log_input`; `full` adds Stirling's approximation.

    Shapes, dtypes, reductions and errors are those of `mse_loss`.

    >>> F.poisson_nll_loss([0.0], [2.0])
    Tensor(1., f32[])
    """

    def compute(x: Any, t: Any) -> Any:
        """The negative logarithm of Poisson's distribution, without the term of the target alone."""
        loss = pointwise.exp(x) - t * x if log_input else x - t * pointwise.log(x + eps)
        if not full:
            return loss
        above = t > 1.0
        safe = where(above, t, filled(t, 1.0))
        more = safe * pointwise.log(safe) - safe + 0.5 * pointwise.log(safe * (2 * math.pi))
        return loss + where(above, more, filled(t, 0.0))

    return _pairwise("poisson_nll_loss", input, target, reduction, compute)


@autocasting
def gaussian_nll_loss(
    input: TensorLike,
    target: TensorLike,
    var: TensorLike,
    full: bool = False,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> Tensor:
    """½(log v + (input − target)² / v), for the variance v, which is at least eps.

    `var` has the shape of the input, or size 1 or nothing for its last axis.  Below eps it has no derivative.  Shapes,
    dtypes, reductions and errors are those of `mse_loss`.  Raises ArgumentError for a negative variance; so does a
    compiled function when it runs.

    >>> F.gaussian_nll_loss([1.0], [3.0], [1.0])
    Tensor(2., f32[])
    """
    x: Any = as_tensor(input)
    v: Any = as_tensor(var, x.type.dtype)
    if len(v.type.shape) + 1 == len(x.type.shape):
        v = v[..., None]

    def compute(a: Any, b: Any) -> Any:
        """The squared difference over the variance, and the variance's logarithm."""
        wide = wide_float(v)
        _require_all(
            pointwise.not_(pointwise.lt(wide, filled(wide, 0.0))),
            "gaussian_nll_loss: variances must not be negative; got a negative one at flat position {got}; for "
            "logarithms of variances, write var=nacre.exp(x)",
        )
        held = _spread("gaussian_nll_loss", where(wide < eps, filled(wide, eps), wide), a)
        loss = 0.5 * (pointwise.log(held) + (a - b) * (a - b) / held)
        return loss + 0.5 * math.log(2 * math.pi) if full else loss

    return _pairwise("gaussian_nll_loss", x, target, reduction, compute)


# ---- margins


@autocasting
def hinge_embedding_loss(input: TensorLike, target: TensorLike, margin: float = 1.0, reduction: str = "mean") -> Tensor:
    """x where the target is 1, max(0, margin − x) where it is −1.

    Shapes, dtypes, reductions and errors are those of `mse_loss`.

    >>> F.hinge_embedding_loss([0.25], [-1.0])
    Tensor(0.75, f32[])
    """

    def compute(x: Any, t: Any) -> Any:
        """Each of the two terms, unless the target is the label of the other one."""
        zero = filled(x, 0.0)
        far = _positive(margin - x)
        return where(t == 1.0, zero, far) + where(t == -1.0, zero, x)

    return _pairwise("hinge_embedding_loss", input, target, reduction, compute)


def _positive(x: Any) -> Any:
    """max(x, 0) with derivative 1 at 0."""
    return where(x < 0.0, filled(x, 0.0), x)


@autocasting
def soft_margin_loss(input: TensorLike, target: TensorLike, reduction: str = "mean") -> Tensor:
    """log(1 + e^(−target · input)).

    Shapes, dtypes, reductions and errors are those of `mse_loss`.

    >>> F.soft_margin_loss([0.0], [1.0])
    Tensor(0.6931472, f32[])
    """

    def compute(x: Any, t: Any) -> Any:
        """Written so that it does not overflow."""
        z = pointwise.neg(t * x)
        return positive(z) + soft_tail(z)

    return _pairwise("soft_margin_loss", input, target, reduction, compute)


@autocasting
def margin_ranking_loss(
    input1: TensorLike, input2: TensorLike, target: TensorLike, margin: float = 0.0, reduction: str = "mean"
) -> Tensor:
    """max(0, −target · (input1 − input2) + margin).

    Shapes, dtypes, reductions and errors are those of `mse_loss`.

    >>> F.margin_ranking_loss([1.0], [3.0], [1.0])
    Tensor(2., f32[])
    """
    a, b, t = wide_operands("margin_ranking_loss", input1, input2, target)
    return narrowed(reduced(_positive(margin - t * (a - b)), reduction), input1)


@autocasting
def cosine_embedding_loss(
    input1: TensorLike, input2: TensorLike, target: TensorLike, margin: float = 0.0, reduction: str = "mean"
) -> Tensor:
    """1 − cos where the target is 1, max(0, cos − margin) where it is −1, for vectors along the last axis.

    The inputs are [N, D] or [D], the targets [N] or a scalar.  The reduction is "mean" by default.  Raises ShapeError
    for targets that do not fit.

    >>> F.cosine_embedding_loss([[1.0, 0.0]], [[0.0, 1.0]], [1.0])
    Tensor(1., f32[])
    """
    a, b = wide_operands("cosine_embedding_loss", input1, input2)
    labels: Any = as_tensor(target)
    if labels.type.shape != a.type.shape[:-1]:
        raise ShapeError(f"cosine_embedding_loss: targets must have shape {list(a.type.shape[:-1])}; got {labels.type}")
    dot, one, two = (reduce.sum_(pointwise.mul(u, v), (len(a.type.shape) - 1,)) for u, v in ((a, b), (a, a), (b, b)))
    cosine: Any = dot / pointwise.sqrt((one + 1e-12) * (two + 1e-12))
    zero = filled(cosine, 0.0)
    losses = where(labels == 1, 1.0 - cosine, zero) + where(labels == -1, _positive(cosine - margin), zero)
    return narrowed(reduced(losses, reduction), input1)


@autocasting
def triplet_margin_loss(
    anchor: TensorLike,
    positive: TensorLike,
    negative: TensorLike,
    margin: float = 1.0,
    p: float = 2.0,
    eps: float = 1e-6,
    swap: bool = False,
    reduction: str = "mean",
) -> Tensor:
    """max(0, margin + |anchor − positive| − |anchor − negative|), by the p-norm along the last axis.

    The three tensors are [N, D] or [D] with a floating-point dtype.  `swap` uses |positive − negative| if it is smaller
    (Balntas et al. 2016).  The reduction is "mean" by default.

    >>> F.triplet_margin_loss([[0.0]], [[1.0]], [[3.0]], margin=3.0, eps=0.0)
    Tensor(1., f32[])
    """
    return triplet_margin_with_distance_loss(
        anchor,
        positive,
        negative,
        distance_function=lambda a, b: pairwise_distance(a, b, p, eps),
        margin=margin,
        swap=swap,
        reduction=reduction,
    )


def triplet_margin_with_distance_loss(
    anchor: TensorLike,
    positive: TensorLike,
    negative: TensorLike,
    *,
    distance_function: Distance | None = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: str = "mean",
) -> Tensor:
    """`triplet_margin_loss` with any distance of two tensors; the default is `pairwise_distance`.

    The reduction is "mean" by default.

    >>> F.triplet_margin_with_distance_loss([0.0], [1.0], [3.0], distance_function=lambda a, b: abs(a - b))
    Tensor(0., f32[])
    """
    distance = distance_function or pairwise_distance
    xs, dtype = meet("triplet_margin_loss", (anchor, positive, negative))
    xs = [wide_float(x) for x in xs]
    near, far = distance(xs[0], xs[1]), distance(xs[0], xs[2])
    if swap:
        far = pointwise.minimum(far, distance(xs[1], xs[2]))
    return as_tensor(reduced(_positive(margin + near - far), reduction), dtype if dtype.is_float else None)
