"""Garbage collection that waits while much is made that stays."""

from __future__ import annotations

import gc
import threading
from collections.abc import Generator
from contextlib import contextmanager

from nacre.base.locks import forkable, of_threads_there

_lock = forkable()
_depths: dict[int, int] = {}  # in how many such blocks each thread is
_collects = False


@contextmanager
def uncollected() -> Generator[None]:
    """A block, or with `@uncollected()` a function, in which nothing is searched for cycles that are garbage.

    Tracing and compiling make objects by the hundred thousand and drop few: to go through all that the process holds,
    again and again while they grow, is a tenth of their time.  In the end what is there counts as old, to be looked at
    when all is, unless somebody has frozen objects.
    """
    depth = _depths.get(threading.get_ident(), 0)
    try:
        _enter(depth + 1)
        yield
    finally:
        _enter(depth)


def _enter(depth: int) -> None:
    """State in how many blocks this thread is."""
    global _collects
    with _lock:
        if depth and not _depths:
            _collects = gc.isenabled()
            gc.disable()
        _depths[threading.get_ident()] = depth
        if not depth:
            del _depths[threading.get_ident()]
            _resume()


def _resume() -> None:
    """Search for garbage again where no thread is in a block."""
    global _collects
    if not _depths and _collects:
        _collects = False
        if not gc.get_freeze_count():
            gc.freeze()
            gc.unfreeze()
        gc.enable()


of_threads_there(_depths, _resume)
