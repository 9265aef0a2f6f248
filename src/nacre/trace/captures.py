"""Captures: the contents of the places that user code reads, compared with those at the time of the trace.

Closure cells, global names and attributes are *places*.  A compiled function is reused only while their contents match.
Plain values are compared.  Tensors and arrays need the same type only, because they are inputs.  Dicts, lists, tuples
and dataclasses are compared by their contents.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import fields
from operator import is_
from typing import Any, Final, NamedTuple, cast

import numpy as np

from nacre.base import tree
from nacre.base.exact import Exact, Same, exact_key
from nacre.trace.traced import contents
from nacre.trace.value import Value, is_borrowed, is_concrete

DEEP: Final = 3  # containers within containers
MOST: Final = 64  # objects in containers of a place
TRIES: Final = 100
MISSING: Final = object()
PlaceKey = tuple[int, str | None]  # the identity of a place's owner, and a name


class CapturePlace(NamedTuple):
    """Where user code reads: a closure's cell, a name in a dict of names, or an attribute of a class or in a slot.

    A view of a captured array is in a dict of its own, which never changes.
    """

    kind: str  # cell, name, attribute or view
    owner: Any
    key: str | None  # None for a cell
    shown: str

    @property
    def at(self) -> PlaceKey:
        """The identity of its owner, and its name there: a place's key."""
        return id(self.owner), self.key

    def content(self) -> Any:
        """The current content; MISSING if there is none."""
        if self.kind in ("name", "view"):
            return self.owner.get(self.key, MISSING)
        if self.key is not None:
            return getattr(self.owner, self.key, MISSING)
        return next(iter(contents(self.owner)), MISSING)


class ObjectRow(NamedTuple):
    """A place or a container, and the objects in it."""

    kind: str  # that of a place, list, dict or ordered: an OrderedDict
    owner: Any
    key: str | None  # the name
    objects: tuple[Any, ...]


# ---- patterns of contents


class PlaceContents:
    """The contents of places at one moment."""

    __slots__ = ("inputs", "rows")

    def __init__(self) -> None:
        self.inputs: list[Any] = []  # the tensors and arrays
        self.rows: list[ObjectRow] = []  # the objects themselves, for native code

    def operands(self, given: Sequence[Any], numbers: Sequence[int | None]) -> list[Any]:
        """The captured inputs of a graph: those that were given, or by their numbers the inputs here."""
        return [x if k is None else self.inputs[k] for x, k in zip(given, numbers, strict=True)]

    def add(self, place: CapturePlace, pattern: ContentPattern, value: Any) -> bool:
        """Add a place with a value; whether the value matches the pattern."""
        self.rows.append(ObjectRow(place.kind, place.owner, place.key, (value,)))
        return pattern.matches(value, self)


class ContentPattern:
    """The content of a place: a plain value, a number within bounds, a tensor or array of a type, a container, or none.

    A tensor or array with a child must also match that: the owner of a view must be the same object, and numbers that
    Python has read must be equal.
    """

    __slots__ = ("children", "key", "kind")

    def __init__(self, kind: str, key: Any, children: tuple[ContentPattern, ...] = ()) -> None:
        self.kind, self.key, self.children = kind, key, children

    def matches(self, value: Any, found: PlaceContents) -> bool:
        """Whether a value is like the traced one; its inputs and objects are added to `found`."""
        if self.kind == "plain":
            return _is_equal(value, self.key)
        if self.kind == "absent":
            return value is MISSING
        if self.kind == "same":
            return Same(value) == self.key
        if self.kind == "read":
            found.rows.append(_memory_row(value))
            return bytes_of(value) == self.key
        if self.kind == "number":
            found.inputs.append(value)
            kind, low, high = self.key
            return type(value) is kind and (low <= value <= high or value != value)
        if self.kind != "container":
            found.inputs.append(value)
            return _input(value) == (self.kind, self.key) and all(c.matches(value, found) for c in self.children)
        parts = _opened(value, len(self.children))
        if parts is None or parts[1] != self.key or len(parts[0]) != len(self.children):
            return False
        found.rows += _rows(value, *parts)
        return all(c.matches(x, found) for c, x in zip(self.children, parts[0], strict=True))

    def is_number(self, like: object) -> bool:
        """Whether it is a Python number of the type of another one, or an input that stands for numbers."""
        of_type = isinstance(self.key, Exact) and self.key[0] is type(like)
        return self.kind == "number" or (self.kind == "plain" and of_type)

    @property
    def inputs(self) -> int:
        """The number of tensors, arrays and numbers in it that are inputs."""
        if self.kind == "container":
            return sum(c.inputs for c in self.children)
        return int(self.kind in ("tensor", "array", "number"))


def _rows(container: Any, parts: Sequence[Any], structure: Any) -> list[ObjectRow]:
    """The objects of a container that native code compares; a tuple never changes."""
    if isinstance(container, tuple):
        return []
    if isinstance(container, list):
        return [ObjectRow("list", container, None, tuple(parts))]
    if isinstance(container, dict):
        entries: list[tuple[Any, Any]] = list(zip(structure[1], parts, strict=True))
        kind = "ordered" if isinstance(container, OrderedDict) else "dict"
        return [ObjectRow(kind, cast("Any", container), None, tuple(x for entry in entries for x in entry))]
    names = [f.name for f in fields(container) if hasattr(container, f.name)]
    own = names_of(container)
    return [
        ObjectRow("name", own, name, (x,)) if name in own else ObjectRow("attribute", container, name, (x,))
        for name, x in zip(names, parts, strict=True)
    ]


def names_of(x: Any) -> dict[str, Any]:
    """The attributes of an object by name, as the dict in which Python keeps them; empty for objects without one."""
    own: Any = {} if isinstance(x, type) else getattr(x, "__dict__", {})
    plain = cast("type[Any]", type(own)) is dict and own is getattr(x, "__dict__", None)
    return cast("dict[str, Any]", own) if plain else {}


class _Reader:
    """What reads the numbers of a tensor, which a higher package registers at import."""

    numbers: Callable[[Value], np.ndarray[Any, Any]]


def register_reader(numbers: Callable[[Value], np.ndarray[Any, Any]]) -> None:
    """Register the function for the numbers of a tensor (`interpret.evaluate` calls this)."""
    _Reader.numbers = staticmethod(numbers)  # type: ignore[assignment]


def bytes_of(value: Any) -> bytes:
    """The numbers of a tensor or array, to compare them."""
    return (_Reader.numbers(value) if isinstance(value, Value) else cast("np.ndarray[Any, Any]", value)).tobytes()


UNSEEN: Final = "numbers of an array"  # an attribute that no object has


def _memory_row(value: Any) -> ObjectRow:
    """What shows whether numbers may have changed: a tensor's memory; elsewhere only the numbers themselves."""
    if isinstance(value, Value) and not is_borrowed(value):
        return ObjectRow("attribute", value, "content", (value.content,))
    return ObjectRow("attribute", value, UNSEEN, (MISSING,))


def _input(value: Any) -> tuple[str, Any] | None:
    """The kind and the type of a tensor or array."""
    if isinstance(value, Value):
        return ("tensor", value.type) if is_concrete(value) else None
    if isinstance(value, np.ndarray):
        array = cast("np.ndarray[Any, Any]", value)
        return "array", (array.dtype, array.shape)
    return None


def _plain(value: Any) -> Any:
    """A key of an object: its value where that never changes, else its identity."""
    if isinstance(value, Value):  # without numbers: `==` gives another one
        return Same(value)
    try:
        hash(value)
    except Exception:
        return Same(value)
    return exact_key(value)


def _is_equal(value: Any, key: Any) -> bool:
    try:
        return bool(_plain(value) == key)
    except Exception:  # of the comparison of a user's class
        return False


def _opened(value: Any, most: int) -> tuple[Sequence[Any], Any] | None:
    """The contents of a container, and what belongs to its structure; None for other objects, and for larger ones."""
    kind = cast("type[Any]", type(value))
    if _is_container(value) and (hasattr(kind, "__dataclass_fields__") or len(value) <= most):
        if isinstance(value, dict):
            entries = dict(_entries(value))
            return list(entries.values()), (kind, tree.keys_of(entries))
        return (list(cast("list[Any]", value)), (kind, None)) if isinstance(value, list) else tree.opened(value)
    return None


def _entries(held: Any) -> list[tuple[Any, Any]]:
    """The entries of a dict; a subclass may give others."""
    kind: Any = OrderedDict if isinstance(held, OrderedDict) else dict
    return list(kind.items(held))


def _is_container(value: Any) -> bool:
    kind, ordered = cast("Any", type(value)), cast("Any", OrderedDict)
    if issubclass(kind, ordered):  # native code iterates over its keys
        return kind.__iter__ is ordered.__iter__
    if isinstance(value, list | tuple | dict):
        return True
    return hasattr(kind, "__dataclass_fields__")


def pattern_of(value: Any) -> ContentPattern:
    """The pattern of a content.  Containers that are too deep or too large are compared by identity."""
    return _describe(value, DEEP, [MOST])


def _describe(value: Any, depth: int, room: list[int]) -> ContentPattern:
    if value is MISSING:
        return ContentPattern("absent", None)
    known = _input(value)
    if known is not None:
        return ContentPattern(*known)
    parts = _opened(value, room[0]) if depth else None
    if parts is None or len(parts[0]) > room[0]:
        return ContentPattern("same", Same(value)) if _is_container(value) else ContentPattern("plain", _plain(value))
    room[0] -= len(parts[0])
    return ContentPattern("container", parts[1], tuple(_describe(x, depth - 1, room) for x in parts[0]))


def traced_content(value: Any) -> tuple[ContentPattern, PlaceContents]:
    """The pattern of a content, and its objects, which other threads may be changing."""
    for _ in range(TRIES):
        pattern, found = pattern_of(value), PlaceContents()
        if pattern.matches(value, found):
            return pattern, found
    return ContentPattern("same", Same(value)), PlaceContents()


def with_conditions(pattern: ContentPattern, value: Any, owners: Set[int], read: Mapping[int, bytes]) -> ContentPattern:
    """The pattern of a content in which some tensors and arrays, by identity, must fulfil more than have a type.

    Those in `owners` must be the same objects, and those in `read` must have these numbers.
    """
    if pattern.kind in ("tensor", "array"):
        more = [ContentPattern("same", Same(value))] if id(value) in owners else []
        more += [ContentPattern("read", read[id(value)])] if id(value) in read else []
        return ContentPattern(pattern.kind, pattern.key, (*pattern.children, *more)) if more else pattern
    opened = _opened(value, len(pattern.children)) if pattern.kind == "container" else None
    if opened is None:
        return pattern
    parts = zip(pattern.children, opened[0], strict=True)
    return ContentPattern("container", pattern.key, tuple(with_conditions(c, x, owners, read) for c, x in parts))


def read_numbers(pattern: ContentPattern, value: Any) -> Iterator[tuple[int, bytes]]:
    """The identities of tensors and arrays in a content whose numbers Python has read, and these numbers."""
    yield from [(id(value), c.key) for c in pattern.children if c.kind == "read"]
    opened = _opened(value, len(pattern.children)) if pattern.kind == "container" else None
    if opened is not None:
        for child, x in zip(pattern.children, opened[0], strict=False):  # others may change the container
            yield from read_numbers(child, x)


def memory_owner(array: Any) -> Any:
    """The object that owns the memory of an array, which a view of a view has, too."""
    while (base := getattr(array, "base", None)) is not None:
        array = base
    return array


def members(value: Any, pattern: ContentPattern, shown: str) -> Iterator[tuple[Any, str]]:
    """The objects in a container and in those within it, to the same limits, each with the text that reads it."""
    opened = _opened(value, len(pattern.children)) if pattern.kind == "container" else None
    if opened is None:
        return
    if isinstance(value, dict):
        names = [f"[{key!r}]" for key, _ in _entries(value)]
    elif isinstance(value, list | tuple):
        names = [f"[{k}]" for k in range(len(opened[0]))]
    else:
        names = [f".{f.name}" for f in fields(value) if hasattr(value, f.name)]
    for part, child, name in zip(opened[0], pattern.children, names, strict=False):  # others may change the container
        yield part, shown + name
        yield from members(part, child, shown + name)


class Captures:
    """The places that a compiled function has read, and the patterns of their contents."""

    def __init__(
        self,
        places: Sequence[CapturePlace],
        contents: Sequence[ContentPattern],
        found: PlaceContents,
        numbers: Sequence[int] = (),
    ) -> None:
        self.places, self.contents = tuple(places), tuple(contents)
        self.found = found  # at the last time that all matched; at first when the trace read them
        self.numbers = tuple(numbers)  # the places of Python numbers that only the compiled function itself reads
        self.types = list(map(_input, found.inputs))  # their kinds and types
        self.changed: Callable[[PlaceContents], None] | None = None  # called when places hold other objects that match
        first: dict[int, int] = {}
        objects = [(k, x) for k, x in enumerate(found.inputs) if not isinstance(x, int | float)]
        self.twins = [(k, at) for k, x in objects if (at := first.setdefault(id(x), k)) != k]  # that were one object

    def holds(self) -> bool:
        """Whether the contents of all places match."""
        if self._are_same():
            return True
        found = PlaceContents()
        for place, content in zip(self.places, self.contents, strict=True):
            if not found.add(place, content, place.content()):
                return False
        if any(found.inputs[k] is not found.inputs[at] for k, at in self.twins):
            return False
        self.found = found
        if self.changed is not None:
            self.changed(found)
        return True

    def _are_same(self) -> bool:
        """Whether all places have the objects of the last match, and their types are unchanged."""
        found = self.found
        for kind, owner, key, objects in found.rows:
            if kind in ("list", "dict", "ordered"):
                now: list[Any] = owner if kind == "list" else [x for entry in _entries(owner) for x in entry]
                if len(now) != len(objects) or not all(map(is_, now, objects)):
                    return False
            elif key == UNSEEN or CapturePlace(kind, owner, key, "").content() is not objects[0]:
                return False
        return all(_input(x) == known for x, known in zip(found.inputs, self.types, strict=True))

    def differences(self) -> Iterator[str]:
        """The first place whose content does not match, for readers."""
        for place, content in zip(self.places, self.contents, strict=True):
            value = place.content()
            if not content.matches(value, PlaceContents()):
                was = f", was {content.key!r}" if content.kind == "plain" else ""
                was = ", was not set" if content.kind == "absent" else was
                now = "gone" if value is MISSING else "changed" if content.kind == "container" else f"{value!r}"
                owned = content.kind == "array" and any(c.kind == "same" for c in content.children)
                now = "another array than that of a view" if owned else now
                read = [c for c in content.children if c.kind == "read"]
                was += ", and Python has read its numbers" if read else ""
                yield f"{place.shown} is {now}{was}"
                return
        yield "two captures are no longer one object"
