"""A folder that one training writes to: its lock, and files that are on the disk, whole, or not there at all."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from nacre.base.errors import DeviceError, StateError

LOCK = ".lock"
UNDER_WAY, DISCARDED = ".writing-", ".discarded-"  # what a folder or file is called before, and after, it is one
REPLACED = ".replaced-"  # what a folder is called while another takes its place


@contextmanager
def locked(folder: Path) -> Generator[None]:
    """Hold a folder, which is made where there is none, against other processes; a killed holder lets go.

    Raises StateError where another process holds it, DeviceError where it cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError as fault:
        raise DeviceError(f"Trainer: a folder that can be written is required; got {folder}: {fault.strerror}; "
                          "name another with out=") from None
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise StateError(f"Trainer: a folder that no other training writes to is required; {folder} is in use; "
                             "wait for it to end, or name another with out=") from None
        yield
    finally:
        os.close(handle)


def synced(path: Path) -> None:
    """Wait until a file's bytes, or a folder's names, are on the disk."""
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
    """Give a file other bytes at once: a reader, and a killed writer, leave the old ones or the new ones."""
    made = path.with_name(UNDER_WAY + path.name)
    made.unlink(missing_ok=True)
    write(made, data)
    os.replace(made, path)
    synced(path.parent)


def point(link: Path, target: str) -> None:
    """Make a symbolic link say another target, at once."""
    if link.is_symlink() and os.readlink(link) == target:
        return
    made = link.with_name(UNDER_WAY + link.name)
    made.unlink(missing_ok=True)
    os.symlink(target, made)
    os.replace(made, link)


def discard(path: Path) -> None:
    """Remove a folder, so that at no moment a part of it is left under its name."""
    aside = path.with_name(DISCARDED + path.name)
    if aside.exists():
        shutil.rmtree(aside)
    os.rename(path, aside)
    shutil.rmtree(aside)


def take_place(made: Path, path: Path) -> None:
    """Let a folder be another one, which may be there already: a killed process leaves the one or the other."""
    aside = path.with_name(REPLACED + path.name)
    if path.exists():
        os.rename(path, aside)
    os.rename(made, path)
    synced(path.parent)
    if aside.exists():
        shutil.rmtree(aside)


def sweep(folder: Path) -> None:
    """Remove what a killed process has left unfinished in a folder, and give back what it was replacing."""
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
