"""`qr`: matrices as products of one with orthonormal columns and an upper triangle, by Householder reflections.

Matrices of at most `BLOCK` rows and columns are one kernel.  Of others, `PANEL` columns at a time become triangular.
Products of matrices apply their reflections to the other columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nacre.base.dtypes import int64
from nacre.base.errors import GradientError
from nacre.base.types import TensorType
from nacre.ir.primitive import Jvp, Nest, Primitive, register_rule
from nacre.kernel.ast import Alloc, Buffer, For, Index, Kernel, Let, Load, Local, Store, apply, const
from nacre.kernel.order_linalg import BLOCK, PANEL
from nacre.ops.linalg.householder import householder, reflect, reflection, scratch
from nacre.ops.linalg.matrices import (
    batch_of,
    block,
    conjugate_transpose,
    identity,
    matmul,
    matrix_sizes,
    matrix_transpose,
    one,
    over_batch,
    require_matrix,
    triangle,
    zero,
    zeros,
)
from nacre.ops.linalg.triangular import triangular_solve
from nacre.ops.parts import conjugate
from nacre.ops.pointwise import add, scale, sub
from nacre.ops.rules import BLOCKS
from nacre.ops.shape import front
from nacre.ops.view import concatenate
from nacre.trace.bind import bind
from nacre.trace.value import Value


def qr(a: Value, complete: bool = False) -> tuple[Value, Value]:
    """q [..., m, k] and r [..., k, n] for [..., m, n], where k is min(m, n), or m if `complete`."""
    return bind(qr_p, a, complete=complete)


def _type(a: TensorType, complete: bool) -> tuple[TensorType, TensorType]:
    require_matrix("qr", a)
    rows, columns = map(int, a.shape[-2:])
    kept = rows if complete else min(rows, columns)
    return a.with_shape((*a.shape[:-2], rows, kept)), a.with_shape((*a.shape[:-2], kept, columns))


def _kernel(types: Sequence[TensorType], results: Sequence[TensorType], complete: bool) -> Kernel:
    """All reflections, then their product from the last one to the first."""
    (a,), (q, r), batch, dtype = types, results, batch_of(types[0]), types[0].dtype
    least, kept = min(map(int, a.shape[-2:])), int(q.shape[-1])
    turn, j = Index("b"), Local("back", int64)
    i, c, p, d = Index("qi"), Index("qc"), Index("qp"), Index("qd")
    ones = apply("select", apply("eq", i, c), one(a), zero(a))
    place = (
        Let("back", apply("sub", const(least - 1), turn)),
        Let("scale", Load("taus", (j,), dtype)),
        *reflect("o", "u", a, j, kept, Local("scale", dtype), False),
    )
    e, f = Index("qe"), Index("qf")
    body = (
        *scratch(a),
        For("j", least, reflection(a)),
        Alloc(Buffer("u", dtype, (a.shape[-2], kept))),
        For("qi", a.shape[-2], (For("qc", kept, (Store("u", (i, c), ones),), vector=True),)),
        For("b", least, place),
        For(
            "qp", a.shape[-2], (For("qd", kept, (Store("q", (*batch, p, d), Load("u", (p, d), dtype)),), vector=True),)
        ),
        For(
            "qe", kept, (For("qf", a.shape[-1], (Store("r", (*batch, e, f), Load("x", (e, f), dtype)),), vector=True),)
        ),
    )
    outputs = Buffer("q", dtype, q.shape), Buffer("r", dtype, r.shape)
    return Kernel("qr", (Buffer("a", dtype, a.shape),), outputs, over_batch(a, body))


# ---- blocks


def _by_blocks(a: Value, complete: bool) -> tuple[Value, Value]:
    rows, columns = map(int, a.type.shape[-2:])
    if max(rows, columns) <= BLOCK:
        return qr(a, complete)
    least, rank = min(rows, columns), a.type.rank
    kept, panels = rows if complete else least, list[tuple[Value, Value]]()
    triangles: list[Value] = []
    for start in range(0, least, PANEL):
        width, rest = min(PANEL, least - start), columns - start
        v, t, r = householder(block(a, (0, rows - start), (0, width)))
        panels.append((v, t))
        row = [zeros(a.type, width, start), r] if start else [r]
        if rest > width:
            other = _reflected(v, conjugate_transpose(t), block(a, (0, rows - start), (width, rest)))
            row.append(block(other, (0, width), (0, rest - width)))
            a = block(other, (width, rows - start), (0, rest - width))
        triangles.append(concatenate(row, rank - 1))
    if kept > least:
        triangles.append(zeros(a.type, kept - least, columns))
    return _product(panels, rows, kept), concatenate(triangles, rank - 2)


def _reflected(v: Value, t: Value, x: Value) -> Value:
    """x - v @ t @ vᴴ @ x."""
    return sub(x, matmul(v, matmul(t, matmul(conjugate_transpose(v), x))))


def _product(panels: Sequence[tuple[Value, Value]], rows: int, kept: int) -> Value:
    """The first columns of the product of the reflections of all panels."""
    found: Value | None = None
    for k, (v, t) in reversed(list(enumerate(panels))):
        start, width, rank = k * PANEL, int(t.type.shape[-1]), v.type.rank
        whole = identity(v.type.with_shape((*v.type.shape[:-2], rows - start, kept - start)))
        if found is not None:
            above = block(whole, (0, width), (0, kept - start))
            below = concatenate((block(whole, (width, rows - start), (0, width)), found), rank - 1)
            whole = concatenate((above, below), rank - 2)
        found = _reflected(v, t, whole)
    assert found is not None
    return found


# ---- derivative and batches


def _tangents(ys: Sequence[Value], xs: Sequence[Value], ts: Sequence[Value], complete: bool) -> tuple[Value, Value]:
    """dq = q w + (da r⁻¹ - q qᴴ da r⁻¹) and dr = (qᴴ da r⁻¹ - w) r, where w is skew-Hermitian."""
    (q, r), (da,) = ys, ts
    rows, columns = map(int, da.type.shape[-2:])
    if complete and rows > columns:
        raise GradientError(
            "qr: the derivative exists for mode 'complete' only of matrices with no more rows than columns; got "
            f"{da.type}; use mode='reduced'"
        )
    least = min(rows, columns)
    square = block(r, (0, least), (0, least))
    first = block(da, (0, rows), (0, least))
    scaled = matrix_transpose(triangular_solve(matrix_transpose(square), matrix_transpose(first), True))
    inner = matmul(conjugate_transpose(q), scaled)
    lower = triangle(inner, True, strict=True)
    skew = sub(lower, conjugate_transpose(lower))
    if inner.type.dtype.is_complex:
        skew = add(skew, _phases(inner))
    dq = add(matmul(q, sub(skew, inner)), scaled)
    dr = triangle(matmul(sub(inner, skew), square), False)
    if columns > rows:
        other = block(da, (0, rows), (least, columns))
        turned = matmul(conjugate_transpose(dq), matmul(q, block(r, (0, least), (least, columns))))
        dr = concatenate((dr, add(turned, matmul(conjugate_transpose(q), other))), da.type.rank - 1)
    return dq, dr


def _phases(inner: Value) -> Value:
    """The imaginary parts on the diagonal: the diagonal of r stays real."""
    alone = triangle(triangle(inner, True), False)
    return scale(sub(alone, conjugate(alone)), 0.5)


def _batch(inputs: Sequence[Value], axes: Sequence[int], complete: bool) -> tuple[Any, tuple[int, int]]:
    return qr(front(inputs[0], axes[0]), complete), (0, 0)


qr_p = Primitive("qr", _type, Nest(_kernel), Jvp(_tangents), _batch, multiple=True, numbers=matrix_sizes)
register_rule(qr_p, BLOCKS, _by_blocks)
