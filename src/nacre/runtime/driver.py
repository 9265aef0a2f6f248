"""The driver, in native Python: one function that runs a plan's table of rows on all threads of the pool.

The launches between two barriers are an epoch; they are independent of each other.  The caller counts the chunks of an
epoch's launches, shares them with the pool, and starts the next epoch when they are done.  A thread that takes a chunk
finds the chunk's row.  A caller without workers runs each launch whole.  Before each of its chunks the caller may test
whether to stop.  Then the rest of the epoch is taken without work, and no other epoch begins.

A launch that may stop the run calls a Python function (see `runtime/host_call`), or is a check (see `runtime/check`).
It has a barrier before and behind it, and the caller runs it.  Its scratch memory has the outcome.

A row without a kernel controls the flow.  Only the caller runs it, while no chunk is running.

`walk_rows`, `take_chunk` and `run_plan` are expanded for a given function that runs iterations, so that the driver of
`stamped_driver` is the same one with a clock around them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from nacre.native.python.declarations import inline, native, null
from nacre.native.python.intrinsics import addr, atomic_load, atomic_store, cast, copy_bytes, stack
from nacre.native.python.types import embed, i64, ptr, size_of, struct, u8, u64
from nacre.runtime import layouts
from nacre.runtime.layouts import Descriptor, Outcome, PlanRow

ENTER: Final = int(layouts.RowKind.ENTER)
TURN: Final = int(layouts.RowKind.TURN)
LEAVE: Final = int(layouts.RowKind.LEAVE)
BRANCH: Final = int(layouts.RowKind.BRANCH)
CACHE_LINE: Final = 64


@struct
class Context:
    """A running call, on the caller's stack.

    `ends` has for each launch the chunks of its epoch up to its end.  `first_row` is the first one of the epoch.
    `check` is null, or a function of `question` that says whether to stop; `stopped` is its last answer.
    """

    descriptor: Descriptor
    arguments: ptr[u64]
    ends: ptr[i64]
    scratch: ptr[u8]
    check: Callable[[ptr[u8]], i64]
    question: ptr[u8]
    stopped: i64
    first_row: i64


Check: TypeAlias = Callable[[ptr[u8]], i64]
RunIterations: TypeAlias = Callable[[Context, i64, i64, i64, i64], None]  # as `run_iterations`
RunChunk: TypeAlias = Callable[[ptr[u8], i64, i64], None]  # as `run_chunk`
Walk: TypeAlias = Callable[[Context, bool], None]  # as `walk`


@native
def run_iterations(context: Context, k: i64, low: i64, high: i64, thread: i64) -> None:
    """Run iterations of a launch, from one to another."""
    descriptor = context.descriptor
    row = descriptor.rows[k]
    scratch = addr(context.scratch[thread * descriptor.scratch_stride])
    row.kernel(addr(context.arguments[row.first_argument]), low, high, scratch)


@inline
def extent_of(context: Context, row: PlanRow) -> i64:
    """The number of iterations of a launch: none, for a copy of something to its own place."""
    extent = max(row.extent, 0)
    if row.idle:
        first = row.first_argument
        if context.arguments[first] == context.arguments[first + 1]:
            extent = 0
    return extent


@native
def must_stop(context: Context) -> bool:
    """Ask whether to stop, where there is something to ask."""
    answer = context.check(context.question)
    atomic_store(context.stopped, answer, "relaxed")
    return answer != 0


@inline
def has_stopped(context: Context) -> bool:
    """Whether the launch that has just returned stops the run."""
    stopped = cast(Outcome, context.scratch).stopped
    atomic_store(context.stopped, stopped, "relaxed")
    return stopped != 0


@inline
def take_chunk(context: Context, chunk: i64, thread: i64, run: RunIterations) -> None:
    """Run a chunk of the epoch, on any thread."""
    if atomic_load(context.stopped, "relaxed") != 0:
        return
    if thread == 0 and context.check != null and must_stop(context):
        return
    ends = context.ends
    k = context.first_row
    before: i64 = 0
    after = ends[k]
    while chunk >= after:
        k += 1
        before = after
        after = ends[k]
    row = context.descriptor.rows[k]
    low = (chunk - before) * row.grain
    run(context, k, low, low + min(row.grain, row.extent - low), thread)


@inline
def count_chunks(context: Context, rows: ptr[embed[PlanRow]], count: i64, first: i64) -> tuple[i64, i64]:
    """Open an epoch, which ends at a barrier or before control flow: the row behind it, and the number of chunks."""
    ends = context.ends
    context.first_row = first
    k = first
    chunks: i64 = 0
    while True:
        row = rows[k]
        grain = max(row.grain, 1)
        chunks += i64(u64(extent_of(context, row) + grain - 1) // u64(grain))
        ends[k] = chunks
        k += 1
        if k >= count:
            break
        following = rows[k]
        if following.kernel == null or following.barrier:
            break
    return k, chunks


@inline
def move_addresses(arguments: ptr[u64], row: PlanRow, parity: i64) -> None:
    """Change the addresses of a loop after an even or odd iteration, for the next one."""
    moves = row.moves
    for k in range(row.move_count):
        move = moves[k]
        arguments[move.argument] += u64(move.distances[parity])


@inline
def restore_addresses(arguments: ptr[u64], row: PlanRow, iterations: i64) -> None:
    """Change the addresses of a loop back to those before the first iteration."""
    moves = row.moves
    odd = iterations >> 1
    even = iterations - odd
    for k in range(row.move_count):
        move = moves[k]
        arguments[move.argument] -= u64(move.distances[0] * even + move.distances[1] * odd)


@inline
def control_flow(context: Context, row: PlanRow, following: i64, many: bool, several: bool) -> tuple[i64, bool]:
    """Run a row of control flow: the row to go to, and whether all threads run the launches from there on."""
    arguments = context.arguments
    place = row.first_argument
    target = row.target
    alone = row.alone
    kind = row.kind
    if kind == TURN:
        iteration = i64(arguments[place])
        move_addresses(arguments, row, iteration & 1)
        iteration += 1
        arguments[place] = u64(iteration)
        more = iteration < row.extent
        return target if more else following, many
    if kind == ENTER:
        arguments[place] = 0
        some = row.extent > 0
        return following if some else target, many and not alone
    if kind == LEAVE:
        restore_addresses(arguments, row, i64(arguments[place]))
        return following, many | (alone & several)
    if kind == BRANCH:
        holds = cast(ptr[u8], arguments[place])[0] != 0
        return following if holds else target, many
    return target, many


@inline
def walk_rows(context: Context, several: bool, run: RunIterations, run_chunk: RunChunk) -> None:
    """The caller's way through the rows: epochs on all threads of the pool, or each launch whole where it is alone."""
    descriptor = context.descriptor
    rows = descriptor.rows
    count = descriptor.row_count
    many = several
    k: i64 = 0
    while k < count:
        row = rows[k]
        if row.kernel == null:
            k, many = control_flow(context, row, k + 1, many, several)
        elif many and not row.may_stop:
            k, chunks = count_chunks(context, rows, count, k)
            descriptor.pool.share(run_chunk, cast(ptr[u8], context), chunks)
            if atomic_load(context.stopped, "relaxed") != 0:
                return
        else:
            extent = extent_of(context, row)
            if extent > 0:
                if context.check != null and must_stop(context):
                    return
                run(context, k, 0, extent, 0)
                if row.may_stop and has_stopped(context):
                    return
            k += 1


@inline
def write_arguments(descriptor: Descriptor, arguments: ptr[u64], bases: ptr[ptr[u8]], workspace: ptr[u8]) -> None:
    """Copy the arguments to the workspace, and write the addresses that depend on the call."""
    size = u64(descriptor.argument_count) * size_of(u64)
    copy_bytes(cast(ptr[u8], arguments), cast(ptr[u8], descriptor.arguments), size)
    fixups = descriptor.fixups
    shared = descriptor.shared
    for k in range(descriptor.fixup_count):
        fixup = fixups[k]
        base = workspace if fixup.base == shared else bases[fixup.base]
        place = addr(base[fixup.offset])
        arguments[fixup.argument] = cast(u64, null if base == null else place)


@inline
def run_plan(
    descriptor: Descriptor, bases: ptr[ptr[u8]], workspace: ptr[u8], check: Check, question: ptr[u8], walk: Walk
) -> i64:
    """Run a bound plan until the check's answer is not 0; that answer, or 0."""
    context = stack(Context, CACHE_LINE)
    context.descriptor = descriptor
    context.arguments = cast(ptr[u64], addr(workspace[descriptor.arguments_offset]))
    context.ends = cast(ptr[i64], addr(workspace[descriptor.ends_offset]))
    context.scratch = addr(workspace[descriptor.scratch_offset])
    context.check = check
    context.question = question
    context.stopped = 0
    write_arguments(descriptor, context.arguments, bases, workspace)
    team = descriptor.team
    if team > 1 and descriptor.pool.enter(team) > 1:
        walk(context, True)
        descriptor.pool.leave()
    else:
        walk(context, False)
    return context.stopped


@native
def run_chunk(context: ptr[u8], chunk: i64, thread: i64) -> None:
    """Run a chunk of the epoch of a context, on any thread."""
    take_chunk(cast(Context, context), chunk, thread, run_iterations)


@native
def walk(context: Context, several: bool) -> None:
    """The caller's way through the rows, alone or with `several` threads."""
    walk_rows(context, several, run_iterations, run_chunk)


@native(symbol="nacre.run")
def run(descriptor: Descriptor, bases: ptr[ptr[u8]], workspace: ptr[u8]) -> i64:
    """Run a bound plan: why it stopped (`Stopped`), or 0.

    `bases` are the addresses of inputs and outputs, an unused one, and that of packed inputs (or null).  `workspace` is
    the arena and the tables behind it.
    """
    return run_unless(descriptor, bases, workspace, null, null)


@native(symbol="nacre.run_unless")
def run_unless(descriptor: Descriptor, bases: ptr[ptr[u8]], workspace: ptr[u8], check: Check, question: ptr[u8]) -> i64:
    """Run a bound plan until the answer of `check` is not 0; that answer, or 0."""
    return run_plan(descriptor, bases, workspace, check, question, walk)
