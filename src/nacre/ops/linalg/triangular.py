"""`triangular_solve`: the solution x of a @ x = b, where only one triangle of a is read.

A compiler pass divides a triangle of more than `BLOCK` rows into blocks, in the order of `kernel.order_linalg`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nacre.base.types import TensorType
from nacre.ir.primitive import Jvp, Nest, Primitive, register_rule
from nacre.kernel.ast import (
    Alloc,
    Buffer,
    For,
    If,
    Index,
    Kernel,
    Let,
    Load,
    Local,
    Store,
    apply,
)
from nacre.kernel.order_linalg import BLOCK, split
from nacre.ops.linalg.matrices import (
    batch_of,
    block,
    from_end,
    matmul,
    matrix_sizes,
    matrix_transpose,
    require_square,
    solved_as_columns,
    triangle,
)
from nacre.ops.pointwise import neg, sub
from nacre.ops.reduce import loops
from nacre.ops.rules import BLOCKS, require_dtype, require_shape
from nacre.ops.shape import Source, all_to_front
from nacre.ops.view import concatenate
from nacre.trace.bind import bind
from nacre.trace.value import Value


def triangular_solve(a: Value, b: Value, lower: bool, unit: bool = False) -> Value:
    """x with a @ x = b, for [..., n, n] and [..., n, k].

    The other triangle is not read, nor the diagonal if it is ones (`unit`).
    """
    return bind(triangular_solve_p, a, b, lower=lower, unit=unit)


def _type(a: TensorType, b: TensorType, lower: bool, unit: bool) -> TensorType:
    require_square("triangular_solve", a)
    require_dtype("triangular_solve", "b", b, a.dtype)
    require_shape("triangular_solve", "b", b.shape[:-1], a.shape[:-1])
    int(b.shape[-1])
    return b


# ---- the kernel


def _kernel(types: Sequence[TensorType], results: Any, lower: bool, unit: bool) -> Kernel:
    """The elements of a column one after another; columns are the lanes of vectors."""
    a, b = types
    batch, rows = batch_of(a), int(b.shape[-2])
    i, j, p = Index("i"), Index("j"), Index("p")
    row, known = (i, p) if lower else (from_end(i, rows), from_end(p, rows))
    total = Load("s", (), b.dtype)
    factor = apply("neg", Load("a", (*batch, row, known), a.dtype))
    step = Store("s", (), apply("fma", factor, Load("x", (known,), b.dtype), total))
    element = (
        Store("s", (), Load("b", (*batch, row, j), b.dtype)),
        For("p", rows, (If(apply("lt", p, i), (step,)),)),
        Let("found", total if unit else apply("div", total, Load("a", (*batch, row, row), a.dtype))),
        Store("x", (row,), Local("found", b.dtype)),
        Store("y", (*batch, row, j), Local("found", b.dtype)),
    )
    body = (Alloc(Buffer("s", b.dtype, ())), Alloc(Buffer("x", b.dtype, (rows,))), For("i", rows, element))
    inputs = Buffer("a", a.dtype, a.shape), Buffer("b", b.dtype, b.shape)
    nest = loops((*batch, j), (*a.shape[:-2], b.shape[-1]), body)
    return Kernel("triangular_solve", inputs, (Buffer("y", b.dtype, b.shape),), nest)


# ---- blocks


def solved_by_blocks(a: Value, b: Value, lower: bool, unit: bool = False) -> Value:
    """The solution, by blocks if the triangle is larger than one."""
    n, rows = int(a.type.shape[-1]), b.type.rank - 2
    if n <= BLOCK:
        return triangular_solve(a, b, lower, unit)
    k, columns = split(n), (0, int(b.type.shape[-1]))
    known, later = ((0, k), (k, n)) if lower else ((k, n), (0, k))
    first = solved_by_blocks(block(a, known, known), block(b, known, columns), lower, unit)
    rest = sub(block(b, later, columns), matmul(block(a, later, known), first))
    second = solved_by_blocks(block(a, later, later), rest, lower, unit)
    return concatenate((first, second) if lower else (second, first), rows)


# ---- derivative and batches


def _tangent(x: Value, xs: Sequence[Value], ts: Sequence[Value | None], lower: bool, unit: bool) -> Value:
    a, (da, db) = xs[0], ts
    if da is None:
        assert db is not None
        return triangular_solve(a, db, lower, unit)
    change = matmul(triangle(da, lower, strict=unit), x)
    return triangular_solve(a, neg(change) if db is None else sub(db, change), lower, unit)


def _transpose(g: Value, a: Value, b: Source, lower: bool, unit: bool) -> Value:
    return triangular_solve(matrix_transpose(a), g, not lower, unit)


def _batch(inputs: Sequence[Value], axes: Sequence[int | None], lower: bool, unit: bool) -> tuple[Value, int]:
    """Right-hand sides of one triangle become further columns."""
    a, b = inputs
    if axes[0] is not None or b.type.rank != 3:
        a, b = all_to_front(inputs, axes)
        return triangular_solve(a, b, lower, unit), 0
    assert axes[1] is not None
    return solved_as_columns(lambda b: triangular_solve(a, b, lower, unit), b, axes[1])


triangular_solve_p = Primitive(
    "triangular_solve", _type, Nest(_kernel), Jvp(_tangent, transposes=(None, _transpose)), _batch, numbers=matrix_sizes
)
register_rule(triangular_solve_p, BLOCKS, solved_by_blocks)
