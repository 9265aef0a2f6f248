"""Writes how near the networks of `nacre bench` come to the roofline, kernel by kernel, into docs/performance.md.

    python3 run.py bench networks BENCH.json ... --processor NAME
    python3 run.py bench networks            # the page once more, from docs/figures/networks.json

Each BENCH.json comes from `nacre bench NETWORK ... --json BENCH.json`, all on one machine.  The floors of all of them
are those of the highest limits that one of them measured.  docs/figures/networks.json holds what the page shows, for
each processor.  `causes.toml` says why kernels of a kind stay below their roof: a kernel that takes more than a
twentieth of a step and reaches less than 70 % of its roof must have a cause there.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tomllib
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from nacre.base.errors import ArgumentError
from nacre.examples.workloads import WORKLOADS
from nacre.examples.workloads.networks import NETWORKS
from nacre.inspect.ceilings import Ceilings

ROOT = Path(__file__).parents[1]
DATA, PAGE = ROOT / "docs" / "figures" / "networks.json", ROOT / "docs" / "performance.md"
CAUSES = Path(__file__).with_name("causes.toml")
LARGE, NEAR = 0.05, 0.7  # the part of a step from which a kernel is shown; the share of the roof that needs no cause


# ---- what is kept of results


def highest(found: Sequence[Ceilings]) -> Ceilings:
    """The highest limits of several measurements of one machine."""
    flops = {dtype: max(c.flops[dtype] for c in found) for dtype in found[0].flops}
    sizes = [size for size, _ in found[0].bandwidths]
    rates = [max(dict(c.bandwidths)[size] for c in found) for size in sizes]
    return Ceilings(found[0].isa, found[0].threads, flops, tuple(zip(sizes, rates, strict=True)))


def limits(document: dict[str, Any]) -> Ceilings:
    """The limits in a report of `nacre bench`."""
    found = document["ceilings"]
    return Ceilings(found["isa"], found["threads"], found["flops"], tuple((n, r) for n, r in found["bandwidths"]))


def kept(documents: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """What the page shows of a processor's reports; of a network in several of them, the quickest run."""
    roof = highest([limits(d) for d in documents])
    entries: dict[str, dict[str, Any]] = {}
    for name in (w.name for w in NETWORKS):
        runs = [d["workloads"][name] for d in documents if name in d["workloads"]]
        if runs:
            entries[name] = network(min(runs, key=lambda r: r["whole"]), roof)
    if not entries:
        raise ArgumentError("networks: reports of `nacre bench` with one of the networks are required; got none")
    rates = ", ".join(f"{size >> 10:,} KiB {rate / 1e9:.0f}" for size, rate in roof.bandwidths)
    told = (
        f"{roof.isa}, {roof.threads} threads: {roof.flops['f32'] / 1e9:.0f} GFLOP/s in float32; GB/s by bytes: {rates}"
    )
    return {"limits": told, "networks": entries}


def network(run: dict[str, Any], roof: Ceilings) -> dict[str, Any]:
    """A network's least time of a call or a profiled run, its floor, in milliseconds, and its large kernels.

    Kernels of one kind are one.
    """
    rows = [{**r, "floor": roof.floor(r["flops"], r["bytes"], r["dtype"])} for r in run["kernels"] if r["seconds"]]
    main = max(rows, key=lambda r: r["flops"])["dtype"]
    kinds = [list(same) for _, same in groupby(sorted(rows, key=kind), kind)]
    spent = {id(same): sum(r["seconds"] for r in same) for same in kinds}
    large = [s for s in kinds if spent[id(s)] > LARGE * run["walked"]]
    return {
        "least": round(min(run["least"], run["whole"]) * 1e3, 3),
        "floor": round(roof.floor(run["flops"], run["traffic"], main) * 1e3, 3),
        "by kernels": round(sum(r["floor"] for r in rows) / run["walked"], 3),
        "kernels": [
            {
                "kind": same[0]["label"],
                "times": len(same),
                "part": round(spent[id(same)] / run["walked"], 3),
                "share": round(sum(r["floor"] for r in same) / spent[id(same)], 3),
            }
            for same in sorted(large, key=lambda s: -spent[id(s)])
        ],
    }


def kind(row: dict[str, Any]) -> str:
    """What makes kernels one row of the page."""
    return row["label"]


# ---- the page


def causes() -> list[tuple[re.Pattern[str], str]]:
    """The causes in their order: the first whose expression is found in a kernel's name counts."""
    found = tomllib.loads(CAUSES.read_text(encoding="utf-8"))["cause"]
    return [(re.compile(c["kernels"]), c["text"]) for c in found]


def cause(name: str, kernel: dict[str, Any], known: Sequence[tuple[re.Pattern[str], str]]) -> str:
    """Why a kernel stays below its roof, or nothing where it is near."""
    if kernel["share"] >= NEAR:
        return ""
    for expression, text in known:
        if expression.search(f"{name}: {kernel['kind']}"):
            return text
    raise ArgumentError(
        f"networks: a cause in {CAUSES.name} is required for {kernel['kind']} of {name}, which takes "
        f"{kernel['part']:.0%} of it and reaches {kernel['share']:.0%} of its roof; got none"
    )


def tables(found: dict[str, Any]) -> Iterator[str]:
    """The tables of a processor, in Markdown."""
    yield from ["", "| network | least, ms | floor, ms | share | kernel by kernel |", "|---|---|---|---|---|"]
    for name, n in found["networks"].items():
        yield (
            f"| `{name}`: {WORKLOADS[name].title} | {digits(n['least'])} | {digits(n['floor'])} | "
            f"{n['floor'] / n['least']:.0%} | {n['by kernels']:.0%} |"
        )
    yield from ["", f"Limits ({found['limits']}).", ""]
    yield from ["| network | kernel | times | of it | roof | cause below 70 % |", "|---|---|---|---|---|---|"]
    known = causes()
    for name, n in found["networks"].items():
        for k in n["kernels"]:
            line = f"`{short(k['kind'])}` | {k['times']} | {k['part']:.0%} | {k['share']:.0%} | {cause(name, k, known)}"
            yield f"| {name} | {line} |"


def short(label: str) -> str:
    """The name of a kernel without the middle of a long one."""
    parts = label.split("+")
    return label if len(parts) <= 6 else "+".join([*parts[:3], "…", *parts[-2:]])


def digits(x: float) -> str:
    """Three digits, without an exponent."""
    return f"{x:.0f}" if x >= 100 else f"{x:.3g}"


def page(text: str, data: dict[str, Any]) -> str:
    """The performance page with the tables of all processors between its markers."""
    lines = [line for processor, found in data.items() for line in ("", f"### {processor}", *tables(found))]
    return re.sub(
        r"(<!-- networks -->\n).*?(<!-- networks end -->)",
        lambda m: m[1] + "\n".join([*lines, "", m[2]]),
        text,
        flags=re.DOTALL,
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Keep what the given reports hold, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("reports", type=Path, nargs="*")
    parser.add_argument("--processor", help="what was measured, such as 'Two Zen 4 cores (AVX-512), two threads'")
    given = parser.parse_args(arguments)
    if given.reports and not given.processor:
        parser.error("reports need --processor NAME, which says what they were measured on")
    data = json.loads(DATA.read_text(encoding="utf-8")) if DATA.exists() else {}
    if given.reports:
        data[given.processor] = kept([json.loads(path.read_text(encoding="utf-8")) for path in given.reports])
        DATA.write_text(json.dumps(data, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8"), data), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
