"""Plans: the steps of a compiled program, where its values are stored, and their layout in one arena.

A plan refers to values by number.  Sizes may be symbolic.  A `Binding` evaluates them for a call, lays out the arena,
and writes the tables for the native driver (see `runtime/driver`).  Loops and branches are in `runtime/flow`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any, NamedTuple, cast

import numpy as np

from nacre.base.cached_property import cached_property
from nacre.base.dims import Size, evaluate
from nacre.base.errors import OutOfMemory
from nacre.base.records import dataclass
from nacre.native.python.declarations import null
from nacre.native.python.types import i64, size_of
from nacre.runtime.flow import UNKNOWN_TRIPS, DriverRow, Tree, lives, loops, rounds, walk
from nacre.runtime.grains import grains
from nacre.runtime.layouts import Descriptor, Fixup, Move, PlanRow, RowKind
from nacre.runtime.recomputation import RecomputationChoice
from nacre.runtime.tables import address, record, table
from nacre.runtime.tunables import choose

ALIGN = 64
ADDRESSABLE = 1 << 56  # more bytes than any machine has; offsets stay far from 64 bits
ALONE_COST = 64_000  # programs with less work run on the caller alone
ENDLESS = 1 << 40  # the estimated work of a loop of unknown length


@dataclass(frozen=True, slots=True)
class Pointer:
    """The address of a value plus an offset in bytes."""

    value: int
    offset: Size = 0


@dataclass(frozen=True, slots=True)
class Number:
    """A size, as a 64-bit integer."""

    size: Size


Slot = Pointer | Number


class Cut(NamedTuple):
    """The division of a kernel's work for given sizes and threads."""

    extent: int
    grain: int
    scratch: int
    arguments: tuple[int, ...]  # integers that follow the slots


@dataclass(frozen=True, slots=True)
class Failure:
    """The error of a check: the kind of its class, and its text, which may have {low}, {high} and {got}.

    `signed` is whether the integers that are checked have a sign.
    """

    kind: str
    text: str
    signed: bool = True


@dataclass(frozen=True, slots=True)
class Launch:
    """One kernel over its parallel extent."""

    code: int
    label: str
    slots: tuple[Slot, ...]
    extent: Size
    cost: Size  # instructions for one round of the extent, roughly
    scratch: Size
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    grain: Size = 1  # rounds that must not be divided
    flops: Size = 0
    cut: Callable[[tuple[int, ...], int], Cut] | None = None  # of `cut_sizes` and threads; decides the rest
    cut_sizes: tuple[Size, ...] = ()
    over: tuple[tuple[int, int], ...] = ()  # pairs (read, written) that may share memory
    idle: bool = False  # a copy of its first slot to its second, which does nothing if the addresses are equal
    host: Any = None  # the Python object that it calls, which its first slot is the address of
    failures: tuple[Failure, ...] = ()  # the errors of its checks, if it is the kernel of checks

    @property
    def may_stop(self) -> bool:
        """Whether the program may end behind it."""
        return self.host is not None or bool(self.failures)


@dataclass(frozen=True, slots=True)
class PlannedValue:
    """A value of the program: `input`, `output`, `constant`, `temporary` (in the arena), `part`, or `packed`.

    A part of another value begins `offset` bytes into the value `of`, and advances by `stride` bytes with each round of
    a loop.  A packed value is written by a kernel from the input or constant `of`, and may be reused by later calls
    with the same one (see `PackedMemory`).  `fill` computes the same contents from the constant `of`, also for a
    temporary that one launch writes; a kernel that finds the value ready does not read the constant.
    """

    kind: str
    nbytes: Size
    reuses: int = -1  # an input or temporary whose memory this value may reuse after its last use
    of: int = -1
    offset: Size = 0
    stride: Size = 0
    loop: int = -1
    fill: Callable[[np.ndarray], np.ndarray | None] | None = None


class Location(NamedTuple):
    """The place of a value for a row: the containing value, the offset in it, and the changes after each round.

    Among the loops around the row, some move it by bytes, and some exchange it with another value.
    """

    value: int
    offset: Size
    moves: tuple[tuple[int, Size], ...]
    swaps: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Plan:
    """The steps in order and the values they use; inputs come first, then outputs."""

    values: tuple[PlannedValue, ...]
    steps: tuple[Launch, ...]
    inputs: int
    outputs: int
    epochs: tuple[int, ...]  # for each step the number of barriers before it
    # pairs (output, input) of which the first may be stored over the second, each once
    donations: tuple[tuple[int, int], ...] = ()

    tree: Tree = ()  # the order of the steps, if there is control flow
    recomputation: RecomputationChoice | None = None  # under a memory budget

    @cached_property
    def rows(self) -> tuple[DriverRow, ...]:
        """The rows of the driver: the steps, and the control flow between them."""
        return walk(self.uses, self.tree or tuple(range(len(self.steps))), stopping(self.steps))

    @cached_property
    def uses(self) -> list[tuple[set[int], set[int]]]:
        """For each step the values that it reads and writes; parts count as the whole value."""
        return uses(self.steps, self.values)

    @property
    def calls_host(self) -> bool:
        """Whether it calls Python functions."""
        return any(s.host is not None for s in self.steps)

    @cached_property
    def failures(self) -> tuple[Failure, ...]:
        """The errors of all checks, by number."""
        return tuple(f for s in self.steps for f in s.failures)

    @property
    def endless(self) -> bool:
        """Whether it has a loop of unknown length."""
        return any(loop.trips is None for loop in loops(self.tree))

    def root(self, value: int) -> int:
        """The temporary whose place a temporary finally reuses; itself if it has its own."""
        value = holder(self.values, value)
        while self.values[value].reuses >= 0:
            value = self.values[value].reuses
        return value

    def place(self, value: int) -> int:
        """The temporary in whose place a value is stored; -1 for a value outside the arena."""
        value = self.root(value)
        return value if self.values[value].kind == "temporary" else -1

    def lifetimes(self) -> dict[int, tuple[int, int]]:
        """For each temporary with its own place, the first and last epoch in which the place is used."""
        return lives(self.rows, self.uses, self.place)

    def located(self, slot: Pointer, row: DriverRow) -> Location:
        """The place of a slot's value for a row."""
        value, offset = slot.value, slot.offset
        moves: list[tuple[int, Size]] = []
        while self.values[value].kind == "part":
            part = self.values[value]
            offset = offset + part.offset
            if part.loop >= 0:
                moves.append((part.loop, part.stride))
            value = part.of
        swaps = [(loop.number, b if value == a else a) for loop in row.inside for a, b in loop.swaps if value in (a, b)]
        return Location(value, offset, tuple(moves), tuple(swaps))

    def times(self, sizes: Mapping[str, int], unknown: int = 1) -> list[int]:
        """The number of runs of each step.  Both sides of a branch count; a loop of unknown length counts `unknown`
        iterations.
        """
        if not self.tree:
            return [1] * len(self.steps)
        found = dict(rounds(self.tree, sizes, unknown))
        return [found[k] for k in range(len(self.steps))]


def holder(values: Sequence[PlannedValue], value: int) -> int:
    """The whole value that finally contains a part; itself if it is whole."""
    while values[value].kind == "part":
        value = values[value].of
    return value


def stopping(steps: Sequence[Launch]) -> frozenset[int]:
    """The steps behind which a program may end; no other step runs at the same time."""
    return frozenset(k for k, s in enumerate(steps) if s.may_stop)


def uses(steps: Sequence[Launch], values: Sequence[PlannedValue]) -> list[tuple[set[int], set[int]]]:
    """For each step the values that it reads and writes; parts count as the whole value."""
    return [({holder(values, v) for v in s.reads}, {holder(values, v) for v in s.writes}) for s in steps]


@dataclass(frozen=True)
class PackedMemory:
    """Memory for packed copies of operands that are equal in many calls: weights.

    It is one block, whose address follows the outputs' and the arena's.  With a null address, kernels pack into scratch
    memory in each call.  The first word of a value says whether it is ready.  A kernel that finds it not ready writes
    it; all kernels write the same data.  The owner of the block marks it ready after the call.  `sources` are the
    packed inputs.
    """

    nbytes: int
    sources: tuple[int, ...]
    offsets: tuple[int, ...]


READY = 64  # bytes before packed data; their first word says whether the data is ready


@dataclass
class BoundPlan:
    """A plan for given sizes and threads: the native tables, which live as long as this object.

    `descriptor` is a Descriptor; `tables` are the arguments, the fixups, the rows, and the moves of each loop.
    """

    descriptor: np.ndarray
    output_bytes: tuple[int, ...]
    workspace_bytes: int
    arena_bytes: int
    constants: Sequence[int]
    work: int
    packed: PackedMemory
    outcome: int  # the place of the Outcome in the workspace
    tables: list[np.ndarray] = field(default_factory=list[np.ndarray])


def aligned(n: int) -> int:
    """n rounded up to the alignment of buffers."""
    return -(-n // ALIGN) * ALIGN


def arena(plan: Plan, sizes: Mapping[str, int]) -> tuple[dict[int, int], int]:
    """Offsets of the temporaries, so that none overlap while both are live, and the bytes needed.

    Greedy by size: the largest first, each at the lowest place that is free during its live range.
    """
    lives = plan.lifetimes()
    bytes_of = {v: aligned(evaluate(plan.values[v].nbytes, sizes)) for v in lives}
    placed = np.empty((len(lives), 4), np.int64)  # offset, end, first, last
    offsets: dict[int, int] = {}
    for k, v in enumerate(sorted(lives, key=lambda v: (-bytes_of[v], lives[v], v))):
        first, last = lives[v]
        near = placed[:k][(placed[:k, 2] <= last) & (first <= placed[:k, 3])]
        near = near[np.argsort(near[:, 0])]
        free = np.maximum.accumulate(np.append(0, near[:, 1]))  # free from here on, behind the k-th neighbour
        fits = near[:, 0] - free[:-1] >= bytes_of[v]
        offsets[v] = int(free[fits.argmax()] if fits.any() else free[-1])
        placed[k] = offsets[v], offsets[v] + bytes_of[v], first, last
    return offsets, int(placed[:, 1].max(initial=0))


def epochs(steps: Sequence[Launch]) -> tuple[int, ...]:
    """The number of barriers before each step; a step needs one if it depends on its epoch's steps."""
    met = [(set(s.reads), set(s.writes)) for s in steps]
    return tuple(row.epoch for row in walk(met, tuple(range(len(steps))), stopping(steps)))


class Binding:
    """Writes the native tables of a plan for given sizes: arguments, fixups of addresses, rows, and moves in loops.

    `team` is the number of threads, at most those given.  Raises OutOfMemory for a value that no memory holds.
    """

    addresses: Sequence[int]
    constants: Sequence[int]

    def __init__(self, plan: Plan, sizes: Mapping[str, int], threads: int) -> None:
        largest = max((evaluate(v.nbytes, sizes) for v in plan.values), default=0)
        if largest > ADDRESSABLE:
            raise OutOfMemory(
                f"memory: values must fit the machine's address space; got one of {largest:,} bytes; use smaller shapes"
            )
        self.plan, self.sizes = plan, sizes
        self.number = {s: k for k, s in enumerate(v for v, x in enumerate(plan.values) if x.kind == "constant")}
        self.offsets, self.arena_bytes = arena(plan, sizes)
        self.packed, total = dict[int, int](), 0
        for v, x in enumerate(plan.values):
            if x.kind == "packed":
                self.packed[v] = total
                total += aligned(evaluate(x.nbytes, sizes))
        self.packed_bytes = total
        self.shared = plan.inputs + plan.outputs  # the arena's number among the bases
        self.rows = plan.rows
        self.cuts = [divide(step, sizes, threads) for step in plan.steps]
        self.words: list[int] = []
        self.fixups: list[Fixup] = []
        self.moves: dict[int, list[Move]] = {loop.number: [] for loop in loops(plan.tree)}
        self.alone: set[int] = run_alone(plan, self.cuts) if threads > 1 else set()
        works = [evaluate(s.extent, sizes) * max(1, evaluate(s.cost, sizes)) for s in plan.steps]
        times = plan.times(sizes, UNKNOWN_TRIPS)
        self.work = sum(w * n for w, n in zip(works, times, strict=True)) + (ENDLESS if plan.endless else 0)
        single = {row.step for row in self.rows if any(loop.number in self.alone for loop in row.inside)}
        together = sum(w * n for k, (w, n) in enumerate(zip(works, times, strict=True)) if k not in single)
        self.team = 1 if together < ALONE_COST else threads

    def bound(self, addresses: Sequence[int], constants: Sequence[int], pool: int = 0) -> BoundPlan:
        """The tables, and the descriptor with their addresses.

        `addresses` are those of the kernels, `constants` of the constant values in order, and `pool` of the pool's
        functions, which a plan for one thread does not need.
        """
        plan, self.addresses, self.constants = self.plan, addresses, constants
        places = [self.arguments(row) for row in self.rows]
        turns = {number: self.word(0) for number in self.moves}
        moves = {number: table(Move, found) for number, found in self.moves.items()}
        rows: list[PlanRow] = []
        for row, place in zip(self.rows, places, strict=True):
            if row.kind is RowKind.LAUNCH:
                rows.append(self.launch(row, place))
            else:
                rows.append(self.control(row, place, turns, moves))
        tables = [np.array(self.words, np.int64), table(Fixup, self.fixups), table(PlanRow, rows)]
        descriptor, workspace_bytes = self.descriptor(tables, pool)
        output_bytes = tuple(evaluate(plan.values[plan.inputs + k].nbytes, self.sizes) for k in range(plan.outputs))
        sources = {plan.values[v].of for v in self.packed}
        packed = PackedMemory(
            self.packed_bytes,
            tuple(sorted(v for v in sources if plan.values[v].kind == "input")),
            tuple(self.packed.values()),
        )
        return BoundPlan(
            descriptor,
            output_bytes,
            workspace_bytes,
            self.arena_bytes,
            self.constants,
            self.work,
            packed,
            int(descriptor["scratch_offset"]),
            [*tables, *moves.values()],
        )

    def descriptor(self, tables: Sequence[np.ndarray], pool: int) -> tuple[np.ndarray, int]:
        """The descriptor of the tables of arguments, fixups and rows; and the bytes of the workspace."""
        arguments, fixups, rows = tables
        scratch = max((aligned(cut.scratch) for cut in self.cuts), default=0)
        arguments_at = aligned(self.arena_bytes)
        ends_at = aligned(arguments_at + arguments.nbytes)
        scratch_at = aligned(ends_at + size_of(i64) * len(rows))
        workspace_bytes = scratch_at + scratch * self.team
        descriptor = Descriptor(
            arguments=address(arguments),
            argument_count=len(arguments),
            fixups=address(fixups),
            fixup_count=len(fixups),
            rows=address(rows),
            row_count=len(rows),
            arguments_offset=arguments_at,
            ends_offset=ends_at,
            scratch_offset=scratch_at,
            scratch_stride=scratch,
            workspace_bytes=workspace_bytes,
            shared=self.shared,
            team=self.team,
            pool=cast("Any", pool),
            stamps=null,
        )
        return record(descriptor), workspace_bytes

    def word(self, value: int) -> int:
        """Append a word of arguments; returns its place."""
        self.words.append(value)
        return len(self.words) - 1

    def arguments(self, row: DriverRow) -> int:
        """Append the arguments of a row; returns the place of the first."""
        place = len(self.words)
        if row.kind is RowKind.BRANCH:
            self.pointer(row, Pointer(row.cell))
        elif row.kind is RowKind.LAUNCH:
            for slot in self.plan.steps[row.step].slots:
                if isinstance(slot, Number):
                    self.word(evaluate(slot.size, self.sizes))
                else:
                    self.pointer(row, slot)
            self.words += self.cuts[row.step].arguments
        return place

    def pointer(self, row: DriverRow, slot: Pointer) -> None:
        """Append an address, with its moves in the loops around the row."""
        at = len(self.words)
        value, size, moves, swaps = self.plan.located(slot, row)
        offset = evaluate(size, self.sizes)
        for loop, stride in moves:
            step = evaluate(stride, self.sizes)
            self.move(loop, at, step, step)
        for loop, other in swaps:
            distance = self.offsets[other] - self.offsets[value]
            self.move(loop, at, distance, -distance)
        kind = self.plan.values[value].kind
        if kind == "constant":
            self.word(self.constants[self.number[value]] + offset)
        elif kind == "temporary":
            self.fixup(self.shared, self.offsets.get(self.plan.root(value), 0) + offset)
        elif kind == "packed":
            self.fixup(self.shared + 1, self.packed[value] + offset)
        else:
            self.fixup(value, offset)

    def fixup(self, base: int, offset: int) -> None:
        """Append a word of arguments that the call computes from a base."""
        self.fixups.append(Fixup(argument=self.word(0), base=base, offset=offset))

    def move(self, loop: int, argument: int, even: int, odd: int) -> None:
        """Let a loop change an argument after even and after odd iterations."""
        self.moves[loop].append(Move(argument=argument, distances=cast("Any", (even, odd))))

    def launch(self, row: DriverRow, place: int) -> PlanRow:
        """A launch, whose arguments begin at a place."""
        step, cut = self.plan.steps[row.step], self.cuts[row.step]
        made = _new_row(row, place)
        made.kernel, made.extent, made.grain = cast("Any", self.addresses[step.code]), cut.extent, cut.grain
        made.idle, made.may_stop = step.idle, step.may_stop
        return made

    def control(self, row: DriverRow, place: int, turns: Mapping[int, int], moves: Mapping[int, np.ndarray]) -> PlanRow:
        """A row of control flow."""
        made = _new_row(row, place)
        if row.loop is not None:
            number, most = row.loop.number, row.loop.most(ENDLESS)
            made.first_argument, made.alone = turns[number], number in self.alone
            made.extent = max(0, evaluate(most, self.sizes))
            made.moves, made.move_count = address(moves[number]), len(moves[number])
        return made


def _new_row(row: DriverRow, place: int) -> PlanRow:
    """A row of the plan's tables without work: fields without a value become zero."""
    made = PlanRow.__new__(PlanRow)
    made.first_argument, made.target, made.kind, made.barrier = place, row.target, row.kind, row.sync
    return made


def run_alone(plan: Plan, cuts: Sequence[Cut]) -> set[int]:
    """The outermost loops without divided steps: one thread runs them, without barriers, and the others wait."""
    if not plan.tree:
        return set()
    rows = plan.rows
    divided: set[int] = set()
    for row in rows:
        if row.kind is RowKind.LAUNCH and cuts[row.step].extent > cuts[row.step].grain:
            divided.update(loop.number for loop in row.inside)
    found: set[int] = set()
    for row in rows:
        around = {loop.number for loop in row.inside}
        if row.kind is RowKind.ENTER and row.loop is not None and not around & found and row.loop.number not in divided:
            found.add(row.loop.number)
    return found


def divide(step: Launch, sizes: Mapping[str, int], threads: int) -> Cut:
    """The division of a step among threads."""
    if step.cut is not None:
        return step.cut(tuple(evaluate(n, sizes) for n in step.cut_sizes), threads)
    extent, cost = evaluate(step.extent, sizes), max(1, evaluate(step.cost, sizes))
    grain = choose(
        f"grain {step.label} {extent} {cost} {threads}", grains(extent, cost, evaluate(step.grain, sizes), threads)
    )
    return Cut(extent, grain, evaluate(step.scratch, sizes), ())
