"""The ambient state of a thread: active interpreters, gradient mode, numerics mode."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, Final

from nacre.base.locks import forkable


class State(threading.local):
    """What surrounds the code that a thread runs.

    `interpreters` is the stack of active ones, outermost first (see `trace.bind`).  `word` is 0 exactly when
    an operation on plain tensors may run at once: no interpreter is active.  `ambient` is the gradient and the
    numerics mode together, on which compiled functions depend.
    """

    def __init__(self) -> None:
        self.interpreters: list[Any] = []
        self.word = 0
        self.gradients = True
        self.numerics = "exact"
        self.ambient = EXACT

    def settle(self) -> None:
        """Let `ambient` stand for both modes; equal ones are one object."""
        ambient = self.gradients, self.numerics
        self.ambient = _ambients.setdefault(ambient, ambient)


EXACT: Final = (True, "exact")
_ambients: dict[tuple[bool, str], tuple[bool, str]] = {EXACT: EXACT}
STATE = State()
SILENT = (ctypes.c_uint64 * 2)()  # how many threads do not record, and which one if it is one: for native entries
_silent: set[int] = set()
_counting = forkable()


@contextmanager
def gradients(enabled: bool) -> Generator[None]:
    """Record operations for `backward` inside, or not."""
    before = STATE.gradients
    try:
        _record(enabled)
        yield
    finally:
        _record(before)


def _record(enabled: bool) -> None:
    """Set the gradient mode of this thread, and tell native code."""
    with _counting:
        STATE.gradients = enabled
        STATE.settle()
        (_silent.discard if enabled else _silent.add)(threading.get_ident())
        _tell()


def _tell() -> None:
    """Tell native code of all threads."""
    SILENT[0] = 2  # it asks Python meanwhile
    SILENT[1] = next(iter(_silent), 0)
    SILENT[0] = len(_silent)


def _alone() -> None:
    """In a forked child: the other threads are gone."""
    _silent.intersection_update({threading.get_ident()})
    _tell()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_alone)


def signature() -> tuple[object, ...]:
    """What of the ambient state a compiled function depends on."""
    return STATE.ambient
