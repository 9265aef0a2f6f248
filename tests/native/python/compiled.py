"""Native functions as Python calls them: compiled, with arguments and results as their annotations say."""

from __future__ import annotations

import ctypes
import importlib.util
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from nacre.native import engine
from nacre.native.python.module import module
from nacre.native.python.types import BOOL, VOID, ArrayKind, FloatKind, IntKind, Kind, StructKind, struct_of
from nacre.native.python.unit import NativeModule


def ctype(kind: Kind) -> Any:
    """The type of ctypes; pointers are addresses."""
    if isinstance(kind, IntKind):
        return getattr(ctypes, f"c_{'int' if kind.signed else 'uint'}{kind.bits}")
    if isinstance(kind, FloatKind):
        return ctypes.c_float if kind.bits == 32 else ctypes.c_double
    return ctypes.c_bool if kind == BOOL else None if kind == VOID else ctypes.c_void_p


def structure(owner: type[Any]) -> type[ctypes.Structure]:
    """The ctypes structure of a native one, with the same layout; references are addresses."""
    return _structure(struct_of(owner))


@cache
def _structure(kind: StructKind) -> type[ctypes.Structure]:
    fields = [(name, _in_memory(field.kind)) for name, field in kind.fields.items()]
    made: Any = type(str(kind), (ctypes.Structure,), {"_fields_": fields})
    assert ctypes.sizeof(made) == kind.nbytes
    assert all(getattr(made, name).offset == field.offset for name, field in kind.fields.items())
    return made


def _in_memory(kind: Kind) -> Any:
    if isinstance(kind, StructKind):
        return _structure(kind)
    return _in_memory(kind.element) * kind.count if isinstance(kind, ArrayKind) else ctype(kind)


def compiled(*functions: Callable[..., Any]) -> list[Callable[..., Any]]:
    """Each function, compiled; all of them are in one library."""
    library = engine.load(engine.compile_text(module(functions), engine.host_target())).keep()
    return [callable_of(library, f) for f in functions]


def callable_of(library: engine.Library, function: Any) -> Callable[..., Any]:
    """A native function of a library, as Python calls it."""
    signature = NativeModule("signatures", []).signature(function)
    kind = ctypes.CFUNCTYPE(ctype(signature.result), *map(ctype, signature.kinds))
    return kind(library.address(function.symbol))


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
