"""Garbage collection that waits while much is made that stays."""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager

from nacre.base.locks import forkable

_lock = forkable()
_inside = 0
_collects = False


@contextmanager
def uncollected() -> Generator[None]:
    """A block, or with `@uncollected()` a function, in which nothing is searched for cycles that are garbage.

    Tracing and compiling make objects by the hundred thousand and drop few: to go through all that the process holds,
    again and again while they grow, is a tenth of their time.  In the end what is there counts as old, to be looked at
    when all is, unless somebody has frozen objects.
    """
    global _inside, _collects
    with _lock:
        if not _inside:
            _collects = gc.isenabled()
            gc.disable()
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if not _inside and _collects:
                if not gc.get_freeze_count():
                    gc.freeze()
                    gc.unfreeze()
                gc.enable()
