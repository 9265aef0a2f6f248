"""Memory in native Python: fields of structures, elements of pointers, their addresses, and the stack."""

from __future__ import annotations

import ast

from nacre.native.python.arithmetic import ArithmeticTranslation
from nacre.native.python.body import FunctionScope, shown
from nacre.native.python.ssa import Computed
from nacre.native.python.types import (
    BOOL,
    VOID,
    ArrayKind,
    IntKind,
    Kind,
    PointerKind,
    StructKind,
    alignment,
    memory_type,
    pointer_to,
)


class MemoryAccess(ArithmeticTranslation):
    """Places in memory: how they are found, read and written."""

    def place(self, node: ast.expr) -> tuple[Computed, Kind]:
        """The address of a field or element, and the type in memory."""
        if isinstance(node, ast.Attribute):
            return self._field(self.any_value(node.value), node)
        if isinstance(node, ast.Subscript):
            return self._element(self.any_value(node.value), node)
        self.fail(node, "a place must be a field or an element; got another expression; use x.y or x[k]")

    def _field(self, base: Computed, node: ast.Attribute) -> tuple[Computed, Kind]:
        owner = base.kind.element if isinstance(base.kind, PointerKind) else None
        if not isinstance(owner, StructKind):
            self.fail(node, f"fields are those of structures; got {base.kind}; use a reference")
        return self._moved(base, self.field(owner, node.attr, node), owner.fields[node.attr].kind)

    def field(self, owner: StructKind, name: str, node: ast.AST) -> int:
        """The offset of a field, which must exist."""
        if name not in owner.fields:
            self.fail(node, f"the field must exist; got none; use one of {', '.join(owner.fields)}", f"{owner}.{name}")
        return owner.fields[name].offset

    def _moved(self, base: Computed, offset: int, kind: Kind) -> tuple[Computed, Kind]:
        """The place of this type at an offset in bytes."""
        if not offset:
            return base, kind
        return self.op(pointer_to(kind), f"getelementptr i8, {{0}}, i64 {offset}", base, stem="p"), kind

    def _element(self, base: Computed, node: ast.Subscript) -> tuple[Computed, Kind]:
        if not isinstance(base.kind, PointerKind):
            self.fail(node, f"elements are those of pointers; got {base.kind}; use ptr[…]")
        element, index = base.kind.element, self.item(node.slice)
        if isinstance(index, int):
            return self._moved(base, index * element.nbytes, element)
        if not isinstance(index, Computed) or not isinstance(index.kind, IntKind):
            self.fail(node, f"an index must be an integer; got {shown(node.slice)}; convert it")
        wide = self.convert(index, IntKind(64, index.kind.signed), node)
        return self.op(base.kind, f"getelementptr {memory_type(element)}, {{0}}, {{1}}", base, wide, stem="p"), element

    def load(self, address: Computed, kind: Kind) -> Computed:
        """The value at a place; a structure or array is not copied: its address stands for it."""
        if isinstance(kind, ArrayKind | StructKind):
            return self.ssa.add(pointer_to(kind.element if isinstance(kind, ArrayKind) else kind), [address])
        loaded = self.op(IntKind(8, False) if kind is BOOL else kind,
                         f"load {memory_type(kind)}, {{0}}, align {kind.nbytes}", address, stem="x")  # fmt: skip
        return self.test("ne", loaded, self.constant(loaded.kind, 0)) if kind is BOOL else loaded

    def store(self, address: Computed, kind: Kind, value: Computed, node: ast.AST) -> None:
        """Write a value at a place."""
        if isinstance(kind, ArrayKind | StructKind):
            self.fail(node, "a structure must be written by its fields; got an assignment; write each field", str(kind))
        if kind is BOOL:
            value = self.op(IntKind(8, False), "zext {0} to i8", value)
        self.op(VOID, f"store {{1}}, {{0}}, align {kind.nbytes}", address, value)

    def stack(self, kind: Kind, count: int | Computed, align: int, node: ast.AST) -> Computed:
        """Elements on the stack, for as long as the function runs; their number may be a variable outside of loops."""
        ty, place = memory_type(kind), align or alignment(kind)
        if isinstance(count, int):
            room = f"i8, i64 {count * kind.nbytes}" if ty.startswith("[") else f"{ty}, i64 {count}"
            return self.op(pointer_to(kind), f"alloca {room}, align {place}", stem="stack")
        scope: FunctionScope | None = self.frame
        while scope is not None:
            if scope.loops:
                self.fail(node, "the number must be a constant in a loop, where the stack would grow; move it before")
            scope = scope.outer
        return self.op(pointer_to(kind), f"alloca {ty}, {{0}}, align {place}", count, stem="stack")
