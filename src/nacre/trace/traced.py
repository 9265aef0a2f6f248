"""Finds traced values in a function's attributes, closures and results; they are invalid after the trace has ended."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from functools import partial
from itertools import islice
from types import FunctionType, ModuleType
from typing import Any, Final, cast

from nacre.base.dims import Dim, note_kept
from nacre.base.tree import is_own
from nacre.trace.value import Payload, Value
from nacre.trace.variable import Variable

MOST: Final = 1000  # objects to search at most
PLAIN: Final = str, bytes, int, float, complex, ModuleType, Variable, type(None)
CONTAINERS: Final = list, dict, set, deque


def find_traced(x: object, ended: bool = False, seen: set[int] | None = None) -> Value | None:
    """A value of an interpreter: x itself, or one in its containers, attributes or closures.

    With `ended`, only a value whose interpreter has ended.  `seen` has the identities of objects searched already.
    """
    seen = set[int]() if seen is None else seen
    if id(x) in seen:
        return None
    seen.add(id(x))
    queue, most = deque([x]), len(seen) + MOST
    while queue:
        x = queue.popleft()
        if isinstance(x, Value):
            if (
                isinstance(x.content, Payload)
                and x.content.interpreter is not x.content
                and (not ended or getattr(x.content.interpreter, "ended", False))
            ):
                return x
        elif type(x) is Dim:
            note_kept(x)
        elif not isinstance(x, PLAIN):
            for part in islice(_parts(x), max(most - len(seen), 0)):
                if id(part) not in seen:
                    seen.add(id(part))
                    queue.append(part)
    return None


def _parts(x: Any) -> Iterable[Any]:
    """The objects that an object refers to, found without running its code."""
    if isinstance(x, Mapping):
        return cast("Mapping[Any, Any]", x).values()
    if isinstance(x, list | tuple | set | frozenset | deque):
        return cast("Iterable[Any]", x)
    if isinstance(x, partial):
        return *x.args, *x.keywords.values()
    if isinstance(x, FunctionType):
        return [value for cell in x.__closure__ or () for value in contents(cell)]
    if isinstance(x, type):
        return shared(cast("type[Any]", x))
    cls = cast("type[Any]", type(x))
    if is_own(cls):
        return ()  # the package's own objects may refer to traced values
    slots = [name for c in cls.__mro__ for name in _slots(c) if name != "__weakref__"]
    values = *getattr(x, "__dict__", {}).values(), *(getattr(x, name) for name in slots if hasattr(x, name))
    return *values, *shared(cls)


def shared(cls: type) -> list[Any]:
    """The containers among the attributes of a class and its bases, without those of this package."""
    return [v for c in cls.__mro__ if not is_own(c) for v in vars(c).values() if isinstance(v, CONTAINERS)]


def contents(cell: Any) -> list[Any]:
    """The content of a closure's cell, if it is set."""
    try:
        return [cell.cell_contents]
    except ValueError:
        return []


def _slots(cls: type) -> Iterable[str]:
    slots: str | Iterable[str] = vars(cls).get("__slots__", ())
    return (slots,) if isinstance(slots, str) else slots
