"""Storing at computed positions (`scatter`), and products and extrema with the elements there (`scatter_reduce`).

Only the updated elements are written, so an operand without later use is updated in place at the cost of the updates.
Updates out of range are ignored.  Updates of one element happen in their order: of several that are stored, the last
one stays.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nacre.base.dims import Dim, Size, product
from nacre.base.dtypes import NUMERIC, REAL, DType, int64
from nacre.base.errors import GradientError, ShapeError
from nacre.base.types import Shape, TensorType
from nacre.ir.primitive import Jvp, Linear, Nest, Primitive
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
from nacre.ops.gather import combining, gather, number, require_beside, scatter_add, take
from nacre.ops.pointwise import add, and_, cast, div, eq, fill, ge, iota, lt, mul, select, zeros_like
from nacre.ops.reduce import cumsum, loops
from nacre.ops.rules import by_position, require_axis, require_dtype, require_kind, require_shape
from nacre.ops.shape import Source, all_to_front, batch_size, batched_to_front, broadcast, permute, reshape
from nacre.ops.sort import argsort
from nacre.ops.view import concatenate, slice_axis
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


# ---- products and extrema with the elements at an index for each update


def scatter_reduce(x: Value, indices: Value, updates: Value, axis: int, operation: str) -> Value:
    """x with each update combined with the element at its index along an axis.

    The operation is "mul", "maximum" or "minimum".
    """
    held: DType = x.type.dtype
    if operation == "mul" and held.is_widened:
        wide = (cast(v, held.arithmetic) for v in (x, updates))
        return cast(scatter_reduce(next(wide), indices, next(wide), axis, operation), held)
    return bind(scatter_reduce_p, x, indices, updates, axis=axis, operation=operation)


def _reduce_type(x: TensorType, indices: TensorType, updates: TensorType, axis: int, operation: str) -> TensorType:
    require_kind("scatter_reduce", x, NUMERIC if operation == "mul" else REAL)
    require_beside("scatter_reduce", x, indices, axis)
    require_dtype("scatter_reduce", "indices", indices, int64)
    require_dtype("scatter_reduce", "updates", updates, x.dtype)
    require_shape("scatter_reduce", "updates", updates.shape, indices.shape)
    return x


def _reduce_kernel(types: tuple[TensorType, ...], results: Any, axis: int, operation: str) -> Kernel:
    counted = (types[1].shape[axis],)
    return combining("scatter_reduce", types, axis, counted, lambda place: (tuple(place), tuple(place)), operation)


def _reduce_tangent(y: Value, xs: Sequence[Value], ts: Sequence[Value | None], axis: int, operation: str) -> Value:
    x, indices, updates = xs
    tx, tu = (zeros_like(v) if t is None else t for v, t in ((x, ts[0]), (updates, ts[2])))
    if operation == "mul":
        return _product_tangent(x, indices, updates, tx, tu, axis)
    kept, hit = (cast(eq(v, w), x.type.dtype) for v, w in ((x, y), (updates, gather(y, indices, axis))))
    count = scatter_add(kept, indices, hit, axis)
    return div(scatter_add(mul(kept, tx), indices, mul(hit, tu), axis), count)


def _product_tangent(x: Value, indices: Value, updates: Value, tx: Value, tu: Value, axis: int) -> Value:
    """The product rule for windows of the factors of one element, whose length doubles: correct for zeros, to any
    order.

    Each element of x is its own first factor.  The factors are sorted by their elements.
    """
    size = x.type.shape[axis]
    here = iota(x.type.shape, axis, int64)
    end = number(size, indices.type.shape)
    inside = and_(ge(indices, zeros_like(indices)), lt(indices, end))
    place = concatenate([here, select(inside, indices, end)], axis)
    order = argsort(place, axis)
    place = gather(place, order, axis)
    v, t = (gather(concatenate([a, b], axis), order, axis) for a, b in ((x, updates), (tx, tu)))
    total = place.type.shape[axis]
    if isinstance(total, Dim):
        raise GradientError(
            f"scatter_reduce: the derivative of a product needs a fixed number of factors; got {total}; give the axis "
            "a fixed size"
        )
    window = 1
    while window < total:
        ends = (0, total - window), (window, total)
        (a, b), (ta, tb), (pa, pb) = ([slice_axis(w, axis, *e) for e in ends] for w in (v, t, place))
        same = eq(pa, pb)
        product_, tangent = select(same, mul(a, b), b), select(same, add(mul(ta, b), mul(a, tb)), tb)
        v = concatenate([slice_axis(v, axis, 0, window), product_], axis)
        t = concatenate([slice_axis(t, axis, 0, window), tangent], axis)
        window *= 2
    ones = fill(1, indices.type.shape, int64)
    counts = scatter_add(fill(1, x.type.shape, int64), indices, ones, axis)
    last = add(cumsum(counts, axis), fill(-1, x.type.shape, int64))
    return gather(t, last, axis)


def _reduce_batch(
    inputs: Sequence[Value], batched: Sequence[int | None], axis: int, operation: str
) -> tuple[Value, int]:
    x, indices, updates = all_to_front(inputs, batched)
    return scatter_reduce(x, indices, updates, axis + 1, operation), 0


scatter_reduce_p = Primitive(
    "scatter_reduce", _reduce_type, Nest(_reduce_kernel, onto=0), Jvp(_reduce_tangent), _reduce_batch
)
