"""Native functions as Python calls them: compiled, with arguments and results as their annotations say."""

from __future__ import annotations

import ctypes
import importlib.util
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from nacre.native import engine
from nacre.native.python.module import module
from nacre.native.python.types import BOOL, VOID, FloatKind, IntKind, Kind
from nacre.native.python.unit import NativeModule


def ctype(kind: Kind) -> Any:
    """The type of ctypes; pointers are addresses."""
    if isinstance(kind, IntKind):
        return getattr(ctypes, f"c_{'int' if kind.signed else 'uint'}{kind.bits}")
    if isinstance(kind, FloatKind):
        return ctypes.c_float if kind.bits == 32 else ctypes.c_double
    return ctypes.c_bool if kind == BOOL else None if kind == VOID else ctypes.c_void_p


def compiled(*functions: Callable[..., Any]) -> list[Callable[..., Any]]:
    """Each function, compiled; all of them are in one library."""
    natives: list[Any] = list(functions)
    target = engine.host_target()
    library = engine.load(engine.compile_text(module(functions), target)).keep()
    made: list[Callable[..., Any]] = []
    for f in natives:
        signature = NativeModule("signatures", []).signature(f)
        kind = ctypes.CFUNCTYPE(ctype(signature.result), *map(ctype, signature.kinds))
        made.append(kind(library.address(f.symbol)))
    return made


HEAD = """\
from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Final

from nacre.native.python.declarations import *
from nacre.native.python.intrinsics import *
from nacre.native.python.types import *
"""


def module_of(path: Path, text: str) -> ModuleType:
    """A Python module of a text, which follows the usual imports."""
    path.write_text(HEAD + text, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made
