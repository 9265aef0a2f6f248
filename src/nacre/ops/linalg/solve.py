"""`lu_solve`: the solution of a @ x = b, given the LU factors of a.

The factors are constants for derivatives: they make the solution of every order cheap, and a alone has a tangent.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nacre.base.dtypes import int64
from nacre.base.types import TensorType
from nacre.ir.primitive import Jvp, Nest, Primitive, register_rule
from nacre.kernel.ast import (
    Alloc,
    Buffer,
    Expr,
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
)
from nacre.kernel.order_linalg import BLOCK
from nacre.ops.identity import detach
from nacre.ops.linalg.lu import LU, lu
from nacre.ops.linalg.matrices import (
    batch_of,
    from_end,
    matmul,
    matrix_sizes,
    matrix_transpose,
    require_square,
    solved_as_columns,
)
from nacre.ops.linalg.rows import permute_rows
from nacre.ops.linalg.triangular import solved_by_blocks
from nacre.ops.pointwise import neg, sub
from nacre.ops.reduce import loops
from nacre.ops.rules import BLOCKS, require_dtype, require_shape
from nacre.ops.shape import Source, all_to_front
from nacre.trace.bind import bind
from nacre.trace.value import Value


def constant_factors(a: Value) -> LU:
    """The LU factors of matrices, without derivative, for `lu_solve`."""
    return LU(*map(detach, lu(detach(a))))


def lu_solve(a: Value, found: LU, b: Value) -> Value:
    """x with a @ x = b, for [..., n, n] with these factors and [..., n, k]."""
    return solve_factored(a, found.factors, found.order, b, False)


def solve_factored(a: Value, factors: Value, order: Value, b: Value, transposed: bool) -> Value:
    """x with a @ x = b, or with the transpose of a."""
    return bind(lu_solve_p, a, factors, order, b, transposed=transposed)


def _type(a: TensorType, factors: TensorType, order: TensorType, b: TensorType, transposed: bool) -> TensorType:
    require_square("lu_solve", a)
    require_dtype("lu_solve", "the factors", factors, a.dtype)
    require_shape("lu_solve", "the factors", factors.shape, a.shape)
    require_dtype("lu_solve", "the order", order, int64)
    require_shape("lu_solve", "the order", order.shape, a.shape[:-1])
    require_dtype("lu_solve", "b", b, a.dtype)
    require_shape("lu_solve", "b", b.shape[:-1], a.shape[:-1])
    int(b.shape[-1])
    return b


# ---- the kernel


def _kernel(types: Sequence[TensorType], results: Any, transposed: bool) -> Kernel:
    """Both triangles are solved for a column of b in scratch memory; columns are the lanes of vectors."""
    a, _, _, b = types
    batch, j, i, k = batch_of(a), Index("j"), Index("i"), Index("k")
    rows = b.shape[-2]
    there = Load("order", (*batch, i), int64)
    begin = Load("b", (*batch, i if transposed else there, j), b.dtype)
    end = Load("order", (*batch, k), int64) if transposed else k
    body = (
        Alloc(Buffer("x", b.dtype, (rows,))),
        Alloc(Buffer("s", b.dtype, ())),
        For("i", rows, (Store("x", (i,), begin),)),
        _sweep("f", batch, b, True, not transposed, transposed),
        _sweep("g", batch, b, False, transposed, transposed),
        For("k", rows, (Store("y", (*batch, end, j), Load("x", (k,), b.dtype)),)),
    )
    inputs = tuple(Buffer(n, t.dtype, t.shape) for n, t in zip(("a", "factors", "order", "b"), types, strict=True))
    nest = loops((*batch, j), (*b.shape[:-2], b.shape[-1]), body)
    return Kernel("lu_solve", inputs, (Buffer("y", b.dtype, b.shape),), nest)


def _sweep(name: str, batch: tuple[Index, ...], b: TensorType, lower: bool, unit: bool, transposed: bool) -> Stmt:
    """Solve one triangle for the scratch x."""
    size, i, p, total = int(b.shape[-2]), Index(name), Index(name + "p"), Load("s", (), b.dtype)

    def at(k: Expr) -> Expr:
        """A row by its turn."""
        return k if lower else from_end(k, size)

    def factor(row: Expr, column: Expr) -> Expr:
        """An element of the triangle."""
        if transposed:
            return Load("factors", (*batch, column, row), b.dtype)
        return Load("factors", (*batch, row, column), b.dtype)

    step = apply("fma", apply("neg", factor(at(i), at(p))), Load("x", (at(p),), b.dtype), total)
    found, local = total if unit else apply("div", total, factor(at(i), at(i))), Local(name + "x", b.dtype)
    element = (
        Store("s", (), Load("x", (at(i),), b.dtype)),
        For(p.name, size, (If(apply("lt", p, i), (Store("s", (), step),)),)),
        Let(local.name, found),
        Store("x", (at(i),), local),
    )
    return For(i.name, size, element)


# ---- blocks, derivative and batches


def _by_blocks(a: Value, factors: Value, order: Value, b: Value, transposed: bool) -> Value:
    if int(a.type.shape[-1]) <= BLOCK:
        return solve_factored(a, factors, order, b, transposed)
    if transposed:
        turned = matrix_transpose(factors)
        half = solved_by_blocks(turned, b, True)
        return permute_rows(solved_by_blocks(turned, half, False, True), order, True)
    return solved_by_blocks(factors, solved_by_blocks(factors, permute_rows(b, order), True, True), False)


def _tangent(x: Value, xs: Sequence[Value], ts: Sequence[Value | None], transposed: bool) -> Value:
    a, factors, order, _ = xs
    da, _, _, db = ts
    if da is None:
        assert db is not None
        return solve_factored(a, factors, order, db, transposed)
    change = matmul(matrix_transpose(da) if transposed else da, x)
    return solve_factored(a, factors, order, neg(change) if db is None else sub(db, change), transposed)


def _transpose(g: Value, a: Value, factors: Value, order: Value, b: Source, transposed: bool) -> Value:
    return solve_factored(a, factors, order, g, not transposed)


def _batch(inputs: Sequence[Value], axes: Sequence[int | None], transposed: bool) -> tuple[Value, int]:
    """Right-hand sides of one matrix become further columns."""
    a, factors, order, b = inputs
    if any(axis is not None for axis in axes[:3]) or b.type.rank != 3:
        a, factors, order, b = all_to_front(inputs, axes)
        return solve_factored(a, factors, order, b, transposed), 0
    assert axes[3] is not None
    return solved_as_columns(lambda b: solve_factored(a, factors, order, b, transposed), b, axes[3])


lu_solve_p = Primitive(
    "lu_solve",
    _type,
    Nest(_kernel),
    Jvp(_tangent, transposes=(None, None, None, _transpose)),
    _batch,
    numbers=matrix_sizes,
)
register_rule(lu_solve_p, BLOCKS, _by_blocks)
