"""Trust in files whose bytes are executed: who may have written them, and how to open, read and replace them.

Stored code is as dangerous as the program that runs it.  So every folder on the path, the folder itself, and the file
must be writable only by this user and root.  Other folders are not used.  A private folder replaces them, which later
processes find again (`docs/security.md`).
"""

from __future__ import annotations

import contextlib
import os
import stat
import sys
import warnings
from functools import cache

SYSTEM = 0  # root, which is always trusted
PRIVATE_FOLDER, PRIVATE_FILE = 0o700, 0o600
OPEN = os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) if hasattr(os, "O_CLOEXEC") else 0
UNMAPPED = 65534  # the owner of files whose real owner is unknown in this user namespace

_warned: set[str] = set()


def folder(path: str) -> str | None:
    """The folder to use for a path, created if absent: itself, or a private one if other users could write it.

    None if neither is possible.  Never raises; warns, once, if it is not the requested one.
    """
    path = os.path.abspath(path)
    try:
        existing = _deepest(path)
        flaw = next(
            filter(None, (_flaw(at, among_others=existing != path) for at in (existing, os.path.realpath(existing)))),
            None,
        )
        created = path if flaw else _created(path)  # nothing is created in another user's folder
        flaw = flaw or _flaw(path) or _flaw(created)
    except (OSError, ValueError) as fault:
        warn(
            f"cache: the directory must be writable to keep code between processes; could not use "
            f"{path}: {fault}; set NACRE_CACHE_DIR to another, or to off"
        )
        return None
    if flaw is None:
        return created
    private = _private(os.path.basename(path))
    instead = f"{private} is used instead" if private else "nothing is kept between processes"
    warn(
        f"cache: only you may have write access to the directory, because its code is run; {flaw}; {instead}; remove "
        "others' write access, or set NACRE_CACHE_DIR to another directory, or to off"
    )
    return private


def read(path: str, most: int) -> tuple[bytes, os.stat_result] | None:
    """The bytes (at most `most`) and status of a regular file that only trusted users could write; else None."""
    try:
        descriptor = os.open(path, os.O_RDONLY | OPEN)
    except (OSError, ValueError):
        return None
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or not _owned(status) or _shared(status) or status.st_size > most:
            return None
        data = os.read(descriptor, status.st_size + 1)
        return (data, status) if len(data) == status.st_size else None
    except (OSError, MemoryError):
        return None
    finally:
        os.close(descriptor)


def replace(path: str, data: bytes) -> None:
    """Write a file atomically, readable by this user only.  Raises OSError."""
    temporary = f"{path}.{os.urandom(8).hex()}.tmp"
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | OPEN, PRIVATE_FILE)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def touch(path: str) -> None:
    """Create a file if absent, and set its time to now; its contents are unchanged.  Raises OSError."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | OPEN, PRIVATE_FILE)
    try:
        os.utime(descriptor)
    finally:
        os.close(descriptor)


def warn(message: str) -> None:
    """Warn, once for each message, and continue even if warnings are errors: a cache never stops a program."""
    if message in _warned:
        return
    _warned.add(message)
    try:
        warnings.warn(message, RuntimeWarning, stacklevel=2)
    except RuntimeWarning:
        print(f"nacre: {message}", file=sys.stderr)


# ---- write permissions


def _deepest(path: str) -> str:
    """A path, or the deepest existing folder above it."""
    while not os.path.exists(path):
        path = os.path.dirname(path)
    return path


def _created(path: str) -> str:
    """The path without links; missing folders are created, for this user only."""
    existing, at = _deepest(path), path
    missing: list[str] = []
    while at != existing:
        missing.append(at)
        at = os.path.dirname(at)
    for each in reversed(missing):
        with contextlib.suppress(FileExistsError):  # another process has created it
            os.mkdir(each, PRIVATE_FOLDER)
    if not os.path.isdir(path):
        raise NotADirectoryError(20, "Not a directory", path)
    return os.path.realpath(path)


def _flaw(path: str, among_others: bool = False) -> str | None:
    """Why another user could write or replace a folder; None if none could.

    `among_others`: the folder may be like /tmp, where each user may remove and rename only files of their own.
    """
    at = path
    while True:
        status = os.lstat(at)
        if not _owned(status) and not (_unmapped(status.st_uid) and (at != path or among_others)):
            return f"{at} belongs to another user ({status.st_uid})"
        sticky = bool(status.st_mode & stat.S_ISVTX) and (at != path or among_others)
        if _shared(status) and not sticky and not stat.S_ISLNK(status.st_mode):
            return f"others may write {at} (its mode is {stat.S_IMODE(status.st_mode):o})"
        above = os.path.dirname(at)
        if above == at:
            return None
        at = above


def _owned(status: os.stat_result) -> bool:
    """Whether a file belongs to this user or to the system."""
    return not hasattr(os, "geteuid") or status.st_uid in (SYSTEM, os.geteuid())


def _shared(status: os.stat_result) -> bool:
    """Whether users other than its owner may write a file; a group of only this user does not count."""
    if not hasattr(os, "geteuid"):
        return False
    return bool(status.st_mode & stat.S_IWOTH) or (bool(status.st_mode & stat.S_IWGRP) and not _alone_in(status.st_gid))


@cache
def _alone_in(group: int) -> bool:
    """Whether a group is the system's, or has only this user as a member."""
    import grp  # noqa: PLC0415 - missing on some systems, and rarely needed
    import pwd  # noqa: PLC0415

    try:
        name, members = pwd.getpwuid(os.geteuid()).pw_name, grp.getgrgid(group).gr_mem
    except KeyError:
        return False
    if group not in (SYSTEM, os.geteuid()) or not set(members) <= {name, "root"}:
        return False
    return all(user.pw_gid != group or user.pw_uid in (SYSTEM, os.geteuid()) for user in pwd.getpwall())


@cache
def _unmapped(user: int) -> bool:
    """Whether a number represents all users unknown in this user namespace, including the system's."""
    if user != UNMAPPED:
        return False
    try:
        with open("/proc/self/uid_map", encoding="ascii") as file:
            ranges = [tuple(map(int, line.split())) for line in file]
    except (OSError, ValueError):
        return False
    return not any(first <= user < first + count for first, _, count in ranges)


def _private(name: str) -> str | None:
    """A folder of a name within this user's private one among the temporary files, where it is found again."""
    import tempfile  # noqa: PLC0415 - loading it takes milliseconds

    try:
        place = os.path.realpath(tempfile.gettempdir())
        if _flaw(place, among_others=True):
            return None
        prefix = f"nacre-{os.geteuid()}-"
        with os.scandir(place) as entries:
            candidates = sorted(entry.path for entry in entries if entry.name.startswith(prefix))
        parent = next(filter(_is_private, candidates), None) or tempfile.mkdtemp(prefix=prefix, dir=place)
        made = os.path.join(parent, name)
        with contextlib.suppress(FileExistsError):
            os.mkdir(made, PRIVATE_FOLDER)
        return made if _is_private(made) else None
    except (OSError, ValueError):
        return None


def _is_private(path: str) -> bool:
    """Whether a path is a folder, not a link to one, that only this user can access."""
    try:
        status = os.lstat(path)
    except OSError:
        return False
    return (
        stat.S_ISDIR(status.st_mode)
        and status.st_uid == os.geteuid()
        and stat.S_IMODE(status.st_mode) == PRIVATE_FOLDER
    )
