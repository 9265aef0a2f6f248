"""`nacre run`: an executable or a saved program on .npy files."""

from __future__ import annotations

import argparse
import json
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from nacre.api.printing import printable
from nacre.base import tree
from nacre.base.errors import ArgumentError, DeviceError, DTypeError
from nacre.cli import outputs
from nacre.cli.grammar import Parser
from nacre.cli.suggestions import nearest
from nacre.formats.frozen import load_program
from nacre.formats.npy import read_array
from nacre.formats.safetensors import replacing
from nacre.interpret.evaluate import from_numpy
from nacre.trace.value import Value

EXAMPLES = (
    ("nacre run digits images.npy -o scores.npy", "run an executable"),
    ("nacre run program.safetensors images.npy", "run a saved program and print its outputs"),
)


def arguments(command: Parser) -> None:
    """Add this command's arguments."""
    command.add_argument(
        "program",
        type=Path,
        metavar="PROGRAM",
        help="an executable that nacre compile made, or a program that nc.save_program wrote",
    )
    command.add_argument("inputs", nargs="*", default=[], type=Path, metavar="INPUT.npy", help="the inputs, in order")
    command.add_output(
        "-o",
        "--output",
        action="append",
        default=[],
        metavar="FILE.npy",
        help="the file for an output; once for each output (without it, a saved program's outputs are printed)",
    )
    command.add_argument("--json", action="store_true", help="print what was written as JSON")


def run(given: argparse.Namespace, console: Console) -> int:
    """Run the program; its own exit status where it is an executable."""
    start = time.perf_counter()
    program: Path = given.program
    require_program(program)
    outputs.require_separate(given.output, [program, *given.inputs], "run")
    if program.suffix == ".safetensors":
        written = saved(program, given.inputs, given.output, None if given.json else console)
    else:
        status = executable(program, given.inputs, given.output)
        if status:
            return status
        written = [{"file": str(path), "type": _type(path)} for path in given.output]
    if given.json:
        print(json.dumps({"outputs": written, "seconds": round(time.perf_counter() - start, 4)}, indent=2))
    return 0


def require_program(path: Path) -> None:
    """Raise ArgumentError for a path that cannot be a program."""
    if path.is_dir():
        raise ArgumentError(f"run: an executable or a .safetensors file is required; {path} is a folder")
    if not path.exists():
        raise ArgumentError(
            f"run: an executable or a .safetensors file is required; {path} does not exist"
            f"{nearest(path.name, (p.name for p in path.absolute().parent.glob('*')))}"
        )
    if path.suffix == ".py":
        raise ArgumentError(
            f"run: an executable or a .safetensors file is required; {path} is a Python file; make an "
            f"executable of its function first: nacre compile {path}:NAME TYPE ... -o FILE"
        )


def saved(path: Path, inputs: Sequence[Path], files: Sequence[Path], console: Console | None) -> list[dict[str, Any]]:
    """Run a saved program; write its outputs, or print them."""
    program = load_program(path)
    if files and len(files) != len(program.outputs):
        raise ArgumentError(
            f"run: a file for each output ({', '.join(program.outputs)}) is required, or none; got {len(files)}"
        )
    found: list[Value] = tree.flatten(program(*map(_read, inputs)))[0]
    written: list[dict[str, Any]] = []
    for k, (name, x) in enumerate(zip(program.outputs, found, strict=True)):
        written.append({"name": name, "type": str(x.type)} | ({"file": str(files[k])} if files else {}))
        if files:
            with replacing(files[k], "run") as made, open(made, "wb") as file:
                np.lib.format.write_array(file, np.asarray(x), allow_pickle=False)
        elif console is not None:
            console.print(f"{name}: {x.type}\n{printable(x)}", markup=False, soft_wrap=True)
    return written


def executable(path: Path, inputs: Sequence[Path], files: Sequence[Path]) -> int:
    """Run an executable in a separate process; returns its exit status."""
    if not files:
        raise ArgumentError(
            "run: a file for each output is required of an executable; got none; write -o before the name of each, "
            "as in nacre run PROGRAM INPUT.npy -o OUTPUT.npy"
        )
    try:
        return subprocess.run([path.resolve(), *inputs, *files], check=False).returncode
    except OSError as fault:
        raise DeviceError(
            f"run: an executable of this machine, or a .safetensors file, is required; {path}: {fault.strerror}"
        ) from None


def _read(path: Path) -> Value:
    try:
        return from_numpy(read_array(path, "run"))
    except DTypeError as fault:
        raise ArgumentError(f"run: an array of numbers is required; {path}: {fault}") from None


def _type(path: Path) -> str:
    return str(_read(path).type) if str(path) != "-" else ""
