"""The ambient state of a thread: active interpreters, gradient mode, numerics mode."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, Final

from nacre.base.locks import forkable, of_threads_there


class State(threading.local):
    """The ambient state of the code that a thread runs.

    `interpreters` is the stack of active interpreters, outermost first (see `trace.bind`).  `word` is 0 exactly when no
    interpreter is active, so that operations on plain tensors run at once.  `ambient` combines the gradient and
    numerics modes; compiled functions depend on it.
    """

    def __init__(self) -> None:
        self.interpreters: list[Any] = []
        self.word = 0
        self.gradients = True
        self.numerics = "exact"
        self.ambient = EXACT
        self.variable_values: dict[Any, Any] = {}  # values of variables while a function of them is differentiated
        self.note_error: Callable[[Any], None] | None = None  # called with each of Nacre's errors, also handled ones

    def settle(self) -> None:
        """Update `ambient` from both modes; equal states share one object."""
        ambient = self.gradients, self.numerics
        self.ambient = _ambients.setdefault(ambient, ambient)


EXACT: Final = (True, "exact")
_ambients: dict[tuple[bool, str], tuple[bool, str]] = {EXACT: EXACT}
STATE = State()
SILENT = (ctypes.c_uint64 * 2)()  # for native entries: the number of threads that do not record, and one of them
_silent: dict[int, None] = {}  # the threads that do not record, as an ordered set
_counting = forkable()


@contextmanager
def gradients(enabled: bool) -> Generator[None]:
    """A context in which operations are recorded for `backward`, or are not."""
    before = STATE.gradients
    try:
        _record(enabled)
        yield
    finally:
        try:
            _record(before)
        except BaseException:  # an interrupt: the mode must be restored completely
            _record(before)
            raise


def _record(enabled: bool) -> None:
    """Set the gradient mode of this thread and inform native code."""
    with _counting:
        STATE.gradients = enabled
        STATE.settle()
        if enabled:
            _silent.pop(threading.get_ident(), None)
        else:
            _silent[threading.get_ident()] = None
        _tell()


def _tell() -> None:
    """Inform native code of all threads."""
    SILENT[0] = 2  # native code asks Python during the update
    SILENT[1] = next(iter(_silent), 0)
    SILENT[0] = len(_silent)


of_threads_there(_silent, _tell)


def signature() -> tuple[object, ...]:
    """The part of the ambient state on which a compiled function depends."""
    return STATE.ambient
