"""Measure the errors of all elementary and special functions, and record them for the tables of the documents.

    PYTHONPATH=src:tests python tests/kernel/accuracy.py [points]      writes docs/accuracy.json; then
    python3 run.py docs docs/numerics.md docs/special.md               writes the tables

Errors are in units in the last place: of float32 and shorter formats against float64 or mpmath, of float64 against
mpmath.  `tests/kernel/elementary/exhaustive.py` measures all numbers of float32.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

from kernel.elementary import ulps
from kernel.special import accuracy
from nacre.base.dtypes import DType, bfloat16, float16, float32, float64

FILE = Path(__file__).parents[2] / "docs" / "accuracy.json"
DTYPES: tuple[DType, ...] = (float16, bfloat16, float32, float64)
Errors = dict[str, dict[str, float]]  # by function and dtype


def elementary(points: int) -> Errors:
    """The largest error of each elementary function; float32 has a hundred times as many points."""
    counts = {float32: 100 * points}
    return {op: _printed(op, lambda d, op=op: ulps.worst(op, d, counts.get(d, points))[0]) for op in ulps.EXACT}


def special(points: int) -> Errors:
    """The largest error of each special function; that of negative numbers on its own."""
    found: Errors = {}
    for subject in accuracy.SUBJECTS:
        if subject.name != "implicit_gamma":  # which is exact
            name = subject.name + (", x < 0" if subject.least == 1 and len(subject.boxes[0]) == 1 else "")
            found[name] = _printed(name, lambda d, s=subject: accuracy.worst(s, d, points)[0])
    return found


def _printed(name: str, error: Callable[[DType], float]) -> dict[str, float]:
    """The error of a function in each dtype."""
    errors = {dtype.name: round(error(dtype), 3) for dtype in DTYPES}
    print(f"{name:16}", *(f"{dtype} {error:9.3f}" for dtype, error in errors.items()), flush=True)
    return errors


def recorded() -> dict[str, Errors]:
    """What the file holds."""
    return json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {}


def record(**parts: Errors) -> None:
    """Put parts into the file, and keep the others."""
    text = json.dumps(recorded() | parts, indent=1, ensure_ascii=False)
    FILE.write_text(text + "\n", encoding="utf-8")


def main(points: int) -> None:
    """Measure, print and record; a tenth of the points for special functions."""
    record(elementary=elementary(points))
    record(special=special(max(points // 10, 4)))


if __name__ == "__main__":
    main(int(sys.argv[1]) if sys.argv[1:] else 400)
