"""The contents of Python objects that code may change, and the objects that they lead to."""

from __future__ import annotations

import random
import sys
import zlib
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from types import (
    BuiltinMethodType,
    CellType,
    CodeType,
    FunctionType,
    GeneratorType,
    MemberDescriptorType,
    MethodType,
    ModuleType,
)
from typing import Any, Final, cast

import numpy as np

from nacre.base.places import is_users
from nacre.base.tree import is_own
from nacre.trace.bytecode import names_in, within
from nacre.trace.captures import names_of
from nacre.trace.value import Value
from nacre.trace.variable import Variable
from nacre.transform.autograph.cells import MISSING, read, write

SKIPPED: Final = (Value, Variable, ModuleType, CodeType, str, bytes, int, float, complex, type(None))
SEQUENCES: Final = (list, set, deque)
WHOLE: Final = 1 << 16  # bytes of an array that are compared; of larger ones, a checksum


class Contents:
    """What an object holds now: by name, or as items, or a text or number that says where it is."""

    def __init__(self, items: Any, restore: Callable[[Any], None] | None = None, is_state: bool = False) -> None:
        self.items, self.restore, self.is_state = items, restore, is_state

    def differs(self, later: Contents) -> bool:
        """Whether it is not what the object holds later."""
        a, b = self.items, later.items
        if self.is_state:
            return bool(a != b)
        if isinstance(a, dict):
            old, new = cast("dict[Any, Any]", a), cast("dict[Any, Any]", b)
            return old.keys() != new.keys() or any(x is not new[k] for k, x in old.items())
        return len(a) != len(b) or any(x is not y for x, y in zip(a, b, strict=True))

    def first(self, later: Contents) -> str:
        """The name that a change concerns, or an empty text."""
        if self.is_state or not hasattr(self.items, "keys"):
            return ""
        old, new = self.items, later.items
        found: list[Any] = [k for k in {**old, **new} if old.get(k, MISSING) is not new.get(k, MISSING)]
        return str(found[0]) if found else ""


def contents(x: Any, skipped: frozenset[int] = frozenset()) -> Contents | None:
    """What an object holds, or None if it cannot change; of functions, without the cells of these identities."""
    kind = cast("Any", type(x))
    given: Any = x
    if isinstance(x, dict):
        return Contents(dict(given), partial(_refill, given, given.update))
    if isinstance(x, list | deque):
        return Contents(list(given), partial(_refill, given, given.extend))
    if isinstance(x, set):
        return Contents(list(given), partial(_refill, given, given.update))
    if isinstance(x, FunctionType):
        return _of_function(x, skipped)
    if isinstance(x, bytearray):
        return Contents(bytes(x), lambda old: x.__setitem__(slice(None), old), is_state=True)
    if isinstance(x, np.ndarray):
        return _of_array(cast("Any", x))
    if isinstance(x, random.Random):
        return Contents(x.getstate(), x.setstate, is_state=True)
    if isinstance(x, np.random.Generator):
        return Contents(repr(x.bit_generator.state), is_state=True)
    if isinstance(x, Iterator):
        return _of_iterator(x)
    return _of_object(x, kind)


def _refill(x: Any, add: Callable[[Any], None], old: Any) -> None:
    x.clear()
    add(old)


def _of_function(f: FunctionType, skipped: frozenset[int]) -> Contents:
    """The variables outside of a function that it assigns, and its attributes."""
    cells: dict[str, CellType] = dict(zip(f.__code__.co_freevars, f.__closure__ or (), strict=True))
    assigned = names_in(f.__code__).assigned
    written = {name: c for name, c in cells.items() if name in assigned and id(c) not in skipped}
    globals_ = assigned - cells.keys()
    held = {name: read(c) for name, c in written.items()}
    held |= {name: f.__globals__.get(name, MISSING) for name in globals_}

    def restore(old: dict[str, Any]) -> None:
        """Assign the old values."""
        for name, value in old.items():
            if name in written:
                write(written[name], value)
            elif name in globals_ and value is not MISSING:
                f.__globals__[name] = value
            elif name in globals_:
                f.__globals__.pop(name, None)
        f.__dict__.clear()
        f.__dict__.update({k[1:]: v for k, v in old.items() if k.startswith(".")})

    return Contents(held | {f".{k}": v for k, v in f.__dict__.items()}, restore)


def _assign(x: Any, old: dict[str, Any]) -> None:
    held = cast("dict[str, Any]", vars(x))
    for name in [k for k in held if not k.startswith("__") and k not in old]:
        delattr(x, name)
    for name, value in old.items():
        setattr(x, name, value)


def _of_array(x: np.ndarray[Any, Any]) -> Contents | None:
    if x.dtype.hasobject:
        return Contents(list(x.reshape(-1)))
    if x.nbytes > WHOLE:
        return Contents(zlib.adler32(np.ascontiguousarray(x).tobytes()), is_state=True)
    return Contents(x.tobytes(), lambda old: np.copyto(x, np.frombuffer(old, x.dtype).reshape(x.shape)), is_state=True)


def _of_iterator(x: Any) -> Contents | None:
    """Where an iterator is."""
    if isinstance(x, GeneratorType):
        frame = x.gi_frame
        return Contents(frame.f_lasti if frame is not None else -1, is_state=True)
    if not is_users(getattr(sys.modules.get(type(x).__module__), "__file__", None) or "<frozen>"):
        try:
            return Contents(repr(x.__reduce__()), is_state=True)
        except (TypeError, AttributeError):
            return None
    return _of_object(x, cast("Any", type(x)))


def _of_object(x: Any, kind: Any) -> Contents | None:
    """The attributes of an object of a user's class, or of a user's class itself."""
    if isinstance(x, type):
        if is_own(x) or not is_users(getattr(sys.modules.get(x.__module__), "__file__", None) or "<frozen>"):
            return None
        held = {k: v for k, v in vars(x).items() if not k.startswith("__")}
        return Contents(held, partial(_assign, x))
    if is_own(kind) and not hasattr(kind, "fingerprint"):
        return None  # such as compiled functions, which cache programs
    own = names_of(x)
    hidden = "_" if is_own(kind) else "__"
    found = {k: v for k, v in own.items() if k.isidentifier() and not k.startswith(hidden)}
    slots: dict[str, Any] = {
        k: getattr(x, k, MISSING)
        for base in cast("tuple[type, ...]", kind.__mro__)
        if not is_own(base)
        for k, v in vars(base).items()
        if isinstance(v, MemberDescriptorType) and not k.startswith("__")
    }
    if not slots and own is not getattr(x, "__dict__", None):
        return None  # it has no attributes, and cannot get any

    def restore(old: dict[str, Any]) -> None:
        """Assign the old attributes."""
        for name in [k for k in own if k.isidentifier() and not k.startswith(hidden) and k not in old]:
            del own[name]
        own.update({k: v for k, v in old.items() if k not in slots})
        for name in slots:
            if old[name] is not MISSING:
                setattr(x, name, old[name])
            elif hasattr(x, name):
                delattr(x, name)

    return Contents({**found, **slots}, restore)


def leads_to(x: Any, held: Contents | None) -> list[Any]:
    """The objects that an object leads to."""
    found: list[Any] = []
    if held is not None and not held.is_state:
        items: Any = held.items
        found += items.values() if isinstance(held.items, dict) else items
    if isinstance(x, tuple | frozenset):
        found += list(cast("Any", x))
    elif isinstance(x, MethodType):
        found += [x.__self__, x.__func__]
    elif isinstance(x, BuiltinMethodType):
        found.append(x.__self__)
    elif isinstance(x, partial):
        found += [x.func, *x.args, *x.keywords.values()]
    elif isinstance(x, property):
        found += [x.fget, x.fset]
    elif isinstance(x, staticmethod | classmethod):
        found.append(cast("Any", x).__func__)
    elif isinstance(x, FunctionType):
        if is_users(x.__code__.co_filename, installed=True):
            found += [value for _, value in named_by(x)]
            found += [*(x.__defaults__ or ()), *(x.__kwdefaults__ or {}).values()]
    elif not isinstance(x, type):
        found.append(type(x))
    return [value for value in found if not isinstance(value, SKIPPED)]


def named_by(f: FunctionType) -> Iterator[tuple[str, Any]]:
    """The values of the variables outside of a function that it names."""
    for name, cell in zip(f.__code__.co_freevars, f.__closure__ or (), strict=True):
        value = read(cell)
        if value is not MISSING:
            yield name, value
    for name in {name for code in (f.__code__, *within(f.__code__)) for name in code.co_names}:
        if name in f.__globals__:
            yield name, f.__globals__[name]
