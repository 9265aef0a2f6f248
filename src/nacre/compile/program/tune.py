"""Autotuning: the search for a program's best free choices, measured on this machine and stored.

Each step of a plan looks up its choices (`runtime/tunables`) when it is divided.  The program is bound once for every
option, with all steps trying their next one at once.  The bindings run in turn, round after round, with time stamps.
An option replaces the model's choice only if both its minimum and its median are faster by a margin.  Choices never
change bits, which tests verify.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from nacre.base.dims import evaluate
from nacre.base.records import dataclass
from nacre.compile.program.clock import TimedRun
from nacre.native.pool import pool
from nacre.runtime import tunables
from nacre.runtime.buffer import Buffer, allocate
from nacre.runtime.executable import Executable
from nacre.runtime.plan import divide

ROUNDS = 7
MARGIN = 0.97  # fraction of the default option's time below which another one replaces it


@dataclass(frozen=True)
class Choice:
    """The result of a search for one choice: the options, the least and median seconds of each, and the one taken."""

    name: str
    options: tuple[Any, ...]
    least: tuple[float, ...]
    typical: tuple[float, ...]
    taken: int

    @property
    def gain(self) -> float:
        """The speedup of the option taken over the default one."""
        return self.least[0] / self.least[self.taken] if self.least[self.taken] else 1.0


def wanted() -> bool:
    """Whether the environment requests a search in every program that is compiled (NACRE_TUNE=1)."""
    return os.environ.get("NACRE_TUNE", "").strip() not in ("", "0")


def tune(executable: Executable, sizes: dict[str, int] | None = None, rounds: int = ROUNDS) -> list[Choice]:
    """Search a program's free choices on zeros, and store those that beat the model's; stored ones are not searched.

    A program with loops or branches uses the model's choices: on zeros it would not behave as it does otherwise.  So
    does a program with host calls, which a search must not call.
    """
    sizes = sizes or {}
    if executable.plan.tree or executable.plan.calls_host:
        return []
    choices = _choices(executable, sizes)
    if not choices:
        return []
    held = _buffers(executable, sizes)
    bases = [b.address for b in held]
    widest = max(len(options) for _, options in choices.values())
    bindings: list[TimedRun] = []
    for k in range(widest):
        with tunables.trying({name: options[min(k, len(options) - 1)] for name, (_, options) in choices.items()}):
            bindings.append(TimedRun(executable, sizes, bases))
    runs: list[list[Any]] = [[] for _ in bindings]
    for each in bindings:
        each.run()
    for _ in range(rounds):
        for k, each in enumerate(bindings):
            runs[k].append(each.run().seconds)
    found = [
        _decide(
            name, options, [[float(sum(seconds[s] for s in steps)) for seconds in runs[k]] for k in range(len(options))]
        )
        for name, (steps, options) in choices.items()
    ]
    tunables.keep({f.name: f.options[f.taken] for f in found})
    return found


def _choices(executable: Executable, sizes: dict[str, int]) -> dict[str, tuple[list[int], tuple[Any, ...]]]:
    """The choices of a program that have not been searched: the steps that use each, and its options."""
    found: dict[str, tuple[list[int], tuple[Any, ...]]] = {}
    known = tunables.best()
    for k, step in enumerate(executable.plan.steps):
        with tunables.asked() as met:
            divide(step, sizes, pool().threads)
        for name, options in met.items():
            if name not in known:
                found.setdefault(name, ([], options))[0].append(k)
    return found


def _decide(name: str, options: tuple[Any, ...], seconds: Sequence[Sequence[float]]) -> Choice:
    least, typical = tuple(map(min, seconds)), tuple(float(np.median(x)) for x in seconds)
    first = min(range(len(options)), key=lambda k: least[k])
    better = least[first] < MARGIN * least[0] and typical[first] < MARGIN * typical[0]
    return Choice(name, options, least, typical, first if better else 0)


def _buffers(executable: Executable, sizes: dict[str, int]) -> list[Buffer]:
    """Zeros for a program's inputs, and its outputs."""
    plan = executable.plan
    made = [allocate(evaluate(v.nbytes, sizes)) for v in plan.values[: plan.inputs + plan.outputs]]
    for buffer in made:
        ctypes.memset(buffer.address, 0, buffer.nbytes)
    return made
