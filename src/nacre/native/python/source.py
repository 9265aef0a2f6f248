"""The syntax trees of native functions, and the error of a wrong program with its file and line."""

from __future__ import annotations

import ast
import linecache
import os
from functools import cache
from types import CodeType
from typing import Any

from nacre.base.errors import CompileError
from nacre.native.python.declarations import NativeFunction


class NativeSyntaxError(CompileError):
    """A program that is not native Python, with its file and line."""

    def __init__(self, file: str, line: int, message: str) -> None:
        super().__init__(f"{file}:{line}: {message}")
        self.file, self.line = file, line


def definition(function: NativeFunction) -> ast.FunctionDef:
    """The syntax tree of a function.

    Raises CompileError where the source is not there, for example where only `.pyc` files are installed.
    """
    code = function.function.__code__
    found = _definitions(code.co_filename, _text(code, function.names)).get(code.co_firstlineno)
    if found is None or found.name != code.co_name:
        raise CompileError(
            f"{code.co_name}: the source must be the one that was imported; {code.co_filename} has no such function at "
            f"line {code.co_firstlineno}; import the module again"
        )
    return found


def _text(code: CodeType, names: dict[str, Any]) -> str:
    linecache.lazycache(code.co_filename, names)
    text = "".join(linecache.getlines(code.co_filename, names))
    if not text:
        raise CompileError(
            f"{code.co_name}: native functions need their source; {code.co_filename} is missing; install the package "
            "with its .py files"
        )
    return text


@cache
def _definitions(file: str, text: str) -> dict[int, ast.FunctionDef]:
    """The functions of a file by the line of their first decorator."""
    nodes = (n for n in ast.walk(ast.parse(text, file)) if isinstance(n, ast.FunctionDef))
    return {min(d.lineno for d in [n, *n.decorator_list]): n for n in nodes}


@cache
def _constants(file: str, text: str) -> tuple[frozenset[str], frozenset[str]]:
    """The names that a file assigns at its top, and those of them that it declares Final."""
    assigned, final = set[str](), set[str]()
    for node in ast.parse(text, file).body:
        if isinstance(node, ast.Assign):
            assigned |= {t.id for t in node.targets if isinstance(t, ast.Name)}
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            assigned.add(node.target.id)
            if "Final" in ast.unparse(node.annotation):
                final.add(node.target.id)
    return frozenset(assigned), frozenset(final)


def is_changeable(name: str, function: NativeFunction) -> bool:
    """Whether a function's module assigns a global name without declaring it Final."""
    code = function.function.__code__
    assigned, final = _constants(code.co_filename, _text(code, function.names))
    return name in assigned - final


def short(file: str) -> str:
    """A file's path from the package on, or its name."""
    parts = file.split(os.sep)
    return os.sep.join(parts[parts.index("nacre") :]) if "nacre" in parts[:-1] else parts[-1]
