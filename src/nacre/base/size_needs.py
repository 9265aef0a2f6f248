"""Who needs the number of a symbolic size: code that is traced is watched for it, and told apart from the package's."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Collection, Generator
from contextlib import contextmanager
from functools import cache
from typing import Any, Final

from nacre.base.places import is_users

PACKAGE: Final = os.path.dirname(os.path.dirname(__file__)) + os.sep  # as in code objects, with symbolic links


class Needs(threading.local):
    """`note`, if there is one, is called with each size of which Python needs the number, before that is an error.

    Where the package itself needs to know whether a size is "< 0" or "<= 0", the second argument says which.
    """

    def __init__(self) -> None:
        self.note: Callable[[Any, str], None] | None = None
        self.symbols: Collection[str] = ()  # the names of sizes that have become symbols because they changed


NEEDS = Needs()


@contextmanager
def noted_needs() -> Generator[list[Any]]:
    """Collect the sizes of which Python needs the number in the block."""
    found: list[Any] = []
    before = NEEDS.note

    def note(size: Any, sign: str) -> None:
        """Add a size."""
        found.append(size)

    NEEDS.note = note
    try:
        yield found
    finally:
        NEEDS.note = before


@cache
def _is_outside(file: str) -> bool:
    return is_users(file, installed=True)


@cache
def _is_inside(file: str) -> bool:
    return file.startswith(PACKAGE)


def is_users_frame(frame: Any) -> bool:
    """Whether a frame is one of the user, or of an installed package.

    Python's own library, as `contextlib` and `collections`, acts for its caller.
    """
    while frame.f_back is not None and not _is_inside(frame.f_code.co_filename):
        if _is_outside(frame.f_code.co_filename):
            return True
        frame = frame.f_back
    return _is_outside(frame.f_code.co_filename)
