"""Blocked signals: a thread runs a block of code without being interrupted; signals arrive behind it."""

from __future__ import annotations

import signal
import sys
from collections.abc import Collection, Generator
from contextlib import contextmanager
from typing import Any, Final

# the module behind `signal`, which uses plain numbers: creating members of an enumeration takes 50 µs
_mask: Any = getattr(sys.modules.get("_signal", signal), "pthread_sigmask", None)
ALL: Final = frozenset(map(int, signal.valid_signals() if _mask else ()))
ENDING: Final = frozenset((int(signal.SIGINT), int(signal.SIGTERM)))


@contextmanager
def blocked(signals: Collection[int]) -> Generator[None]:
    """Block signals in this thread until the end of the block; where the system cannot, nothing is blocked.

    A thread or process that is started within the block begins with these signals blocked.
    """
    if _mask is None:
        yield
        return
    before = _mask(signal.SIG_BLOCK, ())
    try:
        _mask(signal.SIG_BLOCK, signals)  # raises an interrupt that arrived just before
        yield
    finally:
        _mask(signal.SIG_SETMASK, before)


def unblock(signals: Collection[int]) -> None:
    """Unblock signals in this thread."""
    if _mask is not None:
        _mask(signal.SIG_UNBLOCK, signals)
