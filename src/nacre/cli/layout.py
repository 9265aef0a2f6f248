"""Text for a terminal, a pipe or a file: lines break at blanks alone, and no word is cut."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.text import Text

WIDEST = 100  # characters of a line of prose on a wide terminal
GAP = 2  # blanks between two columns


def columns() -> int:
    """The width of the terminal, or COLUMNS, or 80; at most WIDEST."""
    return min(WIDEST, shutil.get_terminal_size().columns)


def wrapped(text: str, width: int, indent: int = 0, hanging: int | None = None) -> list[str]:
    """The lines of a text, `indent` blanks in; lines after a break are `hanging` blanks in.

    >>> wrapped("options of decode-int8 and more", 16, indent=2)
    ['  options of', '  decode-int8', '  and more']
    """
    following = indent if hanging is None else hanging
    lines: list[str] = []
    for line in text.splitlines():
        lines += textwrap.wrap(
            line,
            max(width, following + 8),
            initial_indent=" " * indent,
            subsequent_indent=" " * following,
            break_long_words=False,
            break_on_hyphens=False,
        ) or [""]
    return lines


def definitions(rows: Iterable[tuple[str, str]], width: int, indent: int = 2, widest: int = 22) -> list[str]:
    """A name and its text on each line; a longer name has the text on the next line.

    >>> definitions([("run", "run a program"), ("doctor", "check this machine")], 22)
    ['  run     run a program', '  doctor  check this', '          machine']
    """
    rows = list(rows)
    column = indent + GAP + max((len(name) for name, _ in rows if len(name) <= widest), default=widest)
    lines: list[str] = []
    for name, text in rows:
        wrapped_text = wrapped(text, width, column)
        beside = len(name) + indent + GAP <= column
        if beside and wrapped_text:
            lines.append((" " * indent + name).ljust(column) + wrapped_text[0].lstrip())
            wrapped_text = wrapped_text[1:]
        else:
            lines.append(" " * indent + name)
        lines += wrapped_text
    return lines


def show(console: Console, lines: str | Sequence[str], style: str = "") -> None:
    """Print lines unchanged; a terminal that is narrower breaks them itself."""
    text = lines if isinstance(lines, str) else "\n".join(lines)
    console.print(Text(text, style), soft_wrap=True)
