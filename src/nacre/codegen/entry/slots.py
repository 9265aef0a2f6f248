"""Where CPython keeps the slots of values, layouts, tape nodes and variables, compared with native structures."""

from __future__ import annotations

from types import MemberDescriptorType
from typing import Any, Final

from nacre.base.errors import StateError
from nacre.base.locks import once
from nacre.codegen.entry.layouts import LayoutObject, NodeObject, OriginObject, TensorObject, VariableObject
from nacre.interpret.tape import TapeNode
from nacre.ir.primitive import Layout
from nacre.native.cpython import PyObject
from nacre.native.interpreter import slot_offset, weak_references_offset
from nacre.native.python.types import fields_of, offset_of
from nacre.trace.value import Origin, Value
from nacre.trace.variable import Variable

SLOTS: Final[tuple[tuple[type[Any], type[Any]], ...]] = (
    (TensorObject, Value),
    (LayoutObject, Layout),
    (OriginObject, Origin),
    (NodeObject, TapeNode),
    (VariableObject, Variable),
)
RENAMED: Final = {"value_type": "type"}  # fields with other names than their slots
WITH_WEAK_REFERENCES: Final = (TensorObject, OriginObject, NodeObject)


def different_slots(structure: type[Any], cls: type[Any]) -> list[str]:
    """The slots of a class that are not where a structure has them, each with both places."""
    places = {
        RENAMED.get(field, field): (offset_of(structure, field), slot_offset(owner, RENAMED.get(field, field)))
        for owner in cls.__mro__
        for field in fields_of(structure)
        if type(owner.__dict__.get(RENAMED.get(field, field))) is MemberDescriptorType
    }
    if structure in WITH_WEAK_REFERENCES:
        places["__weakref__"] = weak_references_offset(structure), cls.__weakrefoffset__
    unknown = {RENAMED.get(f, f) for f in fields_of(structure)} - {*places, *fields_of(PyObject), "weak_references"}
    return [f"{cls.__name__}.{name} at {real}, not {own}" for name, (own, real) in places.items() if own != real] + [
        f"{cls.__name__}.{name} nowhere" for name in sorted(unknown)
    ]


@once
def require_slots() -> None:
    """Raise StateError where native code would read other slots than those that it means."""
    found = [text for structure, cls in SLOTS for text in different_slots(structure, cls)]
    if found:
        raise StateError(
            f"slots: the fields of native code must be where Python keeps the slots; got {', '.join(found)}; "
            "use a version of CPython that Nacre names, or correct codegen/entry/layouts"
        )
