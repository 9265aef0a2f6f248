"""`profile`: where the time of a compiled function goes, kernel by kernel, from real runs of its program.

    >>> import nacre as nc
    >>> told = profile(nc.jit(lambda x: nc.sum(nc.exp(x) * 2, axis=1)), nc.ones((64, 512)), rounds=3)
    >>> [row.label for row in told.rows], told.rows[0].bytes == 4 * (64 * 512 + 64)
    (['exp+mul+sum'], True)

The program runs as it always does, by a driver that also notes for every thread and step when it arrived, began and
ended.  The time between two barriers is divided among the kernels between them by how long threads were busy with
each, so that the rows add up to the whole walk, waiting included.  Variables and donated arguments are copied first:
nothing that the function would change is changed.
"""

from __future__ import annotations

import ctypes
import time
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import median
from typing import Any

import numpy as np

from nacre.base.errors import ArgumentError
from nacre.codegen.program import STAMPS, STAMPS_WORD, stamped_driver_text
from nacre.inspect.ceilings import Ceilings, ceilings
from nacre.inspect.work import Step, steps, traffic
from nacre.runtime.buffer import Buffer, allocate
from nacre.runtime.executable import Executable, driver
from nacre.runtime.plan import Bound
from nacre.transform.concrete import Prepared
from nacre.transform.jit import Jitted, jit

NANO = 1e-9


@dataclass(frozen=True)
class Row:
    """A kernel in a run: its share of the walk's seconds, in the quickest round and in the median one."""

    label: str
    dtype: str
    launches: int
    flops: int
    bytes: int
    seconds: float
    typical: float
    busy: float  # of the threads' time in `seconds`, the part in which they computed
    floor: float = 0.0  # seconds that the machine needs at least, by its ceilings

    @property
    def share(self) -> float:
        """How much of the machine's best it reaches."""
        return self.floor / self.seconds if self.seconds else 0.0

    @property
    def intensity(self) -> float:
        """Operations for each byte."""
        return self.flops / max(1, self.bytes)


@dataclass(frozen=True)
class Profile:
    """A program's kernels in order, and its whole: all times in seconds.

    `walked` is the sum of the rows, `whole` the least time of the same program without stamps, from the call of the
    native function to its return; `floor` is what its inputs, outputs and operations need at least.
    """

    name: str
    rows: tuple[Row, ...]
    walked: float
    stamped: float
    whole: float
    typical: float
    traffic: int  # bytes of its inputs and outputs
    floor: float
    ceilings: Ceilings

    def under(self, limits: Ceilings) -> Profile:
        """The same run, compared with these limits."""
        rows = tuple(replace(r, floor=limits.floor(r.flops, r.bytes, r.dtype)) for r in self.rows)
        main = max(rows, key=lambda r: r.flops).dtype if rows else "f32"  # in which most of the arithmetic is done
        return replace(self, rows=rows, floor=limits.floor(self.flops, self.traffic, main), ceilings=limits)

    @property
    def flops(self) -> int:
        """All operations."""
        return sum(r.flops for r in self.rows)

    @property
    def bytes(self) -> int:
        """All bytes that its kernels move."""
        return sum(r.bytes for r in self.rows)

    @property
    def share(self) -> float:
        """How much of the machine's best the whole program reaches."""
        return self.floor / self.whole if self.whole else 0.0


def profile(function: Any, *args: Any, rounds: int = 20, **kwargs: Any) -> Profile:
    """Run a function's program for these arguments, `rounds` times after a warm-up, and say where the time goes.

    A function that is not jitted is jitted first.  Raises ArgumentError for one with control flow in its graph, and
    for less than one round.
    """
    if rounds < 1:
        raise ArgumentError(f"profile: one round or more is required; got {rounds}")
    jitted: Jitted = function if isinstance(function, Jitted) else jit(function)
    return measured(jitted.name, jitted.prepare(*args, **kwargs), rounds)


def measured(name: str, prepared: Prepared, rounds: int) -> Profile:
    """The profile of a program that is ready to run."""
    counted = steps(prepared.compiled, prepared.sizes)
    bench = _Bench(prepared)
    for _ in range(2):
        bench.plain()
        bench.stamped()
    plain: list[float] = []
    runs: list[tuple[float, np.ndarray]] = []
    for _ in range(rounds):
        plain.append(bench.plain())
        runs.append(bench.stamped())
    divided = [_divided(stamps, bench.barriers) for _, stamps in runs]
    quickest = min(range(rounds), key=lambda k: runs[k][0])
    typical = np.median([seconds for seconds, _ in divided], axis=0)
    rows = tuple(_row(step, *divided[quickest], typical, bench.team) for step in counted)
    moved, limits = traffic(prepared.compiled, prepared.sizes), ceilings()
    told = Profile(name, rows, sum(r.seconds for r in rows), runs[quickest][0], min(plain), median(plain), moved, 0.0,
                   limits)
    return told.under(limits)


def _row(step: Step, seconds: np.ndarray, busy: np.ndarray, typical: np.ndarray, team: int) -> Row:
    mine = slice(step.first, step.first + step.launches)
    spent, worked = float(seconds[mine].sum()), float(busy[mine].sum())
    return Row(step.label, step.dtype, step.launches, step.flops, step.bytes, spent, float(typical[mine].sum()),
               worked / (team * spent) if spent else 0.0)


def _divided(stamps: np.ndarray, barriers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For each step its seconds and the threads' busy seconds, from stamps[thread, step, (arrive, begin, end)].

    What lies between two barriers is an epoch: it lasts from the first arrival at it to the last arrival at the next.
    """
    busy = (stamps[:, :, 2] - stamps[:, :, 1]).sum(axis=0) * NANO
    seconds = np.zeros(len(busy))
    starts = [0, *np.flatnonzero(barriers).tolist(), len(busy)]
    begin = int(stamps[:, 0, 0].min())
    for first, after in pairwise(starts):
        if after == first:
            continue
        end = int(stamps[:, after - 1, 2].max())
        total = busy[first:after].sum()
        parts = busy[first:after] / total if total else np.full(after - first, 1 / (after - first))
        seconds[first:after] = parts * (end - begin) * NANO
        begin = end
    return seconds, busy


class _Bench:
    """A program bound twice, without stamps and with them, over private copies of what it would change."""

    def __init__(self, prepared: Prepared) -> None:
        executable = prepared.compiled.executable
        noting = replace(executable, driver_text=stamped_driver_text(), bounds={}, addresses=[], held=[])
        self.programs = tuple(_bind(e, prepared.sizes) for e in (executable, noting))
        bound = self.programs[1][0]
        self.held: list[Any] = list(prepared.inputs)
        self.workspace = allocate(bound.workspace_bytes)
        inputs = [x.data for x in prepared.inputs]
        for k in prepared.in_place.values():
            inputs[k] = _copied(inputs[k])
        outputs = [inputs[prepared.in_place[k]] if k in prepared.in_place else allocate(n)
                   for k, n in enumerate(bound.output_bytes)]
        self.held += [*inputs, *outputs]
        self.bases = np.array([*(b.address for b in (*inputs, *outputs)), 0], np.int64)
        self.team = int(bound.descriptor[14])
        count = len(executable.plan.steps)
        self.stamps = np.zeros((self.team, count, STAMPS), np.int64)
        bound.descriptor[STAMPS_WORD] = self.stamps.ctypes.data
        epochs = np.array(executable.plan.epochs)
        self.barriers = np.diff(epochs, prepend=epochs[:1]) != 0 if self.team > 1 else np.ones(count, bool)

    def _run(self, which: int) -> float:
        bound, run = self.programs[which]
        start = time.perf_counter()
        run(bound.descriptor.ctypes.data, self.bases.ctypes.data, self.workspace.address)
        return time.perf_counter() - start

    def plain(self) -> float:
        """The seconds of a run without stamps."""
        return self._run(0)

    def stamped(self) -> tuple[float, np.ndarray]:
        """The seconds of a run, and its stamps: of the threads that took part."""
        self.stamps[:] = 0
        seconds = self._run(1)
        present = self.stamps[:, :, 0].all(axis=1) if self.stamps.size else np.ones(self.team, bool)
        return seconds, self.stamps[present].copy()


def _bind(executable: Executable, sizes: dict[str, int]) -> tuple[Bound, Any]:
    return executable.bound(sizes), driver(executable.driver_text, executable.target)[1]


def _copied(buffer: Any) -> Buffer:
    made = allocate(buffer.nbytes)
    ctypes.memmove(made.address, buffer.address, buffer.nbytes)
    return made
