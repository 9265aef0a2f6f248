"""The LLVM text of entries in native Python, and of all functions that they need.

text = module([take, give])                   # the front end runs now
text = cached_module("nacre.runtime.heap_functions", ("take", "give"), target)    # only if no cache has the text
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from nacre.base.errors import CompileError
from nacre.base.gc_pause import gc_paused
from nacre.native.engine import Target
from nacre.native.python.declarations import NativeFunction
from nacre.native.python.statements import compile_function
from nacre.native.python.unit import NativeModule


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
