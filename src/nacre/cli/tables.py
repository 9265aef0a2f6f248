"""Tables of numbers for a terminal, a pipe or a file: names may be cut, numbers never are."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.table import Table

SHORTEST, LONGEST = 12, 44  # characters of the first column
BETWEEN = 2  # blanks behind each column


def numbers(title: str, first: str, heads: Sequence[str]) -> Table:
    """A table whose first column is names, and the others numbers."""
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False,
                  show_edge=False)
    table.add_column(first, no_wrap=True, overflow="ellipsis")
    for head in heads:
        table.add_column(head, justify="right", no_wrap=True)
    return table


def show(console: Console, table: Table) -> None:
    """Print a table: the first column takes what the numbers leave of a terminal's width.

    Where not even SHORTEST characters are left, lines are longer than the terminal is wide.
    """
    widths = [max(len(str(text)) for text in (column.header, *column.cells)) for column in table.columns]
    rest = sum(widths[1:]) + BETWEEN * len(widths)
    room = max(SHORTEST, console.width - rest) if console.is_terminal else LONGEST
    widths[0] = min(widths[0], room, LONGEST)
    for column, width in zip(table.columns, widths, strict=True):
        column.min_width = column.max_width = width
    before = console.width
    console.width = max(before, sum(widths) + BETWEEN * len(widths))
    console.print(table, crop=False)
    console.width = before
