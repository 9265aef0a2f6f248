"""The body of a native function: its instructions, local variables and constants, and the refusal of wrong programs."""

from __future__ import annotations

import ast
import math
from collections.abc import Sequence
from types import ModuleType
from typing import Any, Final, NoReturn, TypeAlias

from nacre.base.errors import CompileError
from nacre.native.llvm_values import Val, literal
from nacre.native.python.declarations import NativeFunction, Null
from nacre.native.python.source import NativeSyntaxError, is_changeable
from nacre.native.python.ssa import BasicBlock, Computed, Construction, Uninitialised
from nacre.native.python.types import BOOL, VOID, FloatKind, IntKind, Kind, TupleKind
from nacre.native.python.unit import NativeModule

# A value; a number has no type yet.  A tuple is the results of an inlined function that has several.
Item: TypeAlias = Computed | int | float | tuple[Computed, ...] | NativeFunction | Null
Ways: TypeAlias = "tuple[BasicBlock, BasicBlock]"  # where control goes for True and for False
BUILTINS: Final = {"min": min, "max": max}
ENDS: Final = (ast.Return, ast.Break, ast.Continue)


class FunctionScope:
    """A function that is being read: the compiled one, or one that is expanded in it."""

    def __init__(self, unit: NativeModule, function: NativeFunction, outer: FunctionScope | None = None) -> None:
        self.function, self.node, self.signature = function, unit.definition(function), unit.signature(function)
        result = self.result = self.signature.result
        self.results: tuple[Kind, ...]  # none, one or several
        self.results = result.items if isinstance(result, TupleKind) else () if result is VOID else (result,)
        self.around: tuple[FunctionScope, ...] = () if outer is None else (outer, *outer.around)
        self.kinds: dict[str, Kind] = {}  # of the local variables
        self.locals = frozenset(function.code.co_varnames)
        self.loops: list[tuple[BasicBlock, BasicBlock]] = []  # where `continue` and `break` lead
        self.exit: BasicBlock | None = None  # where `return` leads in an expanded function
        self.ways: Ways | None = None  # where it leads in a condition


class Body:
    """What all parts of the translation share: a method `of_X` or `do_X` is for the syntax tree's node `X`."""

    def __init__(self, unit: NativeModule, frame: FunctionScope) -> None:
        self.unit, self.frame, self.ssa = unit, frame, Construction()

    def fail(self, node: ast.AST, message: str, about: str = "") -> NoReturn:
        """Refuse the program at a node; the message begins with its subject, by default the node."""
        self.unit.refuse(self.frame.function, f"{about or shown(node)}: {message}", node)

    def count(self, node: ast.Call, least: int, most: float) -> None:
        """Refuse a call with another number of arguments, with keywords or with stars."""
        if node.keywords or any(type(a) is ast.Starred for a in node.args):
            self.fail(node, "arguments must be in order; got a name or a star; write each", shown(node.func))
        if not least <= len(node.args) <= most:
            needed = f"{least}{'' if most == least else ' or more' if most == math.inf else f' to {most}'}"
            got = f"{needed} arguments are needed; got {len(node.args)}; correct the call"
            self.fail(node, got, shown(node.func))

    def block(self, nodes: Sequence[ast.stmt]) -> None:
        """Statements in order; those that control never reaches because of a constant are left out."""
        function = self.frame.function
        for before, node in zip([None, *nodes], nodes):
            name = type(node).__name__
            if isinstance(before, ENDS):
                self.fail(node, "control must reach every statement; got one behind a return or break; remove it", name)
            method: Any = getattr(self, f"do_{name}", None)
            if method is None:
                self.fail(node, "a statement must be native Python; got another one; see docs/native_python.md", name)
            try:
                if self.ssa.here is not None:
                    method(node)
            except NativeSyntaxError:
                raise
            except CompileError as fault:  # of a structure or variable that it uses
                self.unit.refuse(function, str(fault), node)
            except Uninitialised as fault:
                reader: Any = fault.reader
                needed = "a variable must have a value on every way to its use"
                message = f"{reader[2]}: {needed}; got one without; assign it before the branch or loop"
                self.unit.refuse(reader[0], message, reader[1])

    def item(self, node: ast.expr, wanted: Kind | None = None) -> Item:
        """The value of an expression; a number without a type stays a Python number."""
        if type(node) is ast.Name and node.id in self.frame.kinds:
            return self.local(node.id, node)
        name = type(node).__name__
        method: Any = getattr(self, f"of_{name}", None)
        if method is None:
            self.fail(node, f"an expression must be native Python; got {name}; see docs/native_python.md")
        return method(node, wanted)

    # ---- instructions

    def op(self, kind: Kind, text: str, *operands: Computed, stem: str = "v") -> Computed:
        """Add an instruction; `{0}` in its text is the first operand with its type, and `{0.text}` without."""
        return self.ssa.add(kind, operands, text, stem)

    def call(self, result: Kind, function: str | Computed, *arguments: Computed) -> Computed:
        """Call a function by its name or by a pointer."""
        pointer = self.known(result, function) if isinstance(function, str) else function
        callee = "{0}" if isinstance(function, str) else f"{result.llvm} {{0.text}}"
        given = ", ".join([f"{{{k}}}" for k in range(1, len(arguments) + 1)])
        return self.op(result, f"call {callee}({given})", pointer, *arguments, stem="r")

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
        if isinstance(found, Computed) and found.kind is kind:
            return found
        if isinstance(found, bool):
            found = self.constant(BOOL, found)
        elif isinstance(kind, IntKind | FloatKind) and isinstance(found, kind.constants):
            low, high = kind.bounds
            if not low <= found <= high and found - found == 0:  # infinities and NaN are floats, too
                self.fail(node, f"a number must fit {kind}; it is not in {low} … {high}; use a wider type", str(found))
            return self.constant(kind, found)
        elif isinstance(found, NativeFunction) and found.kind != "inline":
            found = self.known(self.unit.signature(found), f"@{self.unit.symbol(found)}")
        elif isinstance(found, Null) and kind.llvm == "ptr":
            return self.known(kind, "null")
        if isinstance(found, Computed) and (found.kind == kind or _is_extension(found.kind, kind)):
            return found
        got = found.kind if isinstance(found, Computed) else found
        if isinstance(found, tuple):
            got = f"{len(found)} values"
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

    def global_item(self, node: ast.expr) -> Any:
        """The object that a global name, or one of another module, stands for; None for other expressions."""
        function, found = self.frame.function, None
        if type(node) is ast.Name:
            if node.id in self.frame.locals:
                return None
            found = function.names.get(node.id, BUILTINS.get(node.id))
            if found is None:
                self.fail(node, "a name must be defined; got none; import it or correct the spelling")
            if isinstance(found, int | float) and is_changeable(node.id, function):
                self.fail(node, f"a constant must be Final; got a global variable; declare it `{node.id}: Final`")
        elif type(node) is ast.Attribute and type(node.value) is ast.Name:
            owner = self.global_item(node.value)
            if isinstance(owner, ModuleType):
                found = getattr(owner, node.attr, None)
                if found is None:
                    self.fail(node, "a name must be defined; got none; correct the spelling")
        return found


def _is_extension(kind: Kind, of: Kind) -> bool:
    """Whether a reference of one type is also one of another."""
    return kind.structure is not None and of.structure is not None and kind.structure.extends(of.structure)


def shown(node: ast.AST) -> str:
    """A piece of the program for a message."""
    text = ast.unparse(node)
    return text if len(text) < 40 else text[:37] + "…"
