"""`nacre compile`: a function of a file, or a saved program, as an executable, a library or an object."""

from __future__ import annotations

import argparse
import inspect
import json
import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from nacre.api.creation import zeros
from nacre.base.dims import Dim
from nacre.base.errors import ArgumentError
from nacre.cli.explain import BY_SHORT, load
from nacre.deploy.compile import KINDS, Deployed, compile
from nacre.deploy.target import names
from nacre.formats.frozen import load_program
from nacre.formats.program import Program, freeze
from nacre.nn.module import Module
from nacre.runtime.buffer import readable

SIZE = re.compile(r"(\d+)|([A-Za-z_]\w*):(?:(\d+):)?(\d+)")
ENDINGS = {"executable": "", "shared": ".so", "object": ".o"}
UNSET = 2  # the size that a symbolic axis is traced with, where its bounds admit it


def arguments(command: argparse.ArgumentParser) -> None:
    """Add this command's arguments."""
    command.add_argument("source", metavar="FILE.py:NAME|FILE.safetensors",
                         help="a function or model of a file, or a program written by nc.save_program")
    command.add_argument("types", nargs="*", metavar="TYPE", help="of a function the arguments' types, such as "
                         "'f32[64, 784]', or 'f32[batch:512, 784]' for a batch up to 512 (batch:MIN:MAX)")
    command.add_argument("-o", "--output", type=Path, metavar="FILE", help="where to write (default: the name)")
    command.add_argument("--kind", choices=KINDS, default=KINDS[0], help="(default: %(default)s)")
    command.add_argument("--target", default="host", metavar="TARGET",
                         help=f"one of {', '.join(names())} (default: %(default)s)")
    command.add_argument("--static", action="store_true", help="an executable that needs no libc")
    command.add_argument("--json", action="store_true", help="tell what was written as JSON")


def run(given: argparse.Namespace, console: Console) -> int:
    """Compile, and tell what was written."""
    start = time.perf_counter()
    program, name = source(given.source, given.types)
    path: Path = given.output or Path(name + ENDINGS[given.kind])
    made = compile(program, (), path, given.kind, given.target, static=given.static)
    told = report(made, time.perf_counter() - start)
    if given.json:
        print(json.dumps(told, indent=2))
        return 0
    console.print(f"[bold]{path}[/]: {made.kind} for {made.target}, {readable(made.size)}, in {told['seconds']} s",
                  soft_wrap=True)
    for kind in ("inputs", "outputs"):
        for value in told[kind]:
            console.print(f"  {kind[:-1]} {value['name']}: {value['type']}", markup=False, soft_wrap=True)
    if made.header is not None:
        console.print(f"  header {made.header}", soft_wrap=True)
    return 0


def report(made: Deployed, seconds: float) -> dict[str, Any]:
    """What was written, for JSON."""
    about = made.interface
    values = {"inputs": zip(about.input_names, about.input_types, strict=True),
              "outputs": zip(about.output_names, about.output_types, strict=True)}
    return {"path": str(made.path), "header": None if made.header is None else str(made.header), "kind": made.kind,
            "target": made.target, "bytes": made.size, "seconds": round(seconds, 3),
            **{kind: [{"name": n, "type": str(t)} for n, t in found] for kind, found in values.items()}}


def source(place: str, types: Sequence[str]) -> tuple[Program, str]:
    """The program that a command line names, and a name for it."""
    if place.endswith(".safetensors"):
        if types:
            raise ArgumentError("compile: no types are required for a saved program, which has its own; got "
                                f"{', '.join(types)}")
        return load_program(place), Path(place).name.split(".")[0]
    function = load(place)
    called = function.forward if isinstance(function, Module) else function
    parameters = list(inspect.signature(called).parameters)
    if len(types) > len(parameters):
        raise ArgumentError(f"compile: {len(parameters)} types ({', '.join(parameters)}) are required; got "
                            f"{len(types)}")
    made = [argument(t) for t in types]
    dynamic = {name: axes for name, (_, axes) in zip(parameters, made, strict=False) if axes}
    model = function.eval() if isinstance(function, Module) else function
    return freeze(model, *(x for x, _ in made), dynamic_shapes=dynamic), place.rpartition(":")[2]


def argument(text: str) -> tuple[Any, dict[int, Dim]]:
    """An example of the type that a text such as `f32[batch:512, 784]` names, and its axes with a choice of size."""
    found = re.fullmatch(r"\s*(\w+)\s*\[([^\]]*)\]\s*", text)
    sizes = [s.strip() for s in found[2].split(",") if s.strip()] if found else []
    read = [SIZE.fullmatch(s) for s in sizes]
    if found is None or found[1] not in BY_SHORT or not all(read):
        raise ArgumentError("compile: a type such as f32[64, 784] or f32[batch:512, 784] is required, of "
                            f"{', '.join(BY_SHORT)}; got {text!r}")
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
