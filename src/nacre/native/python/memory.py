"""Memory in native Python: fields of structures, elements of pointers, and their addresses."""

from __future__ import annotations

import ast

from nacre.native.python.arithmetic import ArithmeticTranslation
from nacre.native.python.body import FunctionScope
from nacre.native.python.ssa import Computed
from nacre.native.python.types import (
    BOOL,
    ArrayKind,
    IntKind,
    Kind,
    PointerKind,
    StructKind,
    TupleKind,
    alignment,
    memory_type,
)


class MemoryAccess(ArithmeticTranslation):
    """Places in memory: how they are found, read and written."""

    def place(self, node: ast.expr) -> tuple[Computed, Kind]:
        """The address of a field or element, and the type in memory."""
        if isinstance(node, ast.Attribute):
            return self._field(self.any_value(node.value), node)
        if isinstance(node, ast.Subscript):
            return self._element(self.any_value(node.value), node)
        written = ast.unparse(node)
        self.fail(node, f"{written}: a place must be a field or an element; got another expression; use x.y or x[k]")

    def _field(self, base: Computed, node: ast.Attribute) -> tuple[Computed, Kind]:
        owner = base.kind.element if isinstance(base.kind, PointerKind) else None
        if not isinstance(owner, StructKind):
            self.fail(node, f"{ast.unparse(node)}: fields are those of structures; got {base.kind}; use a reference")
        field = owner.fields.get(node.attr)
        if field is None:
            self.fail(
                node, f"{owner}.{node.attr}: the field must exist; got none; use one of {', '.join(owner.fields)}"
            )
        if not field.offset:
            return base, field.kind
        return self.add(PointerKind(field.kind), (base,), lambda f, v: f.gep(v[0], field.offset)), field.kind

    def _element(self, base: Computed, node: ast.Subscript) -> tuple[Computed, Kind]:
        if not isinstance(base.kind, PointerKind):
            self.fail(node, f"{ast.unparse(node)}: elements are those of pointers; got {base.kind}; use ptr[…]")
        element = base.kind.element
        index = self.item(node.slice)
        if isinstance(index, int):
            return self._shift(base, index * element.nbytes, element), element
        if not isinstance(index, Computed) or not isinstance(index.kind, IntKind):
            self.fail(
                node, f"{ast.unparse(node)}: an index must be an integer; got {ast.unparse(node.slice)}; convert it"
            )
        wide = self.convert(index, IntKind(64, index.kind.signed), node)
        step = element.nbytes
        if memory_type(element) in ("i8", "i16", "i32", "i64", "float", "double", "ptr") and not _is_compound(element):
            ty = memory_type(element)
            return self.add(base.kind, (base, wide), lambda f, v: f.gep(v[0], v[1], ty)), element
        return self.add(base.kind, (base, wide), lambda f, v: f.gep(v[0], v[1], f"[{step} x i8]")), element

    def _shift(self, base: Computed, offset: int, element: Kind) -> Computed:
        if not offset:
            return base
        return self.add(PointerKind(element), (base,), lambda f, v: f.gep(v[0], offset))

    def load(self, address: Computed, kind: Kind) -> Computed:
        """The value at a place; a structure or array is not copied: its address stands for it."""
        if isinstance(kind, ArrayKind):
            return self._as(address, PointerKind(kind.element))
        if isinstance(kind, StructKind):
            return self._as(address, PointerKind(kind))
        if kind == BOOL:
            byte = self.add(IntKind(8, False), (address,), lambda f, v: f.load(v[0], "i8"))
            return self.add(BOOL, (byte,), lambda f, v: f.icmp("ne", v[0], 0))
        return self.add(kind, (address,), lambda f, v: f.load(v[0], kind.llvm))

    def _as(self, address: Computed, kind: Kind) -> Computed:
        return self.add(kind, (address,), lambda _, v: v[0])

    def store(self, address: Computed, kind: Kind, value: Computed, node: ast.AST) -> None:
        """Write a value at a place."""
        if _is_compound(kind):
            self.fail(node, f"{kind}: a structure must be written by its fields; got an assignment; write each field")
        if kind == BOOL:
            value = self.add(IntKind(8, False), (value,), lambda f, v: f.cast("zext", v[0], "i8"))
        self.add(kind, (address, value), lambda f, v: f.store(v[1], v[0]))

    def stack(self, kind: StructKind, align: int) -> Computed:
        """A structure on the stack, for as long as the function runs."""
        place = align or alignment(kind)
        return self.add(PointerKind(kind), (), lambda f, _: f.alloca("i8", kind.nbytes, place))

    def stack_array(self, element: Kind, count: int | Computed, align: int, node: ast.AST) -> Computed:
        """Elements on the stack, for as long as the function runs."""
        ty, place = memory_type(element), align or alignment(element)
        if _is_compound(element):
            ty = f"[{element.nbytes} x i8]"
        if isinstance(count, int):
            return self.add(PointerKind(element), (), lambda f, _: f.alloca(ty, count, place))
        scope: FunctionScope | None = self.frame
        while scope is not None:
            if scope.loops:
                self.fail(node, "stack_array: the number must be a constant in a loop, where the stack would grow; "
                          "got a variable; move it before the loop")  # fmt: skip
            scope = scope.outer
        text = f"alloca {ty}, "
        return self.add(
            PointerKind(element), (count,), lambda f, v: f.op(f"{text}{v[0]}, align {place}", "ptr", "stack")
        )


def _is_compound(kind: Kind) -> bool:
    return isinstance(kind, StructKind | ArrayKind | TupleKind)
