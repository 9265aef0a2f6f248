"""Whether native code knows the objects of this Python interpreter, and where a class keeps its slots.

Native code reads fields of objects.  Only CPython's usual builds have the layouts that `native/cpython` declares.
"""

from __future__ import annotations

import ctypes
import sys
import types
from importlib import import_module
from typing import Any, Final, NamedTuple

from nacre.base.errors import StateError
from nacre.base.locks import once
from nacre.native.cpython import (
    HAS_OBJECT_HEADERS,
    CellObject,
    FrameObject,
    InterpreterFrame,
    MemberDefinition,
    ObjectHeader,
    PyObject,
    SlotDescriptor,
)
from nacre.native.python.types import offset_of, size_of, struct
from nacre.native.records import read_field

INSTALL: Final = "install the usual 64-bit build of CPython 3.11 or later, as python.org, uv and conda offer it"


class InterpreterFacts(NamedTuple):
    """What an interpreter says about itself: its name, whether pointers have 64 bits, and what its build adds."""

    implementation: str
    wide: bool
    free_threaded: bool
    traces_references: bool


def facts() -> InterpreterFacts:
    """The facts of this interpreter."""
    may_be_free = sys.version_info >= (
        3,
        13,
    )  # earlier versions have no such build, and `sysconfig` takes a millisecond
    return InterpreterFacts(
        sys.implementation.name,
        sys.maxsize > 1 << 32,
        may_be_free and bool(import_module("sysconfig").get_config_var("Py_GIL_DISABLED")),
        hasattr(sys, "getobjects"),
    )


def refused(found: InterpreterFacts) -> str | None:
    """The kind of an interpreter whose objects native code does not know; None for a usual one."""
    if found.implementation != "cpython":
        return f"the implementation {found.implementation}"
    if found.free_threaded:
        return "a free-threaded build of CPython"
    if found.traces_references:
        return "a debug build of CPython that traces references (Py_TRACE_REFS)"
    if not found.wide:
        return "a build of CPython for 32 bits"
    return None


class _Known:
    """A class with slots, whose objects are compared with the declarations."""

    __slots__ = ("__weakref__", "first", "second")
    first: object
    second: object


@struct
class _KnownObject(PyObject):
    """An instance of it."""

    first: PyObject
    second: PyObject
    if not HAS_OBJECT_HEADERS:
        weak_references: PyObject


def different_fields() -> list[str]:
    """The declared fields of objects that this interpreter has elsewhere."""
    known, value, several = _Known(), object(), 5
    cell = types.CellType(value)
    known.first, known.second = value, known
    found = list[str]()
    if read_field(id(known), PyObject, "type") != id(_Known):
        found.append("the type of an object")
    before = read_field(id(value), PyObject, "references")
    holders = [value] * several
    if read_field(id(value), PyObject, "references") != before + len(holders):
        found.append("the references of an object")
    for name in ("first", "second"):
        if slot_offset(_Known, name) != offset_of(_KnownObject, name):
            found.append(f"the slot {name}")
        elif read_field(id(known), _KnownObject, name) != id(getattr(known, name)):
            found.append(f"the value of the slot {name}")
    if read_field(id(cell), CellObject, "contents") != id(value):
        found.append("the content of a cell")
    if _function_address(sys._getframe()) != id(different_fields):  # pyright: ignore[reportPrivateUsage]
        found.append("the function of a frame")
    if _Known.__weakrefoffset__ != weak_references_offset(_KnownObject):
        found.append("weak references")
    return found


def _function_address(frame: types.FrameType) -> int:
    return read_field(read_field(id(frame), FrameObject, "frame"), InterpreterFrame, "function") & ~7


def function_of(frame: types.FrameType) -> types.FunctionType:
    """The function that runs in a frame."""
    require_interpreter()
    found: types.FunctionType = ctypes.cast(_function_address(frame), ctypes.py_object).value
    return found


def check_interpreter() -> None:
    """Raise StateError for an interpreter whose objects native code does not know."""
    kind = refused(facts())
    if kind is not None:
        raise StateError(f"interpreter: Nacre needs the usual build of CPython; got {kind}; {INSTALL}")
    different = different_fields()
    if different:
        raise StateError(
            f"interpreter: the objects of CPython must be as Nacre declares them; got {sys.version} with other places "
            f"for {', '.join(different)}; {INSTALL}"
        )


require_interpreter = once(check_interpreter)  # before native code sees the first object


def weak_references_offset(structure: type[Any]) -> int:
    """Where the instances of a class have their weak references, by the structure that describes them."""
    if HAS_OBJECT_HEADERS:
        return offset_of(ObjectHeader, "weak_references") - size_of(ObjectHeader)
    return offset_of(structure, "weak_references")


def slot_offset(cls: type, name: str) -> int:
    """The offset of a slot in a class's instances."""
    descriptor: Any = cls.__dict__[name]
    if type(descriptor) is not types.MemberDescriptorType:
        raise TypeError(f"{cls.__name__}.{name} is not a slot")
    return read_field(read_field(id(descriptor), SlotDescriptor, "member"), MemberDefinition, "offset")
