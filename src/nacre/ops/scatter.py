"""Storing at computed positions: the transpose reads them, and a later update of one element replaces an earlier one.

Only the updated elements are written, so an operand without later use is updated in place at the cost of the updates.
Updates out of range are ignored.
"""

from __future__ import annotations

from collections.abc import Sequence

from nacre.base.dims import Size, product
from nacre.base.dtypes import int64
from nacre.base.errors import ShapeError
from nacre.base.types import Shape, TensorType
from nacre.ir.primitive import Linear, Nest, Primitive
from nacre.kernel.ast import (
    Buffer,
    Expr,
    For,
    If,
    Index,
    Kernel,
    Let,
    Load,
    Local,
    Stmt,
    Store,
    apply,
    const,
    size_expr,
)
from nacre.ops.gather import number, take
from nacre.ops.pointwise import add, eq, fill, iota, mul, select, zeros_like
from nacre.ops.reduce import loops
from nacre.ops.rules import by_position, require_axis, require_dtype, require_shape
from nacre.ops.shape import Source, batch_size, batched_to_front, broadcast, permute, reshape
from nacre.trace.bind import bind
from nacre.trace.value import Value

Axes = tuple[int, ...]


def scatter(x: Value, update: Value, indices: Sequence[Value], axes: Axes) -> Value:
    """x with update[p] stored at the p-th index of each of `axes`, which ascend; its other axes are those of x."""
    return bind(scatter_p, x, update, *indices, axes=axes)


def _others(x: TensorType, axes: Axes) -> tuple[int, ...]:
    return tuple(k for k in range(x.rank) if k not in axes)


def _type(x: TensorType, update: TensorType, *indices: TensorType, axes: Axes) -> TensorType:
    if not axes or list(axes) != sorted(set(axes)) or len(indices) != len(axes):
        raise ShapeError(f"scatter: axes must ascend and have one index each; got axes {axes}, {len(indices)} indices")
    for axis in axes:
        require_axis("scatter", axis, x)
    for k in indices:
        require_dtype("scatter", "indices", k, int64)
        require_shape("scatter", "indices", k.shape, update.shape[:1])
    require_dtype("scatter", "the update", update, x.dtype)
    require_shape("scatter", "the update", update.shape, (*indices[0].shape, *(x.shape[k] for k in _others(x, axes))))
    return x


def _kernel(types: Sequence[TensorType], results: Sequence[TensorType], axes: Axes) -> Kernel:
    """Updates are stored one after another, whole rows of the last axis at a time; the axes between are independent."""
    x, update, *indices = types
    others = _others(x, axes)
    rows = x.rank - 1 in others
    between = others[:-1] if rows else others
    p, place = Index("p"), [Index(f"i{k}") for k in range(x.rank)]
    at: list[Expr] = [Local(f"at{k}", int64) if k in axes else place[k] for k in range(x.rank)]
    stored: Stmt = Store("y", tuple(at), Load("u", (p, *(place[k] for k in others)), x.dtype))
    if rows:
        stored = For(place[-1].name, x.shape[-1], (stored,), vector=True)
    inside: Expr | None = None
    for k in axes:
        valid = apply("and", apply("ge", at[k], const(0)), apply("lt", at[k], size_expr(x.shape[k])))
        inside = valid if inside is None else apply("and", inside, valid)
    assert inside is not None
    located = tuple(Let(f"at{axis}", Load(f"k{axis}", (p,), int64)) for axis in axes)
    body = (For("p", update.shape[0], (*located, If(inside, (stored,)))),)
    inputs = (
        Buffer("u", x.dtype, update.shape),
        *(Buffer(f"k{axis}", int64, k.shape) for axis, k in zip(axes, indices, strict=True)),
    )
    nest = loops([place[k] for k in between], [x.shape[k] for k in between], body, lanes=False)
    return Kernel("scatter", inputs, (Buffer("y", x.dtype, x.shape),), nest)


# ---- derivative


def _flat(indices: Sequence[Value], sizes: Sequence[Size]) -> Value:
    """The positions of indices in the merged axes."""
    found = indices[0]
    for index, size in zip(indices[1:], sizes[1:], strict=True):
        found = add(mul(found, number(size, index.type.shape)), index)
    return found


def _read(x: Value, indices: Sequence[Value], axes: Axes) -> Value:
    """The elements where an update would be stored, in its shape."""
    others = _others(x.type, axes)
    sizes: Shape = tuple(x.type.shape[k] for k in axes)
    merged = reshape(permute(x, (*axes, *others)), (product(sizes), *(x.type.shape[k] for k in others)))
    return take(merged, _flat(indices, sizes), 0)


def _of_x(g: Value, x: Source, update: Source, *indices: Value, axes: Axes) -> Value:
    return scatter(g, zeros_like(update), indices, axes)


def _of_update(g: Value, x: Source, update: Source, *indices: Value, axes: Axes) -> Value:
    """The cotangent at the places of the updates; zeros for those that a later one replaces."""
    found = _read(g, indices, axes)
    if update.type.shape[0] == 1:
        return found
    numbers = iota(indices[0].type.shape, 0, int64)
    everywhere = tuple(range(len(axes)))
    board = broadcast(fill(-1, (), int64), tuple(x.type.shape[k] for k in axes), ())
    last = eq(_read(scatter(board, numbers, indices, everywhere), indices, everywhere), numbers)
    return select(broadcast(last, found.type.shape, (0,)), found, zeros_like(found))


# ---- batches


def _batch(inputs: Sequence[Value], batched: Sequence[int | None], axes: Axes) -> tuple[Value, int]:
    size = batch_size(inputs, batched)
    x = batched_to_front(inputs[0], batched[0], size)
    update = batched_to_front(inputs[1], batched[1], size)
    within = tuple(axis + 1 for axis in axes)
    if all(axis is None for axis in batched[2:]):
        order = (1, 0, *range(2, update.type.rank))
        return scatter(x, permute(update, order), inputs[2:], within), 0
    each = [batched_to_front(k, axis, size) for k, axis in zip(inputs[2:], batched[2:], strict=True)]
    shape = each[0].type.shape
    count = (product(shape),)
    flat = [reshape(k, count) for k in (iota(shape, 0, int64), *each)]
    return scatter(x, reshape(update, (*count, *update.type.shape[2:])), flat, (0, *within)), 0


scatter_p = Primitive(
    "scatter",
    _type,
    Nest(_kernel, onto=0),
    Linear(by_position(lambda k: (_of_x, _of_update)[k] if k < 2 else None)),
    _batch,
)
