"""Ctrl-C and the wish of a system that a process end, heard at the end of a step."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

HEARD = (signal.SIGINT, signal.SIGTERM)


class Interrupted(KeyboardInterrupt):
    """A training was asked to end; it has finished its step, and saved where it has a folder."""


class Ear:
    """The first signal that was heard, or 0."""

    def __init__(self) -> None:
        self.heard = 0


@contextmanager
def listening(say: Callable[[str], object]) -> Generator[Ear]:
    """Hear SIGINT and SIGTERM during the block; a second one ends the process as it does without.

    In another thread than the main one nothing is heard, as Python has it.
    """
    ear = Ear()
    if threading.current_thread() is not threading.main_thread():
        yield ear
        return
    before: dict[signal.Signals, Any] = {s: signal.getsignal(s) for s in HEARD}

    def restore() -> None:
        for s, handler in before.items():
            signal.signal(s, signal.SIG_DFL if handler is None else handler)

    def hear(number: int, frame: Any) -> None:
        ear.heard = number
        restore()
        say("interrupted: finishing the step (again: end at once)")

    for s in HEARD:
        signal.signal(s, hear)
    try:
        yield ear
    finally:
        restore()
