"""Operands of linear algebra: matrices and batches of them, their dtypes, and what their factors must have."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from nacre.api.elementwise.apply import require
from nacre.api.operands import TensorLike, as_tensor, meet, require_inside, spread
from nacre.api.primitives import matrices, pointwise, view
from nacre.base.dtypes import INEXACT, DType, int64
from nacre.base.errors import LinAlgError, ShapeError
from nacre.base.types import broadcast_shapes, show_shape

shared: Any = matrices.matrices


def matrix(operation: str, x: TensorLike, square: bool = False) -> tuple[Any, DType]:
    """x as matrices of at least 32 bits, and its own dtype."""
    held = as_tensor(x)
    (found,), dtype = _wide(operation, [held])
    require_matrices(operation, found, square)
    return found, dtype


def pair(operation: str, a: TensorLike, b: TensorLike) -> tuple[Any, Any, DType]:
    """Two operands promoted to one dtype of at least 32 bits, and their common dtype."""
    met, _ = meet(operation, (a, b))
    (x, y), dtype = _wide(operation, met)
    return x, y, dtype


def _wide(operation: str, xs: Sequence[Any]) -> tuple[list[Any], DType]:
    dtype: DType = xs[0].type.dtype
    require(operation, dtype, INEXACT)
    return [as_tensor(x, dtype.arithmetic) if dtype.is_widened else x for x in xs], dtype


def require_matrices(operation: str, x: Any, square: bool) -> None:
    """Raise ShapeError unless x has matrices; square ones, if required."""
    shape = x.type.shape
    if len(shape) < 2:
        raise ShapeError(f"{operation}: x must be a matrix or a batch of them; got shape {show_shape(shape)}")
    if square and shape[-1] != shape[-2]:
        raise ShapeError(f"{operation}: matrices must be square; got shape {show_shape(shape)}")


def right_sides(operation: str, a: Any, b: Any) -> tuple[Any, Any, Callable[[Any], Any]]:
    """Matrices and right-hand sides with equal batch axes, and a function that gives the solution b's form.

    Only a b with one axis is a vector, as in the array API standard since 2023.
    """
    rows, vector = a.type.shape[-2], len(b.type.shape) == 1
    if vector:
        b = view.reshape(b, (*b.type.shape, 1))
    if not b.type.shape or b.type.shape[-2] != rows:
        raise ShapeError(
            f"{operation}: the right-hand side must have {rows} rows, as the matrix; "
            f"got shapes {show_shape(a.type.shape)} and {show_shape(b.type.shape)}"
        )
    batch = broadcast_shapes(a.type.shape[:-2], b.type.shape[:-2], operation=operation)
    a, b = spread(a, batch + a.type.shape[-2:]), spread(b, batch + b.type.shape[-2:])
    return a, b, (lambda x: view.reshape(x, x.type.shape[:-1])) if vector else (lambda x: x)


def require_no_zero(operation: str, diagonal: Any, what: str) -> None:
    """Raise LinAlgError, in compiled code when it runs, if an element of diagonals [..., n] is zero."""
    shape = diagonal.type.shape
    numbers = pointwise.iota(shape, len(shape) - 1, int64)
    none = pointwise.zeros_like(numbers)
    zero = pointwise.eq(diagonal, pointwise.zeros_like(diagonal))
    counted = pointwise.add(numbers, pointwise.full_like(numbers, 1))
    require_inside(
        pointwise.select(zero, counted, none),
        0,
        1,
        LinAlgError,
        f"{operation}: {what}; got one that is singular: element {{got}} of the diagonal, counted from 1, is 0",
    )
