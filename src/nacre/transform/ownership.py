"""Ownership: which memory a call overwrites, that of variables and donated arguments, and whether it may.

`InPlace` decides both for all calls of a concrete function.  The native entry with variables takes outputs, variables
and placeholders from it (see `codegen/entry/variables`), and applies the same rule: nothing else refers to the memory.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from itertools import starmap
from sys import getrefcount
from typing import Any

from nacre.base import signals
from nacre.base.records import dataclass
from nacre.codegen.entry.points import entry
from nacre.compile.program.executor import EXECUTOR
from nacre.interpret.stage import Trace
from nacre.ir.graph import Graph
from nacre.runtime.executable import Executable
from nacre.trace.value import Value
from nacre.trace.variable import UPDATES, Variable, hidden, placeholders
from nacre.transform.plain import bare


def uninterrupted() -> AbstractContextManager[None]:
    """Delay signals (Ctrl-C) until the end of the block, in the thread that handles them."""
    if threading.current_thread() is not threading.main_thread():
        return nullcontext()
    return signals.blocked(signals.ALL)


class _Probe:
    """A stand-in for a variable and its value, to count the references of a call itself."""

    cell: Any
    content: Any

    def __init__(self, **slots: Any) -> None:
        self.__dict__.update(slots)


def _calibrate() -> tuple[int, int]:
    probe = _Probe(cell=_Probe(content=_Probe()))
    cells = [probe.cell]
    gathered = [x for x in cells]
    probe.cell = None
    dense = [x for x in gathered]
    found: list[tuple[int, int]] = []

    def owns(cell: Any) -> bool:
        found.append((getrefcount(cell), getrefcount(cell.content)))
        return True

    owned = all(map(owns, cells))
    assert owned and len(dense) == len(gathered)
    return found[0]


_ALONE = _calibrate()  # interpreters differ in the number of references of a call


def _sole_owner(cell: Value) -> bool:
    """Whether only the call itself, in three lists, refers to the value read from a variable."""
    alone = getrefcount(cell) <= _ALONE[0] and getrefcount(cell.content) <= _ALONE[1]
    return alone and cell.layout is None and cell.content.owner is None


def _is_unshared(x: Value, values: Sequence[Value]) -> bool:
    """Whether no other tensor, view, export or library has a value's memory, and it is once among a call's values."""
    alone = getrefcount(x.content) <= _ALONE[1] and x.content.owner is None
    return alone and sum(x.content is other.content for other in values) == 1


@dataclass(frozen=True, eq=False)
class InPlace:
    """The memory that a call overwrites: of variables, by their new values, and of donated arguments, by results."""

    overwritten: Mapping[int, int]  # for an output, the input whose memory it takes over
    variables: tuple[Variable, ...]
    placeholders: Sequence[Value]  # of these variables during a call
    arguments: tuple[int, ...]  # the donated ones
    native: Callable[..., Any]  # the program over this memory

    @property
    def hides(self) -> list[tuple[Variable, Value]]:
        """The variables that a call overwrites, each with its placeholder."""
        return list(zip(self.variables, self.placeholders, strict=True))

    def run(self, graph: Graph, inputs: Sequence[Value], made: list[Any]) -> None:
        """Run over the memory of the inputs if no other object shares it, else into new memory.

        Native code stores the answer in `made`, so that no interrupt comes between run and store.
        """
        given = [x if x.layout is None and x.node is None else bare(x) for x in inputs]
        if not UPDATES.acquire(blocking=False):
            made.extend(starmap(partial(EXECUTOR.answer, graph), (given,)))
            return
        try:
            with hidden(self.variables, self.placeholders) as cells:
                alone = all(map(_sole_owner, cells)) and all(_is_unshared(given[k], given) for k in self.arguments)
                made.extend(starmap(self.native if alone else partial(EXECUTOR.answer, graph), (given,)))
        finally:
            UPDATES.release()


def in_place(trace: Trace, donated: Collection[int], executable: Executable) -> InPlace | None:
    """What calls of a program with fixed sizes overwrite: `donated` arguments and variables; None if it is nothing."""
    graph, read = trace.graph, trace.variable_inputs
    first_out, first_in = trace.results, len(graph.input_types) - len(trace.gradient_inputs) - len(read)
    found: dict[int, int] = {}
    for out, at in executable.plan.donations:
        k, j = out - first_out, at - first_in
        written = trace.variable_outputs[k] if 0 <= k < len(trace.variable_outputs) else None
        if written is not None and 0 <= j < len(read) and written is read[j]:
            found[out] = at
    variables = tuple(read[at - first_in] for at in found.values())
    for out, at in executable.plan.donations:
        if at in donated and out not in found and at not in found.values():
            found[out] = at
    if not found:
        return None
    native = entry(executable, partial(EXECUTOR.answer, graph), True, found, any_mode=True)
    return InPlace(found, variables, placeholders(variables), tuple(donated), native)
