"""Every operation of the table gives the same bits however it is run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nacre as nc
from nacre.compile.pipeline import compile_graph
from nacre.compile.program.executor import EXECUTOR
from nacre.interpret.evaluate import from_numpy, to_numpy
from nacre.interpret.stage import stage
from nacre.native.engine import host_target
from nacre.native.pool import pool
from nacre.ops import view
from nacre.trace.value import Value, make
from ops.row import Row
from ops.samples import Array
from ops.table import ROWS
from same_bits import canonical, digests, dtypes, operands, surrounded

ROOT = Path(__file__).parents[1]
THREADS = (1, 2, 5)
table = pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)


@pytest.fixture(params=["few", pytest.param("every", marks=pytest.mark.slow)])
def every(request: pytest.FixtureRequest) -> bool:
    """Whether all dtypes are tried."""
    return request.param == "every"


def runs(f: Callable[..., Any], values: list[Value]) -> Iterator[tuple[str, list[Value]]]:
    """The results of f in all modes: eager, as a graph, jitted."""
    yield "eager", listed(f(*values))
    graph = stage(lambda *xs: listed(f(*xs)), [x.type for x in values]).graph.verify()
    yield "graph", EXECUTOR.execute(graph, values)
    yield "jit", listed(nc.jit(f)(*values))


def listed(results: Any) -> list[Value]:
    return list(results) if isinstance(results, tuple) else [results]


def bits(results: list[Value]) -> list[bytes]:
    return list(map(canonical, results))


@pytest.mark.sampled(2)
@table
def test_modes_and_fusion(row: Row, every: bool) -> None:
    for dtype in dtypes(row, every):
        values = list(map(from_numpy, operands(row, dtype)))
        alone = canonical(row.apply(*values))
        for mode, results in runs(row.apply, values):
            assert bits(results) == [alone], f"{row.name} of {dtype.name}: {mode}"
        wanted = bits(list(surrounded(row.apply)(*values)))
        for mode, results in runs(surrounded(row.apply), values):
            assert bits(results) == wanted, f"{row.name} of {dtype.name} among others: {mode}"
            assert wanted[1] == alone, f"{row.name} of {dtype.name} among others and alone"


@pytest.mark.sampled(4)
@table
def test_threads(row: Row, every: bool, divided: None) -> None:
    for dtype in dtypes(row, every):
        values = list(map(from_numpy, operands(row, dtype)))
        wanted = bits(listed(row.apply(*values)))
        compiled = [executable(row.apply, values), executable(surrounded(row.apply), values)]
        for count in THREADS:
            pool().set_threads(count)
            addresses = [x.content.address for x in values]
            for each in compiled:
                buffers = each.run(addresses, {})
                results = [make(t, b) for t, b in zip(each.output_types, buffers, strict=True)]
                assert bits(results)[-1:] == wanted, f"{row.name} of {dtype.name}: {count} threads"


def executable(f: Callable[..., Any], values: list[Value]) -> Any:
    return compile_graph(stage(lambda *xs: listed(f(*xs)), [x.type for x in values]).graph).executable


@pytest.mark.sampled(6)
@table
def test_alone_and_in_a_batch(row: Row, every: bool) -> None:
    for dtype in dtypes(row, every):
        samples = [operands(row, dtype, seed) for seed in range(3)]
        batches = [from_numpy(np.stack(arrays)) for arrays in zip(*samples, strict=True)]
        if not batches:
            continue
        whole = to_numpy(nc.vmap(row.apply)(*batches))
        compiled = to_numpy(nc.jit(nc.vmap(row.apply))(*batches))
        for k, arrays in enumerate(samples):
            alone = canonical(row.apply(*map(from_numpy, arrays)))
            what = f"{row.name} of {dtype.name}: example {k}"
            assert canonical(whole[k]) == alone, what
            assert canonical(compiled[k]) == alone, f"{what}, compiled"


def scattered(x: Array) -> tuple[Array, Callable[[Value], Value]]:
    """Memory in which the numbers of x lie apart, its axes in reverse order, and the view that finds them."""
    turned = np.array(x.T, order="C")
    apart = np.zeros([2 * n + 1 for n in turned.shape], x.dtype)
    apart[tuple(slice(1, 2 * n + 1, 2) for n in turned.shape)] = turned
    ends = [2 * n + 1 for n in turned.shape]

    def found(whole: Value) -> Value:
        inner = view.slice_(whole, (1,) * x.ndim, ends, (2,) * x.ndim)
        return view.permute(inner, tuple(reversed(range(x.ndim))))

    return apart, found


def backwards(x: Array) -> tuple[Array, Callable[[Value], Value]]:
    """Memory in which the numbers of x lie from the last to the first, and the view that finds them."""
    return np.array(np.flip(x), order="C"), lambda whole: view.flip(whole, tuple(range(x.ndim)))


@pytest.mark.sampled(12)
@table
def test_layouts_inside_and_outside_of_graphs(row: Row, every: bool) -> None:
    for dtype in dtypes(row, every):
        arrays = operands(row, dtype)
        wanted = canonical(row.apply(*map(from_numpy, arrays)))
        for layout in (scattered, backwards):
            pairs = [layout(x) for x in arrays]
            wholes = [from_numpy(w) for w, _ in pairs]

            def apply(*xs: Value, pairs: Any = pairs) -> Value:
                return row.apply(*(find(x) for (_, find), x in zip(pairs, xs, strict=True)))

            what = f"{row.name} of {dtype.name}, {layout.__name__}"
            assert canonical(apply(*wholes)) == wanted, what
            assert canonical(nc.jit(apply)(*wholes)) == wanted, f"{what}: views inside"
            views = [find(w) for (_, find), w in zip(pairs, wholes, strict=True)]
            assert canonical(nc.jit(row.apply)(*views)) == wanted, f"{what}: views given"


@pytest.mark.skipif(host_target().isa != "avx512", reason="compares with AVX-512")
def test_instruction_sets(every: bool) -> None:
    paths = os.pathsep.join((str(ROOT / "src"), str(ROOT / "tests")))
    command = [sys.executable, str(ROOT / "tests" / "same_bits.py"), *(["--all"] if every else [])]
    made = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "NACRE_ISA": "avx2", "PYTHONPATH": paths},
    )
    theirs, ours = json.loads(made.stdout), digests(every)
    assert [name for name in ours if ours[name] != theirs[name]] == []
