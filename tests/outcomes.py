"""The outcomes of other projects' test suites, as rows of a table."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple


class Outcome(NamedTuple):
    """The counts of one part of a suite, and its tests that failed."""

    name: str
    passed: int
    failed: tuple[str, ...]
    skipped: int

    @property
    def row(self) -> str:
        """A row of the table of results."""
        return f"| `{self.name}` | {self.passed} | {len(self.failed)} | {self.skipped} |"


def print_table(what: str, runs: Iterable[Callable[[], Outcome]]) -> int:
    """Run the parts of a suite; print the row of each, then the failed tests.  The status is 1 if there are some."""
    print(f"| {what} | passed | failed | skipped |\n|---|---|---|---|", flush=True)
    outcomes: list[Outcome] = []
    for run in runs:
        outcomes.append(run())
        print(outcomes[-1].row, flush=True)
    for outcome in outcomes:
        for name in outcome.failed:
            print(f"failed: {outcome.name}: {name}")
    return int(any(outcome.failed for outcome in outcomes))
