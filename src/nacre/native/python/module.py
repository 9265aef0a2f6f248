"""The LLVM text of entries in native Python, and of all functions that they need.

text = module([take, give])                   # the front end runs now
text = cached_module("nacre.runtime.heap_functions", ("take", "give"), target)    # only if no cache has the text
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Any

from nacre.base.errors import CompileError
from nacre.native.engine import Target
from nacre.native.python.declarations import NativeFunction
from nacre.native.python.statements import compile_function
from nacre.native.python.unit import NativeModule


def module(entries: Sequence[Callable[..., Any]], name: str = "native", target: Target | None = None) -> str:
    """The LLVM text of functions, and of the functions and variables that they need, for a target or this machine.

    Raises CompileError, with the file and line, for a program that is not native Python.
    """
    found = [e for e in entries if isinstance(e, NativeFunction) and e.kind == "native"]
    if len(found) != len(entries):
        wrong = next(e for e in entries if e not in found)
        raise CompileError(f"module: entries must be functions with @native; got {wrong!r}; decorate it")
    unit = NativeModule(name, found, target)
    for function in unit.queue:  # which grows meanwhile
        compile_function(unit, function)
    return unit.module.text()


def sources_of(name: str, source: Callable[[str], bytes | None], known: Sequence[str]) -> list[str]:
    """A module of this package and those that it imports, directly or not; constants may be from any of them.

    Those in `known`, and their imports, are left out.
    """
    found, waiting = list[str](), [name]
    while waiting:
        here = waiting.pop()
        text = source(here) if here not in known and here not in found else None
        if text is not None:
            found.append(here)
            nodes = (n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.ImportFrom))
            for node in nodes:
                if node.module and node.module.split(".")[0] == name.split(".")[0]:
                    waiting += [node.module, *(f"{node.module}.{a.name}" for a in node.names)]
    return found
