"""Linear and bilinear maps and embeddings as functions."""

from __future__ import annotations

import math
from functools import partial
from typing import Any, cast

import numpy as np

from nacre.api import statistical, utility
from nacre.api.elementwise.apply import of_tensors, require
from nacre.api.operands import (
    TensorLike,
    as_tensor,
    filled,
    in_single,
    is_half,
    meet,
    numbers,
    require_inside,
    spread,
)
from nacre.api.primitives import contract, picking, pointwise, reduce, view
from nacre.api.searching import where
from nacre.api.taking import as_signed, clipped, require_mode, take, with_elements
from nacre.api.tensor import Tensor
from nacre.base.arguments import whole_number
from nacre.base.dims import Size
from nacre.base.dtypes import ANY, DType, int64
from nacre.base.errors import ArgumentError, AxisError, DTypeError, ShapeError
from nacre.base.state import STATE
from nacre.interpret.precision.functions import autocasting, on_converted
from nacre.ops.identity import detach

__all__ = [
    "bilinear",
    "embedding",
    "embedding_bag",
    "linear",
    "one_hot",
]


def linear(x: TensorLike, weight: TensorLike, bias: TensorLike | None = None) -> Tensor:
    """x · weightᵀ + bias, for x [..., in], weight [out, in] and bias [out] → [..., out].

    The result has the promoted dtype of x and weight.  Raises ShapeError if the sizes do not match.

    >>> F.linear([[1.0, 2.0]], [[3.0, 4.0]])
    Tensor([[11.]], f32[1, 1])
    """
    if STATE.autocast is not None:
        return on_converted("linear", linear, (x, weight, bias))
    (a, w), dtype = meet("linear", (x, weight))
    rank = len(a.type.shape)
    if rank == 0 or len(w.type.shape) != 2:
        raise ShapeError(f"linear: the input must be [..., in] and the weight [out, in]; got {a.type} and {w.type}")
    if a.type.shape[-1] != w.type.shape[1]:
        raise ShapeError(
            f"linear: in_features must match the last axis of the input: {w.type.shape[1]} and {a.type.shape[-1]} "
            f"(input {a.type}, weight {w.type})"
        )
    if bias is None:
        return contract.dot(a, w, ((rank - 1,), (1,)))
    b = as_tensor(bias, dtype)
    if b.type.shape != w.type.shape[:1]:
        raise ShapeError(f"linear: the bias must have shape {list(w.type.shape[:1])}; got {b.type}")
    return of_tensors("linear", _with_bias, (a, w, b)) if is_half(b) else _with_bias(a, w, b)


def _with_bias(a: Any, w: Any, b: Any) -> Any:
    """a · wᵀ + b; the bias is added to the sums of half types in float32, which are rounded once."""
    dtype: DType = b.type.dtype
    sums = contract.dot(a, w, ((a.type.rank - 1,), (1,)), ((), ()), dtype.arithmetic)
    return as_tensor(pointwise.add(sums, spread(as_tensor(b, dtype.arithmetic), sums.type.shape)), dtype)


def embedding(
    indices: TensorLike, weight: TensorLike, padding_idx: int | None = None, *, mode: str = "raise"
) -> Tensor:
    """The rows of weight [n, width] at integer indices [...] → [..., width].

    The row at `padding_idx` gets no gradient; a negative one counts from the end, but indices do not.  Raises
    DTypeError for indices that are not integers, and AxisError, an IndexError, for an index below 0 or from n on; so
    does a compiled function when it runs.  With the mode "clip" or "drop", such an index means the nearest row, or
    zeros.

    >>> F.embedding([1, 0], [[1.0, 2.0], [3.0, 4.0]])
    Tensor([[3., 4.],
            [1., 2.]], f32[2, 2])
    """
    wanted, table = as_tensor(indices), as_tensor(weight)
    if not wanted.type.dtype.is_integer:
        raise DTypeError(f"embedding: indices must be integers; got {wanted.type}")
    if require_mode("embedding", mode, allowed=("raise", "clip", "drop")) == "raise":
        require_rows("embedding", wanted, weight)
        rows: Any = picking.take(with_elements(table, wanted, 0, mode), wanted, 0)
    else:
        rows = take(weight, wanted, axis=0, mode="clip")
        if mode == "drop":
            inside = pointwise.eq(as_signed(wanted), clipped(wanted, as_tensor(weight).type.shape[0]))
            inside = view.broadcast(inside, rows.type.shape, tuple(range(len(wanted.type.shape))))
            rows = pointwise.select(inside, rows, filled(rows, 0))
    if padding_idx is None:
        return rows
    padding_idx = _padding("embedding", padding_idx, weight)
    padded = pointwise.eq(wanted, filled(wanted, padding_idx))
    padded = view.broadcast(padded, rows.type.shape, tuple(range(len(wanted.type.shape))))
    return pointwise.select(padded, detach(rows), rows)


def require_rows(operation: str, indices: Any, weight: TensorLike) -> None:
    """Raise AxisError for indices that are no rows of a table."""
    if not indices.type.dtype.is_integer:
        return
    require_inside(
        indices,
        0,
        as_tensor(weight).type.shape[0],
        AxisError,
        f"{operation}: indices must be in [{{low}}, {{high}}), the rows of the table; got {{got}}; count from 0, and "
        "give the table one row for each index",
    )


def _padding(operation: str, index: int, weight: TensorLike) -> int:
    """The row that a padding index names; a negative one counts from the end."""
    rows = as_tensor(weight).type.shape[0]
    if not -rows <= index < rows:
        raise ArgumentError(f"{operation}: padding_idx must be in [{-rows}, {rows}); got {index}")
    return index % rows


def embedding_bag(
    input: TensorLike,
    weight: TensorLike,
    offsets: TensorLike | None = None,
    mode: str = "mean",
    per_sample_weights: TensorLike | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Tensor:
    """The sums, means or maxima of the rows of weight [n, width] over bags of indices → [bags, width].

    Indices are [bags, n], or [all] with the beginnings of the bags in `offsets`.  `mode` is "mean" by default.
    `per_sample_weights` weights the rows of a sum.  The index `padding_idx` does not count.  An empty bag gives 0.
    Raises ArgumentError or ShapeError for arguments that do not fit, and AxisError for an index out of range.

    >>> F.embedding_bag([[0, 1]], [[1.0, 2.0], [3.0, 4.0]])
    Tensor([[2., 3.]], f32[1, 2])
    """
    if mode not in ("sum", "mean", "max"):
        raise ArgumentError(f'embedding_bag: mode must be "sum", "mean" or "max"; got {mode!r}')
    if per_sample_weights is not None and mode != "sum":
        raise ArgumentError(f'embedding_bag: per_sample_weights need mode "sum"; got {mode!r}')
    wanted: Any = as_tensor(input)
    require("embedding_bag", as_tensor(weight).type.dtype, ANY)
    places, present = _bags(wanted, offsets, include_last_offset)
    require_rows("embedding_bag", wanted, weight)
    wanted = take(wanted.flatten(), places)
    if padding_idx is not None:
        present = present & (wanted != _padding("embedding_bag", padding_idx, weight))
    table = as_tensor(weight)
    rows = statistical.wide_float(take(table, wanted, axis=0))
    factors = None if per_sample_weights is None else take(as_tensor(per_sample_weights).flatten(), places)
    pooled = _pooled(rows, factors, present, mode)
    return as_tensor(pooled, table.type.dtype) if is_half(table) else pooled


def _pooled(rows: Any, factors: Any, present: Any, mode: str) -> Any:
    """The sums, means or maxima of those rows [bags, n, width] that are present, in at least float32."""
    if factors is not None:
        rows = rows * as_tensor(factors, rows.type.dtype)[..., None]
    if rows.type.shape[1] == 0:
        return statistical.sum(rows, axis=1)
    inside = present[..., None]
    if mode == "max":
        high = statistical.max(where(inside, rows, -math.inf), axis=1)
        return where(utility.any(present, axis=1)[..., None], high, 0.0)
    total: Any = statistical.sum(where(inside, rows, 0.0), axis=1)
    if mode == "sum":
        return total
    count = statistical.sum(present.astype(int64), axis=1)
    return total / pointwise.maximum(count, filled(count, 1)).astype(total.type.dtype)[..., None]


def _bags(wanted: Any, offsets: TensorLike | None, include_last: bool) -> tuple[Any, Any]:
    """The positions of each bag's indices among all of them, [bags, longest], and which positions a bag has."""
    if len(wanted.type.shape) == 2 and offsets is None:
        count, longest = (int(n) for n in wanted.type.shape)
        starts, lengths = np.arange(count) * longest, np.full(count, longest)
    elif len(wanted.type.shape) == 1 and offsets is not None:
        begun = numbers(as_tensor(offsets, int64), "embedding_bag")
        ends = begun[1:] if include_last else np.append(begun[1:], wanted.type.shape[0])
        starts = begun[:-1] if include_last else begun
        lengths = ends - starts
        if (lengths < 0).any() or (begun < 0).any() or (len(ends) and ends[-1] > wanted.type.shape[0]):
            raise ArgumentError(
                f"embedding_bag: offsets must ascend, from 0 to {wanted.type.shape[0]}; got {begun.tolist()}"
            )
        longest = int(lengths.max(initial=0))
    else:
        raise ShapeError(f"embedding_bag: indices must be [bags, n], or [all] with offsets; got {wanted.type}")
    within = np.arange(longest) < lengths[:, None]
    return as_tensor(np.where(within, starts[:, None] + np.arange(longest), 0)), as_tensor(within)


@autocasting
def bilinear(input1: TensorLike, input2: TensorLike, weight: TensorLike, bias: TensorLike | None = None) -> Tensor:
    """x₁ᵀ · W · x₂ + bias for each matrix W of weight [out, in1, in2], over the last axes → [..., out].

    Raises ShapeError if the sizes do not match.

    >>> F.bilinear([1.0, 2.0], [3.0], [[[1.0], [10.0]]])
    Tensor([63.], f32[1])
    """
    (a, b, w), _ = meet("bilinear", (input1, input2, weight))
    if (
        len(w.type.shape) != 3
        or (a.type.shape[-1:], b.type.shape[-1:]) != (w.type.shape[1:2], w.type.shape[2:])
        or (a.type.shape[:-1] != b.type.shape[:-1])
    ):
        raise ShapeError(
            f"bilinear: inputs must be [..., in1] and [..., in2], and weight [out, in1, in2]; got {a.type}, {b.type} "
            f"and {w.type}"
        )
    if is_half(a):
        return in_single(partial(bilinear, bias=bias), a, b, w)
    rank = len(a.type.shape)
    mixed = contract.dot(a, w, ((rank - 1,), (1,)), ((), ()))  # [..., out, in2]
    y = reduce.sum_(pointwise.mul(mixed, view.broadcast(b, mixed.type.shape, (*range(rank - 1), rank))), (rank,))
    return y if bias is None else pointwise.add(y, spread(as_tensor(bias, y.type.dtype), y.type.shape))


def one_hot(x: TensorLike, num_classes: Size = -1) -> Tensor:
    """Integers [...] as int64 vectors [..., num_classes] that are 1 at their index and 0 elsewhere.

    The default of `num_classes` is one more than the largest integer, which must be known.  Raises ArgumentError for an
    integer out of range, and DTypeError for other dtypes.

    >>> F.one_hot([1, 0], 3)
    Tensor([[0, 1, 0],
            [1, 0, 0]], i64[2, 3])
    """
    given = as_tensor(x)
    require("one_hot", given.type.dtype, ANY)
    if (
        given.type.dtype.is_float and given.type.size != 0
    ):  # an empty list has no integers from which to infer the dtype
        raise DTypeError(f"one_hot: integers are required; got {given.type}; convert them with astype(nc.int64)")
    held = as_tensor(given, int64)
    num_classes = cast("Size", whole_number(num_classes, "one_hot", "num_classes"))
    if isinstance(num_classes, int) and num_classes < -1:
        raise ArgumentError(
            f"one_hot: num_classes must be at least 0, or -1 for one more than the largest integer; got {num_classes}"
        )
    if num_classes == -1:
        num_classes = int(numbers(held, "one_hot").max(initial=-1)) + 1
    text = (
        "one_hot: integers must be in [{low}, {high}); got {got}; count from 0, and raise num_classes for more classes"
    )
    require_inside(held, 0, num_classes, ArgumentError, text)
    shape = (*held.type.shape, num_classes)
    rank = len(held.type.shape)
    wide = view.broadcast(held, shape, tuple(range(rank)))
    return pointwise.cast(pointwise.eq(wide, pointwise.iota(shape, rank, int64)), int64)
