"""What a training shows while it runs: a bar of the epoch on a terminal, a line for each epoch everywhere."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from nacre.train.history import VALID
from nacre.train.metrics import means

BETWEEN = 0.1  # seconds between two looks of the bar
PLACES = ("epoch", "step")


def shown(values: Mapping[str, Any]) -> str:
    """Values by name in four digits, those of validation after a stroke."""
    def text(names: list[str]) -> str:
        return "  ".join(f"{n.removeprefix(VALID)} {_digits(values[n])}" for n in names)

    own = [n for n, v in values.items() if n not in PLACES and not n.startswith(VALID) and v is not None]
    held = [n for n, v in values.items() if n.startswith(VALID) and v is not None]
    return text(own) + (f"  | validation {text(held)}" if held else "")


def _digits(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


class Display:
    """A training on a console; nothing without one."""

    def __init__(self, console: Console | None) -> None:
        self.console = console
        self.progress: Progress | None = None
        self.task: Any = None
        self.epochs, self.next, self.began, self.done = 0, 0.0, 0.0, 0

    def say(self, text: str) -> None:
        """A line of its own."""
        if self.console is not None:
            self.console.print(escape(text), soft_wrap=True)

    def show(self, drawn: Any) -> None:
        """Something that is drawn."""
        if self.console is not None:
            self.console.print(drawn, soft_wrap=True)

    def begin(self, epochs: int) -> None:
        """The training begins."""
        self.epochs = epochs
        if self.console is not None and self.console.is_terminal:
            columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(),
                       TextColumn("{task.fields[values]}"))
            self.progress = Progress(*columns, console=self.console, auto_refresh=False, transient=True)
            self.progress.start()

    def epoch_begins(self, epoch: int, total: int | None, done: int) -> None:
        """An epoch of so many batches begins, of which some are done."""
        self.began, self.done, self.next = time.perf_counter(), done, 0.0
        if self.progress is not None:
            if self.task is not None:
                self.progress.remove_task(self.task)
            self.task = self.progress.add_task(f"epoch {epoch}/{self.epochs}", total=total, completed=done, values="")

    def step(self, batches: int, values: Mapping[str, tuple[float, float]]) -> None:
        """So many batches of the epoch are done."""
        if self.progress is None or (now := time.perf_counter()) < self.next:
            return
        self.next = now + BETWEEN
        rate = (batches - self.done) / max(now - self.began, 1e-9)
        self.progress.update(self.task, completed=batches, values=f"{shown(means(values))}  {rate:.3g} batches/s")
        self.progress.refresh()

    def epoch(self, row: Mapping[str, Any], best: bool) -> None:
        """An epoch's row."""
        self.say(f"epoch {row['epoch']}/{self.epochs}  {shown(row)}{'  best so far' if best else ''}")

    def close(self) -> None:
        """The training ends."""
        if self.progress is not None:
            self.progress.stop()
            self.progress = self.task = None
