"""`nacre tune`: measure the free choices of programs' kernels on this machine, and keep the best."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from typing import Any, cast

from rich.console import Console

from nacre.cli import layout, source
from nacre.cli.grammar import Parser
from nacre.cli.stages import duration, stages
from nacre.cli.suggestions import require_known
from nacre.cli.tables import Table, show
from nacre.compile.program.tune import Choice, tune
from nacre.examples.workloads import WORKLOADS, chosen
from nacre.runtime import tunables
from nacre.transform.jit import Jitted, jit

EACH = 25  # approximate seconds of a search


EXAMPLES = (
    ("nacre tune mlp", "tune one workload"),
    ("nacre tune model.py:step 'f32[64, 784]'", "tune a function of your own"),
    ("nacre tune --forget", "delete what was kept"),
)


def arguments(command: Parser) -> None:
    """Add this command's arguments."""
    command.about = (
        "Kernels can be cut into tiles and shared among threads in several ways. The choices do not "
        "change results. This command measures them and keeps the best beside the code cache."
    )
    command.add_argument(
        "what",
        nargs="?",
        metavar="WORKLOAD|FILE.py:FUNCTION",
        help=f"a function of a file, or one of {', '.join(WORKLOADS)} (default: all workloads)",
    )
    command.add_argument(
        "types",
        nargs="*",
        default=[],
        metavar="TYPE",
        help=f"the type of each argument of a function, such as {source.TYPES}",
    )
    command.add_argument("--tiny", action="store_true", help="use tiny sizes of the workloads")
    command.add_argument("--forget", action="store_true", help="delete all choices that were kept, and end")


def run(given: argparse.Namespace, console: Console) -> int:
    """Search, and show the results."""
    if given.forget:
        console.print(f"Forgot {tunables.forget()} choices.")
        return 0
    programs = _programs(given)
    console.print(f"{len(programs)} program{'s' if len(programs) != 1 else ''}: {duration(EACH * len(programs))}")
    for name, ready in programs:
        with stages(console) as stage:
            stage(f"compiling {name}")
            function, values = ready()
            prepared = function.prepare(*values)
            stage(f"searching {name}")
            found = tune(prepared.compiled.executable, prepared.sizes)
        if found:
            show(console, table(name, found))
        else:
            layout.show(
                console,
                layout.wrapped(
                    f"{name}: nothing to choose; each kernel has one way to run, or was tuned before", console.width
                ),
            )
    return 0


def _programs(given: argparse.Namespace) -> list[tuple[str, Callable[[], tuple[Jitted[..., Any], tuple[Any, ...]]]]]:
    """The functions to search by name, each as a callable that creates it with its arguments."""
    if given.what is not None and ":" in given.what:
        function = source.load(given.what, "tune")
        values = source.given(function, given.types, "tune").values
        jitted: Jitted[..., Any] = cast("Any", function) if isinstance(function, Jitted) else jit(function)
        return [(given.what, lambda: (jitted, values))]
    names = [given.what] if given.what else []
    require_known(names, WORKLOADS, "tune: the function", "FILE.py:FUNCTION or ")
    return [(w.name, partial(w.ready, given.tiny)) for w in chosen(names)]


def table(name: str, found: list[Choice]) -> Table:
    """The choices of a search; the first row saves the most time."""
    made = Table(name, "choice", ("options", "usual µs", "best µs", "gain"))
    for f in sorted(found, key=lambda f: f.least[f.taken] - f.least[0]):
        made.add(
            f.name,
            str(len(f.options)),
            f"{f.least[0] * 1e6:.1f}",
            f"{f.least[f.taken] * 1e6:.1f}",
            f"{f.gain:.2f}" if f.taken else "–",
        )
    usual, best = sum(f.least[0] for f in found), sum(f.least[f.taken] for f in found)
    made.rule()
    made.add("all", "", f"{usual * 1e6:.1f}", f"{best * 1e6:.1f}", f"{usual / best:.2f}" if best else "–")
    return made
