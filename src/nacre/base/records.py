"""Fast dataclasses: the package makes about 170 at start, and the standard library compiles every method of each.

`dataclass` supports the standard decorator's options that Nacre uses, with the same behaviour.  `fields`, `replace` and
`asdict` of the standard library work on the classes.  Only `__init__` is compiled for each class, once the class has
had a few instances: most classes have no more.
"""

# The gain: the first use of tensors, layers and optimisers takes 373 ms of processor time with these classes.  It takes
# 420 ms with those of the standard library (the minimum of 12 fresh processes each, run alternately, on an AMD EPYC
# under load).

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Sequence
from dataclasses import MISSING, Field, FrozenInstanceError
from functools import partial
from operator import attrgetter
from reprlib import recursive_repr
from types import MemberDescriptorType
from typing import Any, Final, TypeVar, dataclass_transform, overload

T = TypeVar("T")
FEW: Final = 8  # calls of an `__init__` before it is compiled


class _Factory:
    """A placeholder default for an argument whose value is created for each instance."""

    def __repr__(self) -> str:
        return "<factory>"


FACTORY = _Factory()


@overload
def dataclass(cls: type[T], /) -> type[T]: ...


@overload
def dataclass(*, frozen: bool = False, eq: bool = True, slots: bool = False) -> Callable[[type[T]], type[T]]: ...


@dataclass_transform(field_specifiers=(dataclasses.field,))
def dataclass(cls: type[Any] | None = None, /, *, frozen: bool = False, eq: bool = True, slots: bool = False) -> Any:
    """Give a class `__init__`, `__repr__` and, unless `eq` is false, `__eq__` over its annotated fields.

    Args:
        frozen: attributes cannot be assigned; with `eq` the class has a hash, too.
        slots: instances have no `__dict__`.

    Example:
        >>> @dataclass(frozen=True)
        ... class Point:
        ...     x: int
        ...     y: int = 0
        >>> Point(1)
        Point(x=1, y=0)
        >>> Point(1) == Point(1, 0), hash(Point(1)) == hash(Point(1))
        (True, True)
    """

    def made(given: type[Any]) -> type[Any]:
        """The class with its methods."""
        found = _with_fields(given, slots)
        fields = dataclasses.fields(found)
        methods: dict[str, Any] = {"__init__": _LateInit(found, fields, frozen), "__repr__": _repr}
        if eq:
            methods["__eq__"] = _equality(fields)
            if "__hash__" not in given.__dict__ or (given.__hash__ is None and "__eq__" in given.__dict__):
                methods["__hash__"] = _hashing(fields) if frozen else None
        if frozen:
            methods["__setattr__"], methods["__delattr__"] = _refusals(found, frozenset(f.name for f in fields))
            if slots:
                methods |= {"__getstate__": _state, "__setstate__": _set_state}
        for name, method in methods.items():
            if name == "__hash__" or name not in given.__dict__:
                setattr(found, name, method)
        return found

    return made if cls is None else made(cls)


@dataclasses.dataclass(init=False, repr=False, eq=False)
class _Model:
    """A class whose description by the standard library is that of all others, except the fields."""

    field: int


def _with_fields(given: type[Any], slots: bool) -> type[Any]:
    """A class with the standard library's description of its fields, and no methods."""
    written = inspect.get_annotations(given)
    if any("ClassVar" in str(a) or "InitVar" in str(a) or "KW_ONLY" in str(a) for a in written.values()):
        return dataclasses.dataclass(init=False, repr=False, eq=False, slots=slots)(given)
    if slots:
        given.__annotations__ = dict.fromkeys(written, object)  # the library searches each text for those three
        found = dataclasses.dataclass(init=False, repr=False, eq=False, slots=True)(given)
        given.__annotations__ = found.__annotations__ = written
        for name, text in written.items():
            found.__dataclass_fields__[name].type = text
        return found
    described: dict[str, Field[Any]] = {}
    for base in given.__mro__[:0:-1]:
        described |= base.__dict__.get("__dataclass_fields__", {})
    described |= {name: _described(given, name, text) for name, text in written.items()}
    given.__dataclass_fields__, given.__match_args__ = described, tuple(described)
    given.__dataclass_params__ = vars(_Model)["__dataclass_params__"]
    return given


def _described(given: type[Any], name: str, written: Any) -> Field[Any]:
    """The description of a field, whose default stays an attribute of the class."""
    made: Any
    made = default = getattr(given, name, MISSING)
    if not isinstance(default, Field):
        made = dataclasses.field(default=MISSING if isinstance(default, MemberDescriptorType) else default)
    elif made.default is MISSING:
        delattr(given, name)
    else:
        setattr(given, name, made.default)
    if type(made.default).__hash__ is None:
        raise ValueError(f"mutable default {type(made.default)} for field {name} is not allowed: use default_factory")
    made.name, made.type, made.kw_only = name, written, False
    made._field_type = vars(_Model)["__dataclass_fields__"]["field"]._field_type
    return made


class _LateInit:
    """The `__init__` of a class for its first instances, because it takes long to compile."""

    def __init__(self, cls: type[Any], fields: tuple[Field[Any], ...], frozen: bool) -> None:
        self.cls, self.fields, self.frozen, self.calls = cls, fields, frozen, 0

    def __get__(self, instance: object, owner: type[Any] | None = None) -> Any:
        """The method for an instance: this class's, or after a few calls a compiled one, which takes its place.

        `inspect.signature` of newer Pythons gives the class itself as the instance.
        """
        self.calls += 1
        if self.calls <= FEW and isinstance(instance, self.cls):
            return partial(self._fill, instance)
        made = _init(self.cls, self.fields, self.frozen)
        if self.cls.__dict__.get("__init__") is self:
            self.cls.__init__ = made
        return made.__get__(instance, owner)

    def _fill(self, instance: Any, *arguments: Any, **named: Any) -> None:
        """Set the fields one by one."""
        given = {f.name: value for f, value in zip(self.fields, arguments)} | named
        absent = [f for f in self.fields if f.name not in given]
        wrong = any(f.default is f.default_factory is MISSING for f in absent)
        if wrong or len(given) != len(arguments) + len(named) or len(given) + len(absent) != len(self.fields):
            return _init(self.cls, self.fields, self.frozen)(instance, *arguments, **named)  # refuses the arguments
        assign = object.__setattr__ if self.frozen else setattr
        for f in self.fields:
            if f.name in given:
                assign(instance, f.name, given[f.name])
            else:
                assign(instance, f.name, f.default if f.default_factory is MISSING else f.default_factory())
        if hasattr(self.cls, "__post_init__"):
            instance.__post_init__()
        return None


def written_function(name: str, parameters: Sequence[str], lines: Sequence[str], known: dict[str, Any]) -> Any:
    """The function that lines of Python make, which read the names `known`.

    >>> written_function("twice", ["x"], ["return factor * x"], {"factor": 2})(3)
    6
    """
    text = "\n    ".join([f"def {name}({', '.join(parameters)}):", *lines])
    # `exec` of the text itself would end the process by SIGINT at its exit if Ctrl-C came in it, also where handled
    exec(compile(text, "<written>", "exec"), known)
    return known[name]


def _init(cls: type[Any], fields: tuple[Field[Any], ...], frozen: bool) -> Callable[..., None]:
    """A method that sets the fields, with one argument for each in order."""
    known: dict[str, Any] = {"_set": object.__setattr__, "_missing": FACTORY}
    parameters, lines = ["self"], ["pass"]
    for f in fields:
        value = f.name
        if f.default_factory is not MISSING:
            known[f"_make_{f.name}"] = f.default_factory
            parameters.append(f"{f.name}=_missing")
            value = f"_make_{f.name}() if {f.name} is _missing else {f.name}"
        elif f.default is not MISSING:
            known[f"_default_{f.name}"] = f.default
            parameters.append(f"{f.name}=_default_{f.name}")
        else:
            parameters.append(f.name)
        lines.append(f"_set(self, {f.name!r}, {value})" if frozen else f"self.{f.name} = {value}")
    if hasattr(cls, "__post_init__"):
        lines.append("self.__post_init__()")
    init = written_function("__init__", parameters, lines, known)
    init.__qualname__, init.__module__ = f"{cls.__qualname__}.__init__", cls.__module__
    init.__annotations__ = {**{f.name: f.type for f in fields}, "return": None}
    return init


@recursive_repr()
def _repr(self: Any) -> str:
    shown = ", ".join(f"{f.name}={getattr(self, f.name)!r}" for f in dataclasses.fields(self) if f.repr)
    return f"{type(self).__qualname__}({shown})"


def _values(fields: list[Field[Any]]) -> Callable[[Any], tuple[Any, ...]]:
    """A function that returns the values of an instance's fields."""
    names = [f.name for f in fields]
    if len(names) > 1:
        return attrgetter(*names)
    return lambda self: tuple(getattr(self, name) for name in names)


def _equality(fields: tuple[Field[Any], ...]) -> Callable[[Any, Any], Any]:
    values = _values([f for f in fields if f.compare])

    def __eq__(self: Any, other: object) -> Any:
        return values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented

    return __eq__


def _hashing(fields: tuple[Field[Any], ...]) -> Callable[[Any], int]:
    values = _values([f for f in fields if (f.compare if f.hash is None else f.hash)])

    def __hash__(self: Any) -> int:
        return hash(values(self))

    return __hash__


def _refusals(cls: type[Any], names: frozenset[str]) -> tuple[Callable[..., None], Callable[..., None]]:
    """Methods that refuse to assign and delete fields; a subclass may have other attributes."""

    def __setattr__(self: Any, name: str, value: object) -> None:
        if type(self) is cls or name in names:
            raise FrozenInstanceError(f"cannot assign to field {name!r}")
        super(cls, self).__setattr__(name, value)

    def __delattr__(self: Any, name: str) -> None:
        if type(self) is cls or name in names:
            raise FrozenInstanceError(f"cannot delete field {name!r}")
        super(cls, self).__delattr__(name)

    return __setattr__, __delattr__


def _state(self: Any) -> list[Any]:
    return [getattr(self, f.name) for f in dataclasses.fields(self)]


def _set_state(self: Any, state: list[Any]) -> None:
    for f, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, f.name, value)
