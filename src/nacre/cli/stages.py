"""The expected duration of a slow command, and on a terminal its current stage."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager

from rich.console import Console


def duration(seconds: float) -> str:
    """The approximate duration in words.

    >>> duration(20), duration(271)
    ('less than a minute', 'about 5 minutes')
    """
    minutes = round(seconds / 60 + 0.49)
    return "less than a minute" if seconds < 50 else f"about {minutes} minute{'s' if minutes != 1 else ''}"


@contextmanager
def stages(console: Console) -> Generator[Callable[[str], None]]:
    """A function that shows the current stage until the block ends; it does nothing without a terminal."""
    if not console.is_terminal:
        yield lambda text: None
        return
    with console.status("starting") as status:
        yield status.update
