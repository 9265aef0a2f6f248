"""An interrupt, as the terminal sends it, while a block runs."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

AGAIN = 5.0  # seconds


@contextmanager
def interrupted(after: float = 0.3) -> Iterator[None]:
    """The block must end by a KeyboardInterrupt; SIGINT comes `after` seconds from its start, and again while it runs.

    One signal is not enough: Python drops an interrupt that arrives in a callback of the garbage collector.  The
    handler is Python's also where a shell had the signal ignored, as it does for programs in the background.
    """
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    over = threading.Event()

    def send() -> None:
        wait = after
        while not over.wait(wait):
            os.kill(os.getpid(), signal.SIGINT)
            wait = AGAIN

    sender = threading.Thread(target=send)
    sender.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            yield
    finally:
        over.set()
        sender.join()
        signal.signal(signal.SIGINT, handler)
