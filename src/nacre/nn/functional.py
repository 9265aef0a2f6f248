"""Linear layers, embeddings and attention as functions; all other functions of networks come along.

Every composite is the explicit graph of primitives that its best fused kernel computes, so its bits do not depend
on whether it is fused.  Half types are cast up, computed in float32, and cast down.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from nacre.api import linalg, reductions
from nacre.api.functions import REAL, require, where
from nacre.api.indexing import take
from nacre.api.operands import TensorLike, as_tensor, filled, meet, numbers, spread
from nacre.api.primitives import contract, pointwise, reduce, view
from nacre.api.tensor import Tensor
from nacre.base.dtypes import bool_, int64
from nacre.base.errors import ArgumentError, DTypeError, ShapeError
from nacre.base.types import broadcast_shapes
from nacre.nn.functions.activations import *
from nacre.nn.functions.activations import exponentials
from nacre.nn.functions.dropout import *
from nacre.nn.functions.dropout import kept, scaled
from nacre.nn.functions.losses import *
from nacre.nn.functions.margin_losses import *
from nacre.nn.functions.norms import *
from nacre.nn.functions.pair_losses import *
from nacre.nn.functions.pool import *
from nacre.nn.functions.pool_adaptive import *
from nacre.nn.functions.pool_mean import *
from nacre.nn.functions.resize import *
from nacre.nn.functions.spatial import conv1d as conv1d
from nacre.nn.functions.spatial import conv2d as conv2d
from nacre.nn.functions.spatial import conv_transpose2d as conv_transpose2d
from nacre.nn.functions.volume import conv3d as conv3d
from nacre.nn.functions.volume import conv_transpose1d as conv_transpose1d
from nacre.nn.functions.volume import conv_transpose3d as conv_transpose3d
from nacre.trace.value import stripped

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


def embedding_bag(
    input: TensorLike,
    weight: TensorLike,
    offsets: TensorLike | None = None,
    mode: str = "mean",
    per_sample_weights: TensorLike | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Tensor:
    """The sums, means or maxima of rows of weight over bags of indices [bags, n], or [all] that begin at `offsets`.

    `per_sample_weights` weigh the rows of a sum; what is at `padding_idx` is not in the bag.  An empty bag gives 0.

    >>> F.embedding_bag([[0, 1]], [[1.0, 2.0], [3.0, 4.0]])
    Tensor([[2., 3.]], f32[1, 2])
    """
    if mode not in ("sum", "mean", "max"):
        raise ArgumentError(f'embedding_bag: a mode "sum", "mean" or "max" is required; got {mode!r}')
    if per_sample_weights is not None and mode != "sum":
        raise ArgumentError(f'embedding_bag: mode "sum" is required with per_sample_weights; got {mode!r}')
    wanted: Any = as_tensor(input)
    places, present = _bags(wanted, offsets, include_last_offset)
    wanted = take(wanted.flatten(), places)
    if padding_idx is not None:
        present = present & (wanted != padding_idx % as_tensor(weight).type.shape[0])
    rows: Any = take(weight, wanted, axis=0)
    if per_sample_weights is not None:
        factors = take(as_tensor(per_sample_weights, rows.type.dtype).flatten(), places)
        rows = rows * factors[..., None]
    if places.type.shape[1] == 0:
        return reductions.sum(rows, axis=1)
    inside = present[..., None]
    if mode == "max":
        high = reductions.max(where(inside, rows, -math.inf), axis=1)
        return where(reductions.any(present, axis=1)[..., None], high, 0.0)
    total: Any = reductions.sum(where(inside, rows, 0.0), axis=1)
    if mode == "sum":
        return total
    count = reductions.sum(present.astype(int64), axis=1)
    return total / pointwise.maximum(count, filled(count, 1)).astype(total.type.dtype)[..., None]


def _bags(wanted: Any, offsets: TensorLike | None, include_last: bool) -> tuple[Any, Any]:
    """Where each bag's indices are among all of them, [bags, longest], and which of those places it has."""
    if len(wanted.type.shape) == 2 and offsets is None:
        count, longest = (int(n) for n in wanted.type.shape)
        starts, lengths = np.arange(count) * longest, np.full(count, longest)
    elif len(wanted.type.shape) == 1 and offsets is not None:
        begun = numbers(as_tensor(offsets, int64), "embedding_bag")
        ends = begun[1:] if include_last else np.append(begun[1:], wanted.type.shape[0])
        starts = begun[:-1] if include_last else begun
        lengths = ends - starts
        if (lengths < 0).any() or (begun < 0).any() or (len(ends) and ends[-1] > wanted.type.shape[0]):
            raise ArgumentError("embedding_bag: ascending offsets within the indices are required; got others")
        longest = int(lengths.max(initial=0))
    else:
        raise ShapeError(f"embedding_bag: indices [bags, n], or [all] with offsets, are required; got {wanted.type}")
    within = np.arange(longest) < lengths[:, None]
    return as_tensor(np.where(within, starts[:, None] + np.arange(longest), 0)), as_tensor(within)


def bilinear(
    input1: TensorLike, input2: TensorLike, weight: TensorLike, bias: TensorLike | None = None
) -> Tensor:
    """x₁ᵀ · W · x₂ + bias for each matrix W of weight [out, in1, in2], over the last axes.

    >>> F.bilinear([1.0, 2.0], [3.0], [[[1.0], [10.0]]])
    Tensor([63.], f32[1])
    """
    (a, b, w), _ = meet("bilinear", (input1, input2, weight))
    if len(w.type.shape) != 3 or (a.type.shape[-1:], b.type.shape[-1:]) != (w.type.shape[1:2], w.type.shape[2:]) or (
        a.type.shape[:-1] != b.type.shape[:-1]
    ):
        raise ShapeError(
            "bilinear: inputs [..., in1] and [..., in2] for a weight [out, in1, in2] are required; got "
            f"{a.type}, {b.type} and {w.type}"
        )
    rank = len(a.type.shape)
    mixed = contract.dot(a, w, ((rank - 1,), (1,)), ((), ()))  # [..., out, in2]
    y = reduce.sum_(pointwise.mul(mixed, view.broadcast(b, mixed.type.shape, (*range(rank - 1), rank))), (rank,))
    return y if bias is None else pointwise.add(y, spread(as_tensor(bias, y.type.dtype), y.type.shape))


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
        raised = pointwise.select(kept(raised.type.shape, dropout_p, None), *scaled(raised, dropout_p))
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
