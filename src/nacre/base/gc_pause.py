"""Pausing garbage collection while many long-lived objects are created."""

from __future__ import annotations

import gc
import threading
from collections.abc import Generator
from contextlib import contextmanager

from nacre.base.locks import forkable, of_threads_there

_lock = forkable()
_depths: dict[int, int] = {}  # the number of nested contexts that each thread is in
_collects = False
_frozen = False  # whether the program was once found to have frozen objects, which takes time for each of them


@contextmanager
def gc_paused() -> Generator[None]:
    """A context or, as `@gc_paused()`, a decorator in which the cyclic garbage collector is paused.

    Tracing and compiling create hundreds of thousands of objects and drop few.  Repeated collections would take a tenth
    of the time.  At the end, all existing objects move to the oldest generation, unless the program has frozen objects.
    """
    depth = _depths.get(threading.get_ident(), 0)
    try:
        _enter(depth + 1)
        yield
    finally:
        try:
            _enter(depth)
        except BaseException:  # an interrupt: the collector must be enabled nevertheless
            _enter(depth)
            raise


def _enter(depth: int) -> None:
    """Set the number of contexts that this thread is in; a second call completes an interrupted one."""
    global _collects
    with _lock:
        if depth and not _depths:
            _collects = gc.isenabled()
            gc.disable()
        if depth:
            _depths[threading.get_ident()] = depth
        else:
            _depths.pop(threading.get_ident(), None)
            _resume()


def _resume() -> None:
    """Resume garbage collection when no thread is in a context."""
    global _collects, _frozen
    if not _depths and _collects:
        gc.enable()
        _collects = False
        _frozen = _frozen or gc.get_freeze_count() > 0
        if not _frozen:
            try:
                gc.freeze()
            finally:
                gc.unfreeze()


of_threads_there(_depths, _resume)
