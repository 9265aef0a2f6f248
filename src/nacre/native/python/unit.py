"""One native module while it is written: its functions, their signatures, its variables and their initial values."""

from __future__ import annotations

import ast
from functools import cache
from inspect import CO_VARKEYWORDS
from typing import Any, NoReturn

from nacre.base.errors import CompileError
from nacre.native.engine import Target, host_target
from nacre.native.isa import BY_NAME, Architecture
from nacre.native.python.declarations import Initial, NativeFunction, NativeVariable
from nacre.native.python.initial import initial_value
from nacre.native.python.source import NativeSyntaxError, definition
from nacre.native.python.types import VOID, ArrayKind, FunctionKind, Kind, StructKind, TupleKind, kind_named, struct_of
from nacre.native.text import ModuleText


class NativeModule:
    """The native module of some entries."""

    def __init__(self, name: str, entries: list[NativeFunction], target: Target | None = None) -> None:
        self.module, self.entries, self.target = ModuleText(name), entries, target
        self.definition = cache(definition)
        self.queue: list[NativeFunction] = []
        self._owners: dict[str, Any] = {}
        self._texts: dict[bytes, str] = {}
        self._signatures: dict[NativeFunction, FunctionKind] = {}
        self._kinds: dict[tuple[object, int], Kind] = {}  # by an annotation, and the names of its module
        for entry in entries:
            self.symbol(entry)

    def symbol(self, function: NativeFunction) -> str:
        """The symbol of a function, which will be part of the module."""
        public = function in self.entries or function.kind == "external"
        name = function.symbol if public else function.private_symbol
        if self._claim(name, function):
            if function.kind == "external":
                kind = self.signature(function)
                self.module.declare(name, kind.result.llvm, [k.llvm for k in kind.kinds] + ["..."] * function.variadic)
            else:
                self.queue.append(function)
        return name

    def _claim(self, name: str, owner: Any) -> bool:
        """Whether a symbol is new; it must have one owner, but several modules may declare an external function."""
        new = name not in self._owners
        known = self._owners.setdefault(name, owner)
        if known is not owner and not known.kind == owner.kind == "external":
            raise CompileError(f"module: symbols must be unique; got two of {name}; give one of them another name")
        return new

    @property
    def architecture(self) -> Architecture:
        """The processor architecture of the target, which is this machine unless another one was given."""
        return BY_NAME[(self.target or host_target()).isa].machine

    def signature(self, function: NativeFunction) -> FunctionKind:
        """The type of a function, by its annotations."""
        if function in self._signatures:
            return self._signatures[function]
        code = function.code
        plain = not (code.co_posonlyargcount or code.co_kwonlyargcount or function.function.__defaults__)
        if not plain or code.co_flags & CO_VARKEYWORDS or (function.variadic and function.kind != "external"):
            self.refuse(function, f"{code.co_name}: parameters must be plain names with types; write them one by one")
        names, written = code.co_varnames[: code.co_argcount], function.function.__annotations__
        *kinds, result = [self.kind(function, written.get(name, ""), name) for name in (*names, "return")]
        if isinstance(result, TupleKind) and function.kind != "inline":
            self.refuse(function, f"{code.co_name}: several results are for @inline alone; write through a pointer")
        for name, kind in zip(names, kinds):
            if isinstance(kind, ArrayKind | StructKind | TupleKind) or kind is VOID:
                self.refuse(function, f"{name}: a parameter must be a number, bool or pointer; got {kind}; change it")
        made = self._signatures[function] = FunctionKind(tuple(kinds), result)
        return made

    def kind(self, function: NativeFunction, written: object, about: str, node: ast.AST | None = None) -> Kind:
        """The type that an annotation stands for: a text, a part of a syntax tree, or a type."""
        if isinstance(written, ast.expr):
            written = written.id if isinstance(written, ast.Name) else ast.unparse(written)
        if written == "":
            self.refuse(function, f"{about}: a native function must name all types; got none; annotate it")
        key = written, id(function.names)
        try:
            if key not in self._kinds:
                self._kinds[key] = kind_named(written, function.names)
        except CompileError as fault:
            self.refuse(function, f"{about}: {fault}", node)
        except Exception as fault:
            self.refuse(function, f"{about}: the type must exist; got {written} ({fault}); correct it", node)
        return self._kinds[key]

    def refuse(self, function: NativeFunction, message: str, node: ast.AST | None = None) -> NoReturn:
        """Raise the error of a wrong program, at a part of a function or at its head."""
        line = getattr(node or self.definition(function), "lineno", 0)
        raise NativeSyntaxError(function.code.co_filename, function.code.co_firstlineno - 1 + line, message)

    # ---- variables

    def variable(self, declared: NativeVariable) -> str:
        """The symbol of a variable, which will be part of the module."""
        name = declared.find_symbol()
        if self._claim(name, declared):
            kind = struct_of(declared.owner)
            align = declared.align or kind.alignment
            external = declared.kind == "external"
            linkage = "external" if external else "" if declared.symbol else "internal"
            zeros = "" if external else "zeroinitializer"
            self.module.variable(name, f"[{kind.nbytes} x i8]", zeros, align, linkage)
            if declared.initial is not None:
                self.module.variable(name, *initial_value(kind, declared.initial, self._address), align, linkage)
        return name

    def text(self, content: bytes) -> str:
        """The symbol of a constant text."""
        name = self._texts.get(content)
        if name is None:
            name = self._texts[content] = f"text.{len(self._texts)}"
            shown = "".join(chr(b) if 32 <= b < 127 and b not in b'"\\' else f"\\{b:02X}" for b in content)
            self.module.constant(name, f"[{len(content)} x i8]", f'c"{shown}"', 1)
        return name

    def _address(self, value: Initial) -> str:
        """The symbol that an address or a text of an initial value stands for."""
        if value.kind == "text":
            return self.text(value.of)
        return self.variable(value.of) if isinstance(value.of, NativeVariable) else self.symbol(value.of)
