"""The user's line, and the operation of the package that it has called, for errors and for the reasons of variants."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Final

from nacre.base.places import INSIDE, is_users
from nacre.base.state import STATE
from nacre.trace.reads import note_frames

CONVERTED: Final = os.path.join(INSIDE, "transform", "autograph") + os.sep  # what converted code of users calls
PACKAGE: Final = os.path.dirname(os.path.dirname(__file__)) + os.sep  # as in code objects, with symbolic links
COMMAND_LINE: Final = os.path.join(PACKAGE, "cli", "main.py")
WRAPPING: Final = frozenset(  # where public functions are wrapped
    os.path.join(INSIDE, *place)
    for place in (
        ("base", "boundary.py"),
        ("api", "elementwise", "one_program.py"),
        ("interpret", "precision", "functions.py"),
    )
)

# returns the path of the module whose `forward` runs, as ` in PATH`; `nn` stores its function here
INNERMOST: list[Callable[[], str]] = [str]
_lines: dict[tuple[str, int, str], str] = {}


def user_operation() -> str:
    """The public operation that the innermost line outside the package has called, if it has a name."""
    frame, operation = sys._getframe(1), ""  # pyright: ignore[reportPrivateUsage]
    while frame.f_back is not None and frame.f_code.co_filename.startswith(INSIDE):
        if frame.f_code.co_filename not in WRAPPING:
            operation = frame.f_code.co_name
        frame = frame.f_back
    return _public(operation)


def user_line() -> str:
    """The innermost line outside the package, as `file:line (function)`; empty below the package's command line."""
    frame = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]  # CPython's own name for it
    note_frames(frame)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(PACKAGE):
        if frame.f_code.co_filename == COMMAND_LINE:
            return ""
        frame = frame.f_back
    key = frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name
    found = _lines.get(key)
    if found is None:
        found = _lines[key] = f"{key[0]}:{key[1]} ({key[2]})"
    return found + INNERMOST[0]() if STATE.detector is not None else found


def fault_place(fault: Exception) -> tuple[str | None, str]:
    """The user's line that raised an error, and the public operation that it called, if there is one."""
    place, operation, step = None, "", fault.__traceback__
    while step is not None:
        code = step.tb_frame.f_code
        if is_users(code.co_filename, installed=True):
            place, operation = f"{code.co_filename}:{step.tb_lineno} ({code.co_name})", ""
        elif place is not None and not operation and code.co_filename not in WRAPPING:
            operation = "_" if code.co_filename.startswith(CONVERTED) else code.co_name
        step = step.tb_next
    return place, _public(operation)


def _public(operation: str) -> str:
    """The name of a function of the package that a user has called; empty for methods that Python calls."""
    return "" if operation.startswith(("_", "operator")) else operation
