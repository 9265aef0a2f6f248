"""The ambient state of a thread: active interpreters, gradient mode, numerics mode, autocast."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from typing import Any, Final, TypeVar

from nacre.base.locks import forkable, of_threads_there


class State(threading.local):
    """The ambient state of the code that a thread runs.

    `interpreters` is the stack of active interpreters, outermost first (see `trace.bind`).  `word` is 0 exactly when no
    interpreter is active, so that operations on plain tensors run at once.  `inference` is whether `enable_grad` has no
    effect.  `lines` is whether the tape notes source lines.  `autocast` is the dtype to which products round their
    factors (see `interpret.precision`), or None.  `mixed` is whether the thread is in a block of autocast, also during
    `without_autocast`.  `usual` is whether operations have exact numerics and no autocast.  `ambient` combines the
    other modes, the numerics mode and autocast; compiled functions depend on it.
    """

    def __init__(self) -> None:
        self.interpreters: list[Any] = []
        self.word = 0
        self.gradients = True
        self.inference = False
        self.numerics = "exact"
        self.lines = False
        self.autocast: Any = None
        self.usual = True
        self.mixed = False
        self.ambient = EXACT
        self.variable_values: dict[Any, Any] = {}  # values of variables while a function of them is differentiated
        self.detector: Any = None  # of anomalies, while operations are examined (see `interpret.anomalies`)
        self.note_error: Callable[[Any], None] | None = None  # called with each of Nacre's errors, also handled ones

    def settle(self) -> None:
        """Update `ambient` from the modes; equal states share one object."""
        self.usual = self.numerics == "exact" and self.autocast is None
        ambient = self.gradients, self.numerics, self.inference, self.detector is not None, self.autocast
        self.ambient = _ambients.setdefault(ambient, ambient)


T = TypeVar("T")
Ambient = tuple[bool, str, bool, bool, Any]
EXACT: Final[Ambient] = (True, "exact", False, False, None)
_ambients: dict[Ambient, Ambient] = {EXACT: EXACT}
STATE = State()
SILENT = (ctypes.c_uint64 * 2)()  # for native entries: the number of threads that do not record, and one of them
_silent: dict[int, None] = {}  # the threads that do not record, as an ordered set
_counting = forkable()


def record_gradients(enabled: bool, inference: bool | None = None) -> None:
    """Set the gradient mode of this thread, perhaps also whether it infers, and inform native code."""
    with _counting:
        STATE.gradients = enabled
        STATE.inference = STATE.inference if inference is None else inference
        STATE.settle()
        if enabled:
            _silent.pop(threading.get_ident(), None)
        else:
            _silent[threading.get_ident()] = None
        _tell()


def autocast_to(dtype: Any) -> None:
    """Set the dtype of autocast of this thread, or None."""
    STATE.autocast = dtype
    STATE.settle()


def without_autocast(f: Callable[[], T]) -> T:
    """The result of f() without autocast.

    Interpreters run without it: they apply recorded operations, and conversions are among these.
    """
    before = STATE.autocast
    if before is None:
        return f()
    try:
        autocast_to(None)
        return f()
    finally:
        try:
            autocast_to(before)
        except BaseException:  # an interrupt, before or in the assignment
            autocast_to(before)
            raise


def _tell() -> None:
    """Inform native code of all threads."""
    SILENT[0] = 2  # native code asks Python during the update
    SILENT[1] = next(iter(_silent), 0)
    SILENT[0] = len(_silent)


of_threads_there(_silent, _tell)


def signature() -> tuple[object, ...]:
    """The part of the ambient state on which a compiled function depends."""
    return STATE.ambient
