"""Sums, products, means, variances and extremes over axes.  Names follow the array API standard."""

from __future__ import annotations

import math
from typing import Any

from nacre.api.data_types import requested
from nacre.api.elementwise.apply import of_tensors, require
from nacre.api.elementwise.one_program import one_program
from nacre.api.operands import (
    TensorLike,
    as_tensor,
    distinct,
    extent,
    filled,
    require_inside,
    settled_number,
    spread,
)
from nacre.api.primitives import parts, pointwise, reduce, view
from nacre.api.slope import root
from nacre.api.tensor import Axes, Tensor
from nacre.base.dims import LIMIT, Size, lower, product
from nacre.base.dtypes import ANY, FLOATING, INEXACT, NUMERIC, ORDERED, DType, as_dtype, int64, uint64
from nacre.base.errors import ArgumentError, ShapeError
from nacre.base.state import STATE, without_autocast
from nacre.base.types import normal_axes, normal_axis
from nacre.interpret.precision.functions import autocasting

__all__ = [
    "cumulative_prod",
    "cumulative_sum",
    "logsumexp",
    "max",
    "mean",
    "min",
    "prod",
    "std",
    "sum",
    "var",
]


def kept(reduced: Any, shape: tuple[Size, ...], axes: tuple[int, ...], keepdims: bool) -> Any:
    """The result of a reduction; with keepdims, the reduced axes stay with size 1."""
    if not keepdims:
        return reduced
    return view.reshape(reduced, tuple(1 if k in axes else s for k, s in enumerate(shape)))


def reduce_axes(op: Any, operation: str, x: Any, axis: Axes, keepdims: bool) -> Any:
    """A reduction over axes; without axes, a separate tensor."""
    axes = normal_axes(axis, len(x.type.shape), operation)
    return kept(op(x, axes) if axes else distinct(x, x), x.type.shape, axes, keepdims)


def _widened(operation: str, x: TensorLike, wanted: Any) -> Any:
    """The operand in the dtype in which elements are summed and multiplied: the wanted one, by default a wide one."""
    held = requested(operation, x, wanted)
    dtype: DType = held.type.dtype
    require(operation, dtype, ANY)
    if wanted is not None:
        return as_tensor(held, as_dtype(wanted))
    if dtype.is_inexact:
        return held
    return as_tensor(held, uint64 if dtype.is_integer and not dtype.is_signed else int64)


@one_program()
def sum(x: TensorLike, /, axis: Axes = None, *, dtype: Any = None, keepdims: bool = False) -> Tensor:
    """The sum over axes (default: all), by an aligned pairwise tree; integers and bools are summed in 64 bits.

    >>> nc.sum([[1.0, 2.0], [3.0, 4.0]], axis=0)
    Tensor([4., 6.], f32[2])
    """
    if dtype is not None and STATE.autocast is not None:
        return without_autocast(lambda: sum(x, axis, dtype=dtype, keepdims=keepdims))
    return reduce_axes(reduce.sum_, "sum", _widened("sum", x, dtype), axis, keepdims)


@one_program()
def prod(x: TensorLike, /, axis: Axes = None, *, dtype: Any = None, keepdims: bool = False) -> Tensor:
    """The product over axes (default: all); integers are multiplied in 64 bits.

    >>> nc.prod([1.0, 2.0, 3.0])
    Tensor(6., f32[])
    """
    if dtype is not None and STATE.autocast is not None:
        return without_autocast(lambda: prod(x, axis, dtype=dtype, keepdims=keepdims))
    return reduce_axes(reduce.prod, "prod", _widened("prod", x, dtype), axis, keepdims)


def count(x: Any, axis: Axes, operation: str) -> Size:
    """The number of elements that are reduced to one."""
    axes = normal_axes(axis, len(x.type.shape), operation)
    return product([x.type.shape[a] for a in axes])


def wide_float(x: Any) -> Any:
    """Half types converted to float32, in which library functions compute."""
    return pointwise.cast(x, x.type.dtype.arithmetic)


def mean(x: TensorLike, /, axis: Axes = None, *, keepdims: bool = False) -> Tensor:
    """The arithmetic mean over axes (default: all): the sum divided by the count.

    >>> nc.mean([1.0, 2.0, 6.0])
    Tensor(3., f32[])
    """

    def averaged(x: TensorLike) -> Any:
        """The mean with these settings."""
        held = as_tensor(x)
        require("mean", held.type.dtype, INEXACT)
        return as_tensor(_mean(wide_float(held), axis, keepdims, "mean"), held.type.dtype)

    return of_tensors("mean", averaged, (x,), axis=axis, keepdims=keepdims)


def _mean(x: Any, axis: Axes, keepdims: bool, operation: str) -> Any:
    total = reduce_axes(reduce.sum_, operation, x, axis, keepdims)
    return pointwise.div(total, spread(extent(count(x, axis, operation), x.type.dtype), total.type.shape))


@one_program()
@autocasting
def var(x: TensorLike, /, *, axis: Axes = None, correction: float = 0.0, keepdims: bool = False) -> Tensor:
    """The variance over axes (default: all): the sum of |x − mean|², divided by count − correction.

    Complex numbers have a real variance, the sum of those of their parts.

    >>> nc.var([1.0, 2.0, 3.0])
    Tensor(0.6666667, f32[])
    """
    held = as_tensor(x)
    require("var", held.type.dtype, INEXACT)
    if held.type.dtype.is_complex:
        axes = normal_axes(axis, len(held.type.shape), "var")
        of_parts: Any = var(parts.as_real(held), axis=axes, correction=correction, keepdims=keepdims)
        return reduce.sum_(of_parts, (len(of_parts.type.shape) - 1,))
    correction = settled_number(correction, "var", "correction")
    if not math.isfinite(correction):
        raise ArgumentError(f"var: correction must be finite; got {correction}; write 1 for PyTorch's, or 0")
    wide = wide_float(held)
    centred = pointwise.sub(wide, spread(_mean(wide, axis, True, "var"), wide.type.shape))
    total = reduce_axes(reduce.sum_, "var", pointwise.mul(centred, centred), axis, keepdims)
    n = extent(count(wide, axis, "var"), wide.type.dtype)
    if correction:
        n = pointwise.maximum(pointwise.sub(n, filled(n, float(correction))), filled(n, 0.0))
    return as_tensor(pointwise.div(total, spread(n, total.type.shape)), held.type.dtype)


@one_program()
@autocasting
def std(x: TensorLike, /, *, axis: Axes = None, correction: float = 0.0, keepdims: bool = False) -> Tensor:
    """The standard deviation over axes (default: all): the square root of the variance, which is real.

    >>> nc.std([1.0, 3.0])
    Tensor(1., f32[])
    """
    held = as_tensor(x)
    require("std", held.type.dtype, INEXACT)
    wide = held if held.type.dtype.is_complex else wide_float(held)
    found = root(var(wide, axis=axis, correction=correction, keepdims=keepdims))
    return found if held.type.dtype.is_complex else as_tensor(found, held.type.dtype)


def require_elements(x: Any, axis: Axes, operation: str) -> None:
    """Raise ShapeError if an extreme over the axes does not exist, for symbolic sizes when the program runs."""
    number = count(x, axis, operation)
    if number == 0:
        raise ShapeError(f"{operation}: x must not be empty; got shape {x.type.shape}")
    if lower(number) <= 0:
        text = f"{operation}: x must not be empty; got {{got}} elements along the axes"
        require_inside(extent(number), 1, LIMIT, ShapeError, text)


@one_program()
def max(x: TensorLike, /, *, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """The largest element over axes (default: all); NaN if there is one.

    >>> nc.max([[1, 5], [3, 4]], axis=1)
    Tensor([5, 4], i64[2])
    """
    held = as_tensor(x)
    require("max", held.type.dtype, ORDERED)
    require_elements(held, axis, "max")
    return reduce_axes(reduce.max_, "max", held, axis, keepdims)


@one_program()
def min(x: TensorLike, /, *, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """The smallest element over axes (default: all); NaN if there is one.

    >>> nc.min([[1, 5], [3, 4]], axis=1)
    Tensor([1, 3], i64[2])
    """
    held = as_tensor(x)
    require("min", held.type.dtype, ORDERED)
    require_elements(held, axis, "min")
    return reduce_axes(reduce.min_, "min", held, axis, keepdims)


@one_program()
def cumulative_sum(
    x: TensorLike, /, axis: int | None = None, *, dtype: Any = None, include_initial: bool = False
) -> Tensor:
    """The running sum along an axis, in order; integers and bools are summed in 64 bits.

    For a vector, the axis may be omitted.  With `include_initial`, the first element is 0.

    >>> nc.cumulative_sum([1, 2, 3])
    Tensor([1, 3, 6], i64[3])
    """
    return _accumulated(reduce.cumsum, "cumulative_sum", 0, x, axis, dtype, include_initial)


@one_program()
def cumulative_prod(
    x: TensorLike, /, axis: int | None = None, *, dtype: Any = None, include_initial: bool = False
) -> Tensor:
    """The running product along an axis, in order; integers and bools are multiplied in 64 bits.

    For a vector, the axis may be omitted.  With `include_initial`, the first element is 1.  The derivative is
    right also where factors are 0.

    >>> nc.cumulative_prod([1, 2, 3], include_initial=True)
    Tensor([1, 1, 2, 6], i64[4])
    """
    return _accumulated(reduce.cumprod, "cumulative_prod", 1, x, axis, dtype, include_initial)


def _accumulated(
    op: Any, operation: str, first: int, x: TensorLike, axis: int | None, dtype: Any, include_initial: bool
) -> Any:
    if dtype is not None and STATE.autocast is not None:
        return without_autocast(lambda: _accumulated(op, operation, first, x, axis, dtype, include_initial))
    held = _widened(operation, x, dtype)
    require(operation, held.type.dtype, NUMERIC)
    shape = held.type.shape
    if axis is None and len(shape) != 1:
        raise ShapeError(
            f"{operation}: axis must be given for x of rank {len(shape)}; got none; write axis=0, or x.flatten()"
        )
    at = normal_axis(0 if axis is None else axis, len(shape), operation)
    found = op(held, at)
    if not include_initial:
        return found
    one = tuple(1 if k == at else s for k, s in enumerate(shape))
    return view.concatenate([pointwise.fill(first, one, found.type.dtype), found], at)


@one_program()
@autocasting
def logsumexp(x: TensorLike, /, axis: Axes = None, *, keepdims: bool = False) -> Tensor:
    """log(Σ eˣ) over axes (default: all), without intermediate overflow; −∞ for no elements.

    >>> nc.logsumexp([0.0, 0.0])
    Tensor(0.6931472, f32[])
    """
    held = as_tensor(x)
    require("logsumexp", held.type.dtype, FLOATING)
    wide = wide_float(held)
    high = reduce_axes(reduce.max_, "logsumexp", wide, axis, True)
    finite = pointwise.select(pointwise.isfinite(high), high, filled(high, 0.0))
    scaled = pointwise.exp(pointwise.sub(wide, spread(finite, wide.type.shape)))
    total = pointwise.log(reduce_axes(reduce.sum_, "logsumexp", scaled, axis, True))
    result = pointwise.add(total, finite)
    axes = normal_axes(axis, len(wide.type.shape), "logsumexp")
    if not keepdims:
        result = view.reshape(result, tuple(s for k, s in enumerate(wide.type.shape) if k not in axes))
    return as_tensor(result, held.type.dtype)
