"""Writing .npy files atomically: to a temporary name, which is changed at the end."""

from __future__ import annotations

from typing import Final

from nacre.deploy.executable.codes import DONE, FAILED
from nacre.deploy.executable.file_status import FileStatus, is_regular, read_status
from nacre.deploy.executable.files import STANDARD_OUTPUT, array_bytes, is_standard, say_system, write_block
from nacre.deploy.executable.layouts import ArrayDescription
from nacre.deploy.executable.npy_reader import PREFIX, memory
from nacre.native import c_library as c
from nacre.native.python.declarations import native, null
from nacre.native.python.intrinsics import addr, copy_bytes, fill_bytes, stack
from nacre.native.python.types import i32, i64, ptr, struct, u8, u32, u64

IN_PLACE: Final = 0x80241  # of open: close-on-exec, write, create, truncate
CLOSE_ON_EXEC: Final = 0x80000
PERMISSIONS: Final = 0o666  # of a new file, less those of the mask
ALL_PERMISSIONS: Final = 0o777
WRITABLE: Final = 2  # of access
UNPERMITTED: Final = 1  # EPERM
DENIED: Final = 13  # EACCES
TOO_LONG: Final = 36  # ENAMETOOLONG
NO_FILE: Final = -1
SPACE: Final = ord(" ")
COMMA: Final = ord(",")
LINE_END: Final = ord("\n")
HEADER_ROOM: Final = 4096  # bytes for a header
TAIL: Final = 4  # bytes of its end, `), }`
ALIGN: Final = 64


@struct
class Replacement:
    """The temporary name of a new file, and the path that it will have; null where a file is written in place."""

    temporary: ptr[u8]
    goal: ptr[u8]


@native
def write_header(about: ArrayDescription, axes: ptr[i64]) -> u64:
    """Write the header of an array into memory; returns its bytes, a multiple of 64."""
    bytes_ = memory.bytes
    fill_bytes(bytes_, SPACE, HEADER_ROOM)
    text = addr(bytes_[PREFIX])
    at = c.snprintf(text, 256, b"{'descr': '%s', 'fortran_order': False, 'shape': (", about.dtype)
    for k in range(about.rank):
        at += c.snprintf(addr(text[at]), 64, b"%lld" if k == 0 else b", %lld", axes[k])
    if about.rank == 1:
        text[at] = COMMA
        at += 1
    copy_bytes(addr(text[at]), b"), }", TAIL)
    total = (u64(at) + PREFIX + TAIL + 1 + ALIGN - 1) & ~u64(ALIGN - 1)
    bytes_[total - 1] = LINE_END
    copy_bytes(bytes_, b"\x93NUMPY\x01\x00", 8)
    length = total - PREFIX
    bytes_[8] = u8(length)
    bytes_[9] = u8(length >> 8)
    return total


@native
def make_beside(path: ptr[u8], mode: u32, replacement: Replacement) -> i32:
    """Make a file next to a path, with the mode of the old one if there is one: its number and name, or NO_FILE."""
    count = c.strlen(path) + 8
    name = c.malloc(count)
    if name == null:
        return NO_FILE
    c.snprintf(name, count, b"%s.XXXXXX", path)
    file = c.mkostemp(name, CLOSE_ON_EXEC)
    if file < 0:
        return NO_FILE
    replacement.temporary = name
    mask = c.umask(0)
    c.umask(mask)
    c.fchmod(file, PERMISSIONS & ~mask if mode == 0 else mode & ALL_PERMISSIONS)
    return file


@native
def open_output(path: ptr[u8], replacement: Replacement) -> i32:
    """Open a file for writing, "-" being standard output: its number, or NO_FILE.

    A regular file appears whole: it is written under another name and then renamed, except where only the file may be
    written and not its folder.
    """
    replacement.goal = null
    if is_standard(path):
        return STANDARD_OUTPUT
    old = stack(FileStatus)
    exists = read_status(path, old)
    if not exists or is_regular(old):
        mode: u32 = old.mode if exists else 0
        real = c.realpath(path, null)
        goal = path if real == null else real
        if not exists or c.access(goal, WRITABLE) == 0:
            file = make_beside(goal, mode, replacement)
            if file >= 0:
                replacement.goal = goal
                return file
            error = c.errno_place()[0]
            if error != UNPERMITTED and error != DENIED and error != TOO_LONG:
                return NO_FILE
    return c.open(path, IN_PLACE, u32(PERMISSIONS))


@native
def write_array(file: i32, about: ArrayDescription, axes: ptr[i64], base: ptr[u8]) -> bool:
    """Write the header and the elements of an array; whether the system took them."""
    if not write_block(file, memory.bytes, write_header(about, axes)):
        return False
    return write_block(file, base, u64(array_bytes(about, axes)))


@native
def save_array(name: ptr[u8], path: ptr[u8], about: ArrayDescription, axes: ptr[i64], base: ptr[u8]) -> i32:
    """Write an array to a file: DONE, or an exit status; no half file is left under its name."""
    replacement = stack(Replacement)
    file = open_output(path, replacement)
    if file < 0:
        return say_system(name, path, FAILED)
    renamed = replacement.goal != null
    written = write_array(file, about, axes, base) and c.close(file) == 0
    if written and (not renamed or c.rename(replacement.temporary, replacement.goal) == 0):
        return DONE
    if renamed:
        place = c.errno_place()
        cause = place[0]
        c.unlink(replacement.temporary)
        place[0] = cause
    return say_system(name, path, FAILED)
