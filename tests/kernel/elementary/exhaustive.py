"""Errors of unary functions at all 2^32 numbers of float32, as the compiled kernels compute them.

    PYTHONPATH=src:tests python tests/kernel/elementary/exhaustive.py [--minutes M] [--state FILE] [FUNCTION ...]

The program goes on where it stopped, until a definition of a function changes.  A finished function is recorded in
docs/accuracy.json.  The reference is float64 of NumPy and SciPy, which is compared with mpmath in every block.  The
exit status is 1 if an error is above 2 ulp or the reference is wrong.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import nacre.compile.program.executor  # noqa: F401  (operations need it)
from kernel.accuracy import record, recorded
from kernel.elementary.ulps import BINARY, EXACT, WIDE, Array, beyond_reach, error_of_float64, ulps_by_float64
from nacre.base.dtypes import float32
from nacre.interpret.evaluate import from_numpy, to_numpy
from nacre.ops import pointwise

ROOT = Path(__file__).parents[3]
STATE = ROOT / "build" / "every_float32.json"
UNARY = tuple(op for op in EXACT if op not in BINARY)
BLOCK = 1 << 20
BLOCKS = (1 << 32) // BLOCK
STRIDE = 1657  # prime to their number: the first blocks are spread over all numbers
BOUND = 2.0
REFERENCE_BOUND = 8  # of float64's own units
COMPARED = 4  # numbers of a block with mpmath
SAVED_EVERY = 5.0  # seconds


def definitions() -> str:
    """A hash of what the errors depend on."""
    paths = sorted((ROOT / "src" / "nacre" / "kernel" / "elementary").glob("*.py"))
    return hashlib.sha256(b"".join(p.read_bytes() for p in paths)).hexdigest()[:16]


def block(k: int) -> Array:
    """The numbers of the block that comes k-th."""
    first = (k * STRIDE) % BLOCKS * BLOCK
    return np.arange(first, first + BLOCK, dtype=np.uint64).astype(np.uint32).view(np.float32)


def errors(op: str, x: Array) -> tuple[Array, Array]:
    """The error of each number in units in the last place, and the reference."""
    got = to_numpy(getattr(pointwise, op)(from_numpy(x)))
    with np.errstate(all="ignore"):
        exact = WIDE[op](x.astype(np.float64))
    return ulps_by_float64(got, exact, float32), exact


def error_of_reference(op: str, x: float, reference: float) -> float:
    """The reference's error against mpmath in float64's units; 0 where mpmath would take too long."""
    if not np.isfinite([x, reference]).all() or reference == 0 or beyond_reach(op, x):
        return 0.0
    return error_of_float64(op, reference, x)


def measure(op: str, k: int) -> dict[str, Any]:
    """The largest error of a block, and that of the reference where it was compared."""
    x = block(k)
    found, exact = errors(op, x)
    at = int(np.argmax(found))
    compared = [at, *np.random.default_rng(k).integers(0, BLOCK, COMPARED)]
    reference = max(error_of_reference(op, float(x[i]), float(exact[i])) for i in compared)
    return {"error": float(found[at]), "at": float(x[at]).hex(), "reference": reference}


class Progress:
    """The blocks that are done, in a file."""

    def __init__(self, path: Path) -> None:
        self.path, self.made_of, self.saved = path, definitions(), time.monotonic()
        known = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        self.functions: dict[str, dict[str, Any]] = known["functions"] if known.get("of") == self.made_of else {}

    def of(self, op: str) -> dict[str, Any]:
        """The state of the measurement of a function."""
        return self.functions.setdefault(op, {"blocks": 0, "error": 0.0, "at": "", "reference": 0.0, "seconds": 0.0})

    def add(self, op: str, found: dict[str, Any], seconds: float) -> None:
        """Note the next block of a function."""
        known = self.of(op)
        known["blocks"] += 1
        known["seconds"] += seconds
        known["reference"] = max(known["reference"], found["reference"])
        if found["error"] > known["error"]:
            known.update(error=found["error"], at=found["at"])
        if time.monotonic() - self.saved > SAVED_EVERY or known["blocks"] == BLOCKS:
            self.save()

    def save(self) -> None:
        """Write the file, as a whole."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        part = self.path.with_suffix(".part")
        part.write_text(json.dumps({"of": self.made_of, "functions": self.functions}, indent=1), encoding="utf-8")
        part.replace(self.path)
        self.saved = time.monotonic()


def line(op: str, known: dict[str, Any]) -> str:
    """The state of the measurement of a function, in words."""
    share, rest = known["blocks"] / BLOCKS, BLOCKS - known["blocks"]
    left = known["seconds"] / max(known["blocks"], 1) * rest / 60
    return (
        f"{op:8} {share:7.2%}  largest error {known['error']:.4f} ulp at {known['at'] or 'none'}, "
        f"reference within {known['reference']:.2f} of float64's; {left:.0f} minutes are left"
    )


def run(ops: Sequence[str], progress: Progress, until: float) -> None:
    """Measure blocks of all functions in turn until a time."""
    while time.monotonic() < until:
        waiting = [op for op in ops if progress.of(op)["blocks"] < BLOCKS]
        if not waiting:
            return
        op = min(waiting, key=lambda op: progress.of(op)["blocks"])
        begin = time.monotonic()
        found = measure(op, progress.of(op)["blocks"])
        progress.add(op, found, time.monotonic() - begin)


def main(arguments: Sequence[str]) -> int:
    """Measure, print the state of all functions, and record complete ones."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=float("inf"))
    parser.add_argument("--state", type=Path, default=STATE)
    parser.add_argument("functions", nargs="*", metavar="FUNCTION", help=", ".join(UNARY))
    given = parser.parse_args(arguments)
    if unknown := set(given.functions) - set(UNARY):
        parser.error(f"functions must be of {', '.join(UNARY)}; got {', '.join(unknown)}")
    ops = given.functions or UNARY
    progress = Progress(given.state)
    try:
        run(ops, progress, time.monotonic() + 60 * given.minutes)
    finally:
        progress.save()
    known = {op: progress.of(op) for op in ops}
    print("\n".join(line(op, k) for op, k in known.items()))
    complete = {op: {"float32": round(k["error"], 4)} for op, k in known.items() if k["blocks"] == BLOCKS}
    if complete:
        record(exhaustive=recorded().get("exhaustive", {}) | complete)
    return int(any(k["error"] > BOUND or k["reference"] > REFERENCE_BOUND for k in known.values()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
