"""Tests of all elements or of any.  Names follow the array API standard."""

from __future__ import annotations

from typing import Any

from nacre.api.elementwise.apply import require
from nacre.api.operands import TensorLike, as_tensor, filled
from nacre.api.primitives import pointwise, reduce
from nacre.api.statistical import reduce_axes
from nacre.api.tensor import Axes, Tensor
from nacre.base.dtypes import ANY, bool_

__all__ = [
    "all",
    "any",
]


def truth(x: TensorLike, operation: str) -> Any:
    """Whether each element is true or not zero."""
    held = as_tensor(x)
    require(operation, held.type.dtype, ANY)
    return held if held.type.dtype is bool_ else pointwise.ne(held, filled(held, 0))


def any(x: TensorLike, /, axis: Axes = None, *, keepdims: bool = False) -> Tensor:
    """Whether any element over axes (default: all) is true or not zero.

    >>> nc.any([[True, False], [False, False]], axis=1)
    Tensor([ True, False], bool[2])
    """
    return reduce_axes(reduce.any_, "any", truth(x, "any"), axis, keepdims)


def all(x: TensorLike, /, axis: Axes = None, *, keepdims: bool = False) -> Tensor:
    """Whether all elements over axes (default: all) are true or not zero.

    >>> nc.all([[True, True], [False, True]], axis=1)
    Tensor([ True, False], bool[2])
    """
    return reduce_axes(reduce.all_, "all", truth(x, "all"), axis, keepdims)
