"""`householder`: the reflections that make matrices of few columns triangular, in compact form.

The product of all reflections is 1 - v @ t @ vᴴ (Schreiber and Van Loan, 1989).  A reflection is 1 - τ v vᴴ, where v is
1 on the diagonal and 0 above it; τ is 0 for a column that is zero below the diagonal.

Of complex matrices the diagonal of r is real, and its sign is opposite to that of the real part it replaces, as in
LAPACK.  So τ is complex, and the conjugate reflections, 1 - τ* v vᴴ, make a column triangular.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from functools import reduce as fold
from typing import Any

from nacre.base.types import TensorType
from nacre.ir.primitive import Nest, Primitive
from nacre.kernel.ast import (
    Accumulate,
    Alloc,
    Buffer,
    Const,
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
from nacre.ops.linalg.matrices import (
    batch_of,
    conjugated,
    divided_by_real,
    matrix_sizes,
    one,
    real_part,
    require_matrix,
    sizes_of_parts,
    with_no_imaginary,
    zero,
)
from nacre.ops.reduce import loops
from nacre.ops.rules import without_derivative
from nacre.ops.shape import front
from nacre.trace.bind import bind
from nacre.trace.value import Value


def householder(a: Value) -> tuple[Value, Value, Value]:
    """v [..., m, k], t [..., k, k] and the triangle r [..., k, n], for [..., m, n] and k = min(m, n)."""
    return bind(householder_p, a)


def _type(a: TensorType) -> tuple[TensorType, ...]:
    require_matrix("householder", a)
    rows, columns = a.shape[-2:]
    least, batch = min(int(rows), int(columns)), a.shape[:-2]
    return tuple(a.with_shape((*batch, *shape)) for shape in ((rows, least), (least, least), (least, columns)))


def _kernel(types: Sequence[TensorType], results: Sequence[TensorType]) -> Kernel:
    (a,), batch, dtype = types, batch_of(types[0]), types[0].dtype
    least, names = int(results[1].shape[-1]), ("v_of", "t_of", "r_of")
    j, i, p, c = Index("j"), Index("gi"), Index("gp"), Index("gc")
    stored = Store("v_of", (*batch, i, j), Load("v", (j, i), dtype))
    row = Store("r_of", (*batch, p, c), Load("x", (p, c), dtype))
    body = (
        *scratch(a),
        For("j", least, (*reflection(a), For("gi", a.shape[-2], (stored,)), *_compact_form(batch, a, least))),
        For("gp", least, (For("gc", a.shape[-1], (row,), vector=True),)),
    )
    outputs = tuple(Buffer(name, dtype, t.shape) for name, t in zip(names, results, strict=True))
    return Kernel("householder", (Buffer("a", dtype, a.shape),), outputs, loops(batch, a.shape[:-2], body, lanes=False))


# ---- parts of kernels


def scratch(a: TensorType) -> tuple[Stmt, ...]:
    """Scratch memory: x is a copy of the matrix, row j of v has reflection j, with τ in `taus`; w is a row."""
    rows, columns = map(int, a.shape[-2:])
    least, i, c = min(rows, columns), Index("si"), Index("sc")
    copied = Store("x", (i, c), Load("a", (*batch_of(a), i, c), a.dtype))
    return (
        Alloc(Buffer("x", a.dtype, (rows, columns))),
        Alloc(Buffer("v", a.dtype, (least, rows))),
        Alloc(Buffer("taus", a.dtype, (least,))),
        Alloc(Buffer("w", a.dtype, (max(rows, columns),))),
        For("si", rows, (For("sc", columns, (copied,), vector=True),)),
    )


def reflection(a: TensorType) -> tuple[Stmt, ...]:
    """Find reflection j and apply it to the columns of x from j on."""
    dtype, j, i = a.dtype, Index("j"), Index("ri")
    alpha, beta, tau = Local("alpha", dtype), Local("beta", dtype.real), Local("tau", dtype)
    vector = apply("div", Load("x", (i, j), dtype), apply("sub", alpha, with_no_imaginary(beta, a)))
    vector = apply("select", is_triangular(a), zero(a), vector)
    vector = apply("select", apply("eq", i, j), one(a), vector)
    vector = apply("select", apply("lt", i, j), zero(a), vector)
    found = divided_by_real(apply("sub", with_no_imaginary(beta, a), alpha), beta)
    opposite = apply("neg", apply("copysign", Local("norm", dtype.real), real_part(alpha)))
    return (
        *_norm(a),
        Let("beta", apply("select", is_triangular(a), real_part(alpha), opposite)),
        Let("tau", apply("select", is_triangular(a), zero(a), found)),
        Store("taus", (j,), tau),
        For("ri", a.shape[-2], (Store("v", (j, i), vector),)),
        *reflect("a", "x", a, j, a.shape[-1], conjugated(tau), True),
        For("rz", a.shape[-2], (If(apply("gt", Index("rz"), j), (Store("x", (Index("rz"), j), zero(a)),)),)),
        Store("x", (j, j), with_no_imaginary(beta, a)),
    )


def is_triangular(a: TensorType) -> Expr:
    """Whether column j is zero below the diagonal, and real on it.  The greatest magnitude of no elements is -inf."""
    none = Const(0, a.dtype.real)
    found = apply("le", Load("rest", (), a.dtype.real), none)
    if not a.dtype.is_complex:
        return found
    return apply("and", found, apply("eq", apply("imag", Local("alpha", a.dtype)), none))


def _norm(a: TensorType) -> tuple[Stmt, ...]:
    """`alpha`, the element on the diagonal, `rest`, the greatest magnitude below it, and `norm` of both together."""
    dtype, j, i, k = a.dtype.real, Index("j"), Index("ni"), Index("nk")
    alpha, great, total = Local("alpha", a.dtype), Local("great", dtype), Load("squares", (), dtype)
    size = _greatest_part(Load("x", (i, j), a.dtype))
    parts = [apply("div", part, great) for part in sizes_of_parts(Load("x", (k, j), a.dtype))]
    squared = Store("squares", (), fold(_with_square, parts, total))
    return (
        Let("alpha", Load("x", (j, j), a.dtype)),
        Alloc(Buffer("rest", dtype, ())),
        For("ni", a.shape[-2], (If(apply("gt", i, j), (Accumulate("max", ("rest",), (size,)),)),)),
        Let("great", apply("maximum", Load("rest", (), dtype), _greatest_part(alpha))),
        Alloc(Buffer("squares", dtype, ())),
        Store("squares", (), Const(0, dtype)),
        For("nk", a.shape[-2], (If(apply("ge", k, j), (squared,)),)),
        Let("norm", apply("mul", great, apply("sqrt", total))),
    )


def _with_square(total: Expr, part: Expr) -> Expr:
    return apply("fma", part, part, total)


def _greatest_part(e: Expr) -> Expr:
    return fold(partial(apply, "maximum"), sizes_of_parts(e))


def reflect(name: str, to: str, a: TensorType, j: Expr, columns: Any, tau: Expr, later: bool) -> tuple[Stmt, ...]:
    """Apply reflection j to the matrix `to`; only to its columns from j on if `later`."""
    dtype, i, c, r, k = a.dtype, *(Index(name + letter) for letter in ("i", "c", "r", "k"))
    total = Load("sum" + name, (), dtype)
    factor = conjugated(Load("v", (j, i), dtype))
    product = Store(total.buffer, (), apply("fma", factor, Load(to, (i, c), dtype), total))
    summed = (
        Alloc(Buffer(total.buffer, dtype, ())),
        Store(total.buffer, (), zero(a)),
        For(i.name, a.shape[-2], (If(apply("ge", i, j), (product,)),)),
        Store("w", (c,), apply("mul", tau, total)),
    )
    old = Load(to, (r, k), dtype)
    new = apply("fma", apply("neg", Local("factor" + name, dtype)), Load("w", (k,), dtype), old)
    changed = apply("select", apply("ge", k, j), new, old) if later else new
    row = (
        Let("factor" + name, Load("v", (j, r), dtype)),
        For(k.name, columns, (Store(to, (r, k), changed),), vector=True),
    )
    return (
        For(c.name, columns, summed, vector=True),
        For(r.name, a.shape[-2], (If(apply("ge", r, j), row),)),
    )


def _compact_form(batch: tuple[Index, ...], a: TensorType, least: int) -> tuple[Stmt, ...]:
    """Column j of t: -τ · t · (vᴴ vⱼ) above the diagonal, τ on it, and zeros below."""
    dtype, j, p, i, q, r = a.dtype, Index("j"), Index("tp"), Index("ti"), Index("tq"), Index("tr")
    inner, outer, tau = Load("inner", (), dtype), Load("outer", (), dtype), Local("tau", dtype)
    product = apply("fma", conjugated(Load("v", (p, i), dtype)), Load("v", (j, i), dtype), inner)
    known = apply("fma", Load("t_of", (*batch, q, r), dtype), Load("w", (r,), dtype), outer)
    within = apply("and", apply("ge", r, q), apply("lt", r, j))
    above = apply("select", apply("eq", q, j), tau, apply("neg", apply("mul", tau, outer)))
    return (
        For(
            "tp",
            least,
            (
                Alloc(Buffer("inner", dtype, ())),
                Store("inner", (), zero(a)),
                If(apply("lt", p, j), (For("ti", a.shape[-2], (Store("inner", (), product),)),)),
                Store("w", (p,), inner),
            ),
        ),
        For(
            "tq",
            least,
            (
                Alloc(Buffer("outer", dtype, ())),
                Store("outer", (), zero(a)),
                For("tr", least, (If(within, (Store("outer", (), known),)),)),
                Store("t_of", (*batch, q, j), apply("select", apply("gt", q, j), zero(a), above)),
            ),
        ),
    )


def _batch(inputs: Sequence[Value], axes: Sequence[int]) -> tuple[Any, tuple[int, int, int]]:
    return householder(front(inputs[0], axes[0])), (0, 0, 0)


householder_p = Primitive(
    "householder",
    _type,
    Nest(_kernel),
    without_derivative("householder", "reflections are a step of qr", "differentiate qr"),
    _batch,
    multiple=True,
    numbers=matrix_sizes,
)
