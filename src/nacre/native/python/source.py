"""The source of native functions, and the refusal of a wrong program with its file and line."""

from __future__ import annotations

import ast
import linecache
import os

from nacre.base.errors import CompileError
from nacre.native.python.declarations import NativeFunction


class NativeSyntaxError(CompileError):
    """A program that is not native Python, with its file (a path from the package on, or a name) and line."""

    def __init__(self, file: str, line: int, message: str) -> None:
        parts = file.split(os.sep)
        short = os.sep.join(parts[parts.index("nacre") :]) if "nacre" in parts[:-1] else parts[-1]
        super().__init__(f"{short}:{line}: {message}")
        self.file, self.line = short, line


def definition(function: NativeFunction) -> ast.FunctionDef:
    """The syntax tree of a function, whose first line is 1: only its own lines are read.

    Raises CompileError where the source is not there, for example where only `.pyc` files are installed.
    """
    code = function.code
    try:
        found = ast.parse(_first(_lines(function)[code.co_firstlineno - 1 :])).body[0]
    except (SyntaxError, IndexError):
        found = None
    if not isinstance(found, ast.FunctionDef) or found.name != code.co_name:
        raise CompileError(
            f"{code.co_name}: the source must be the one that was imported; {code.co_filename} has no such "
            f"function at line {code.co_firstlineno}; import the module again"
        )
    return found


def _first(lines: list[str]) -> str:
    """The function that begins with the first line: its decorators, its head and its body, without their margin."""
    margin, body = len(lines[0]) - len(lines[0].lstrip()), False
    for k, line in enumerate(lines):
        start = line.strip() and len(line) - len(line.lstrip()) <= margin and line[margin] != ")"
        if start and body:
            lines = lines[:k]
            break
        body = body or line.startswith("def ", margin)
    return "".join([line[margin:] or "\n" for line in lines])


def is_changeable(name: str, function: NativeFunction) -> bool:
    """Whether a function's module assigns a global name without declaring it Final."""
    if "Final" in str(function.names.get("__annotations__", {}).get(name)):
        return False
    parts = [line.partition("=") for line in _lines(function) if line.lstrip().startswith(name)]
    return any(t.partition(":")[0].strip() == name for t, sign, value in parts if sign and value[:1] != "=")


def _lines(function: NativeFunction) -> list[str]:
    """The lines of a function's file."""
    code = function.code
    linecache.lazycache(code.co_filename, function.names)
    found = linecache.getlines(code.co_filename, function.names)
    if not found:
        raise CompileError(
            f"{code.co_name}: native functions need their source; {code.co_filename} is missing; install the "
            "package with its .py files"
        )
    return found
