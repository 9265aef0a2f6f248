"""Activations, normalisations, attention and layers as functions; losses, convolutions and pooling come along.

Every composite is the explicit graph of primitives that its best fused kernel computes, so its bits do not depend
on whether it is fused.  Half types are cast up, computed in float32, and cast down.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

from nacre.api import linalg, reductions
from nacre.api.functions import REAL, require
from nacre.api.indexing import take
from nacre.api.operands import TensorLike, apart, as_tensor, filled, meet, scalar, spread
from nacre.api.primitives import contract, pointwise, reduce, view
from nacre.api.random import bits
from nacre.api.tensor import Tensor
from nacre.base.dims import Size, product
from nacre.base.dtypes import DType, bool_, int64
from nacre.base.errors import ArgumentError, DTypeError, ShapeError
from nacre.base.types import broadcast_shapes, normal_axis
from nacre.nn.losses import binary_cross_entropy_with_logits as binary_cross_entropy_with_logits
from nacre.nn.losses import cross_entropy as cross_entropy
from nacre.nn.losses import huber_loss as huber_loss
from nacre.nn.losses import kl_div as kl_div
from nacre.nn.losses import l1_loss as l1_loss
from nacre.nn.losses import log_softmax as log_softmax
from nacre.nn.losses import mse_loss as mse_loss
from nacre.nn.losses import nll_loss as nll_loss
from nacre.nn.losses import one_hot as one_hot
from nacre.nn.spatial import adaptive_avg_pool2d as adaptive_avg_pool2d
from nacre.nn.spatial import avg_pool2d as avg_pool2d
from nacre.nn.spatial import conv1d as conv1d
from nacre.nn.spatial import conv2d as conv2d
from nacre.nn.spatial import conv_transpose2d as conv_transpose2d
from nacre.nn.spatial import max_pool2d as max_pool2d
from nacre.nn.volume import conv3d as conv3d
from nacre.nn.volume import conv_transpose1d as conv_transpose1d
from nacre.nn.volume import conv_transpose3d as conv_transpose3d
from nacre.trace.value import stripped
from nacre.trace.variable import Variable

_ROOT_HALF: Final = math.sqrt(0.5)
_GELU_SCALE: Final = 2 * math.sqrt(2 / math.pi)


def _composite(operation: str, x: TensorLike, f: Callable[[Any], Any]) -> Any:
    """Apply f in float32 to half types, else as it is; the result has the dtype of x."""
    held = as_tensor(x)
    require(operation, held.type.dtype, REAL)
    return as_tensor(f(reductions.wide_float(held)), held.type.dtype)


# ---- activations


def relu(x: TensorLike) -> Tensor:
    """max(x, 0); NaN stays, and the derivative at 0 is 0.

    >>> F.relu([-1.0, 2.0])
    Tensor([0., 2.], f32[2])
    """
    held = as_tensor(x)
    require("relu", held.type.dtype, "iuf")
    zero = filled(held, 0)
    return pointwise.select(pointwise.le(held, zero), zero, held)


def leaky_relu(x: TensorLike, negative_slope: float = 0.01) -> Tensor:
    """x above 0, negative_slope · x elsewhere.

    >>> F.leaky_relu([-1.0, 2.0], 0.5)
    Tensor([-0.5,  2. ], f32[2])
    """
    held = as_tensor(x)
    require("leaky_relu", held.type.dtype, REAL)
    below = pointwise.le(held, filled(held, 0.0))
    return pointwise.select(below, pointwise.mul(held, filled(held, negative_slope)), held)


def elu(x: TensorLike, alpha: float = 1.0) -> Tensor:
    """x above 0, alpha · (eˣ − 1) elsewhere.

    >>> F.elu([0.0, 2.0])
    Tensor([0., 2.], f32[2])
    """

    def compute(v: Any) -> Any:
        """The value on raw values: v above zero, alpha * expm1(v) below."""
        low = pointwise.le(v, filled(v, 0.0))
        curved = pointwise.expm1(pointwise.minimum(v, filled(v, 0.0)))
        return pointwise.select(low, pointwise.mul(curved, filled(v, alpha)), v)

    return _composite("elu", x, compute)


def gelu(x: TensorLike, approximate: str = "none") -> Tensor:
    """x · Φ(x), as ½x · erfc(−x/√2); or with `approximate="tanh"` the formula of Hendrycks and Gimpel (2016).

    >>> F.gelu([0.0, 100.0])
    Tensor([  0., 100.], f32[2])
    """
    if approximate not in ("none", "tanh"):
        raise ArgumentError(f'gelu: approximate "none" or "tanh" is required; got {approximate!r}')
    return _composite("gelu", x, _gelu if approximate == "none" else _gelu_tanh)


def _gelu(v: Any) -> Any:
    tail = pointwise.erfc(pointwise.mul(v, filled(v, -_ROOT_HALF)))
    return pointwise.mul(pointwise.mul(v, filled(v, 0.5)), tail)


def _gelu_tanh(v: Any) -> Any:
    """½(1 + tanh u) is sigmoid(2u), which does not cancel."""
    cubic = pointwise.fma(pointwise.mul(v, v), filled(v, 0.044715 * _GELU_SCALE), filled(v, _GELU_SCALE))
    return pointwise.mul(v, pointwise.sigmoid(pointwise.mul(v, cubic)))


def silu(x: TensorLike) -> Tensor:
    """x · sigmoid(x).

    >>> F.silu([0.0])
    Tensor([0.], f32[1])
    """
    return _composite("silu", x, lambda v: pointwise.mul(v, pointwise.sigmoid(v)))


def softplus(x: TensorLike) -> Tensor:
    """log(1 + eˣ), without overflow.

    >>> F.softplus([100.0])
    Tensor([100.], f32[1])
    """

    def compute(v: Any) -> Any:
        """max(v, 0) + log1p(exp(-|v|)), which does not overflow."""
        high = pointwise.select(pointwise.le(v, filled(v, 0.0)), filled(v, 0.0), v)
        return pointwise.add(high, pointwise.log1p(pointwise.exp(pointwise.neg(pointwise.abs_(v)))))

    return _composite("softplus", x, compute)


def tanh(x: TensorLike) -> Tensor:
    """The hyperbolic tangent.

    >>> F.tanh([0.0])
    Tensor([0.], f32[1])
    """
    return _composite("tanh", x, pointwise.tanh)


def sigmoid(x: TensorLike) -> Tensor:
    """1 / (1 + e⁻ˣ).

    >>> F.sigmoid([0.0])
    Tensor([0.5], f32[1])
    """
    return _composite("sigmoid", x, pointwise.sigmoid)


def _along(reduced: Any, like: Any, axis: int) -> Any:
    """A reduced value broadcast back along the axis."""
    axes = tuple(k for k in range(len(like.type.shape)) if k != axis)
    return view.broadcast(reduced, like.type.shape, axes)


def softmax(x: TensorLike, axis: int = -1) -> Tensor:
    """exp(x − max) · (1 / Σ exp(x − max)) along an axis.

    >>> F.softmax([0.0, 0.0])
    Tensor([0.5, 0.5], f32[2])
    """
    held = as_tensor(x)
    at = normal_axis(axis, len(held.type.shape), "softmax")

    def compute(v: Any) -> Any:
        """The exponentials over their sum."""
        raised, total = exponentials(v, at)
        return pointwise.mul(raised, _along(pointwise.div(filled(total, 1.0), total), v, at))

    return _composite("softmax", held, compute)


def exponentials(v: Any, axis: int) -> tuple[Any, Any]:
    """exp(v − max) and its sum along an axis.  The result of softmax does not depend on max, so max has no node."""
    high = stripped(reduce.max_(v, (axis,)))
    raised = pointwise.exp(pointwise.sub(v, _along(high, v, axis)))
    return raised, reduce.sum_(raised, (axis,))


# ---- layers


def linear(x: TensorLike, weight: TensorLike, bias: TensorLike | None = None) -> Tensor:
    """x · weightᵀ + bias, for weight [out, in] and x [..., in].

    >>> F.linear([[1.0, 2.0]], [[3.0, 4.0]])
    Tensor([[11.]], f32[1, 1])
    """
    a, w = as_tensor(x), as_tensor(weight)
    (a, w), _ = meet("linear", (a, w))
    rank = len(a.type.shape)
    if rank == 0 or len(w.type.shape) != 2 or a.type.shape[-1] != w.type.shape[1]:
        raise ShapeError(
            f"linear: an input [..., in] for a weight [out, in] is required; got {a.type} and {w.type}"
        )
    y = contract.dot(a, w, ((rank - 1,), (1,)), ((), ()))
    if bias is None:
        return y
    b = as_tensor(bias, y.type.dtype)
    if b.type.shape != w.type.shape[:1]:
        raise ShapeError(f"linear: a bias of shape {list(w.type.shape[:1])} is required; got {b.type}")
    return pointwise.add(y, spread(b, y.type.shape))


def dropout(x: TensorLike, p: float = 0.5, training: bool = True, key: TensorLike | None = None) -> Tensor:
    """x / (1 − p) where kept, each element with probability 1 − p, and 0 elsewhere; x itself when not training.

    >>> F.dropout([1.0, 1.0], 0.0)
    Tensor([1., 1.], f32[2])
    """
    if not 0.0 <= p <= 1.0:
        raise ArgumentError(f"dropout: a probability in [0, 1] is required; got {p}")
    held = as_tensor(x)
    require("dropout", held.type.dtype, REAL)
    if not training or p == 0.0:
        return apart(held, held)
    return pointwise.select(_kept(held.type.shape, p, key), *_scaled(held, p))


def _kept(shape: Any, p: float, key: TensorLike | None) -> Any:
    drawn: Any = bits(shape, key=key)
    return pointwise.ge(drawn, filled(drawn, min(round(p * 2**32), 2**32 - 1)))


def _scaled(x: Any, p: float) -> tuple[Any, Any]:
    return pointwise.mul(x, filled(x, 0.0 if p == 1.0 else 1.0 / (1.0 - p))), filled(x, 0.0)


def embedding(indices: TensorLike, weight: TensorLike, padding_idx: int | None = None) -> Tensor:
    """The rows of weight at integer indices; the row at padding_idx gets no gradient.

    >>> F.embedding([1, 0], [[1.0, 2.0], [3.0, 4.0]])
    Tensor([[3., 4.],
            [1., 2.]], f32[2, 2])
    """
    wanted = as_tensor(indices)
    rows: Any = take(weight, wanted, axis=0)
    if padding_idx is None:
        return rows
    padded = pointwise.eq(wanted, filled(wanted, padding_idx))
    padded = view.broadcast(padded, rows.type.shape, tuple(range(len(wanted.type.shape))))
    return pointwise.select(padded, stripped(rows), rows)


# ---- normalisations


def _part(n: Size, dtype: DType) -> Any:
    """1 / n, rounded once."""
    if isinstance(n, int):
        return scalar(1.0 / n if n else math.inf, dtype)
    counted = scalar(n, dtype)
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

    >>> F.layer_norm([[1.0, 3.0]], 2, eps=0.0)
    Tensor([[-1.,  1.]], f32[1, 2])
    """
    held = as_tensor(x)
    shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
    rank = len(held.type.shape)
    if not shape or held.type.shape[rank - len(shape) :] != shape:
        raise ShapeError(f"layer_norm: a shape ending in {list(shape)} is required; got {list(held.type.shape)}")
    axes = tuple(range(rank - len(shape), rank))

    def compute(v: Any) -> Any:
        """The centred values over their standard deviation, scaled and shifted."""
        _, centred, variance = _moments(v, axes)
        scale = view.broadcast(_inverse_root(variance, eps), v.type.shape, tuple(range(rank - len(shape))))
        return affine(pointwise.mul(centred, scale), weight, bias, axes)

    return _composite("layer_norm", held, compute)


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
        raise ShapeError(f"normalisation: parameters of shape {list(wanted)} are required; got {held.type}")
    return view.broadcast(held, v.type.shape, axes)


def rms_norm(
    x: TensorLike, normalized_shape: int | Sequence[int], weight: TensorLike | None = None, eps: float = 1e-6
) -> Tensor:
    """x / √(mean(x²) + eps) · weight over the last axes (Zhang and Sennrich 2019).

    >>> F.rms_norm([[2.0, 2.0]], 2, eps=0.0)
    Tensor([[1., 1.]], f32[1, 2])
    """
    held = as_tensor(x)
    shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
    rank = len(held.type.shape)
    if not shape or held.type.shape[rank - len(shape) :] != shape:
        raise ShapeError(f"rms_norm: a shape ending in {list(shape)} is required; got {list(held.type.shape)}")
    axes = tuple(range(rank - len(shape), rank))

    def compute(v: Any) -> Any:
        """The values over the root of their mean square, scaled."""
        total = reduce.sum_(pointwise.mul(v, v), axes)
        share = spread(_part(product(shape), v.type.dtype), total.type.shape)
        scale = _inverse_root(pointwise.mul(total, share), eps)
        wide = view.broadcast(scale, v.type.shape, tuple(range(rank - len(shape))))
        return affine(pointwise.mul(v, wide), weight, None, axes)

    return _composite("rms_norm", held, compute)


def group_norm(
    x: TensorLike, num_groups: int, weight: TensorLike | None = None, bias: TensorLike | None = None, eps: float = 1e-5
) -> Tensor:
    """Normalisation over groups of channels and all positions, of x [N, C, ...].

    >>> F.group_norm([[1.0, 3.0]], 1, eps=0.0)
    Tensor([[-1.,  1.]], f32[1, 2])
    """
    held = as_tensor(x)
    shape = held.type.shape
    if len(shape) < 2 or num_groups < 1 or shape[1] % num_groups != 0:
        raise ShapeError(f"group_norm: channels divisible by {num_groups} groups are required; got {list(shape)}")

    def compute(v: Any) -> Any:
        """Each group's centred values over their standard deviation."""
        grouped = view.reshape(v, (shape[0], num_groups, shape[1] // num_groups, *shape[2:]))
        axes = tuple(range(2, len(shape) + 1))
        _, centred, variance = _moments(grouped, axes)
        scale = view.broadcast(_inverse_root(variance, eps), grouped.type.shape, (0, 1))
        return affine(view.reshape(pointwise.mul(centred, scale), shape), weight, bias, (1,))

    return _composite("group_norm", held, compute)


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

    Training, the statistics are the batch's, and the running ones (variables) move towards them by momentum, the
    variance without bias; else the statistics are the running ones.

    >>> F.batch_norm([[1.0], [3.0]], training=True, eps=0.0)
    Tensor([[-1.],
            [ 1.]], f32[2, 1])
    """
    held = as_tensor(x)
    rank = len(held.type.shape)
    if rank < 2:
        raise ShapeError(f"batch_norm: a shape [N, C, ...] is required; got {list(held.type.shape)}")

    def compute(v: Any) -> Any:
        """The values normalised by the batch's or the running moments."""
        if training or running_mean is None or running_var is None:
            axes = (0, *range(2, rank))
            mean, centred, variance = _moments(v, axes)
            if training and running_mean is not None and running_var is not None:
                _move(running_mean, mean, momentum)
                _move(running_var, _unbiased(variance, v, axes), momentum)
        else:
            variance = as_tensor(running_var, v.type.dtype)
            centred = pointwise.sub(v, view.broadcast(as_tensor(running_mean, v.type.dtype), v.type.shape, (1,)))
        scale = _inverse_root(variance, eps)
        if weight is not None:
            scale = pointwise.mul(scale, as_tensor(weight, scale.type.dtype))
        return affine(centred, scale, bias, (1,))

    return _composite("batch_norm", held, compute)


def _unbiased(variance: Any, v: Any, axes: tuple[int, ...]) -> Any:
    n = scalar(product([v.type.shape[a] for a in axes]), v.type.dtype)
    one = filled(n, 1.0)
    factor = pointwise.div(n, pointwise.maximum(pointwise.sub(n, one), one))
    return pointwise.mul(variance, spread(factor, variance.type.shape))


def _move(running: Variable, found: Any, momentum: Any) -> None:
    """running + momentum · (found − running)."""
    found = as_tensor(stripped(found), running.dtype)
    current = stripped(running.value)
    share = spread(as_tensor(momentum, running.dtype), found.type.shape)
    running.assign(pointwise.fma(pointwise.sub(found, current), share, current))


# ---- attention


def scaled_dot_product_attention(
    query: TensorLike,
    key: TensorLike,
    value: TensorLike,
    attn_mask: TensorLike | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
) -> Tensor:
    """softmax(query · keyᵀ · scale + mask) · value, over the last two axes ([..., L, E] and [..., S, E]).

    A bool mask says which keys take part; a floating-point one is added.  The scale is 1/√E unless given.  The sum
    of the exponentials divides the product with `value`, not each weight.

    >>> F.scaled_dot_product_attention([[1.0]], [[1.0]], [[2.0]])
    Tensor([[2.]], f32[1, 1])
    """
    (q, k, v), dtype = meet("attention", (query, key, value))
    require("attention", dtype, REAL)
    if len(q.type.shape) < 2 or q.type.shape[-1] != k.type.shape[-1] or k.type.shape[-2] != v.type.shape[-2]:
        raise ShapeError(
            "attention: queries [..., L, E], keys [..., S, E] and values [..., S, F] are required; got "
            f"{q.type}, {k.type} and {v.type}"
        )
    scores: Any = reductions.wide_float(linalg.matmul(q, view.permute(k, _swapped(k))))
    factor = 1.0 / math.sqrt(int(q.type.shape[-1])) if scale is None else scale
    scores = pointwise.mul(scores, filled(scores, factor))
    scores = _masked(scores, attn_mask, is_causal)
    last = len(scores.type.shape) - 1
    raised, total = exponentials(scores, last)
    if dropout_p > 0.0:
        raised = pointwise.select(_kept(raised.type.shape, dropout_p, None), *_scaled(raised, dropout_p))
    mixed: Any = reductions.wide_float(linalg.matmul(as_tensor(raised, dtype), v))
    share = pointwise.div(filled(total, 1.0), total)
    share = view.broadcast(share, mixed.type.shape, tuple(range(last)))
    return as_tensor(pointwise.mul(mixed, share), dtype)


def _swapped(x: Any) -> tuple[int, ...]:
    rank = len(x.type.shape)
    return (*range(rank - 2), rank - 1, rank - 2)


def _masked(scores: Any, mask: TensorLike | None, causal: bool) -> Any:
    shape = scores.type.shape
    low = filled(scores, -math.inf)
    if causal:
        plane = shape[-2:]
        below = pointwise.ge(pointwise.iota(plane, 0, int64), pointwise.iota(plane, 1, int64))
        scores = pointwise.select(spread(below, shape), scores, low)
    if mask is None:
        return scores
    held = as_tensor(mask)
    if broadcast_shapes(held.type.shape, shape, operation="attention mask") != shape:
        raise ShapeError(f"attention: a mask that extends to {list(shape)} is required; got {held.type}")
    if held.type.dtype is bool_:
        return pointwise.select(spread(held, shape), scores, low)
    if not held.type.dtype.is_float:
        raise DTypeError(f"attention: a bool or floating-point mask is required; got {held.type}")
    return pointwise.add(scores, spread(as_tensor(held, scores.type.dtype), shape))


def normalize(x: TensorLike, axis: int = -1, eps: float = 1e-12) -> Tensor:
    """x divided by its Euclidean norm along an axis, or by eps where that is larger.

    >>> F.normalize([3.0, 4.0])
    Tensor([0.6, 0.8], f32[2])
    """
    held = as_tensor(x)
    at = normal_axis(axis, len(held.type.shape), "normalize")

    def compute(v: Any) -> Any:
        """The values over their Euclidean length along the axis."""
        length = pointwise.sqrt(reduce.sum_(pointwise.mul(v, v), (at,)))
        return pointwise.div(v, _along(pointwise.maximum(length, filled(length, eps)), v, at))

    return _composite("normalize", held, compute)
