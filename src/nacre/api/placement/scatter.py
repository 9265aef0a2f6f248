"""Storing, adding and reducing at indices along one axis.  Names follow PyTorch."""

from __future__ import annotations

from typing import Any

from nacre.api.elementwise.apply import require
from nacre.api.elementwise.arithmetic import floor_divide, multiply
from nacre.api.operands import TensorLike, as_tensor, constant, distinct, filled, in_single, is_scalar, spread
from nacre.api.placement.combining import combined, combined_slices, first_operand
from nacre.api.primitives import picking, pointwise, view
from nacre.api.taking import as_update, as_vector, from_zero, require_beside
from nacre.api.tensor import Tensor
from nacre.base.dims import product
from nacre.base.dtypes import NUMERIC, ORDERED, int64
from nacre.base.errors import ArgumentError, ShapeError
from nacre.base.types import Shape, normal_axis

__all__ = ["index_add", "index_copy", "index_fill", "scatter", "scatter_add", "scatter_reduce"]

REDUCTIONS = ("sum", "prod", "mean", "amax", "amin")


def scatter(x: TensorLike, /, dim: int, index: TensorLike, src: TensorLike, *, reduce: str | None = None) -> Tensor:
    """x with elements stored at integer indices along an axis: of several at one place, the last one stays.

    The index has the rank of x, and at most the sizes of x elsewhere.  `src` is a number, or a tensor with at least the
    sizes of the index; elements beyond these are not read.  As in PyTorch, a negative index is out of range.  With
    `reduce`, "add" or "multiply", elements are combined with those of x in order.  Raises AxisError for an index out of
    range, in a compiled function when it runs, ShapeError for other shapes, ArgumentError for another `reduce`.

    >>> nc.scatter(nc.zeros((2, 3)), 1, [[2], [0]], [[1.0], [2.0]])
    Tensor([[0., 0., 1.],
            [2., 0., 0.]], f32[2, 3])
    """
    if reduce is not None:
        if reduce not in ("add", "multiply"):
            raise ArgumentError(f"scatter: reduce must be 'add' or 'multiply'; got {reduce!r}; use scatter_reduce")
        return scatter_reduce(x, dim, index, src, "sum" if reduce == "add" else "prod")
    held, at, places, updates, whole = _located("scatter", x, dim, index, src)
    if places.type.size == 0:
        return whole(held)
    shape = places.type.shape
    axes = range(len(shape))
    flat = (product(shape),)
    every = [view.reshape(places if k == at else pointwise.iota(shape, k, int64), flat) for k in axes]
    return whole(picking.scatter(held, view.reshape(updates, flat), every, tuple(axes)))


def scatter_add(x: TensorLike, /, dim: int, index: TensorLike, src: TensorLike) -> Tensor:
    """x with elements added at integer indices along an axis, in the order of their places in `src`.

    The index and `src` are those of `scatter`, and so are the errors.

    >>> nc.scatter_add(nc.zeros(3), 0, [0, 2, 0], [1.0, 2.0, 3.0])
    Tensor([4., 0., 2.], f32[3])
    """
    held, at, places, updates, whole = _located("scatter_add", x, dim, index, src)
    return whole(combined("scatter_add", held, places, updates, at, "sum"))


def scatter_reduce(
    x: TensorLike, /, dim: int, index: TensorLike, src: TensorLike, reduce: str, *, include_self: bool = True
) -> Tensor:
    """x with elements combined at integer indices along an axis, in the order of their places in `src`.

    `reduce` is "sum", "prod", "mean", "amax" or "amin".  Without `include_self`, an element of x is replaced where an
    update has its place.  A mean of integers is rounded down.  Where several are extreme, they share the gradient
    equally.  The index and `src` are those of `scatter`.  Raises ArgumentError for another `reduce`.

    >>> nc.scatter_reduce([1.0, 2.0, 3.0], 0, [0, 0, 2], [5.0, 7.0, 1.0], "mean", include_self=False)
    Tensor([6., 2., 1.], f32[3])
    >>> nc.scatter_reduce([1.0, 2.0, 3.0], 0, [0, 0, 2], [5.0, 7.0, 1.0], "amax")
    Tensor([7., 2., 3.], f32[3])
    """
    if reduce not in REDUCTIONS:
        raise ArgumentError(f"scatter_reduce: reduce must be one of {', '.join(REDUCTIONS)}; got {reduce!r}")
    held, at, places, updates, whole = _located("scatter_reduce", x, dim, index, src)

    def reduced(x: Any, src: Any) -> Any:
        """The reduction in the dtype of x."""
        return _reduced(x, at, places, src, reduce, include_self)

    return whole(in_single(reduced, held, updates))


def _reduced(held: Any, at: int, places: Any, updates: Any, reduce: str, include_self: bool) -> Any:
    reduction = "sum" if reduce == "mean" else reduce
    counts: Any = None
    kept = held
    if reduce == "mean" or not include_self:
        require("scatter_reduce", held.type.dtype, ORDERED if reduce[0] == "a" else NUMERIC)
        start = pointwise.fill(int(include_self), held.type.shape, int64)
        counts = picking.scatter_add(start, places, filled(places, 1), at)
    if not include_self:
        replaced = pointwise.gt(counts, filled(counts, 0))
        kept = pointwise.select(replaced, filled(held, first_operand(reduction, held.type.dtype)), held)
    found = combined("scatter_reduce", kept, places, updates, at, reduction)
    return found if reduce != "mean" else averaged(found, counts)


def averaged(total: Any, counts: Any) -> Any:
    """Sums divided by counts of at least 1; those of integers are rounded down."""
    number = as_tensor(pointwise.maximum(counts, filled(counts, 1)), total.type.dtype)
    return pointwise.div(total, number) if total.type.dtype.is_inexact else floor_divide(total, number)


def _located(operation: str, x: TensorLike, dim: int, index: TensorLike, src: TensorLike) -> Any:
    """The part of x beside the index, the axis, the places, the updates, and what makes all of x of its part."""
    held, places = as_tensor(x), as_tensor(index)
    shape, wanted = held.type.shape, places.type.shape
    at = normal_axis(dim, len(shape), operation)
    require_beside(operation, places, shape, at, "index_add")
    updates = as_update(operation, held, src)
    if updates.type.shape:
        own = updates.type.shape
        if len(own) != len(wanted) or any(n > m for n, m in zip(wanted, own, strict=True)):
            raise ShapeError(
                f"{operation}: src must be a number, or have at least the sizes of the index, {wanted}; got {own}"
            )
        updates = _first_part(updates, wanted)
    else:
        updates = spread(updates, wanted)
    places = from_zero(operation, places, shape[at], "")
    part = _first_part(held, tuple(m if k == at else n for k, (n, m) in enumerate(zip(wanted, shape, strict=True))))

    def whole(found: Any) -> Any:
        """All of x, where a part has been replaced."""
        if part is held:
            return distinct(found, held)
        return picking.dynamic_update_slice(held, found, (constant(0, int64),) * len(shape))

    return part, at, places, updates, whole


def _first_part(x: Any, sizes: Shape) -> Any:
    """The elements of x whose indices are below sizes."""
    if x.type.shape == sizes:
        return x
    rank = len(sizes)
    return view.slice_(x, (0,) * rank, sizes, (1,) * rank)


# ---- whole slices


def index_add(x: TensorLike, /, dim: int, index: TensorLike, source: TensorLike, *, alpha: TensorLike = 1) -> Tensor:
    """x with slices, times alpha, added at the integer indices of a vector along an axis, in order.

    `source` has the shape of x, but the size of the index along the axis.  As in PyTorch, a negative index is out of
    range.  Raises AxisError for an index out of range, in a compiled function when it runs, ShapeError for other
    shapes.

    >>> nc.index_add(nc.zeros((3, 2)), 0, [0, 2, 0], nc.ones((3, 2)))
    Tensor([[2., 2.],
            [0., 0.],
            [1., 1.]], f32[3, 2])
    """
    held, at, places, updates = _slices("index_add", x, dim, index, source)
    factors = () if is_scalar(alpha) and alpha == 1 else (as_update("index_add", held, alpha),)

    def added(x: Any, source: Any, *factors: Any) -> Any:
        for factor in factors:
            source = multiply(source, factor)
        return combined_slices("index_add", x, places, source, at, "sum")

    return distinct(in_single(added, held, updates, *factors), held)


def index_copy(x: TensorLike, /, dim: int, index: TensorLike, source: TensorLike) -> Tensor:
    """x with slices stored at the integer indices of a vector along an axis; of several at one place, the last stays.

    The arguments and errors are those of `index_add`.

    >>> nc.index_copy(nc.zeros((3, 2)), 0, [0, 2], nc.ones((2, 2)))
    Tensor([[1., 1.],
            [0., 0.],
            [1., 1.]], f32[3, 2])
    """
    held, at, places, updates = _slices("index_copy", x, dim, index, source)
    rank = len(updates.type.shape)
    rows = view.permute(updates, (at, *(k for k in range(rank) if k != at)))
    return distinct(picking.scatter(held, rows, (places,), (at,)), held)


def index_fill(x: TensorLike, /, dim: int, index: TensorLike, value: TensorLike) -> Tensor:
    """x with one number stored in the slices at the integer indices of a vector along an axis.

    The errors are those of `index_add`.

    >>> nc.index_fill(nc.zeros((3, 2)), 0, [0, 2], 1.0)
    Tensor([[1., 1.],
            [0., 0.],
            [1., 1.]], f32[3, 2])
    """
    held = as_tensor(x)
    number = as_update("index_fill", held, value)
    if number.type.shape:
        raise ShapeError(f"index_fill: the value must be one number; got shape {number.type.shape}; use index_copy")
    at = normal_axis(dim, len(held.type.shape), "index_fill")
    count = _vector("index_fill", index).type.shape[0]
    shape = tuple(count if k == at else n for k, n in enumerate(held.type.shape))
    return index_copy(held, dim, index, spread(number, shape))


def _vector(operation: str, index: TensorLike) -> Any:
    return as_vector(operation, index, "scatter takes any rank")


def _slices(operation: str, x: TensorLike, dim: int, index: TensorLike, source: TensorLike) -> Any:
    held, places = as_tensor(x), _vector(operation, index)
    at = normal_axis(dim, len(held.type.shape), operation)
    updates = as_update(operation, held, source)
    wanted = tuple(places.type.shape[0] if k == at else n for k, n in enumerate(held.type.shape))
    if updates.type.shape != wanted:
        raise ShapeError(f"{operation}: source must have shape {wanted}; got {updates.type.shape}")
    return held, at, from_zero(operation, places, held.type.shape[at], ""), updates
