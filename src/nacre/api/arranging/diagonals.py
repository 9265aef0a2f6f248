"""Diagonals, and matrices made of them and of blocks.  Names follow NumPy; `diag_embed` follows PyTorch."""

from __future__ import annotations

from typing import Any

from nacre.api.elementwise.apply import require
from nacre.api.elementwise.arithmetic import multiply
from nacre.api.elementwise.logic import bitwise_and
from nacre.api.linalg import products
from nacre.api.manipulation import concat, flatten, moveaxis
from nacre.api.operands import TensorLike, as_tensor, constant, filled, meet
from nacre.api.primitives import pointwise, view
from nacre.api.tensor import Tensor
from nacre.base.arguments import whole_number
from nacre.base.dtypes import ANY, bool_, int64
from nacre.base.errors import ArgumentError, ShapeError
from nacre.base.types import Shape, normal_axis

__all__ = ["block_diag", "diag", "diag_embed", "diagflat", "diagonal", "kron"]


def diagonal(x: TensorLike, /, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tensor:
    """The diagonals over two axes, as the last axis; those above the main ones for a positive offset.

    Raises ShapeError for equal axes.  `nacre.linalg.diagonal` takes the last two axes.

    >>> nc.diagonal([[1, 2], [3, 4]])
    Tensor([1, 4], i64[2])
    """
    return products.diagonal(_moved("diagonal", x, axis1, axis2), offset=offset)


def _moved(operation: str, x: TensorLike, axis1: int, axis2: int) -> Any:
    """x with two axes as its last ones."""
    held = as_tensor(x)
    rank = len(held.type.shape)
    axes = normal_axis(axis1, rank, operation), normal_axis(axis2, rank, operation)
    if axes[0] == axes[1]:
        raise ShapeError(f"{operation}: the two axes must differ; got {axis1} and {axis2} of shape {held.type.shape}")
    return moveaxis(held, axes, (-2, -1))


def diag(x: TensorLike, /, k: int = 0) -> Tensor:
    """The matrix with a vector on its k-th diagonal, and 0 elsewhere; or the k-th diagonal of a matrix.

    Raises ShapeError for other ranks.

    >>> nc.diag([1, 2])
    Tensor([[1, 0],
            [0, 2]], i64[2, 2])
    """
    held = as_tensor(x)
    require("diag", held.type.dtype, ANY)
    rank = len(held.type.shape)
    if rank not in (1, 2):
        raise ShapeError(f"diag: x must be a vector or a matrix; got {held.type}; use diagonal or diag_embed")
    return diag_embed(held, offset=k) if rank == 1 else products.diagonal(held, offset=k)


def diagflat(x: TensorLike, /, k: int = 0) -> Tensor:
    """The matrix with the elements of x, in row-major order, on its k-th diagonal, and 0 elsewhere.

    >>> nc.diagflat([[1], [2]])
    Tensor([[1, 0],
            [0, 2]], i64[2, 2])
    """
    return diag_embed(flatten(x), offset=k)


def diag_embed(x: TensorLike, /, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """Matrices with the last axis of x on a diagonal, and 0 elsewhere; their axes have the given places.

    Raises ShapeError for equal axes, and for an x without axes.

    >>> nc.diag_embed([[1, 2], [3, 4]]).shape
    (2, 2, 2)
    """
    held = as_tensor(x)
    require("diag_embed", held.type.dtype, ANY)
    shape, k = held.type.shape, whole_number(offset, "diag_embed", "offset")
    rank = len(shape) + 1
    if not shape:
        raise ShapeError("diag_embed: x must have at least one axis; got shape ()")
    axes = normal_axis(dim1, rank, "diag_embed"), normal_axis(dim2, rank, "diag_embed")
    if axes[0] == axes[1]:
        raise ShapeError(f"diag_embed: the two axes must differ; got {dim1} and {dim2}")
    square = (*shape, shape[-1])
    rows, columns = (pointwise.iota(square, rank - n, int64) for n in (2, 1))
    wide = view.broadcast(held, square, tuple(range(rank - 1)))
    made = pointwise.select(pointwise.eq(rows, columns), wide, filled(wide, 0))
    if k:
        low, high = [0] * rank, [0] * rank
        for margin, axis in ((low, -2 if k < 0 else -1), (high, -1 if k < 0 else -2)):
            margin[axis] = k if k > 0 else -k
        made = view.pad(made, constant(0, held.type.dtype), tuple(low), tuple(high), (0,) * rank)
    return moveaxis(made, (-2, -1), axes)


def block_diag(*xs: TensorLike) -> Tensor:
    """The matrix with matrices along its diagonal, and 0 elsewhere; numbers and vectors are rows.

    Raises ShapeError for more than two axes, ArgumentError for no matrices.

    >>> nc.block_diag([[1]], [[2, 3]])
    Tensor([[1, 0, 0],
            [0, 2, 3]], i64[2, 3])
    """
    if not xs:
        raise ArgumentError("block_diag: at least one matrix must be given; got none")
    met, dtype = meet("block_diag", xs)
    require("block_diag", dtype, ANY)
    blocks: list[Any] = []
    for x in met:
        if len(x.type.shape) > 2:
            raise ShapeError(f"block_diag: the blocks must have at most two axes; got {x.type}")
        blocks.append(view.reshape(x, (*(1,) * (2 - len(x.type.shape)), *x.type.shape)))
    before, behind = 0, 0
    for x in blocks:
        behind = behind + x.type.shape[1]
    rows: list[Any] = []
    for x in blocks:
        width = x.type.shape[1]
        behind = behind - width
        rows.append(view.pad(x, constant(0, dtype), (0, before), (0, behind), (0, 0)))
        before = before + width
    return concat(rows, axis=0)


def kron(x: TensorLike, y: TensorLike, /) -> Tensor:
    """The Kronecker product: blocks of y times the elements of x.  Of bools: whether both are true.

    >>> nc.kron([1, 10], [1, 2, 3])
    Tensor([ 1,  2,  3, 10, 20, 30], i64[6])
    """
    (a, b), dtype = meet("kron", (x, y))
    require("kron", dtype, ANY)
    rank = max(len(a.type.shape), len(b.type.shape))
    left, right = (_padded(v.type.shape, rank) for v in (a, b))
    spread_left = view.reshape(a, tuple(n for size in left for n in (size, 1)))
    spread_right = view.reshape(b, tuple(n for size in right for n in (1, size)))
    times: Any = bitwise_and if dtype is bool_ else multiply
    found: Any = times(spread_left, spread_right)
    return view.reshape(found, tuple(m * n for m, n in zip(left, right, strict=True)))


def _padded(shape: Shape, rank: int) -> Shape:
    return (*(1,) * (rank - len(shape)), *shape)
