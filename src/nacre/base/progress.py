"""A progress line in the terminal for compilations over one second; it is removed at the end.

No line is shown if the error output is not a terminal (a file, a pipe, a notebook), in threads other than the main one,
or with NACRE_PROGRESS=0.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager

DELAY = 1.0  # seconds of compiling before the line appears
EVERY = 0.1  # seconds between two updates
CLEAR = "\r\x1b[K"


class _Line:
    """The line of the current compilation, if there is one."""

    def __init__(self) -> None:
        self.name: str | None = None
        self.next = 0.0  # the earliest time of the next update
        self.written = False

    def begin(self, name: str) -> None:
        """Begin a compilation."""
        self.name, self.next = name, time.monotonic() + DELAY

    def end(self) -> None:
        """End the compilation."""
        self.name = None
        if self.written:
            self.written = False
            sys.stderr.write(CLEAR)
            sys.stderr.flush()

    def write(self, stage: str, done: int, total: int) -> None:
        """Show the progress of a stage, if an update is due."""
        now = time.monotonic()
        if now < self.next or threading.current_thread() is not threading.main_thread():
            return
        self.next = now + EVERY
        if not shown():
            return
        count = f"{done:,} of {total:,}" if total else f"{done:,}"
        text = f"nacre: {self.name}: {stage} {count}"
        sys.stderr.write(CLEAR + text[: os.get_terminal_size(sys.stderr.fileno()).columns - 1])
        sys.stderr.flush()
        self.written = True


_line = _Line()


def shown() -> bool:
    """Whether there is a terminal that no other code writes to, and the environment allows the line."""
    wanted = os.environ.get("NACRE_PROGRESS", "").strip().lower() not in ("0", "off", "no", "false")
    return wanted and sys.stderr is sys.__stderr__ and sys.stderr.isatty() and os.environ.get("TERM") != "dumb"


@contextmanager
def compiling(name: str) -> Generator[None]:
    """A context that compiles something with a name; a nested one is part of the outer one."""
    outermost = _line.name is None and threading.current_thread() is threading.main_thread()
    try:
        if outermost:
            _line.begin(name)
        yield
    finally:
        if outermost:
            _line.end()


def progress(stage: str, done: int, total: int = 0) -> None:
    """Report the progress of the current compilation; without one, this costs one comparison."""
    if _line.name is not None:
        _line.write(stage, done, total)
