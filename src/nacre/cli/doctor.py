"""`nacre doctor` and `nacre cache`: the machine, the installation, the kept code, and whether the bits agree."""

from __future__ import annotations

import argparse

from rich.console import Console
from rich.table import Table

from nacre import __version__
from nacre.inspect import machine
from nacre.inspect.machine import Check
from nacre.runtime.buffer import readable


def version_line() -> str:
    """What `nacre --version` prints."""
    return f"nacre {__version__}"


def run(given: argparse.Namespace, console: Console) -> int:
    """Print the facts and the checks; 1 where bits differ."""
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    for name, value in machine.facts().items():
        table.add_row(name, value)
    console.print(table)
    console.print()
    failed = 0
    for check in machine.checks():
        console.print(check_line(check))
        failed += not check.passed
    return 1 if failed else 0


def check_line(check: Check) -> str:
    """A comparison of bits as a line."""
    if check.differing is None:
        return f"[yellow]not compared[/]  {check.name}: {check.remark}"
    if check.differing:
        return f"[red]bits differ[/]   {check.name}: in {', '.join(check.differing)}"
    return f"[green]same bits[/]     {check.name}"


def run_cache(given: argparse.Namespace, console: Console) -> int:
    """Print what the code cache holds, or clear it."""
    kept = machine.clear_cache() if given.clear else machine.cached()
    if kept.directory is None:
        console.print("The code cache is off (NACRE_CACHE_DIR).")
        return 0
    what = f"{kept.files} objects, {readable(kept.nbytes)}"
    console.print(f"Removed {what} from {kept.directory}" if given.clear else f"{kept.directory}: {what}")
    return 0
