"""The reasons why a function is not converted."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import CodeType
from typing import Final

from nacre.base.errors import Error


class NotConverted(Exception):
    """A function cannot be converted; the argument is the reason."""


def shown_name(code: CodeType) -> str:
    """A function's name with its file and line, for messages."""
    return f"{code.co_qualname} ({os.path.basename(code.co_filename)}:{code.co_firstlineno})"


class _Refusals(threading.local):
    def __init__(self) -> None:
        self.found: list[tuple[Exception, Callable[[Exception], Exception]]] = []


REFUSALS: Final = _Refusals()  # exceptions that left code which depends on traced values, and the error for each


@contextmanager
def noted(error: Callable[[BaseException], Exception], place: str) -> Generator[None]:
    """Note exceptions that leave the block: where the user's code catches one, the trace raises the error for it.

    Another one gets a text that says why it was raised.  `sys.exit()` is refused: it would end Python.
    """
    try:
        yield
    except SystemExit as fault:
        raise error(fault) from fault
    except Exception as fault:
        if not isinstance(fault, Error) and all(fault is not known for known, _ in REFUSALS.found):
            fault.add_note(
                f"while code that depends on traced values was recorded, whatever the tensors hold ({place}); "
                "an `assert` is checked when the program runs"
            )
        REFUSALS.found.append((fault, error))
        raise


@contextmanager
def forgiven() -> Generator[None]:
    """Forget the exceptions that leave the block: other code does the same work."""
    known = list(REFUSALS.found)
    try:
        yield
    except Exception:
        REFUSALS.found[:] = known
        raise
