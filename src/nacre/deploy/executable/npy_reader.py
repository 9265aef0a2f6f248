"""Reading .npy files: the header, which must fit a description, then the elements up to the end of the file."""

from __future__ import annotations

from typing import Annotated, Final

from nacre.deploy.executable.codes import DONE, FAILED, MISUSED
from nacre.deploy.executable.files import (
    STANDARD_INPUT,
    array_bytes,
    is_standard,
    new_memory,
    read_block,
    say,
    say_mismatch,
    say_no_memory,
    say_system,
)
from nacre.deploy.executable.layouts import ArrayDescription
from nacre.deploy.executable.npy_header import ArrayHeader, HeaderText, read_dictionary
from nacre.native import c_library as c
from nacre.native.python.declarations import inline, native, null, variable
from nacre.native.python.intrinsics import addr, stack
from nacre.native.python.types import array, i32, i64, ptr, struct, u8, u32, u64

LONGEST: Final = 65536  # limit of a header's bytes
READ_ONLY: Final = 0x80000  # of open: close-on-exec
PREFIX: Final = 10  # bytes up to the text of a header of format 1
UNREADABLE: Final = 0  # what became of a header
MALFORMED: Final = 1
WELL_FORMED: Final = 2


@struct
class HeaderMemory:
    """Memory for a header, from its start or from its text on."""

    bytes: Annotated[array[u8], LONGEST + 64]


memory = variable(HeaderMemory, align=64)


@native
def read_header(file: i32, header: ArrayHeader) -> u32:
    """Read a file up to the elements: UNREADABLE (the system has a message), MALFORMED or WELL_FORMED."""
    bytes_ = memory.bytes
    begun = read_block(file, bytes_, PREFIX)
    if begun < 0:
        return UNREADABLE
    if begun != PREFIX or c.memcmp(bytes_, b"\x93NUMPY", 6) != 0:
        return MALFORMED
    version = bytes_[6]
    if version < 1 or version > 3:
        return MALFORMED
    count = u64(bytes_[8]) | u64(bytes_[9]) << 8
    if version != 1:
        if read_block(file, addr(bytes_[PREFIX]), 2) != 2:
            return MALFORMED
        count |= u64(bytes_[10]) << 16 | u64(bytes_[11]) << 24
    if count > LONGEST or read_block(file, bytes_, count) != i64(count):
        return MALFORMED
    text = stack(HeaderText)
    text.bytes = bytes_
    text.count = count
    text.at = 0
    return WELL_FORMED if read_dictionary(text, header) else MALFORMED


@inline
def is_spelled(header: ArrayHeader, spelling: ptr[u8]) -> bool:
    """Whether a header's dtype has this spelling."""
    return c.strlen(spelling) == header.dtype_length and c.memcmp(spelling, header.dtype, header.dtype_length) == 0


@native
def has_type(header: ArrayHeader, about: ArrayDescription) -> bool:
    """Whether a header has the rank and the dtype of a description."""
    if header.rank != about.rank:
        return False
    return is_spelled(header, about.dtype) or is_spelled(header, about.other_dtype)


@native
def open_array(name: ptr[u8], path: ptr[u8], about: ArrayDescription, file_at: ptr[i32], axes: ptr[i64]) -> i32:
    """Open a file, "-" being standard input, and read its header: DONE and the axes, or an exit status."""
    file: i32 = STANDARD_INPUT if is_standard(path) else c.open(path, READ_ONLY)
    if file < 0:
        return say_system(name, path, MISUSED)
    file_at[0] = file
    header = stack(ArrayHeader)
    found = read_header(file, header)
    if found == UNREADABLE:
        return say_system(name, path, MISUSED)
    if found == MALFORMED:
        sentence = b"the file must be a .npy file (format 1 to 3) of one plain array; it is malformed"
        return say(name, path, sentence, MISUSED)
    if not has_type(header, about):
        return say_mismatch(name, path, about, header)
    if header.fortran_order and header.rank > 1:
        sentence = b"the array must be in C order; it is in Fortran order; save np.ascontiguousarray of it"
        return say(name, path, sentence, MISUSED)
    for k in range(header.rank):
        axes[k] = header.axes[k]
    return DONE


@native
def load_array(
    name: ptr[u8], path: ptr[u8], about: ArrayDescription, file: i32, axes: ptr[i64], base: ptr[ptr[u8]]
) -> i32:
    """Read an array's elements, to the end of the file: DONE and where they are, or an exit status."""
    count = array_bytes(about, axes)
    room = new_memory(count)
    base[0] = room
    if room == null:
        return say_no_memory(name, path, FAILED)
    got = read_block(file, room, u64(count))
    if got < 0:
        return say_system(name, path, MISUSED)
    if got != count:
        return say(name, path, b"the file must hold the array of its header; the file is too short", MISUSED)
    if read_block(file, addr(room[count]), 1) != 0:
        return say(name, path, b"the file must hold the array of its header; the file is too long", MISUSED)
    c.close(file)
    return DONE
