"""Short functions that users of NumPy and PyTorch know by name, written with other functions of the namespace."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from nacre.api.elementwise import arithmetic, comparison, logic
from nacre.api.elementwise.apply import require
from nacre.api.linear_algebra import matmul, tensordot
from nacre.api.manipulation import broadcast_arrays, concat, flatten, repeat, reshape, stack
from nacre.api.operands import TensorLike, as_tensor, constant, in_single, is_half, is_plain, meet, operands
from nacre.api.primitives import picking, pointwise
from nacre.api.searching import nonzero, where
from nacre.api.statistical import max as largest
from nacre.api.statistical import min as smallest
from nacre.api.taking import as_vector, from_zero, gathered, require_beside, with_elements
from nacre.api.tensor import Axes, Tensor
from nacre.api.utility import all as all_true
from nacre.base.arguments import plain_number, whole_number
from nacre.base.dtypes import ANY, FLOATING, REAL, bool_, float32, float64
from nacre.base.errors import ArgumentError, DTypeError, ShapeError
from nacre.base.types import Shape, normal_axis

__all__ = [
    "allclose",
    "amax",
    "amin",
    "argwhere",
    "array_equal",
    "atleast_1d",
    "atleast_2d",
    "atleast_3d",
    "column_stack",
    "deg2rad",
    "div",
    "dot",
    "dstack",
    "flatnonzero",
    "gather",
    "hstack",
    "index_select",
    "inner",
    "isclose",
    "lerp",
    "masked_fill",
    "masked_select",
    "narrow",
    "rad2deg",
    "repeat_interleave",
    "take_along_dim",
    "vstack",
]


# ---- elements at indices, and where a mask is true


def gather(x: TensorLike, /, dim: int, index: TensorLike) -> Tensor:
    """The elements of x at integer indices along an axis; the index has x's rank, and at most its sizes elsewhere.

    As in PyTorch, the result has the shape of the index, and a negative index is out of range.  Raises AxisError for an
    index out of range, DTypeError for other dtypes, ShapeError for an index of another rank or with a larger size
    beside the axis.

    >>> nc.gather([[1, 2], [3, 4]], 1, [[1], [0]])
    Tensor([[2],
            [3]], i64[2, 1])
    """
    held, places = as_tensor(x), as_tensor(index)
    shape, wanted = held.type.shape, places.type.shape
    at = normal_axis(dim, len(shape), "gather")
    require_beside("gather", places, shape, at, "take")
    cut = tuple(slice(None) if k == at else slice(0, n) for k, n in enumerate(wanted))
    places = from_zero("gather", places, shape[at], "take_along_axis")
    return picking.gather(with_elements(held[cut], places, at), places, at)


def index_select(x: TensorLike, /, dim: int, index: TensorLike) -> Tensor:
    """The slices of x along an axis at the integer indices of a vector.

    As in PyTorch, a negative index is out of range.  Raises AxisError for an index out of range, DTypeError for other
    dtypes.

    >>> nc.index_select([[1, 2], [3, 4]], 1, [1])
    Tensor([[2],
            [4]], i64[2, 1])
    """
    places = as_vector("index_select", index, "take takes any shape")
    held = as_tensor(x)
    at = normal_axis(dim, len(held.type.shape), "index_select")
    places = from_zero("index_select", places, held.type.shape[at], "take")
    return picking.take(with_elements(held, places, at), places, at)


def take_along_dim(x: TensorLike, indices: TensorLike, /, *, axis: int | None = None) -> Tensor:
    """The result of `take_along_axis` for indices that are not negative; without an axis, of both flattened.

    As in PyTorch, a negative index is out of range.  Raises AxisError for an index out of range, DTypeError for other
    dtypes.

    >>> nc.take_along_dim([[1, 2], [3, 4]], [[1], [0]], axis=1)
    Tensor([[2],
            [3]], i64[2, 1])
    """
    held, places = as_tensor(x), as_tensor(indices)
    if axis is None:
        held, places, axis = flatten(held), flatten(places), 0
    at = normal_axis(axis, len(held.type.shape), "take_along_dim")
    if len(places.type.shape) != len(held.type.shape):
        raise ShapeError(f"take_along_dim: the indices must have the rank of x, {held.type.rank}; got {places.type}")
    places = from_zero("take_along_dim", places, held.type.shape[at], "take_along_axis")
    return gathered(with_elements(held, places, at), places, at, "take_along_dim")


def masked_fill(x: TensorLike, /, mask: TensorLike, value: TensorLike) -> Tensor:
    """x with one number where a mask is true; the dtype of x stays.

    Raises DTypeError unless the mask has dtype bool, ShapeError for a value with axes.

    >>> nc.masked_fill([1.0, 2.0], [True, False], -nc.inf)
    Tensor([-inf,   2.], f32[2])
    """
    held = as_tensor(x)
    filler = as_tensor(value, held.type.dtype)
    if filler.type.shape:
        raise ShapeError(f"masked_fill: the value must be one number; got shape {filler.type.shape}; use nacre.where")
    return where(mask, filler, held)


def masked_select(x: TensorLike, /, mask: TensorLike) -> Tensor:
    """The elements of x where a mask is true, as a vector; both broadcast.

    The size of the result depends on the mask: where that is traced, as in `jit`, it is an error, as in `x[mask]`.

    >>> nc.masked_select([[1, 2], [3, 4]], [True, False])
    Tensor([1, 3], i64[2])
    """
    held, chosen = as_tensor(x), as_tensor(mask)
    if chosen.type.dtype is not bool_:
        raise DTypeError(f"masked_select: the mask must have dtype bool; got {chosen.type}; compare, as in `x != 0`")
    together = broadcast_arrays(held, chosen)
    return together[0][together[1]]


def argwhere(x: TensorLike, /, *, size: int | None = None, fill_value: int = 0) -> Tensor:
    """The indices (int64) of the elements that are not zero: a row for each, in row-major order.

    The row of a tensor without axes has no elements, as in NumPy.  `size` and `fill_value` are those of `nonzero`.

    >>> nc.argwhere([[0, 1], [2, 0]])
    Tensor([[0, 1],
            [1, 0]], i64[2, 2])
    """
    if not as_tensor(x).type.shape:
        return stack(nonzero(reshape(x, (1,)), size=size, fill_value=fill_value), axis=-1)[:, :0]
    return stack(nonzero(x, size=size, fill_value=fill_value), axis=-1)


def flatnonzero(x: TensorLike, /, *, size: int | None = None, fill_value: int = 0) -> Tensor:
    """The indices (int64) of the elements that are not zero in x as a vector.

    `size`, `fill_value` and the errors are those of `nonzero`.

    >>> nc.flatnonzero([[0, 1], [2, 0]])
    Tensor([1, 2], i64[2])
    """
    return nonzero(flatten(x), size=size, fill_value=fill_value)[0]


def narrow(x: TensorLike, /, dim: int, start: int, length: int) -> Tensor:
    """The part of x from `start` on, with `length` elements, along an axis; a negative start counts from the end.

    Raises ShapeError where the part is not inside x.

    >>> nc.narrow([10, 20, 30], 0, 1, 2)
    Tensor([20, 30], i64[2])
    """
    held = as_tensor(x)
    at = normal_axis(dim, len(held.type.shape), "narrow")
    count = held.type.shape[at]
    first, many = whole_number(start, "narrow", "start"), whole_number(length, "narrow", "length")
    begin = first + count if first < 0 else first
    if min(begin, many) < 0 or begin + many > count:
        raise ShapeError(
            f"narrow: the part must be inside axis {at} of size {count}; got start {start} and length {length}"
        )
    return held[(slice(None),) * at + (slice(begin, begin + many),)]


# ---- shapes and joining


def _padded(shape: Shape, rank: int) -> Shape:
    return (1,) * (rank - len(shape)) + shape


def _cube(shape: Shape) -> Shape:
    return shape if len(shape) >= 3 else (*_padded(shape, 2), 1)


def _one_or_all(made: list[Tensor]) -> Any:
    return made[0] if len(made) == 1 else tuple(made)


def atleast_1d(*xs: TensorLike) -> Any:
    """x as a vector if it has no axis; of several tensors a tuple.

    >>> nc.atleast_1d(3.0)
    Tensor([3.], f32[1])
    """
    return _one_or_all([reshape(x, _padded(as_tensor(x).type.shape, 1)) for x in xs])


def atleast_2d(*xs: TensorLike) -> Any:
    """x with axes of size 1 in front up to two axes; of several tensors a tuple.

    >>> nc.atleast_2d([1, 2])
    Tensor([[1, 2]], i64[1, 2])
    """
    return _one_or_all([reshape(x, _padded(as_tensor(x).type.shape, 2)) for x in xs])


def atleast_3d(*xs: TensorLike) -> Any:
    """x with three axes: a vector of size n has shape (1, n, 1), a matrix (m, n, 1); of several tensors a tuple.

    >>> nc.atleast_3d([1, 2]).shape
    (1, 2, 1)
    """
    return _one_or_all([reshape(x, _cube(as_tensor(x).type.shape)) for x in xs])


def hstack(xs: Sequence[TensorLike], /) -> Tensor:
    """Tensors joined along the second axis, vectors along the first.

    >>> nc.hstack([[1, 2], [3]])
    Tensor([1, 2, 3], i64[3])
    """
    held = [as_tensor(x) for x in xs]
    rows = [x if x.type.shape else reshape(x, (1,)) for x in held]
    return concat(rows, axis=1 if rows and len(rows[0].type.shape) > 1 else 0)


def vstack(xs: Sequence[TensorLike], /) -> Tensor:
    """Tensors joined along the first axis, vectors as rows.

    >>> nc.vstack([[1, 2], [3, 4]])
    Tensor([[1, 2],
            [3, 4]], i64[2, 2])
    """
    return concat([reshape(x, _padded(as_tensor(x).type.shape, 2)) for x in xs], axis=0)


def dstack(xs: Sequence[TensorLike], /) -> Tensor:
    """Tensors joined along the third axis, vectors and matrices as slices of depth 1.

    >>> nc.dstack([[1, 2], [3, 4]]).tolist()
    [[[1, 3], [2, 4]]]
    """
    return concat([reshape(x, _cube(as_tensor(x).type.shape)) for x in xs], axis=2)


def column_stack(xs: Sequence[TensorLike], /) -> Tensor:
    """Tensors joined along the second axis, vectors as columns.

    >>> nc.column_stack([[1, 2], [3, 4]])
    Tensor([[1, 3],
            [2, 4]], i64[2, 2])
    """
    return concat([x if len(as_tensor(x).type.shape) > 1 else reshape(x, (-1, 1)) for x in xs], axis=1)


def repeat_interleave(x: TensorLike, /, repeats: Any, axis: int | None = None) -> Tensor:
    """Each element, or each slice along an axis, several times in a row: `repeat` with PyTorch's arguments.

    >>> nc.repeat_interleave([1, 2], 2)
    Tensor([1, 1, 2, 2], i64[4])
    """
    return repeat(x, repeats, axis=axis)


# ---- products, extremes and comparisons


def dot(x: TensorLike, y: TensorLike, /) -> Tensor:
    """The product of vectors and matrices; of a number and a tensor, the product of the elements.

    Raises ShapeError for more than two axes, where NumPy's `dot` and `matmul` differ.

    >>> nc.dot([1, 2], [3, 4])
    Tensor(11, i64[])
    """
    ranks = len(as_tensor(x).type.shape), len(as_tensor(y).type.shape)
    if max(ranks) > 2:
        raise ShapeError(
            f"dot: the operands must have at most two axes; got {ranks[0]} and {ranks[1]}; write nacre.matmul for "
            "batches of matrices, or nacre.tensordot(x, y, axes=([-1], [-2])) for NumPy's dot"
        )
    return matmul(x, y) if min(ranks) else arithmetic.multiply(x, y)


def inner(x: TensorLike, y: TensorLike, /) -> Tensor:
    """The sums of products along the last axes of both, for all pairs of rows; nothing is conjugated.

    >>> nc.inner([[1, 2], [3, 4]], [1, 1])
    Tensor([3, 7], i64[2])
    """
    if not as_tensor(x).type.shape or not as_tensor(y).type.shape:
        return arithmetic.multiply(x, y)
    return tensordot(x, y, axes=([-1], [-1]))


def amax(x: TensorLike, /, axis: Axes = None, *, keepdims: bool = False) -> Tensor:
    """The largest element over axes (default: all): `max` with the axis by its place.

    >>> nc.amax([[1, 5], [3, 4]], 1)
    Tensor([5, 4], i64[2])
    """
    return largest(x, axis=axis, keepdims=keepdims)


def amin(x: TensorLike, /, axis: Axes = None, *, keepdims: bool = False) -> Tensor:
    """The smallest element over axes (default: all): `min` with the axis by its place.

    >>> nc.amin([[1, 5], [3, 4]], 1)
    Tensor([1, 3], i64[2])
    """
    return smallest(x, axis=axis, keepdims=keepdims)


def _numbers(operation: str, *xs: TensorLike) -> list[Any]:
    """Tensors that can be compared.  Raises DTypeError for dtypes that are only stored."""
    held = [as_tensor(x) for x in xs]
    for x in held:
        require(operation, x.type.dtype, ANY)
    if any(map(is_plain, xs)):
        held, _ = meet(operation, [x if is_plain(x) else v for x, v in zip(xs, held, strict=True)])
    return held


def isclose(x: TensorLike, y: TensorLike, /, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Tensor:
    """Whether |x − y| ≤ atol + rtol · |y|; infinities are close to themselves alone, NaN to NaN with `equal_nan`.

    Integers are compared in float64.

    >>> nc.isclose([1.0, nc.inf], [1.000001, nc.inf])
    Tensor([ True,  True], bool[2])
    """
    relative, absolute = plain_number(rtol, "isclose", "rtol"), plain_number(atol, "isclose", "atol")
    a, b = (v if v.type.dtype.is_inexact else as_tensor(v, float64) for v in _numbers("isclose", x, y))
    distance = arithmetic.abs(arithmetic.subtract(a, b))
    near = comparison.less_equal(distance, arithmetic.add(arithmetic.multiply(arithmetic.abs(b), relative), absolute))
    close = logic.logical_or(comparison.equal(a, b), logic.logical_and(near, logic.isfinite(b)))
    return logic.logical_or(close, logic.logical_and(logic.isnan(a), logic.isnan(b))) if equal_nan else close


def allclose(x: TensorLike, y: TensorLike, /, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> bool:
    """Whether all elements are close, as `isclose` has it: a bool of Python, so both must be known.

    >>> nc.allclose([1.0, 2.0], [1.0, 2.1])
    False
    """
    return bool(all_true(isclose(x, y, rtol, atol, equal_nan)))


def array_equal(x: TensorLike, y: TensorLike, /) -> bool:
    """Whether two tensors have the same shape and equal elements: a bool of Python, so both must be known.

    >>> nc.array_equal([1, 2], [1, 2])
    True
    """
    a, b = _numbers("array_equal", x, y)
    return a.type.shape == b.type.shape and bool(all_true(comparison.equal(a, b)))


# ---- arithmetic


def div(x: TensorLike, y: TensorLike, /, *, rounding_mode: str | None = None) -> Tensor:
    """x / y; with the rounding mode "floor" `floor_divide`, with "trunc" the exact quotient without its fraction.

    In these modes, integers stay integers, and their quotient by 0 is 0.  Raises ArgumentError for other modes.

    >>> nc.div([7, -7], 2, rounding_mode="trunc")
    Tensor([ 3, -3], i64[2])
    """
    if rounding_mode is None:
        return arithmetic.divide(x, y)
    if rounding_mode == "floor":
        return arithmetic.floor_divide(x, y)
    if rounding_mode != "trunc":
        raise ArgumentError(f'div: rounding_mode must be None, "floor" or "trunc"; got {rounding_mode!r}')
    a, b = operands("div", x, y)
    require("div", a.type.dtype, REAL)
    return _truncated(a, b)


def _truncated(x: Any, y: Any) -> Any:
    """The quotient without its fraction; of floats, that of the absolute values with the sign of the quotient."""
    if not x.type.dtype.is_float:
        return pointwise.idiv(x, y)
    whole = arithmetic.floor_divide(pointwise.abs_(x), pointwise.abs_(y))
    return pointwise.copysign(whole, pointwise.div(x, y))


def lerp(x: TensorLike, y: TensorLike, /, weight: TensorLike) -> Tensor:
    """x + weight · (y − x), which is y itself at the weight 1.

    >>> nc.lerp([0.0, 10.0], [10.0, 20.0], 0.25)
    Tensor([ 2.5, 12.5], f32[2])
    """
    held, _ = meet("lerp", (x, y, weight))
    return in_single(_lerp, *held)


def _lerp(x: Any, y: Any, weight: Any) -> Any:
    way = arithmetic.subtract(y, x)
    from_start = arithmetic.add(x, arithmetic.multiply(way, weight))
    from_end = arithmetic.subtract(y, arithmetic.multiply(way, arithmetic.subtract(1, weight)))
    return where(comparison.less(weight, 0.5), from_start, from_end)


def deg2rad(x: TensorLike, /) -> Tensor:
    """Degrees in radians: x · π / 180.

    >>> nc.deg2rad([180.0])
    Tensor([3.1415927], f32[1])
    """
    return _scaled("deg2rad", x, math.pi / 180)


def rad2deg(x: TensorLike, /) -> Tensor:
    """Radians in degrees: x · 180 / π.

    >>> nc.rad2deg([0.5])
    Tensor([28.64789], f32[1])
    """
    return _scaled("rad2deg", x, 180 / math.pi)


def _scaled(operation: str, x: TensorLike, factor: float) -> Any:
    """x times a number, which has float32's digits beside a half type."""
    held = as_tensor(x)
    require(operation, held.type.dtype, FLOATING)
    return in_single(arithmetic.multiply, held, constant(factor, float32)) if is_half(held) else held * factor
