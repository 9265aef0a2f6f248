"""Forks that wait for registered parts, such as locks, and for the imports of other threads.

The import of `nacre` loads this module first, before another thread can import anything else of the package.
"""

from __future__ import annotations

import _imp
import os
import sys
import time
from _thread import get_ident
from collections.abc import Callable
from typing import Any, Final

PATIENCE: Final = 10.0  # seconds after which a fork no longer waits for imports
OURS: Final = frozenset({"nacre", "numpy", "llvmlite"})  # the packages that Nacre loads, besides the standard library

Part = tuple[Callable[[], object], Callable[[], object], Callable[[], object]]  # take; release; release in the child
IMPORTS: Final[Part] = (_imp.acquire_lock, _imp.release_lock, _imp.release_lock)  # prevents new imports


class _Forks:
    """The registered parts, which a fork takes in reverse order, and then the imports of other threads.

    An import holds one of Python's own locks, which would stay locked in a child for ever.  So a fork waits until no
    other thread is importing, and prevents new imports.  An import may need any of the parts, so the parts are released
    while one is running.
    """

    def __init__(self) -> None:
        self.early: list[Part] = []  # taken before the others, which a thread may need until then
        self.parts: list[Part] = []
        self._held: list[Part] = []  # in the order in which they are released
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(before=self._begin, after_in_parent=self._resume, after_in_child=self._alone)

    def _begin(self) -> None:
        until = time.monotonic() + PATIENCE
        while True:
            for part in (*self.early, *reversed(self.parts), IMPORTS):
                part[0]()
                self._held.insert(0, part)
            if not _others_import() or time.monotonic() > until:
                return
            self._resume()
            while _others_import() and time.monotonic() < until:
                time.sleep(0.0005)

    def _resume(self) -> None:
        while self._held:
            self._held.pop(0)[1]()

    def _alone(self) -> None:
        while self._held:
            self._held.pop(0)[2]()


def _others_import() -> bool:
    """Whether another thread imports a module of Nacre, of a package that Nacre loads, or of the standard library."""
    locks: dict[str, Any] = getattr(sys.modules.get("_frozen_importlib"), "_module_locks", {})
    thread = get_ident()
    for name, reference in list(locks.items()):
        package = name.partition(".")[0]
        if package in OURS or package in sys.stdlib_module_names:
            owner = getattr(reference(), "owner", None)
            if owner is not None and owner != thread:
                return True
    return False


_forks = _Forks()


def around_forks(
    take: Callable[[], object], release: Callable[[], object], child: Callable[[], object], early: bool = False
) -> None:
    """Register three functions: each fork calls `take` first, then `release` in the parent and `child` in the child.

    `take` and `release` may be called several times, alternately, before one fork.  An `early` part is taken while the
    fork holds no lock: it may wait for threads that need any lock.
    """
    (_forks.early if early else _forks.parts).append((take, release, child))
