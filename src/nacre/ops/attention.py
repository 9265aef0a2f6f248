"""Attention as primitives: over blocks of keys, and over the first keys of each head, whose number is an operand.

The first computes attention without whole rows of scores, so its bits differ; `kernel.order_attention` defines them.
It is chosen only under `numerics("fast")`, by types and parameters alone: float32, at least `LONG` keys and `SEVERAL`
queries.  The derivative computes every weight from the greatest score of its whole row.

The second has the bits of plain products with softmax over the keys and values cut off behind their first `length`
rows.  Later rows are not read.  Its derivative is computed with a mask and has zeros for these rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

from nacre.base.dtypes import FLOATING, bool_, float32, int64
from nacre.base.errors import ArgumentError, ShapeError
from nacre.base.state import STATE
from nacre.base.types import Shape, TensorType
from nacre.ir.primitive import Jvp, Primitive, Template
from nacre.ops.dot import dot
from nacre.ops.pointwise import add, eq, exp, fill, full_like, ge, iota, lt, mul, select, sub, zeros_like
from nacre.ops.rules import require_dtype, require_kind, require_shape
from nacre.ops.shape import broadcast, front, sum_
from nacre.trace.bind import bind
from nacre.trace.value import Value

LONG: Final = 4096  # the least number of keys for blocks
SEVERAL: Final = 256  # the least number of queries for blocks

Tangents = Sequence[Value | None]


def chosen(q: TensorType, k: TensorType, v: TensorType, causal: bool, scale: float) -> bool:
    """Whether attention of operands of these types is computed over blocks of keys."""
    if STATE.numerics != "fast" or q.dtype is not float32:
        return False
    sizes = [(q.shape[-2], SEVERAL), (k.shape[-2], LONG), (q.shape[-1], 1), (v.shape[-1], 1)]
    large = all(isinstance(n, int) and n >= least for n, least in sizes)
    return large and (not causal or 0 < scale < math.inf)


def online_attention(
    q: Value, k: Value, v: Value, mask: Value | None, causal: bool, scale: float
) -> tuple[Value, Value, Value]:
    """Weighted sums of values [..., L, F], and the greatest scores and sums of weights, both [..., L].

    The weights are exp(score − greatest score).  Scores [..., L, S] are q · kᵀ · scale, plus a mask if given.  They are
    −∞ for later keys of causal queries and where a bool mask is False.  All operands have the same batch axes.  The
    greatest scores have no derivative.  The scale of causal attention is positive and finite.
    """
    masks = () if mask is None else (mask,)
    return bind(online_p, q, k, v, *masks, causal=causal, scale=scale)


def bounded_attention(
    q: Value, k: Value, v: Value, lengths: Value, mask: Value | None, causal: bool, scale: float
) -> tuple[Value, Value, Value]:
    """The results of `online_attention`, of exact softmax, for the first keys of each head alone.

    `lengths` are int64, with a shape of leading batch axes.  They are clamped to [0, S].  Without keys, the sums are 0.
    With a mask, 0 is the greatest score of rows of −∞.
    """
    masks = () if mask is None else (mask,)
    return bind(bounded_p, q, k, v, lengths, *masks, causal=causal, scale=scale)


def _online_type(*types: TensorType, causal: bool, scale: float) -> tuple[TensorType, ...]:
    return _type("online_attention", *types, causal=causal, scale=scale)


def _bounded_type(
    q: TensorType, k: TensorType, v: TensorType, lengths: TensorType, *masks: TensorType, causal: bool, scale: float
) -> tuple[TensorType, ...]:
    found = _type("bounded_attention", q, k, v, *masks, causal=causal, scale=scale)
    require_dtype("bounded_attention", "lengths", lengths, int64)
    require_shape("bounded_attention", "lengths", lengths.shape, q.shape[: min(lengths.rank, q.rank - 2)])
    return found


def _type(
    operation: str, q: TensorType, k: TensorType, v: TensorType, *masks: TensorType, causal: bool, scale: float
) -> tuple[TensorType, ...]:
    require_kind(operation, q, FLOATING)
    for what, x in (("keys", k), ("values", v)):
        require_dtype(operation, what, x, q.dtype)
    if q.rank < 2:
        raise ShapeError(f"{operation}: queries must have shape [..., L, E]; got {q}")
    if causal and not 0 < scale < math.inf:
        raise ArgumentError(f"{operation}: the scale of causal attention must be positive; got {scale}")
    batch = q.shape[:-2]
    require_shape(operation, "keys", k.shape, (*batch, k.shape[-2], q.shape[-1]))
    require_shape(operation, "values", v.shape, (*batch, k.shape[-2], v.shape[-1]))
    for m in masks:
        require_shape(operation, "the mask", m.shape, (*batch, q.shape[-2], k.shape[-2]))
        if m.dtype is not bool_:
            require_dtype(operation, "the mask", m, q.dtype)
    rows = q.with_shape(q.shape[:-1])
    return q.with_shape((*rows.shape, v.shape[-1])), rows, rows


# ---- derivative


def _scores(q: Value, k: Value, masks: Sequence[Value], causal: bool, scale: float) -> Value:
    """Scores [..., L, S]."""
    x = _scaled(_outer(q, k), scale)
    low = full_like(x, -math.inf)
    if causal:
        x = select(_reached(x.type), x, low)
    for m in masks:
        x = select(m, x, low) if m.type.dtype is bool_ else add(x, m)
    return x


def _outer(q: Value, k: Value) -> Value:
    """q · kᵀ."""
    last, batch = q.type.rank - 1, tuple(range(q.type.rank - 2))
    return dot(q, k, ((last,), (last,)), (batch, batch))


def _inner(p: Value, v: Value) -> Value:
    """p · v."""
    last, batch = p.type.rank - 1, tuple(range(p.type.rank - 2))
    return dot(p, v, ((last,), (last - 1,)), (batch, batch))


def _scaled(x: Value, scale: float) -> Value:
    return mul(x, broadcast(fill(scale, (), x.type.dtype), x.type.shape, ()))


def _reached(scores: TensorType) -> Value:
    """A mask that is true where a causal query attends to a key."""
    plane = scores.shape[-2:]
    below = ge(iota(plane, 0, int64), iota(plane, 1, int64))
    return broadcast(below, scores.shape, (scores.rank - 2, scores.rank - 1))


def _online_tangents(ys: Sequence[Value], xs: Sequence[Value], ts: Tangents, causal: bool, scale: float) -> Tangents:
    none = eq(ys[1], full_like(ys[1], -math.inf))  # the greatest score if all keys are masked
    return _tangents(select(none, full_like(ys[1], 0.0), ys[1]), xs, ts, causal, scale)


def _bounded_tangents(ys: Sequence[Value], xs: Sequence[Value], ts: Tangents, causal: bool, scale: float) -> Tangents:
    """The tangents of attention with a mask; zeros replace the rows of keys and values that are not read."""
    (q, k, v, lengths, *masks), (tq, tk, tv, _, *tm) = xs, ts

    def read(x: Value | None) -> Value | None:
        """Keys, values or their tangents."""
        return None if x is None else select(_first(lengths, x.type.shape, -2), x, zeros_like(x))

    rows = ys[1].type
    none = lt(lengths, full_like(lengths, 1))
    most = select(broadcast(none, rows.shape, tuple(range(none.type.rank))), zeros_like(ys[1]), ys[1])
    mask = _first(lengths, (*rows.shape, k.type.shape[-2]), -1)
    return _tangents(most, (q, read(k), read(v), mask, *masks), (tq, read(tk), read(tv), None, *tm), causal, scale)


def _first(lengths: Value, shape: Shape, axis: int) -> Value:
    """Whether the index along an axis is below the length."""
    at = iota(shape, len(shape) + axis, int64)
    return lt(at, broadcast(lengths, shape, tuple(range(lengths.type.rank))))


def _tangents(most: Value, xs: Sequence[Any], ts: Tangents, causal: bool, scale: float) -> Tangents:
    """The tangents, given the numbers that were subtracted from the scores."""
    (q, k, v, *masks), (tq, tk, tv, *tm) = xs, ts
    scores = _scores(q, k, masks, causal, scale)
    most = broadcast(most, scores.type.shape, tuple(range(most.type.rank)))
    weights = exp(sub(scores, most))
    parts = [_outer(a, b) for a, b in ((tq, k), (q, tk)) if a is not None and b is not None]
    moved = _scaled(add(*parts) if len(parts) > 1 else parts[0], scale) if parts else None
    zeros = full_like(scores, 0.0)
    if moved is not None and causal:
        moved = select(_reached(scores.type), moved, zeros)
    for m, t in zip(masks, tm, strict=True):
        if m.type.dtype is bool_:
            moved = None if moved is None else select(m, moved, zeros)
        elif t is not None:
            moved = t if moved is None else add(moved, t)
    mixed = [] if tv is None else [_inner(weights, tv)]
    if moved is None:
        return mixed[0] if mixed else None, None, None
    changed = mul(weights, moved)
    mixed.append(_inner(changed, v))
    return (add(*mixed) if len(mixed) > 1 else mixed[0]), None, sum_(changed, (scores.type.rank - 1,))


# ---- batches


def _online_batch(inputs: Sequence[Value], axes: Sequence[int | None], causal: bool, scale: float) -> tuple[Any, Any]:
    return bind(online_p, *_batched(inputs, axes), causal=causal, scale=scale), (0, 0, 0)


def _bounded_batch(inputs: Sequence[Value], axes: Sequence[int | None], causal: bool, scale: float) -> tuple[Any, Any]:
    moved = _batched(inputs, axes)
    if axes[3] is None and not inputs[3].type.rank:
        moved[3] = inputs[3]
    return bind(bounded_p, *moved, causal=causal, scale=scale), (0, 0, 0)


def _batched(inputs: Sequence[Value], axes: Sequence[int | None]) -> list[Value]:
    """Add a leading batch axis; operands without one are repeated."""
    size = next(x.type.shape[a] for x, a in zip(inputs, axes, strict=True) if a is not None)
    return [
        broadcast(x, (size, *x.type.shape), tuple(range(1, x.type.rank + 1))) if a is None else front(x, a)
        for x, a in zip(inputs, axes, strict=True)
    ]


online_p = Primitive(
    "online_attention", _online_type, Template("attend"), Jvp(_online_tangents), _online_batch, multiple=True
)
bounded_p = Primitive(
    "bounded_attention", _bounded_type, Template("attend"), Jvp(_bounded_tangents), _bounded_batch, multiple=True
)
