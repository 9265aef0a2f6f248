"""Locks that are free in a forked child, whatever other threads did as it was made."""

from __future__ import annotations

import os
import threading


def forkable() -> threading.Lock:
    """A lock for which a fork waits, so that the child finds it free and what it guards whole.

    >>> with forkable():
    ...     pass
    """
    lock = threading.Lock()
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release)
    return lock
