"""Packs weights when a program is built: constants that kernels would pack in each call are packed once.

Launches that only pack are then removed, and so are constants without any reader.  The program contains its weights
once, in the form that its kernels read.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import numpy as np

from nacre.runtime.executable import Executable
from nacre.runtime.plan import READY, Launch, Number, Plan, PlannedValue, Pointer, epochs


def prepacked(executable: Executable) -> Executable:
    """The same program with its constant weights packed."""
    plan = executable.plan
    numbers = [v for v, s in enumerate(plan.values) if s.kind == "constant"]
    constants = dict(zip(numbers, executable.constants, strict=True))
    made = {v: found for v in range(len(plan.values)) if (found := _made(plan, v, constants)) is not None}
    if not made:
        return executable
    values = tuple(PlannedValue("constant", made[v].nbytes) if v in made else s for v, s in enumerate(plan.values))
    steps = [_reading(s, plan, made) for s in plan.steps if not (s.writes and set(s.writes) <= made.keys())]
    codes = list(dict.fromkeys(s.code for s in steps))
    steps = tuple(replace(s, code=codes.index(s.code)) for s in steps)
    if not plan.tree:
        read = {slot.value for s in steps for slot in s.slots if isinstance(slot, Pointer)}
        read |= {s.of for s in values if s.kind == "part"}
        constants = {v: a if v in read else np.zeros(0, np.uint8) for v, a in constants.items()}
    every = constants | made
    return replace(
        executable,
        codes=tuple(executable.codes[k] for k in codes),
        plan=replace(plan, values=values, steps=steps, epochs=plan.epochs if plan.tree else epochs(steps)),
        constants=tuple(every[v] for v in sorted(every)),
    )


def _made(plan: Plan, value: int, constants: dict[int, np.ndarray]) -> np.ndarray | None:
    """The bytes of a value that is packed from a constant; None for other values."""
    storage = plan.values[value]
    if storage.fill is None or storage.of not in constants:
        return None
    if storage.kind == "temporary" and (plan.tree or not _is_own(plan, value)):
        return None
    found = storage.fill(constants[storage.of])
    if found is None:
        return None
    data = found.reshape(-1).view(np.uint8)
    if storage.kind == "temporary":
        return data
    head = np.zeros(READY, np.uint8)
    head[:8].view(np.int64)[0] = 1  # ready
    return np.concatenate([head, data])


def _is_own(plan: Plan, value: int) -> bool:
    """Whether exactly one launch writes a temporary, and no other value shares its memory."""
    writers = [s for s in plan.steps if value in s.writes]
    return len(writers) == 1 and writers[0].writes == (value,) and all(s.reuses != value for s in plan.values)


def _reading(step: Launch, plan: Plan, made: Collection[int]) -> Launch:
    """A launch without the constants that it has packed, unless it also reads them elsewhere."""
    named = [s.value for s in step.slots if isinstance(s, Pointer)]
    packed = {v for v in named if v in made and plan.values[v].kind == "packed"}
    spared = {of for v in packed if named.count(of := plan.values[v].of) == 1}
    slots = tuple(Number(0) if isinstance(s, Pointer) and s.value in spared else s for s in step.slots)
    return replace(step, slots=slots, reads=tuple(v for v in step.reads if v not in spared))
