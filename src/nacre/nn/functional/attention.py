"""Attention as a function: an explicit graph of primitives that the compiler turns into one kernel."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

from nacre.api import linear_algebra, statistical
from nacre.api.elementwise.apply import of_tensors, require
from nacre.api.operands import TensorLike, as_tensor, filled, meet, require_inside, spread
from nacre.api.primitives import attending, pointwise, view
from nacre.api.taking import as_signed
from nacre.api.tensor import Tensor
from nacre.base.dims import lower
from nacre.base.dtypes import FLOATING, DType, bool_, int64
from nacre.base.errors import ArgumentError, DTypeError, ShapeError
from nacre.base.state import STATE
from nacre.base.types import Shape, broadcast_shapes
from nacre.interpret.precision.functions import on_converted
from nacre.nn.functional.dropouts import check_probability, keep_mask, scaled
from nacre.nn.functional.softmaxes import exponentials, share

__all__ = ["scaled_dot_product_attention"]


def scaled_dot_product_attention(
    query: TensorLike,
    key: TensorLike,
    value: TensorLike,
    attn_mask: TensorLike | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    lengths: TensorLike | None = None,
) -> Tensor:
    """softmax(query · keyᵀ · scale + mask) · value, over the last two axes ([..., L, E] and [..., S, E]).

    A bool mask is true for keys that take part; a floating-point mask is added to the scores.  A query whose keys are
    all masked, by false or −∞, gives 0 and has derivative 0, as do all queries if there are no keys.  The default scale
    is 1/√E.  The sum of the exponentials divides the product with `value`, not each weight.  Half types are cast up,
    computed in float32, and cast down.  `numerics("fast")` computes long rows of scores in blocks.

    With `enable_gqa`, keys and values [..., G, S, E] may have fewer heads than queries [..., H, L, E].  Each of them
    serves H / G consecutive heads, with the bits of repeated keys and values.

    With `lengths`, only the first rows of keys, values and the mask's columns take part.  The result has the bits of
    attention to `key[..., :length, :]` and `value[..., :length, :]`.  A length of 0 gives 0.  `lengths` are integers
    from 0 to S: one for all, of shape [], or one for each place of the leading batch axes, such as [N] for keys
    [N, H, S, E].  They may be traced.  In a compiled function, the later rows are not read, so the time depends on the
    lengths and not on S.  The derivative reads all rows, and is 0 for the later ones.

    Raises ShapeError for shapes or masks that do not fit, DTypeError for operands that are not floating-point and
    lengths that are not integers.  Raises ArgumentError for lengths out of range, in a compiled function when it runs,
    and for lengths with dropout.

    >>> F.scaled_dot_product_attention([[1.0]], [[1.0]], [[2.0]])
    Tensor([[2.]], f32[1, 1])
    >>> F.scaled_dot_product_attention([[1.0]], [[1.0], [1.0]], [[2.0], [4.0]], lengths=1)
    Tensor([[2.]], f32[1, 1])
    """
    dropout_p = check_probability("scaled_dot_product_attention", dropout_p)

    def attended(query: TensorLike, key: TensorLike, value: TensorLike, mask: TensorLike | None = None) -> Any:
        """Attention with these settings."""
        return _attention(query, key, value, mask, dropout_p, is_causal, scale, enable_gqa, lengths)

    if STATE.autocast is not None:  # the mask is added to scores in float32
        again = partial(
            scaled_dot_product_attention,
            attn_mask=attn_mask,
            dropout_p=dropout_p,
            is_causal=is_causal,
            scale=scale,
            enable_gqa=enable_gqa,
            lengths=lengths,
        )
        return on_converted("scaled_dot_product_attention", again, (query, key, value))
    operands = (query, key, value) if attn_mask is None else (query, key, value, attn_mask)
    if dropout_p or lengths is not None:
        return attended(*operands)
    return of_tensors("attention", attended, operands, is_causal=is_causal, scale=scale, enable_gqa=enable_gqa)


def _attention(
    query: TensorLike,
    key: TensorLike,
    value: TensorLike,
    attn_mask: TensorLike | None,
    dropout_p: float,
    is_causal: bool,
    scale: float | None,
    enable_gqa: bool,
    lengths: TensorLike | None,
) -> Any:
    """Attention of operands of any dtypes."""
    (q, k, v), dtype = meet("attention", (query, key, value))
    require("attention", dtype, FLOATING)
    if len(q.type.shape) < 2 or q.type.shape[-1] != k.type.shape[-1] or k.type.shape[-2] != v.type.shape[-2]:
        raise ShapeError(
            f"attention: queries must be [..., L, E], keys [..., S, E] and values [..., S, F]; got {q.type}, {k.type} "
            f"and {v.type}"
        )
    q, k, v = (statistical.wide_float(x) for x in (q, k, v))
    heads = q.type.shape
    held = None if lengths is None else require_lengths(lengths, q, k, v, -3 if enable_gqa else -2)
    if enable_gqa:
        q, k, v, attn_mask, held = _grouped(q, k, v, attn_mask, held)
    if held is None:
        found = _attended(q, k, v, attn_mask, dropout_p, is_causal, scale)
    else:
        require_bounded(dropout_p, is_causal, scale)
        found = _by_kernel(q, k, v, attn_mask, is_causal, _factor(q, scale), held)
    if enable_gqa:
        found = view.reshape(found, (*heads[:-1], found.type.shape[-1]))
    return as_tensor(found, dtype)


def _attended(
    q: Any, k: Any, v: Any, attn_mask: TensorLike | None, dropout_p: float, is_causal: bool, scale: float | None
) -> Any:
    """Attention of operands of one floating-point dtype."""
    factor = _factor(q, scale)
    if attending.chosen(q.type, k.type, v.type, is_causal, factor) and dropout_p == 0.0:
        return _by_kernel(q, k, v, attn_mask, is_causal, factor)
    scores: Any = linear_algebra.matmul(q, view.permute(k, _swapped(k)))
    scores = pointwise.mul(scores, filled(scores, factor))
    scores = _masked(scores, attn_mask, is_causal)
    last = len(scores.type.shape) - 1
    raised, total = exponentials(scores, last, attn_mask is not None)
    if dropout_p > 0.0:
        raised = pointwise.select(keep_mask(raised.type.shape, dropout_p, None), *scaled(raised, dropout_p))
    mixed: Any = linear_algebra.matmul(raised, v)
    return _divided(mixed, total, attn_mask is not None or lower(k.type.shape[-2]) == 0)


def _factor(q: Any, scale: float | None) -> float:
    return 1.0 / math.sqrt(int(q.type.shape[-1]) or 1) if scale is None else scale


def _grouped(q: Any, k: Any, v: Any, mask: TensorLike | None, lengths: Any) -> tuple[Any, Any, Any, Any, Any]:
    """Queries, keys and values with heads [..., G, H / G] (keys and values as views), with mask and lengths."""
    shapes = [x.type.shape for x in (q, k, v)]
    heads, groups, other = (s[-3] if len(s) > 2 else 0 for s in shapes)
    if not heads or not groups or groups != other or heads % groups:
        raise ShapeError(
            "attention: with enable_gqa, the heads of keys and values must divide those of queries, on the third "
            f"axis from the end; got {q.type}, {k.type} and {v.type}"
        )
    q = view.reshape(q, (*shapes[0][:-3], groups, heads // groups, *shapes[0][-2:]))
    k, v = (
        view.broadcast(x, (*s[:-2], heads // groups, *s[-2:]), (*range(len(s) - 2), len(s) - 1, len(s)))
        for x, s in zip((k, v), shapes[1:], strict=True)
    )
    if mask is not None:
        held: Any = as_tensor(mask)
        shape = held.type.shape
        if len(shape) > 2 and shape[-3] not in (1, heads):
            raise ShapeError(f"attention: the mask must have 1 or {heads} heads; got {held.type}")
        split = (1, 1) if len(shape) < 3 or shape[-3] == 1 else (groups, heads // groups)
        mask = view.reshape(held, (*shape[:-3], *split, *shape[-2:])) if len(shape) > 2 else held
    if lengths is not None and len(lengths.type.shape) == len(shapes[0]) - 2:
        lengths = view.reshape(lengths, (*lengths.type.shape[:-1], groups, heads // groups))
    return q, k, v, mask, lengths


def _divided(mixed: Any, total: Any, masked: bool) -> Any:
    part = share(total, masked)
    return pointwise.mul(mixed, view.broadcast(part, mixed.type.shape, tuple(range(len(total.type.shape)))))


def _by_kernel(
    q: Any, k: Any, v: Any, mask: TensorLike | None, causal: bool, factor: float, lengths: Any = None
) -> Any:
    """Attention as one primitive: over blocks of keys, or over the first keys."""
    batch = broadcast_shapes(*(x.type.shape[:-2] for x in (q, k, v)), operation="attention")
    q, k, v = (spread(x, (*batch, *x.type.shape[-2:])) for x in (q, k, v))
    shape = (*batch, q.type.shape[-2], k.type.shape[-2])
    held = None if mask is None else spread(_mask(mask, shape, q.type.dtype), shape)
    if lengths is None:
        mixed, _, total = attending.online_attention(q, k, v, held, causal, factor)
    else:
        mixed, _, total = attending.bounded_attention(q, k, v, lengths, held, causal, factor)
    return _divided(mixed, total, mask is not None or lengths is not None or lower(k.type.shape[-2]) == 0)


def require_lengths(given: TensorLike, q: Any, k: Any, v: Any, end: int) -> Any:
    """Numbers of keys as int64, for leading axes of the batch: axes up to `end` are common, others those of queries."""
    held: Any = as_tensor(given)
    if not held.type.dtype.is_integer:
        raise DTypeError(f"attention: lengths must be integers; got {held.type}")
    common = broadcast_shapes(*(x.type.shape[:end] for x in (q, k, v)), operation="attention")
    batch = (*common, *q.type.shape[end:-2])
    if held.type.shape != batch[: len(held.type.shape)]:
        raise ShapeError(
            f"attention: the shape of lengths must be [] or leading sizes of {list(batch)}; got {held.type}"
        )
    held = as_signed(held)
    text = "attention: lengths must be in [{low}, {high}), up to the number of keys; got {got}"
    require_inside(held, 0, k.type.shape[-2] + 1, ArgumentError, text)
    return held


def require_bounded(dropout: float, causal: bool, scale: float | None) -> None:
    """Require arguments that attention to the first keys supports."""
    if dropout > 0.0:
        raise ArgumentError(
            f"attention: dropout_p must be 0 with lengths; got {dropout}; write attn_mask=nc.arange(S) < lengths[..., "
            "None, None]"
        )
    if causal and scale is not None and not 0 < scale < math.inf:
        raise ArgumentError(f"attention: the scale of causal attention with lengths must be positive; got {scale}")


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
    held = spread(_mask(mask, shape, scores.type.dtype), shape)
    return pointwise.select(held, scores, low) if held.type.dtype is bool_ else pointwise.add(scores, held)


def _mask(mask: TensorLike, shape: Shape, dtype: DType) -> Any:
    """A mask that broadcasts to the scores' shape, of bools or of the scores' dtype."""
    held = as_tensor(mask)
    if broadcast_shapes(held.type.shape, shape, operation="attention mask") != shape:
        raise ShapeError(f"attention: the mask must broadcast to {list(shape)}; got {held.type}")
    if held.type.dtype is bool_:
        return held
    if not held.type.dtype.is_float:
        raise DTypeError(f"attention: the mask must be bool or floating-point; got {held.type}")
    return as_tensor(held, dtype)
