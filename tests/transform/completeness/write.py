"""Write docs/transformations.json, the data of the page on transformations, from runs of all cases.

`python tests/transform/completeness/write.py [NAME ...]` runs all operations, or some and keeps the rest.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

import nacre.compile.program.executor  # noqa: F401  (operations need it)
from transform.completeness.cases import CONTROL, OPERATIONS, cases_of
from transform.completeness.checks import cells

DATA = Path(__file__).parents[3] / "docs" / "transformations.json"


def recorded() -> dict[str, dict[str, dict[str, str]]]:
    """The data: for each chapter the operations, and for each of these the cells by transformation."""
    return json.loads(DATA.read_text(encoding="utf-8"))


def main(names: Sequence[str]) -> int:
    """Run cases and write the data; 1 where a cell is red."""
    known = {k: v for chapter in recorded().values() for k, v in chapter.items()} if DATA.exists() else {}
    found = {name: cells(cases_of(name)) for name in names or [*OPERATIONS, *CONTROL]}
    known |= found
    chapters = {"Operations": OPERATIONS, "Control flow and rules": CONTROL}
    data = {title: {n: known[n] for n in chapter if n in known} for title, chapter in chapters.items()}
    DATA.write_text(json.dumps(data, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    red = [f"{name}, {t}: {c}" for name, row in found.items() for t, c in row.items() if c.startswith("red")]
    sys.stdout.write("".join(f"{line}\n" for line in red) + f"{len(found)} operations, {len(red)} red cells\n")
    return bool(red)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
