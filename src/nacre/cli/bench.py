"""`nacre bench`: well-known workloads, timed, and every kernel of them under the machine's roofline."""

from __future__ import annotations

import argparse
import json
import math
import os
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Console

from nacre.base import tree
from nacre.base.errors import ArgumentError
from nacre.cli import layout, outputs
from nacre.cli.grammar import Parser
from nacre.cli.stages import duration, stages
from nacre.cli.suggestions import require_known
from nacre.cli.tables import Table, show
from nacre.examples.workloads import WORKLOADS, Workload, chosen
from nacre.inspect import machine, roofline
from nacre.inspect.ceilings import Ceilings, measure
from nacre.inspect.profile import Profile, Row, measured
from nacre.inspect.timing import Times, interleaved
from nacre.native.pool import pool

GIGA = 1e9
LIMITS, EACH, TINY = 20, 15, 1  # seconds for the machine's limits, and to compile and profile a workload
ROWS = 12  # kernels of a workload that are shown: the slowest ones


BUSY = 0.5  # the load for each processor above which other programs are at work
OVER = 1.005  # a share of the roof that is shown as more than 100 %
WORDS = (
    ("least, median", "the shortest and the middle time of a call, in milliseconds"),
    ("spread", "how far the times differ: the distance between their quartiles, as a share of the median"),
    ("calls", "how many calls were timed"),
    ("floor", "the time that the machine's limits allow at best"),
    ("roof", "the floor divided by the least time: 100 % is the best that this machine can do"),
    ("GFLOP/s", "operations of products, and of kernels without one; what is fused behind a product is not counted"),
    ("times", "how many kernels with the same work there are"),
    ("ms", "the time of the kernels in the quickest run"),
    ("of it", "their share of the whole time"),
    ("busy", "the part of the threads' time in which they compute, instead of waiting"),
    ("without stamps", "the whole program, without the clock that times each kernel"),
)
EXAMPLES = (
    ("nacre bench mlp softmax", "time two workloads"),
    ("nacre bench --tiny", "run every workload with tiny sizes, as a quick check"),
    ("nacre bench gpt --json gpt.json --svg gpt.svg", "also write the numbers and the roofline picture"),
)


def arguments(command: Parser) -> None:
    """Add this command's arguments."""
    command.add_argument(
        "workloads", nargs="*", default=[], metavar="WORKLOAD", help=f"of {', '.join(WORKLOADS)} (default: all)"
    )
    command.add_argument(
        "--rounds",
        type=int,
        default=5,
        metavar="N",
        help="how often all workloads are timed in turn (default: %(default)s)",
    )
    command.add_argument(
        "--seconds", type=float, default=0.3, metavar="S", help="time for a workload in a round (default: %(default)s)"
    )
    command.add_argument("--tiny", action="store_true", help="use tiny sizes: a quick check that everything runs")
    command.add_argument(
        "--rows", type=int, default=ROWS, metavar="N", help="kernels to show for each workload (default: %(default)s)"
    )
    command.add_output("--json", metavar="FILE", help="also write all measurements to a file")
    command.add_output("--svg", metavar="FILE", help="also write the roofline as a picture")
    command.sections.append(("words in the tables", WORDS))


def run(given: argparse.Namespace, console: Console) -> int:
    """Time the workloads and show their kernels."""
    if given.rounds < 1 or not 0 <= given.seconds < math.inf or given.rows < 0:
        raise ArgumentError(
            "bench: positive rounds, and seconds and rows that are finite and not negative, are "
            f"required; got {given.rounds}, {given.seconds} and {given.rows}"
        )
    require_known(given.workloads, WORKLOADS, "bench: the workload")
    names = chosen(given.workloads)
    load = os.getloadavg()[0]
    layout.show(console, layout.wrapped(_expected(len(names), given), console.width))
    _warn(console, busy_before(load, pool().threads))
    with stages(console) as stage:
        made: dict[str, tuple[Callable[[], Any], Callable[[], Profile]]] = {}
        for w in names:
            stage(f"compiling {w.name}")
            made[w.name] = _made(w, given.tiny)
        stage(f"timing {len(names)} workloads in turn")
        taken = interleaved({n: call for n, (call, _) in made.items()}, given.rounds, given.seconds)
        profiles: dict[str, Profile] = {}
        for n, (_, profile) in made.items():
            stage(f"profiling {n}")
            profiles[n] = profile()
        stage("measuring the machine's limits")
        limits = measure()  # again: a disturbance of the first measurement may be over
    profiles = {n: p.under(limits) for n, p in profiles.items()}
    report(console, names, profiles, taken, given.rows, given.tiny)
    if given.json:
        outputs.write(given.json, json.dumps(document(profiles, taken), indent=1) + "\n", "bench", "--json")
    if given.svg:
        outputs.write(given.svg, roofline.chart(list(profiles.values())).svg(), "bench", "--svg")
    return 0


def report(
    console: Console,
    names: list[Workload],
    profiles: dict[str, Profile],
    taken: dict[str, Times],
    rows: int,
    tiny: bool = False,
) -> None:
    """Print the limits, the tables, a warning where the numbers disagree, and the meanings of the words."""
    limits = next(iter(profiles.values())).ceilings
    layout.show(console, layout.wrapped(ceilings_line(limits), console.width, 0, 2))
    for w in names:
        console.print()
        show(console, kernels(w, profiles[w.name], rows, tiny))
    console.print()
    show(console, totals(names, profiles, taken))
    _warn(console, busy_after(profiles, taken))
    layout.show(console, ["", *layout.definitions(WORDS, min(console.width, layout.WIDEST))])


def busy_before(load: float, processors: int) -> str | None:
    """A warning where other programs were active before the start, by the load average of the last minute."""
    if load <= BUSY * processors:
        return None
    return (
        f"warning: the machine is busy: the load average of the last minute is {load:.1f} on {processors} "
        f"processor{'s' if processors != 1 else ''}. Times may be too long."
    )


def busy_after(profiles: dict[str, Profile], taken: dict[str, Times]) -> str | None:
    """A warning where a kernel was faster than the machine's limits, which were measured too low then."""
    over = [
        n
        for n, p in profiles.items()
        if p.floor > OVER * taken[n].least or p.share > OVER or any(r.share > OVER for r in p.rows)
    ]
    if not over:
        return None
    return (
        f"warning: shares of the roof above 100 % in {', '.join(over)}: the machine was busy while its limits were "
        "measured. Run this again when it is idle."
    )


def _warn(console: Console, text: str | None) -> None:
    if text is not None:
        layout.show(console, layout.wrapped(text, console.width), "yellow")


def _expected(count: int, given: argparse.Namespace) -> str:
    """The number of workloads, and about how long they take."""
    seconds = LIMITS + count * (given.rounds * given.seconds + (TINY if given.tiny else EACH))
    return f"{count} workload{'s' if count != 1 else ''}: {duration(seconds)}"


def _made(workload: Workload, tiny: bool) -> tuple[Callable[[], Any], Callable[[], Profile]]:
    """A workload's call, and the function that profiles it."""
    function, given = workload.ready(tiny)

    def call() -> Any:
        return tree.flatten(function(*given))[0][0]

    return call, lambda: measured(workload.name, function.prepare(*given), 10)


def ceilings_line(limits: Ceilings) -> str:
    """The machine's limits as a line."""
    steps = ", ".join(f"{_size(n)}: {rate / GIGA:.0f}" for n, rate in limits.bandwidths)
    return (
        f"Limits of this machine ({limits.isa}, threads: {limits.threads}): float32 "
        f"{limits.flops['f32'] / GIGA:.0f} GFLOP/s, float64 {limits.flops['f64'] / GIGA:.0f} GFLOP/s; GB/s by size "
        f"of the data: {steps}"
    )


def _size(nbytes: int) -> str:
    return f"{nbytes >> 20} MiB" if nbytes >= 1 << 20 else f"{nbytes >> 10} KiB"


def kernels(workload: Workload, profiled: Profile, limit: int, tiny: bool = False) -> Table:
    """A workload's kernels, the slowest first, equal ones on one line; the last lines are totals."""
    table = Table(
        f"{workload.name}: {workload.tiny if tiny else workload.title}",
        "kernel",
        ("times", "ms", "median", "of it", "GFLOP/s", "GB/s", "roof", "busy"),
    )
    ranked = sorted(_same_work(profiled.rows), key=lambda rows: -sum(r.seconds for r in rows))
    for rows in ranked[:limit]:
        spent, floor = sum(r.seconds for r in rows), sum(r.floor for r in rows)
        table.add(
            rows[0].label,
            str(len(rows)),
            _ms(spent),
            _ms(sum(r.typical for r in rows)),
            f"{spent / profiled.walked:.0%}",
            _giga(sum(r.flops for r in rows), spent),
            _giga(sum(r.bytes for r in rows), spent),
            f"{floor / spent:.0%}",
            f"{sum(r.busy * r.seconds for r in rows) / spent:.0%}",
        )
    rest = [r for rows in ranked[limit:] for r in rows]
    if rest:
        spent = sum(r.seconds for r in rest)
        table.add("the rest", str(len(rest)), _ms(spent), "", f"{spent / profiled.walked:.0%}")
    table.rule()
    table.add(
        "all kernels",
        str(len(profiled.rows)),
        _ms(profiled.walked),
        "",
        "",
        _giga(profiled.flops, profiled.walked),
        _giga(profiled.bytes, profiled.walked),
    )
    table.add(
        "without stamps",
        "",
        _ms(profiled.whole),
        _ms(profiled.typical),
        "",
        _giga(profiled.flops, profiled.whole),
        "",
        f"{profiled.share:.0%}",
    )
    return table


def _ms(seconds: float) -> str:
    """Milliseconds in four digits."""
    return f"{seconds * 1e3:.0f}" if seconds >= 1 else f"{seconds * 1e3:#.4g}".rstrip(".")


def _giga(amount: float, seconds: float) -> str:
    return f"{amount / seconds / GIGA:.1f}"


def _same_work(rows: Sequence[Row]) -> list[list[Row]]:
    """Groups of kernels that do the same work under the same name, as in the layers of a network."""
    found: dict[tuple[str, int, int], list[Row]] = {}
    for r in rows:
        if r.seconds:
            found.setdefault((r.label, r.flops, r.bytes), []).append(r)
    return list(found.values())


def totals(names: list[Workload], profiles: dict[str, Profile], taken: dict[str, Times]) -> Table:
    """A line for each workload: its calls' times, and how near they are to the floor."""
    table = Table("Calls from Python, ms", "workload", ("least", "median", "spread", "calls", "floor", "roof"))
    for w in names:
        t, p = taken[w.name], profiles[w.name]
        table.add(
            w.name,
            _ms(t.least),
            _ms(t.median),
            f"{t.spread:.0%}",
            str(len(t.seconds)),
            _ms(p.floor),
            f"{p.floor / t.least:.0%}",
        )
    return table


def document(profiles: dict[str, Profile], taken: dict[str, Times]) -> dict[str, Any]:
    """All measurements, as JSON."""

    def entry(name: str, p: Profile) -> dict[str, Any]:
        t = taken[name]
        rows = [{**asdict(r), "share": r.share} for r in p.rows]
        return {
            "least": t.least,
            "median": t.median,
            "spread": t.spread,
            "calls": len(t.seconds),
            "floor": p.floor,
            "flops": p.flops,
            "bytes": p.bytes,
            "traffic": p.traffic,
            "walked": p.walked,
            "stamped": p.stamped,
            "whole": p.whole,
            "typical": p.typical,
            "kernels": rows,
        }

    limits = next(iter(profiles.values())).ceilings
    entries = {n: entry(n, p) for n, p in profiles.items()}
    return {"machine": machine.facts(), "ceilings": asdict(limits), "workloads": entries}
