# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false, reportUnknownMemberType=false
"""Rearrangements: slice, flip, pad and concatenate; the module also exports `permute`, `reshape` and `broadcast`.

All except `pad` and `concatenate` are views of their operand's memory if strides allow it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, cast

from nacre.base.dims import Dim, Size, at_most_one
from nacre.base.dtypes import bool_, int64
from nacre.base.errors import ArgumentError, DTypeError, ShapeError
from nacre.base.types import Shape, TensorType
from nacre.ir.facts import same_type
from nacre.ir.primitive import Element, FreeSizes, Layout, Linear, Operand, Params, Primitive
from nacre.kernel.ast import (
    Apply,
    Expr,
    apply,
    const,
    index_add,
    index_mul,
    number_of,
    size_expr,
)
from nacre.ops.pointwise import fill, select, zeros_like
from nacre.ops.rules import by_position, require_axes, require_axis, show
from nacre.ops.shape import (
    Source,
    all_to_front,
    batch_size,
    batched_to_front,
    broadcast,
    front,
    inverse,
    move,
    permute,
    reshape,
    sum_,
)
from nacre.trace.bind import bind
from nacre.trace.value import Value

__all__ = [
    "broadcast",
    "concatenate",
    "flip",
    "front",
    "inverse",
    "move",
    "pad",
    "permute",
    "reshape",
    "slice_",
    "slice_axis",
]

Index = tuple[Expr, ...]
Operands = tuple[Operand, ...]
Types = tuple[TensorType, ...]

GROUP = 16  # operands of one concatenation
Sizes = tuple[Size, ...]

# instructions that select the source of an element: too many to repeat for every reader
CHOICE_COST = 8

# ---- slice


def slice_(x: Value, starts: Sequence[Size], stops: Sequence[Size], steps: Sequence[int] | None = None) -> Value:
    """The elements start, start + step … below stop along each axis; 0 <= start <= stop <= size."""
    steps = tuple(steps or (1,) * x.type.rank)
    begins, ends = tuple(starts), tuple(stops)
    if ends == x.type.shape and not any([a != 0 for a in begins]) and set(steps) <= {1}:
        return x
    return bind(slice_p, x, starts=begins, stops=ends, steps=steps)


def slice_axis(x: Value, axis: int, start: Size, stop: Size, step: int = 1) -> Value:
    """A slice of one axis."""
    starts: list[Size] = [0] * x.type.rank
    stops, steps = list(x.type.shape), [1] * x.type.rank
    starts[axis], stops[axis], steps[axis] = start, stop, step
    return slice_(x, starts, stops, steps)


def _slice_type(x: TensorType, starts: Sizes, stops: Sizes, steps: tuple[int, ...]) -> TensorType:
    if not len(starts) == len(stops) == len(steps) == x.rank:
        raise ShapeError(f"slice: each axis of {x} needs a start, stop and step; got {starts}, {stops}, {steps}")
    for size, a, b, step in zip(x.shape, starts, stops, steps, strict=True):
        if not (a >= 0 and a <= b and b <= size and step >= 1):
            raise ShapeError(
                f"slice: 0 <= start <= stop <= {size} must hold, and the step must be positive, for {x}; "
                f"got {a}:{b}:{step}; reverse an axis with `flip`"
            )
    return x.with_shape([_count(a, b, s) for a, b, s in zip(starts, stops, steps, strict=True)])


def _count(start: Size, stop: Size, step: int) -> Size:
    return (stop - start + (step - 1)) // step


def _slice_element(
    index: Index,
    operands: Operands,
    types: Types,
    result: TensorType,
    starts: Sizes,
    stops: Sizes,
    steps: tuple[int, ...],
) -> Expr:
    return operands[0](
        tuple(
            index_add(index_mul(i, const(step)), size_expr(start))
            for i, start, step in zip(index, starts, steps, strict=True)
        )
    )


def _slice_view(
    layout: Layout,
    x: TensorType,
    result: TensorType,
    starts: Sizes,
    stops: Sizes,
    steps: tuple[int, ...],
) -> Layout:
    offset: Size = layout.offset
    for start, stride in zip(starts, layout.strides, strict=True):
        offset = offset + start * stride
    strides = tuple(a * b for a, b in zip(layout.strides, steps, strict=True))
    return Layout(offset, strides)  # type: ignore[arg-type]


def _slice_transpose(g: Value, x: Source, starts: Sizes, stops: Sizes, steps: tuple[int, ...]) -> Value:
    high: list[Size] = []
    low: list[Size] = []
    for size, length, start, step in zip(x.type.shape, g.type.shape, starts, steps, strict=True):
        empty = isinstance(length, int) and length == 0
        low.append(0 if empty else start)
        high.append(size if empty else size - start - _span(length, step - 1))
    return pad(g, fill(0, (), g.type.dtype), low, high, [s - 1 for s in steps])


def _slice_batch(
    inputs: Sequence[Value],
    batched: Sequence[int],
    starts: Sizes,
    stops: Sizes,
    steps: tuple[int, ...],
) -> tuple[Value, int]:
    x = front(inputs[0], batched[0])
    return slice_(x, (0, *starts), (x.type.shape[0], *stops), (1, *steps)), 0


def _slice_parts(types: Sequence[TensorType], params: Params) -> Sizes:
    """The elements of each axis before the slice, in it, and behind it."""
    (x,) = types
    starts, stops = cast("Sizes", params["starts"]), cast("Sizes", params["stops"])
    if not len(starts) == len(stops) == x.rank:
        return (-1,)
    ends = zip(x.shape, starts, stops, strict=True)
    return tuple([n for size, start, stop in ends for n in (start, stop - start, size - stop)])


def _slice_of_parts(
    types: Sequence[TensorType], params: Params, parts: Sequence[Size]
) -> tuple[list[TensorType], dict[str, Any]]:
    """A slice with other numbers of elements."""
    starts, within, behind = parts[::3], parts[1::3], parts[2::3]
    stops = tuple([a + b for a, b in zip(starts, within, strict=True)])
    shape = [a + b for a, b in zip(stops, behind, strict=True)]
    return [types[0].with_shape(shape)], {"starts": tuple(starts), "stops": stops}


slice_p = Primitive(
    "slice",
    _slice_type,
    Element(_slice_element, view=_slice_view),
    Linear((_slice_transpose,)),
    _slice_batch,
    simplify=same_type,
    free_sizes=FreeSizes(frozenset(("starts", "stops")), _slice_parts, _slice_of_parts),
)

# ---- flip


def flip(x: Value, axes: Sequence[int]) -> Value:
    """Reverse the order of elements along axes."""
    return bind(flip_p, x, axes=tuple(axes)) if axes else x


def _flip_type(x: TensorType, axes: tuple[int, ...]) -> TensorType:
    require_axes("flip", axes, x.rank)
    return x


def _flip_element(index: Index, operands: Operands, types: Types, result: TensorType, axes: tuple[int, ...]) -> Expr:
    return operands[0](
        tuple(Apply("sub", (size_expr(result.shape[k] - 1), i), int64) if k in axes else i for k, i in enumerate(index))
    )


def _flip_view(layout: Layout, x: TensorType, result: TensorType, axes: tuple[int, ...]) -> Layout | None:
    if any(isinstance(s, int) and s == 0 for s in x.shape):
        return layout
    offset: Size = layout.offset
    for k in axes:
        offset = offset + (x.shape[k] - 1) * layout.strides[k]
    strides = tuple(-s if k in axes else s for k, s in enumerate(layout.strides))
    return Layout(offset, strides)  # type: ignore[arg-type]


def _flip_batch(inputs: Sequence[Value], batched: Sequence[int], axes: tuple[int, ...]) -> tuple[Value, int]:
    return flip(front(inputs[0], batched[0]), [a + 1 for a in axes]), 0


flip_p = Primitive(
    "flip",
    _flip_type,
    Element(_flip_element, view=_flip_view),
    Linear((lambda g, x, axes: flip(g, axes),)),
    _flip_batch,
)

# ---- pad


def pad(
    x: Value,
    value: Value,
    low: Sequence[Size],
    high: Sequence[Size],
    interior: Sequence[int] | None = None,
) -> Value:
    """Surround x along each axis with `low` and `high` copies of a rank-0 value.

    `interior[k]` copies are also inserted between neighbours of axis k.
    """
    interior = tuple(interior or (0,) * x.type.rank)
    if all(amount == 0 for amount in (*low, *high, *interior)):
        return x
    return bind(pad_p, x, value, low=tuple(low), high=tuple(high), interior=interior)


def _span(size: Size, interior: int) -> Size:
    """The extent of an axis with the interior padding between its elements."""
    return size + (size - at_most_one(size)) * interior


def _pad_type(x: TensorType, value: TensorType, low: Sizes, high: Sizes, interior: tuple[int, ...]) -> TensorType:
    if not len(low) == len(high) == len(interior) == x.rank:
        raise ShapeError(f"pad: each axis of {x} needs low, high and interior amounts; got {low}, {high}, {interior}")
    if not all(amount >= 0 for amount in (*low, *high, *interior)):
        raise ArgumentError(f"pad: amounts must be at least 0; got {low}, {high}, {interior}; cut with a slice instead")
    if value.rank or value.dtype is not x.dtype:
        wanted = TensorType((), x.dtype)
        raise DTypeError(f"pad: the value for {x} must have type {wanted}; got {value}")
    sizes = zip(x.shape, low, high, interior, strict=True)
    return x.with_shape([a + b + _span(n, i) for n, a, b, i in sizes])


def clamp(index: Expr, size: Size) -> Expr:
    """An index clamped to [0, size), or 0 if the size is 0."""
    last = size_expr(max(size - 1, 0) if isinstance(size, int) else size - 1)
    return apply("maximum", apply("minimum", index, last), const(0))


def both(a: Expr | None, b: Expr) -> Expr:
    """a and b, where None means true."""
    return b if a is None else apply("and", a, b)


def _pad_element(
    index: Index,
    operands: Operands,
    types: Types,
    result: TensorType,
    low: Sizes,
    high: Sizes,
    interior: tuple[int, ...],
) -> Expr:
    outside = operands[1](())
    if any(isinstance(s, int) and s == 0 for s in types[0].shape):
        return outside
    inside: Expr | None = None
    place: list[Expr] = []
    sizes = zip(index, types[0].shape, low, high, interior, strict=True)
    for i, size, before, after, between in sizes:
        at = i if before == 0 else apply("sub", i, size_expr(before))
        if before != 0:
            inside = both(inside, apply("ge", at, const(0)))
        if after != 0:
            inside = both(inside, apply("lt", at, size_expr(_span(size, between))))
        if between:
            inside = both(inside, apply("eq", apply("rem", at, const(between + 1)), const(0)))
            at = apply("idiv", at, const(between + 1))
        place.append(clamp(at, size) if before != 0 or after != 0 else at)
    value = operands[0](tuple(place))
    return value if inside is None else apply("select", inside, value, outside)


def _unpad(g: Value, x: Source, value: Source, low: Sizes, high: Sizes, interior: tuple[int, ...]) -> Value:
    """The elements of g that came from x."""
    if any(isinstance(s, int) and s == 0 for s in x.type.shape):
        return zeros_like(x)
    spans = [_span(n, i) for n, i in zip(x.type.shape, interior, strict=True)]
    stops = [a + s for a, s in zip(low, spans, strict=True)]
    return slice_(g, low, stops, [i + 1 for i in interior])


def _sum_of_padding(g: Value, x: Source, value: Source, low: Sizes, high: Sizes, interior: tuple[int, ...]) -> Value:
    """The sum of the elements of g that did not come from x."""
    from_x = pad(fill(True, x.type.shape, bool_), fill(False, (), bool_), low, high, interior)
    return sum_(select(from_x, zeros_like(g), g), range(g.type.rank))


def _pad_batch(
    inputs: Sequence[Value],
    batched: Sequence[int | None],
    low: Sizes,
    high: Sizes,
    interior: tuple[int, ...],
) -> tuple[Value, int]:
    size = batch_size(inputs, batched)
    x = batched_to_front(inputs[0], batched[0], size)
    value, amounts = inputs[1], ((0, *low), (0, *high), (0, *interior))
    if batched[1] is None:
        return pad(x, value, *amounts), 0
    # pad with zeros, then replace the padding by each example's own value
    zero = fill(0, (), x.type.dtype)
    padded = pad(x, zero, *amounts)
    true = fill(True, x.type.shape, bool_)
    from_x = pad(true, fill(False, (), bool_), *amounts)
    return select(from_x, padded, broadcast(value, padded.type.shape, (0,))), 0


pad_p = Primitive(
    "pad",
    _pad_type,
    Element(_pad_element, cost=CHOICE_COST),
    Linear((_unpad, _sum_of_padding)),
    _pad_batch,
)

# ---- concatenate


def concatenate(xs: Sequence[Value], axis: int) -> Value:
    """Operands joined along an axis; their other sizes are equal.

    Many operands are joined in groups, so that each step searches few operands for an element.
    """
    while len(xs) > GROUP:
        xs = [concatenate(xs[k : k + GROUP], axis) for k in range(0, len(xs), GROUP)]
    return xs[0] if len(xs) == 1 else bind(concatenate_p, *xs, axis=axis)


def _concatenate_type(*xs: TensorType, axis: int) -> TensorType:
    if not xs:
        raise ArgumentError("concatenate: there must be at least one operand; got none")
    require_axis("concatenate", axis, xs[0])
    total: Size = 0
    for x in xs:
        if x.dtype is not xs[0].dtype:
            raise DTypeError(f"concatenate: operands must have one dtype; got {xs[0]} and {x}")
        if _except(x.shape, axis) != _except(xs[0].shape, axis):
            raise ShapeError(
                f"concatenate: sizes outside axis {axis} must be equal; got {show(xs[0].shape)} and {show(x.shape)}"
            )
        total = total + x.shape[axis]
    return xs[0].with_shape((*xs[0].shape[:axis], total, *xs[0].shape[axis + 1 :]))


def _except(shape: Shape, axis: int) -> Shape:
    return shape[:axis] + shape[axis + 1 :]


def _concatenate_element(index: Index, operands: Operands, types: Types, result: TensorType, axis: int) -> Expr:
    parts: list[tuple[Operand, Size, Size]] = []
    start: Size = 0
    for operand, x in zip(operands, types, strict=True):
        size = x.shape[axis]
        if isinstance(size, Dim) or size > 0:
            parts.append((operand, start, size))
        start = start + size
    value: Expr = number_of(0, result.dtype)
    for k, (operand, start, size) in reversed(list(enumerate(parts))):
        at = index[axis] if start == 0 else apply("sub", index[axis], size_expr(start))
        place = at if len(parts) == 1 else clamp(at, size)
        own = operand((*index[:axis], place, *index[axis + 1 :]))
        here = apply("lt", at, size_expr(size))
        value = own if k == len(parts) - 1 else apply("select", here, own, value)
    return value


def _cut(position: int, g: Value, *xs: Source, axis: int) -> Value:
    """The part of g that came from one operand."""
    start: Size = 0
    for x in xs[:position]:
        start = start + x.type.shape[axis]
    return slice_axis(g, axis, start, start + xs[position].type.shape[axis])


def _concatenate_batch(inputs: Sequence[Value], batched: Sequence[int | None], axis: int) -> tuple[Value, int]:
    return concatenate(all_to_front(inputs, batched), axis + 1), 0


concatenate_p = Primitive(
    "concatenate",
    _concatenate_type,
    Element(_concatenate_element, cost=CHOICE_COST),
    Linear(by_position(lambda k: partial(_cut, k))),
    _concatenate_batch,
)
