"""The LLVM text of native modules from the object cache, so that a process with a warm cache runs no front end.

A cached text begins with the names of the modules that determine it, and a hash of their sources.  A text whose sources
have changed is written again.  The front end is among them.
"""

from __future__ import annotations

import hashlib
import importlib
import os
import re
import sys
from collections.abc import Sequence
from functools import cache
from typing import Any, Final

import nacre
from nacre.base.locks import once
from nacre.native import cache as objects
from nacre.native.engine import Target

FORMAT: Final = 1
IMPORT: Final = re.compile(r"^ *from (nacre[\w.]*) import (\([^)]*\)|.*)", re.MULTILINE)
FRONT_END: Final = tuple(
    f"nacre.native.{name}"
    for name in (
        *("text", "loop_text", "llvm_types", "llvm_values", "python.types", "python.declarations", "python.source"),
        *("python.initial", "python.unit", "python.ssa", "python.body", "python.arithmetic", "python.memory"),
        *("python.intrinsics", "python.expressions", "python.statements", "python.module", "isa"),
    )
)


@once
def cached_module(name: str, entries: Sequence[str], target: Target) -> str:
    """The LLVM text of entries in a module of this package: from the cache, else by the front end.

    Raises CompileError where the sources are not installed.
    """
    disk, system = objects.shared().disk, f"{sys.platform} {sys.version_info[:2]}"
    key = objects.key_of(f"native Python {FORMAT}\n{system}\n{name}\n{','.join(entries)}", target)
    head, _, text = (disk.read(key) or b"").partition(b"\n")
    digest, *modules = head.decode().split() or [""]
    if text and digest == _hash(modules):
        return text.decode()
    written, modules = _write(name, entries, target)
    found = _hash(modules)
    if found is not None:
        disk.write(key, f"{found} {' '.join(modules)}\n{written}".encode())
    return written


def _write(name: str, entries: Sequence[str], target: Target) -> tuple[str, list[str]]:
    """The text by the front end, and the modules that determine it: constants may be from any that are imported."""
    front: Any = importlib.import_module("nacre.native.python.module")  # only now: a warm start does without it
    owner = importlib.import_module(name)
    text: str = front.module([getattr(owner, entry) for entry in entries], name, target)
    found, waiting = dict.fromkeys(FRONT_END), [name]
    while waiting:
        here = waiting.pop()
        if here not in found and here in sys.modules:
            found[here] = None
            waiting += _imports(here)
    return text, list(found)


def _hash(modules: Sequence[str]) -> str | None:
    """A hash of the sources of modules; None where one is not there."""
    digests = list(map(_digest, modules))
    return None if None in digests else hashlib.sha256("".join(map(str, digests)).encode()).hexdigest()


@cache
def _imports(name: str) -> list[str]:
    """The names that a module imports from this package; some are of modules, and some of their contents."""
    found = IMPORT.findall((_source(name) or b"").decode())
    return [each for owner, names in found for each in (owner, *(f"{owner}.{n}" for n in re.findall(r"\w+", names)))]


@cache
def _digest(name: str) -> str | None:
    """A hash of the source of a module, which several native modules import."""
    source = _source(name)
    return None if source is None else hashlib.sha256(source).hexdigest()


def _source(name: str) -> bytes | None:
    """The source of a module of this package, from a folder or a zip file; None where it is not there."""
    parts = name.split(".")[1:]
    loader: Any = nacre.__spec__ and nacre.__spec__.loader
    for last in ([f"{parts[-1]}.py"], [parts[-1], "__init__.py"]) if parts else ():
        try:
            return loader.get_data(os.path.join(os.path.dirname(nacre.__file__), *parts[:-1], *last))
        except OSError:
            pass
    return None
