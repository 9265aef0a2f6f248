"""Attributes: the places of an object that code may read by name, those that would hide others included."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Set
from types import FunctionType, MemberDescriptorType, MethodType
from typing import Any, cast

from nacre.base.places import is_outside
from nacre.base.tree import is_own
from nacre.trace.captures import MISSING, CapturePlace, names_of


def has_attributes(cls: type[Any]) -> bool:
    """Whether code may read attributes of instances: of users' classes, and of modules and optimisers."""
    return not is_own(cls) or hasattr(cls, "fingerprint")


def attributes(x: Any, shown: str, names: Set[str], loads: Set[str], probed: Set[str]) -> Iterator[CapturePlace]:
    """The attributes of an object with these names.  Fields of dataclasses are contents already.

    Attributes that the object lacks are places, too, if code probes them, or loads them and the class has a
    `__getattr__`.  So are methods of users' classes, and the places in the object that would hide them.
    """
    own = names_of(x)
    cls: Any = x if isinstance(x, type) else type(x)
    fields: Any = {} if cls is x else getattr(cls, "__dataclass_fields__", {})
    of_classes = _of_classes(cls, names)
    free = cls is not x and own is getattr(x, "__dict__", None)  # code may give the object other attributes
    supplied = (loads if hasattr(cls, "__getattr__") else probed) if free else ()
    for name in sorted({*(names & own.keys()), *of_classes, *supplied} - set(fields)):
        found = of_classes.get(name, MISSING)
        if name in own or found is MISSING:
            yield CapturePlace("name", own, name, f"{shown}.{name}")
        elif _is_method(found):
            bases = [base for base in cls.__mro__ if _is_method(base.__dict__.get(name))]  # `super` reads some of them
            yield from (CapturePlace("attribute", base, name, f"{shown}.{name}") for base in bases)
            if free and not isinstance(found, property) and not name.startswith("__"):
                yield CapturePlace("name", own, name, f"{shown}.{name}")
        elif _is_bound_anew(found):
            for base in (base for base in cls.__mro__ if _is_bound_anew(base.__dict__.get(name))):
                yield CapturePlace("name", _own_names(base), name, f"{shown}.{name}")
        elif isinstance(found, MemberDescriptorType) or not hasattr(found, "__get__"):
            yield CapturePlace("attribute", x, name, f"{shown}.{name}")


def function_of_users(x: Any) -> FunctionType | None:
    """The function behind an attribute of a class, a method or a property for example, if it is users' code."""
    found = getattr(x, "fget", None) or getattr(x, "__func__", None) or x
    return found if isinstance(found, FunctionType) and is_outside(found.__code__.co_filename) else None


def _is_method(x: Any) -> bool:
    """Whether an attribute of a class is a function or a property of users; its class gives always the same object."""
    return isinstance(x, FunctionType | staticmethod | property) and function_of_users(x) is not None


def _is_bound_anew(x: Any) -> bool:
    """Whether an attribute of a class is a class method or a descriptor of users; its class gives another object."""
    if isinstance(x, classmethod):
        return function_of_users(x) is not None
    return descriptor_reader(x) is not None


def _own_names(cls: type[Any]) -> dict[str, Any]:
    """The dict in which Python keeps the attributes of a class; `vars` only shows it."""
    (own,) = gc.get_referents(vars(cls))
    return own


def _of_classes(cls: type[Any], names: Set[str]) -> dict[str, Any]:
    """The attributes with these names of a class and its bases."""
    found: dict[str, Any] = {}
    for base in reversed(cls.__mro__):
        held = vars(base)
        found |= {name: held[name] for name in names & held.keys()}
    return found


def children(x: Any) -> Iterator[tuple[Any, str]]:
    """The modules that are attributes of a module, and the text after its name that reads each."""
    if hasattr(cast("Any", type(x)), "fingerprint"):
        for name, child in list(names_of(x).items()):
            if hasattr(cast("Any", type(child)), "fingerprint"):
                yield child, f"[{name}]" if name.isdigit() else f".{name}"


def descriptor_reader(x: object) -> MethodType | None:
    """The method that reads an attribute of a class, if it is a descriptor of a users' class."""
    get = function_of_users(type(x).__dict__.get("__get__"))
    return None if get is None else MethodType(get, x)
