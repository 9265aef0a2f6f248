"""The owner of a source file: the user, Nacre, Python, or an installed package."""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import cache
from typing import Any, Final

PACKAGE: Final = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
INSIDE: Final = os.path.dirname(os.path.dirname(__file__)) + os.sep  # as in code objects, with symbolic links


@cache
def _folders() -> tuple[frozenset[str], frozenset[str]]:
    """The folders of Python's library and of installed packages; read only for an error, as it takes milliseconds."""
    import sysconfig  # noqa: PLC0415 - only for an error message, not at every start

    paths = sysconfig.get_paths()
    standard, installed = (
        frozenset(os.path.realpath(paths[name]) for name in names)
        for names in (("stdlib", "platstdlib"), ("purelib", "platlib"))
    )
    return standard, installed


def _is_in(path: str, folders: Iterable[str]) -> bool:
    return any(path.startswith(folder + os.sep) for folder in folders)


def is_users(file: str, installed: bool = False) -> bool:
    """Whether a frame's file is the user's: neither Nacre's, nor Python's, nor an installed package's.

    With `installed`, the code of installed packages and code without a file, as at a prompt, count as the user's.
    """
    if file.startswith("<"):
        return installed and not file.startswith("<frozen")
    path = os.path.realpath(file)
    if _is_in(path, (PACKAGE,)) or not (installed or os.path.isfile(path)):
        return False
    standard, packages = _folders()
    if "site-packages" in path or _is_in(path, packages):
        return installed
    return not _is_in(path, standard)


@cache
def is_outside(file: str) -> bool:
    """Whether a file is the user's or an installed package's; the answer for a file is given once."""
    return is_users(file, installed=True)


@cache
def _is_inside(file: str) -> bool:
    return file.startswith(INSIDE)


def is_users_frame(frame: Any) -> bool:
    """Whether a frame is one of the user, or of an installed package.

    Python's own library, as `contextlib` and `collections`, acts for its caller.
    """
    while frame.f_back is not None and not _is_inside(frame.f_code.co_filename):
        if is_outside(frame.f_code.co_filename):
            return True
        frame = frame.f_back
    return is_outside(frame.f_code.co_filename)
