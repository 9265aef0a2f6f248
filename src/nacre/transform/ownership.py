"""Ownership: whether a call may overwrite the memory of a variable or donated argument, without interruption."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from sys import getrefcount
from typing import Any

from nacre.trace.value import Value
from nacre.transform.concrete import ConcreteFunction

_SIGNALS = frozenset(map(int, signal.valid_signals() if hasattr(signal, "pthread_sigmask") else ()))
# the module behind `signal`, which uses plain numbers: creating members of an enumeration takes 50 µs
_mask: Any = getattr(sys.modules.get("_signal", signal), "pthread_sigmask", None)


@contextmanager
def uninterrupted() -> Generator[None]:
    """Delay signals (Ctrl-C) until the end of the block."""
    if not _SIGNALS or threading.current_thread() is not threading.main_thread():
        yield
        return
    before = _mask(signal.SIG_BLOCK, ())
    try:
        _mask(signal.SIG_BLOCK, _SIGNALS)  # raises an interrupt that arrived just before
        yield
    finally:
        _mask(signal.SIG_SETMASK, before)


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


def sole_owner(cell: Value) -> bool:
    """Whether only the call itself, in three lists, refers to the value read from a variable."""
    return getrefcount(cell) <= _ALONE[0] and getrefcount(cell.content) <= _ALONE[1] and cell.layout is None


def own_memory(x: Value) -> bool:
    """Whether no other tensor, view or export shares a value's memory."""
    return getrefcount(x.content) <= _ALONE[1]


def is_unshared(x: Value, values: Sequence[Value]) -> bool:
    """Whether a call may overwrite x: x has its own memory, and occurs once among the values of the call."""
    return own_memory(x) and sum(x.content is other.content for other in values) == 1


def donors(concrete: ConcreteFunction, allowed: Sequence[tuple[int, int]]) -> dict[int, int]:
    """The outputs that may overwrite an input: new values of variables, and results in place of donated arguments.

    Sets the variables that a call updates in place.
    """
    first_out = concrete.trace.results
    first_in = len(concrete.graph.inputs) - len(concrete.gradient_inputs) - len(concrete.variable_inputs)
    found: dict[int, int] = {}
    for out, at in allowed:
        k, j = out - first_out, at - first_in
        if (
            0 <= k < len(concrete.variable_outputs)
            and 0 <= j < len(concrete.variable_inputs)
            and concrete.variable_outputs[k] is concrete.variable_inputs[j]
        ):
            found[out] = at
    concrete.donated = tuple(concrete.variable_inputs[at - first_in] for at in found.values())
    for out, at in allowed:
        if at in concrete.given and out not in found and at not in found.values():
            found[out] = at
    return found
