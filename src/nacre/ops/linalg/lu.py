"""`lu`: factors of matrices by Gaussian elimination with partial pivoting, and the number of exchanged rows.

The factors l, below a diagonal of ones, and u share one matrix.  The order has the row of a that is in each row of
l @ u.  The pivot is the element with the greatest magnitude, the first one of equals.  The
magnitude of a complex number is |re| + |im| here, as in LAPACK.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from functools import reduce as fold
from typing import Any, NamedTuple

from nacre.base.dtypes import int64
from nacre.base.types import TensorType
from nacre.ir.primitive import Jvp, Nest, Primitive, register_rule
from nacre.kernel.ast import (
    Accumulate,
    Alloc,
    Buffer,
    For,
    If,
    Index,
    Kernel,
    Let,
    Load,
    Local,
    Stmt,
    Store,
    apply,
    const,
    index_add,
)
from nacre.kernel.order_linalg import PANEL, is_lu_block, split
from nacre.ops.linalg.matrices import (
    batch_of,
    block,
    identity,
    matmul,
    matrix_sizes,
    matrix_transpose,
    over_batch,
    require_matrix,
    sizes_of_parts,
    triangle,
    zero,
    zeros,
)
from nacre.ops.linalg.rows import permute_rows
from nacre.ops.linalg.triangular import solved_by_blocks, triangular_solve
from nacre.ops.pointwise import add, sub
from nacre.ops.rules import BLOCKS
from nacre.ops.shape import front, reshape
from nacre.ops.view import concatenate, slice_axis
from nacre.trace.bind import bind
from nacre.trace.value import Value


class LU(NamedTuple):
    """Both factors in one matrix, the rows of a in their order, and the number of exchanges."""

    factors: Value
    order: Value
    exchanges: Value


def lu(a: Value) -> LU:
    """The factors of [..., m, n], the order [..., m], and the number of exchanges [...]."""
    return LU(*bind(lu_p, a))


def _type(a: TensorType) -> tuple[TensorType, ...]:
    require_matrix("lu", a)
    whole = a.with_dtype(int64)
    return a, whole.with_shape(a.shape[:-1]), whole.with_shape(a.shape[:-2])


# ---- the kernel


def _kernel(types: Sequence[TensorType], results: Any) -> Kernel:
    """Row c of the scratch x has column c, so that rows of the matrix are the lanes of vectors."""
    (a,), (rows, columns) = types, map(int, types[0].shape[-2:])
    batch, dtype = batch_of(a), a.dtype
    i, c, r, e, s = (Index(name) for name in "icres")
    copied = Store("x", (c, i), Load("a", (*batch, i, c), dtype))
    numbered = Store("order", (*batch, r), r)
    result = Store("y", (*batch, s, e), Load("x", (e, s), dtype))
    body = (
        Alloc(Buffer("x", dtype, (columns, rows))),
        Alloc(Buffer("factors", dtype, (rows,))),
        Alloc(Buffer("count", int64, ())),
        Store("count", (), const(0)),
        For("c", columns, (For("i", rows, (copied,), vector=True),)),
        For("r", rows, (numbered,)),
        For("j", min(rows, columns), (*_pivot(a), *_exchange(batch, a), *_eliminate(a))),
        For("s", rows, (For("e", columns, (result,), vector=True),)),
        Store("exchanges", batch, Load("count", (), int64)),
    )
    outputs = (
        Buffer("y", dtype, a.shape),
        Buffer("order", int64, a.shape[:-1]),
        Buffer("exchanges", int64, a.shape[:-2]),
    )
    return Kernel("lu", (Buffer("a", dtype, a.shape),), outputs, over_batch(a, body))


def _pivot(a: TensorType) -> tuple[Stmt, ...]:
    """Find the greatest magnitude of column j from row j on."""
    j, i = Index("j"), Index("pi")
    size = fold(partial(apply, "add"), sizes_of_parts(Load("x", (j, i), a.dtype)))
    found = Accumulate("argmax", ("best", "at"), (size, i))
    return (
        Alloc(Buffer("best", size.dtype, ())),
        Alloc(Buffer("at", int64, ())),
        For("pi", a.shape[-2], (If(apply("ge", i, j), (found,)),), vector=True),
        Let("pivot", Load("at", (), int64)),
    )


def _exchange(batch: tuple[Index, ...], a: TensorType) -> tuple[Stmt, ...]:
    j, pivot, c, count = Index("j"), Local("pivot", int64), Index("xc"), Load("count", (), int64)
    columns = (
        Let("upper", Load("x", (c, j), a.dtype)),
        Store("x", (c, j), Load("x", (c, pivot), a.dtype)),
        Store("x", (c, pivot), Local("upper", a.dtype)),
    )
    exchanged = (
        Let("first", Load("order", (*batch, j), int64)),
        Store("order", (*batch, j), Load("order", (*batch, pivot), int64)),
        Store("order", (*batch, pivot), Local("first", int64)),
        Store("count", (), index_add(count, const(1))),
        For("xc", a.shape[-1], columns),
    )
    return (If(apply("ne", pivot, j), exchanged),)


def _eliminate(a: TensorType) -> tuple[Stmt, ...]:
    """Subtract multiples of row j from the rows below.  A pivot of zero has a column of zeros below it."""
    j, i, c, r, dtype = Index("j"), Index("ei"), Index("ec"), Index("er"), a.dtype
    below, top = Load("x", (j, i), dtype), Local("top", dtype)
    divided = apply("select", apply("eq", top, zero(a)), below, apply("div", below, top))
    old, factor = Load("x", (c, r), dtype), Load("factors", (r,), dtype)
    changed = apply("fma", apply("neg", factor), Local("across", dtype), old)
    column = (
        Let("across", Load("x", (c, j), dtype)),
        For("er", a.shape[-2], (Store("x", (c, r), apply("select", apply("gt", r, j), changed, old)),), vector=True),
    )
    return (
        Let("top", Load("x", (j, j), dtype)),
        For(
            "ei",
            a.shape[-2],
            (
                Let("below", apply("select", apply("gt", i, j), divided, below)),
                Store("factors", (i,), Local("below", dtype)),
                Store("x", (j, i), Local("below", dtype)),
            ),
            vector=True,
        ),
        For("ec", a.shape[-1], (If(apply("gt", c, j), column),)),
    )


# ---- blocks


def _permuted(order: Value, by: Value) -> Value:
    """An order of some rows of another order."""
    column = (*order.type.shape, 1)
    return reshape(permute_rows(reshape(order, column), by), order.type.shape)


def _by_blocks(a: Value) -> LU:
    """The factors, by blocks of columns if there are more than one."""
    rows, columns = map(int, a.type.shape[-2:])
    if is_lu_block(rows, columns):
        return lu(a)
    k, rank = split(min(rows, columns), PANEL), a.type.rank
    left = _by_blocks(block(a, (0, rows), (0, k)))
    right = permute_rows(block(a, (0, rows), (k, columns)), left.order)
    above = solved_by_blocks(block(left.factors, (0, k), (0, k)), block(right, (0, k), (0, columns - k)), True, True)
    below = block(left.factors, (k, rows), (0, k))
    last = _by_blocks(sub(block(right, (k, rows), (0, columns - k)), matmul(below, above)))
    first = slice_axis(left.order, rank - 2, 0, k)
    later = _permuted(slice_axis(left.order, rank - 2, k, rows), last.order)
    upper = concatenate((block(left.factors, (0, k), (0, k)), above), rank - 1)
    lower = concatenate((permute_rows(below, last.order), last.factors), rank - 1)
    return LU(
        concatenate((upper, lower), rank - 2),
        concatenate((first, later), rank - 2),
        add(left.exchanges, last.exchanges),
    )


# ---- derivative and batches


def lower_factor(factors: Value) -> Value:
    """The square l of [m, n] factors, with a diagonal of ones."""
    rows, columns = map(int, factors.type.shape[-2:])
    found = triangle(factors, True, strict=True)
    if rows <= columns:
        found = block(found, (0, rows), (0, rows))
    else:
        found = concatenate((found, zeros(factors.type, rows, rows - columns)), factors.type.rank - 1)
    return add(found, identity(found.type))


def _upper_factor(factors: Value) -> Value:
    """The square u of [m, n] factors, with ones on the diagonal of the rows that the factors lack."""
    rows, columns = map(int, factors.type.shape[-2:])
    found = triangle(factors, False)
    if rows >= columns:
        return block(found, (0, columns), (0, columns))
    more = zeros(factors.type, columns - rows, columns)
    ones = block(
        identity(factors.type.with_shape((*factors.type.shape[:-2], columns, columns))), (rows, columns), (0, columns)
    )
    return concatenate((found, add(more, ones)), factors.type.rank - 2)


def _tangents(ys: Sequence[Value], xs: Sequence[Value], ts: Sequence[Value]) -> tuple[Value | None, ...]:
    """l · tril(l⁻¹ da u⁻¹) + triu(l⁻¹ da u⁻¹) · u, the tangents of both factors in one matrix."""
    factors, order, _ = ys
    lower, upper = lower_factor(factors), _upper_factor(factors)
    half = triangular_solve(lower, permute_rows(ts[0], order), True, True)
    inner = matrix_transpose(triangular_solve(matrix_transpose(upper), matrix_transpose(half), True))
    of_lower, of_upper = triangle(inner, True, strict=True), triangle(inner, False)
    return add(matmul(lower, of_lower), matmul(of_upper, upper)), None, None


def _batch(inputs: Sequence[Value], axes: Sequence[int]) -> tuple[LU, tuple[int, int, int]]:
    return lu(front(inputs[0], axes[0])), (0, 0, 0)


lu_p = Primitive("lu", _type, Nest(_kernel), Jvp(_tangents), _batch, multiple=True, numbers=matrix_sizes)
register_rule(lu_p, BLOCKS, _by_blocks)
