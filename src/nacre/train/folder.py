"""The folder of one training: its lock, and files that are written atomically."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from nacre.base.errors import StateError, file_error, reason

LOCK = ".lock"
UNDER_WAY, DISCARDED = ".writing-", ".discarded-"  # prefixes of a folder or file while it is written or deleted
REPLACED = ".replaced-"  # prefix of a folder while another replaces it


@contextmanager
def locked(folder: Path) -> Generator[None]:
    """Lock a folder against other processes, and create it if it is missing; the lock of a killed process is released.

    Raises StateError if another process holds the lock, DeviceError if the folder cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError as fault:
        raise file_error(
            f"Trainer: cannot write the folder {folder}: {reason(fault)}; name another with out=", fault
        ) from None
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise StateError(
                f"Trainer: another training uses the folder {folder}; wait for it to end, or name another folder with "
                "out="
            ) from None
        yield
    finally:
        os.close(handle)


def synced(path: Path) -> None:
    """Force a file's bytes, or a folder's names, to the disk."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write(path: Path, data: bytes) -> None:
    """Write a new file and wait until its bytes are on the disk."""
    with open(path, "xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def replace(path: Path, data: bytes) -> None:
    """Replace a file's bytes atomically: a reader sees the old bytes or the new ones, also after a kill."""
    made = path.with_name(UNDER_WAY + path.name)
    made.unlink(missing_ok=True)
    write(made, data)
    os.replace(made, path)
    synced(path.parent)


def point(link: Path, target: str) -> None:
    """Change the target of a symbolic link atomically."""
    if link.is_symlink() and os.readlink(link) == target:
        return
    made = link.with_name(UNDER_WAY + link.name)
    made.unlink(missing_ok=True)
    os.symlink(target, made)
    os.replace(made, link)


def discard(path: Path) -> None:
    """Remove a folder atomically: no part of it ever stays under its name."""
    aside = path.with_name(DISCARDED + path.name)
    if aside.exists():
        shutil.rmtree(aside)
    os.rename(path, aside)
    shutil.rmtree(aside)


def take_place(made: Path, path: Path) -> None:
    """Move a folder over another one, which may exist; a killed process leaves one of the two."""
    aside = path.with_name(REPLACED + path.name)
    if path.exists():
        os.rename(path, aside)
    os.rename(made, path)
    synced(path.parent)
    if aside.exists():
        shutil.rmtree(aside)


def sweep(folder: Path) -> None:
    """Remove the unfinished files of a killed process in a folder, and restore those that it was replacing."""
    for path in sorted(folder.iterdir()):
        if path.name.startswith(REPLACED):
            whole = path.with_name(path.name.removeprefix(REPLACED))
            if whole.exists():
                shutil.rmtree(path)
            else:
                os.rename(path, whole)
        elif path.name.startswith((UNDER_WAY, DISCARDED)):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()
