"""What identifies a file: the C library's `struct stat`, whose layout differs by machine."""

from __future__ import annotations

from typing import Annotated, Final

from nacre.native.python.declarations import external, inline, native
from nacre.native.python.intrinsics import stack, target_is
from nacre.native.python.types import array, i32, ptr, struct, u8, u32, u64

KINDS: Final = 0o170000  # S_IFMT
REGULAR: Final = 0o100000  # S_IFREG


@struct
class FileStatus:
    """The device of a file, its number there, and its kind and permissions."""

    device: u64
    serial: u64
    mode: u32


@struct
class StatX86:
    """`struct stat` of x86-64: the fields that are read, and at least as much room as the others take."""

    device: u64
    serial: u64
    links: u64
    mode: u32
    rest: Annotated[array[u32], 64]


@struct
class StatArm:
    """`struct stat` of AArch64, likewise."""

    device: u64
    serial: u64
    mode: u32
    links: u32
    rest: Annotated[array[u32], 64]


@external(symbol="stat")
def stat_x86(path: ptr[u8], status: StatX86) -> i32: ...


@external(symbol="stat")
def stat_arm(path: ptr[u8], status: StatArm) -> i32: ...


@inline
def fill(status: FileStatus, device: u64, serial: u64, mode: u32) -> None:
    """Set the fields of a status."""
    status.device = device
    status.serial = serial
    status.mode = mode


@native
def read_x86(path: ptr[u8], status: FileStatus) -> bool:
    """`read_status` on x86-64."""
    found = stack(StatX86)
    if stat_x86(path, found) != 0:
        return False
    fill(status, found.device, found.serial, found.mode)
    return True


@native
def read_arm(path: ptr[u8], status: FileStatus) -> bool:
    """`read_status` on AArch64."""
    found = stack(StatArm)
    if stat_arm(path, found) != 0:
        return False
    fill(status, found.device, found.serial, found.mode)
    return True


@native
def read_status(path: ptr[u8], status: FileStatus) -> bool:
    """Read the status of the file that a path leads to; whether there is one."""
    if target_is("x86_64"):
        return read_x86(path, status)
    return read_arm(path, status)


@native
def is_regular(status: FileStatus) -> bool:
    """Whether a file is no folder, device or pipe."""
    return (status.mode & KINDS) == REGULAR
