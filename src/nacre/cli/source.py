"""What command lines name: a function or model of a file, and arguments by their types."""

from __future__ import annotations

import inspect
import re
import runpy
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from nacre.api.creation import zeros
from nacre.api.tensor import Tensor
from nacre.base import dtypes
from nacre.base.dims import Dim
from nacre.base.errors import ArgumentError
from nacre.base.records import dataclass
from nacre.formats.safetensors import reading
from nacre.nn.module import Module
from nacre.transform.jit import Jitted

BY_SHORT = {d.short: d for d in dtypes.ALL}
SIZE = re.compile(r"(\d+)|([A-Za-z_]\w*):(?:(\d+):)?(\d+)")
TYPES = "'f32[64, 784]', or 'f32[batch:512, 784]' for a batch up to 512 (batch:MIN:MAX)"  # for the help of commands
DIGITS = 18  # of a size, so that it fits into 63 bits
UNSET = 2  # the size that a symbolic axis is traced with, where its bounds admit it


@dataclass(frozen=True)
class Given:
    """Example arguments, and by parameter the axes whose size a call may choose."""

    values: tuple[Tensor, ...]
    dynamic_shapes: dict[str, dict[int, Dim]]


def load(place: str, command: str) -> Any:
    """The function or model that `FILE.py:NAME` names, for a command; the file is run to get it."""
    path, colon, name = place.rpartition(":")
    if not colon or not path:
        raise ArgumentError(f"{command}: FILE.py:NAME is required; got {place!r}")
    try:
        with reading(Path(path)) as file:  # a folder, which may hold a program too, is none
            compile(file.read(), path, "exec")
    except (OSError, ValueError, SyntaxError, RecursionError, MemoryError) as fault:
        raise ArgumentError(f"{command}: a Python file is required; got {path!r}: "
                            f"{getattr(fault, 'strerror', None) or fault}") from None
    names = runpy.run_path(path)
    if not callable(names.get(name)):
        known = sorted(k for k, v in names.items() if callable(v) and not k.startswith("_") and _made_there(v))
        raise ArgumentError(f"{command}: a function or model of {path} is required; got {name!r}; there "
                            f"are {', '.join(known) or 'none'}")
    return names[name]


def _made_there(value: Any) -> bool:
    """Whether a file that was run defines a value, instead of importing it."""
    return getattr(value, "__module__", "") == "<run_path>" or isinstance(value, Jitted | Module)


def given(function: Callable[..., Any], types: Sequence[str], command: str) -> Given:
    """The arguments that types on a command line name, for a function or model.

    Raises ArgumentError for more types than it has parameters, or for a text that is no type.
    """
    called = function.forward if isinstance(function, Module) else function
    try:
        parameters = list(inspect.signature(called).parameters)
    except (TypeError, ValueError) as fault:
        raise ArgumentError(f"{command}: a function whose parameters are known is required; {fault}") from None
    if len(types) > len(parameters):
        raise ArgumentError(f"{command}: {len(parameters)} types ({', '.join(parameters)}) are required; got "
                            f"{len(types)}")
    made = [argument(t, command) for t in types]
    dynamic = {name: axes for name, (_, axes) in zip(parameters, made, strict=False) if axes}
    return Given(tuple(x for x, _ in made), dynamic)


def example(function: Callable[..., Any], types: Sequence[str], command: str) -> Given:
    """The arguments for a function, of which it needs as many as have no default.  Raises ArgumentError otherwise."""
    on = given(function, types, command)
    called = function.forward if isinstance(function, Module) else function
    lacking = [p.name for p in list(inspect.signature(called).parameters.values())[len(types):]
               if p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    if lacking:
        raise ArgumentError(f"{command}: a TYPE for each argument is required; there is none for {', '.join(lacking)}; "
                            f"add such as {TYPES}")
    return on


def argument(text: str, command: str) -> tuple[Tensor, dict[int, Dim]]:
    """An example of the type that a text such as `f32[batch:512, 784]` names, and its axes with a choice of size."""
    found = re.fullmatch(r"\s*(\w+)\s*\[([^\]]*)\]\s*", text)
    sizes = [s.strip() for s in found[2].split(",") if s.strip()] if found else []
    read = [SIZE.fullmatch(s) for s in sizes]
    if found is None or found[1] not in BY_SHORT or not all(read):
        raise ArgumentError(f"{command}: a type such as f32[64, 784] or f32[batch:512, 784] is required, of "
                            f"{', '.join(BY_SHORT)}; got {text!r}")
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
    return zeros(tuple(shape), dtype=BY_SHORT[found[1]]), axes
