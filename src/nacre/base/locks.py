"""Locks that are free in a forked child whatever other threads did as it was made; what one thread makes for all."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Hashable
from functools import cache, update_wrapper
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


def forkable() -> threading.Lock:
    """A lock for which a fork waits, so that the child finds it free and what it guards whole.

    >>> with forkable():
    ...     pass
    """
    lock, taken = threading.Lock(), list[bool]()

    def take() -> None:
        """A fork begins."""
        taken.append(lock.acquire())

    def release() -> None:
        """The fork is done; it knew nothing of a lock that another thread made meanwhile."""
        if taken:
            taken.clear()
            lock.release()

    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=take, after_in_parent=release, after_in_child=release)
    return lock


def in_child(begin: Callable[[], object]) -> None:
    """Let every forked child begin with a call."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=begin)


def renewed() -> Callable[[], threading.RLock]:
    """A lock that one thread may take again and again, and a new one in each forked child: a call gives it.

    >>> lock = renewed()
    >>> with lock(), lock():
    ...     pass
    """
    locks = [threading.RLock()]
    in_child(lambda: locks.__setitem__(0, threading.RLock()))
    return lambda: locks[0]


def of_threads_there(known: dict[int, Any], changed: Callable[[], object]) -> None:
    """Let forked children drop what is known of other threads, by their numbers, as they are gone; then call."""

    def alone() -> None:
        for thread in known.keys() - {threading.get_ident()}:
            del known[thread]
        changed()

    in_child(alone)


def once(make: Callable[P, R]) -> Callable[P, R]:
    """A function whose results are made once, as `functools.cache` has it, even if several threads ask at first.

    For what there must not be two of.  A child that is forked while another thread makes it makes its own.

    >>> @once
    ... def token() -> object:
    ...     return object()
    >>> token() is token()
    True
    """
    known: dict[Hashable, R] = {}
    lock = renewed()

    def guarded(*args: Any, **kwargs: Any) -> R:
        key = args, *kwargs.items()
        with lock():
            if key not in known:
                known[key] = make(*args, **kwargs)
            return known[key]

    return update_wrapper(cache(guarded), make)  # type: ignore[return-value]
