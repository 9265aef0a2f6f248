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
from nacre.cli import layout, outputs
from nacre.cli.grammar import Parser
from nacre.cli.source import TYPES, given, load, parts
from nacre.cli.suggestions import require_known
from nacre.deploy import link
from nacre.deploy.compile import KINDS, Deployed, compile
from nacre.deploy.target import aim, names
from nacre.formats.frozen import load_program
from nacre.formats.program import Program, freeze
from nacre.nn.module import Module
from nacre.runtime.buffer import readable

ENDINGS = {"executable": "", "shared": ".so", "object": ".o"}


EXAMPLES = (
    ("nacre compile model.py:model 'f32[batch:512, 64]' -o digits", "make an executable for any batch up to 512"),
    ("nacre compile model.py:model 'f32[1, 64]' --kind shared", "make a shared library with a C header"),
    (
        "nacre compile program.safetensors --target aarch64 --kind object",
        "make an object file of a saved program for another machine",
    ),
)


def arguments(command: Parser) -> None:
    """Add this command's arguments."""
    command.add_argument(
        "source",
        metavar="FILE.py:NAME|FILE.safetensors",
        help="a function or model of a file, or a program that nc.save_program wrote",
    )
    command.add_argument(
        "types",
        nargs="*",
        default=[],
        metavar="TYPE",
        help=f"the type of each argument of a function or model, such as {TYPES}",
    )
    command.add_output(
        "-o",
        "--output",
        replaced=True,
        metavar="FILE",
        help="the file to write (default: the name of the function or model)",
    )
    command.add_argument(
        "--kind",
        choices=KINDS,
        default=KINDS[0],
        metavar="KIND",
        help=f"one of {', '.join(KINDS)} (default: %(default)s)",
    )
    command.add_argument(
        "--target", default="host", metavar="TARGET", help=f"one of {', '.join(names())} (default: %(default)s)"
    )
    command.add_argument("--static", action="store_true", help="make an executable that needs no libc")
    command.add_argument("--json", action="store_true", help="print what was written as JSON")


def run(line: argparse.Namespace, console: Console) -> int:
    """Compile, and print a description of the written file."""
    start = time.perf_counter()
    require_known([line.target], names(), "compile: the target")
    read, name = named(line.source)
    path: Path = line.output or Path(name + ENDINGS[line.kind])
    if path.resolve() == read.resolve() or outputs.is_same_file(path, read):  # the latter for a hard link
        raise ArgumentError(f"compile: the output must not replace its source; got {path}; name another file with -o")
    outputs.require(path, "compile", "--output", replaced=True)
    program, switched = source(line.source, line.types)
    found = aim(line.target)
    if line.kind != "object" and not line.json and link.by_zig(found, line.static or found.library == "musl"):
        layout.show(
            console,
            layout.wrapped(
                f"Linking for {line.target} with ziglang: the first link for a target takes one or two minutes.",
                console.width,
            ),
        )
    with _ended_by_signals():
        made = compile(program, (), path, line.kind, line.target, static=line.static)
    description = report(made, time.perf_counter() - start)
    if line.json:
        print(json.dumps(description | {"switched_to_evaluation": switched}, indent=2))
        return 0
    layout.show(console, f"{path}: {made.kind} for {made.target}, {readable(made.size)}, in {description['seconds']} s")
    if switched:
        layout.show(
            console,
            layout.wrapped("The model was in training mode, and is compiled in evaluation mode.", console.width),
        )
    rows = [
        (f"{kind[:-1]} {value['name']}", str(value["type"]))
        for kind in ("inputs", "outputs")
        for value in description[kind]
    ]
    rows += [] if made.header is None else [("header", str(made.header))]
    layout.show(console, layout.definitions(rows, console.width))
    return 0


@contextmanager
def _ended_by_signals() -> Generator[None]:
    """A block that SIGTERM ends like an exit, so that its temporary files are removed."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(*_: object) -> None:
        """Exit with the status that a shell reports for a signal."""
        sys.exit(128 + signal.SIGTERM)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def report(made: Deployed, seconds: float) -> dict[str, Any]:
    """A description of the written file, for JSON."""
    about = made.interface
    values = {
        "inputs": zip(about.input_names, about.input_types, strict=True),
        "outputs": zip(about.output_names, about.output_types, strict=True),
    }
    return {
        "path": str(made.path),
        "header": None if made.header is None else str(made.header),
        "kind": made.kind,
        "target": made.target,
        "bytes": made.size,
        "seconds": round(seconds, 3),
        **{kind: [{"name": n, "type": str(t)} for n, t in found] for kind, found in values.items()},
    }


def named(place: str) -> tuple[Path, str]:
    """The file that a command line names, and the name of the program in it."""
    if place.endswith(".safetensors"):
        return Path(place), Path(place).name.split(".")[0]
    path, name = parts(place, "compile")
    return Path(path), name


def source(place: str, types: Sequence[str]) -> tuple[Program, bool]:
    """The program that a command line names, and whether its model was switched from training mode to evaluation."""
    if place.endswith(".safetensors"):
        if types:
            raise ArgumentError(
                "compile: types: none needed, because a saved program has its own; got "
                f"{', '.join(types)}; leave them out"
            )
        return load_program(place), False
    function = load(place, "compile")
    on = given(function, types, "compile")
    switched = isinstance(function, Module) and any(m.training for m in function.modules())
    model = function.eval() if isinstance(function, Module) else function
    return freeze(model, *on.values, dynamic_shapes=on.dynamic_shapes), switched
