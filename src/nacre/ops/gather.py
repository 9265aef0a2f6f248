"""Reading at computed indices (`take`, `gather`) and adding at them (`take_add`, `scatter_add`).

Reads clamp indices: below 0 to element 0, too large to the last.  Additions ignore indices out of range.  Additions to
one element happen in ascending order of the updates.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from nacre.base.dims import Size, product
from nacre.base.dtypes import INTEGRAL, NUMERIC, int64, uint64
from nacre.base.errors import ShapeError
from nacre.base.types import Shape, TensorType, row_major
from nacre.ir.axes import AxisRule, Needs, Run
from nacre.ir.graph import Equation
from nacre.ir.primitive import Element, Linear, Nest, Operand, Primitive
from nacre.kernel.ast import (
    Alloc,
    Buffer,
    Const,
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
    While,
    apply,
    const,
    index_add,
    index_mul,
    number_of,
    size_expr,
)
from nacre.kernel.ast import cast as convert
from nacre.ops.pointwise import (
    add,
    and_,
    cast,
    dimension,
    fill,
    full_like,
    ge,
    iota,
    lt,
    maximum,
    minimum,
    mul,
    select,
    zeros_like,
)
from nacre.ops.reduce import loops
from nacre.ops.rules import require_axis, require_dtype, require_kind, require_shape, show, without
from nacre.ops.shape import (
    Source,
    all_to_front,
    batch_size,
    batched_to_front,
    broadcast,
    front,
    permute,
    reshape,
)
from nacre.ops.view import clamp
from nacre.trace.bind import bind
from nacre.trace.value import Value

Types = tuple[TensorType, ...]
Operands = tuple[Operand, ...]
Batched = Sequence[int | None]
PARTS = 16  # parts of an axis; threads add to the slices of different parts
_Place = tuple[tuple[Expr, ...], tuple[Expr, ...]]  # positions of an index and of an update in their buffers


def _position(index: Expr, size: Size) -> Expr:
    """An index of any integer dtype as an int64 within [0, size)."""
    if index.dtype is uint64:  # so that numbers beyond int64 are too large, not negative
        index = apply("minimum", index, Const((1 << 63) - 1, uint64))
    return clamp(convert(index, int64), size)


def _inside(index: Expr, size: Size) -> Expr:
    return apply("and", apply("ge", index, const(0)), apply("lt", index, size_expr(size)))


def _signed(index: Expr) -> Expr:
    """An index as an int64, which is out of range if the index is."""
    if index.dtype is uint64:
        index = apply("minimum", index, Const((1 << 63) - 1, uint64))
    return convert(index, int64)


def _require_elements(operation: str, x: TensorType, indices: TensorType, axis: int) -> None:
    if x.shape[axis] == 0 and indices.size != 0:
        raise ShapeError(f"{operation}: axis {axis} must not be empty; got {x}")


def _widened(add_in: Any, x: Value, indices: Value, updates: Value, axis: int) -> Value:
    """Sum half types in float32 and round once."""
    dtype = x.type.dtype
    total = add_in(cast(x, dtype.arithmetic), indices, cast(updates, dtype.arithmetic), axis)
    return cast(total, dtype)


# ---- take: whole slices at indices


def take(x: Value, indices: Value, axis: int) -> Value:
    """Slices of x at indices along an axis; the axes of `indices` replace that axis."""
    return bind(take_p, x, indices, axis=axis)


def _taken(x: TensorType, indices: TensorType, axis: int) -> Shape:
    return (*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :])


def _take_type(x: TensorType, indices: TensorType, axis: int) -> TensorType:
    require_axis("take", axis, x)
    require_kind("take: indices", indices, INTEGRAL)
    _require_elements("take", x, indices, axis)
    return x.with_shape(_taken(x, indices, axis))


def _take_element(index: tuple[Expr, ...], operands: Operands, types: Types, result: TensorType, axis: int) -> Expr:
    x, indices = types
    if x.shape[axis] == 0:
        return number_of(0, x.dtype)
    end = axis + indices.rank
    at = _position(operands[1](index[axis:end]), x.shape[axis])
    return operands[0]((*index[:axis], at, *index[end:]))


def _take_batch(inputs: Sequence[Value], batched: Batched, axis: int) -> tuple[Value, int]:
    x, indices = inputs
    if batched[1] is None:
        assert batched[0] is not None
        return take(front(x, batched[0]), indices, axis + 1), 0
    if batched[0] is None:
        return take(x, indices, axis), axis + batched[1]
    rows, at = _stacked(front(x, batched[0]), front(indices, batched[1]), axis, clamped=True)
    found = take(rows, at, 0)  # batch, indices, then the other axes
    rank = indices.type.rank - 1
    before = range(1 + rank, 1 + rank + axis)
    after = range(1 + rank + axis, found.type.rank)
    return permute(found, (0, *before, *range(1, 1 + rank), *after)), 0


def _rows(x: Value, axis: int) -> Value:
    """x[batch, …] with batch and axis merged into one axis in front, the others after it."""
    rest = [k for k in range(1, x.type.rank) if k != axis + 1]
    moved = permute(x, (0, axis + 1, *rest))
    sizes = moved.type.shape
    return reshape(moved, (sizes[0] * sizes[1], *sizes[2:]))


def _stacked(x: Value, indices: Value, axis: int, clamped: bool) -> tuple[Value, Value]:
    """A batch of operands as one operand, and indices into it: clamped, or -1 if out of range."""
    size = x.type.shape[axis + 1]
    at = cast(indices, int64)
    if indices.type.dtype is uint64:
        at = cast(minimum(indices, full_like(indices, (1 << 63) - 1)), int64)
    first = mul(iota(at.type.shape, 0, int64), number(size, at.type.shape))
    last = number(size - 1, at.type.shape)
    zero = zeros_like(at)
    if clamped:
        return _rows(x, axis), add(maximum(minimum(at, last), zero), first)
    valid = and_(ge(at, zero), lt(at, number(size, at.type.shape)))
    return _rows(x, axis), select(valid, add(at, first), full_like(at, -1))


def number(size: Size, shape: Shape) -> Value:
    """A size, symbolic or not, broadcast to a shape."""
    return fill(size, shape, int64) if isinstance(size, int) else broadcast(dimension(size), shape, ())


# ---- take_add: the transpose of take


def take_add(x: Value, indices: Value, updates: Value, axis: int) -> Value:
    """x with slices of `updates` added at indices along an axis: the transpose of `take`."""
    if x.type.dtype.is_widened:
        return _widened(take_add, x, indices, updates, axis)
    return bind(take_add_p, x, indices, updates, axis=axis)


def _take_add_type(x: TensorType, indices: TensorType, updates: TensorType, axis: int) -> TensorType:
    require_kind("take_add", x, NUMERIC)
    require_axis("take_add", axis, x)
    require_kind("take_add: indices", indices, INTEGRAL)
    require_dtype("take_add", "updates", updates, x.dtype)
    require_shape("take_add", "updates", updates.shape, _taken(x, indices, axis))
    return x


def _take_add_kernel(types: Types, results: Types, axis: int) -> Kernel:
    """Slices are added one after another; parts of the axis are independent, as are the axes before it.

    Each part first lists its updates in order, and then adds them.  The second loop has no branches, so the processor
    loads the memory of the next updates in advance.
    """
    x, indices, _ = types
    size = x.shape[axis]
    end = axis + indices.rank
    if axis == x.rank - 1:
        return combining("take_add", types, axis, indices.shape, lambda place: (tuple(place[axis:end]), tuple(place)))
    place = [Index(f"i{k}") for k in range(x.rank)]
    before, part, after = place[:axis], Index("part"), place[axis + 1 :]
    length = (size + (PARTS - 1)) // PARTS
    target, within, again = Local("at", int64), Local("within", int64), Local("again", int64)

    def located(steps: Sequence[Expr], within: Local = within, target: Local = target) -> tuple[Stmt, ...]:
        """Bind the positions of an update along the axis and in the part."""
        offset = apply("mul", part, size_expr(length))
        return (
            Let(target.name, _signed(Load("k", tuple(steps), indices.dtype))),
            Let(within.name, apply("sub", target, offset)),
        )

    mine = apply("and", _inside(within, length), apply("lt", target, size_expr(size)))
    note, count, chosen = _recorded(indices.shape, located, mine)
    steps = [Local(f"s{k}", int64) for k in range(indices.rank)]
    at = (*before, part, again, *after)
    total = apply("add", Load("y", at, x.dtype), Load("u", (*before, *steps, *after), x.dtype))
    addition: tuple[Stmt, ...] = (Store("y", at, total),)
    for k in reversed(range(axis + 1, x.rank)):
        addition = (For(f"i{k}", x.shape[k], addition, vector=k == x.rank - 1),)
    done = Load("done", (), int64)
    body = (
        *note,
        Alloc(Buffer("done", int64, ())),
        Store("done", (), const(0)),
        While(
            apply("lt", done, count),
            (
                *_bound_indices(steps, indices.shape, chosen(done)),
                *located(steps, again, Local("position", int64)),
                *addition,
                Store("done", (), apply("add", done, const(1))),
            ),
        ),
    )
    nest = loops([*before, part], [*x.shape[:axis], PARTS], body, lanes=False)
    inputs = tuple(Buffer(b, t.dtype, t.shape) for b, t in zip("ku", types[1:], strict=True))
    strides = row_major(x.shape)
    parted = Buffer(
        "y",
        x.dtype,
        (*x.shape[:axis], PARTS, length, *x.shape[axis + 1 :]),
        (*strides[:axis], strides[axis] * length, *strides[axis:]),
    )
    return Kernel("take_add", inputs, (parted,), nest)


def _recorded(
    shape: Shape, located: Callable[[Sequence[Expr]], tuple[Stmt, ...]], mine: Expr
) -> tuple[tuple[Stmt, ...], Expr, Callable[[Expr], Expr]]:
    """Record the numbers of the updates for which `mine` holds, in order; their count, and the number of each."""
    steps = [Index(f"j{k}") for k in range(len(shape))]
    number: Expr = const(0)
    for j, n in zip(steps, shape, strict=True):
        number = index_add(index_mul(number, size_expr(n)), j)
    found = Load("found", (), int64)
    body: tuple[Stmt, ...] = (
        *located(steps),
        Store("chosen", (found,), number),
        Store("found", (), apply("add", found, convert(mine, int64))),
    )
    for j, n in reversed(list(zip(steps, shape, strict=True))):
        body = (For(j.name, n, body),)
    room = Alloc(Buffer("chosen", int64, (product(shape),)))
    start = (room, Alloc(Buffer("found", int64, ())), Store("found", (), const(0)))
    return (*start, *body), found, lambda k: Load("chosen", (k,), int64)


def _bound_indices(steps: Sequence[Local], shape: Shape, number: Expr) -> tuple[Stmt, ...]:
    """Bind the indices of an element in a shape, from its number in row-major order."""
    found: list[Stmt] = []
    for k, s in reversed(list(enumerate(steps))):
        if k:
            rest = Let(f"{s.name}_rest", number)
            number = apply("idiv", Local(rest.name, int64), size_expr(shape[k]))
            found += [rest, Let(s.name, apply("rem", Local(rest.name, int64), size_expr(shape[k])))]
        else:
            found.append(Let(s.name, number))
    return tuple(found)


def combining(
    name: str,
    types: Types,
    axis: int,
    counted: Shape,
    place: Callable[[Sequence[Index]], _Place],
    operation: str = "add",
) -> Kernel:
    """A kernel that combines updates with x one after another; the other axes are independent.

    `counted` are the sizes of the axes along which updates are combined in order.  `place` gives the positions of an
    update and of its index, from the indices of the independent axes and of these axes.
    """
    x, indices, _ = types
    size = x.shape[axis]
    others = [Index(f"i{k}") for k in range(x.rank) if k != axis]
    extents = without(x.shape, (axis,))
    steps = [Index(f"j{k}") for k in range(len(counted))]
    of_index, of_update = place([*others[:axis], *steps, *others[axis:]])

    def at(position: Expr) -> tuple[Expr, ...]:
        """The index of the operand at a position along the axis."""
        return (*others[:axis], position, *others[axis:])

    target = Local("at", int64)
    total = apply(operation, Load("y", at(target), x.dtype), Load("u", of_update, x.dtype))
    additions: tuple[Stmt, ...] = (
        Let("at", _signed(Load("k", of_index, indices.dtype))),
        If(_inside(target, size), (Store("y", at(target), total),)),
    )
    for j, n in reversed(list(zip(steps, counted, strict=True))):
        additions = (For(j.name, n, additions),)
    inputs = tuple(Buffer(b, t.dtype, t.shape) for b, t in zip("ku", types[1:], strict=True))
    output = Buffer("y", x.dtype, x.shape)
    along_rows = axis == x.rank - 1  # then adjacent lanes would be whole rows apart
    return Kernel(name, inputs, (output,), loops(others, extents, additions, lanes=not along_rows))


def _take_add_batch(inputs: Sequence[Value], batched: Batched, axis: int) -> tuple[Value, int]:
    size = batch_size(inputs, batched)
    x, updates = (batched_to_front(inputs[k], batched[k], size) for k in (0, 2))
    indices = inputs[1]
    if batched[1] is None:
        return take_add(x, indices, updates, axis + 1), 0
    indices = front(indices, batched[1])
    rows, at = _stacked(x, indices, axis, clamped=False)
    rank = indices.type.rank - 1
    end = 1 + axis + rank
    turned = permute(updates, (0, *range(1 + axis, end), *range(1, 1 + axis), *range(end, updates.type.rank)))
    found = take_add(rows, at, turned, 0)
    sizes = x.type.shape
    rest = [k for k in range(1, x.type.rank) if k != axis + 1]
    split = reshape(found, (sizes[0], sizes[axis + 1], *(sizes[k] for k in rest)))
    return permute(split, (0, *range(2, axis + 2), 1, *range(axis + 2, x.type.rank))), 0


def _zeros_added(add_in: Any) -> Any:
    """The transpose of a read: the cotangent added to zeros of the operand's type."""

    def transpose(g: Value, x: Source, indices: Value, axis: int) -> Value:
        """The cotangent added into zeros at the indices."""
        return add_in(zeros_like(x), indices, g, axis)

    return transpose


def _addition_transposes(read: Any) -> tuple[Any, ...]:
    """The transposes of x + updates at indices."""

    def of_x(g: Value, x: Source, indices: Value, updates: Source, axis: int) -> Value:
        """The cotangent of x."""
        return g

    def of_updates(g: Value, x: Source, indices: Value, updates: Source, axis: int) -> Value:
        """The cotangent of the updates: g read at the indices."""
        return read(g, indices, axis)

    return of_x, None, of_updates


def _take_needs(e: Equation, run: Run) -> Needs | None:
    axis, indices = e.params["axis"], e.inputs[1].type
    within = axis <= run[0] and run[1] <= axis + indices.rank
    return (None, (run[0] - axis, run[1] - axis)) if within else None


take_p = Primitive(
    "take",
    _take_type,
    Element(_take_element),
    Linear((_zeros_added(take_add), None)),
    _take_batch,
    axes=AxisRule(_take_needs, strip=lambda e, run, wanted: {}, is_lookup=True),
)
take_add_p = Primitive(
    "take_add",
    _take_add_type,
    Nest(_take_add_kernel, onto=0),
    Linear(_addition_transposes(take)),
    _take_add_batch,
)

# ---- gather and scatter_add: an index for each element


def gather(x: Value, indices: Value, axis: int) -> Value:
    """The elements of x at indices along an axis, with one index for each element of the result."""
    return bind(gather_p, x, indices, axis=axis)


def require_beside(operation: str, x: TensorType, indices: TensorType, axis: int) -> None:
    require_axis(operation, axis, x)
    require_kind(f"{operation}: indices", indices, INTEGRAL)
    beside = [k for k in range(x.rank) if k != axis]
    if indices.rank != x.rank or any(indices.shape[k] != x.shape[k] for k in beside):
        raise ShapeError(
            f"{operation}: indices must have the sizes of {x} outside axis {axis}; got {show(indices.shape)}"
        )


def _gather_type(x: TensorType, indices: TensorType, axis: int) -> TensorType:
    require_beside("gather", x, indices, axis)
    _require_elements("gather", x, indices, axis)
    return x.with_shape(indices.shape)


def _gather_element(index: tuple[Expr, ...], operands: Operands, types: Types, result: TensorType, axis: int) -> Expr:
    if types[0].shape[axis] == 0:
        return number_of(0, types[0].dtype)
    at = _position(operands[1](index), types[0].shape[axis])
    return operands[0]((*index[:axis], at, *index[axis + 1 :]))


def scatter_add(x: Value, indices: Value, updates: Value, axis: int) -> Value:
    """x with each update added at its index along an axis: the transpose of `gather`."""
    if x.type.dtype.is_widened:
        return _widened(scatter_add, x, indices, updates, axis)
    return bind(scatter_add_p, x, indices, updates, axis=axis)


def _scatter_add_type(x: TensorType, indices: TensorType, updates: TensorType, axis: int) -> TensorType:
    require_kind("scatter_add", x, NUMERIC)
    require_beside("scatter_add", x, indices, axis)
    require_dtype("scatter_add", "updates", updates, x.dtype)
    require_shape("scatter_add", "updates", updates.shape, indices.shape)
    return x


def _scatter_add_kernel(types: Types, results: Types, axis: int) -> Kernel:
    counted = (types[1].shape[axis],)
    return combining("scatter_add", types, axis, counted, lambda place: (tuple(place), tuple(place)))


def _gather_batch(inputs: Sequence[Value], batched: Batched, axis: int) -> tuple[Value, int]:
    x, indices = all_to_front(inputs, batched)
    return gather(x, indices, axis + 1), 0


def _scatter_add_batch(inputs: Sequence[Value], batched: Batched, axis: int) -> tuple[Value, int]:
    x, indices, updates = all_to_front(inputs, batched)
    return scatter_add(x, indices, updates, axis + 1), 0


def _gather_needs(e: Equation, run: Run) -> Needs | None:
    return None if run[0] <= e.params["axis"] < run[1] else (run, run)


gather_p = Primitive(
    "gather",
    _gather_type,
    Element(_gather_element),
    Linear((_zeros_added(scatter_add), None)),
    _gather_batch,
    axes=AxisRule(_gather_needs, lambda e, run: run),
)
scatter_add_p = Primitive(
    "scatter_add",
    _scatter_add_type,
    Nest(_scatter_add_kernel, onto=0),
    Linear(_addition_transposes(gather)),
    _scatter_add_batch,
)
