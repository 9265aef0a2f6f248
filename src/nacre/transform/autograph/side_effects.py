"""Side effects of Python code that is recorded for a program: changes of objects that exist before."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from types import FunctionType, ModuleType
from typing import Any, Final, cast

from nacre.base.tree import is_own
from nacre.trace.bytecode import within
from nacre.trace.captures import names_of
from nacre.trace.value import Value
from nacre.trace.variable import Variable
from nacre.transform.autograph.cells import MISSING, cells_of, read, users_parts

MOST: Final = 300  # objects that are watched
DEEP: Final = 3  # objects within objects
SKIPPED: Final = (Value, Variable, ModuleType, FunctionType, type, str, bytes, int, float, complex, type(None))
ITEMS: Final = (list, dict, set, deque)


class SideEffects:
    """The contents of the objects that a part of a function can reach by its names, before it runs."""

    def __init__(self, part: Any) -> None:
        self.before: dict[int, tuple[Any, Any, str]] = {}  # object, copy of its contents, the name that leads to it
        waiting = [(value, name, 0) for name, value in _named(part)]
        while waiting and len(self.before) < MOST:
            value, name, depth = waiting.pop()
            held = _contents(value)
            if held is None or id(value) in self.before:
                continue
            self.before[id(value)] = value, held, name
            if depth < DEEP:
                inside: list[Any] = list(held.values() if hasattr(held, "values") else held)
                waiting += [(x, name, depth + 1) for x in inside if not isinstance(x, SKIPPED)]

    def changed(self) -> Iterator[tuple[str, Any]]:
        """The names that lead to changed objects, and these; they get their contents back."""
        for value, held, name in self.before.values():
            now = _contents(value)
            if now is not None and not _equal(held, now):
                _restore(value, held)
                yield name, value


def _named(part: Any) -> Iterator[tuple[str, Any]]:
    """The values of the variables and globals that a part names."""
    for name, cell in cells_of(part).items():
        value = read(cell)
        if value is not MISSING and not isinstance(value, SKIPPED):
            yield name, value
    for f in users_parts(part):
        for name in {name for code in (f.__code__, *within(f.__code__)) for name in code.co_names}:
            value = f.__globals__.get(name)
            own = not isinstance(value, SKIPPED) and names_of(value) and not is_own(cast("Any", type(value)))
            if isinstance(value, ITEMS) or own:
                yield name, value


def _contents(value: Any) -> Any:
    """A copy of the contents of a container, or the attributes of an object; None for anything else."""
    given: Any = value
    if isinstance(value, dict):
        return dict(given)
    if isinstance(value, list | set | deque | tuple):
        return list(given)
    if isinstance(value, SKIPPED):
        return None
    cls = cast("Any", type(value))
    if is_own(cls) and not hasattr(cls, "fingerprint"):
        return None  # such as compiled functions, which cache programs
    own = names_of(value)
    hidden = "_" if is_own(cls) else "__"
    return {k: v for k, v in own.items() if k.isidentifier() and not k.startswith(hidden)} if own else None


def _equal(a: Any, b: Any) -> bool:
    """Whether two contents have the same objects."""
    if hasattr(a, "keys"):
        return a.keys() == b.keys() and all(x is b[k] for k, x in a.items())
    return len(a) == len(b) and all(x is y for x, y in zip(a, b, strict=True))


def _restore(value: Any, held: Any) -> None:
    kind = cast("Any", type(value))
    if issubclass(kind, dict):
        value.clear()
        value.update(held)
    elif issubclass(kind, list):
        value[:] = held
    elif issubclass(kind, set | deque):
        value.clear()
        (value.update if issubclass(kind, set) else value.extend)(held)
    else:
        own = names_of(value)
        for name in _contents(value).keys() - held.keys():
            del own[name]
        own.update(held)
