# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false, reportUnknownMemberType=false
"""Reductions besides `sum`: prod, max, min, any, all, argmax, argmin; and cumulative sums, products and extrema."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from nacre.base.dims import Dim, Size
from nacre.base.dtypes import BOOLEAN, NUMERIC, ORDERED, REAL, DTypeSet, int64
from nacre.base.errors import GradientError, ShapeError
from nacre.base.types import TensorType
from nacre.ir.primitive import SINGLE, Constant, Derivative, Jvp, Linear, Nest, Primitive, Reduce
from nacre.kernel.ast import (
    Alloc,
    Buffer,
    Expr,
    For,
    Index,
    Kernel,
    Let,
    Load,
    Local,
    Stmt,
    Store,
    apply,
    number_of,
    size_expr,
)
from nacre.kernel.ast import cast as convert
from nacre.ops.pointwise import add, cast, div, eq, fill, mul
from nacre.ops.rules import require_axis, require_kind, require_some_axes, without
from nacre.ops.shape import front, permute, reduce_batch, reshape, spread, sum_
from nacre.ops.view import concatenate, slice_axis
from nacre.trace.bind import bind
from nacre.trace.value import Value

__all__ = [
    "all_",
    "any_",
    "argmax",
    "argmin",
    "cumargmax",
    "cumargmin",
    "cumprod",
    "cumsum",
    "max_",
    "min_",
    "prod",
    "sum_",
]

Reduction = Callable[[Value, Sequence[int]], Value]


def _reduction(name: str, accepted: DTypeSet, derivative: Derivative, **traits: Any) -> Reduction:
    def type_rule(x: TensorType, axes: tuple[int, ...]) -> TensorType:
        """The type without the reduced axes."""
        require_kind(name, x, accepted)
        require_some_axes(name, axes, x.rank)
        return x.with_shape(without(x.shape, axes))

    def reduce(x: Value, axes: Sequence[int]) -> Value:
        """The reduction over the axes; x itself for none."""
        return bind(primitive, x, axes=tuple(axes)) if axes else x

    primitive = Primitive(name, type_rule, Reduce(name), derivative, reduce_batch(reduce), **traits)
    return reduce


# ---- products


def _halves(x: Value, size: int) -> tuple[Value, Value, list[Value]]:
    """The elements of the last axis with even and with odd index, and the one that is left over."""
    last, even = x.type.rank - 1, size - size % 2
    rest = [slice_axis(x, last, even, size)] if size % 2 else []
    return slice_axis(x, last, 0, even, 2), slice_axis(x, last, 1, even, 2), rest


def _complex_prod(x: Value, axes: Sequence[int]) -> Value:
    """The product of complex numbers by the tree over consecutive ones."""
    kept = without(x.type.shape, axes)
    x = _flat_last(x, axes)
    size = x.type.shape[-1]
    if isinstance(size, Dim):
        raise ShapeError(
            f"prod: products of complex numbers need a fixed number of factors; got {size}; give the axes fixed sizes"
        )
    if size == 0:
        return fill(1, kept, x.type.dtype)
    while size > 1:
        a, b, rest = _halves(x, size)
        x, size = concatenate([mul(a, b), *rest], x.type.rank - 1), size // 2 + size % 2
    return reshape(x, kept)


def _prod_tangent(y: Value, xs: Sequence[Value], ts: Sequence[Value], axes: tuple[int, ...]) -> Value:
    """The product rule at each node of the tree of products: correct for zeros, to any order."""
    x, t = (_flat_last(v, axes) for v in (xs[0], ts[0]))
    size = x.type.shape[-1]
    if isinstance(size, Dim):
        raise GradientError(
            f"prod: its derivative needs a fixed number of factors; got {size}; give the reduced axes fixed sizes"
        )
    if size == 0:
        return fill(0, y.type.shape, y.type.dtype)
    last = x.type.rank - 1
    while size > 1:
        (a, b, rest), (ta, tb, rest_tangent) = (_halves(v, size) for v in (x, t))
        x = concatenate([mul(a, b), *rest], last)
        t = concatenate([add(mul(ta, b), mul(a, tb)), *rest_tangent], last)
        size = size // 2 + size % 2
    return reshape(t, y.type.shape)


def _flat_last(x: Value, axes: Sequence[int]) -> Value:
    """x with the axes merged into one, the last."""
    kept = [k for k in range(x.type.rank) if k not in axes]
    moved = permute(x, (*kept, *axes))
    size: Size = 1
    for a in axes:
        size = size * x.type.shape[a]
    return reshape(moved, (*moved.type.shape[: len(kept)], size))


_real_prod = _reduction("prod", REAL, Jvp(_prod_tangent), precision=SINGLE)


def prod(x: Value, axes: Sequence[int]) -> Value:
    """The product over the axes; x itself for none."""
    return _complex_prod(x, axes) if axes and x.type.dtype.is_complex else _real_prod(x, axes)


# ---- extrema


def _extremum_tangent(y: Value, xs: Sequence[Value], ts: Sequence[Value], axes: tuple[int, ...]) -> Value:
    """The mean of the tangents of the elements that equal the extremum."""
    (x,), (t,) = xs, ts
    hit = cast(eq(x, spread(y, x.type.shape, axes)), x.type.dtype)
    weight = div(hit, spread(sum_(hit, axes), x.type.shape, axes))
    return sum_(mul(weight, t), axes)


max_ = _reduction("max", ORDERED, Jvp(_extremum_tangent))
min_ = _reduction("min", ORDERED, Jvp(_extremum_tangent))

# ---- truth

any_ = _reduction("any", BOOLEAN, Constant())
all_ = _reduction("all", BOOLEAN, Constant())

# ---- positions


def _position(name: str) -> Callable[[Value, int], Value]:
    def type_rule(x: TensorType, axes: tuple[int, ...]) -> TensorType:
        """int64 positions along one axis, which must not be empty."""
        require_kind(name, x, ORDERED)
        if len(axes) != 1:
            raise ShapeError(f"{name}: exactly one axis must be given; got {axes}; flatten the operand first")
        require_axis(name, axes[0], x)
        if x.shape[axes[0]] == 0:
            raise ShapeError(f"{name}: axis {axes[0]} must not be empty; got {x}")
        return TensorType(without(x.shape, axes), int64)

    def find(x: Value, axis: int) -> Value:
        """The position along an axis."""
        return bind(primitive, x, axes=(axis,))

    batch = reduce_batch(lambda x, axes: find(x, axes[0]))
    primitive = Primitive(name, type_rule, Reduce(name), Constant(), batch)
    return find


argmax = _position("argmax")
argmin = _position("argmin")

# ---- cumulative sums and products


def cumsum(x: Value, axis: int, reverse: bool = False) -> Value:
    """The running sum along an axis, in order (from the last element backwards if `reverse`).

    Half types are summed in float32; integers wrap.
    """
    return bind(cumsum_p, x, axis=axis, reverse=reverse)


def cumprod(x: Value, axis: int) -> Value:
    """The running product along an axis, in order.  Half types are multiplied in float32; integers wrap."""
    return bind(cumprod_p, x, axis=axis)


def _cumsum_type(x: TensorType, axis: int, reverse: bool) -> TensorType:
    require_kind("cumsum", x, NUMERIC)
    require_axis("cumsum", axis, x)
    return x


def _cumprod_type(x: TensorType, axis: int) -> TensorType:
    require_kind("cumprod", x, NUMERIC)
    require_axis("cumprod", axis, x)
    return x


def loops(
    indices: Sequence[Index], extents: Sequence[Size], body: Sequence[Stmt], lanes: bool = True
) -> tuple[Stmt, ...]:
    """Independent loops around a body; the innermost is vectorised unless `lanes` forbids it."""
    inner = tuple(body)
    for k in reversed(range(len(indices))):
        vector = lanes and k == len(indices) - 1
        inner = (For(indices[k].name, extents[k], inner, parallel=True, vector=vector),)
    return inner


def _cumsum_kernel(types: tuple[TensorType, ...], results: Any, axis: int, reverse: bool) -> Kernel:
    return _cumulative_kernel("cumsum", "add", -0.0 if types[0].dtype.is_inexact else 0, types[0], axis, reverse)


def _cumprod_kernel(types: tuple[TensorType, ...], results: Any, axis: int) -> Kernel:
    return _cumulative_kernel("cumprod", "mul", 1.0 if types[0].dtype.is_inexact else 1, types[0], axis)


def _cumulative_kernel(name: str, op: str, start: float, x: TensorType, axis: int, reverse: bool = False) -> Kernel:
    carry = Buffer("carry", x.dtype.arithmetic, ())
    place = [Index(f"i{k}") for k in range(x.rank)]
    along: Expr = place[axis]
    if reverse:
        along = apply("sub", size_expr(x.shape[axis] - 1), along)
    at = tuple(along if k == axis else i for k, i in enumerate(place))
    total = Local("total", carry.dtype)
    element = convert(Load("x", at, x.dtype), carry.dtype)
    body = (
        Alloc(carry),
        Store("carry", (), number_of(start, carry.dtype)),
        For(
            place[axis].name,
            x.shape[axis],
            (
                Let("total", apply(op, Load("carry", (), carry.dtype), element)),
                Store("carry", (), total),
                Store("y", at, convert(total, x.dtype)),
            ),
        ),
    )
    others = [k for k in range(x.rank) if k != axis]
    nest = loops([place[k] for k in others], [x.shape[k] for k in others], body)
    return Kernel(name, (Buffer("x", x.dtype, x.shape),), (Buffer("y", x.dtype, x.shape),), nest)


def _cumsum_batch(inputs: Sequence[Value], batched: Sequence[int], axis: int, reverse: bool) -> tuple[Value, int]:
    return cumsum(front(inputs[0], batched[0]), axis + 1, reverse), 0


cumsum_p = Primitive(
    "cumsum",
    _cumsum_type,
    Nest(_cumsum_kernel),
    Linear((lambda g, x, axis, reverse: cumsum(g, axis, not reverse),)),
    _cumsum_batch,
    precision=SINGLE,
)


def _cumprod_tangent(y: Value, xs: Sequence[Value], ts: Sequence[Value], axis: int) -> Value:
    """The product rule for windows of factors, whose length doubles: correct for zeros, to any order."""
    (x,), (t,) = xs, ts
    size = x.type.shape[axis]
    if isinstance(size, Dim):
        raise GradientError(
            f"cumulative_prod: its derivative needs a fixed number of factors; got {size}; give the axis a fixed size"
        )
    window = 1
    while window < size:
        a, ta, b, tb = (slice_axis(v, axis, *ends) for ends in ((0, size - window), (window, size)) for v in (x, t))
        tangent = add(mul(ta, b), mul(a, tb))
        x = concatenate([slice_axis(x, axis, 0, window), mul(a, b)], axis)
        t = concatenate([slice_axis(t, axis, 0, window), tangent], axis)
        window *= 2
    return t


def _cumprod_batch(inputs: Sequence[Value], batched: Sequence[int], axis: int) -> tuple[Value, int]:
    return cumprod(front(inputs[0], batched[0]), axis + 1), 0


cumprod_p = Primitive(
    "cumprod", _cumprod_type, Nest(_cumprod_kernel), Jvp(_cumprod_tangent), _cumprod_batch, precision=SINGLE
)


# ---- cumulative extrema


def _running_position(name: str, better: str) -> Callable[[Value, int], Value]:
    def type_rule(x: TensorType, axis: int) -> TensorType:
        """int64 positions along one axis."""
        require_kind(name, x, REAL)
        require_axis(name, axis, x)
        return x.with_dtype(int64)

    def kernel(types: tuple[TensorType, ...], results: Any, axis: int) -> Kernel:
        """The best element and its position, carried along the axis; a later equal one, and NaN, replace it."""
        (x,) = types
        best, where = Buffer("best", x.dtype.arithmetic, ()), Buffer("where", int64, ())
        at = tuple(Index(f"i{k}") for k in range(x.rank))
        element, held = Local("element", best.dtype), Load("best", (), best.dtype)
        moves = apply("or", apply("eq", at[axis], size_expr(0)), apply(better, element, held))
        if x.dtype.is_float:
            moves = apply("or", moves, apply("ne", element, element))
        moved = Local("moved", moves.dtype)
        body = (
            Alloc(best),
            Alloc(where),
            Store("best", (), number_of(0, best.dtype)),
            Store("where", (), number_of(0, int64)),
            For(
                at[axis].name,
                x.shape[axis],
                (
                    Let("element", convert(Load("x", at, x.dtype), best.dtype)),
                    Let("moved", moves),
                    Let("value", apply("select", moved, element, held)),
                    Let("position", apply("select", moved, at[axis], Load("where", (), int64))),
                    Store("best", (), Local("value", best.dtype)),
                    Store("where", (), Local("position", int64)),
                    Store("y", at, Local("position", int64)),
                ),
            ),
        )
        others = [k for k in range(x.rank) if k != axis]
        nest = loops([at[k] for k in others], [x.shape[k] for k in others], body)
        return Kernel(name, (Buffer("x", x.dtype, x.shape),), (Buffer("y", int64, x.shape),), nest)

    def find(x: Value, axis: int) -> Value:
        """For each place the position along the axis of the extremum up to it, the last one of equal elements."""
        return bind(primitive, x, axis=axis)

    def batch(inputs: Sequence[Value], batched: Sequence[int], axis: int) -> tuple[Value, int]:
        """The batch as one more axis in front."""
        return find(front(inputs[0], batched[0]), axis + 1), 0

    primitive = Primitive(name, type_rule, Nest(kernel), Constant(), batch)
    return find


cumargmax = _running_position("cumargmax", "ge")
cumargmin = _running_position("cumargmin", "le")
