"""The structures that native code and Python share: the allocator, buffers, and the tables of a bound plan."""

from __future__ import annotations

from collections.abc import Callable

from nacre.native.cpython import PyObject
from nacre.native.python.types import embed, fields_of, i64, offset_of, ptr, struct, u8, u64


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


@struct
class PlanRow:
    """A step of a plan: a launch of a kernel, or without a kernel one of control flow (see `runtime/flow`).

    `first_argument` is a place among the arguments: of the kernel's first argument, of a loop's rounds, or of the
    address of a branch's cell.  `extent` is that of a launch, the trips of a loop, or for LEAVE whether the loop ran
    alone.  `grain` is the rounds of a chunk, or the row to go to.  `idle` is whether a launch has no work where its
    first two addresses are equal, or the kind of control flow.  `moves` is the address of a loop's moves, or for ENTER
    whether the caller runs the loop alone; `move_count` is their number.  For a launch, `moves` is whether it calls
    the host.
    """

    kernel: Callable[[ptr[u64], i64, i64, ptr[u8]], None]
    first_argument: i64
    extent: i64
    grain: i64
    barrier: i64
    idle: i64
    moves: u64
    move_count: i64


@struct
class Move:
    """How a loop changes an address among the arguments: the increments after even and after odd rounds."""

    argument: i64
    even: i64
    odd: i64


@struct
class Fixup:
    """An address among the arguments that a call computes: an offset from one of its bases."""

    argument: i64
    base: i64
    offset: i64


@struct
class Descriptor:
    """A bound plan.  Its workspace has the arena, and at these offsets the arguments, the ends of rows, and scratch.

    `shared` is the number of the arena among the bases.  `stamps` is for the driver that records times.
    """

    arguments: ptr[u64]
    argument_count: i64
    fixups: ptr[embed[Fixup]]
    fixup_count: i64
    rows: ptr[embed[PlanRow]]
    row_count: i64
    arguments_offset: i64
    ends_offset: i64
    unused_before: i64
    scratch_offset: i64
    scratch_stride: i64
    unused_after: i64
    workspace_bytes: i64
    shared: i64
    team: i64
    stamps: ptr[i64]


STATE = fields_of(AllocatorState)
SERIAL_OFFSET = offset_of(BufferObject, "serial")
