"""Plans: the steps of a compiled program, where its values live, and how they are laid out in one arena.

A plan speaks of values by number.  Sizes may be symbolic; `bind` evaluates them for the sizes of a call, lays out
the arena, and writes the tables that the native driver walks (see `codegen/program`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from nacre.base.dims import Size, evaluate
from nacre.base.errors import OutOfMemory
from nacre.runtime.choice import choose

ALIGN = 64
ADDRESSABLE = 1 << 56  # more bytes than any machine has; offsets stay far from 64 bits
STEP_WORDS = 8  # kernel, first argument, extent, grain, barrier, idle, and room to grow
DESCRIPTOR_WORDS = 16
ALONE_COST = 400_000  # programs with less work run on the caller alone
SHARE_COST = 10_000  # steps with less work are not divided
CHUNK_COST = 5_000  # the least work worth taking a chunk for


@dataclass(frozen=True, slots=True)
class Pointer:
    """The address of a value, moved by some bytes."""

    value: int
    offset: Size = 0


@dataclass(frozen=True, slots=True)
class Number:
    """A size, as a 64-bit integer."""

    size: Size


Slot = Pointer | Number


class Cut(NamedTuple):
    """How a template divides its work for given sizes and threads."""

    extent: int
    grain: int
    scratch: int
    words: tuple[int, ...]  # integers that follow the slots


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
    grain: Size = 1  # rounds that belong together
    flops: Size = 0
    cut: Callable[[tuple[int, ...], int], Cut] | None = None  # of `cut_sizes` and threads; decides the rest
    cut_sizes: tuple[Size, ...] = ()
    over: tuple[tuple[int, int], ...] = ()  # pairs (read, written) that may share memory
    idle: bool = False  # a copy of its first slot to its second: nothing is done where they are the same address


@dataclass(frozen=True, slots=True)
class Storage:
    """A value of the program: `input`, `output`, `constant`, or `temporary` (in the arena)."""

    kind: str
    nbytes: Size
    reuses: int = -1  # an input or temporary whose memory may become this value's, if nobody else needs it


@dataclass(frozen=True)
class Plan:
    """The steps in order and the values they work on; inputs come first, then outputs."""

    values: tuple[Storage, ...]
    steps: tuple[Launch, ...]
    inputs: int
    outputs: int
    epochs: tuple[int, ...]  # for each step how many barriers stand before it
    # pairs (output, input) of which the first may be written over the second, each once
    donations: tuple[tuple[int, int], ...] = ()

    def root(self, value: int) -> int:
        """The temporary whose place a temporary takes over, in the end; itself if it has one of its own."""
        while self.values[value].reuses >= 0:
            value = self.values[value].reuses
        return value

    def lifetimes(self) -> dict[int, tuple[int, int]]:
        """For each temporary with a place of its own the first and last epoch in which the place is used."""
        found: dict[int, tuple[int, int]] = {}
        for epoch, step in zip(self.epochs, self.steps, strict=True):
            for v in (*step.reads, *step.writes):
                if self.values[v].kind == "temporary":
                    place = self.root(v)
                    first, _ = found.get(place, (epoch, epoch))
                    found[place] = (first, epoch)
        return found


@dataclass
class Bound:
    """A plan for given sizes and threads: the native tables, kept alive here."""

    descriptor: np.ndarray
    output_bytes: tuple[int, ...]
    workspace_bytes: int
    arena_bytes: int
    constants: Sequence[int]
    work: int
    tables: list[np.ndarray] = field(default_factory=list[np.ndarray])


def aligned(n: int) -> int:
    """n rounded up to the alignment of buffers."""
    return -(-n // ALIGN) * ALIGN


def arena(plan: Plan, sizes: Mapping[str, int]) -> tuple[dict[int, int], int]:
    """Offsets of the temporaries, so that none overlap while both are alive, and the bytes needed.

    Greedy by size: the largest first, each at the lowest place that is free during its life.
    """
    lives = plan.lifetimes()
    bytes_of = {v: aligned(evaluate(plan.values[v].nbytes, sizes)) for v in lives}
    placed = np.empty((len(lives), 4), np.int64)  # offset, end, first, last
    offsets: dict[int, int] = {}
    for k, v in enumerate(sorted(lives, key=lambda v: (-bytes_of[v], lives[v], v))):
        first, last = lives[v]
        near = placed[:k][(placed[:k, 2] <= last) & (first <= placed[:k, 3])]
        near = near[np.argsort(near[:, 0])]
        free = np.maximum.accumulate(np.append(0, near[:, 1]))  # from here on, once the k-th neighbour has begun
        fits = near[:, 0] - free[:-1] >= bytes_of[v]
        offsets[v] = int(free[fits.argmax()] if fits.any() else free[-1])
        placed[k] = offsets[v], offsets[v] + bytes_of[v], first, last
    return offsets, int(placed[:, 1].max(initial=0))


def epochs(steps: Sequence[Launch]) -> tuple[int, ...]:
    """How many barriers must stand before each step: one where it needs what its epoch computes or still reads."""
    found: list[int] = []
    now = 0
    written: set[int] = set()
    read: set[int] = set()
    for step in steps:
        if written & {*step.reads, *step.writes} or read & set(step.writes):
            now += 1
            written, read = set(), set()
        written |= set(step.writes)
        read |= set(step.reads)
        found.append(now)
    return tuple(found)


def bind(plan: Plan, sizes: Mapping[str, int], threads: int, addresses: Sequence[int],
         constants: Sequence[int]) -> Bound:
    """Write the native tables; `addresses` are the kernels', `constants` those of the constant values in order."""
    largest = max((evaluate(v.nbytes, sizes) for v in plan.values), default=0)
    if largest > ADDRESSABLE:
        raise OutOfMemory(f"memory: values that a machine can address are required; got one of {largest:,} bytes; "
                          "use smaller shapes")
    number = {s: k for k, s in enumerate(v for v in range(len(plan.values)) if plan.values[v].kind == "constant")}
    offsets, arena_bytes = arena(plan, sizes)
    base_of: dict[int, tuple[int, int]] = {}  # value -> base, offset; base inputs+outputs is the arena
    shared = plan.inputs + plan.outputs
    for v, storage in enumerate(plan.values):
        if storage.kind in ("input", "output"):
            base_of[v] = (v, 0)
        elif storage.kind == "temporary" and plan.root(v) in offsets:
            base_of[v] = (shared, offsets[plan.root(v)])
    words: list[int] = []
    fixups: list[int] = []
    rows: list[int] = []
    scratch = work = before = 0
    for step, epoch in zip(plan.steps, plan.epochs, strict=True):
        extent = evaluate(step.extent, sizes)
        cost = max(1, evaluate(step.cost, sizes))
        work += extent * cost
        extent, grain, local, extra = divide(step, sizes, threads)
        rows += [addresses[step.code], len(words), extent, grain, int(epoch != before), int(step.idle), 0, 0]
        before = epoch
        scratch = max(scratch, aligned(local))
        for slot in step.slots:
            if isinstance(slot, Number):
                words.append(evaluate(slot.size, sizes))
                continue
            offset = evaluate(slot.offset, sizes)
            if plan.values[slot.value].kind == "constant":
                words.append(constants[number[slot.value]] + offset)
            else:
                base, place = base_of[slot.value]
                fixups += [len(words), base, place + offset]
                words.append(0)
        words += extra
    team = 1 if work < ALONE_COST else threads
    args_at = aligned(arena_bytes)
    ends_at = aligned(args_at + 8 * len(words))
    scratch_at = aligned(ends_at + 8 * len(plan.steps))
    tables = [np.array(t or [0], np.int64) for t in (words, fixups, rows)]
    template, fix, steps = (t.ctypes.data for t in tables)
    workspace_bytes = scratch_at + scratch * team
    descriptor = np.array([template, len(words), fix, len(fixups) // 3, steps, len(plan.steps), args_at, ends_at,
                           0, scratch_at, scratch, 0, workspace_bytes, shared, team, 0], np.int64)
    assert descriptor.size == DESCRIPTOR_WORDS
    output_bytes = tuple(evaluate(plan.values[plan.inputs + k].nbytes, sizes) for k in range(plan.outputs))
    return Bound(descriptor, output_bytes, workspace_bytes, arena_bytes, constants, work, tables)


def divide(step: Launch, sizes: Mapping[str, int], threads: int) -> Cut:
    """How a step is divided among threads."""
    if step.cut is not None:
        return step.cut(tuple(evaluate(n, sizes) for n in step.cut_sizes), threads)
    extent, cost = evaluate(step.extent, sizes), max(1, evaluate(step.cost, sizes))
    grain = choose(f"grain {step.label} {extent} {cost} {threads}",
                   grains(extent, cost, evaluate(step.grain, sizes), threads))
    return Cut(extent, grain, evaluate(step.scratch, sizes), ())


def grains(extent: int, cost: int, together: int, threads: int) -> tuple[int, ...]:
    """Rounds that a thread may take at a time, the usual number first, the whole extent last."""
    usual = _grain(extent, cost, together, threads)
    if threads == 1 or extent <= together:
        return (usual,)
    pieces = (_multiple(max(1, -(-extent // (n * threads))), together) for n in (1, 2, 4, 8, 16))
    return tuple(dict.fromkeys((usual, *pieces, extent)))


def _grain(extent: int, cost: int, together: int, threads: int) -> int:
    """Rounds a thread takes at a time: few chunks for little work, otherwise four for each thread or a few more.

    With few rounds, four chunks a thread may leave a thread idle for a chunk; of up to eight, the number is taken that
    leaves the least idle.
    """
    if extent * cost < SHARE_COST:
        return max(1, extent)
    least = max(CHUNK_COST // cost, 1)
    grains = [_multiple(max(-(-extent // (n * threads)), least), together) for n in range(4, 9)]
    return min(grains, key=lambda grain: -(-extent // (grain * threads)) * grain)


def _multiple(n: int, unit: int) -> int:
    """The least multiple of a unit that is not below n."""
    return -(-n // unit) * unit
