"""Reads: the places that user functions read while they are traced.

They are found by the bytecode of the functions that run, and of those that these name.  Names that the traced code
assigns itself are left out, and so are containers that it only adds to.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from functools import partial
from types import CodeType, FrameType, FunctionType, MethodType, ModuleType
from typing import Any, Final, Protocol

import numpy as np

from nacre.base.places import is_outside, is_users
from nacre.base.state import STATE
from nacre.base.types import TensorType
from nacre.native.interpreter import function_of
from nacre.trace.attributes import attributes, children, descriptor_reader, function_of_users, has_attributes
from nacre.trace.bytecode import ADDS, STORES, assigns, inner_codes, names_in
from nacre.trace.captures import (
    MISSING,
    CapturePlace,
    Captures,
    ContentPattern,
    ObjectRow,
    PlaceContents,
    PlaceKey,
    members,
    memory_owner,
    names_of,
    read_numbers,
    traced_content,
    with_conditions,
)
from nacre.trace.traced import contents, find_traced
from nacre.trace.value import PLACEHOLDERS, Value, copied, is_borrowed, is_concrete

OBJECTS: Final = 1000  # objects whose attributes are watched
HEAP_TYPE: Final = 1 << 9  # of classes that Python code defines
NEW: Final = frozenset({"__init__", "__post_init__"})  # methods of objects that are made
OPERATORS: Final = frozenset(
    f"__{side}{name}__"
    for name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or", "xor")
    for side in ("", "r", "i")
)
OF_VALUES: Final = frozenset(
    f"__{name}__"
    for name in ("bool", "len", "float", "int", "index", "neg", "abs", "eq", "ne", "lt", "le", "gt", "ge", "array")
)
OF_ITEMS: Final = frozenset({"__getitem__", "__iter__", "__next__", "__contains__", "__getattr__", "__getattribute__"})
SPECIAL: Final = OPERATORS | OF_VALUES | OF_ITEMS  # methods of objects that Python itself calls
CALLED: Final = NEW | {"forward", "backward", "setup_context", "__call__"} | SPECIAL  # called without a name
CHANGES: Final = ADDS | {"pop", "remove", "sort", "reverse", "update", "setdefault", "popitem"}


class NumberPlaces(Protocol):
    """The places of traced numbers, in copies of the owners of places that hold numbers."""

    @property
    def tensors(self) -> Mapping[PlaceKey, Value]:
        """The tensor of each."""
        ...

    @property
    def originals(self) -> Mapping[PlaceKey, CapturePlace]:
        """The place of each number itself."""
        ...

    @property
    def owners(self) -> Mapping[int, Any]:
        """The original owners, by the identities of their copies."""
        ...

    def pattern(self, key: PlaceKey) -> ContentPattern:
        """The numbers that the graph is for, as found so far."""
        ...

    def value(self, key: PlaceKey) -> float:
        """A number during the trace."""
        ...


ContentKey = tuple[int, Any, TensorType]


def content_key(x: Value) -> ContentKey:
    """What objects with the same contents share."""
    return id(x.content), x.layout, x.type


class Reads:
    """The places that the user's functions of one trace read, found as the functions are met."""

    def __init__(self, boundary: CodeType, function: Any, numbers: NumberPlaces | None = None) -> None:
        self.boundary = boundary  # the code that calls the traced function
        self._function = function
        self._numbers = numbers
        self.conflict = False  # whether the code also sees a traced number in other ways
        self._readers: dict[PlaceKey, set[int]] = {}  # the functions that read a place, by identity
        self.tensors: dict[int, Value] = {}  # those in places, by identity
        self._contents: dict[ContentKey, Value] = {}  # the same ones, by their contents
        if numbers is not None:
            for x in numbers.tensors.values():
                self.hold(x)
        self.arrays: dict[int, list[Any]] = {}  # those in places: the array, and the tensor of it that was made
        self._views: dict[str, Any] = {}  # views of arrays in places, by their numbers
        self._owners = set[int]()  # the arrays that these are views of, by identity
        self._read: dict[int, bytes] = {}  # the numbers of tensors and arrays in places that Python has read
        self._places: dict[PlaceKey, tuple[CapturePlace, Any, ContentPattern, PlaceContents]] = {}
        self._assigned = set[PlaceKey]()
        self._set_attributes = set[str]()
        self._asks_type = False  # whether the code may read the type of a number, which a traced one lacks
        self._changes = False  # whether the code may change items
        self._functions: dict[int, FunctionType] = {}
        self._codes: dict[int, CodeType] = {}  # those that are known, by identity: a code has a slow hash
        self._names = set[str](CALLED)
        self._loads = set[str]()  # names of attributes that are read
        self._probed = set[str]()  # of those that may be absent
        self._classes: dict[type[Any], None] = {}
        self._searched: tuple[int, ...] = ()  # how many of each were known when all of them were last searched
        self._within = set[int]()  # objects that were found in containers and modules alone, by identity
        self._objects: dict[int, tuple[Any, str]] = {}  # modules of users, and objects with attributes; their names

    @property
    def functions(self) -> list[FunctionType]:
        """The functions that are known so far."""
        return list(self._functions.values())

    def add(self, x: Any, name: str = "") -> None:
        """Follow a function, a method or an object of a user's class, and all that it calls."""
        waiting = [(x, name)]
        self._within.discard(id(x))
        while waiting:
            self._follow(*waiting.pop(), waiting)
            now = tuple(map(len, (self._names, self._loads, self._probed, self._classes, self._objects, self._within)))
            if not waiting and self._searched != now:
                self._searched = now
                waiting += [(f, "") for c in self._classes for f in self._methods(c)]
                for x, name in list(self._objects.values()):
                    names = self._loads if id(x) in self._within else self._names
                    for place in attributes(x, name, names, self._loads, self._probed):
                        self._note(place, waiting)

    def frames(self, frame: FrameType | None) -> FrameType | None:
        """Note the functions that run, from the innermost frame to that of the boundary, which is returned."""
        new: list[FrameType] = []
        known, boundary = self._codes, self.boundary
        while frame is not None and (code := frame.f_code) is not boundary:
            if id(code) not in known:
                new.append(frame)
            frame = frame.f_back
        if frame is not None:
            for each in reversed(new):  # a function before those that it defines, which share its variables
                self.frame(each)
        return frame

    def frame(self, frame: FrameType) -> None:
        """Note that a function runs."""
        code = frame.f_code
        if id(code) in self._codes:
            return
        if not is_outside(code.co_filename):
            self._codes[id(code)] = code
            return
        self.add(function_of(frame))
        if code.co_argcount and code.co_varnames[0] == "self":
            self.add(frame.f_locals.get("self"), "self")
        if not code.co_freevars:
            self._codes[id(code)] = code

    def _follow(self, x: Any, name: str, waiting: list[tuple[Any, str]]) -> None:
        """Follow an object that a place of this name holds, or one without a name that runs."""
        if isinstance(x, partial):
            waiting.append((x.func, ""))
        elif isinstance(x, MethodType):
            waiting += [(x.__func__, ""), (x.__self__, "self")]
        elif isinstance(x, FunctionType):
            if name and names_of(x):
                self._objects.setdefault(id(x), (x, name))
            self._follow_function(x, waiting)
        elif not isinstance(x, Value | np.ndarray):
            cls: Any = x if isinstance(x, type) else type(x)
            own = names_of(x)
            waiting += [(own[each], "") for each in ("function", "__wrapped__") if each in own]
            if cls.__flags__ & HEAP_TYPE:
                self._classes[cls] = None
            room = len(self._objects) < OBJECTS and id(x) not in self._objects
            holds = own is getattr(x, "__dict__", None) or cls.__flags__ & HEAP_TYPE
            if name and room and holds and has_attributes(cls):
                self._objects[id(x)] = x, name
                self._find([(child, name + shown) for child, shown in children(x)], waiting)

    def _follow_function(self, function: FunctionType, waiting: list[tuple[Any, str]]) -> None:
        code = function.__code__
        if id(function) in self._functions:
            return
        self._functions[id(function)] = function
        cells = list(zip(code.co_freevars, function.__closure__ or (), strict=True))
        if not is_outside(code.co_filename):  # a wrapper
            held = [x for _, cell in cells for x in contents(cell)]
            waiting += [(x, "") for x in held if isinstance(x, FunctionType | MethodType | partial)]
            return
        codes = [code]
        for each in codes:
            inner = inner_codes(each)
            codes += inner
            self._codes |= {id(c): c for c in inner}  # they run on cells of this function, or of its frame
            self._names.update(each.co_names)
        own = names_in(code)
        names: dict[str, Any] = function.__globals__
        self._loads |= own.read_attributes
        self._names |= own.probed_attributes
        self._probed |= own.probed_attributes
        self._asks_type |= "type" in own.read_globals
        self._changes |= not own.assigned.isdisjoint(STORES)
        if function.__name__ not in NEW:
            self._set_attributes |= own.set_attributes
        self._assigned |= {(id(names), name) for name in own.assigned}
        self._assigned |= {(id(cell), None) for name, cell in cells if name in own.assigned}
        for name, cell in cells:
            if name in own.read_cells:
                self._readers.setdefault((id(cell), None), set()).add(id(function))
                self._note(CapturePlace("cell", cell, None, name), waiting)
        for name in sorted(own.read_globals & names.keys()):
            self._readers.setdefault((id(names), name), set()).add(id(function))
            self._note(CapturePlace("name", names, name, name), waiting)

    def _methods(self, cls: type[Any]) -> list[Any]:
        """The methods of a class that the functions name."""
        found: list[Any] = []
        for base in cls.__mro__:
            for name in sorted(self._names & vars(base).keys()):
                held: Any = vars(base)[name]
                reader = descriptor_reader(held)
                if reader is not None:
                    found.append(reader)
                    continue
                f = function_of_users(held)
                if f is not None and not (name in SPECIAL and assigns(f)):
                    found.append(f)
        return found

    def _note(self, place: CapturePlace, waiting: list[tuple[Any, str]]) -> None:
        key = place.at
        value = place.content()
        known = self._places.get(key)
        if value is MISSING and (known is not None or place.kind != "name"):
            return
        if known is not None and known[1] is not MISSING:
            return
        if self._numbers is not None and key in self._numbers.originals:
            self._places[key] = place, value, self._numbers.pattern(key), PlaceContents()
            return
        if isinstance(value, ModuleType):
            if is_users(getattr(value, "__file__", None) or "<"):
                self._objects[id(value)] = value, value.__name__
            return
        if isinstance(value, Value) and find_traced(value) is not None and value.content.level != PLACEHOLDERS:
            return  # a cell of a function that is being traced
        pattern, found = traced_content(value)
        self._places[key] = place, value, pattern, found
        for x in found.inputs:
            if isinstance(x, Value):
                self.hold(x)
            else:
                self.arrays.setdefault(id(x), [x, None])
        waiting.append((value, place.shown))
        self._within.discard(id(value))
        self._find([(x, at) for x, at in members(value, pattern, place.shown) if not assigns(x)], waiting)

    def _find(self, parts: list[tuple[Any, str]], waiting: list[tuple[Any, str]]) -> None:
        """Follow objects in a container or a module.  Of their attributes, those that code loads are places."""
        self._within.update([id(x) for x, _ in parts if id(x) not in self._objects])
        waiting += parts

    def note(self, place: CapturePlace) -> None:
        """Note a place that something other than the functions' code reads."""
        self._note(place, [])

    def include(self, captures: Captures) -> None:
        """Note the places of another function that is called."""
        for place, pattern in zip(captures.places, captures.contents, strict=True):
            self._read |= read_numbers(pattern, place.content())
            if place.kind == "view":  # this function finds it again
                continue
            self._readers.setdefault(place.at, set()).add(id(captures))
            self._note(place, [])

    def hold(self, x: Value) -> None:
        """Note a tensor in a place.

        One that may share its memory with other tensors in places, or with a number of the program, gets its own, so
        that they differ.
        """
        if id(x) in self.tensors:
            return
        self.tensors[id(x)] = x
        shared = not x.type.shape or content_key(x) in self._contents
        if shared and is_concrete(x) and not is_borrowed(x):
            own = copied(x)
            x.content, x.layout = own.content, own.layout
        self._contents[content_key(x)] = x

    def original(self, x: Value) -> Value | None:
        """The tensor in a place that x is, or whose contents x has as another object, after `detach` for example."""
        if id(x) in self.tensors:
            return x
        found = self._contents.get(content_key(x))
        return found if found is not None and found.content is x.content else None

    def find_view(self, array: Any) -> bool:
        """Whether an array shares the memory of arrays in places: then it is an input, as long as they stay there."""
        owner = memory_owner(array)
        whole = [key for key, (x, _) in self.arrays.items() if memory_owner(x) is owner]
        if whole:
            self._owners.update(whole)
            self._views[str(len(self._views))] = array
            self.arrays[id(array)] = [array, None]
        return bool(whole)

    def read(self, x: Value, numbers: np.ndarray[Any, Any]) -> None:
        """Note that Python has read the numbers of a tensor, if it is in a place or stands for an array there."""
        found = self.original(x)
        if found is not None:
            array = next((array for array, made in self.arrays.values() if made is found), found)
            self._read[id(array)] = numbers.tobytes()

    def source(self, captures: Captures) -> Callable[[Value], int | None]:
        """A function from a captured input to its number among the tensors and arrays of captures, if it has one."""
        numbers = {id(x): k for k, x in reversed(list(enumerate(captures.found.inputs)))}
        arrays = {id(made): id(array) for array, made in self.arrays.values() if made is not None}
        if self._numbers is not None:
            keys = {p.at: key for key, p in self._numbers.originals.items()}
            at = 0
            for place, content in zip(captures.places, captures.contents, strict=True):
                if content.kind == "number":
                    numbers[id(self._numbers.tensors[keys[place.at]])] = at
                at += content.inputs
        return lambda x: numbers.get(arrays.get(id(x), id(x)))

    def captures(self, watched: Iterable[Any] = ()) -> Captures:
        """The places and their contents at the end of the trace, without attributes of objects that are watched."""
        places, patterns, numbers = list[CapturePlace](), list[ContentPattern](), list[int]()
        found = PlaceContents()
        for place, value, *_ in list(self._places.values()):
            if value is MISSING:  # perhaps set while the function was traced
                self._note(place, [])
        changes = self._changes or bool(self._names & CHANGES)
        known = {key for x in watched for key in (id(x), id(getattr(x, "__dict__", None)))}
        objects = [x for x, _ in self._objects.values() if not isinstance(x, ModuleType)]
        attributes = {key for x in objects for key in (id(x), id(getattr(x, "__dict__", None)))}
        for key, (place, value, before, met) in self._places.items():
            if self._numbers is not None and key in self._numbers.originals:
                numbers.append(len(places))
                places.append(self._numbers.originals[key])
                patterns.append(self._numbers.pattern(key))
                found.add(places[-1], patterns[-1], self._numbers.value(key))
                continue
            if self._numbers is not None:
                self.conflict |= any(place.at == p.at for p in self._numbers.originals.values())
                place = place._replace(owner=self._numbers.owners.get(id(place.owner), place.owner))
            own = key[0] in attributes and key[1] in self._set_attributes
            if key in self._assigned or own or (key[0] in known and before.kind != "container"):
                continue
            now = place.content()
            changed = now is value and changes  # the traced code may have changed a container
            pattern, contents_now = traced_content(now) if changed else (before, met)
            described = now if changed else value
            pattern = with_conditions(pattern, described, self._owners, self._read)
            if self._read and pattern.inputs:
                contents_now = PlaceContents()
                pattern.matches(described, contents_now)
            if type(now) in (int, float) and self._readers.get(key) == {id(self._function)}:
                numbers.append(len(places))
            places.append(place)
            patterns.append(pattern)
            found.rows += [ObjectRow(place.kind, place.owner, place.key, (value,)), *contents_now.rows]
            found.inputs += contents_now.inputs
        for name, array in self._views.items():
            places.append(CapturePlace("view", self._views, name, "a view of an array"))
            patterns.append(with_conditions(traced_content(array)[0], array, frozenset(), self._read))
            found.add(places[-1], patterns[-1], array)
        self.conflict |= self._numbers is not None and self._asks_type
        return Captures(places, patterns, found, () if self._asks_type else numbers)


class _Stack(threading.local):
    def __init__(self) -> None:
        self.reads: list[Reads] = []


_STACK = _Stack()


@contextmanager
def reading(boundary: CodeType, function: Any, numbers: NumberPlaces | None = None) -> Generator[Reads]:
    """Find the places that a function, and those that it calls, read inside; `boundary` is the code of its caller."""
    reads = Reads(boundary, function, numbers)
    reads.add(function, "self")
    _STACK.reads.append(reads)
    try:
        yield reads
    finally:
        _STACK.reads.pop()
        if _STACK.reads:
            outer = _STACK.reads[-1]
            outer.include(reads.captures())


def note_frames(frame: FrameType | None) -> None:
    """Note the functions that run, from the innermost frame outwards."""
    for reads in reversed(_STACK.reads):
        frame = reads.frames(frame)
        if frame is None:  # none of them is called by the traced function
            return
        frame = frame.f_back


def note_captures(captures: Captures) -> None:
    """Note the captures of a compiled function that is called while another one is traced."""
    if STATE.word and _STACK.reads:
        _STACK.reads[-1].include(captures)


def note_attribute(x: Any, name: str, shown: str) -> None:
    """Note that an attribute is read which the object has itself, and which users' code does not name."""
    if STATE.word and _STACK.reads:
        _STACK.reads[-1].note(CapturePlace("name", names_of(x), name, shown))


def note_numbers(x: Value, numbers: np.ndarray[Any, Any]) -> None:
    """Note that Python has read the numbers of a tensor: a graph that is being recorded is for these numbers alone."""
    if _STACK.reads:
        note_frames(sys._getframe(1))  # pyright: ignore[reportPrivateUsage]
    for reads in _STACK.reads:
        reads.read(x, numbers)


def original(x: Value) -> Value | None:
    """The tensor, in a place that the functions being traced read, of which x is this or another object.

    It is an input of their graph; see `Reads.original`.
    """
    return next((found for reads in _STACK.reads if (found := reads.original(x)) is not None), None)


def is_capture(x: Value) -> bool:
    """Whether a tensor has the numbers of an input of the graph that is being traced; see `original`."""
    return original(x) is not None


def is_read(x: Value) -> bool:
    """Whether a tensor is itself in a place that functions being traced read, perhaps without an operation so far."""
    if not _STACK.reads:
        return False
    note_frames(sys._getframe(1))  # pyright: ignore[reportPrivateUsage]
    return original(x) is x


def array_capture(array: Any, make: Callable[[], Value]) -> Value | None:
    """The tensor that stands for an array in a place that the functions being traced read, or for a view of one."""
    if _STACK.reads:
        note_frames(sys._getframe(1))  # pyright: ignore[reportPrivateUsage]
    known = [reads for reads in _STACK.reads if id(array) in reads.arrays or reads.find_view(array)]
    if not known:
        return None
    made = next((made for reads in known if (made := reads.arrays[id(array)][1]) is not None), None)
    made = make() if made is None else made
    for reads in known:
        reads.arrays[id(array)][1] = made
        reads.hold(made)
    return made
