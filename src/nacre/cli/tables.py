"""Tables of numbers that fit the terminal: names wrap, and where that is not enough, rows become blocks."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import field

from rich.console import Console
from rich.text import Text

from nacre.base.records import dataclass
from nacre.cli import layout

SHORTEST, LONGEST = 12, 44  # characters of the first column
GAP = "  "


@dataclass
class Table:
    """A table whose first column is names, and the others numbers; a row of None draws a line."""

    title: str
    first: str
    heads: tuple[str, ...]
    rows: list[tuple[str, ...] | None] = field(default_factory=list[tuple[str, ...] | None])

    def add(self, name: str, *numbers: str) -> None:
        """Add a row; numbers that are left out are empty."""
        name = name.replace("…", "+more")  # the end of the label of a kernel with many operations
        self.rows.append((name, *numbers, *[""] * (len(self.heads) - len(numbers))))

    def rule(self) -> None:
        """Add a line across."""
        self.rows.append(None)

    def lines(self, width: int) -> list[str]:
        """The table as text: heads first; the title is not among the lines."""
        cells = [(self.first, *self.heads), *filter(None, self.rows)]
        widths = [max(len(row[k]) for row in cells) for k in range(len(self.heads) + 1)]
        room = width - sum(widths[1:]) - len(GAP) * len(self.heads)
        widths[0] = min(widths[0], LONGEST, max(room, 0))
        if widths[0] < min(SHORTEST, max(len(row[0]) for row in cells)):
            return self.blocks(width)
        rule = "─" * (sum(widths) + len(GAP) * len(self.heads))
        lines = [*_row((self.first, *self.heads), widths), rule]
        for row in self.rows:
            lines += [rule] if row is None else _row(row, widths)
        return lines

    def blocks(self, width: int) -> list[str]:
        """Each row as a block of lines: its name, then its numbers with their heads."""
        lines: list[str] = []
        for row in filter(None, self.rows):
            texts = [f"{head} {number}" for head, number in zip(self.heads, row[1:], strict=True) if number]
            lines += [*_parts(row[0], width), *_packed(texts, width)]
        return lines


def _row(row: Sequence[str], widths: Sequence[int]) -> list[str]:
    """A row's lines; its numbers are on the first line of the name."""
    first, *rest = _parts(row[0], widths[0])
    numbers = (text.rjust(w) for text, w in zip(row[1:], widths[1:], strict=True))
    return [GAP.join([first.ljust(widths[0]), *numbers]).rstrip(), *rest]


def _parts(name: str, width: int) -> list[str]:
    """A name on as many lines as it needs; a kernel's breaks before a +."""
    lines = [""]
    for word in re.split(r"(?=[+ ])", name):
        if lines[-1] and len(lines[-1]) + len(word) > width:
            lines.append("  " + word.lstrip())
        else:
            lines[-1] += word
        while len(lines[-1]) > width > 2:
            lines[-1:] = [lines[-1][:width], "  " + lines[-1][width:]]
    return lines


def _packed(texts: Sequence[str], width: int) -> list[str]:
    """Texts in lines that fit, as many on each as possible."""
    lines: list[str] = []
    for text in texts:
        if lines and len(lines[-1]) + len(GAP) + len(text) <= width:
            lines[-1] += GAP + text
        else:
            lines.append(GAP + text)
    return lines


def show(console: Console, table: Table) -> None:
    """Print a table under its title."""
    console.print(Text("\n".join(layout.wrapped(table.title, console.width)), "bold"), soft_wrap=True)
    layout.show(console, table.lines(console.width))
