"""Timed programs: their driver records when each thread begins and ends a step."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from nacre.base.records import dataclass
from nacre.runtime.buffer import allocate
from nacre.runtime.executable import Executable
from nacre.runtime.layouts import RowKind, Stamp
from nacre.runtime.tables import address, zeros

NANO = 1e-9


@dataclass(frozen=True)
class RunTimes:
    """One run: its seconds, and each step's share of them and its threads' total busy time."""

    whole: float
    seconds: np.ndarray
    busy: np.ndarray


class TimedRun:
    """An executable bound again for the current threads and choices, over buffers at given addresses.

    `bases` are the addresses of inputs and outputs.  Binding happens here, so that trial choices apply to it.
    """

    def __init__(self, executable: Executable, sizes: dict[str, int], bases: Sequence[int]) -> None:
        self.executable = replace(executable, stamped=True, bounds={}, addresses=[], held=[])
        self.bound = self.executable.bound(sizes)
        self.bases = np.array([*bases, 0, 0], np.int64)
        self.workspace = allocate(self.bound.workspace_bytes)
        self.team = int(self.bound.descriptor["team"])
        rows = executable.plan.rows
        self.stamps = zeros(Stamp, self.team * len(rows)).reshape(self.team, len(rows))
        self.bound.descriptor["stamps"] = address(self.stamps)
        self.places = [k for k, row in enumerate(rows) if row.kind is RowKind.LAUNCH]
        walked = [rows[k] for k in self.places]
        self.steps = [row.step for row in walked]
        self.barriers = np.array(
            [
                self.team == 1,
                *(
                    b.inside[:1] != a.inside[:1] or (not b.inside and (self.team == 1 or a.epoch != b.epoch))
                    for a, b in pairwise(walked)
                ),
            ][: len(walked)],
            bool,
        )

    def run(self) -> RunTimes:
        """One run; it overwrites the buffers as the plan says."""
        self.stamps.fill(0)
        seconds = timed_run(self.executable, self.bound, self.bases, self.workspace.address)
        each, busy = np.zeros(len(self.steps)), np.zeros(len(self.steps))
        if self.steps:
            each[self.steps], busy[self.steps] = divided(self.stamps[:, self.places], self.barriers)
        return RunTimes(seconds, each, busy)


def timed_run(executable: Executable, bound: Any, bases: np.ndarray, workspace: int) -> float:
    """The seconds of one run of a bound plan."""
    run = executable.driver
    start = time.perf_counter()
    run(bound.descriptor.ctypes.data, bases.ctypes.data, workspace)
    return time.perf_counter() - start


def divided(stamps: np.ndarray, barriers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For each step its seconds and the threads' busy seconds, from a Stamp for each thread and step.

    An epoch is the time between two barriers, from the end of the previous epoch to the end of its last step.  It is
    divided among its steps by the threads' busy time.  A thread without work in a step has zeros.  A loop counts as one
    epoch, from its first iteration to its last.
    """
    busy = stamps["busy"].sum(axis=0) * NANO
    seconds = np.zeros(len(busy))
    starts = [0, *np.flatnonzero(barriers).tolist(), len(busy)]
    begun = stamps["begin"]
    begin = int(begun[begun > 0].min(initial=np.iinfo(np.int64).max))
    for first, after in pairwise(starts):
        end = int(stamps["end"][:, first:after].max(initial=0))
        if end <= begin:
            continue
        parts = busy[first:after] / busy[first:after].sum()
        seconds[first:after] = parts * (end - begin) * NANO
        begin = end
    return seconds, busy
