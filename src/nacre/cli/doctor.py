"""`nacre doctor` and `nacre cache`: the machine, the installation, the kept code, and whether the bits agree."""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import asdict

from rich.console import Console
from rich.table import Table

from nacre import __version__
from nacre.base.errors import Error
from nacre.deploy.link import linker
from nacre.deploy.target import aim
from nacre.inspect import machine
from nacre.inspect.machine import Check


def version_line() -> str:
    """What `nacre --version` prints."""
    return f"nacre {__version__}"


def arguments(command: argparse.ArgumentParser) -> None:
    """Add the arguments of `doctor`."""
    command.description = (f"{command.description} The self-test takes a second or two; exit status 1 where bits "
                           "differ.")
    command.add_argument("--json", action="store_true", help="tell it all as JSON")


def run(given: argparse.Namespace, console: Console) -> int:
    """Print the facts and the checks; 1 where bits differ."""
    facts = {**machine.facts(), "executables": linked_by()}
    if not given.json:
        table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
        for name, value in facts.items():
            table.add_row(name, value)
        console.print(table)
        console.print()
    start = time.perf_counter()
    found = machine.checks()
    taken = time.perf_counter() - start
    agree = all(check.passed for check in found)
    if given.json:
        print(json.dumps({"facts": facts, "checks": [{**asdict(c), "passed": c.passed} for c in found],
                          "seconds": round(taken, 3), "bits_agree": agree}, indent=2))
        return 0 if agree else 1
    for check in found:
        console.print(check_line(check))
    console.print(f"self-test: {taken:.1f} s")
    return 0 if agree else 1


def linked_by() -> str:
    """What links executables for this machine, or what to install for it."""
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


def cache_arguments(command: argparse.ArgumentParser) -> None:
    """Add the arguments of `cache`."""
    command.description = (f"{command.description} NACRE_CACHE_DIR says where it is (off: nowhere), NACRE_CACHE_SIZE "
                           "how large it may get (200M, 1G); what was used longest ago goes first.")
    command.add_argument("--clear", action="store_true", help="remove it all")
    command.add_argument("--json", action="store_true", help="tell what is, or was, there as JSON")


def run_cache(given: argparse.Namespace, console: Console) -> int:
    """Print what the code cache holds, or clear it."""
    kept = machine.clear_cache() if given.clear else machine.cached()
    if given.json:
        print(json.dumps({**asdict(kept), "cleared": given.clear}, indent=2))
    elif kept.directory is None:
        console.print("The code cache is off (NACRE_CACHE_DIR).")
    else:
        console.print(f"Removed {kept} from {kept.directory}" if given.clear else f"{kept.directory}: {kept}",
                      soft_wrap=True)
    return 0
