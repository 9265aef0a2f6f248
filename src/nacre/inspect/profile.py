"""`profile`: where the time of a compiled function goes, kernel by kernel, from real runs of its program.

    >>> import nacre as nc
    >>> report = profile(nc.jit(lambda x: nc.sum(nc.exp(x) * 2, axis=1)), nc.ones((64, 512)), rounds=3)
    >>> [row.label for row in report.rows], report.rows[0].bytes == 4 * (64 * 512 + 64)
    (['exp+mul+sum'], True)

The program runs as usual, by a driver that also records when each thread begins and ends each step.  The time between
two barriers is divided among its kernels by the threads' busy time, so the rows add up to the whole run, waiting
included.  Variables and donated arguments are copied first, so the run changes none of them.
"""

from __future__ import annotations

import ctypes
from dataclasses import replace
from statistics import median
from typing import Any, cast

import numpy as np

from nacre.base.errors import ArgumentError
from nacre.base.records import dataclass
from nacre.compile.program.clock import RunTimes, TimedRun, timed_run
from nacre.inspect.ceilings import Ceilings, ceilings
from nacre.inspect.work import KernelWork, steps, traffic
from nacre.runtime.buffer import Buffer, allocate
from nacre.transform.concrete import CallInputs
from nacre.transform.jit import Jitted, jit


@dataclass(frozen=True)
class Row:
    """A kernel in a run: its share of the run's seconds, in the fastest round and in the median one."""

    label: str
    dtype: str
    launches: int
    flops: int
    bytes: int
    seconds: float
    typical: float
    busy: float  # the part of the threads' time in `seconds` in which they computed
    floor: float = 0.0  # least seconds by the machine's ceilings

    @property
    def share(self) -> float:
        """The fraction of the machine's limit that it reaches."""
        return self.floor / self.seconds if self.seconds else 0.0

    @property
    def intensity(self) -> float:
        """Operations per byte."""
        return self.flops / max(1, self.bytes)


@dataclass(frozen=True)
class Profile:
    """A program's kernels in order, and totals; all times in seconds.

    `walked` is the sum of the rows.  `whole` is the least time of the program without time stamps, from the call of the
    native function to its return.  `floor` is the least time for its inputs, outputs and operations.
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
        """The same run, compared with the given limits."""
        rows = tuple(replace(r, floor=limits.floor(r.flops, r.bytes, r.dtype)) for r in self.rows)
        main = max(rows, key=lambda r: r.flops).dtype if rows else "f32"  # of most of the arithmetic
        return replace(self, rows=rows, floor=limits.floor(self.flops, self.traffic, main), ceilings=limits)

    @property
    def flops(self) -> int:
        """All operations."""
        return sum(r.flops for r in self.rows)

    @property
    def bytes(self) -> int:
        """All bytes that its kernels read and write."""
        return sum(r.bytes for r in self.rows)

    @property
    def share(self) -> float:
        """The fraction of the machine's limit that the whole program reaches."""
        return self.floor / self.whole if self.whole else 0.0


def profile(function: Any, *args: Any, rounds: int = 20, **kwargs: Any) -> Profile:
    """Run a function's program for these arguments, `rounds` times after a warm-up, and report the time of each kernel.

    A function that is not jitted is jitted first.  A loop's kernels are one row each; a branch that does not run takes
    no time.  Raises ArgumentError for less than one round.

    >>> from nacre.inspect.profile import profile
    >>> report = profile(lambda a, b: nc.tanh(a @ b), nc.ones((64, 32)), nc.ones((32, 8)), rounds=3)
    >>> [(row.label, row.flops) for row in report.rows]
    [('contract+tanh', 32768)]
    """
    if rounds < 1:
        raise ArgumentError(f"profile: rounds must be at least 1; got {rounds}")
    jitted: Jitted[..., Any] = cast("Any", function) if isinstance(function, Jitted) else jit(function)
    return measured(jitted.name, jitted.prepare(*args, **kwargs), rounds)


def measured(name: str, prepared: CallInputs, rounds: int) -> Profile:
    """The profile of a program that is ready to run."""
    counted = steps(prepared.compiled, prepared.sizes)
    bench = _Bench(prepared)
    for _ in range(2):
        bench.plain()
        bench.clocked.run()
    plain: list[float] = []
    runs: list[RunTimes] = []
    for _ in range(rounds):
        plain.append(bench.plain())
        runs.append(bench.clocked.run())
    best = min(runs, key=lambda taken: taken.whole)
    typical = np.median([taken.seconds for taken in runs], axis=0)
    rows = tuple(_row(step, best, typical, bench.clocked.team) for step in counted)
    moved, limits = traffic(prepared.compiled, prepared.sizes), ceilings()
    profile_ = Profile(
        name, rows, sum(r.seconds for r in rows), best.whole, min(plain), median(plain), moved, 0.0, limits
    )
    return profile_.under(limits)


def _row(step: KernelWork, best: RunTimes, typical: np.ndarray, team: int) -> Row:
    rows_of_step = slice(step.first, step.first + step.launches)
    spent, worked = float(best.seconds[rows_of_step].sum()), float(best.busy[rows_of_step].sum())
    return Row(
        step.label,
        step.dtype,
        step.launches,
        step.flops,
        step.bytes,
        spent,
        float(typical[rows_of_step].sum()),
        worked / (team * spent) if spent else 0.0,
    )


class _Bench:
    """A program without stamps and with them, over private copies of the values that it would change."""

    def __init__(self, prepared: CallInputs) -> None:
        self.executable = prepared.compiled.executable
        self.bound = self.executable.bound(prepared.sizes)
        self.referenced: list[Any] = list(prepared.inputs)
        inputs = [x.content for x in prepared.inputs]
        for k in prepared.in_place.values():
            inputs[k] = _copied(inputs[k])
        outputs = [
            inputs[prepared.in_place[k]] if k in prepared.in_place else allocate(n)
            for k, n in enumerate(self.bound.output_bytes)
        ]
        self.referenced += [*inputs, *outputs]
        self.clocked = TimedRun(self.executable, prepared.sizes, [b.address for b in (*inputs, *outputs)])

    def plain(self) -> float:
        """The seconds of a run without stamps."""
        return timed_run(self.executable, self.bound, self.clocked.bases, self.clocked.workspace.address)


def _copied(buffer: Any) -> Buffer:
    made = allocate(buffer.nbytes)
    ctypes.memmove(made.address, buffer.address, buffer.nbytes)
    return made
