"""Ownership: when a call may write over what a variable or a donated argument holds, and that it is not interrupted."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from sys import getrefcount
from typing import Any

from nacre.trace.value import Value

_SIGNALS = frozenset(map(int, signal.valid_signals() if hasattr(signal, "pthread_sigmask") else ()))
# what `signal` has it from, which speaks of numbers: to make members of an enumeration of them takes 50 µs
_mask: Any = getattr(sys.modules.get("_signal", signal), "pthread_sigmask", None)


@contextmanager
def uninterrupted() -> Generator[None]:
    """Let signals (Ctrl-C) wait until the block is done."""
    if not _SIGNALS or threading.current_thread() is not threading.main_thread():
        yield
        return
    before = _mask(signal.SIG_BLOCK, ())
    try:
        _mask(signal.SIG_BLOCK, _SIGNALS)  # raises an interrupt that came just before
        yield
    finally:
        _mask(signal.SIG_SETMASK, before)


class _Probe:
    """Stands for a variable, and for its value, to learn how many references a call itself holds."""

    cell: Any
    content: Any

    def __init__(self, **slots: Any) -> None:
        self.__dict__.update(slots)


def _calibrate() -> tuple[int, int]:
    probe = _Probe(cell=_Probe(content=_Probe()))
    cells = [probe.cell]
    gathered = [x for x in cells]
    probe.cell = None
    dense = [x for x in gathered]
    found: list[tuple[int, int]] = []

    def ask(cell: Any) -> bool:
        found.append((getrefcount(cell), getrefcount(cell.content)))
        return True

    asked = all(map(ask, cells))
    assert asked and len(dense) == len(gathered)
    return found[0]


_ALONE = _calibrate()  # interpreters differ in how many references a call holds


def sole_owner(cell: Value) -> bool:
    """Whether nobody holds the value taken from a variable but the call itself, in three lists."""
    return getrefcount(cell) <= _ALONE[0] and getrefcount(cell.content) <= _ALONE[1] and cell.layout is None


def own_memory(x: Value) -> bool:
    """Whether no other tensor, view or export shares a value's memory."""
    return getrefcount(x.content) <= _ALONE[1]
