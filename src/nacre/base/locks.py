"""Locks that are free in a forked child whatever other threads did as it was made; what one thread makes for all."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Hashable, MutableMapping
from functools import cache, update_wrapper
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")
K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


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


class Turns:
    """Work that one thread does at a time for each key, while others who want the same wait for their turn.

    A thread may take a turn amid its own, of the same key or another.  Where waiting would never end, as each of
    several threads waits for another's turn, one goes on at once; so who has a turn looks first whether the work is
    done, and what two have made must be equal.  A turn ends with the work, whatever that raises.

    >>> turns = Turns()
    >>> turns.take("sum", lambda: 1 + 2)
    3
    """

    def __init__(self) -> None:
        self._state = threading.Condition()
        self._taken: dict[int, list[Hashable]] = {}  # by thread, in the order in which it took them
        self._wanted: dict[int, Hashable] = {}  # what a thread waits for
        in_child(self._alone)

    def take(self, key: Hashable, work: Callable[[], R]) -> R:
        """What work() returns, done while no other thread does some of an equal key."""
        thread = threading.get_ident()
        before = len(self._taken.get(thread, ()))
        try:
            self._begin(thread, key)
            return work()
        finally:
            try:
                self._end(thread, before)
            except BaseException:  # an interrupt, before or amid it
                self._end(thread, before)
                raise

    def fill(self, known: MutableMapping[K, V], key: K, limit: int, make: Callable[[], V]) -> V:
        """`known[key]`, which one thread makes if it is not there; at the limit the oldest entry goes.

        >>> known = {}
        >>> Turns().fill(known, "three", 100, lambda: 3), known
        (3, {'three': 3})
        """

        def look() -> V:
            """What is known meanwhile, or is made now."""
            found = known.get(key)
            if found is None:
                found = make()
                with self._state:
                    if len(known) >= limit:
                        known.pop(next(iter(known)), None)
                    known[key] = found
            return found

        return self.take((id(known), hash(key)), look)

    def _begin(self, thread: int, key: Hashable) -> None:
        with self._state:
            while self._blocked(thread, key):
                self._wanted[thread] = key
                self._state.wait()
            self._wanted.pop(thread, None)
            self._taken.setdefault(thread, []).append(key)

    def _end(self, thread: int, before: int) -> None:
        """Give back what a thread took beyond a number of turns; twice is as good as once."""
        with self._state:
            self._wanted.pop(thread, None)
            del self._taken.get(thread, [])[before:]
            if not before:
                self._taken.pop(thread, None)
            self._state.notify_all()

    def _blocked(self, thread: int, key: Hashable) -> bool:
        """Whether another thread is at it that does not, over whatever many others, wait for this one."""
        if key in self._taken.get(thread, ()):
            return False
        found = at = [t for t, keys in self._taken.items() if key in keys]
        seen = set(at)
        while at:
            wanted = [self._wanted[t] for t in at if t in self._wanted]
            at = [t for t, keys in self._taken.items() if t not in seen and any(k in keys for k in wanted)]
            seen.update(at)
        return bool(found) and thread not in seen

    def _alone(self) -> None:
        """In a forked child: there are no others."""
        thread = threading.get_ident()
        self._state = threading.Condition()
        self._taken = {thread: self._taken[thread]} if thread in self._taken else {}
        self._wanted = {}


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
