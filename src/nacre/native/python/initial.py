"""Structures as LLVM constants: the initial values of variables, and tables of modules that the builder writes.

A table for a module of the builder, whose functions pass it to native Python::

    rows = [Item(name=at(string(module, "name", "x")), count=3)]
    place = constant_rows(module, "items", rows)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from nacre.base.errors import CompileError
from nacre.native.llvm_values import Val, literal
from nacre.native.python.declarations import Initial
from nacre.native.python.types import ArrayKind, Kind, StructKind, struct_of
from nacre.native.text import ModuleText


def initial_value(kind: Kind, value: Any, symbol: Callable[[Initial], str]) -> tuple[str, str]:
    """LLVM's type and text of an initial value in memory; `symbol` names what an address or a text stands for."""
    if isinstance(kind, StructKind):
        given: dict[str, Any] = {} if value is None else value.__dict__
        parts, end = list[tuple[str, str]](), 0
        for name, field in kind.fields.items():
            parts += [_padding(field.offset - end), initial_value(field.kind, given.get(name), symbol)]
            end = field.offset + field.kind.nbytes
        return _together([*parts, _padding(kind.nbytes - end)])
    if isinstance(kind, ArrayKind):
        elements = list(value.of if isinstance(value, Initial) else [])
        whole = elements + [None] * (kind.count - len(elements))
        return _together([initial_value(kind.element, v, symbol) for v in whole])
    if isinstance(value, Val):
        return value.ty, value.text
    if isinstance(value, Initial):
        return "ptr", f"@{symbol(value)}"
    return kind.memory, literal(kind.memory, 0 if value is None else value)


def at(place: Val) -> Any:
    """The address of a constant or function of the builder, in a structure."""
    return place


def constant_rows(module: ModuleText, name: str, rows: Sequence[object]) -> Val:
    """A constant array of structures of one class in a module of the builder; returns its address."""
    if not rows:
        return Val("null", "ptr")
    kind = struct_of(type(rows[0]))
    return module.constant(name, *_together([initial_value(kind, row, _none) for row in rows]), 16)


def _none(value: Initial) -> str:
    raise CompileError(f"constant_rows: addresses must be those of the builder's constants; got {value.kind}; use `at`")


def _padding(count: int) -> tuple[str, str]:
    return f"[{count} x i8]", "zeroinitializer"


def _together(parts: list[tuple[str, str]]) -> tuple[str, str]:
    """A packed structure of typed constants."""
    some = [part for part in parts if part[0] != "[0 x i8]"]
    return f"<{{ {', '.join(ty for ty, _ in some)} }}>", f"<{{ {', '.join(f'{ty} {x}' for ty, x in some)} }}>"
