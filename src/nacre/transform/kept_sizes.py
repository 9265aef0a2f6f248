"""Sizes that a trace leaves in objects outside of the function: where they are, and the contents from before.

A size that is a symbol in a trace has no meaning afterwards.  The lists, dicts, sets and attributes that the function
reaches are compared with their contents before the trace.  Items with symbols are taken out.
"""

from __future__ import annotations

import dis
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from itertools import islice
from types import CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any, Final, NamedTuple, cast

from nacre.base.dims import Dim
from nacre.base.places import is_outside, is_users
from nacre.base.tree import is_own
from nacre.trace.captures import MISSING, names_of
from nacre.trace.traced import PLAIN, contents
from nacre.trace.value import Value

OBJECTS: Final = 1000  # that are searched
ITEMS: Final = 1000  # of a container; of a larger one, only additions are searched
DEEP: Final = 4  # tuples and containers within an item
Kept = Callable[..., frozenset[str]]  # the symbols in items


class NamedPlace(NamedTuple):
    """A name by which code reaches an object, and the code."""

    name: str
    code: CodeType | None

    def __str__(self) -> str:
        """The first line that uses the name."""
        for code in _codes(self.code):
            for step in dis.get_instructions(code):
                if step.argval == self.name and step.positions is not None and step.positions.lineno:
                    return f"{code.co_filename}:{step.positions.lineno} ({code.co_name}) keeps it in {self.name}"
        return f"it is kept in {self.name}"


class Before(NamedTuple):
    """A container, its items before a trace, and the place by which it was found."""

    held: Any
    items: Any  # None of a large one
    size: int  # negative for a global name
    place: NamedPlace


class KeptSizes:
    """The containers that a function reaches, as they were before a trace with these symbols."""

    def __init__(self, function: Any, args: Any, symbols: Collection[str]) -> None:
        self.symbols = symbols
        self.before: list[Before] = []
        self._seen: dict[int, Any] = {}
        self._waiting: deque[tuple[Any, NamedPlace]] = deque([(function, NamedPlace("the function", None))])
        self._waiting.append((args, NamedPlace("an argument", None)))
        while self._waiting and len(self._seen) < OBJECTS:
            self._follow(*self._waiting.popleft())

    def take_back(self) -> dict[str, str]:
        """Take the symbols out of all places, and return them with the reasons."""
        found: dict[str, str] = {}
        for before in reversed(self.before):  # the innermost ones first
            names = frozenset[str]().union(*_restored(before, self.symbols))
            for name in names:
                found.setdefault(name, str(before.place))
        return found

    def _follow(self, x: Any, place: NamedPlace) -> None:
        """Note an object if it is a container, and the objects in it."""
        if id(x) in self._seen or isinstance(x, (*PLAIN, Value)):
            return
        self._seen[id(x)] = x
        if isinstance(x, FunctionType):
            self._follow_function(x)
        elif isinstance(x, MethodType):
            self._waiting += [(x.__func__, place), (x.__self__, place)]
        elif isinstance(x, partial):
            self._waiting += [(each, place) for each in (x.func, x.args, x.keywords)]
        elif isinstance(x, list | deque | set | dict):
            self._note(x, place)
        elif isinstance(x, tuple | frozenset):
            self._waiting += [(each, place) for each in islice(cast("Collection[Any]", x), ITEMS)]
        else:
            self._follow_object(x, place)

    def _follow_object(self, x: Any, place: NamedPlace) -> None:
        cls = cast("type[Any]", x if isinstance(x, type) else type(x))
        own = names_of(x)
        self._waiting += [(own[each], place) for each in ("function", "__wrapped__") if each in own]
        if not is_own(cls):
            self._waiting += [
                (f, place) for c in cls.__mro__ if not is_own(c) for f in vars(c).values() if _is_followed(f)
            ]
        elif not hasattr(cls, "fingerprint"):
            return
        place = NamedPlace(f"a {cls.__name__}", None) if place.code is None else place
        self._note(x if isinstance(x, type) else own, place)

    def _follow_function(self, function: FunctionType) -> None:
        code = function.__code__
        for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
            self._note(cell, NamedPlace(name, code))
        if not is_outside(code.co_filename):  # a wrapper, or a function of Nacre, whose caches are in order
            return
        names = dict.fromkeys(name for each in _codes(code) for name in each.co_names)
        known = {name: function.__globals__.get(name, MISSING) for name in names}
        for name, value in known.items():
            if isinstance(value, ModuleType) and is_users(getattr(value, "__file__", None) or ""):
                own = vars(value)
                self._waiting += [(own[each], NamedPlace(each, code)) for each in names if each in own]
            elif not isinstance(value, ModuleType):
                self._waiting.append((value, NamedPlace(name, code)))
            self.before.append(Before(function.__globals__, {name: value}, -1, NamedPlace(name, code)))
        given = code.co_varnames[: code.co_argcount]
        defaults = dict(zip(reversed(given), reversed(function.__defaults__ or ()), strict=False))
        defaults |= function.__kwdefaults__ or {}
        self._waiting += [(value, NamedPlace(name, code)) for name, value in defaults.items()]

    def _note(self, x: Any, place: NamedPlace) -> None:
        """Note the items of a container, an object's dict of attributes, a class or a closure's cell."""
        if isinstance(x, CellType):
            items: Any = contents(x)
        elif isinstance(x, type):
            own = cast("Mapping[str, Any]", x.__dict__)
            items = {name: value for name, value in own.items() if not name.startswith("__")}
        else:
            items = x.copy() if len(x) <= ITEMS else None
        size = len(cast("Any", x)) if items is None else len(items)
        self.before.append(Before(x, items, size, place))
        values: Any = cast("dict[Any, Any]", items).values() if isinstance(items, dict) else items or ()
        self._waiting += [(each, place) for each in values]


def _is_followed(x: object) -> bool:
    """Whether an attribute of a class may lead to places."""
    return isinstance(x, FunctionType | list | dict | set | deque)


def _codes(code: CodeType | None) -> list[CodeType]:
    """Code and that of its inner functions."""
    found = [] if code is None else [code]
    for each in found:
        found += [c for c in each.co_consts if isinstance(c, CodeType)]
    return found


def _restored(before: Before, symbols: Collection[str]) -> Iterator[frozenset[str]]:
    """The symbols in items of a container that are taken out of it."""
    held: Any = before.held
    was: Any = before.items

    def kept(*items: Any) -> frozenset[str]:
        """The symbols in items."""
        return frozenset[str]().union(*(_symbols(x, symbols, DEEP) for x in items))

    match before.held:
        case CellType():
            if names := kept(*contents(held)):
                yield names
                held.cell_contents = next(iter(was), None)
        case type():
            yield from _restored_names(held.__dict__, was, partial(setattr, held), partial(delattr, held), kept)
        case dict() if before.size < 0:
            here = {name: held[name] for name in was if name in held}
            known = {name: value for name, value in was.items() if value is not MISSING}
            yield from _restored_names(here, known, held.__setitem__, held.__delitem__, kept)
        case dict():
            here = dict(islice(held.items(), 0 if was is not None else before.size, None))
            yield from _restored_names(here, was or {}, held.__setitem__, held.__delitem__, kept)
        case set():
            for x in [x for x in held if was is None or x not in was]:
                if names := kept(x):
                    yield names
                    held.discard(x)
        case _:
            yield from _restored_items(held, was, before.size, kept)


def _restored_items(held: Any, was: Any, size: int, kept: Kept) -> Iterator[frozenset[str]]:
    """The symbols in items of a list; those that were replaced are put back."""
    first, old = (0, was) if was is not None else (size, ())
    for k in reversed(range(first, len(held))):
        is_old = k < len(old)
        if (is_old and held[k] is old[k]) or not (names := kept(held[k])):
            continue
        yield names
        if is_old and not kept(old[k]):
            held[k] = old[k]
        else:
            del held[k]


def _restored_names(
    here: Mapping[Any, Any],
    was: Mapping[Any, Any],
    put: Callable[[Any, Any], object],
    remove: Callable[[Any], object],
    kept: Kept,
) -> Iterator[frozenset[str]]:
    """The symbols in entries of a mapping; the entries become those from before."""
    for key, value in list(here.items()):
        if (key in was and was[key] is value) or not (names := kept(key, value)):
            continue
        yield names
        if key in was:
            put(key, was[key])
        else:
            remove(key)


def _symbols(x: Any, symbols: Collection[str], deep: int) -> frozenset[str]:
    """The symbols in an item, which may be a container of some that were made in the trace."""
    if type(x) is Dim:
        return frozenset(s.name for s in x.symbols() if s.name in symbols)
    if not deep or not isinstance(x, list | tuple | dict | set | frozenset | deque):
        return frozenset()
    parts = cast("Collection[Any]", x)
    if isinstance(x, dict):
        parts = [*cast("dict[Any, Any]", x), *cast("dict[Any, Any]", x).values()]
    return frozenset[str]().union(*(_symbols(each, symbols, deep - 1) for each in islice(parts, ITEMS)))
