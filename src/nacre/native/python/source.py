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


class Sources:
    """The functions and constants of files, each of which is read once.

    Raises CompileError where a source is not there, for example where only `.pyc` files are installed.
    """

    def __init__(self) -> None:
        self._files: dict[str, tuple[dict[int, ast.FunctionDef], set[str]]] = {}

    def definition(self, function: NativeFunction) -> ast.FunctionDef:
        """The syntax tree of a function."""
        code = function.code
        found = self._contents(function)[0].get(code.co_firstlineno)
        if found is None or found.name != code.co_name:
            raise CompileError(
                f"{code.co_name}: the source must be the one that was imported; {code.co_filename} has no such "
                f"function at line {code.co_firstlineno}; import the module again"
            )
        return found

    def is_changeable(self, name: str, function: NativeFunction) -> bool:
        """Whether a function's module assigns a global name without declaring it Final."""
        return name in self._contents(function)[1]

    def _contents(self, function: NativeFunction) -> tuple[dict[int, ast.FunctionDef], set[str]]:
        code = function.code
        found = self._files.get(code.co_filename)
        if found is None:
            linecache.lazycache(code.co_filename, function.names)
            text = "".join(linecache.getlines(code.co_filename, function.names))
            if not text:
                raise CompileError(
                    f"{code.co_name}: native functions need their source; {code.co_filename} is missing; install the "
                    "package with its .py files"
                )
            found = self._files[code.co_filename] = _read(ast.parse(text))
        return found


def _read(tree: ast.Module) -> tuple[dict[int, ast.FunctionDef], set[str]]:
    """The functions of a file by the line of their first decorator, and the names that it assigns without `Final`."""
    functions, changeable, waiting = dict[int, ast.FunctionDef](), set[str](), list(tree.body)
    for node in waiting:
        if isinstance(node, ast.FunctionDef):
            functions[min(d.lineno for d in [node, *node.decorator_list])] = node
        elif isinstance(node, ast.If):
            waiting += [*node.body, *node.orelse]
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            written = node.annotation if isinstance(node, ast.AnnAssign) else None
            name = written.value if isinstance(written, ast.Subscript) else written
            if not isinstance(name, ast.Name) or name.id != "Final":
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                changeable |= {t.id for t in targets if isinstance(t, ast.Name)}
    return functions, changeable
