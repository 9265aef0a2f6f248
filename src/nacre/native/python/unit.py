"""One native module while it is written: its functions, their signatures, its variables and their initial values."""

from __future__ import annotations

import ast
from typing import Any, NoReturn

from nacre.base.errors import CompileError
from nacre.base.records import dataclass
from nacre.native.engine import Target, host_target
from nacre.native.isa import BY_NAME, Architecture
from nacre.native.llvm_values import literal
from nacre.native.python.declarations import Initial, NativeFunction, NativeVariable
from nacre.native.python.source import NativeSyntaxError, definition, short
from nacre.native.python.types import (
    ArrayKind,
    FloatKind,
    FunctionKind,
    IntKind,
    Kind,
    StructKind,
    TupleKind,
    alignment,
    kind_of,
    memory_type,
    struct_of,
)
from nacre.native.text import ModuleText


@dataclass(frozen=True)
class Signature:
    """The parameters of a function, its result, and whether further arguments may follow."""

    names: tuple[str, ...]
    kinds: tuple[Kind, ...]
    result: Kind
    variadic: bool

    @property
    def kind(self) -> FunctionKind:
        """The type of a pointer to the function."""
        return FunctionKind(self.kinds, self.result)


def refuse(function: NativeFunction, node: ast.AST, message: str) -> NoReturn:
    """Raise the error of a wrong program."""
    raise NativeSyntaxError(short(function.function.__code__.co_filename), getattr(node, "lineno", 0), message)


class NativeModule:
    """The native module of some entries."""

    def __init__(self, name: str, entries: list[NativeFunction], target: Target | None = None) -> None:
        self.module, self.target = ModuleText(name), target
        self.entries = entries
        self.queue: list[NativeFunction] = []
        self._owners: dict[str, Any] = {}
        self._made: set[str] = set()
        self._texts: dict[bytes, str] = {}
        self._signatures: dict[NativeFunction, Signature] = {}
        for entry in entries:
            self.symbol(entry)

    def symbol(self, function: NativeFunction) -> str:
        """The symbol of a function, which will be part of the module."""
        public = function in self.entries or function.kind == "external" or "visible" in function.attributes
        name = function.symbol if public else function.private_symbol
        if self._claim(name, function):
            if function.kind == "external":
                found = self.signature(function)
                further = ["..."] if found.variadic else []
                self.module.declare(name, found.result.llvm, [k.llvm for k in found.kinds] + further)
            else:
                self.queue.append(function)
        return name

    def _claim(self, name: str, owner: Any) -> bool:
        """Whether a symbol is new; it must have one owner, but several modules may declare an external function."""
        known = self._owners.setdefault(name, owner)
        external = getattr(known, "kind", "") == "external" == getattr(owner, "kind", "")
        if known is not owner and not external:
            raise CompileError(f"module: symbols must be unique; got two of {name}; give one of them another name")
        new = name not in self._made
        self._made.add(name)
        return new

    @property
    def architecture(self) -> Architecture:
        """The processor architecture of the target, which is this machine unless another one was given."""
        return BY_NAME[(self.target or host_target()).isa].machine

    def signature(self, function: NativeFunction) -> Signature:
        """The signature of a function by its annotations."""
        found = self._signatures.get(function)
        if found is None:
            found = self._signatures[function] = _signature(function)
        return found

    # ---- variables

    def variable(self, declared: NativeVariable) -> str:
        """The symbol of a variable, which will be part of the module."""
        name = declared.find_symbol()
        if self._claim(name, declared):
            kind = struct_of(declared.owner)
            align = declared.align or alignment(kind)
            zeros = f"[{kind.nbytes} x i8]"
            if declared.kind == "external":
                self.module.variable(name, zeros, "", align, "external")
                return name
            linkage = f"{'' if declared.symbol else 'internal'} {declared.kind}".strip()
            self.module.variable(name, zeros, "zeroinitializer", align, linkage)
            if declared.initial is not None:
                self.module.variable(name, *self._initial(kind, declared.initial), align, linkage)
        return name

    def text(self, content: bytes) -> str:
        """The symbol of a constant text."""
        name = self._texts.get(content)
        if name is None:
            name = self._texts[content] = f"text.{len(self._texts)}"
            shown = "".join(chr(b) if 32 <= b < 127 and b not in b'"\\' else f"\\{b:02X}" for b in content)
            self.module.constant(name, f"[{len(content)} x i8]", f'c"{shown}"', 1)
        return name

    def _initial(self, kind: Kind, value: Any) -> tuple[str, str]:
        """LLVM's type and text of an initial value in memory."""
        if isinstance(kind, StructKind):
            given: dict[str, Any] = {} if value is None else value.__dict__
            parts, end = list[tuple[str, str]](), 0
            for name, field in kind.fields.items():
                parts += _padding(field.offset - end)
                parts.append(self._initial(field.kind, given.get(name)))
                end = field.offset + field.kind.nbytes
            return _together([*parts, *_padding(kind.nbytes - end)])
        if isinstance(kind, ArrayKind):
            elements = list(value.of if isinstance(value, Initial) else [])
            return _together([self._initial(kind.element, v) for v in elements + [None] * (kind.count - len(elements))])
        if isinstance(value, Initial):
            symbol = self.text(value.of) if value.kind == "text" else self._address(value.of)
            return "ptr", f"@{symbol}"
        ty = memory_type(kind)
        if isinstance(kind, IntKind | FloatKind):
            return ty, literal(ty, value or 0)
        return ty, "null" if ty == "ptr" else str(int(bool(value)))

    def _address(self, of: Any) -> str:
        return self.variable(of) if isinstance(of, NativeVariable) else self.symbol(of)


def _padding(count: int) -> list[tuple[str, str]]:
    return [(f"[{count} x i8]", "zeroinitializer")] if count else []


def _together(parts: list[tuple[str, str]]) -> tuple[str, str]:
    """A packed structure of typed constants."""
    return f"<{{ {', '.join(ty for ty, _ in parts)} }}>", f"<{{ {', '.join(f'{ty} {x}' for ty, x in parts)} }}>"


def _signature(function: NativeFunction) -> Signature:
    node = definition(function)
    a = node.args
    if a.posonlyargs or a.kwonlyargs or a.kwarg or a.defaults or (a.vararg and function.kind != "external"):
        refuse(function, node, f"{node.name}: parameters must be plain names with types; write them one by one")
    kinds = tuple(annotation(function, arg.annotation, arg, arg.arg) for arg in a.args)
    result = annotation(function, node.returns, node, "return")
    if isinstance(result, TupleKind) and function.kind != "inline":
        refuse(function, node, f"{node.name}: several results are for @inline alone; write them through a pointer")
    for name, kind in zip([arg.arg for arg in a.args], kinds):
        if isinstance(kind, ArrayKind | StructKind | TupleKind) or kind.llvm == "void":
            refuse(
                function, node, f"{name}: a parameter must be a number, bool or pointer; got {kind}; pass a reference"
            )
    return Signature(tuple(arg.arg for arg in a.args), kinds, result, a.vararg is not None)


def annotation(function: NativeFunction, written: ast.expr | None, node: ast.AST, name: str) -> Kind:
    """The type that an annotation names."""
    if written is None:
        refuse(function, node, f"{name}: a native function must name all types; got none; annotate it")
    try:
        return evaluated_kind(function, written)
    except CompileError as fault:
        refuse(function, written, f"{name}: {fault}")
    except Exception as fault:
        refuse(function, written, f"{name}: the type must exist; got {ast.unparse(written)} ({fault}); correct it")


def evaluated_kind(function: NativeFunction, written: ast.expr) -> Kind:
    """The type of an expression that names one."""
    if isinstance(written, ast.Constant) and isinstance(written.value, str):
        written = ast.parse(written.value, mode="eval").body
    return kind_of(eval(compile(ast.Expression(written), "type", "eval"), function.names))
