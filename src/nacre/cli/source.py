"""Objects that command lines name: a function or model of a file, and arguments by their types."""

from __future__ import annotations

import inspect
import re
import runpy
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from nacre.api.creation import full
from nacre.api.tensor import Tensor
from nacre.base import dtypes
from nacre.base.dims import Dim
from nacre.base.errors import ArgumentError
from nacre.base.records import dataclass
from nacre.cli.suggestions import nearest
from nacre.formats.safetensors import reading
from nacre.nn.module import Module
from nacre.transform.jit import Jitted

BY_NAME = {name: d for d in dtypes.NAMED for name in (d.short, d.name)}
ELSEWHERE = {  # names in other languages and packages → the type of the usual width, and others of its kind
    "float": ("f32", "f64, f16 or bf16"), "double": ("f64", "f32"), "half": ("f16", "bf16"), "single": ("f32", "f64"),
    "int": ("i64", "i32, i16 or i8"), "long": ("i64", "i32"), "short": ("i16", "i32"), "byte": ("u8", "i8"),
    "uint": ("u64", "u32, u16 or u8"), "boolean": ("bool", "u8"),
}  # fmt: skip
SIZE = re.compile(r"(\d+)|([A-Za-z_]\w*):(?:(\d+):)?(\d+)")
TYPES = "'f32[64, 784]', or 'f32[batch:512, 784]' for any batch up to 512 (see nacre help types)"
FREE = re.compile(r"[A-Za-z_]\w*")  # the name of a symbolic size
USUAL = 512  # the maximum that a message proposes
DIGITS = 18  # most digits of a size, so that it fits into 63 bits
UNSET = 2  # the size of a symbolic axis in a trace, where its bounds admit it


@dataclass(frozen=True)
class ExampleArguments:
    """Example arguments, and by parameter the axes whose size a call may choose."""

    values: tuple[Tensor, ...]
    dynamic_shapes: dict[str, dict[int, Dim]]


def load(place: str, command: str) -> Any:
    """The function or model that `FILE.py:NAME` names, for a command; the file is run to get it."""
    path, name = parts(place, command)
    names = _run(path, command)
    if not callable(names.get(name)):
        known = sorted(k for k, v in names.items() if callable(v) and not k.startswith("_") and _made_there(v))
        raise ArgumentError(
            f"{command}: a function or model of {path} is required; got {name!r}; the file "
            f"has {', '.join(known) or 'none'}{nearest(name, known)}"
        )
    return names[name]


def parts(place: str, command: str) -> tuple[str, str]:
    """The file and the name of `FILE.py:NAME`.  Raises ArgumentError for another form."""
    path, colon, name = place.rpartition(":")
    if not colon or not path:
        advice = f"; write such as {place}:model" if place.endswith(".py") else ""
        raise ArgumentError(f"{command}: FILE.py:NAME is required; got {place!r}{advice}")
    return path, name


def _run(path: str, command: str) -> dict[str, Any]:
    """The names that a file defines; modules in its folder can be imported, as by `python FILE.py`."""
    wrong = f"{command}: a Python file is required; got {path!r}: "
    try:
        with reading(Path(path)) as file:  # raises an error for a folder, even one that contains a program
            compile(file.read(), path, "exec")
    except SyntaxError as fault:
        line = f"\n    {fault.text.strip()}" if fault.text else ""
        raise ArgumentError(f"{wrong}line {fault.lineno}: {fault.msg}{line}") from None
    except (OSError, ValueError, RecursionError, MemoryError) as fault:
        raise ArgumentError(f"{wrong}{getattr(fault, 'strerror', None) or fault}") from None
    folder = str(Path(path).resolve().parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        return runpy.run_path(path)
    except SystemExit as fault:
        raise ArgumentError(
            f"{command}: a file that can be imported is required; {path} ended with "
            f'sys.exit({fault.code!r}); put that under if __name__ == "__main__"'
        ) from None


def _made_there(value: Any) -> bool:
    """Whether a file that was run defines a value, instead of importing it."""
    return getattr(value, "__module__", "") == "<run_path>" or isinstance(value, Jitted | Module)


def given(function: Callable[..., Any], types: Sequence[str], command: str) -> ExampleArguments:
    """The arguments that types on a command line name, for a function or model.

    Raises ArgumentError for a missing or additional type, or for a text that is not a type.
    """
    found = parameters(function, command)
    names = [p.name for p in found]
    if len(types) > len(names):
        needed = f"{len(names)} ({', '.join(names)})" if names else "none"
        raise ArgumentError(
            f"{command}: types: {needed} needed; got {', '.join(types)}; leave out {', '.join(types[len(names) :])}"
        )
    lacking = [
        p.name
        for p in found[len(types) :]
        if p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
    ]
    if lacking:
        raise ArgumentError(
            f"{command}: a TYPE for each argument ({', '.join(names)}) is required; there is none for "
            f"{', '.join(lacking)}; add such as {TYPES}"
        )
    made = [argument(t, command) for t in types]
    dynamic = {name: axes for name, (_, axes) in zip(names, made, strict=False) if axes}
    return ExampleArguments(tuple(x for x, _ in made), dynamic)


def parameters(function: Callable[..., Any], command: str) -> list[inspect.Parameter]:
    """The parameters of a function, or of a model's forward.  Raises ArgumentError where they are not known."""
    called = function.forward if isinstance(function, Module) else function
    try:
        return list(inspect.signature(called).parameters.values())
    except (TypeError, ValueError) as fault:
        raise ArgumentError(f"{command}: a function whose parameters are known is required; {fault}") from None


def _meant(name: str, sizes: str) -> str:
    """The end of a message about an unknown element type: advice on what to write."""
    if name.lower() not in ELSEWHERE:
        return nearest(name, BY_NAME)
    usual, others = ELSEWHERE[name.lower()]
    return f"; write {usual}[{sizes}], or {others} for another width"


def argument(text: str, command: str) -> tuple[Tensor, dict[int, Dim]]:
    """An example of the type that a text such as `f32[batch:512, 784]` names, and its axes with a choice of size."""
    found = re.fullmatch(r"\s*(\w+)\s*\[([^\]]*)\]\s*", text)
    sizes = [s.strip() for s in found[2].split(",") if s.strip()] if found else []
    read = [SIZE.fullmatch(s) for s in sizes]
    free = next((s for s, m in zip(sizes, read, strict=True) if m is None and FREE.match(s)), None)
    if found is not None and found[1] in BY_NAME and free is not None:
        name = FREE.match(free)[0]  # type: ignore[index]
        meant = ", ".join(f"{name}:{USUAL}" if s == free else s for s in sizes)
        raise ArgumentError(
            f"{command}: a size with a name needs a maximum as NAME:MAX, or NAME:MIN:MAX; got {free!r} "
            f"in {text!r}; write such as {found[1]}[{meant}]"
        )
    if found is None or found[1] not in BY_NAME or not all(read):
        unknown = found is not None and found[1] not in BY_NAME
        advice = _meant(found[1], found[2]) if found is not None and unknown else ""
        raise ArgumentError(
            f"{command}: a type such as f32[64, 784] or f32[batch:512, 784] is required, of "
            f"{', '.join(d.short for d in dtypes.NAMED)}; got {text!r}{advice}"
        )
    if any(len(digits) > DIGITS for m in read if m is not None for digits in m.groups() if digits and m[2] != digits):
        raise ArgumentError(f"{command}: sizes of at most {DIGITS} digits are required; got {text[:40]!r}…")
    shape: list[int] = []
    axes: dict[int, Dim] = {}
    for k, size in enumerate(m for m in read if m is not None):
        if size[1] is not None:
            shape.append(int(size[1]))
            continue
        low, high = int(size[3] or 1), int(size[4])
        axes[k] = Dim.symbol(size[2], low, high)
        shape.append(min(max(low, UNSET), high))
    dtype = BY_NAME[found[1]]
    return full(tuple(shape), 0 if dtype.has_zero else 1, dtype=dtype), axes
