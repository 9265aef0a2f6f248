"""How compile time grows with the size of a graph.

    python benchmarks/compile_time.py [--sizes 100 1000 10000] [GRAPH ...]

Each graph is traced, taken through the pipeline, compiled by LLVM and laid out in memory, nothing coming from a cache.
Every layer has constants of its own.  What grows in proportion to the graph has one time per thousand equations in a
column, however large the graph, once the kernels that all of its layers share are compiled.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

os.environ["NACRE_CACHE_DIR"] = "off"

import nacre as nc
from nacre.compile.pipeline import compile_graph
from nacre.interpret.stage import stage


def factor(k: int) -> float:
    """A constant of layer k alone."""
    return 0.9 + k / 1e6


def pointwise(x: Any, layers: int) -> Any:
    """A chain of elementary functions."""
    for k in range(layers):
        x = nc.tanh(x) * factor(k) + x
    return x


def reductions(x: Any, layers: int) -> Any:
    """Many sums of one value, added up."""
    total = nc.sum(x)
    for k in range(layers):
        total = total + nc.sum(x * factor(k))
    return total


def normalisations(x: Any, layers: int) -> Any:
    """Rows and columns normalised in turn."""
    for k in range(layers):
        x = (x - nc.mean(x, axis=-1, keepdims=True)).T * factor(k)
    return x


def dense(x: Any, layers: int) -> Any:
    """Matrix products with an activation."""
    for k in range(layers):
        x = nc.tanh(x @ x.T * factor(k))
    return x


def training(x: Any, layers: int) -> Any:
    """The gradient of a stack of layers, of which each value is needed again."""
    return nc.grad(lambda y: nc.sum(dense(y, layers)))(x)


GRAPHS: dict[str, Callable[[Any, int], Any]] = {
    f.__name__: f for f in (pointwise, reductions, normalisations, dense, training)
}


@dataclass(frozen=True)
class Measured:
    """Equations, launches and different kernels of a program, and the seconds that each step towards it took."""

    equations: int
    launches: int
    kernels: int
    trace: float
    pipeline: float
    llvm: float
    layout: float


def equations(f: Callable[[Any, int], Any], layers: int) -> int:
    """The equations of so many layers."""
    return len(stage(lambda *xs: [f(xs[0], layers)], [nc.ones((16, 16)).type]).graph.equations)


def measure(f: Callable[[Any, int], Any], layers: int) -> Measured:
    """Take a graph of so many layers from tracing to the tables that a run needs."""
    x = nc.ones((16, 16))
    clock = [time.perf_counter()]
    graph = stage(lambda *xs: [f(xs[0], layers)], [x.type]).graph
    clock.append(time.perf_counter())
    executable = compile_graph(graph).executable
    clock.append(time.perf_counter())
    executable.load()
    clock.append(time.perf_counter())
    executable.bound({})
    clock.append(time.perf_counter())
    took = [after - before for before, after in pairwise(clock)]
    return Measured(len(graph.equations), len(executable.plan.steps), len(executable.codes), *took)


def main() -> int:
    """Measure each graph in every size and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", nargs="*", type=int, default=[10, 100, 1000, 10000])
    parser.add_argument("graphs", nargs="*", default=list(GRAPHS))
    given = parser.parse_args()
    print("| graph | equations | launches | kernels | trace s | pipeline s | LLVM s | layout s | s / 1000 equations |")
    print("|---|---|---|---|---|---|---|---|---|")
    for name in given.graphs:
        f = GRAPHS[name]
        per_layer = equations(f, 9) - equations(f, 8)
        for size in given.sizes:
            m = measure(f, max(1, size // per_layer))
            parts = (m.trace, m.pipeline, m.llvm, m.layout)
            print(
                f"| {name} | {m.equations} | {m.launches} | {m.kernels} | "
                + " | ".join(f"{t:.3f}" for t in (*parts, sum(parts) / m.equations * 1000))
                + " |",
                flush=True,
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
