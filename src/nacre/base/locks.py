"""Locks that are unlocked in a forked child, and work that one thread does for all threads.

An interrupt may come between any two steps of Python code.  So `with` blocks take native locks, not a
`threading.Condition`, whose methods are Python code: an interrupt in one would leave the lock taken.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Hashable, MutableMapping
from functools import cache, update_wrapper
from typing import Any, ParamSpec, TypeVar

from nacre.base.forks import around_forks

P = ParamSpec("P")
R = TypeVar("R")
K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


def forkable() -> threading.Lock:
    """A lock for which a fork waits: in the child it is unlocked, and the data that it guards is consistent.

    >>> with forkable():
    ...     pass
    """
    lock = threading.Lock()
    around_forks(lock.acquire, lock.release, lock.release)
    return lock


def in_child(begin: Callable[[], object]) -> None:
    """Register a call that every forked child makes first."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=begin)


def renewed() -> Callable[[], threading.RLock]:
    """A function that returns a reentrant lock, and a new one in each forked child.

    >>> lock = renewed()
    >>> with lock(), lock():
    ...     pass
    """
    locks = [threading.RLock()]
    in_child(lambda: locks.__setitem__(0, threading.RLock()))
    return lambda: locks[0]


def of_threads_there(known: dict[int, Any], changed: Callable[[], object]) -> None:
    """Make forked children remove the entries of other threads from `known`, by thread number, and call `changed`."""

    def alone() -> None:
        for thread in known.keys() - {threading.get_ident()}:
            del known[thread]
        changed()

    in_child(alone)


class Turns:
    """Work that one thread does at a time for each key, while other threads that want the same key wait.

    A thread may take a turn during a turn of its own, for the same or another key.  If threads would wait for each
    other in a cycle, one of them continues at once.  So a thread first checks whether the work is done, and two results
    for one key must be equal.  A turn ends with the work, even if that raises an error.

    >>> turns = Turns()
    >>> turns.take("sum", lambda: 1 + 2)
    3
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._state = threading.Condition(self._lock)
        self._taken: dict[int, list[Hashable]] = {}  # by thread, in the order in which it took them
        self._wanted: dict[int, Hashable] = {}  # the key that a thread waits for
        in_child(self._alone)

    def take(self, key: Hashable, work: Callable[[], R]) -> R:
        """The result of work(), done while no other thread works on an equal key."""
        thread = threading.get_ident()
        before = len(self._taken.get(thread, ()))
        try:
            self._begin(thread, key)
            return work()
        finally:
            try:
                self._end(thread, before)
            except BaseException:  # an interrupt, before or during the call
                self._end(thread, before)
                raise

    def fill(
        self,
        known: MutableMapping[K, V],
        key: K,
        limit: int,
        make: Callable[[], V],
        version: Callable[[], object] = lambda: None,
    ) -> V:
        """`known[key]`, made by one thread if missing; at the limit the oldest entry is dropped.

        A value is not stored if `version` has changed while it was made (see `clear`).

        >>> known = {}
        >>> Turns().fill(known, "three", 100, lambda: 3), known
        (3, {'three': 3})
        """

        def look() -> V:
            """The value that another thread has added, or a new one."""
            found = known.get(key)
            if found is None:
                before = version()
                found = make()
                with self._lock:
                    if len(known) >= limit:
                        known.pop(next(iter(known)), None)
                    if version() == before:
                        known[key] = found
            return found

        return self.take((id(known), hash(key)), look)

    def clear(self, *caches: MutableMapping[Any, Any]) -> None:
        """Empty what `fill` has filled.  The version changes first, so that no value of before is stored later."""
        with self._lock:
            for known in caches:
                known.clear()

    def drop(self, known: MutableMapping[K, V], key: K, value: V) -> None:
        """Remove `known[key]` if it still is the value, not one that `fill` has stored meanwhile.

        >>> known = {"three": 3}
        >>> Turns().drop(known, "three", 2), known
        (None, {'three': 3})
        """
        with self._lock:
            if known.get(key) is value:
                del known[key]

    def _begin(self, thread: int, key: Hashable) -> None:
        with self._lock:
            while self._blocked(thread, key):
                self._wanted[thread] = key
                self._state.wait()
            self._wanted.pop(thread, None)
            self._taken.setdefault(thread, []).append(key)

    def _end(self, thread: int, before: int) -> None:
        """Release a thread's turns beyond a number; a second call has no effect."""
        with self._lock:
            self._wanted.pop(thread, None)
            del self._taken.get(thread, [])[before:]
            if not before:
                self._taken.pop(thread, None)
            self._state.notify_all()

    def _blocked(self, thread: int, key: Hashable) -> bool:
        """Whether another thread works on the key and does not wait, directly or indirectly, for this one."""
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
        """Remove the turns of other threads in a forked child."""
        thread = threading.get_ident()
        self._lock = threading.RLock()
        self._state = threading.Condition(self._lock)
        self._taken = {thread: self._taken[thread]} if thread in self._taken else {}
        self._wanted = {}


def once(make: Callable[P, R]) -> Callable[P, R]:
    """A function whose results are computed once, like `functools.cache`, even if several threads call it first.

    For objects that must exist only once.  A child that is forked while another thread creates an object creates its
    own.

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
