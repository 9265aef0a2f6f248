"""The binding of symbolic sizes: one rule for calls and for programs compiled ahead of time."""

from __future__ import annotations

import pytest

import nacre as nc
from nacre.base.dims import Dim, Size
from nacre.base.size_binding import linear, size_axes, solve
from nacre.base.types import TensorType
from nacre.deploy.sizes import solvers

N, M = Dim.symbol("n", min=1, max=64), Dim.symbol("m", min=1, max=64)


def of(*shape: Size) -> TensorType:
    return TensorType(shape, nc.float32)


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        (N, (1, 0)), (3 * N, (3, 0)), (2 * N + 5, (2, 5)), (10 - N, (-1, 10)), (4, None), (N * N, None), (N * M, None),
        (N + M, None), (N // 2, None), (N + N // 3, None),
    ],
)  # fmt: skip
def test_a_size_is_linear_in_one_symbol_or_determines_none(size: Size, expected: tuple[int, int] | None) -> None:
    found = linear(size)
    assert (found and found[1:]) == expected
    assert len(size_axes(of(size, 7))) == (expected is not None)


@pytest.mark.parametrize("shape", [(N, M), (2 * N, 3, M + 1), (N * M, N, 4 * M - 3), (N + N // 3, M, N)])
def test_calls_and_deployed_programs_take_the_same_axes(shape: tuple[Size, ...]) -> None:
    types = [of(5), of(*shape)]
    sizes = {"n": 7, "m": 3}
    actual = [(5,), tuple(n if isinstance(n, int) else n.evaluate(sizes) for n in shape)]
    assert solve(types, actual) == sizes
    flat = [n for one in actual for n in one]
    assert {s.name: (flat[at] - b) // a for s, (at, a, b) in solvers(types).items()} == sizes


def test_a_falling_size_determines_a_symbol_of_a_call_alone() -> None:
    assert solve([of(10 - N)], [(4,)]) == {"n": 6}
    with pytest.raises(nc.CompileError, match="must determine n"):
        solvers([of(10 - N)])


def test_a_symbolic_size_is_the_value_of_a_whole_axis() -> None:
    assert solve([of(N, 2 * N)], [(M, 2 * M)]) == {"n": M}


@pytest.mark.parametrize(
    ("types", "shapes"),
    [
        ([of(2 * N)], [(5,)]), ([of(N), of(N)], [(2,), (3,)]), ([of(N * M)], [(6,)]), ([of(N, N + 1)], [(2, 2)]),
    ],
)  # fmt: skip
def test_sizes_that_disagree_or_stay_unknown_are_refused(
    types: list[TensorType], shapes: list[tuple[int, ...]]
) -> None:
    with pytest.raises(nc.ShapeError, match=r"sizes: shapes must agree on each size"):
        solve(types, shapes)
