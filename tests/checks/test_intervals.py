"""Intervals contain every integer that programs compute, and are narrow enough to prove usual indices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nacre as nc
from nacre.compile.passes.checks import place_checks
from nacre.compile.passes.intervals import Intervals
from nacre.compile.passes.simplify import simplify
from nacre.interpret.stage import run
from nacre.ir.graph import Graph

X = nc.tensor([3.0, 1.0, 2.0, 5.0, 4.0])
I = nc.tensor([1, 2])
PROVEN: dict[str, Callable[[Any, Any], Any]] = {
    "argsort": lambda x, i: nc.take(x, nc.argsort(x)),
    "argmax": lambda x, i: x[nc.argmax(x)],
    "argmin along an axis": lambda x, i: nc.take_along_axis(x[None], nc.argmin(x[None], axis=1, keepdims=True), axis=1),
    "remainder": lambda x, i: x[i % 5],
    "remainder of a negative": lambda x, i: x[-i % 5],
    "remainder of positions": lambda x, i: x[nc.arange(9) % 3],
    "clip": lambda x, i: x[nc.clip(i, 0, 4)],
    "clip from the end": lambda x, i: x[nc.clip(i, -5, 4)],
    "where": lambda x, i: x[nc.where((i >= 0) & (i < 5), i, 0)],
    "where not": lambda x, i: x[nc.where((i < 0) | (i > 4), 2, i)],
    "positions": lambda x, i: x[nc.arange(5) - 1],
    "another dtype": lambda x, i: x[(i % 5).astype(nc.int8).astype(nc.int32)],
    "rows of known integers": lambda x, i: x[nc.take(nc.arange(5), i % 5)],
    "the largest of two": lambda x, i: x[nc.maximum(i % 3, nc.minimum(i % 5, 4))],
}
OPEN: dict[str, Callable[[Any, Any], Any]] = {
    "anything": lambda x, i: x[i],
    "too large a remainder": lambda x, i: x[i % 6],
    "one bound": lambda x, i: x[nc.maximum(i, 0)],
    "either bound": lambda x, i: x[nc.where((i >= 0) | (i < 5), i, 0)],
    "the wrong side": lambda x, i: x[nc.where((i >= 0) & (i < 5), 0, i)],
    "positions and one": lambda x, i: x[nc.arange(5) + 1],
    "wrapping": lambda x, i: x[(i % 200).astype(nc.int8)],
}


def has_checks(f: Callable[..., Any]) -> bool:
    """Whether checks of a function are left."""
    graph = place_checks(simplify(nc.jit(f).trace(X, I)))
    return any(e.primitive.name == "checks" for e in graph.equations)


@pytest.mark.parametrize("name", PROVEN)
def test_proven(name: str) -> None:
    assert not has_checks(PROVEN[name])


@pytest.mark.parametrize("name", OPEN)
def test_open(name: str) -> None:
    assert has_checks(OPEN[name])


OPERATIONS: tuple[Callable[[Any, Any, int], Any], ...] = (
    lambda a, b, n: a + b,
    lambda a, b, n: a - b,
    lambda a, b, n: nc.minimum(a, b),
    lambda a, b, n: nc.maximum(a, b),
    lambda a, b, n: a % (abs(n) + 1),
    lambda a, b, n: nc.clip(a, -abs(n), abs(n)),
    lambda a, b, n: nc.where(a < b, a, b),
    lambda a, b, n: nc.where((a >= n) & (b != a), a, b),
    lambda a, b, n: nc.where((a > b) | (a <= n), b, a),
    lambda a, b, n: nc.where((a < n) == (b < n), a, b),
    lambda a, b, n: a.astype(nc.int8),
    lambda a, b, n: nc.take(a, b % 4),
    lambda a, b, n: nc.flip(a),
    lambda a, b, n: a + n,
    lambda a, b, n: nc.arange(4) - b,
    lambda a, b, n: nc.argsort(a),
)


@given(
    st.lists(
        st.tuples(st.integers(0, len(OPERATIONS) - 1), st.integers(0, 9), st.integers(0, 9), st.integers(-9, 9)),
        min_size=1,
        max_size=8,
    ),
    st.lists(st.integers(-300, 300), min_size=8, max_size=8),
)
@settings(max_examples=150)
def test_intervals_contain_all_integers(steps: list[tuple[int, int, int, int]], numbers: list[int]) -> None:
    def f(a: Any, b: Any) -> list[Any]:
        values = [nc.clip(a, -40, 40), b, nc.arange(4)]
        for op, x, y, n in steps:
            found = OPERATIONS[op](values[x % len(values)], values[y % len(values)], n)
            values.append(found.astype(nc.int64))
        return values

    given_values = [nc.tensor(np.array(part)) for part in (numbers[:4], numbers[4:])]
    graph = simplify(nc.jit(f).trace(*given_values))
    every = [v for e in graph.equations for v in e.outputs if v.type.dtype.is_integer]
    found = run(Graph(graph.inputs, graph.equations, tuple(every), "every"), given_values)
    intervals = Intervals(graph)
    for v, x in zip(every, found, strict=True):
        interval = intervals.of(v)
        if interval is not None and x.type.size:
            array = x.numpy()
            assert interval[0] <= array.min() and array.max() <= interval[1], f"{interval} {array}\n{graph}"


def test_symbolic_sizes_are_bounds() -> None:
    read = nc.jit(lambda x: x[nc.argsort(x)], dynamic_shapes={"x": {0: nc.Dim("n", min=1)}})
    assert read(X).tolist() == [1, 2, 3, 4, 5]
    assert read.concrete_functions[0].executable.plan.failures == ()
