"""`nacre compile`: a function of a file, or a saved program, as an executable, a library or an object."""

from __future__ import annotations

import argparse
import json
import signal
import sys
import threading
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console

from nacre.base.errors import ArgumentError
from nacre.cli.source import TYPES, given, load
from nacre.deploy.compile import KINDS, Deployed, compile
from nacre.deploy.target import names
from nacre.formats.frozen import load_program
from nacre.formats.program import Program, freeze
from nacre.nn.module import Module
from nacre.runtime.buffer import readable

ENDINGS = {"executable": "", "shared": ".so", "object": ".o"}


def arguments(command: argparse.ArgumentParser) -> None:
    """Add this command's arguments."""
    command.add_argument("source", metavar="FILE.py:NAME|FILE.safetensors",
                         help="a function or model of a file, or a program written by nc.save_program")
    command.add_argument("types", nargs="*", metavar="TYPE",
                         help=f"of a function the arguments' types, such as {TYPES}")
    command.add_argument("-o", "--output", type=Path, metavar="FILE", help="where to write (default: the name)")
    command.add_argument("--kind", choices=KINDS, default=KINDS[0], help="(default: %(default)s)")
    command.add_argument("--target", default="host", metavar="TARGET",
                         help=f"one of {', '.join(names())} (default: %(default)s)")
    command.add_argument("--static", action="store_true", help="an executable that needs no libc")
    command.add_argument("--json", action="store_true", help="tell what was written as JSON")


def run(line: argparse.Namespace, console: Console) -> int:
    """Compile, and tell what was written."""
    start = time.perf_counter()
    program, name = source(line.source, line.types)
    path: Path = line.output or Path(name + ENDINGS[line.kind])
    with _ended_by_signals():
        made = compile(program, (), path, line.kind, line.target, static=line.static)
    told = report(made, time.perf_counter() - start)
    if line.json:
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


@contextmanager
def _ended_by_signals() -> Generator[None]:
    """A block that SIGTERM ends like an exit, so that it takes its temporary files with it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(*_: object) -> None:
        """Leave as a shell says that a signal ended it."""
        sys.exit(128 + signal.SIGTERM)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


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
    function = load(place, "compile")
    on = given(function, types, "compile")
    model = function.eval() if isinstance(function, Module) else function
    return freeze(model, *on.values, dynamic_shapes=on.dynamic_shapes), place.rpartition(":")[2]
