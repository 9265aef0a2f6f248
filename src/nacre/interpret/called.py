"""The operation of the package that a user has called, for errors and for the reasons of variants."""

from __future__ import annotations

import os
import sys
from typing import Final

from nacre.base.places import INSIDE, is_users

CONVERTED: Final = os.path.join(INSIDE, "transform", "autograph") + os.sep  # what converted code of users calls
BOUNDARY: Final = os.path.join(INSIDE, "base", "boundary.py")  # where public functions are wrapped


def user_operation() -> str:
    """The public operation that the innermost line outside the package has called, if it has a name."""
    frame, operation = sys._getframe(1), ""  # pyright: ignore[reportPrivateUsage]
    while frame.f_back is not None and frame.f_code.co_filename.startswith(INSIDE):
        if frame.f_code.co_filename != BOUNDARY:
            operation = frame.f_code.co_name
        frame = frame.f_back
    return _public(operation)


def fault_place(fault: Exception) -> tuple[str | None, str]:
    """The user's line that raised an error, and the public operation that it called, if there is one."""
    place, operation, step = None, "", fault.__traceback__
    while step is not None:
        code = step.tb_frame.f_code
        if is_users(code.co_filename, installed=True):
            place, operation = f"{code.co_filename}:{step.tb_lineno} ({code.co_name})", ""
        elif place is not None and not operation and code.co_filename != BOUNDARY:
            operation = "_" if code.co_filename.startswith(CONVERTED) else code.co_name
        step = step.tb_next
    return place, _public(operation)


def _public(operation: str) -> str:
    """The name of a function of the package that a user has called; empty for methods that Python calls."""
    return "" if operation.startswith(("_", "operator")) else operation
