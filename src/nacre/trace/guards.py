"""Guards: attributes that a function read while it was traced.

Modules and optimisers report their plain attributes when they are read.  A compiled function is reused only while they
have the same values.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any, cast

from nacre.base.records import dataclass
from nacre.base.state import STATE


@dataclass(frozen=True, slots=True)
class Guard:
    """An object's attribute, or an entry of its mapping, and the value that was read."""

    owner: weakref.ref[Any]
    path: tuple[str, ...]
    value: Any

    def holds(self) -> bool:
        """Whether the value is unchanged."""
        owner = self.owner()
        return owner is not None and _same(_get(owner, self.path), self.value)

    @property
    def attribute(self) -> bool:
        """Whether it is a direct attribute of its owner."""
        return len(self.path) == 1 and not isinstance(self.owner(), dict | list)

    def __str__(self) -> str:
        owner = self.owner()
        name = type(owner).__name__ if owner is not None else "an object that is gone"
        now = _get(owner, self.path) if owner is not None else None
        texts = repr(now), repr(self.value)
        hidden = "; its class, or an object in it, is another one" if texts[0] == texts[1] else ""
        return f"{name}.{'.'.join(self.path)} is {texts[0]}, was {texts[1]}{hidden}"


def _get(owner: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        at: object = owner
        if isinstance(at, dict):
            owner = owner.get(name)
        elif isinstance(at, list):
            owner = owner[int(name)] if int(name) < len(owner) else None
        else:
            owner = getattr(owner, name, None)
    return owner


def _same(a: Any, b: Any) -> bool:
    kind = cast("Any", type(a))
    if a is b or kind is not type(b) or kind.__hash__ is object.__hash__:  # == of a parameter compares its elements
        return a is b
    try:
        return bool(a == b)
    except ValueError:  # arrays
        return False


def all_hold(guards: Sequence[Guard]) -> Callable[[], bool] | None:
    """A function that tests all guards; None if there are none."""
    watched = [(g.owner, g.path, g.path[0] if g.attribute else "", g.value) for g in guards]

    def hold() -> bool:
        """Whether all guards hold."""
        for find, path, attribute, value in watched:
            owner = find()
            if owner is None:
                return False
            found = getattr(owner, attribute, None) if attribute else _get(owner, path)
            if found is not value and not _same(found, value):
                return False
        return True

    return hold if watched else None


@dataclass(frozen=True, slots=True)
class AttributeChange:
    """An attribute that was set to a traced value: its place and its previous value."""

    owner: weakref.ref[Any]
    name: str
    line: str
    before: Any


class _Recorder(threading.local):
    def __init__(self) -> None:
        self.stack: list[dict[tuple[int, tuple[str, ...]], Guard]] = []
        self.changes: list[list[AttributeChange]] = []  # of the same length
        self.representatives: dict[int, Any] = {}  # of other objects in the outermost trace, by identity


_RECORDER = _Recorder()


@contextmanager
def recording() -> Generator[list[Guard]]:
    """Collect reports inside; the list is complete at the end."""
    found: list[Guard] = []
    _RECORDER.stack.append({})
    _RECORDER.changes.append([])
    try:
        yield found
    finally:
        last = _RECORDER.stack.pop()
        _RECORDER.changes.pop()
        found.extend(last.values())
        if _RECORDER.stack:
            _RECORDER.stack[-1].update(last)
        else:
            _RECORDER.representatives.clear()


def report(owner: Any, *path: str) -> None:
    """Report that a plain attribute is read; this is cheap while no function is traced."""
    if STATE.word and _RECORDER.stack and id(owner) not in _RECORDER.representatives:
        key = (id(owner), path)
        seen = _RECORDER.stack[-1]
        if key not in seen:
            seen[key] = Guard(weakref.ref(owner), path, _get(owner, path))


def renew(owner: Any, *path: str) -> None:
    """Report a new value of an attribute that was read; the current trace depends on the new value."""
    for seen in _RECORDER.stack:
        if (id(owner), path) in seen:
            seen[id(owner), path] = Guard(weakref.ref(owner), path, _get(owner, path))


def keep(owner: Any, name: str, line: str, before: Any) -> None:
    """Report that an attribute is about to be set to a traced value."""
    if _RECORDER.changes:
        _RECORDER.changes[-1].append(AttributeChange(weakref.ref(owner), name, line, before))


def attribute_changes() -> list[AttributeChange]:
    """The attributes that were set to traced values inside the innermost `recording`, in order."""
    return list(_RECORDER.changes[-1])


def reported() -> list[Any]:
    """The objects that reported inside the innermost `recording`, and those that represent others."""
    owners = [g.owner() for g in _RECORDER.stack[-1].values()]
    return [*{id(x): x for x in (*owners, *_RECORDER.representatives.values()) if x is not None}.values()]


def stands_for(representative: Any) -> None:
    """Report that an object was made from another one that reported its attributes: it needs no guards of its own."""
    if STATE.word and _RECORDER.stack:
        _RECORDER.representatives[id(representative)] = representative
