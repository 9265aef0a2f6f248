"""The structures that native code and Python share: the allocator, buffers, and the tables of a bound plan."""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import Annotated

from nacre.native.cpython import PyObject
from nacre.native.python.types import array, embed, fields_of, i64, offset_of, ptr, struct, u8, u64


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


class RowKind(IntEnum):
    """The driver's action at a row."""

    LAUNCH = 0
    ENTER = 1  # a loop: sets its iterations to 0; without any iteration, jumps to its `epilogue`
    TURN = 2  # after an iteration: moves addresses; jumps to the first row of the next one, unless it was the last
    LEAVE = 3  # after the `epilogue`: restores the addresses
    BRANCH = 4  # jumps to the target unless the cell is true
    JUMP = 5


@struct
class Move:
    """How a loop changes an address among the arguments: by one distance after even iterations, one after odd ones."""

    argument: i64
    distances: Annotated[array[i64], 2]


@struct
class PlanRow:
    """A row of a plan: a launch of a kernel, or control flow, which has no kernel and is of some `RowKind`.

    `first_argument` is a place among the arguments: of the kernel's first argument, of a loop's count of iterations, or
    of the address of a branch's cell.  `extent` is the number of iterations of a launch's parallel loop or of a loop of
    the plan; a chunk of a launch has `grain` of them.  `target` is the row that control flow jumps to.  `barrier` is
    whether the launches before a row must be complete.  An `idle` launch has no work where its first two arguments are
    equal.  A launch that `may_stop` the run is a check, or calls a Python function.  The caller runs it, and a loop
    that is `alone`, without other threads.
    """

    kernel: Callable[[ptr[u64], i64, i64, ptr[u8]], None]
    first_argument: i64
    extent: i64
    grain: i64
    target: i64
    moves: ptr[embed[Move]]
    move_count: i64
    kind: u8
    barrier: bool
    idle: bool
    alone: bool
    may_stop: bool


@struct
class Fixup:
    """An address among the arguments that a call computes: an offset from one of its bases."""

    argument: i64
    base: i64
    offset: i64


class Stopped(IntEnum):
    """Why a run has ended early; other numbers are answers of the function that says whether to stop."""

    NO = 0
    RAISED = 1  # a host call raised an exception, which is set in the thread
    FAILED = 2  # a check failed


@struct
class Outcome:
    """The scratch memory behind a launch that may stop the run: why it did (`Stopped`), and which check failed.

    `number` is the check's among all of the plan, `low` and `high` are its bounds, and `got` is the first integer that
    is not within them, as the bits of 64.
    """

    stopped: i64
    number: i64
    low: i64
    high: i64
    got: i64


@struct
class CheckArguments:
    """A check: its integers, and the position of the first one that is out of bounds, if it is below `count`.

    Where `position` is null, the kernel looks for it.  `width` is the bytes of an integer, negative without a sign.
    """

    position: ptr[i64]
    values: ptr[u8]
    count: i64
    width: i64
    low: i64
    high: i64


@struct
class Stamp:
    """When a thread began a row and ended it, and how long it was busy with it, in nanoseconds."""

    begin: i64
    end: i64
    busy: i64


@struct
class PoolFunctions:
    """The functions by which the driver uses the pool (see `native/parallel_runtime`)."""

    enter: Callable[[i64], i64]
    share: Callable[[Callable[[ptr[u8], i64, i64], None], ptr[u8], i64], None]
    leave: Callable[[], None]


@struct
class Descriptor:
    """A bound plan.

    The workspace has the arena, and at these offsets the arguments, the ends of launches, and the scratch.  `shared` is
    the number of the arena among the bases, `team` the number of threads, and `pool` where more than one is from.
    `stamps` has a row of stamps for each thread, where the stamped driver records times.
    """

    arguments: ptr[u64]
    argument_count: i64
    fixups: ptr[embed[Fixup]]
    fixup_count: i64
    rows: ptr[embed[PlanRow]]
    row_count: i64
    arguments_offset: i64
    ends_offset: i64
    scratch_offset: i64
    scratch_stride: i64
    shared: i64
    team: i64
    pool: PoolFunctions
    workspace_bytes: i64
    stamps: ptr[embed[Stamp]]


STATE = fields_of(AllocatorState)
SERIAL_OFFSET = offset_of(BufferObject, "serial")
