"""Random programs: derivatives, batches and large sizes are the same to the bit, jitted or not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

import nacre as nc
from compile.programs import Program, programs
from nacre.base.errors import ShapeError
from nacre.base.size_binding import solve
from nacre.interpret.evaluate import from_numpy
from nacre.interpret.stage import run
from nacre.ir.rewrite import specialised
from nacre.native.pool import pool
from nacre.runtime import grains, plan
from same_bits import canonical

health = list(HealthCheck)
some = settings(max_examples=25, deadline=None, suppress_health_check=health)
many = settings(max_examples=600, deadline=None, suppress_health_check=health)


def loss(program: Program, *xs: Any) -> Any:
    """A number computed from all of a program's results."""
    total: Any = 0.0
    for y in program(*xs):
        total = total + (nc.tanh(y) * 0.5).sum()
    return total


def check_gradients(program: Program) -> None:
    values = program.operands()
    every = tuple(range(len(values)))
    wanted = list(map(canonical, nc.grad(lambda *xs: loss(program, *xs), every)(*values)))
    jitted = nc.jit(nc.grad(lambda *xs: loss(program, *xs), every))(*values)
    assert list(map(canonical, jitted)) == wanted, "jit of grad"
    inner = nc.jit(lambda *xs: loss(program, *xs))
    assert list(map(canonical, nc.grad(inner, every)(*values))) == wanted, "grad of jit"
    leaves = [nc.tensor(x).requires_grad_() for x in values]
    total = loss(program, *leaves)
    if total.requires_grad:
        total.backward()
    for leaf, found in zip(leaves, wanted, strict=True):
        if leaf.grad is not None:
            assert canonical(leaf.grad) == found, "backward"


def check_batches(program: Program) -> None:
    examples = [program.operands(seed) for seed in range(3)]
    batches = [from_numpy(np.stack([x.numpy() for x in xs])) for xs in zip(*examples, strict=True)]
    whole = nc.vmap(program.__call__)(*batches)
    jitted = nc.jit(nc.vmap(program.__call__))(*batches)
    for k, xs in enumerate(examples):
        alone = list(map(canonical, program(*xs)))
        assert [canonical(y.numpy()[k]) for y in whole] == alone, "vmap"
        assert [canonical(y.numpy()[k]) for y in jitted] == alone, "jit of vmap"


@given(program=programs(most=12, zero=False))
@some
def test_gradients(program: Program) -> None:
    check_gradients(program)


@given(program=programs(most=12))
@some
def test_batches(program: Program) -> None:
    check_batches(program)


SIZES = ((3, 5), (1, 1), (0, 4), (17, 2), (5, 0), (8, 8))


def check_dynamic_sizes(program: Program) -> None:
    n, m = nc.Dim("n", max=17), nc.Dim("m", max=17)
    axes = {"a": {0: n, 1: m}, "b": {0: n, 1: m}, "c": {0: m}, "d": {0: n}}
    dynamic = nc.jit(lambda a, b, c, d: program(a, b, c, d), dynamic_shapes=axes)
    for rows, columns in SIZES:
        shapes = ((rows, columns), (rows, columns), (columns,), (rows, 1))
        values = Program(shapes, program.steps, program.dtype, program.products).operands()
        try:
            results = dynamic(*values)
        except ShapeError as fault:
            assert any(said in str(fault) for said in ("must be fixed", "fixed size", "depends on the size"))
            return
        graph = dynamic.concrete_functions[0].graph
        fixed = specialised(graph, solve(graph.input_types, [x.type.shape for x in values]))
        wanted = list(map(canonical, run(fixed, values)))
        assert list(map(canonical, results)) == wanted, f"{rows} by {columns}\n{graph}"
    assert len(dynamic.concrete_functions) == 1


@given(program=programs(most=10, zero=False))
@some
def test_dynamic_sizes(program: Program) -> None:
    check_dynamic_sizes(program)


@pytest.mark.slow
@given(program=programs(most=10, zero=False))
@many
def test_dynamic_sizes_many_times(program: Program) -> None:
    check_dynamic_sizes(program)


@pytest.mark.slow
@given(program=programs(most=15))
@many
def test_gradients_many_times(program: Program) -> None:
    check_gradients(program)


@pytest.mark.slow
@given(program=programs(most=20))
@many
def test_batches_many_times(program: Program) -> None:
    check_batches(program)


LARGE: dict[str, Any] = {
    "sum of a vector": lambda x: x.reshape((-1,)).sum(),
    "mean of columns": lambda x: x.mean(axis=0),
    "several sums": lambda x: (x.sum(), (x * x).sum(), x.max(), (x + 1).prod()),
    "norm and use": lambda x: x / nc.sqrt((x * x).sum()),
    "rows and back": lambda x: nc.exp(x - x.max(axis=1, keepdims=True)) / nc.exp(x).sum(axis=1, keepdims=True),
    "positions": lambda x: (nc.argmax(x, axis=0), nc.argmax(x.reshape((-1,)), axis=0)),
    "any and all": lambda x: ((x > 3).any(), (x > -9).all(axis=0)),
    "product and rows": lambda x: nc.maximum(x @ x.T, 0.0).sum(axis=1),
    "transposes": lambda x: (x.T + 1).sum(axis=0) + (x.T * 2).sum(),
    "shifted": lambda x: x[1:] * x[:-1] - x[:-1],
    "running": lambda x: nc.cumulative_sum(x, axis=0) + nc.cumulative_sum(x, axis=1),
    "two halves": lambda x: nc.concat([x[: x.shape[0] // 2] * 2, x[x.shape[0] // 2 :]]).sum(),
}


@pytest.mark.parametrize("name", LARGE)
@pytest.mark.parametrize("shape", [(1000, 300), (3, 50_001), (70_003, 2), (200_000, 1), (1, 131_072)])
def test_large_sizes_on_many_threads(name: str, shape: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    if name == "product and rows" and shape[0] > 1000:
        pytest.skip("its result would be too large")
    f = LARGE[name]
    x = from_numpy(np.random.default_rng(1).normal(size=shape).astype(np.float32))
    wanted = list(map(canonical, listed(f(x))))
    monkeypatch.setattr(plan, "ALONE_COST", 1)
    monkeypatch.setattr(grains, "SHARE_COST", 1)
    monkeypatch.setattr(grains, "CHUNK_COST", 500)
    before = pool().threads
    try:
        for threads in (1, 2, 5):
            pool().set_threads(threads)
            assert list(map(canonical, listed(nc.jit(f)(x)))) == wanted, f"{threads} threads"
    finally:
        pool().set_threads(before)


def listed(results: Any) -> list[Any]:
    return list(results) if isinstance(results, tuple) else [results]
