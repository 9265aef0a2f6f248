"""Functions from outside that the compiler calls: which one a thread runs, and notes in their errors."""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager

from nacre.base.errors import StateError
from nacre.base.state import STATE


class _Running(threading.local):
    """What a thread runs, for example "the rule of pass log-exp"; empty outside of such functions."""

    what = ""


RUNNING = _Running()


@contextmanager
def running(what: str) -> Generator[None]:
    """A context that runs a function from outside; an error in it gets a note that names the function."""
    before = RUNNING.what
    try:
        RUNNING.what = what
        yield
    except Exception as fault:
        note = f"raised in {what}"
        if note not in getattr(fault, "__notes__", ()) and what not in str(fault):
            fault.add_note(note)
        raise
    finally:
        RUNNING.what = before


def require_outside(operation: str) -> None:
    """Raise StateError inside of a function that is being traced or transformed, or that the compiler calls."""
    if RUNNING.what:
        raise StateError(
            f"{operation}: compilation must not change while code is compiled; got a call in {RUNNING.what}; call it "
            "before, at the top of the program"
        )
    if STATE.word:
        raise StateError(
            f"{operation}: compilation must not change inside of a transformation; got a call while a function is "
            "traced; call it before, at the top of the program"
        )
