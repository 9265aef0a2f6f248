# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false, reportUnknownMemberType=false
"""`broadcast` and its transpose `sum`, `permute` and `reshape`, which the rules of all other families use.

`view` and `reduce` export them.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from nacre.base.dims import Dim, Size, product
from nacre.base.dtypes import NUMERIC
from nacre.base.errors import ShapeError
from nacre.base.types import Shape, TensorType, require_addressable, row_major
from nacre.ir.axes import AxisMap, AxisRule, Needs, Run, moved, neighbours, one, same_place
from nacre.ir.facts import Facts, same_type
from nacre.ir.graph import Atom, Equation
from nacre.ir.primitive import SINGLE, Element, Layout, Linear, LinearInput, Operand, Primitive, Reduce
from nacre.kernel.ast import Apply, Const, Expr, const, index_add, index_mul, size_expr
from nacre.ops.rules import require_axes, require_kind, require_some_axes, show, without
from nacre.trace.bind import bind
from nacre.trace.value import Value

Source = Value | LinearInput  # an operand of a transpose rule

# ---- permute


def permute(x: Value, axes: Sequence[int]) -> Value:
    """Reorder axes: axis i of the result is axis `axes[i]` of x."""
    return x if tuple(axes) == tuple(range(x.type.rank)) else bind(permute_p, x, axes=tuple(axes))


def _permute_type(x: TensorType, axes: tuple[int, ...]) -> TensorType:
    if sorted(axes) != list(range(x.rank)):
        raise ShapeError(f"permute: axes must name each of the {x.rank} axes of {x} once; got {axes}")
    return x.with_shape([x.shape[a] for a in axes])


def inverse(axes: Sequence[int]) -> tuple[int, ...]:
    """The inverse permutation of `axes`."""
    return tuple(sorted(range(len(axes)), key=lambda k: axes[k]))


def _permute_element(
    index: tuple[Expr, ...],
    operands: tuple[Operand, ...],
    types: Any,
    result: TensorType,
    axes: tuple[int, ...],
) -> Expr:
    return operands[0](tuple(index[k] for k in inverse(axes)))


def _permute_batch(inputs: Sequence[Value], batched: Sequence[int], axes: tuple[int, ...]) -> tuple[Value, int]:
    return permute(front(inputs[0], batched[0]), (0, *(a + 1 for a in axes))), 0


def _permute_needs(e: Equation, run: Run) -> Needs | None:
    return one(neighbours(e.params["axes"][slice(*run)]))


def _permute_follow(e: Equation, run: Run) -> Run | None:
    return neighbours([e.params["axes"].index(a) for a in range(*run)])


def _composed(e: Equation, facts: Facts) -> Atom | Equation:
    """Compose two successive permutations, and remove one that moves no axis."""
    axes: tuple[int, ...] = e.params["axes"]
    before = facts.made(e.inputs[0])
    if before is not None and before.primitive is permute_p:
        axes = tuple(before.params["axes"][k] for k in axes)
        e = Equation(permute_p, before.inputs, {"axes": axes}, e.outputs, e.source)
    return e.inputs[0] if axes == tuple(range(len(axes))) else e


def _is_one(e: Equation, facts: Facts) -> bool:
    return facts.is_one(e.inputs[0])


permute_p = Primitive(
    "permute",
    _permute_type,
    Element(
        _permute_element,
        view=lambda layout, x, result, axes: Layout(layout.offset, tuple(layout.strides[a] for a in axes)),
    ),
    Linear((lambda g, x, axes: permute(g, inverse(axes)),)),
    _permute_batch,
    axes=AxisRule(_permute_needs, _permute_follow, moves=True),
    simplify=_composed,
    axis_map=lambda e: inverse(e.params["axes"]),
)


def move(x: Value, source: int, target: int) -> Value:
    """Move one axis to another position; the others keep their order."""
    axes = [k for k in range(x.type.rank) if k != source]
    axes.insert(target, source)
    return permute(x, axes)


def front(x: Value, axis: int) -> Value:
    """Move an axis to the front."""
    return move(x, axis, 0)


# ---- reshape


def reshape(x: Value, shape: Shape) -> Value:
    """The same elements in row-major order with another shape of equal size."""
    return x if tuple(shape) == x.type.shape else bind(reshape_p, x, shape=tuple(shape))


def _reshape_type(x: TensorType, shape: Shape) -> TensorType:
    for s in shape:
        require_addressable(s, "reshape")  # sizes are multiplied here
    if product(shape) != x.size:
        raise ShapeError(
            f"reshape: the shape for {x} must have {x.size} elements; got {show(shape)} with {product(shape)}"
        )
    return x.with_shape(shape)


def factor(source: Shape, target: Shape) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Split two shapes of equal size into the shortest runs of axes of equal size, without axes of size 1.

    >>> factor((2, 3, 4), (6, 1, 2, 2))
    [((0, 1), (0,)), ((2,), (2, 3))]
    """
    cuts = _prefixes(target)
    runs: list[tuple[tuple[int, ...], tuple[int, ...]]] = []
    left: list[int] = []
    begin, total = 0, 1
    right = [k for k, s in enumerate(target) if s != 1]
    for k, s in enumerate(source):
        if s == 1:
            continue
        left.append(k)
        total = total * s  # type: ignore[assignment]
        if total in cuts:
            runs.append((tuple(left), tuple(right[begin : cuts[total]])))
            left, begin = [], cuts[total]
    return runs


def _prefixes(shape: Shape) -> dict[Size, int]:
    """For each product of leading sizes, the number of its axes longer than 1."""
    found: dict[Size, int] = {}
    total: Size = 1
    for count, s in enumerate((s for s in shape if s != 1), 1):
        total = total * s
        found[total] = count
    return found


def _is_empty(shape: Shape) -> bool:
    return any(isinstance(s, int) and s == 0 for s in shape)


def _reshape_element(
    index: tuple[Expr, ...],
    operands: tuple[Operand, ...],
    types: tuple[TensorType, ...],
    result: TensorType,
    shape: Shape,
) -> Expr:
    source = types[0].shape
    place: list[Expr] = [const(0)] * len(source)
    for old, new in [] if _is_empty(shape) else factor(source, shape):
        flat: Expr = const(0)
        for k in new:
            flat = index_add(index_mul(flat, size_expr(shape[k])), index[k])
        for k in reversed(old[1:]):
            place[k] = _index_op("rem", flat, source[k])
            flat = _index_op("idiv", flat, source[k])
        place[old[0]] = flat
    return operands[0](tuple(place))


def _index_op(op: str, x: Expr, size: Size) -> Expr:
    if isinstance(x, Const) and isinstance(size, int):
        value = int(x.value)
        return const(value // size if op == "idiv" else value % size)
    return Apply(op, (x, size_expr(size)), x.dtype)


def _reshape_view(layout: Layout, x: TensorType, result: TensorType, shape: Shape) -> Layout | None:
    if _is_empty(shape):
        return Layout(layout.offset, row_major(shape))  # type: ignore[arg-type]
    strides: list[Size] = [0] * len(shape)
    for old, new in factor(x.shape, shape):
        for a, b in pairwise(old):
            if layout.strides[a] != layout.strides[b] * x.shape[b]:
                return None
        step: Size = layout.strides[old[-1]]
        for k in reversed(new):
            strides[k] = step
            step = step * shape[k]
    return Layout(layout.offset, tuple(strides))  # type: ignore[arg-type]


def _reshape_batch(inputs: Sequence[Value], axes: Sequence[int], shape: Shape) -> tuple[Value, int]:
    x = front(inputs[0], axes[0])
    return reshape(x, (x.type.shape[0], *shape)), 0


def _reshape_needs(e: Equation, run: Run) -> Needs | None:
    return one(same_place(e.outputs[0].type.shape, run, e.inputs[0].type.shape))


def _reshape_follow(e: Equation, run: Run) -> Run | None:
    return same_place(e.inputs[0].type.shape, run, e.outputs[0].type.shape)


reshape_p = Primitive(
    "reshape",
    _reshape_type,
    Element(_reshape_element, view=_reshape_view),
    Linear((lambda g, x, shape: reshape(g, x.type.shape),)),
    _reshape_batch,
    axes=AxisRule(_reshape_needs, _reshape_follow, moves=True),
    simplify=same_type,
    is_one=_is_one,
    keeps_order=True,
)

# ---- broadcast and sum, each other's transposes


def broadcast(x: Value, shape: Shape, axes: Sequence[int]) -> Value:
    """Repeat x along new axes and those of size 1.

    Axis i of x becomes axis `axes[i]` of the result; the sizes are equal unless x's is 1.  `axes` increase.
    """
    if tuple(shape) == x.type.shape and tuple(axes) == tuple(range(len(shape))):
        return x
    return bind(broadcast_p, x, shape=tuple(shape), axes=tuple(axes))


def _broadcast_type(x: TensorType, shape: Shape, axes: tuple[int, ...]) -> TensorType:
    require_axes("broadcast", axes, len(shape))
    if len(axes) != x.rank:
        raise ShapeError(f"broadcast: axes must name an axis of the result for each axis of {x}; got {axes}")
    for k, a in enumerate(axes):
        if x.shape[k] != shape[a] and x.shape[k] != 1:
            raise ShapeError(
                f"broadcast: axis {k} must have size 1 or {shape[a]} to become axis {a} of {show(shape)}; got {x}"
            )
    return x.with_shape(shape)


def _stretched(x: TensorType, shape: Shape, axes: tuple[int, ...]) -> tuple[int, ...]:
    """The axes of x that grow from size 1."""
    return tuple(k for k, a in enumerate(axes) if x.shape[k] == 1 and shape[a] != 1)


def _broadcast_element(
    index: tuple[Expr, ...],
    operands: tuple[Operand, ...],
    types: tuple[TensorType, ...],
    result: TensorType,
    shape: Shape,
    axes: tuple[int, ...],
) -> Expr:
    grown = _stretched(types[0], shape, axes)
    return operands[0](tuple(const(0) if k in grown else index[a] for k, a in enumerate(axes)))


def _broadcast_view(layout: Layout, x: TensorType, result: TensorType, shape: Shape, axes: tuple[int, ...]) -> Layout:
    grown = _stretched(x, shape, axes)
    strides = [0] * len(shape)
    for k, a in enumerate(axes):
        strides[a] = 0 if k in grown else layout.strides[k]
    return Layout(layout.offset, tuple(strides))


def _broadcast_transpose(g: Value, x: Source, shape: Shape, axes: tuple[int, ...]) -> Value:
    grown = {axes[k] for k in _stretched(x.type, shape, axes)}
    return reshape(sum_(g, [k for k in range(len(shape)) if k not in axes or k in grown]), x.type.shape)


def _broadcast_batch(
    inputs: Sequence[Value], batched: Sequence[int], shape: Shape, axes: tuple[int, ...]
) -> tuple[Value, int]:
    x = front(inputs[0], batched[0])
    return broadcast(x, (x.type.shape[0], *shape), (0, *(a + 1 for a in axes))), 0


def _broadcast_needs(e: Equation, run: Run) -> Needs | None:
    x, axes = e.inputs[0].type, e.params["axes"]
    within = [k for k, a in enumerate(axes) if run[0] <= a < run[1]]
    if not within or (run[1] - run[0] == 1 and x.shape[within[0]] == 1):
        return (None,)
    found = within[0], within[-1] + 1
    whole = x.shape[slice(*found)] == e.outputs[0].type.shape[slice(*run)]
    return (found,) if whole else None


def _broadcast_follow(e: Equation, run: Run) -> Run | None:
    return neighbours(e.params["axes"][slice(*run)])


def _broadcast_strip(e: Equation, run: Run, wanted: Needs) -> dict[str, Any]:
    return {"axes": moved(e.params["axes"], run)}


def _broadcast_map(e: Equation) -> AxisMap:
    shape, axes = e.params["shape"], e.params["axes"]
    grown = _stretched(e.inputs[0].type, shape, axes)
    return tuple(None if k in grown else a for k, a in enumerate(axes))


broadcast_p = Primitive(
    "broadcast",
    _broadcast_type,
    Element(_broadcast_element, view=_broadcast_view),
    Linear((_broadcast_transpose,)),
    _broadcast_batch,
    axes=AxisRule(_broadcast_needs, _broadcast_follow, _broadcast_strip, is_free=True),
    simplify=same_type,
    is_one=_is_one,
    axis_map=_broadcast_map,
)


def sum_(x: Value, axes: Sequence[int]) -> Value:
    """The sum over axes, which are removed, in the canonical order.

    Integers wrap; half types are summed in float32.  An empty sum is 0.
    """
    return bind(sum_p, x, axes=tuple(axes)) if axes else x


def _sum_type(x: TensorType, axes: tuple[int, ...]) -> TensorType:
    require_kind("sum", x, NUMERIC)
    require_some_axes("sum", axes, x.rank)
    return x.with_shape(without(x.shape, axes))


def spread(g: Value, shape: Shape, axes: Sequence[int]) -> Value:
    """A reduced value broadcast back along the reduced `axes`."""
    return broadcast(g, shape, [k for k in range(len(shape)) if k not in axes])


def reduce_batch(reduce: Any) -> Any:
    """The batch rule of a reduction over `axes`, which must not be merged with the batch axis."""

    def rule(inputs: Sequence[Value], batched: Sequence[int], axes: tuple[int, ...]) -> tuple[Value, int]:
        """Reduce the axes behind a leading batch axis."""
        return reduce(front(inputs[0], batched[0]), tuple(a + 1 for a in axes)), 0

    return rule


sum_p = Primitive(
    "sum",
    _sum_type,
    Reduce("sum"),
    Linear((lambda g, x, axes: spread(g, x.type.shape, axes),)),
    reduce_batch(sum_),
    precision=SINGLE,
)

# ---- alignment of batched operands


def batched_to_front(x: Value, axis: int | None, size: Size) -> Value:
    """x with its batch axis in front; a value without one is repeated."""
    if axis is not None:
        return front(x, axis)
    return broadcast(x, (size, *x.type.shape), range(1, x.type.rank + 1))


def batch_size(inputs: Sequence[Value], axes: Sequence[int | None]) -> int | Dim:
    """The size of the batch axis."""
    return next(x.type.shape[a] for x, a in zip(inputs, axes, strict=True) if a is not None)


def all_to_front(inputs: Sequence[Value], axes: Sequence[int | None]) -> list[Value]:
    """Every operand with a batch axis in front."""
    size = batch_size(inputs, axes)
    return [batched_to_front(x, a, size) for x, a in zip(inputs, axes, strict=True)]


def line_up(inputs: Sequence[Value], axes: Sequence[int | None]) -> tuple[list[Value], int]:
    """Operands of one logical shape with their batch axes at one position, and that position."""
    size = batch_size(inputs, axes)
    place = next(a for a in axes if a is not None)
    lined: list[Value] = []
    for x, a in zip(inputs, axes, strict=True):
        if a is not None:
            lined.append(move(x, a, place))
            continue
        shape = (*x.type.shape[:place], size, *x.type.shape[place:])
        lined.append(broadcast(x, shape, [k for k in range(len(shape)) if k != place]))
    return lined, place
