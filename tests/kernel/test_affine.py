"""Affine index expressions: every form has the value of its expression."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from nacre.base.dims import Dim, Size, evaluate
from nacre.base.dtypes import int64
from nacre.kernel.affine import Affine, Scope, affine, offset
from nacre.kernel.ast import Apply, Buffer, Const, Expr, Extent, Index, Local, const, index_add, index_mul
from nacre.kernel.interpret import operate

S = Dim.symbol("S", 1)
EXTENTS: dict[str, Size] = {"i": 5, "j": 8, "k": S}
SCOPE = Scope(EXTENTS, {"t": index_add(Index("i"), const(2))})
leaves = st.sampled_from(
    (
        Index("i"),
        Index("j"),
        Index("k"),
        Local("t", int64),
        const(0),
        const(1),
        const(3),
        const(8),
        Extent(S),
        Extent(2 * S),
    )
)


def compound(inner: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
    two = st.tuples(st.sampled_from(("add", "sub", "mul", "idiv", "rem")), inner, inner)
    return two.map(lambda t: Apply(t[0], (t[1], t[2]), int64))


expressions = st.recursive(leaves, compound, max_leaves=8)


def value_of(e: Expr, indices: dict[str, int], s: int) -> int:
    match e:
        case Const():
            return int(e.value)
        case Index():
            return indices[e.name]
        case Extent():
            return evaluate(e.size, {"S": s})
        case Local():
            return value_of(SCOPE.lets[e.name], indices, s)
        case Apply():
            args = [np.array([value_of(a, indices, s)], np.int64) for a in e.args]
            return int(operate(e.op, args, int64, int64)[0])
    raise AssertionError(e)


def form_value(form: Affine, indices: dict[str, int], s: int) -> int:
    terms = (value_of(a, indices, s) * evaluate(c, {"S": s}) for a, c in form.terms)
    return evaluate(form.constant, {"S": s}) + sum(terms)


@given(expressions, st.integers(0, 4), st.integers(0, 7), st.integers(1, 6), st.data())
def test_forms_have_the_value_of_the_expression(e: Expr, i: int, j: int, s: int, data: st.DataObject) -> None:
    indices = {"i": i, "j": j, "k": data.draw(st.integers(0, s - 1))}
    assert form_value(affine(e, SCOPE), indices, s) == value_of(e, indices, s)


def test_quotients_and_remainders_are_split() -> None:
    for width, inner in ((const(8), "j"), (Extent(S), "k")):
        flat = index_add(index_mul(Index("i"), width), Index(inner))
        assert affine(Apply("idiv", (flat, width), int64), SCOPE) == Affine(((Index("i"), 1),), 0)
        assert affine(Apply("rem", (flat, width), int64), SCOPE) == Affine(((Index(inner), 1),), 0)
    alone = Apply("idiv", (Index("j"), const(3)), int64)
    assert affine(alone, SCOPE) == Affine(((alone, 1),), 0)


def test_offsets() -> None:
    b = Buffer("b", int64, (4, S))
    form = offset(b, (Index("i"), Index("k")), SCOPE)
    assert form.coefficient("i") == S and form.coefficient("k") == 1 and form.coefficient("j") == 0
