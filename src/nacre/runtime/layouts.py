"""The structures of the allocator and of buffers in memory, for native code and for Python."""

from __future__ import annotations

from nacre.native.cpython import PyObject
from nacre.native.python.types import fields_of, i64, offset_of, ptr, struct, u8, u64


@struct
class AllocatorState:
    """The figures of the allocator, in bytes; `buffers` and `mapped` are counts."""

    allocated: u64
    peak: u64
    cached: u64
    limit: u64
    cache_limit: u64
    slabs: u64
    buffers: u64
    mapped: u64


@struct
class BufferObject(PyObject):
    """A Buffer.

    `size_class` is that of its block, or -1 over foreign memory, which `owner` keeps alive.  `serial` identifies the
    contents: each overwrite changes it, and it is 0 for foreign memory.
    """

    data: ptr[u8]
    nbytes: u64
    owner: PyObject
    size_class: i64
    size: u64
    readonly: i64
    serial: u64


STATE = fields_of(AllocatorState)
SERIAL_OFFSET = offset_of(BufferObject, "serial")
