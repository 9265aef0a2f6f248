"""Norms of vectors and matrices."""

from __future__ import annotations

from functools import partial
from math import inf
from typing import Any, cast

from nacre.api import statistical
from nacre.api.data_types import astype
from nacre.api.elementwise import arithmetic, comparison, complex_numbers
from nacre.api.elementwise.apply import require
from nacre.api.elementwise.one_program import one_program
from nacre.api.linalg.decompositions import svdvals
from nacre.api.linalg.operands import require_matrices
from nacre.api.manipulation import expand_dims, moveaxis
from nacre.api.operands import TensorLike, as_tensor, filled, in_single, is_half, spread
from nacre.api.primitives import identity, pointwise
from nacre.api.slope import power_root, root, with_slope
from nacre.api.tensor import Tensor
from nacre.base.arguments import is_number, require_flag, shown
from nacre.base.dtypes import INEXACT
from nacre.base.errors import ArgumentError, ShapeError
from nacre.base.types import normal_axes, show_shape
from nacre.interpret.precision.functions import autocasting

__all__ = ["matrix_norm", "norm", "vector_norm"]


@one_program()
@autocasting
def vector_norm(
    x: TensorLike,
    /,
    *,
    axis: int | tuple[int, ...] | None = None,
    keepdims: bool = False,
    ord: float = 2,
) -> Tensor:
    """The norm of order `ord` along axes, or of all elements: the root of the sum of |x|**ord.

    inf and -inf are the greatest and the least magnitude, and 0 the number of elements that are not 0.  Without
    elements, norms of positive orders are 0, and -inf raises ShapeError.

    The gradient of a norm of 0 is 0, a subgradient.  For orders below 1, so is that by elements that are 0.

    >>> nc.linalg.vector_norm([3.0, 4.0])
    Tensor(5., f32[])
    """
    held = _operand("vector_norm", x, keepdims)
    if not is_number(ord):
        raise ArgumentError(f"vector_norm: ord must be a number; got {shown(ord)}")
    if is_half(held):
        return in_single(partial(vector_norm, axis=axis, keepdims=keepdims, ord=ord), held)
    along: Any = {"axis": axis, "keepdims": keepdims}
    if ord == 2:
        return root(statistical.sum(_squares(held), **along))
    size = arithmetic.abs(held)
    if ord in (inf, -inf):
        return _extreme("vector_norm", size, ord, axis, keepdims)
    if ord == 0:
        return statistical.sum(astype(comparison.not_equal(held, 0), held.type.dtype.real), **along)
    if ord == 1:
        return statistical.sum(size, **along)
    return power_root(statistical.sum(_powers(size, float(ord), axis), **along), float(ord))


def _squares(x: Any) -> Any:
    """|x|², with derivatives of every order at 0."""
    if not x.type.dtype.is_complex:
        return arithmetic.square(x)
    return arithmetic.add(*(arithmetic.square(part(x)) for part in (complex_numbers.real, complex_numbers.imag)))


def _powers(size: Any, ord: float, axis: int | tuple[int, ...] | None) -> Any:
    """Magnitudes to the power `ord`, with derivative 0 where that of the power is infinite and the norm's is not."""
    fixed: Any = None
    if ord < 1:
        fixed = comparison.equal(size, 0.0)
    elif ord < 2 and 0 not in size.type.shape:  # the second derivative, in vectors of zeros
        greatest: Any = statistical.max(identity.detach(size), axis=axis, keepdims=True)
        fixed = spread(comparison.equal(greatest, 0.0), size.type.shape)

    def power(x: Any) -> Any:
        return pointwise.pow_(x, filled(x, ord))

    return power(size) if fixed is None else with_slope(power, size, fixed)


def _extreme(operation: str, size: Any, ord: float, axis: int | tuple[int, ...] | None, keepdims: bool) -> Any:
    """The greatest magnitude, which is 0 if there is none, or the least one for a negative order."""
    if all(size.type.shape[k] != 0 for k in normal_axes(axis, size.type.rank, operation)):
        return (statistical.max if ord > 0 else statistical.min)(size, axis=axis, keepdims=keepdims)
    if ord < 0:
        raise ShapeError(
            f"{operation}: for ord={ord}, there must be elements along the axes; "
            f"got shape {show_shape(size.type.shape)}"
        )
    return statistical.sum(size, axis, keepdims=keepdims)


@one_program()
@autocasting
def matrix_norm(x: TensorLike, /, *, keepdims: bool = False, ord: float | str = "fro") -> Tensor:
    """The norms of matrices [..., m, n]: "fro" or "nuc", or 1, 2 and inf, -1, -2 and -inf.

    1 is the greatest sum of magnitudes of a column, inf that of a row, and 2 the greatest singular value.  -1, -inf
    and -2 are the least ones.  "nuc" is the sum of the singular values.  Without elements, norms are 0, and -1, -inf
    and -2 raise ShapeError.  The gradient of "fro" at a matrix of zeros is 0.

    >>> nc.linalg.matrix_norm([[1.0, -2.0], [3.0, 4.0]], ord=1)
    Tensor(6., f32[])
    """
    held = _operand("matrix_norm", x, keepdims)
    require_matrices("matrix_norm", held, square=False)
    if is_half(held):
        return in_single(partial(matrix_norm, keepdims=keepdims, ord=ord), held)
    if ord == "fro":
        return vector_norm(held, axis=(-2, -1), keepdims=keepdims)
    if ord == "nuc":
        return statistical.sum(expand_dims(svdvals(held), axis=-2), axis=(-2, -1), keepdims=keepdims)
    if ord in (2, -2):
        return _extreme("matrix_norm", expand_dims(svdvals(held), axis=-2), cast("float", ord), (-2, -1), keepdims)
    if isinstance(ord, str) or ord not in (1, -1, inf, -inf):
        raise ArgumentError(f"matrix_norm: ord must be 'fro', 'nuc', 1, -1, 2, -2, inf or -inf; got {shown(ord)}")
    along = -2 if ord in (1, -1) else -1
    sums: Any = statistical.sum(arithmetic.abs(held), along, keepdims=True)
    return _extreme("matrix_norm", sums, ord, (-2, -1), keepdims)


@one_program()
@autocasting
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
