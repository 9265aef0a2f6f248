"""Structures in memory as Python writes and reads them, by the names of their fields.

rows = pack(Item, key=3) + pack(Item, key=4)
write_field(address, Item, "value", 7)
"""

from __future__ import annotations

import ctypes
import struct
from typing import Any, Final

from nacre.base.errors import CompileError
from nacre.native.python.types import BoolKind, FloatKind, FunctionKind, IntKind, Kind, PointerKind, size_of, struct_of

SIGNED: Final = {8: "b", 16: "h", 32: "i", 64: "q"}  # codes of Python's `struct`; those of unsigned numbers are capital


def pack(owner: type[Any], /, **values: float) -> bytes:
    """The bytes of a structure; pointers are addresses, and fields without a value are 0."""
    memory = bytearray(size_of(owner))
    for field, value in values.items():
        code, offset = _place(owner, field)
        struct.pack_into(code, memory, offset, value)
    return bytes(memory)


def read_field(address: int, owner: type[Any], field: str) -> int:
    """A field of the structure at an address, which must be valid."""
    code, offset = _place(owner, field)
    return struct.unpack(code, ctypes.string_at(address + offset, struct.calcsize(code)))[0]


def write_field(address: int, owner: type[Any], field: str, value: float) -> None:
    """Set a field of the structure at an address, which must be valid."""
    code, offset = _place(owner, field)
    written = struct.pack(code, value)
    (ctypes.c_char * len(written)).from_address(address + offset).raw = written


def _place(owner: type[Any], field: str) -> tuple[str, int]:
    """How a field is written, and its offset."""
    found = struct_of(owner).fields.get(field)
    if found is None:
        fields = ", ".join(struct_of(owner).fields)
        raise CompileError(f"{owner.__name__}.{field}: the field must exist; got none; use one of {fields}")
    return "<" + number_code(found.kind, f"{owner.__name__}.{field}"), found.offset


def number_code(kind: Kind, name: str) -> str:
    """The letter of a number or address, for Python's `struct` and for NumPy."""
    if isinstance(kind, IntKind):
        return SIGNED[kind.bits] if kind.signed else SIGNED[kind.bits].upper()
    if isinstance(kind, FloatKind):
        return "f" if kind.bits == 32 else "d"
    if isinstance(kind, BoolKind):
        return "?"
    if isinstance(kind, PointerKind | FunctionKind):
        return "Q"
    raise CompileError(f"{name}: Python writes numbers and addresses; got {kind}; pack its parts by themselves")
