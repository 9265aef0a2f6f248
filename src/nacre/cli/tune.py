"""`nacre tune`: measure the free choices of programs' kernels on this machine, and keep the best."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from nacre.cli import source
from nacre.compile.tune import Found, tune
from nacre.inspect.workloads import WORKLOADS, chosen
from nacre.runtime import choice
from nacre.transform.jit import Jitted, jit


def arguments(command: argparse.ArgumentParser) -> None:
    """Add this command's arguments."""
    command.add_argument("what", nargs="?", metavar="WORKLOAD or FILE.py:FUNCTION",
                         help=f"a function of a file, or one of {', '.join(WORKLOADS)} (default: all of these)")
    command.add_argument("types", nargs="*", metavar="TYPE", help="the function's arguments' types, as f32[64, 784]")
    command.add_argument("--tiny", action="store_true", help="tiny sizes of the workloads")
    command.add_argument("--forget", action="store_true", help="go back to the choices of the model")


def run(given: argparse.Namespace, console: Console) -> int:
    """Search, and show what was found."""
    if given.forget:
        console.print(f"Forgot {choice.forget()} choices.")
        return 0
    for name, function, values in _programs(given):
        prepared = function.prepare(*values)
        console.print(table(name, tune(prepared.compiled.executable, prepared.sizes)))
    return 0


def _programs(given: argparse.Namespace) -> Iterator[tuple[str, Jitted, tuple[Any, ...]]]:
    """The functions to search, with their arguments."""
    if given.what is not None and ":" in given.what:
        function = source.load(given.what, "tune")
        values = source.given(function, given.types, "tune").values
        yield given.what, function if isinstance(function, Jitted) else jit(function), values
        return
    for workload in chosen([given.what] if given.what else []):
        yield workload.name, *workload.ready(given.tiny)


def table(name: str, found: list[Found]) -> Table:
    """The choices that a search has met, those first that gain most time."""
    made = Table(title=name, title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    made.add_column("choice", no_wrap=True, min_width=20)
    for head in ("options", "usual µs", "best µs", "gain"):
        made.add_column(head, justify="right", no_wrap=True, min_width=7)
    for f in sorted(found, key=lambda f: f.least[f.taken] - f.least[0]):
        made.add_row(f.name, str(len(f.options)), f"{f.least[0] * 1e6:.1f}", f"{f.least[f.taken] * 1e6:.1f}",
                     f"{f.gain:.2f}" if f.taken else "–")
    usual, best = sum(f.least[0] for f in found), sum(f.least[f.taken] for f in found)
    made.add_section()
    made.add_row("all", "", f"{usual * 1e6:.1f}", f"{best * 1e6:.1f}", f"{usual / best:.2f}" if best else "–")
    return made
