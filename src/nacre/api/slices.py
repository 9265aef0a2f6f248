"""Slices whose start is a tensor: reading and replacing a block of a fixed size at a start known at run time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nacre.api.operands import TensorLike, as_tensor, whole_sizes
from nacre.api.primitives import picking
from nacre.api.tensor import Tensor
from nacre.base.dims import Size
from nacre.base.dtypes import int64
from nacre.base.errors import DTypeError, ShapeError

__all__ = ["dynamic_slice", "dynamic_update_slice"]


def dynamic_slice(x: TensorLike, starts: Sequence[TensorLike], sizes: Sequence[Size]) -> Tensor:
    """The block of x of the given sizes that begins at `starts`, one rank-0 integer for each axis.

    A start is clamped so that the block is within x; a start below 0 counts as 0.

    Raises ShapeError for a wrong number of starts or sizes and for sizes beyond x, DTypeError for starts that are not
    integers.

    >>> nc.dynamic_slice([[1, 2, 3], [4, 5, 6]], (0, nc.tensor(1)), (2, 2))
    Tensor([[2, 3],
            [5, 6]], i64[2, 2])
    """
    return picking.dynamic_slice(as_tensor(x), _starts(starts, "dynamic_slice"), whole_sizes(sizes, "dynamic_slice"))


def dynamic_update_slice(x: TensorLike, update: TensorLike, starts: Sequence[TensorLike]) -> Tensor:
    """x with the block that begins at `starts` replaced by `update`, a tensor of x's rank.

    A start is clamped so that the block is within x.  In a jitted function, x is updated in place if it is not used
    later: a variable that is read and then assigned, a donated argument, or a temporary value.

    Raises ShapeError for an update or starts that do not fit x, DTypeError for an update of another dtype and for
    starts that are not integers.

    >>> nc.dynamic_update_slice(nc.zeros((2, 3)), [[7.0], [8.0]], (0, nc.tensor(2)))
    Tensor([[0., 0., 7.],
            [0., 0., 8.]], f32[2, 3])
    """
    at = _starts(starts, "dynamic_update_slice")
    return picking.dynamic_update_slice(as_tensor(x), as_tensor(update), at)


def _starts(starts: Sequence[TensorLike], operation: str) -> tuple[Any, ...]:
    """Starts as int64 tensors of rank 0."""
    found: list[Any] = []
    for start in starts:
        held = as_tensor(start)
        if not held.type.dtype.is_integer:
            raise DTypeError(f"{operation}: starts must be integers; got {held.type}")
        if held.type.shape:
            raise ShapeError(f"{operation}: starts must have rank 0; got {held.type}; select one with an index")
        found.append(as_tensor(held, int64))
    return tuple(found)
