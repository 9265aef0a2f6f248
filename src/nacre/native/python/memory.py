"""Memory in native Python: fields of structures, elements of pointers, their addresses, and the stack."""

from __future__ import annotations

import ast

from nacre.native.python.arithmetic import ArithmeticTranslation
from nacre.native.python.body import shown
from nacre.native.python.ssa import Computed
from nacre.native.python.types import BOOL, VOID, ArrayKind, IntKind, Kind, PointerKind, StructKind, pointer_to


class MemoryAccess(ArithmeticTranslation):
    """Places in memory: how they are found, read and written."""

    def place(self, node: ast.expr) -> tuple[Computed, Kind]:
        """The address of a field or element, and the type in memory."""
        if not isinstance(node, ast.Attribute | ast.Subscript):
            self.fail(node, "a place must be a field or an element; got another expression; use x.y or x[k]")
        base = self.any_value(node.value)
        if isinstance(node, ast.Attribute):
            owner = base.kind.structure
            if owner is None:
                self.fail(node, f"fields are those of structures; got {base.kind}; use a reference")
            field = owner.field(node.attr)
            offset, kind = field.offset, field.kind
        else:
            if not isinstance(base.kind, PointerKind):
                self.fail(node, f"elements are those of pointers; got {base.kind}; use ptr[…]")
            kind, index = base.kind.element, self.item(node.slice)
            if isinstance(index, Computed) and isinstance(index.kind, IntKind):
                index, ty = self.convert(index, IntKind(64, index.kind.signed), node), kind.memory
                return self.op(base.kind, f"getelementptr {ty}, {{0}}, {{1}}", base, index, stem="p"), kind
            if not isinstance(index, int):
                self.fail(node, f"an index must be an integer; got {shown(node.slice)}; convert it")
            offset = index * kind.nbytes
        if not offset:
            return base, kind
        return self.op(pointer_to(kind), f"getelementptr i8, {{0}}, i64 {offset}", base, stem="p"), kind

    def load(self, address: Computed, kind: Kind) -> Computed:
        """The value at a place; a structure or array is not copied: its address stands for it."""
        if isinstance(kind, ArrayKind | StructKind):
            return self.ssa.add(pointer_to(kind.element if isinstance(kind, ArrayKind) else kind), [address])
        loaded = self.op(IntKind(8, False) if kind is BOOL else kind,
                         f"load {kind.memory}, {{0}}, align {kind.nbytes}", address, stem="x")  # fmt: skip
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
        ty, place = kind.memory, align or kind.alignment
        if isinstance(count, int):
            room = f"i8, i64 {count * kind.nbytes}" if ty.startswith("[") else f"{ty}, i64 {count}"
            return self.op(pointer_to(kind), f"alloca {room}, align {place}", stem="stack")
        if any(scope.loops for scope in (self.frame, *self.frame.around)):
            self.fail(node, "the number must be a constant in a loop, where the stack would grow; move it before")
        return self.op(pointer_to(kind), f"alloca {ty}, {{0}}, align {place}", count, stem="stack")
