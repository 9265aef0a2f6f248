"""Kernels in Python beside numba: six well-known loops, two threads, the least times of interleaved rounds in one run.

python benchmarks/kernels.py --numba PYTHON     PYTHON is an interpreter that has numba and NumPy

Each of the two runs in a process of its own; they take turns.  Results are written into memory that exists in numba's
case, and into new tensors in Nacre's.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parents[1] / "docs"
NAMES = ("mandelbrot", "gravity", "smith_waterman", "black_scholes", "csr_product", "stencil")


def child(numba: bool, threads: int) -> None:
    """Read names of kernels, and write the least time of some calls of each."""
    if numba:
        import numba as compiler

        compiler.set_num_threads(threads)
    sys.path.insert(0, str(DOCS))
    from kernel_examples import problems

    clock = time.process_time if threads == 1 else time.perf_counter
    calls: dict[str, Callable[[], Any]] = {}
    for name, (f, inputs, outputs) in problems().items():
        if numba:
            calls[name] = lambda f=f, xs=(*inputs, *outputs): f(*xs)
        else:
            import nacre as nc

            calls[name] = lambda f=f, xs=tuple(map(nc.asarray, inputs)): f(*xs)
    for line in sys.stdin:
        call = calls[line.strip()]
        call()
        best, end = float("inf"), clock() + 0.1
        while best == float("inf") or clock() < end:
            begun = clock()
            call()
            best = min(best, clock() - begun)
        print(best, flush=True)


def main() -> None:
    """Print a table of times and ratios."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--numba", default=sys.executable, help="an interpreter that has numba")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--threads", type=int, default=2, help="with one, the processor's time is measured")
    parser.add_argument("--child", choices=("nacre", "numba"))
    given = parser.parse_args()
    if given.child:
        child(given.child == "numba", given.threads)
        return
    environment = {**os.environ, "NACRE_NUM_THREADS": str(given.threads), "NUMBA_NUM_THREADS": str(given.threads)}
    processes = {
        who: subprocess.Popen(
            [python, __file__, "--child", who, "--threads", str(given.threads)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
        for who, python in (("nacre", sys.executable), ("numba", given.numba))
    }
    best = {(who, name): float("inf") for who in processes for name in NAMES}
    for _ in range(given.rounds):
        for name in NAMES:
            for who, process in processes.items():
                assert process.stdin is not None and process.stdout is not None
                process.stdin.write(name + "\n")
                process.stdin.flush()
                best[who, name] = min(best[who, name], float(process.stdout.readline()))
    print("| loop | Nacre | numba | ratio |\n|---|---|---|---|")
    for name in NAMES:
        ours, theirs = best["nacre", name], best["numba", name]
        print(f"| {name} | {ours * 1e3:.2f} ms | {theirs * 1e3:.2f} ms | {ours / theirs:.2f} |")
    for process in processes.values():
        assert process.stdin is not None
        process.stdin.close()
        process.wait()


if __name__ == "__main__":
    main()
