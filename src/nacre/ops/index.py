"""Slices at starts known at run time; the module also exports `take`, `gather`, their transposes, and scatters.

A start is clamped so that the slice is within the operand.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from nacre.base.dims import Size
from nacre.base.dtypes import int64
from nacre.base.errors import ShapeError
from nacre.base.types import Shape, TensorType
from nacre.ir.primitive import Element, FreeSizes, Linear, Nest, Operand, Params, Primitive
from nacre.kernel.ast import Buffer, Expr, Index, Kernel, Load, Store, index_add
from nacre.ops.gather import gather, number, scatter_add, take, take_add
from nacre.ops.pointwise import (
    add,
    and_,
    fill,
    ge,
    iota,
    lt,
    maximum,
    minimum,
    select,
    sub,
    zeros_like,
)
from nacre.ops.reduce import loops
from nacre.ops.rules import by_position, require_dtype, show
from nacre.ops.scatter import scatter, scatter_reduce
from nacre.ops.shape import Source, all_to_front, batch_size, batched_to_front, broadcast
from nacre.ops.view import clamp
from nacre.trace.bind import bind
from nacre.trace.value import Value

__all__ = [
    "dynamic_slice",
    "dynamic_update_slice",
    "gather",
    "scatter",
    "scatter_add",
    "scatter_reduce",
    "take",
    "take_add",
]

Sizes = tuple[Size, ...]
Operands = tuple[Operand, ...]
Batched = Sequence[int | None]


def dynamic_slice(x: Value, starts: Sequence[Value], sizes: Shape) -> Value:
    """The part of x of the given sizes from rank-0 int64 starts, one for each axis."""
    return bind(dynamic_slice_p, x, *starts, sizes=tuple(sizes))


def dynamic_update_slice(x: Value, update: Value, starts: Sequence[Value]) -> Value:
    """x with the part at rank-0 int64 starts replaced by `update`."""
    return bind(dynamic_update_slice_p, x, update, *starts)


def _require_starts(operation: str, x: TensorType, starts: Sequence[TensorType], sizes: Sizes) -> None:
    if len(starts) != x.rank or len(sizes) != x.rank:
        raise ShapeError(
            f"{operation}: each axis of {x} needs a start and a size; got {len(starts)} starts and sizes {show(sizes)}"
        )
    for s in starts:
        require_dtype(operation, "starts", s, int64)
        if s.rank:
            raise ShapeError(f"{operation}: starts must have rank 0; got {s}")
    if any(not (n >= 0 and n <= m) for n, m in zip(sizes, x.shape, strict=True)):
        raise ShapeError(f"{operation}: sizes must be within {show(x.shape)}; got {show(sizes)}")


def _slice_type(x: TensorType, *starts: TensorType, sizes: Sizes) -> TensorType:
    _require_starts("dynamic_slice", x, starts, sizes)
    return x.with_shape(sizes)


def _begin(start: Operand, size: Size, part: Size) -> Expr:
    """A start clamped so that the part is within the size."""
    return clamp(start(()), size - part + 1)


def _slice_element(
    index: tuple[Expr, ...],
    operands: Operands,
    types: Sequence[TensorType],
    result: TensorType,
    sizes: Sizes,
) -> Expr:
    return operands[0](
        tuple(
            index_add(_begin(start, size, part), i)
            for i, start, size, part in zip(index, operands[1:], types[0].shape, sizes, strict=True)
        )
    )


def _update_type(x: TensorType, update: TensorType, *starts: TensorType) -> TensorType:
    require_dtype("dynamic_update_slice", "the update", update, x.dtype)
    _require_starts("dynamic_update_slice", x, starts, update.shape)
    return x


def _update_kernel(types: Sequence[TensorType], results: Sequence[TensorType]) -> Kernel:
    """Store the update in a result that begins as x."""
    x, update, *starts = types
    names = [f"s{k}" for k in range(x.rank)]
    each = tuple(Index(f"i{k}") for k in range(x.rank))
    place = tuple(
        index_add(clamp(Load(name, (), int64), size - part + 1), i)
        for name, i, size, part in zip(names, each, x.shape, update.shape, strict=True)
    )
    stored = Store("y", place, Load("u", each, x.dtype))
    inputs = (
        Buffer("u", x.dtype, update.shape),
        *(Buffer(name, int64, s.shape) for name, s in zip(names, starts, strict=True)),
    )
    return Kernel(
        "dynamic_update_slice",
        inputs,
        (Buffer("y", x.dtype, x.shape),),
        loops(each, update.shape, (stored,)),
    )


# ---- batching: starts that differ between examples become an index for each element


def _positions(start: Value, shape: Shape, axis: int, size: Size, part: Size) -> Value:
    """Each example's clamped start, repeated to a shape whose axis 0 is the batch."""
    zero = zeros_like(start)
    begin = maximum(minimum(start, number(size - part, start.type.shape)), zero)
    return broadcast(begin, shape, (0,))


def _slice_batch(inputs: Sequence[Value], batched: Batched, sizes: Sizes) -> tuple[Value, int]:
    count = batch_size(inputs, batched)
    x = batched_to_front(inputs[0], batched[0], count)
    if all(axis is None for axis in batched[1:]):
        return dynamic_slice(x, (fill(0, (), int64), *inputs[1:]), (count, *sizes)), 0
    for k, part in enumerate(sizes):
        start = batched_to_front(inputs[1 + k], batched[1 + k], count)
        axis, size = k + 1, x.type.shape[k + 1]
        shape = (*x.type.shape[:axis], part, *x.type.shape[axis + 1 :])
        begin = _positions(start, shape, axis, size, part)
        x = gather(x, add(begin, iota(shape, axis, int64)), axis)
    return x, 0


def _update_batch(inputs: Sequence[Value], batched: Batched) -> tuple[Value, int]:
    if all(axis is None for axis in batched[2:]):
        x, update = all_to_front(inputs[:2], batched[:2])
        return dynamic_update_slice(x, update, (fill(0, (), int64), *inputs[2:])), 0
    count = batch_size(inputs, batched)
    x, update = (batched_to_front(v, a, count) for v, a in zip(inputs[:2], batched[:2], strict=True))
    if any(isinstance(s, int) and s == 0 for s in update.type.shape):
        return x, 0
    inside: Value | None = None
    shape = update.type.shape
    for k, size in enumerate(x.type.shape[1:]):
        start = batched_to_front(inputs[2 + k], batched[2 + k], count)
        axis, part = k + 1, shape[k + 1]
        begin = _positions(start, x.type.shape, axis, size, part)
        at = sub(iota(x.type.shape, axis, int64), begin)
        within = and_(ge(at, zeros_like(at)), lt(at, number(part, x.type.shape)))
        inside = within if inside is None else and_(inside, within)
        shape = (*shape[:axis], size, *shape[axis + 1 :])
        offset = sub(iota(shape, axis, int64), _positions(start, shape, axis, size, part))
        update = gather(update, offset, axis)
    return (update if inside is None else select(inside, update, x)), 0


# ---- the primitives


def _slice_of_x(g: Value, x: Source, *starts: Value, sizes: Sizes) -> Value:
    return dynamic_update_slice(zeros_like(x), g, starts)


def _update_of_x(g: Value, x: Source, update: Source, *starts: Value) -> Value:
    return dynamic_update_slice(g, zeros_like(update), starts)


def _update_of_update(g: Value, x: Source, update: Source, *starts: Value) -> Value:
    return dynamic_slice(g, starts, update.type.shape)


def _parts(types: Sequence[TensorType], sizes: Sizes) -> Sizes:
    """The elements of each axis in the part and outside of it."""
    if len(sizes) != types[0].rank:
        return (-1,)
    return tuple([n for size, part in zip(types[0].shape, sizes, strict=True) for n in (part, size - part)])


def _whole(x: TensorType, parts: Sequence[Size]) -> TensorType:
    """The type of the operand with these parts."""
    return x.with_shape([a + b for a, b in zip(parts[::2], parts[1::2], strict=True)])


def _slice_parts(types: Sequence[TensorType], params: Params) -> Sizes:
    return _parts(types, cast("Sizes", params["sizes"]))


def _slice_of_parts(
    types: Sequence[TensorType], params: Params, parts: Sequence[Size]
) -> tuple[list[TensorType], dict[str, Any]]:
    return [_whole(types[0], parts), *types[1:]], {"sizes": tuple(parts[::2])}


def _update_parts(types: Sequence[TensorType], params: Params) -> Sizes:
    return _parts(types, types[1].shape)


def _update_of_parts(
    types: Sequence[TensorType], params: Params, parts: Sequence[Size]
) -> tuple[list[TensorType], dict[str, Any]]:
    return [_whole(types[0], parts), types[1].with_shape(parts[::2]), *types[2:]], {}


dynamic_slice_p = Primitive(
    "dynamic_slice",
    _slice_type,
    Element(_slice_element),
    Linear(by_position(lambda k: None if k else _slice_of_x)),
    _slice_batch,
    free_sizes=FreeSizes(frozenset(("sizes",)), _slice_parts, _slice_of_parts),
)
dynamic_update_slice_p = Primitive(
    "dynamic_update_slice",
    _update_type,
    Nest(_update_kernel, onto=0),
    Linear(by_position(lambda k: (_update_of_x, _update_of_update)[k] if k < 2 else None)),
    _update_batch,
    free_sizes=FreeSizes(frozenset(), _update_parts, _update_of_parts),
)
