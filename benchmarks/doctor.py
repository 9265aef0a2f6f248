"""Training steps whose numbers `nc.detect_anomalies` examines, beside the same steps without it, in turn.

    python3 run.py bench doctor [mlp convnet gpt] [--modes eager compiled] [--rounds 10] [--seconds 0.2] [--tiny]

The steps are those of the workloads of these names.  All variants of a step train one model.  Each line has the time
of a step, and the times with the kinds that are NaN, infinities and overflow, and with all kinds, relative to it:
least, and median in brackets.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import nacre as nc
from nacre.examples.workloads import WORKLOADS
from nacre.inspect.timing import interleaved

NAMES = ("mlp", "convnet", "gpt")
MODES = ("eager", "compiled")
THREADS = 2
KINDS: dict[str, Any] = {"": False, "NaN, Inf, overflow": ("division", "nan", "overflow", "input"), "all kinds": "all"}

Step = Callable[[], Any]


def eager(step: Callable[..., Any], given: Any, kinds: Any) -> Step:
    """The step, operation by operation."""
    examined = nc.detect_anomalies(kinds)(step) if kinds else step
    return lambda: examined(*given)


def compiled(step: Callable[..., Any], given: Any, kinds: Any) -> Step:
    """The step as one program."""
    examined = nc.jit(step, detect_anomalies=kinds)
    return lambda: examined(*given)


def main() -> None:
    """Run the steps in turn, and print a line for each workload and mode."""
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*", default=NAMES)
    parser.add_argument("--modes", nargs="*", default=MODES, choices=MODES)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=0.2, help="of each variant in each round")
    parser.add_argument("--tiny", action="store_true", help="the sizes for tests")
    given = parser.parse_args()
    nc.set_threads(THREADS)
    print(f"{'workload':10} {'mode':10} {'ms':>8}  " + "  ".join(f"{kind:>20}" for kind in KINDS if kind))
    for name in given.names:
        for mode in given.modes:
            step, arguments = WORKLOADS[name].plain(given.tiny)
            calls = {kind: globals()[mode](step, arguments, kinds) for kind, kinds in KINDS.items()}
            times = interleaved(calls, given.rounds, given.seconds)
            plain = times[""]
            cells = [f"{t.least / plain.least:.2f} ({t.median / plain.median:.2f})" for k, t in times.items() if k]
            print(f"{name:10} {mode:10} {1e3 * plain.least:8.2f}  " + "  ".join(f"{c:>20}" for c in cells), flush=True)


if __name__ == "__main__":
    main()
