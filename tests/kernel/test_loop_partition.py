"""Choices by a loop's index: the cases compute the same results and need no choice."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codegen.run_loops import canonical, check, numbers
from nacre.base.dims import Dim
from nacre.base.dtypes import float32
from nacre.kernel import interpret
from nacre.kernel.ast import Apply, Buffer, Const, Expr, For, If, Index, Kernel, Load, Store, apply, const, statements
from nacre.kernel.loop_partition import MOST, long_lanes, partition_loops
from nacre.kernel.verify import verify
from nacre.ops.view import clamp

I, J = Index("i"), Index("j")
Value = Callable[[Expr, Expr], Expr]


def nest(rows: int | Dim, columns: int | Dim, shape: tuple[int | Dim, int | Dim], value: Value) -> Kernel:
    body = Store("y", (I, J), value(I, J))
    inner = For("j", columns, (body,), parallel=True, vector=True)
    return Kernel(
        "chosen",
        (Buffer("x", float32, shape),),
        (Buffer("y", float32, (rows, columns)),),
        (For("i", rows, (inner,), parallel=True),),
    )


def padded(before: int, after: int) -> Value:
    """x[8, 40] surrounded by ones."""

    def value(i: Expr, j: Expr) -> Expr:
        places: list[Expr] = []
        conditions: list[Expr] = []
        for at, size in ((i, 8), (j, 40)):
            moved = apply("sub", at, const(before))
            conditions += [apply("ge", moved, const(0)), apply("lt", moved, const(size))]
            places.append(clamp(moved, size))
        inside: Expr = conditions[0]
        for c in conditions[1:]:
            inside = apply("and", inside, c)
        return apply("select", inside, Load("x", tuple(places), float32), Const(1.0, float32))

    return value


@pytest.mark.parametrize(("before", "after"), [(1, 1), (3, 0), (0, 5), (17, 2)])
def test_padding(before: int, after: int) -> None:
    kernel = nest(8 + before + after, 40 + before + after, (8, 40), padded(before, after))
    cases = partition_loops(kernel)
    verify(cases)
    x = numbers((8, 40), float32)
    (expected,) = interpret.run(kernel, [x], {})
    (found,) = check(cases, [x], cuts=(1, 3, 8))
    assert (canonical(expected) == canonical(found)).all()
    left = {
        e.op
        for s in statements(cases.body)
        for e in ((s.value,) if isinstance(s, Store) else ())
        if isinstance(e, Apply)
    }
    assert not left & {"select", "minimum", "maximum"}


comparisons = st.tuples(st.sampled_from(("lt", "le", "gt", "ge")), st.booleans(), st.booleans(), st.integers(-3, 30))


@settings(max_examples=60, deadline=None)
@given(chosen=st.lists(comparisons, min_size=1, max_size=4), rows=st.integers(0, 5), columns=st.integers(0, 27))
def test_any_comparison_of_an_index(chosen: list[tuple[str, bool, bool, int]], rows: int, columns: int) -> None:
    def value(i: Expr, j: Expr) -> Expr:
        found: Expr = Load("x", (i, j), float32)
        for n, (op, outer, swapped, number) in enumerate(chosen):
            pair = (i if outer else j, const(number))
            found = apply("select", apply(op, *(reversed(pair) if swapped else pair)), found, Const(float(n), float32))
        return found

    kernel = nest(rows, columns, (rows, columns), value)
    cases = partition_loops(kernel)
    x = numbers((rows, columns), float32)
    (expected,) = interpret.run(kernel, [x], {})
    (found,) = check(cases, [x], cuts=(2, 5))
    assert (canonical(expected) == canonical(found)).all()


def test_other_kernels_are_unchanged() -> None:
    n = Dim.symbol("n")
    mask = nest(
        8, 8, (8, 8), lambda i, j: apply("select", apply("lt", i, j), Load("x", (i, j), float32), Const(0.0, float32))
    )
    assert partition_loops(mask) is mask
    # it is unknown whether a symbolic size is above 5
    unknown = nest(
        4,
        n,
        (4, n),
        lambda i, j: apply("select", apply("lt", j, const(5)), Load("x", (i, j), float32), Const(0.0, float32)),
    )
    assert partition_loops(unknown) is unknown

    def many(i: Expr, j: Expr) -> Expr:
        found: Expr = Const(0.0, float32)
        for k in range(MOST + 1):
            found = apply("select", apply("lt", j, const(2 * k + 1)), found, Const(float(k), float32))
        return found

    crowded = nest(2, 200, (2, 200), many)
    assert partition_loops(crowded) is crowded


def test_lanes_of_a_stack() -> None:
    def value(i: Expr, j: Expr) -> Expr:
        one, other = Load("x", (i, const(0)), float32), Load("x", (i, const(1)), float32)
        return apply("select", apply("lt", j, const(1)), one, other)

    kernel = nest(50, 2, (50, 2), value)
    for made in (partition_loops(kernel), long_lanes(kernel)):
        (outer,) = made.body
        assert isinstance(outer, For) and outer.vector and outer.index == "i"
        x = numbers((50, 2), float32)
        (expected,) = interpret.run(kernel, [x], {})
        assert (canonical(expected) == canonical(check(made, [x], cuts=(1,))[0])).all()
    assert any(isinstance(s, If) for s in statements(partition_loops(kernel).body))
