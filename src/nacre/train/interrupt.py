"""Ctrl-C and SIGTERM, handled at the end of a step."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

__all__ = ["Interrupted"]

HEARD = (signal.SIGINT, signal.SIGTERM)


class Interrupted(KeyboardInterrupt):
    """A training was interrupted: it has finished its step, and saved a checkpoint if it has a folder."""


class SignalFlag:
    """The first signal that arrived, or 0."""

    def __init__(self) -> None:
        self.signal = 0


@contextmanager
def listening(say: Callable[[str], object]) -> Generator[SignalFlag]:
    """Catch SIGINT and SIGTERM during the block; a second signal ends the process as usual.

    Python handles signals in the main thread only, so another thread catches none.
    """
    flag = SignalFlag()
    if threading.current_thread() is not threading.main_thread():
        yield flag
        return
    before: dict[signal.Signals, Any] = {s: signal.getsignal(s) for s in HEARD}

    def restore() -> None:
        for s, handler in before.items():
            signal.signal(s, signal.SIG_DFL if handler is None else handler)

    def hear(number: int, frame: Any) -> None:
        flag.signal = number
        restore()
        say("interrupted: finishing the step (again: end at once)")

    for s in HEARD:
        signal.signal(s, hear)
    try:
        yield flag
    finally:
        restore()
