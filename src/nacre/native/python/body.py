"""The body of a native function: its local variables, constants, conversions, and the refusal of wrong programs."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any, NoReturn, TypeAlias

from nacre.base.records import dataclass
from nacre.native.llvm_values import Val
from nacre.native.python.declarations import NativeFunction, Null
from nacre.native.python.source import is_changeable
from nacre.native.python.ssa import BasicBlock, Computed, Construction, Emit, Uninitialised
from nacre.native.python.types import (
    BOOL,
    VOID,
    FloatKind,
    FunctionKind,
    IntKind,
    Kind,
    PointerKind,
    StructKind,
)
from nacre.native.python.unit import NativeModule, refuse


@dataclass(eq=False)
class Several:
    """The results of an inlined function that has several."""

    items: Sequence[Computed]


Item: TypeAlias = Computed | int | float | Several | NativeFunction | Null  # a number has no type yet


class FunctionScope:
    """A function that is being read: the compiled one, or one that is expanded in it."""

    def __init__(
        self, function: NativeFunction, node: ast.FunctionDef, result: Kind, outer: FunctionScope | None
    ) -> None:
        self.function, self.node, self.result, self.outer = function, node, result, outer
        self.kinds: dict[str, Kind] = {}  # of the local variables
        self.assigned = {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        self.loops: list[tuple[BasicBlock, BasicBlock]] = []  # where `continue` and `break` lead
        self.exit: BasicBlock | None = None  # where `return` leads in an expanded function
        self.ways: tuple[BasicBlock, BasicBlock] | None = None  # where it leads for True and False in a condition


class Body:
    """What all parts of the translation of a function share."""

    def __init__(self, unit: NativeModule, frame: FunctionScope) -> None:
        self.unit, self.frame = unit, frame
        self.ssa = Construction()

    # ---- later parts of the translation

    def item(self, node: ast.expr, wanted: Kind | None = None) -> Item:
        """The value of an expression; a number without a type stays a Python number."""
        raise NotImplementedError

    def place(self, node: ast.expr) -> tuple[Computed, Kind]:
        """The address of a field or element, and the type in memory."""
        raise NotImplementedError

    # ---- refusals

    def fail(self, node: ast.AST, message: str) -> NoReturn:
        """Refuse the program at a node."""
        refuse(self.frame.function, node, message)

    # ---- values

    def add(self, kind: Kind, operands: Sequence[Computed], emit: Emit) -> Computed:
        """Add an instruction."""
        return self.ssa.add(kind, operands, emit)

    def constant(self, kind: Kind, value: float) -> Computed:
        """A constant of a type."""
        return self.add(kind, (), lambda f, _: f.const(kind.llvm, value))

    def symbol(self, name: str, kind: Kind) -> Computed:
        """The address of a function or variable."""
        return self.add(kind, (), lambda _, __: Val(f"@{name}", "ptr"))

    def value(self, node: ast.expr, wanted: Kind) -> Computed:
        """The value of an expression, which must have this type."""
        return self.typed(self.item(node, wanted), wanted, node)

    def any_value(self, node: ast.expr, wanted: Kind | None = None) -> Computed:
        """The value of an expression, whose own type must be known."""
        found = self.item(node, wanted)
        if isinstance(found, Computed):
            return found
        if isinstance(found, bool):
            return self.constant(BOOL, found)
        if isinstance(found, NativeFunction):
            return self.typed(found, self.unit.signature(found).kind, node)
        if wanted is not None:
            return self.typed(found, wanted, node)
        written = ast.unparse(node)
        self.fail(node, f"{written}: a constant needs a type; got none; write a type such as u64({written})")

    def typed(self, found: Item, kind: Kind, node: ast.AST) -> Computed:
        """A value as one of this type: a number must fit, and a reference may be to a structure that extends it."""
        if isinstance(found, Computed):
            if found.kind == kind or _is_extension(found.kind, kind):
                return found
            shown = str(found.kind)
        elif isinstance(found, bool):
            if kind == BOOL:
                return self.constant(kind, found)
            shown = "bool"
        elif isinstance(found, int | float):
            shown = str(found)
            if isinstance(kind, FloatKind) and float(found) == found:
                return self.constant(kind, found)
            if isinstance(kind, IntKind) and isinstance(found, int):
                if kind.bounds[0] <= found <= kind.bounds[1]:
                    return self.constant(kind, found)
                low, high = kind.bounds
                self.fail(node, f"{found}: a number must fit {kind}; it is not in {low} … {high}; use a wider type")
        elif isinstance(found, NativeFunction):
            signature = self.unit.signature(found)
            if signature.kind == kind and found.kind != "inline":
                return self.symbol(self.unit.symbol(found), kind)
            shown = f"@inline {found.__name__}" if found.kind == "inline" else str(signature.kind)  # pyright: ignore
        elif isinstance(found, Several):
            shown = f"{len(found.items)} values"
        else:
            if isinstance(kind, PointerKind | FunctionKind):
                return self.add(kind, (), lambda _, __: Val("null", "ptr"))
            shown = "null"
        self.fail(node, f"{_shown(node)}: the type must be {kind}; got {shown}; convert it explicitly")

    # ---- variables

    def assign(self, name: str, value: Computed, node: ast.AST) -> None:
        """Set a local variable, whose type never changes."""
        known = self.frame.kinds.setdefault(name, value.kind)
        if value.kind == VOID:
            self.fail(node, f"{name}: a variable needs a value; got the result of a function without one; remove it")
        if known != value.kind and not _is_extension(value.kind, known):
            self.fail(node, f"{name}: a variable must keep its type {known}; got {value.kind}; use another name")
        self.ssa.write((self.frame, name), value)

    def local(self, name: str, node: ast.AST) -> Computed:
        """The value of a local variable."""
        kind = self.frame.kinds.get(name)
        if kind is None:
            self.fail(node, f"{name}: a variable must be assigned before it is read; got no assignment above")
        try:
            return self.ssa.read((self.frame, name), kind, (self.frame.function, node, name))
        except Uninitialised as fault:
            self._refuse_uninitialised(fault)

    def seal(self, part: BasicBlock) -> None:
        """Note that all blocks before a block are known."""
        try:
            self.ssa.seal(part)
        except Uninitialised as fault:
            self._refuse_uninitialised(fault)

    def _refuse_uninitialised(self, fault: Uninitialised) -> NoReturn:
        reader: Any = fault.reader
        function, node, name = reader
        refuse(
            function,
            node,
            f"{name}: a variable must have a value on every way to its use; got one without; assign it before the "
            "branch or loop",
        )

    def is_local(self, name: str) -> bool:
        """Whether a name is a parameter or a variable of the function."""
        return name in self.frame.assigned or name in self.frame.kinds

    def global_item(self, name: str, node: ast.AST) -> Any:
        """The object that a global name stands for."""
        names, builtins = self.frame.function.names, {"min": min, "max": max, "bool": bool}
        if name in names:
            found = names[name]
            if isinstance(found, int | float) and is_changeable(name, self.frame.function):
                self.fail(node, f"{name}: a constant must be Final; got a global variable; declare it `{name}: Final`")
            return found
        if name in builtins:
            return builtins[name]
        self.fail(node, f"{name}: a name must be defined; got none; import it or correct the spelling")


def _is_extension(kind: Kind, of: Kind) -> bool:
    """Whether a reference of one type is also one of another."""
    if not isinstance(kind, PointerKind) or not isinstance(of, PointerKind):
        return False
    return isinstance(kind.element, StructKind) and kind.element.extends(of.element)


def _shown(node: ast.AST) -> str:
    """A piece of the program for a message."""
    text = ast.unparse(node)
    return text if len(text) < 40 else text[:37] + "…"
