"""Predicted against measured memory of training steps.

    python benchmarks/memory.py --bench PATH [W1 W2 W4]

PATH is a checkout of the benchmark whose workloads `benchmarks/adapter.py` plugs into.  For each case a fresh process
compiles the step, asks `memory()` what a call needs, runs five calls, and compares the prediction with the growth of
the process's resident set over what it was before the first call.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from pathlib import Path


def resident(field: str) -> int:
    """Bytes that the kernel reports for this process: `VmRSS` now, `VmHWM` the most since the last reset."""
    text = Path("/proc/self/status").read_text(encoding="utf-8")
    found = re.search(rf"{field}:\s+(\d+) kB", text)
    assert found is not None
    return int(found[1]) * 1024


def measure(case_id: str) -> dict[str, float]:
    """Run one case in this process."""
    from adapter import Nacre
    from mlbench.workloads import CASES

    case = CASES[case_id]
    step, arguments = Nacre().training_step(case)
    concrete = step.concrete(*arguments)
    predicted = step.memory(*arguments)
    # the optimiser's state is made at the first call, and code is loaded: neither is a step's
    for variable in concrete.variable_inputs:
        variable.cell.numpy().sum()
    Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")
    before = resident("VmRSS")
    for _ in range(5):
        step(*arguments).item()
    return {"predicted": predicted.outputs + predicted.workspace, "measured": resident("VmHWM") - before}


def main() -> int:
    """Measure each case in a process of its own and print a table; exit with 0 if all are within bounds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bench", required=True)
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("cases", nargs="*", default=["W1", "W2", "W4"])
    given = parser.parse_args()
    if given.inside:
        sys.path[:0] = [given.bench, str(Path(__file__).parent)]
        print(json.dumps(measure(given.cases[0])))
        return 0
    fine = True
    print("| case | predicted MiB | measured MiB | difference |\n|---|---|---|---|")
    for case in given.cases:
        command = [sys.executable, __file__, "--bench", given.bench, "--inside", case]
        result = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()[-1])
        p, m = result["predicted"] / 2**20, result["measured"] / 2**20
        fine &= abs(p - m) <= 0.05 * m + 8
        print(f"| {case} | {p:.1f} | {m:.1f} | {p - m:+.1f} |")
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
