"""The place of an error or an operation in a model: the path of the layer.

An error has it as a note (PEP 678), as tracebacks print it.
"""

from __future__ import annotations

import os
import sys
from typing import Any, Final
from weakref import ref

from nacre.interpret.called import INNERMOST

MODULE: Final = os.path.join(os.path.dirname(__file__), "module.py")
REMEMBERED: Final = 4096  # paths in the cache, which is emptied when it is full
_paths: dict[tuple[int, int], tuple[ref[Any], ref[Any], str]] = {}


class ModulePlace(str):
    """The note, with the path from the outermost module that the error has reached so far."""

    __slots__ = ("module", "path")
    module: Any
    path: str  # from that module to the layer

    @classmethod
    def seen_from(cls, module: Any, path: str, layer: str) -> ModulePlace:
        """The note of a layer at a path, from a module."""
        made = cls(f"in {type(module).__name__}{path}" + (f" ({layer})" if path else ""))
        made.module, made.path = module, path
        return made

    def __reduce__(self) -> tuple[object, ...]:
        return str, (str(self),)  # an error that is sent to another process does not include the module

    @property
    def layer(self) -> str:
        """The class of the layer."""
        return self.rpartition("(")[2].rstrip(")") if self.path else type(self.module).__name__


def note_place(fault: Exception, module: Any) -> None:
    """Note on an error that it passed through a module's `forward`; each outer module extends the note."""
    notes: list[str] = list(getattr(fault, "__notes__", ()))
    for k, note in enumerate(notes):
        if isinstance(note, ModulePlace):
            if note.module is not module:
                notes[k] = ModulePlace.seen_from(module, _path(module, note.module) + note.path, note.layer)
            break
    else:
        notes.append(ModulePlace.seen_from(module, "", type(module).__name__))
    fault.__notes__ = notes


def _path(module: Any, inner: Any) -> str:
    """The attribute path from a module to an inner one: `.encoder.layers[0]`."""
    for name, found in module.named_modules():
        if found is inner:
            return "".join(f"[{word}]" if word.isdigit() else f".{word}" for word in name.split("."))
    return f" > {type(inner).__name__}"


def innermost() -> str:
    """The path of the innermost module whose `forward` runs, as ` in Net.head[0] (Linear)`; empty outside."""
    frame: Any = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    outer = inner = None
    while frame is not None:
        if frame.f_code.co_name == "_call" and frame.f_code.co_filename == MODULE:
            outer = frame.f_locals["self"]
            inner = outer if inner is None else inner
        frame = frame.f_back
    if inner is None:
        return ""
    known = _paths.get((id(outer), id(inner)))
    if known is None or known[0]() is not outer or known[1]() is not inner:
        path = "" if inner is outer else _path(outer, inner)
        if len(_paths) >= REMEMBERED:
            _paths.clear()
        place = f" {ModulePlace.seen_from(outer, path, type(inner).__name__)}"
        known = _paths[id(outer), id(inner)] = ref(outer), ref(inner), place
    return known[2]


INNERMOST[0] = innermost
