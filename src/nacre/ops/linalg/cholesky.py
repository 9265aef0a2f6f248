"""`cholesky`: the lower triangle l with l @ lᴴ = a, for symmetric or Hermitian matrices that are positive definite.

Only the lower triangle of a is read.  The second result is the number of the first row, counted from 1, at which a
leading minor is not positive; it is 0 for a matrix that is positive definite.  The imaginary parts of the diagonal
count as 0, as in LAPACK.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from nacre.base.dtypes import int64
from nacre.base.types import TensorType
from nacre.ir.primitive import Jvp, Nest, Primitive, register_rule
from nacre.kernel.ast import (
    Alloc,
    Buffer,
    Const,
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
from nacre.kernel.order_linalg import BLOCK, split
from nacre.ops.linalg.matrices import (
    Range,
    batch_of,
    block,
    conjugate_transpose,
    conjugated,
    divided_by_real,
    first_fault,
    matmul,
    matrix_sizes,
    over_batch,
    real_part,
    require_square,
    scaled_diagonal,
    triangle,
    with_no_imaginary,
    zero,
    zeros,
)
from nacre.ops.linalg.triangular import solved_by_blocks, triangular_solve
from nacre.ops.pointwise import add, scale, sub
from nacre.ops.rules import BLOCKS
from nacre.ops.shape import front
from nacre.ops.view import concatenate
from nacre.trace.bind import bind
from nacre.trace.value import Value


def cholesky(a: Value) -> tuple[Value, Value]:
    """The triangle for [..., n, n], and the number of the first row at fault, [...]."""
    return bind(cholesky_p, a)


def _type(a: TensorType) -> tuple[TensorType, TensorType]:
    require_square("cholesky", a)
    return a, a.with_shape(a.shape[:-2]).with_dtype(int64)


def _kernel(types: Sequence[TensorType], results: Any) -> Kernel:
    """Row j of the scratch x has column j of the triangle, so that rows of the triangle are the lanes of vectors."""
    (a,), n = types, int(types[0].shape[-1])
    batch, dtype = batch_of(a), a.dtype
    j, i, p, r = (Index(name) for name in "jipr")
    total, fault, root = Load("s", (), dtype), Load("fault", (), int64), Local("root", dtype.real)
    step = Store("s", (), apply("fma", Load("factors", (p,), dtype), Load("x", (p, i), dtype), total))
    element: tuple[Stmt, ...] = (
        Alloc(Buffer("s", dtype, ())),
        Store("s", (), Load("a", (*batch, i, j), dtype)),
        For("p", n, (If(apply("lt", p, j), (step,)),)),
        Store("x", (j, i), total),
    )
    known = Index("k")
    square = real_part(Load("x", (j, j), dtype))
    wrong = apply("and", apply("eq", fault, const(0)), apply("not", apply("gt", square, Const(0, dtype.real))))
    below = divided_by_real(Load("x", (j, r), dtype), root)
    scaled = apply("select", apply("eq", r, j), with_no_imaginary(root, a), below)
    column: tuple[Stmt, ...] = (
        For("k", n, (Store("factors", (known,), apply("neg", conjugated(Load("x", (known, j), dtype)))),)),
        For("i", n, element, vector=True),
        If(wrong, (Store("fault", (), index_add(j, const(1))),)),
        Let("root", apply("sqrt", square)),
        For("r", n, (Store("x", (j, r), scaled),), vector=True),
    )
    body = (
        Alloc(Buffer("x", dtype, (n, n))),
        Alloc(Buffer("factors", dtype, (n,))),
        Alloc(Buffer("fault", int64, ())),
        Store("fault", (), const(0)),
        For("j", n, column),
        *_result(batch, a, n),
        Store("fault_of", batch, fault),
    )
    outputs = Buffer("y", dtype, a.shape), Buffer("fault_of", int64, a.shape[:-2])
    return Kernel("cholesky", (Buffer("a", dtype, a.shape),), outputs, over_batch(a, body))


def _result(batch: tuple[Index, ...], a: TensorType, n: int) -> tuple[Stmt, ...]:
    row, column = Index("u"), Index("v")
    found = apply("select", apply("le", column, row), Load("x", (column, row), a.dtype), zero(a))
    return (For("u", n, (For("v", n, (Store("y", (*batch, row, column), found),), vector=True),)),)


# ---- blocks


def _by_blocks(a: Value) -> tuple[Value, Value]:
    """The triangle, by blocks if it is larger than one."""
    return _divided(a.type, int(a.type.shape[-1]), lambda rows, columns: block(a, rows, columns))


def _divided(type: TensorType, n: int, part: Callable[[Range, Range], Value]) -> tuple[Value, Value]:
    """The triangle of n rows of a matrix, of which `part` computes blocks; those above the diagonal are not needed."""
    if n <= BLOCK:
        return cholesky(part((0, n), (0, n)))
    k, rank = split(n), type.rank
    first, fault = _divided(type, k, part)
    below = conjugate_transpose(solved_by_blocks(first, conjugate_transpose(part((k, n), (0, k))), True))

    def rest(rows: Range, columns: Range) -> Value:
        """A block of what remains of the matrix behind its first k rows and columns."""
        left, right = (block(below, each, (0, k)) for each in (rows, columns))
        held = part((rows[0] + k, rows[1] + k), (columns[0] + k, columns[1] + k))
        return sub(held, matmul(left, conjugate_transpose(right)))

    last, later = _divided(type, n - k, rest)
    above = concatenate((first, zeros(type, k, n - k)), rank - 1)
    return concatenate((above, concatenate((below, last), rank - 1)), rank - 2), first_fault(fault, later, k)


# ---- derivative and batches


def _tangents(ys: Sequence[Value], xs: Sequence[Value], ts: Sequence[Value]) -> tuple[Value, None]:
    """The derivative along the Hermitian part of the tangent (I. Murray, arXiv:1602.07527)."""
    lower, (t,) = ys[0], ts
    even = scale(add(t, conjugate_transpose(t)), 0.5)
    half = triangular_solve(lower, even, True)
    inner = conjugate_transpose(triangular_solve(lower, conjugate_transpose(half), True))
    return matmul(lower, scaled_diagonal(triangle(inner, True), 0.5)), None


def _batch(inputs: Sequence[Value], axes: Sequence[int]) -> tuple[tuple[Value, Value], tuple[int, int]]:
    return cholesky(front(inputs[0], axes[0])), (0, 0)


cholesky_p = Primitive("cholesky", _type, Nest(_kernel), Jvp(_tangents), _batch, multiple=True, numbers=matrix_sizes)
register_rule(cholesky_p, BLOCKS, _by_blocks)
