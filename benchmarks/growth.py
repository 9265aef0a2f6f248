"""How time grows: operations with their size, compilation with the length of the graph.

    python3 run.py bench growth [--rounds 5] [--folder docs/figures] [--tiny]

Operations run compiled, in turn, round after round; the least time of each size counts.  Compilation is that of chains
of equations, without any cache: once pointwise, so that it becomes one kernel, and once in layers, a product, an
addition and a ReLU each.  Writes growth.svg, compilation.svg and growth.json into the folder, and the tables into
docs/performance.md unless the sizes are tiny.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

os.environ["NACRE_CACHE_DIR"] = "off"  # what is timed here is compilation, among other things

import nacre as nc
from nacre import nn
from nacre.compile.pipeline import compile_graph
from nacre.inspect.plot import Chart, Series
from nacre.inspect.timing import interleaved
from nacre.interpret.stage import stage

ROOT = Path(__file__).parents[1]
Made = tuple[Callable[..., Any], tuple[Any, ...]]  # a function and its arguments


def product(n: int) -> Made:
    """n × n times n × n."""
    return lambda a, b: a @ b, (nc.random.normal((n, n)), nc.random.normal((n, n)))


def convolution(n: int) -> Made:
    """3 × 3, 64 to 64 channels, on an n × n image."""
    given = nc.random.normal((1, 64, n, n)), nc.random.normal((64, 64, 3, 3))
    return lambda x, w: nn.functional.conv2d(x, w, padding=1), given


def attention(n: int) -> Made:
    """8 heads of 64 over n positions, causal."""
    given = tuple(nc.random.normal((1, 8, n, 64)) for _ in range(3))
    return lambda q, k, v: nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True), given


def reduction(n: int) -> Made:
    """The sum of n numbers."""
    return lambda x: nc.sum(x), (nc.random.normal((n,)),)


OPERATIONS: dict[str, tuple[Sequence[int], Callable[[int], Made]]] = {
    "matrix product n³": ((16, 32, 64, 128, 256, 512, 1024, 2048), product),
    "convolution 3 × 3, 64 channels, n² pixels": ((4, 8, 16, 32, 64, 128, 256), convolution),
    "causal attention, 8 heads, n positions": ((16, 32, 64, 128, 256, 512, 1024, 2048), attention),
    "sum of n numbers": ((10**3, 10**4, 10**5, 10**6, 10**7, 10**8), reduction),
}
LENGTHS = (1, 10, 100, 1000, 10_000)


def pointwise(n: int) -> Callable[[Any], Any]:
    """A chain of n pointwise equations."""

    def f(x: Any) -> Any:
        for k in range(n):
            x = nc.sqrt(x) if k % 3 == 2 else x * x if k % 3 else x + x
        return x

    return f


def layers(n: int) -> Callable[[Any, Any], Any]:
    """A chain of about n equations: products, each followed by an addition and a maximum."""

    def f(x: Any, w: Any) -> Any:
        for _ in range(max(1, n // 3)):
            x = nc.maximum(x @ w + x, x)
        return x

    return f


CHAINS: dict[str, tuple[Callable[[int], Callable[..., Any]], int]] = {
    "pointwise chain": (pointwise, 1),
    "layers": (layers, 2),
}


def compilation(lengths: Sequence[int], rounds: int) -> dict[str, list[tuple[int, float, float]]]:
    """For each kind of chain: equations, seconds of tracing, and of compiling up to code that can run.

    Each is compiled in fresh processes, where nothing of it is remembered.
    """
    found: dict[str, list[tuple[int, float, float]]] = {}
    for name in CHAINS:
        rows: list[tuple[int, float, float]] = []
        for n in lengths:
            line = [sys.executable, __file__, "--chain", name, "--length", str(n)]
            runs = [
                json.loads(subprocess.run(line, check=True, capture_output=True, text=True).stdout)
                for _ in range(min(rounds, 3))
            ]
            rows.append((runs[0][0], min(r[1] for r in runs), min(r[2] for r in runs)))
            print(
                f"{name}, {rows[-1][0]} equations: tracing {rows[-1][1] * 1e3:.1f} ms, compiling "
                f"{rows[-1][2] * 1e3:.1f} ms",
                flush=True,
            )
        found[name] = rows
    return found


def once(name: str, n: int) -> tuple[int, float, float]:
    """A chain's equations, the seconds of tracing it, and of compiling its graph."""
    x = nc.ones((32, 32))
    nc.jit(lambda x: nc.exp(x))(x)  # what the first use of all loads is not the chain's
    make, arguments = CHAINS[name]
    f = make(n)
    start = time.perf_counter()
    graph = stage(lambda *xs: [f(*xs)], [x.type] * arguments, "chain").graph
    middle = time.perf_counter()
    compile_graph(graph).executable.load()
    return len(graph.equations), middle - start, time.perf_counter() - middle


def operations(rounds: int, seconds: float, tiny: bool) -> dict[str, list[tuple[int, float]]]:
    """The least seconds of every operation at every size."""
    found: dict[str, list[tuple[int, float]]] = {}
    for name, (sizes, make) in OPERATIONS.items():
        calls: dict[str, Callable[[], Any]] = {}
        for n in sizes[:3] if tiny else sizes:
            f, given = make(n)
            calls[str(n)] = lambda f=nc.jit(f), given=given: f(*given)
        taken = interleaved(calls, rounds, seconds)
        found[name] = [(int(n), t.least) for n, t in taken.items()]
        print(f"{name}: " + ", ".join(f"{n} {t * 1e6:.1f} µs" for n, t in found[name]), flush=True)
    return found


def steepness(points: Sequence[tuple[float, float]]) -> float:
    """The exponent of growth over the last doubling or tenfold."""
    (a, s), (b, t) = points[-2:]
    return math.log(t / s) / math.log(b / a)


def tables(ran: dict[str, list[tuple[int, float]]], made: dict[str, list[tuple[int, float, float]]]) -> list[str]:
    """What was measured, in Markdown."""
    lines = ["", "| operation | n: µs | last exponent |", "|---|---|---|"]
    for name, points in ran.items():
        shown = ", ".join(f"{n:,}: {t * 1e6:.3g}" if t < 1e-3 else f"{n:,}: {t * 1e6:,.0f}" for n, t in points)
        lines.append(f"| {name} | {shown} | {steepness(points):.2f} |")
    lines += ["", "| graph | equations: tracing / compiling, ms | last exponent of compiling |", "|---|---|---|"]
    for name, rows in made.items():
        shown = ", ".join(f"{n:,}: {t * 1e3:.3g} / {c * 1e3:.3g}" for n, t, c in rows)
        lines.append(f"| {name} | {shown} | {steepness([(n, c) for n, _, c in rows]):.2f} |")
    return [*lines, ""]


def line(name: str, points: Sequence[tuple[float, float]]) -> Series:
    """Points joined and marked, their seconds in milliseconds."""
    return Series(name, tuple((n, t * 1e3) for n, t in points), radii=(3.0,) * len(points))


def write(
    folder: Path, ran: dict[str, list[tuple[int, float]]], made: dict[str, list[tuple[int, float, float]]]
) -> None:
    """The pictures and the numbers."""
    folder.mkdir(parents=True, exist_ok=True)
    sizes = [line(name.partition(",")[0], [(n, t) for n, t in points]) for name, points in ran.items()]
    lengths = [
        line(f"{name}: {what}", [(r[0], r[at]) for r in rows])
        for name, rows in made.items()
        for at, what in ((1, "tracing"), (2, "compiling"))
    ]
    (folder / "growth.svg").write_text(
        Chart("Time against size, compiled", "n", "ms", tuple(sizes)).svg(), encoding="utf-8"
    )
    (folder / "compilation.svg").write_text(
        Chart("Compile time against graph length, no cache", "equations", "ms", tuple(lengths)).svg(), encoding="utf-8"
    )
    (folder / "growth.json").write_text(
        json.dumps({"operations": ran, "compilation": made}, indent=1) + "\n", encoding="utf-8"
    )


def main() -> int:
    """Measure, and write everything."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.05, help="for one size in a round")
    parser.add_argument("--folder", type=Path, default=ROOT / "docs" / "figures")
    parser.add_argument("--tiny", action="store_true", help="the smallest sizes alone, to see that everything runs")
    parser.add_argument("--chain", choices=CHAINS, help=argparse.SUPPRESS)
    parser.add_argument("--length", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.chain:
        print(json.dumps(once(given.chain, given.length)))
        return 0
    made = compilation(LENGTHS[:2] if given.tiny else LENGTHS, given.rounds)
    ran = operations(given.rounds, given.seconds, given.tiny)
    write(given.folder, ran, made)
    if not given.tiny:
        path = ROOT / "docs" / "performance.md"
        text = re.sub(
            r"(<!-- growth -->\n).*?(<!-- grown -->)",
            lambda m: m[1] + "\n".join(tables(ran, made)) + "\n" + m[2],
            path.read_text(encoding="utf-8"),
            flags=re.DOTALL,
        )
        path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
