"""What a program with variables reads and writes, and the record of it for native code (see `codegen/entry/step`)."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from nacre.base.records import dataclass
from nacre.codegen.entry.layouts import HiddenValue, KeptSlot, ProgramRecord, StepRecord, VariableObject
from nacre.codegen.entry.watch_table import WatchTable
from nacre.native.python.types import offset_of
from nacre.native.records import pack, read_field
from nacre.runtime.tables import memory_of
from nacre.trace.captures import Captures
from nacre.trace.value import Value
from nacre.trace.variable import UPDATER, UPDATES, Variable

if TYPE_CHECKING:
    import numpy.typing as npt

Slot = tuple[Variable, str]  # a variable and the name of one of its slots
CALL: Final = "nacre.step"  # its symbol


@dataclass(frozen=True)
class ProgramVariables:
    """The variables and captures of a program, in the order of its operands and outputs."""

    captures: Sequence[Value] = ()
    watched: Captures | None = None  # the places whose contents must match
    numbers: Sequence[int | None] = ()  # for each capture, its number among the tensors in places, if it is there
    read: Sequence[Slot] = ()
    written: Sequence[Slot] = ()
    cleared: Sequence[Slot] = ()  # set to None at the end
    kept: Sequence[tuple[Slot, object, bool]] = ()  # a slot, True, False or None, and whether it must have that value
    hidden: Mapping[int, Value] = field(default_factory=dict[int, Value])  # placeholders, by the number in `read`


def symbols() -> dict[str, int]:
    """The objects that the text refers to."""
    return {"nacre.updater": ctypes.addressof(UPDATER)}


def _address(slot: Slot) -> int:
    """The address of a variable's slot."""
    return id(slot[0]) + offset_of(VariableObject, slot[1])


def descriptor(
    program: npt.NDArray[np.int64],
    results: int,
    around: ProgramVariables,
    holds: Callable[[], bool] | None,
    finish: object,
    fallback: Callable[..., Any],
) -> tuple[npt.NDArray[np.int64], tuple[object, ...]]:
    """A record, and the objects that it refers to, which must live as long.

    `program` is the program's record; `finish` is None if the only result is the answer, `tuple` for the tuple of all,
    else a function that converts that tuple to the answer.
    """
    plain = read_field(program.ctypes.data, ProgramRecord, "inputs") - len(around.read)
    hidden = [pack(HiddenValue, operand=plain + k, placeholder=id(x)) for k, x in around.hidden.items()]
    kept = [pack(KeptSlot, slot=_address(slot), object=id(x), has_it=was) for slot, x, was in around.kept]
    tables = {
        "sources": np.array([*map(id, around.captures), *map(_address, around.read)], np.int64),
        "written": np.array([*map(_address, around.written)], np.int64),
        "hidden": memory_of(*hidden),
        "cleared": np.array([*map(_address, around.cleared)], np.int64),
        "kept": memory_of(*kept),
    }
    watched = None
    if around.watched is not None and around.watched.places:
        watched = WatchTable(around.watched, around.captures, around.numbers, tables["sources"])
    functions = UPDATES.acquire, UPDATES.release
    record = pack(
        StepRecord,
        program=program.ctypes.data,
        arguments=plain - len(around.captures),
        plain=plain,
        results=results,
        hidden_count=len(hidden),
        cleared_count=len(around.cleared),
        kept_count=len(kept),
        watched=0 if watched is None else watched.places.ctypes.data,
        watched_count=0 if watched is None else len(watched.places),
        holds=0 if holds is None else id(holds),
        finish=0 if finish is None else id(None) if finish is tuple else id(finish),
        fallback=id(fallback),
        acquire=id(functions[0]),
        release=id(functions[1]),
        **{name: table.ctypes.data for name, table in tables.items()},
    )
    return memory_of(record), (program, around, watched, *tables.values(), *functions, holds, finish, fallback)
