"""Files of executables: reading and writing whole blocks, messages about them, and memory for arrays.

All of it is system calls, without stdio.
"""

from __future__ import annotations

from typing import Final

from nacre.deploy.executable.codes import MISUSED
from nacre.deploy.executable.layouts import ArrayDescription
from nacre.deploy.executable.npy_header import ArrayHeader
from nacre.native import c_library as c
from nacre.native.python.declarations import inline, native, null
from nacre.native.python.intrinsics import addr
from nacre.native.python.types import cstring, i32, i64, ptr, u8, u64

STANDARD_INPUT: Final = 0
STANDARD_OUTPUT: Final = 1
STANDARD_ERROR: Final = 2
SPELLED: Final = 40  # characters of a dtype that a message shows
MOST_BYTES: Final = 1 << 46  # of an array
TOO_LARGE: Final = -1  # the size of a larger array
ALIGN: Final = 64


@inline
def is_standard(path: ptr[u8]) -> bool:
    """Whether a path stands for standard input or output."""
    return c.strcmp(path, b"-") == 0


@native
def read_block(file: i32, to: ptr[u8], count: u64) -> i64:
    """Read until the bytes are complete or the file ends; returns their number, or -1 for a fault."""
    have: u64 = 0
    while have != count:
        n = c.read(file, addr(to[have]), count - have)
        if n < 0:
            return -1
        if n == 0:
            return i64(have)
        have += u64(n)
    return i64(have)


@native(baseline=True)
def write_block(file: i32, source: ptr[u8], count: u64) -> bool:
    """Write all bytes; whether the system took them."""
    have: u64 = 0
    while have != count:
        n = c.write(file, addr(source[have]), count - have)
        if n <= 0:
            return False
        have += u64(n)
    return True


# ---- messages; each returns the exit status


@native
def say_system(name: ptr[u8], path: ptr[u8], status: i32) -> i32:
    """Print the system's message for a file."""
    c.dprintf(STANDARD_ERROR, b"%s: %s: %m\n", name, path)
    return status


@native
def say(name: ptr[u8], path: ptr[u8], sentence: cstring, status: i32) -> i32:
    """Print a sentence about a file."""
    c.dprintf(STANDARD_ERROR, b"%s: %s: %s\n", name, path, sentence)
    return status


@native
def say_no_memory(name: ptr[u8], path: ptr[u8], status: i32) -> i32:
    """Print that there is no memory for the array of a file."""
    return say(name, path, b"there is not enough memory for its array", status)


@native
def say_mismatch(name: ptr[u8], path: ptr[u8], about: ArrayDescription, header: ArrayHeader) -> i32:
    """Print the type that is required and the one of a header."""
    length = i32(min(header.dtype_length, SPELLED))
    c.dprintf(
        STANDARD_ERROR, b"%s: %s: the array must be %s; it is %.*s[", name, path, about.type, length, header.dtype
    )
    for k in range(header.rank):
        c.dprintf(STANDARD_ERROR, b"%lld" if k == 0 else b", %lld", header.axes[k])
    c.dprintf(STANDARD_ERROR, b"]\n")
    return MISUSED


# ---- elements


@native
def array_bytes(about: ArrayDescription, axes: ptr[i64]) -> i64:
    """The bytes of an array with these axes, TOO_LARGE where they are too many."""
    total = about.item_bytes
    for k in range(about.rank):
        n = u64(axes[k])
        if n != 0 and total > MOST_BYTES // n:
            return TOO_LARGE
        total *= n
    return i64(total)


@native
def new_memory(count: i64) -> ptr[u8]:
    """Memory for an array's bytes, and one more; null where there is none."""
    if count < 0:
        return null
    return c.aligned_alloc(ALIGN, (u64(count) + 2 * ALIGN - 1) & ~u64(ALIGN - 1))
