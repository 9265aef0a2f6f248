"""Norms of vectors and matrices."""

from __future__ import annotations

from functools import partial
from math import inf
from typing import Any, cast

from nacre.api import statistical
from nacre.api.data_types import astype
from nacre.api.elementwise import arithmetic, comparison, transcendental
from nacre.api.elementwise.apply import require
from nacre.api.linalg.decompositions import svdvals
from nacre.api.linalg.operands import require_matrices
from nacre.api.manipulation import expand_dims, moveaxis
from nacre.api.operands import TensorLike, as_tensor, in_single, is_half
from nacre.api.tensor import Tensor
from nacre.base.arguments import is_number, require_flag, shown
from nacre.base.dtypes import INEXACT
from nacre.base.errors import ArgumentError, ShapeError
from nacre.base.types import normal_axes

__all__ = ["matrix_norm", "norm", "vector_norm"]


def vector_norm(
    x: TensorLike,
    /,
    *,
    axis: int | tuple[int, ...] | None = None,
    keepdims: bool = False,
    ord: float = 2,
) -> Tensor:
    """The norm of order `ord` along axes, or of all elements: the root of the sum of |x|**ord.

    inf and -inf are the greatest and the least magnitude, and 0 the number of elements that are not 0.

    >>> nc.linalg.vector_norm([3.0, 4.0])
    Tensor(5., f32[])
    """
    held = _operand("vector_norm", x, keepdims)
    if not is_number(ord):
        raise ArgumentError(f"vector_norm: ord must be a number; got {shown(ord)}")
    if is_half(held):
        return in_single(partial(vector_norm, axis=axis, keepdims=keepdims, ord=ord), held)
    size = arithmetic.abs(held)
    if ord in (inf, -inf):
        return (statistical.max if ord > 0 else statistical.min)(size, axis=axis, keepdims=keepdims)
    if ord == 0:
        some = astype(comparison.not_equal(held, 0), held.type.dtype.real)
        return statistical.sum(some, axis, keepdims=keepdims)
    if ord == 1:
        return statistical.sum(size, axis, keepdims=keepdims)
    if ord == 2:
        return transcendental.sqrt(statistical.sum(arithmetic.square(size), axis, keepdims=keepdims))
    return arithmetic.pow(statistical.sum(arithmetic.pow(size, ord), axis, keepdims=keepdims), 1 / ord)


def matrix_norm(x: TensorLike, /, *, keepdims: bool = False, ord: float | str = "fro") -> Tensor:
    """The norms of matrices [..., m, n]: "fro" or "nuc", or 1, 2 and inf, -1, -2 and -inf.

    1 is the greatest sum of magnitudes of a column, inf that of a row, and 2 the greatest singular value.  -1, -inf
    and -2 are the least ones.  "nuc" is the sum of the singular values.

    >>> nc.linalg.matrix_norm([[1.0, -2.0], [3.0, 4.0]], ord=1)
    Tensor(6., f32[])
    """
    held = _operand("matrix_norm", x, keepdims)
    require_matrices("matrix_norm", held, square=False)
    if is_half(held):
        return in_single(partial(matrix_norm, keepdims=keepdims, ord=ord), held)
    if ord == "fro":
        return vector_norm(held, axis=(-2, -1), keepdims=keepdims)
    if ord in ("nuc", 2, -2):
        values = expand_dims(svdvals(held), axis=-2)
        fold: Any = statistical.sum if ord == "nuc" else statistical.max if ord == 2 else statistical.min
        return fold(values, axis=(-2, -1), keepdims=keepdims)
    if isinstance(ord, str) or ord not in (1, -1, inf, -inf):
        raise ArgumentError(f"matrix_norm: ord must be 'fro', 'nuc', 1, -1, 2, -2, inf or -inf; got {shown(ord)}")
    along = -2 if ord in (1, -1) else -1
    sums: Any = statistical.sum(arithmetic.abs(held), along, keepdims=True)
    found = (statistical.max if ord > 0 else statistical.min)(sums, axis=(-2, -1), keepdims=keepdims)
    return found


def norm(
    x: TensorLike,
    /,
    ord: float | str | None = None,
    axis: int | tuple[int, ...] | None = None,
    keepdims: bool = False,
) -> Tensor:
    """The norm of vectors along one axis, or of matrices along two, as NumPy has it.

    Without `axis`, x is one vector or one matrix.  Without `ord`, it is the root of the sum of |x|² along the axes, or
    over all elements of x, which may then have any number of axes.

    >>> x = nc.tensor([[3.0, 4.0], [0.0, 0.0]])
    >>> nc.linalg.norm(x), nc.linalg.norm(x, axis=1), nc.linalg.norm(x, ord="nuc")
    (Tensor(5., f32[]), Tensor([5., 0.], f32[2]), Tensor(5., f32[]))
    """
    held = _operand("norm", x, keepdims)
    along = normal_axes(axis, held.type.rank, "norm")
    if ord is None:
        return vector_norm(held, axis=along, keepdims=keepdims)
    if len(along) == 1:
        if isinstance(ord, str):
            raise ArgumentError(f"norm: ord must be a number for vectors; got {shown(ord)}")
        return vector_norm(held, axis=along, keepdims=keepdims, ord=ord)
    if len(along) != 2:
        raise ShapeError(
            f"norm: with ord, x must be a vector or a matrix; got {len(along)} axes of shape {held.type.shape}; "
            "name one axis or two, as in axis=(-2, -1)"
        )
    rows_and_columns = along if axis is None else tuple(cast("tuple[int, ...]", axis))
    found = matrix_norm(moveaxis(held, rows_and_columns, (-2, -1)), keepdims=keepdims, ord=ord)
    return moveaxis(found, (-2, -1), rows_and_columns) if keepdims else found


def _operand(operation: str, x: TensorLike, keepdims: bool) -> Any:
    held = as_tensor(x)
    require(operation, held.type.dtype, INEXACT)
    require_flag(keepdims, operation)
    return held
