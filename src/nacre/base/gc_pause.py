"""Pausing garbage collection while many long-lived objects are created."""

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
def gc_paused() -> Generator[None]:
    """A context or, as `@uncollected()`, a decorator in which the cyclic garbage collector is paused.

    Tracing and compiling create hundreds of thousands of objects and drop few.  Repeated collections would take a tenth
    of the time.  At the end, all existing objects move to the oldest generation, unless the program has frozen objects.
    """
    depth = _depths.get(threading.get_ident(), 0)
    try:
        _enter(depth + 1)
        yield
    finally:
        _enter(depth)


def _enter(depth: int) -> None:
    """Count the contexts that this thread has entered."""
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
    """Resume garbage collection when no thread is in a context."""
    global _collects
    if not _depths and _collects:
        _collects = False
        if not gc.get_freeze_count():
            gc.freeze()
            gc.unfreeze()
        gc.enable()


of_threads_there(_depths, _resume)
