"""Programs stored between processes: a graph's executable, loaded without the compiler.

The first process that compiles a graph stores the plan and the names of its kernels' objects.  The next process reads
both, without importing the compiler or writing LLVM text.  A program's name is a hash of all that determines it: the
graph's text, the operands' layouts, the numerics mode, the target, and the package's files.  It includes the versions
of extensions from outside the package.  Programs that use an extension without a version are not stored, because the
extension may change.  Programs with host calls are not stored, because their functions exist only in this process.
Files that cannot be read completely are ignored.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import fields, is_dataclass
from functools import cache, partial
from itertools import count
from typing import Any, cast

import numpy as np

import nacre
from nacre.base.dtypes import DType, dtype_named
from nacre.base.errors import GraphError
from nacre.base.gc_pause import gc_paused
from nacre.base.state import STATE
from nacre.base.types import TensorType
from nacre.compile.extensions import generation, versions
from nacre.compile.program.settings import is_verified
from nacre.ir.graph import Graph, Literal
from nacre.ir.text import print_graph
from nacre.native import cache as objects
from nacre.native.engine import Target, host_target
from nacre.runtime.executable import Code, Executable, Unit

LARGEST = 1 << 20  # bytes of constants up to which a program is stored
MARK = ""  # the key that marks an object of this package in JSON

Layouts = Sequence[tuple[int, ...]]
_made = count()  # a number for each program that this process uses, read or compiled


def programs_made() -> int:
    """How many programs this process has used so far; the call itself counts as none."""
    return int(_made.__reduce__()[1][0])


def program(graph: Graph, layouts: Layouts | None = None, made_ahead: Executable | None = None) -> Executable:
    """The executable of a graph for this machine, counted by `programs_made`; perhaps one that was made ahead.

    `layouts` are the inputs' strides where they are not dense.
    """
    next(_made)
    return made_ahead or made(graph, layouts)


@gc_paused()
def made(graph: Graph, layouts: Layouts | None = None) -> Executable:
    """The executable of a graph: read from disk, else compiled, and stored there for the next process."""
    target, disk = host_target(), _disk()
    name, before = _name(graph, layouts, target) if disk.directory is not None else None, generation()
    found = None if name is None else _read(disk, name, target)
    if found is None:
        from nacre.compile.pipeline import compile_graph  # noqa: PLC0415 - only now: a warm start does without it

        found = compile_graph(graph, layouts, begin=partial(objects.begin, target=target)).executable
        small = sum(c.nbytes for c in found.constants) <= LARGEST
        if name is not None and small and before == generation():  # nothing was registered meanwhile
            disk.write(name, _encode(found))
    return found


@cache
def _disk() -> objects.DiskCache:
    """The folder of programs: beside the objects, with a bound of their own."""
    directory = objects.shared().disk.directory
    return objects.DiskCache(directory and os.path.join(directory, "programs"), objects.default_size() // 8)


def _name(graph: Graph, layouts: Layouts | None, target: Target) -> bytes | None:
    """The name of a program; None for one that is not stored."""
    if graph.needs_python:
        return None
    constants = {id(x): x.array.nbytes for e in graph.equations for x in e.inputs if isinstance(x, Literal)}
    if sum(constants.values()) > LARGEST or (outside := versions(graph)) is None:
        return None
    try:
        text = print_graph(graph, sources=False)
    except GraphError:
        return None
    verified = "verified\n" if is_verified() else ""  # a program that was compiled without is not taken for it
    return objects.key_of(
        f"{_package()}\n{verified}{STATE.numerics}\n{layouts}\n{graph.memory_budget}\n{outside}\n{text}", target
    )


@cache
def _package() -> str:
    """A hash of the names, sizes and times of this package's files."""
    files = _files(os.path.dirname(nacre.__file__))
    return hashlib.sha256("\n".join([nacre.__version__, *files]).encode()).hexdigest()


def _files(folder: str) -> Iterator[str]:
    """The name, size and time of each Python file in a folder and in those below; none in a zip file."""
    with contextlib.suppress(NotADirectoryError, FileNotFoundError), os.scandir(folder) as entries:
        for entry in sorted(entries, key=lambda entry: entry.name):
            if entry.name.endswith(".py"):
                found = entry.stat()
                yield f"{entry.name} {found.st_size} {found.st_mtime_ns}"
            elif entry.name != "__pycache__" and entry.is_dir(follow_symlinks=False):
                yield from _files(entry.path)


# ---- to and from bytes: the length of a JSON text, the text, the constants


def _encode(x: Executable) -> bytes:
    keys = [_keys(c, x.target) for c in x.codes]
    arrays = [np.ascontiguousarray(c) for c in x.constants]
    kept = {
        "codes": keys,
        "plan": _plain(x.plan),
        "inputs": _plain(x.input_types),
        "outputs": _plain(x.output_types),
        "constants": [[a.dtype.name, a.shape, a.nbytes] for a in arrays],
    }
    text = json.dumps(kept, separators=(",", ":")).encode()
    return b"".join([len(text).to_bytes(8, "little"), text, *(a.tobytes() for a in arrays)])


def _keys(code: Code, target: Target) -> list[Any]:
    """A kernel's name, and for each of its units the key, the names that it imports and those that it shares."""
    return [code.name, *([objects.key_of(u.text, target).hex(), u.names, u.shared] for u in code.units)]


def _kept(name: str, *units: tuple[str, list[str], list[str]]) -> Code:
    """The kernel of `_keys`."""
    found = tuple(Unit("", tuple(names), tuple(shared), bytes.fromhex(key)) for key, names, shared in units)
    return Code("", name, found)


def _read(disk: objects.DiskCache, name: bytes, target: Target) -> Executable | None:
    data = disk.read(name)
    if data is None:
        return None
    try:
        return _decode(data, target)
    except Exception:  # of any kind: a cache never stops a program
        return None


def _decode(data: bytes, target: Target) -> Executable | None:
    """The executable that bytes describe; None if one of its objects is missing."""
    at = 8 + int.from_bytes(data[:8], "little")
    kept = json.loads(data[8:at])
    codes = tuple(_kept(*each) for each in kept["codes"])
    keys = {u.key for c in codes for u in c.units}
    if not all(map(objects.shared().known, keys)):
        return None
    constants: list[np.ndarray] = []
    for dtype, shape, size in kept["constants"]:
        constants.append(np.frombuffer(data[at : at + size], _numpy(dtype)).reshape(shape))
        at += size
    plan, inputs, outputs = (_object(kept[k]) for k in ("plan", "inputs", "outputs"))
    return Executable(codes, plan, tuple(constants), inputs, outputs, target)


def _numpy(name: str) -> np.dtype[Any]:
    return dtype_named(name).numpy


def _plain(x: Any) -> Any:
    """What JSON can say of a value: dataclasses and partial functions by their names, dtypes and types by theirs."""
    if x is None or isinstance(x, bool | int | float | str):
        return x
    if isinstance(x, tuple):
        return [_plain(y) for y in cast("tuple[Any, ...]", x)]
    if isinstance(x, DType):
        return {MARK: "dtype", "of": x.name}
    if isinstance(x, TensorType):
        return {MARK: "type", "of": [_plain(x.shape), x.dtype.name]}
    if isinstance(x, partial):
        known = cast("partial[Any]", x)
        return {MARK: "partial", "of": [_path(known.func), *map(_plain, known.args)]}
    if is_dataclass(x) and not isinstance(x, type):
        return {MARK: _path(type(x)), "of": [_plain(getattr(x, f.name)) for f in fields(x)]}
    raise TypeError(f"program: values must be plain values or dataclasses; got {type(x).__name__}")


def _object(x: Any) -> Any:
    """The value that `_plain` wrote."""
    if isinstance(x, list):
        return tuple([_object(y) for y in cast("list[Any]", x)])
    if not isinstance(x, dict):
        return x
    kind, of = cast("dict[str, Any]", x)[MARK], cast("dict[str, Any]", x)["of"]
    if kind == "dtype":
        return dtype_named(of)
    if kind == "type":
        return TensorType(_object(of[0]), dtype_named(of[1]))
    if kind == "partial":
        return partial(_named(of[0]), *map(_object, of[1:]))
    return _named(kind)(*map(_object, of))


def _path(x: Any) -> str:
    return f"{x.__module__}:{x.__qualname__}"


@cache
def _named(path: str) -> Any:
    """A class or function of this package by its path."""
    module, name = path.split(":")
    if not module.startswith("nacre."):
        raise ValueError(f"program: names must belong to this package; got {path!r}")
    return getattr(importlib.import_module(module), name)
