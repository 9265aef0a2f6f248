"""`nacre bench`: well-known workloads, timed, and every kernel of them under the machine's roofline."""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from nacre.base import tree
from nacre.base.errors import ArgumentError, DeviceError
from nacre.cli.stages import duration, stages
from nacre.cli.tables import numbers, show
from nacre.inspect import machine, roofline
from nacre.inspect.ceilings import Ceilings, measure
from nacre.inspect.profile import Profile, Row, measured
from nacre.inspect.timing import Times, interleaved
from nacre.inspect.workloads import WORKLOADS, Workload, chosen

GIGA = 1e9
LIMITS, EACH, TINY = 20, 15, 1  # seconds for the machine's limits, and to compile and profile a workload
ROWS = 12  # kernels of a workload that are shown, those that take longest


def arguments(command: argparse.ArgumentParser) -> None:
    """Add this command's arguments."""
    command.add_argument("workloads", nargs="*", metavar="WORKLOAD", help=f"of {', '.join(WORKLOADS)} (default: all)")
    command.add_argument("--rounds", type=int, default=5, metavar="N", help="rounds (default: %(default)s)")
    command.add_argument("--seconds", type=float, default=0.3, metavar="S",
                         help="time for a workload in a round (default: %(default)s)")
    command.add_argument("--tiny", action="store_true", help="tiny sizes: to see that everything runs")
    command.add_argument("--rows", type=int, default=ROWS, metavar="N",
                         help="kernels to show of each workload (default: %(default)s)")
    command.add_argument("--json", type=Path, metavar="FILE", help="also write all that was measured to a file")
    command.add_argument("--svg", type=Path, metavar="FILE", help="also write the roofline as a picture")


def run(given: argparse.Namespace, console: Console) -> int:
    """Time the workloads and show their kernels."""
    if given.rounds < 1 or not 0 <= given.seconds < math.inf or given.rows < 0:
        raise ArgumentError("bench: positive rounds, and seconds and rows that are finite and not negative, are "
                            f"required; got {given.rounds}, {given.seconds} and {given.rows}")
    names = chosen(given.workloads)
    console.print(_expected(len(names), given))
    with stages(console) as stage:
        made: dict[str, tuple[Callable[[], Any], Callable[[], Profile]]] = {}
        for w in names:
            stage(f"compiling {w.name}")
            made[w.name] = _made(w, given.tiny)
        stage(f"timing {len(names)} workloads in turn")
        taken = interleaved({n: call for n, (call, _) in made.items()}, given.rounds, given.seconds)
        told: dict[str, Profile] = {}
        for n, (_, profile) in made.items():
            stage(f"profiling {n}")
            told[n] = profile()
        stage("measuring the machine's limits")
        limits = measure()  # once more: what disturbed the machine the first time may have gone
    told = {n: p.under(limits) for n, p in told.items()}
    console.print(ceilings_line(limits), soft_wrap=True)
    for w in names:
        console.print()
        show(console, kernels(w, told[w.name], given.rows))
    console.print()
    show(console, totals(names, told, taken))
    if given.json:
        _write(given.json, json.dumps(document(told, taken), indent=1) + "\n")
    if given.svg:
        _write(given.svg, roofline.chart(list(told.values())).svg())
    return 0


def _expected(count: int, given: argparse.Namespace) -> str:
    """What is to come, and about how long it takes."""
    seconds = LIMITS + count * (given.rounds * given.seconds + (TINY if given.tiny else EACH))
    return f"{count} workload{'s' if count != 1 else ''}: {duration(seconds)}"


def _made(workload: Workload, tiny: bool) -> tuple[Callable[[], Any], Callable[[], Profile]]:
    """A workload's call, and what profiles it."""
    function, given = workload.ready(tiny)

    def call() -> Any:
        return tree.flatten(function(*given))[0][0]

    return call, lambda: measured(workload.name, function.prepare(*given), 10)


def ceilings_line(limits: Ceilings) -> str:
    """The machine's limits as a line."""
    steps = ", ".join(f"{_size(n)} {rate / GIGA:.0f}" for n, rate in limits.bandwidths)
    return (f"{limits.isa}, threads: {limits.threads}; float32 {limits.flops['f32'] / GIGA:.0f} GFLOP/s, float64 "
            f"{limits.flops['f64'] / GIGA:.0f}; GB/s by size: {steps}")


def _size(nbytes: int) -> str:
    return f"{nbytes >> 20} MiB" if nbytes >= 1 << 20 else f"{nbytes >> 10} KiB"


def kernels(workload: Workload, told: Profile, limit: int) -> Table:
    """A workload's kernels, the longest first, equal ones on one line; the last lines are the whole."""
    table = numbers(f"{workload.name}: {workload.title}", "kernel",
                    ("times", "ms", "median", "of it", "GFLOP/s", "GB/s", "roof", "busy"))
    ranked = sorted(_alike(told.rows), key=lambda rows: -sum(r.seconds for r in rows))
    for rows in ranked[:limit]:
        spent, floor = sum(r.seconds for r in rows), sum(r.floor for r in rows)
        table.add_row(rows[0].label, str(len(rows)), _ms(spent), _ms(sum(r.typical for r in rows)),
                      f"{spent / told.walked:.0%}", _giga(sum(r.flops for r in rows), spent),
                      _giga(sum(r.bytes for r in rows), spent), f"{floor / spent:.0%}",
                      f"{sum(r.busy * r.seconds for r in rows) / spent:.0%}")
    rest = [r for rows in ranked[limit:] for r in rows]
    if rest:
        spent = sum(r.seconds for r in rest)
        table.add_row("the rest", str(len(rest)), _ms(spent), "", f"{spent / told.walked:.0%}")
    table.add_section()
    table.add_row("all kernels", str(len(told.rows)), _ms(told.walked), "", "",
                  _giga(told.flops, told.walked), _giga(told.bytes, told.walked))
    table.add_row("without stamps", "", _ms(told.whole), _ms(told.typical), "",
                  _giga(told.flops, told.whole), "", f"{told.share:.0%}")
    return table


def _ms(seconds: float) -> str:
    """Milliseconds in four digits."""
    return f"{seconds * 1e3:.0f}" if seconds >= 1 else f"{seconds * 1e3:#.4g}".rstrip(".")


def _giga(amount: float, seconds: float) -> str:
    return f"{amount / seconds / GIGA:.1f}"


def _alike(rows: Sequence[Row]) -> list[list[Row]]:
    """Kernels that do the same work under the same name, as the layers of a network have them."""
    found: dict[tuple[str, int, int], list[Row]] = {}
    for r in rows:
        if r.seconds:
            found.setdefault((r.label, r.flops, r.bytes), []).append(r)
    return list(found.values())


def totals(names: list[Workload], told: dict[str, Profile], taken: dict[str, Times]) -> Table:
    """A line for each workload: its calls' times, and how near they are to the floor."""
    table = numbers("Calls from Python, ms", "workload", ("least", "median", "spread", "calls", "floor", "roof"))
    for w in names:
        t, p = taken[w.name], told[w.name]
        table.add_row(w.name, _ms(t.least), _ms(t.median), f"{t.spread:.0%}", str(len(t.seconds)), _ms(p.floor),
                      f"{p.floor / t.least:.0%}")
    return table


def document(told: dict[str, Profile], taken: dict[str, Times]) -> dict[str, Any]:
    """All that was measured, as JSON."""
    def entry(name: str, p: Profile) -> dict[str, Any]:
        t = taken[name]
        rows = [{**asdict(r), "share": r.share} for r in p.rows]
        return {"least": t.least, "median": t.median, "spread": t.spread, "calls": len(t.seconds), "floor": p.floor,
                "flops": p.flops, "bytes": p.bytes, "walked": p.walked, "stamped": p.stamped, "whole": p.whole,
                "typical": p.typical, "kernels": rows}

    limits = next(iter(told.values())).ceilings
    entries = {n: entry(n, p) for n, p in told.items()}
    return {"machine": machine.facts(), "ceilings": asdict(limits), "workloads": entries}


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as fault:
        raise DeviceError(f"bench: a file that can be written is required; got {path}: {fault.strerror}; "
                          "name another") from None
