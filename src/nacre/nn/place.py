"""The place of an error in a model: a note (PEP 678) with the path of the layer, as tracebacks print it."""

from __future__ import annotations

from typing import Any


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
