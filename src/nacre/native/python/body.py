"""The body of a native function: its instructions, local variables and constants, and the refusal of wrong programs."""

from __future__ import annotations

import ast
from typing import Any, NoReturn, TypeAlias

from nacre.native.llvm_values import Val, literal
from nacre.native.python.declarations import NativeFunction, Null
from nacre.native.python.ssa import BasicBlock, Computed, Construction
from nacre.native.python.types import BOOL, VOID, FloatKind, IntKind, Kind, PointerKind, StructKind
from nacre.native.python.unit import NativeModule

# A value; a number has no type yet.  A tuple is the results of an inlined function that has several.
Item: TypeAlias = Computed | int | float | tuple[Computed, ...] | NativeFunction | Null
BUILTINS = {"min": min, "max": max, "bool": bool}


class FunctionScope:
    """A function that is being read: the compiled one, or one that is expanded in it."""

    def __init__(
        self, function: NativeFunction, node: ast.FunctionDef, result: Kind, outer: FunctionScope | None
    ) -> None:
        self.function, self.node, self.result, self.outer = function, node, result, outer
        self.kinds: dict[str, Kind] = {}  # of the local variables
        self.locals = frozenset(function.code.co_varnames)
        self.loops: list[tuple[BasicBlock, BasicBlock]] = []  # where `continue` and `break` lead
        self.exit: BasicBlock | None = None  # where `return` leads in an expanded function
        self.ways: tuple[BasicBlock, BasicBlock] | None = None  # where it leads for True and False in a condition


class Body:
    """What all parts of the translation of a function share."""

    def __init__(self, unit: NativeModule, frame: FunctionScope) -> None:
        self.unit, self.frame, self.ssa = unit, frame, Construction()

    def item(self, node: ast.expr, wanted: Kind | None = None) -> Item:
        """The value of an expression; a number without a type stays a Python number."""
        raise NotImplementedError

    def fail(self, node: ast.AST, message: str, about: str = "") -> NoReturn:
        """Refuse the program at a node; the message begins with its subject, by default the node."""
        self.unit.refuse(self.frame.function, f"{about or shown(node)}: {message}", node)

    def in_order(self, node: ast.Call) -> None:
        """Refuse a call with keywords or stars."""
        if node.keywords or any(type(a) is ast.Starred for a in node.args):
            self.fail(node, "arguments must be in order; got a name or a star; write each", shown(node.func))

    # ---- instructions

    def op(self, kind: Kind, text: str, *operands: Computed, stem: str = "v") -> Computed:
        """Add an instruction; `{0}` in its text is the first operand with its type, and `{0.text}` without."""
        return self.ssa.add(kind, operands, text, stem)

    def call(self, result: Kind, function: str | Computed, *arguments: Computed) -> Computed:
        """Call a function by its name or by a pointer."""
        operands = arguments if isinstance(function, str) else (function, *arguments)
        name = _plain(function) if isinstance(function, str) else "{0.text}"
        given = ", ".join(f"{{{k}}}" for k in range(len(operands) - len(arguments), len(operands)))
        return self.op(result, f"call {_plain(result.llvm)} {name}({given})", *operands, stem="r")

    def intrinsic(self, result: Kind, name: str, *arguments: Computed) -> Computed:
        """Call a function that LLVM knows."""
        self.unit.module.declare(f"llvm.{name}", result.llvm, [x.kind.llvm for x in arguments])
        return self.call(result, f"@llvm.{name}", *arguments)

    def known(self, kind: Kind, text: str) -> Computed:
        """A value that needs no instruction."""
        made = Computed(kind)
        made.written = Val(text, kind.llvm)
        return made

    def constant(self, kind: Kind, value: float) -> Computed:
        """A constant of a type."""
        return self.known(kind, literal(kind.llvm, value))

    # ---- values

    def value(self, node: ast.expr, wanted: Kind) -> Computed:
        """The value of an expression, which must have this type."""
        return self.typed(self.item(node, wanted), wanted, node)

    def any_value(self, node: ast.expr, wanted: Kind | None = None) -> Computed:
        """The value of an expression, whose own type must be known."""
        return self.own_value(self.item(node, wanted), node, wanted)

    def own_value(self, found: Item, node: ast.expr, wanted: Kind | None = None) -> Computed:
        """An item as a value of its own type, or of the wanted one if it has none."""
        if isinstance(found, Computed):
            return found
        if isinstance(found, bool | NativeFunction):
            wanted = BOOL if isinstance(found, bool) else self.unit.signature(found)
        if wanted is None:
            self.fail(node, f"a constant needs a type; got none; write a type such as u64({shown(node)})")
        return self.typed(found, wanted, node)

    def typed(self, found: Item, kind: Kind, node: ast.AST) -> Computed:
        """A value as one of this type: a number must fit, and a reference may be to a structure that extends it."""
        got: object = found
        if isinstance(found, Computed):
            if found.kind == kind or _is_extension(found.kind, kind):
                return found
            got = found.kind
        elif isinstance(found, bool):
            if kind is BOOL:
                return self.constant(kind, found)
            got = "bool"
        elif isinstance(found, int | float):
            if isinstance(kind, FloatKind) and float(found) == found:
                return self.constant(kind, found)
            if isinstance(kind, IntKind) and isinstance(found, int):
                low, high = kind.bounds
                if low <= found <= high:
                    return self.constant(kind, found)
                self.fail(node, f"a number must fit {kind}; it is not in {low} … {high}; use a wider type", str(found))
        elif isinstance(found, NativeFunction):
            got = self.unit.signature(found) if found.kind != "inline" else f"@inline {found.symbol}"
            if got == kind:
                return self.known(kind, f"@{self.unit.symbol(found)}")
        elif isinstance(found, tuple):
            got = f"{len(found)} values"
        elif kind.llvm == "ptr":
            return self.known(kind, "null")
        self.fail(node, f"the type must be {kind}; got {got}; convert it explicitly")

    # ---- names

    def declare(self, name: str, kind: Kind, node: ast.AST) -> None:
        """Note the type of a local variable, which never changes."""
        if kind is VOID:
            self.fail(node, "a variable needs a value; got the result of a function without one; remove it", name)
        known = self.frame.kinds.setdefault(name, kind)
        if known != kind and not _is_extension(kind, known):
            self.fail(node, f"a variable must keep its type {known}; got {kind}; use another name", name)

    def assign(self, name: str, value: Computed, node: ast.AST) -> None:
        """Set a local variable."""
        self.declare(name, value.kind, node)
        self.ssa.write((self.frame, name), value)

    def local(self, name: str, node: ast.AST) -> Computed:
        """The value of a local variable."""
        kind = self.frame.kinds.get(name)
        if kind is None:
            self.fail(node, "a variable must be assigned before it is read; got no assignment above", name)
        return self.ssa.read((self.frame, name), kind, (self.frame.function, node, name))

    def global_item(self, name: str, node: ast.AST) -> Any:
        """The object that a global name stands for."""
        function = self.frame.function
        if name not in function.names and name not in BUILTINS:
            self.fail(node, "a name must be defined; got none; import it or correct the spelling", name)
        found = function.names.get(name, BUILTINS.get(name))
        if isinstance(found, int | float) and self.unit.sources.is_changeable(name, function):
            self.fail(node, f"a constant must be Final; got a global variable; declare it `{name}: Final`", name)
        return found


def _is_extension(kind: Kind, of: Kind) -> bool:
    """Whether a reference of one type is also one of another."""
    if not isinstance(kind, PointerKind) or not isinstance(of, PointerKind):
        return False
    return isinstance(kind.element, StructKind) and kind.element.extends(of.element)


def _plain(text: str) -> str:
    """A text whose braces stand for themselves in an instruction."""
    return text.replace("{", "{{").replace("}", "}}")


def shown(node: ast.AST) -> str:
    """A piece of the program for a message."""
    text = ast.unparse(node)
    return text if len(text) < 40 else text[:37] + "…"
