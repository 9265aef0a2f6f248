"""`nacre explain`: every stage of a function that a file defines, for arguments given by their types."""

from __future__ import annotations

import argparse
import re
import runpy
from collections.abc import Callable
from typing import Any

from rich.console import Console

from nacre.api.creation import zeros
from nacre.api.tensor import Tensor
from nacre.base import dtypes
from nacre.base.errors import ArgumentError
from nacre.inspect.explain import Explanation, explain

BY_SHORT = {d.short: d for d in dtypes.ALL}
PARTS: dict[str, Callable[[Explanation], str]] = {
    "graph": lambda e: e.graph,
    "simplified": lambda e: e.simplified,
    "clusters": lambda e: e.clusters,
    "kernels": lambda e: _each(e, e.kernel),
    "general": lambda e: _each(e, e.general),
    "llvm": lambda e: _each(e, e.llvm),
    "assembly": lambda e: _each(e, e.assembly),
    "plan": lambda e: e.plan,
}
USUAL = ("graph", "clusters", "kernels", "plan")


def arguments(command: argparse.ArgumentParser) -> None:
    """Add this command's arguments."""
    command.add_argument("function", metavar="FILE.py:FUNCTION", help="a function of a file, jitted or not")
    command.add_argument("types", nargs="*", metavar="TYPE", help="its arguments' types, such as 'f32[64, 784]'")
    command.add_argument("--show", metavar="PART", action="append", choices=[*PARTS, "all"],
                         help=f"one of {', '.join(PARTS)}, all; may be repeated (default: {', '.join(USUAL)})")


def run(given: argparse.Namespace, console: Console) -> int:
    """Print the parts that are asked for."""
    told = explain(load(given.function), *(argument(t) for t in given.types))
    chosen = given.show or USUAL
    for name, part in PARTS.items():
        if name in chosen or "all" in chosen:
            console.print(f"[bold]== {name} ==[/]")
            console.print(part(told), markup=False, soft_wrap=True)
            console.print()
    return 0


def load(place: str) -> Any:
    """The function that `FILE.py:FUNCTION` names; the file is run to get it."""
    path, colon, name = place.rpartition(":")
    if not colon or not path:
        raise ArgumentError(f"explain: FILE.py:FUNCTION is required; got {place!r}")
    try:
        names = runpy.run_path(path)
    except OSError as fault:
        raise ArgumentError(f"explain: a Python file is required; got {path!r}: {fault.strerror}") from None
    if not callable(names.get(name)):
        known = sorted(k for k, v in names.items() if callable(v) and getattr(v, "__module__", "") == "<run_path>")
        raise ArgumentError(f"explain: a function of {path} is required; got {name!r}; there are {', '.join(known)}")
    return names[name]


def argument(text: str) -> Tensor:
    """A tensor of the type that a text such as `f32[64, 784]` names."""
    found = re.fullmatch(r"\s*(\w+)\s*\[([\d\s,]*)\]\s*", text)
    if found is None or found[1] not in BY_SHORT:
        raise ArgumentError(f"explain: a type such as f32[64, 784] is required, of {', '.join(BY_SHORT)}; got {text!r}")
    shape = tuple(int(n) for n in found[2].split(",") if n.strip())
    return zeros(shape, dtype=BY_SHORT[found[1]])


def _each(told: Explanation, part: Callable[[int], str]) -> str:
    return "\n\n".join(f"# step {k}: {s.label}\n{part(k)}" for k, s in enumerate(told.stages))
