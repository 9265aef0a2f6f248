"""Errors for users: the lines of the user's files that led to the error, then the message."""

from __future__ import annotations

import traceback
from collections.abc import Iterator

from nacre.base.errors import Error
from nacre.base.places import is_users


def chain(fault: BaseException) -> Iterator[BaseException]:
    """An exception, and those that it was raised from."""
    held: BaseException | None = fault
    while held is not None:
        yield held
        held = held.__cause__ or (None if held.__suppress_context__ else held.__context__)


def frames(fault: BaseException) -> list[traceback.FrameSummary]:
    """The frames of the user's files, outermost first; those of a cause where the exception itself has none."""
    for held in chain(fault):
        found = [f for f in traceback.extract_tb(held.__traceback__) if is_users(f.filename)]
        if found:
            return found
    return []


def told(fault: Exception, command: str, traceback_too: bool = False) -> str | None:
    """The message for an error in the user's files, in the command line or of the system; None for a fault of Nacre."""
    found = frames(fault)
    if not found and not isinstance(fault, Error | OSError):
        return None
    if traceback_too:
        return "".join(traceback.format_exception(fault)).rstrip()
    if not found:
        return f"nacre {command}: {str(fault).removeprefix(f'{command}: ')}"
    kind = "" if isinstance(fault, Error) else f"{type(fault).__name__}: "
    lines = [f"nacre {command}: error in {found[-1].filename}, line {found[-1].lineno}"]
    for f in found:
        lines += [f"  {f.filename}:{f.lineno}, in {f.name}", *([f"    {f.line}"] if f.line else [])]
    return "\n".join([*lines, f"{kind}{fault}", "(--traceback shows every frame)"])
