"""Simplification preserves bits, removes equations that are not needed, and gives every output separate memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

import nacre as nc
from compile.programs import Program, programs
from compile.test_pipeline import graph_of
from nacre.compile.passes.simplify import share, simplify
from nacre.interpret.stage import run, stage
from nacre.ir.graph import Graph, Var
from same_bits import canonical


def staged(f: Any, *shapes: tuple[int, ...]) -> Graph:
    xs = [nc.zeros(s) for s in shapes]
    return stage(lambda *ys: list(f(*ys)), [x.type for x in xs]).graph


def names(graph: Graph) -> list[str]:
    return [e.primitive.name for e in graph.equations]


@given(program=programs())
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
def test_bits_and_types_are_preserved(program: Program) -> None:
    graph = graph_of(program)
    simple = simplify(graph).verify()
    assert (simple.input_types, simple.output_types) == (graph.input_types, graph.output_types)
    values = program.operands()
    assert list(map(canonical, run(simple, values))) == list(map(canonical, run(graph, values)))


@given(program=programs())
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
def test_outputs_are_distinct_computed_values(program: Program) -> None:
    simple = simplify(graph_of(program))
    made = {v for e in simple.equations for v in e.outputs}
    assert len(set(simple.outputs)) == len(simple.outputs)
    assert all(isinstance(v, Var) and v in made for v in simple.outputs)


def test_equal_equations_are_computed_once() -> None:
    graph = staged(lambda x: (nc.exp(x) + nc.exp(x), nc.exp(x)), (3,))
    assert names(simplify(graph)).count("exp") == 1


def test_equations_that_differ_in_a_parameter_are_not_merged() -> None:
    graph = staged(lambda x: (x.sum(axis=0), x.sum(axis=1)), (3, 3))
    assert names(share(graph)).count("sum") == 2


def test_dead_equations_are_removed() -> None:
    def f(x: Any) -> Any:
        nc.exp(x @ x)
        return (x + 1,)

    assert not {"exp", "dot"} & set(names(simplify(staged(f, (3, 3)))))


def test_factors_of_one_are_removed() -> None:
    def f(x: Any) -> Any:
        return nc.exp(x * 1.0), nc.sin(nc.ones((3,)) * x / nc.reshape(nc.ones((1, 3)), (3,))), x * 1.0

    graph = simplify(staged(f, (3,))).verify()
    assert not {"mul", "div"} & set(names(graph))
    assert "mul" in names(simplify(staged(lambda x: (x * 2.0, nc.ones((3,)) * 1.0), (3,))))
    for dtype in (nc.float32, nc.bfloat16, nc.float64):
        x = nc.tensor([-0.0, float("-inf"), 1e-40], dtype=dtype)
        assert [canonical(y) for y in nc.jit(f)(x)] == [canonical(y) for y in f(x)]


def test_rewrites_that_would_change_bits_are_not_made() -> None:
    x = nc.tensor([-0.0, float("inf"), float("nan"), 1.0])
    for f in (
        lambda x: x + 0.0,
        lambda x: x * 0.0,
        lambda x: x - x,
        lambda x: x / x,
        lambda x: x / 3.0,
        lambda x: nc.negative(-x),
        lambda x: nc.log(nc.exp(x)),
        lambda x: (x + 1.0) - 1.0,
    ):
        assert canonical(nc.jit(f)(x)) == canonical(f(x))
    assert np.signbit(nc.jit(lambda x: x + 0.0)(x).numpy()[0]) == np.False_


@pytest.mark.parametrize("dtype", [nc.complex64, nc.complex128])
def test_complex_factors_of_one_stay(dtype: Any) -> None:
    """A complex 1 has an imaginary part, whose product with an infinite number is NaN."""
    x = nc.tensor([[complex(float("-inf"), 0.0)], [complex(1.0, -0.0)], [complex(0.0, float("inf"))]], dtype=dtype)
    for f in (
        lambda x: x * nc.ones(1, dtype=dtype),
        lambda x: nc.ones(1, dtype=dtype) * x,
        lambda x: x / nc.ones(1, dtype=dtype),
        lambda x: nc.mean(x, axis=1),
    ):
        assert canonical(nc.jit(f)(x)) == canonical(f(x))


def test_casts_to_narrow_types_are_not_removed() -> None:
    def f(x: Any) -> Any:
        return x.astype(nc.bfloat16).astype(nc.float32)

    x = nc.tensor([1.001, 3.14159])
    assert nc.jit(f)(x).tolist() == f(x).tolist() != x.tolist()


def test_products_read_transposed_have_the_same_bits() -> None:
    rng = np.random.default_rng(0)
    a, b = (nc.tensor(rng.normal(size=s).astype(np.float32)) for s in ((70, 300), (300, 40)))
    for f in (lambda a, b: (a @ b).T, lambda a, b: (a @ b).T + 1, lambda a, b: (a @ b).T @ (a @ b)):
        assert canonical(nc.jit(f)(a, b)) == canonical(f(a, b))
