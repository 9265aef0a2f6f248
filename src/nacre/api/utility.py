"""Tests of all elements or of any, and differences.  Names follow the array API standard."""

from __future__ import annotations

from typing import Any

from nacre.api.elementwise.apply import require
from nacre.api.elementwise.one_program import one_program
from nacre.api.manipulation import concat, cut
from nacre.api.operands import TensorLike, as_tensor, distinct, filled, is_plain, is_scalar, spread
from nacre.api.primitives import pointwise, reduce
from nacre.api.statistical import reduce_axes
from nacre.api.tensor import Axes, Tensor
from nacre.base.arguments import whole_number
from nacre.base.dtypes import ANY, bool_
from nacre.base.errors import ArgumentError
from nacre.base.types import normal_axis

__all__ = [
    "all",
    "any",
    "diff",
]


def truth(x: TensorLike, operation: str) -> Any:
    """Whether each element is true or not zero."""
    held = as_tensor(x)
    require(operation, held.type.dtype, ANY)
    return held if held.type.dtype is bool_ else pointwise.ne(held, filled(held, 0))


@one_program()
def any(x: TensorLike, /, axis: Axes = None, *, keepdims: bool = False) -> Tensor:
    """Whether any element over axes (default: all) is true or not zero.

    >>> nc.any([[True, False], [False, False]], axis=1)
    Tensor([ True, False], bool[2])
    """
    return reduce_axes(reduce.any_, "any", truth(x, "any"), axis, keepdims)


@one_program()
def all(x: TensorLike, /, axis: Axes = None, *, keepdims: bool = False) -> Tensor:
    """Whether all elements over axes (default: all) are true or not zero.

    >>> nc.all([[True, True], [False, True]], axis=1)
    Tensor([ True, False], bool[2])
    """
    return reduce_axes(reduce.all_, "all", truth(x, "all"), axis, keepdims)


@one_program()
def diff(
    x: TensorLike,
    /,
    n: int = 1,
    axis: int = -1,
    *,
    prepend: TensorLike | None = None,
    append: TensorLike | None = None,
) -> Tensor:
    """The differences of neighbours along an axis, x[k + 1] − x[k], taken n times; integers wrap.  Of bools: whether
    neighbours differ.

    `prepend` and `append` are joined to x first, by the rules of `concat`; a single number is one more
    element.  Each difference makes the axis shorter by
    one, down to size 0.  Raises ArgumentError for a negative n.

    >>> nc.diff([1, 4, 9, 16])
    Tensor([3, 5, 7], i64[3])
    >>> nc.diff([1, 4, 9, 16], n=2)
    Tensor([2, 2], i64[2])
    """
    held = given = as_tensor(x)
    require("diff", held.type.dtype, ANY)
    count = whole_number(n, "diff", "n")
    if count < 0:
        raise ArgumentError(f"diff: n must be at least 0; got {count}; write axis={count} for an axis")
    at = normal_axis(axis, len(held.type.shape), "diff")
    parts = [held if part is held else _edge(part, held, at) for part in (prepend, held, append) if part is not None]
    held = concat(parts, axis=at) if len(parts) > 1 else held
    difference = pointwise.ne if held.type.dtype is bool_ else pointwise.sub
    for _ in range(count):
        size = held.type.shape[at]
        if size == 0:
            break
        held = difference(cut(held, at, 1, size), cut(held, at, 0, size - 1))
    return distinct(held, given)


def _edge(part: TensorLike, x: Any, axis: int) -> Any:
    """The tensor joined to x along an axis; a single number is broadcast to a slice of x."""
    weak = is_scalar(part) or (x.type.dtype.is_inexact and is_plain(part))
    held = as_tensor(part, x.type.dtype) if weak else as_tensor(part)
    return held if held.type.shape else spread(held, tuple(1 if k == axis else n for k, n in enumerate(x.type.shape)))
