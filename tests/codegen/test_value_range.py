"""Value ranges: elements minus their maximum are known not to be positive, and no other values are."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codegen.run_loops import check, numbers
from nacre.base.dims import Dim
from nacre.base.dtypes import DType, float32, float64
from nacre.codegen.loops.value_range import ValueRanges
from nacre.kernel.ast import (
    Accumulate,
    Alloc,
    Buffer,
    Expr,
    For,
    Index,
    Kernel,
    Let,
    Load,
    Local,
    Stmt,
    Store,
    apply,
    const,
)

N, M = Dim.symbol("N"), Dim.symbol("M")
I, J, K = Index("i"), Index("j"), Index("k")
MOST = Load("a", (), float32)
EXTENTS = {"i": N, "j": M}


def element(buffer: str = "x", *index: Index, dtype: DType = float32) -> Expr:
    return Load(buffer, index or (I, J), dtype)


def row(*inside: Stmt, extent: Dim = M) -> For:
    return For("j", extent, inside, vector=True)


def kernel(*body: Stmt, dtype: DType = float32) -> Kernel:
    buffers = [Buffer(name, dtype, (N, M)) for name in "xwy"]
    return Kernel("k", tuple(buffers[:2]), (buffers[2],), (For("i", N, body, parallel=True),))


def holds(value: Expr) -> tuple[Stmt, ...]:
    """a = max of a value over a row."""
    return Alloc(Buffer("a", value.dtype, ())), row(Accumulate("max", ("a",), (value,)))


def shifted(x: Expr, most: Expr = MOST) -> Expr:
    return apply("sub", x, most)


def test_an_element_minus_the_maximum_of_its_row_is_not_positive() -> None:
    known = ValueRanges(
        kernel(*holds(element()), Let("r", MOST), row(Let("v", shifted(element(), Local("r", float32)))))
    )
    assert known.falls(Local("v", float32), EXTENTS)
    assert known.falls(shifted(element()), EXTENTS)
    assert not known.falls(element(), EXTENTS)
    assert not known.falls(shifted(element("w")), EXTENTS)
    assert not known.falls(shifted(element("x", J, I)), EXTENTS)
    assert not known.falls(shifted(apply("mul", element(), const(2.0, float32))), EXTENTS)
    assert not known.falls(apply("sub", MOST, element()), EXTENTS)


def test_values_are_compared_as_they_are_computed() -> None:
    def scaled(by: float) -> Expr:
        return apply("mul", element(), const(by, float32))

    folded = row(Let("u", scaled(2.0)), Accumulate("max", ("a",), (Local("u", float32),)))
    known = ValueRanges(kernel(Alloc(Buffer("a", float32, ())), folded, row(Let("v", scaled(2.0)))))
    assert known.falls(shifted(Local("v", float32)), EXTENTS)
    assert not known.falls(shifted(scaled(3.0)), EXTENTS)


def test_long_chains_are_compared_once() -> None:
    x = element()
    for _ in range(60):
        x = apply("add", x, x)
    known = ValueRanges(kernel(*holds(x)))
    assert known.falls(shifted(x), EXTENTS)


@pytest.mark.parametrize(
    "body",
    [
        (Alloc(Buffer("a", float32, ())), row(Accumulate("min", ("a",), (element(),)))),
        (Alloc(Buffer("a", float32, ())), row(Accumulate("max", ("a",), (element(),)), Let("r", MOST))),  # incomplete
        (Alloc(Buffer("a", float32, ())), Let("r", MOST), row(Accumulate("max", ("a",), (element(),)))),
        (*holds(element()), row(Accumulate("max", ("a",), (element("w"),)))),
        (*holds(element()), Store("a", (), const(0.0, float32))),
        (*holds(element("y")), row(Store("y", (I, J), element()))),  # changes after that
        (*holds(element()), row(Store("x", (I, J), element("w")))),
    ],
    ids=str,
)
def test_other_subtrahends_have_no_range(body: tuple[Stmt, ...]) -> None:
    known = ValueRanges(kernel(*body))
    assert not any(known.falls(shifted(element(name)), EXTENTS) for name in "xwy")


def test_ranges_hold_only_for_the_loops_elements() -> None:
    known = ValueRanges(kernel(*holds(element())))
    assert known.falls(shifted(element()), EXTENTS)
    assert not known.falls(shifted(element()), {"i": N, "j": M + 1})


@pytest.mark.sampled(2)
@pytest.mark.parametrize("dtype", [float32, float64], ids=str)
@settings(max_examples=25)
@given(n=st.integers(0, 3), m=st.sampled_from((0, 1, 5, 16, 64, 255, 256, 1037)), cut=st.integers(0, 3))
def test_exponentials_have_the_same_bits(dtype: DType, n: int, m: int, cut: int) -> None:
    x = Load("x", (I, J), dtype)
    most = Let("r", Load("a", (), dtype))
    stored = row(Store("y", (I, J), apply("exp", shifted(x, Local("r", dtype)))))
    made = kernel(*holds(x), most, stored, dtype=dtype)
    check(made, [numbers((n, m), dtype, special=True), numbers((n, m), dtype, special=True)], {"N": n, "M": m}, [cut])
