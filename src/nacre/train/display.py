"""The output of a running training: a progress bar in a terminal, everywhere an aligned line for each epoch."""

from __future__ import annotations

import textwrap
import time
import warnings
from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from nacre.train.metrics import means

BETWEEN = 0.1  # seconds between two updates of the bar
PLACES = ("epoch", "step")
WIDE = 9  # characters of a column of values
BESIDE = 45  # characters of the bar and the numbers next to it
NARROW = 80  # characters of a line without a console
BEST = "  best"  # after the line of the best epoch so far


def shown(values: Mapping[str, Any]) -> str:
    """Values by name in four digits."""
    return "  ".join(f"{n} {digits(v)}" for n, v in values.items() if n not in PLACES and v is not None)


def digits(value: Any) -> str:
    """A value in four digits, zeros at the end included; a dash for a missing one.

    >>> digits(0.5), digits(12.34567), digits(3), digits(None)
    ('0.5000', '12.35', '3', '–')
    """
    return "–" if value is None else f"{value:#.4g}".rstrip(".") if isinstance(value, float) else str(value)


class Columns:
    """The lines of a table of epochs: a head where the columns are new, then an aligned line for each epoch.

    Columns that do not fit into the width go on a second line of the same epoch, and so on.
    """

    def __init__(self, epochs: int, width: int) -> None:
        self.epochs, self.width = epochs, width
        self.names: list[str] = []

    def lines(self, row: Mapping[str, Any], best: bool) -> list[str]:
        """The lines for an epoch, with the head where it is needed."""
        new = [name for name in row if name not in PLACES and name not in self.names]
        self.names += new
        first = max(len(f"{self.epochs}/{self.epochs}"), len(PLACES[0]))
        cells = [(name, digits(row.get(name))) for name in self.names]
        widths = [max(len(name), WIDE) for name in self.names]
        rows: list[list[int]] = [[]]
        used = first
        for k, width in enumerate(widths):
            if rows[-1] and used + width + 2 > self.width - len(BEST):
                rows.append([])
                used = first
            rows[-1].append(k)
            used += width + 2
        heads = [
            self._line(PLACES[0] if j == 0 else "", first, [cells[k][0].rjust(widths[k]) for k in part])
            for j, part in enumerate(rows)
        ]
        place = f"{row[PLACES[0]]}/{self.epochs}"
        texts = [
            self._line(place if j == 0 else "", first, [cells[k][1].rjust(widths[k]) for k in part])
            for j, part in enumerate(rows)
        ]
        texts[0] += BEST if best else ""
        return [*(heads if new else []), *texts]

    @staticmethod
    def _line(place: str, first: int, cells: list[str]) -> str:
        return "  ".join([place.rjust(first), *cells])


class Display:
    """Shows a training on a console; shows nothing without one."""

    def __init__(self, console: Console | None) -> None:
        self.console = console
        self.progress: Progress | None = None
        self.task: Any = None
        self.epochs, self.next, self.began, self.done = 0, 0.0, 0.0, 0
        self.columns = Columns(0, NARROW)

    def say(self, text: str) -> None:
        """Print a text; it breaks at words where the console ends."""
        if self.console is not None:
            lines = textwrap.wrap(text, self.console.width, break_long_words=False, break_on_hyphens=False)
            self.console.print(escape("\n".join(lines)), soft_wrap=True)

    def warn(self, text: str) -> None:
        """Print a text that must not be missed; without a console it is a warning."""
        if self.console is None:
            warnings.warn(f"Trainer: {text}", UserWarning, stacklevel=2)
        self.say(text)

    def show(self, drawn: Any) -> None:
        """Print a drawing."""
        if self.console is not None:
            self.console.print(drawn, soft_wrap=True)

    def begin(self, epochs: int) -> None:
        """Begin a training."""
        self.epochs = epochs
        if self.console is not None:
            self.columns = Columns(epochs, self.console.width)
        if self.console is not None and self.console.is_terminal:
            columns = (
                TextColumn("{task.description}"),
                BarColumn(12),
                MofNCompleteColumn(),
                TimeRemainingColumn(),
                TextColumn("{task.fields[values]}"),
            )
            self.progress = Progress(*columns, console=self.console, auto_refresh=False, transient=True)
            self.progress.start()

    def epoch_begins(self, epoch: int, total: int | None, done: int) -> None:
        """Begin an epoch of `total` batches, of which `done` are done."""
        self.began, self.done, self.next = time.perf_counter(), done, 0.0
        if self.progress is not None:
            if self.task is not None:
                self.progress.remove_task(self.task)
            self.task = self.progress.add_task(f"epoch {epoch}/{self.epochs}", total=total, completed=done, values="")

    def step(self, batches: int, values: Mapping[str, tuple[float, float]]) -> None:
        """Show how many batches of the epoch are done, with their values."""
        if self.progress is None or (now := time.perf_counter()) < self.next:
            return
        self.next = now + BETWEEN
        rate = (batches - self.done) / max(now - self.began, 1e-9)
        texts = f"{rate:.3g} batches/s"
        measured = f"{shown(means(values))}  "
        if len(measured + texts) <= self.progress.console.width - BESIDE:
            texts = measured + texts
        self.progress.update(self.task, completed=batches, values=texts)
        self.progress.refresh()

    def epoch(self, row: Mapping[str, Any], best: bool) -> None:
        """Print the lines of an epoch."""
        for line in self.columns.lines(row, best):
            self.say(line)

    def close(self) -> None:
        """End the training."""
        if self.progress is not None:
            self.progress.stop()
            self.progress = self.task = None
