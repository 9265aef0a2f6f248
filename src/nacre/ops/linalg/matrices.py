"""Functions of matrices [..., m, n] that the families of linear algebra share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from nacre.base.dtypes import INEXACT, int64
from nacre.base.errors import DTypeError, ShapeError
from nacre.base.types import Shape, TensorType
from nacre.kernel.ast import Const, Expr, Index, Stmt, apply, const, number_of
from nacre.ops.dot import dot
from nacre.ops.parts import conjugate
from nacre.ops.pointwise import add, cast, eq, fill, full_like, ge, gt, iota, le, lt, mul, select, zeros_like
from nacre.ops.reduce import loops
from nacre.ops.rules import require_kind
from nacre.ops.shape import move, permute, reshape
from nacre.ops.view import slice_, slice_axis
from nacre.trace.value import Value

Range = tuple[int, int]


# ---- types


def require_matrix(operation: str, x: TensorType) -> None:
    """Require a floating-point or complex [..., m, n] whose m and n are numbers."""
    require_kind(operation, x, INEXACT)
    if x.dtype.is_widened:
        raise DTypeError(f"{operation}: the dtype must have at least 32 bits; got {x}; convert with `astype`")
    if x.rank < 2:
        raise ShapeError(f"{operation}: x must have at least 2 axes; got {x}; reshape it to [..., m, n]")
    for size in x.shape[-2:]:
        int(size)  # kernels are written for numbers of rows and columns; symbols get a variant for their numbers


def require_square(operation: str, x: TensorType) -> None:
    """Require a matrix of as many rows as columns."""
    require_matrix(operation, x)
    if x.shape[-1] != x.shape[-2]:
        raise ShapeError(f"{operation}: matrices must be square; got {x}")


def matrix_sizes(types: Sequence[TensorType], params: Any) -> Shape:
    """The sizes that kernels must have as numbers: rows and columns of the matrix, and columns of right-hand sides."""
    return (*types[0].shape[-2:], types[-1].shape[-1])


# ---- matrices


def matrix_transpose(x: Value) -> Value:
    """The last two axes exchanged."""
    return permute(x, (*range(x.type.rank - 2), x.type.rank - 1, x.type.rank - 2))


def conjugate_transpose(x: Value) -> Value:
    """The conjugate of the transpose."""
    return conjugate(matrix_transpose(x))


def matmul(a: Value, b: Value) -> Value:
    """The product of [..., m, k] and [..., k, n] with equal batch axes."""
    rank = a.type.rank
    batch = tuple(range(rank - 2))
    return dot(a, b, ((rank - 1,), (rank - 2,)), (batch, batch))


def block(x: Value, rows: Range, columns: Range) -> Value:
    """A block of rows and columns."""
    starts, stops = [0] * x.type.rank, list(x.type.shape)
    (starts[-2], stops[-2]), (starts[-1], stops[-1]) = rows, columns
    return slice_(x, starts, stops)


_COMPARED: Final = {(True, False): ge, (True, True): gt, (False, False): le, (False, True): lt}


def triangle(x: Value, lower: bool, strict: bool = False) -> Value:
    """The triangle on one side of the diagonal, which is zero itself if `strict`; zeros on the other side."""
    return select(_COMPARED[lower, strict](*_places(x.type)), x, zeros_like(x))


def zeros(x: TensorType, rows: int, columns: int) -> Value:
    """Zeros of the dtype and with the batch axes of a type."""
    return fill(0, (*x.shape[:-2], rows, columns), x.dtype)


def first_fault(first: Value, later: Value, before: int) -> Value:
    """The number of the first fault, or 0: in the first block, or in a later one, which `before` rows precede."""
    none = zeros_like(first)
    below = select(eq(later, none), none, add(later, full_like(later, before)))
    return select(eq(first, none), below, first)


def identity(x: TensorType) -> Value:
    """Ones on the diagonals of matrices of a type, zeros elsewhere."""
    return cast(eq(*_places(x)), x.dtype)


def _places(x: TensorType) -> tuple[Value, Value]:
    """The row and the column of each element."""
    return iota(x.shape, x.rank - 2, int64), iota(x.shape, x.rank - 1, int64)


def diagonal(x: Value) -> Value:
    """The diagonals of [..., m, n], as vectors."""
    rows, columns = map(int, x.type.shape[-2:])
    least, rank = min(rows, columns), x.type.rank - 1
    if not least:
        return fill(0, (*x.type.shape[:-2], 0), x.type.dtype)
    cut = block(x, (0, least), (0, columns))
    flat = reshape(cut, (*x.type.shape[:-2], least * columns))
    return slice_axis(flat, rank - 1, 0, (least - 1) * (columns + 1) + 1, columns + 1)


def scaled_diagonal(x: Value, factor: float) -> Value:
    """Matrices with their diagonals multiplied by a number."""
    return select(eq(*_places(x.type)), mul(x, fill(factor, x.type.shape, x.type.dtype)), x)


# ---- right-hand sides


def solved_as_columns(solve: Callable[[Value], Value], b: Value, axis: int) -> tuple[Value, int]:
    """The solutions for a batch along an axis of right-hand sides of one matrix, which become further columns."""
    moved = move(b, axis, 1)
    rows, count, columns = moved.type.shape
    return reshape(solve(reshape(moved, (rows, count * columns))), (rows, count, columns)), 1


# ---- kernels


def from_end(i: Expr, size: int) -> Expr:
    """The index counted from the last one of a number of elements."""
    return apply("sub", const(size - 1), i)


def batch_of(x: TensorType) -> tuple[Index, ...]:
    """The indices of the loops over the batch axes of matrices."""
    return tuple(Index(f"n{k}") for k in range(x.rank - 2))


FEW: Final = 16 * 16  # elements of a matrix of which several are computed at a time, as the lanes of vectors
MANY: Final = 16  # matrices along the last batch axis for that


def over_batch(x: TensorType, body: Sequence[Stmt]) -> tuple[Stmt, ...]:
    """The loops over the batch axes of matrices.  Small matrices of a large batch are the lanes of vectors."""
    sizes = x.shape[-3:]
    lanes = len(sizes) == 3 and all(isinstance(n, int) for n in sizes)
    lanes = lanes and sizes[0] >= MANY and sizes[1] * sizes[2] <= FEW
    return loops(batch_of(x), x.shape[:-2], body, lanes=lanes)


def conjugated(e: Expr) -> Expr:
    """The complex conjugate of an element, which is the element itself for real numbers."""
    return apply("conj", e) if e.dtype.is_complex else e


def real_part(e: Expr) -> Expr:
    """The real part of an element, which is the element itself for real numbers."""
    return apply("real", e) if e.dtype.is_complex else e


def sizes_of_parts(e: Expr) -> tuple[Expr, ...]:
    """The magnitudes of the parts of an element; real numbers have one part."""
    parts = tuple(apply(part, e) for part in ("real", "imag")) if e.dtype.is_complex else (e,)
    return tuple(apply("abs", part) for part in parts)


def with_no_imaginary(e: Expr, like: TensorType) -> Expr:
    """A real element as one of a type's dtype."""
    return apply("complex", e, Const(0.0, e.dtype)) if like.dtype.is_complex else e


def divided_by_real(e: Expr, divisor: Expr) -> Expr:
    """An element divided by a real number, by parts."""
    if not e.dtype.is_complex:
        return apply("div", e, divisor)
    return apply("complex", *(apply("div", apply(part, e), divisor) for part in ("real", "imag")))


def zero(x: TensorType) -> Expr:
    """Zero of a dtype."""
    return number_of(0, x.dtype)


def one(x: TensorType) -> Expr:
    """One of a dtype."""
    return number_of(1, x.dtype)
