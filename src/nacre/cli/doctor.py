"""`nacre doctor` and `nacre cache`: the machine, the installation, the cached code, and whether the bits agree."""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import asdict

from rich.console import Console

from nacre import __version__
from nacre.base.errors import Error
from nacre.cli import layout
from nacre.cli.grammar import Parser
from nacre.cli.stages import stages
from nacre.deploy.link import linker
from nacre.deploy.target import aim
from nacre.inspect import machine
from nacre.inspect.machine import Check


def version_line() -> str:
    """The output of `nacre --version`."""
    return f"nacre {__version__}"


EXAMPLES = (
    ("nacre doctor", "check this machine"),
    ("nacre doctor --json > doctor.json", "write everything to a file, to attach to a bug report"),
)
CACHE_EXAMPLES = (
    ("nacre cache", "show the folder and its size"),
    ("nacre cache --clear", "remove all compiled code"),
)


def arguments(command: Parser) -> None:
    """Add the arguments of `doctor`."""
    command.about = (
        "The self-test runs the same computations in every way that this machine can, and compares bits. "
        "It takes about ten seconds, and longer at the first run."
    )
    command.add_argument("--json", action="store_true", help="print everything as JSON")
    command.sections.append(("exit status", (("0", "all bits agree"), ("1", "bits differ"))))


def run(given: argparse.Namespace, console: Console) -> int:
    """Print the facts and the checks; 1 where bits differ."""
    facts = {**machine.facts(), "executables": linked_by()}
    if not given.json:
        layout.show(console, layout.definitions(facts.items(), console.width, indent=0))
        console.print()
        layout.show(console, layout.wrapped("Self-test: about ten seconds, longer at the first run.", console.width))
    start = time.perf_counter()
    found = list(machine.checks()) if given.json else shown_checks(console)
    taken = time.perf_counter() - start
    agree = all(check.passed for check in found)
    if given.json:
        print(
            json.dumps(
                {
                    "facts": facts,
                    "checks": [{**asdict(c), "passed": c.passed} for c in found],
                    "seconds": round(taken, 3),
                    "bits_agree": agree,
                },
                indent=2,
            )
        )
        return 0 if agree else 1
    console.print(f"self-test: {taken:.1f} s")
    return 0 if agree else 1


def shown_checks(console: Console) -> list[Check]:
    """Compare bits, and print each comparison when it is done."""
    found: list[Check] = []
    with stages(console) as stage:
        stage("comparing bits")
        for check in machine.checks():
            found.append(check)
            console.print(check_line(check), soft_wrap=True)
    return found


def linked_by() -> str:
    """The linker of executables for this machine, or advice to install one."""
    try:
        return f"linked by {' '.join(linker(aim('host'), static=False))}"
    except Error as fault:
        return str(fault)


def check_line(check: Check) -> str:
    """A comparison of bits as a line."""
    if check.differing is None:
        return f"[yellow]not compared[/]  {check.name}: {check.remark}"
    if check.differing:
        return f"[red]bits differ[/]   {check.name}: in {', '.join(check.differing)}"
    return f"[green]same bits[/]     {check.name}"


def cache_arguments(command: Parser) -> None:
    """Add the arguments of `cache`."""
    command.about = (
        "Nacre keeps compiled code on disk for the next process. nacre help environment explains how to "
        "choose the folder and its size limit."
    )
    command.add_argument("--clear", action="store_true", help="remove all compiled code")
    command.add_argument("--json", action="store_true", help="print the contents (with --clear: before it) as JSON")


def run_cache(given: argparse.Namespace, console: Console) -> int:
    """Print the contents of the code cache, or clear it."""
    kept = machine.clear_cache() if given.clear else machine.cached()
    if given.json:
        print(json.dumps({**asdict(kept), "cleared": given.clear}, indent=2))
    elif kept.directory is None:
        console.print("The code cache is off (NACRE_CACHE_DIR).")
    else:
        rows = [("folder", kept.directory), ("removed" if given.clear else "contents", str(kept))]
        layout.show(console, layout.definitions(rows, console.width, indent=0))
    return 0
