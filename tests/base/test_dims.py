"""Symbolic sizes: arithmetic of polynomials, bounds, comparisons."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import nacre as nc
from nacre.base.dims import LIMIT, Dim, evaluate, product, upper
from nacre.base.errors import ShapeError

B, N = Dim.symbol("B", min=1, max=64), Dim.symbol("N", max=1000)


@st.composite
def sizes(draw: st.DrawFn) -> Any:
    """A random polynomial."""
    total: Any = draw(st.integers(-5, 5))
    for _ in range(draw(st.integers(0, 4))):
        term: Any = draw(st.integers(-4, 4))
        for symbol in draw(st.lists(st.sampled_from((B, N)), max_size=3)):
            term = term * symbol
        total = total + term
    return total


numbers = st.fixed_dictionaries({"B": st.integers(1, 64), "N": st.integers(0, 1000)})


@given(sizes(), sizes(), numbers)
def test_arithmetic_is_that_of_numbers(a: Any, b: Any, at: dict[str, int]) -> None:
    x, y = evaluate(a, at), evaluate(b, at)
    assert (evaluate(a + b, at), evaluate(a - b, at), evaluate(a * b, at)) == (x + y, x - y, x * y)
    assert evaluate(-a, at) == -x


@given(sizes(), sizes(), sizes())
def test_equal_polynomials_are_equal(a: Any, b: Any, c: Any) -> None:
    assert (a + b) * c == a * c + b * c and a + b - b == a
    assert hash((a + b) * c) == hash(a * c + b * c) and a - a == 0


@given(sizes(), numbers)
def test_bounds_hold(a: Any, at: dict[str, int]) -> None:
    low, high = (a, a) if isinstance(a, int) else a.bounds()
    assert low <= evaluate(a, at) <= high == upper(a)


@given(sizes(), st.integers(1, 7), numbers)
def test_division_rounds_down(a: Any, by: int, at: dict[str, int]) -> None:
    assert evaluate(a // by, at) == evaluate(a, at) // by
    assert evaluate(a % by, at) == evaluate(a, at) % by


@given(sizes(), numbers)
def test_substitution_is_evaluation(a: Any, at: dict[str, int]) -> None:
    if isinstance(a, Dim):
        assert a.substitute(at) == a.evaluate(at)
        assert evaluate(a.substitute({"B": N + 1, "N": B}), at) == a.evaluate({"B": at["N"] + 1, "N": at["B"]})


def test_products_divide() -> None:
    assert B * N // N == B and (6 * B * N) // (3 * B) == 2 * N and (B * N) % B == 0
    assert product((B, 4, N)) // (2 * N) == 2 * B and product(()) == 1
    with pytest.raises(ShapeError, match="divisible"):
        (B + 1) // N


def test_comparisons_that_bounds_decide() -> None:
    assert B > 0 and B <= 64 and not B > 64 and B >= 1 and B * N <= 64_000
    assert 65 > B  # noqa: SIM300  (the reflected comparison)
    with pytest.raises(ShapeError, match="depends"):
        assert B < 10


def test_symbols_are_checked_and_printed() -> None:
    for bad in ("", "a b", "1x", "a-b"):
        with pytest.raises(ShapeError, match="name"):
            Dim.symbol(bad)
    for low, high in ((-1, 5), (5, 4)):
        with pytest.raises(ShapeError, match="min"):
            Dim.symbol("x", min=low, max=high)
    assert str(2 * B * N - N + 3) == "2*B*N - N + 3" and str(B // 3) == "((B)//3)"
    assert Dim.symbol("free").bounds() == (0, LIMIT)


def test_a_symbolic_size_is_not_an_index() -> None:
    with pytest.raises(ShapeError, match="symbolic"):
        range(N)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "use",
    [
        lambda d, _: nc.ones((d,)), lambda d, _: nc.ones(d), lambda d, _: nc.ones(3) + d, lambda d, _: nc.sqrt(d),
        lambda d, _: nc.tensor(d), lambda d, _: nc.full((2,), d), lambda d, _: nc.arange(d),
        lambda d, _: nc.where(nc.ones(3) > 0, d, 1), lambda d, path: nc.save({"a": d}, path),
    ],
)  # fmt: skip
def test_the_error_for_a_dim_of_unknown_size_names_it(use: Callable[..., Any], tmp_path: Path) -> None:
    with pytest.raises(ShapeError, match="the size of rows must be known"):
        use(Dim.symbol("rows"), tmp_path / "a.safetensors")


@pytest.mark.parametrize(
    "use",
    [lambda n: 0.5 * n, lambda n: n * 0.5, lambda n: n + 0.5, lambda n: 0.5 - n, lambda n: n - 0.5, lambda n: n / 2],
)
def test_arithmetic_with_floats_needs_the_number(use: Callable[[Any], Any]) -> None:
    with pytest.raises(ShapeError, match=r"dimension: .*(must be fixed here|needs the number of a size)"):
        use(Dim.symbol("n"))
