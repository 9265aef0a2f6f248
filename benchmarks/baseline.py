"""The work that the workloads of `nacre bench` hold, counted, against what it was when `baseline.json` was written.

    python3 run.py bench baseline            compare, and exit with 1 where a count has grown
    python3 run.py bench baseline --write    keep today's counts
    ... --tiny                               the tiny sizes alone

Counted are floating-point operations, bytes that kernels move, launches, different kernels, the instructions of their
LLVM text, and the arena's bytes, all for AVX-512 whatever machine counts: no seconds, so any machine can compare.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from nacre.compile.pipeline import compile_graph
from nacre.examples.workloads import WORKLOADS
from nacre.inspect.work import work
from nacre.native.engine import cross_target

FILE = Path(__file__).with_name("baseline.json")
ISA = "avx512"
TOLERANCE, SLACK = 0.03, 2  # how much a count may grow before it is a fault: this part of it, and so many
Counts = dict[str, int]


def counts(name: str, tiny: bool) -> Counts:
    """The counted work of a workload."""
    function, arguments = WORKLOADS[name].ready(tiny)
    compiled = compile_graph(function.trace(*arguments), target=cross_target(ISA))
    return asdict(work(compiled, {}))


def grown(now: Counts, before: Counts) -> Iterator[str]:
    """The counts that have grown by more than the tolerance, as sentences."""
    for what, number in now.items():
        if number > before[what] * (1 + TOLERANCE) + SLACK:
            yield f"{what}: {before[what]:,} became {number:,} ({number / max(1, before[what]) - 1:+.1%})"


def load() -> dict[str, dict[str, Counts]]:
    """The counts that were kept, by size and workload."""
    return json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {}


def main() -> int:
    """Count, and compare or keep."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--tiny", action="store_true")
    given = parser.parse_args()
    kept, fine = load(), True
    for size in ("tiny",) if given.tiny else ("tiny", "full"):
        now = {name: counts(name, size == "tiny") for name in WORKLOADS}
        for name, found in now.items():
            faults = list(grown(found, kept.get(size, {}).get(name, found)))
            fine &= not faults
            for fault in faults:
                print(f"{name} ({size}): {fault}")
        if given.write:
            kept[size] = now
    if given.write:
        FILE.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
        print(f"written: {FILE}")
        return 0
    if not fine:
        print("counts have grown; if that is meant: python3 run.py bench baseline --write")
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
