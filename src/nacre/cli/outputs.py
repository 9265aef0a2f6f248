"""The files that commands write: they are checked before the work begins, and written at its end."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable
from pathlib import Path

from nacre.base.errors import ArgumentError, file_error, reason

STANDARD = Path("-")  # standard input or output, where a command takes it


def require(path: Path, command: str, option: str, folder: bool = False, replaced: bool = False) -> None:
    """Raise DeviceError if a file cannot be written at a path; with `folder`, if a folder cannot be created there.

    With `replaced`, a new file replaces the old one, so that the folder must be writable.
    """
    try:
        if folder:
            _require_folder(_deepest(path))
        else:
            _require_file(path, replaced)
    except OSError as fault:
        raise _error(path, command, option, fault) from None


def write(path: Path, text: str, command: str, option: str) -> None:
    """Write a text to a file.  Raises DeviceError where that fails."""
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as fault:
        raise _error(path, command, option, fault) from None


def require_separate(outputs: Iterable[Path], others: Iterable[Path], command: str) -> None:
    """Raise ArgumentError if a file would be overwritten that the command reads, or that it has just written."""
    taken = [path for path in others if path != STANDARD]
    for path in outputs:
        if path == STANDARD:
            continue
        if any(is_same_file(path, other) for other in taken):
            raise ArgumentError(
                f"{command}: each output must be a file of its own; got {path}, which is an input or "
                "another output; name another file with -o"
            )
        taken.append(path)


def is_same_file(one: Path, other: Path) -> bool:
    """Whether two paths are the same regular file, or the same name where neither exists yet."""
    try:
        return os.path.samefile(one, other) and one.is_file()
    except OSError:
        return one == other


def _require_file(path: Path, replaced: bool) -> None:
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        replaced = True
    else:
        if stat.S_ISDIR(mode):
            raise _fault(errno.EISDIR)
    if replaced:
        _require_folder(path.parent)
    elif not os.access(path, os.W_OK):
        raise _fault(errno.EACCES)


def _require_folder(folder: Path) -> None:
    if not folder.exists():
        raise FileNotFoundError(errno.ENOENT, "its folder does not exist")
    if not folder.is_dir():
        raise _fault(errno.ENOTDIR)
    if not os.access(folder, os.W_OK | os.X_OK):
        raise _fault(errno.EACCES)


def _deepest(path: Path) -> Path:
    """The deepest part of a path that exists."""
    return next(p for p in (path, *path.absolute().parents) if os.path.lexists(p))


def _fault(number: int) -> OSError:
    return OSError(number, os.strerror(number))


def _error(path: Path, command: str, option: str, fault: OSError) -> Exception:
    return file_error(
        f"{command}: {option} must name a place that can be written; got {path}: {reason(fault)}; name another", fault
    )
