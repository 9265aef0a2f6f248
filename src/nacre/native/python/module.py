"""The LLVM text of entries in native Python, and of all functions that they need.

text = module([take, give])                   # the front end runs now
text = cached_module("nacre.runtime.heap_functions", ("take", "give"), target)    # only if no cache has the text
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from typing import Any, Final

from nacre.base.errors import CompileError
from nacre.base.gc_pause import gc_paused
from nacre.native.engine import Target
from nacre.native.python.declarations import NativeFunction
from nacre.native.python.statements import compile_function
from nacre.native.python.unit import NativeModule

IMPORT: Final = re.compile(r"^ *from ([\w.]+) import (\([^)]*\)|.*)", re.MULTILINE)


@gc_paused()
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


def imports(text: str) -> list[str]:
    """The names that a source imports from this package; some are of modules, and some of their contents."""
    package = __name__.split(".")[0]
    found = [(owner, names) for owner, names in IMPORT.findall(text) if owner.split(".")[0] == package]
    return [each for owner, names in found for each in (owner, *(f"{owner}.{n}" for n in re.findall(r"\w+", names)))]


def sources_of(name: str, imported: Callable[[str], Sequence[str] | None], known: Collection[str]) -> list[str]:
    """A module of this package and those that it imports, directly or not; constants may be from any of them.

    `imported` has the names that a module imports, or None where there is no such module.  The modules in `known`, and
    their imports, are left out.
    """
    found, waiting = dict[str, None](), [name]
    while waiting:
        here = waiting.pop()
        names = imported(here) if here not in known and here not in found else None
        if names is not None:
            found[here] = None
            waiting += names
    return list(found)
