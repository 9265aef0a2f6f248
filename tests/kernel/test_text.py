"""Kernel text: printing, parsing, and round trips."""

from __future__ import annotations

import math
import textwrap

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.marks import marked
from kernel.sample import Chance, M, N, softmax
from nacre.base.dims import Dim
from nacre.base.dtypes import bool_, float32, int32, int64
from nacre.base.errors import GraphError
from nacre.kernel.ast import Alloc, Buffer, Const, Extent, For, If, Index, Kernel, Let, Load, Stmt, Store, While
from nacre.kernel.ast import apply as op
from nacre.kernel.text import parse, show


def test_the_text_of_softmax() -> None:
    assert show(marked(softmax())) == textwrap.dedent("""\
        kernel softmax(x: f32[N, M]) -> (y: f32[N, M]):
          where N in 0..4096
          parallel for i in N:
            alloc m: f32[]
            vector for j in M:
              accumulate max m <- x[i, j]
            alloc s: f32[]
            vector for j in M:
              let e = exp(sub(x[i, j], m[]))
              y[i, j] = e
              accumulate sum s <- e
            vector for j in M:
              y[i, j] = div(y[i, j], s[])
        """)


@given(st.integers(0, 10_000))
def test_round_trip(seed: int) -> None:
    kernel = Chance(seed).kernel()
    for k in (kernel, marked(kernel)):
        assert parse(show(k)) == k
        assert show(parse(show(k))) == show(k)


def whole(*body: Stmt, inputs: tuple[Buffer, ...] = ()) -> Kernel:
    return Kernel("k", inputs, (Buffer("y", float32, (N,), (-2,)),), body)


@pytest.mark.parametrize("value", (0.0, -0.0, 0.1, -1e-45, 1e300, math.inf, -math.inf, math.nan, 1.0))
def test_numbers(value: float) -> None:
    text = show(whole(Store("y", (Const(0, int64),), Const(value, float32))))
    (store,) = parse(text).body
    assert isinstance(store, Store) and isinstance(store.value, Const)
    assert repr(store.value.value) == repr(value) and show(parse(text)) == text


def test_every_construct() -> None:
    i = Index("i")
    size = (N * M + 3) // 4 * 2 - N * N + 1
    kernel = whole(
        Let("n", Extent(size)),
        Alloc(Buffer("b", int32, (3, M + 1))),
        For(
            "i",
            5,
            (
                If(
                    op("lt", i, Const(-3, int64)),
                    (Store("y", (op("sub", i, Const(-1, int64)),), Const(1.0, float32)),),
                    (Store("b", (i, op("mul", i, op("add", i, i))), Const(-7, int32)),),
                ),
                While(Const(False, bool_), ()),
            ),
        ),
    )
    assert parse(show(kernel)) == kernel


def test_bounds_of_symbols() -> None:
    b = Dim.symbol("batch", 1, 512)
    kernel = Kernel("k", (Buffer("x", float32, (b,)),), (), (For("i", b, ()),))
    assert "where batch in 1..512" in show(kernel)
    assert parse(show(kernel)) == kernel


@pytest.mark.parametrize(
    ("line", "why"),
    (
        ("y[i] = x[i]", "expected a buffer"),
        ("y[i] = foo", "expected the index of an enclosing loop"),
        ("y[i] = add(1)", "add must have 2 operands"),
        ("y[i] = 1:f33", "dtype"),
        ("y[i] = 1.5:f32 2", "the end of the line"),
        ("y[i", "unexpected end"),
        ("y[i] = §", "unexpected"),
    ),
)
def test_faults_name_the_line(line: str, why: str) -> None:
    with pytest.raises(GraphError, match=why) as fault:
        parse(f"kernel k() -> (y: f32[N]):\n  for i in N:\n    {line}\n")
    assert f"line 3: {line}" in str(fault.value)


def test_a_load_of_an_unknown_shape_parses() -> None:
    kernel = whole(Store("y", (Const(0, int64),), Load("y", (Const(1, int64),), float32)))
    assert parse(show(kernel)) == kernel
