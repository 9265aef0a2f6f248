"""Writes the results of the side-by-side benchmark into the documents.

    python benchmarks/report.py RESULTS.json ... [--roofline BENCH.json]

Each RESULTS.json is what the benchmark left of timed cases or of fresh processes, BENCH.json what `nacre bench --json`
wrote on the same machine.  The tables go between the `measured` markers of docs/performance.md and
README.md, and say how much faster Nacre is than the best other.  With a roofline each case also gets its floor: the
time that its floating-point operations, inputs and outputs take at least, and how near to it Nacre comes.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
TITLES = {
    "W1": "training step of a 784-512-512-10 MLP, batch 128, Adam", "W2": "training step of a small convnet, batch 64",
    "W3.b1": "ResNet-18 inference, batch 1", "W3.b8": "ResNet-18 inference, batch 8",
    "W4": "training step of a 6-layer GPT, 8 × 256 tokens, AdamW", "W5": "GPT-2-small prefill, 256 tokens",
    "W6.f32": "GPT-2-small, one token after 256", "W6.int8": "the same, int8 weights",
    "W7.chain": "ten pointwise operations on 10 M elements", "W7.softmax": "softmax 4096 × 1024",
    "W7.layernorm": "layer norm 4096 × 768", "W8.mm1024": "matrix product 1024³", "W8.mm2048": "matrix product 2048³",
    "W8.attn": "causal attention, 8 × 6 heads, 256 × 64", "W8.attn_bwd": "the same, forward and backward",
    "W9.add": "eager addition of 4 elements", "W9.add_grad": "the same, recording gradients",
    "W9.jit": "call of a tiny compiled function",
}
UNITS = {"W9": "µs"}
OURS = "nacre"  # how the names of our own contenders begin
BUILT_IN = {  # the workloads of `nacre bench` that do the same work
    "W1": "mlp", "W2": "convnet", "W3.b1": "resnet18", "W3.b8": "resnet18-8", "W4": "gpt", "W5": "prefill",
    "W6.f32": "decode", "W6.int8": "decode-int8", "W7.chain": "chain", "W7.softmax": "softmax",
    "W7.layernorm": "layernorm", "W8.mm1024": "matmul-1024", "W8.mm2048": "matmul-2048", "W8.attn": "attention",
    "W8.attn_bwd": "attention-gradient",
}


def short(name: str) -> str:
    """The name of a contender without its place."""
    return name.partition("@")[0]


def cell(result: dict[str, Any]) -> str:
    """min / median of one contender in one case."""
    if "min" not in result:
        return "–"
    return f"{figure(result['min'])} / {figure(result['median'])}" if result["ok"] else "wrong"


def figure(x: float) -> str:
    """Three digits, without an exponent."""
    return f"{x:.0f}" if x >= 100 else f"{x:.3g}"


def timed(results: dict[str, Any], floors: dict[str, float]) -> list[str]:
    """The table of timed cases, min / median; with floors in seconds by workload, two columns more."""
    names = sorted(results["versions"], key=lambda n: short(n).startswith(OURS))
    heads = [f"{short(n)} {v.partition('-')[0]}" if (v := results["versions"][n]) else short(n) for n in names]
    ours = [short(n) for n in names if short(n).startswith(OURS)]
    heads += [f"speed of {n} over the best other, min (median)" for n in ours]
    heads += ["floor", "of the roof"] if floors else []
    lines = ["| case | " + " | ".join(heads) + " |", "|---|" + "---|" * len(heads)]
    for case in sorted(results["cases"], key=lambda c: list(TITLES).index(c) if c in TITLES else len(TITLES)):
        row = results["cases"][case]
        unit = UNITS.get(case.split(".")[0], "ms")
        good = {short(n): r for n, r in row.items() if "min" in r and r["ok"]}
        cells = [cell(row.get(n, {})) for n in names] + [speed(good, n) for n in ours]
        if floors:
            cells += against(good.get("nacre"), floors.get(BUILT_IN.get(case, "")))
        lines.append(f"| {TITLES.get(case, case)}, {unit} | " + " | ".join(cells) + " |")
    return lines


def speed(good: dict[str, dict[str, Any]], name: str) -> str:
    """How much faster one of ours is than the best other, by the least time and by the median."""
    others = [r for n, r in good.items() if not n.startswith(OURS)]
    if name not in good or not others:
        return "–"
    return " (".join(f"{min(r[k] for r in others) / good[name][k]:.2f}" for k in ("min", "median")) + ")"


def against(nacre: dict[str, Any] | None, floor: float | None) -> list[str]:
    """A case's floor in milliseconds, and the part of the roof that Nacre's least time reaches."""
    if floor is None:
        return ["–", "–"]
    return [figure(floor * 1e3), "–" if nacre is None else f"{floor * 1e3 / nacre['min']:.0%}"]


def roof(bench: dict[str, Any]) -> list[str]:
    """What the floors were computed from."""
    limits = bench["ceilings"]
    rates = ", ".join(f"{n >> 20} MiB {r / 1e9:.0f}" if n >= 1 << 20 else f"{n >> 10} KiB {r / 1e9:.0f}"
                      for n, r in limits["bandwidths"])
    peak = limits["flops"]["f32"] / 1e9
    return [f"Floors: {peak:.0f} GFLOP/s in float32; by the bytes that move, in GB/s: {rates}."]


def fresh(results: dict[str, Any]) -> list[str]:
    """The table of fresh processes: import, first results of training steps, most memory that a process took."""
    steps = {"W1": "MLP", "W4": "GPT"}
    names = [f"first result of the {title} step, s: nothing cached / cached | MiB" for title in steps.values()]
    lines = [f"| | import s | {' | '.join(names)} |", "|---|---|" + "---|---|" * len(steps)]
    for name, found in results["fresh"].items():
        cells = [f"{min(found.get('import_s', [math.nan])):.2f}"]
        for case in steps:
            runs = {t: [r for r in found.get(f"{case}.{t}", []) if "time_to_first" in r] for t in ("cold", "warm")}
            firsts = [min((r["time_to_first"] for r in runs[t]), default=math.nan) for t in ("cold", "warm")]
            peak = max((r["peak_mib"] for r in runs["cold"] + runs["warm"]), default=math.nan)
            cells += [f"{firsts[0]:.2f} / {firsts[1]:.2f}", f"{peak:.0f}"]
        lines.append(f"| {short(name)} | {' | '.join(cells)} |")
    return lines


def write(path: Path, lines: list[str]) -> None:
    """Replace what stands between a document's markers."""
    text = path.read_text(encoding="utf-8")
    found = re.sub(r"(<!-- measured -->\n).*?(<!-- end -->)", lambda m: m[1] + "\n".join(lines) + "\n" + m[2], text,
                   flags=re.DOTALL)
    path.write_text(found, encoding="utf-8")


def main() -> int:
    """Write the tables of the given result files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path, nargs="+")
    parser.add_argument("--roofline", type=Path)
    given = parser.parse_args()
    results: dict[str, Any] = {"cases": {}, "versions": {}, "fresh": {}}
    for path in given.results:
        for key, found in json.loads(path.read_text(encoding="utf-8")).items():
            results[key] |= found
    started = ["", *fresh(results)] if results["fresh"] else []
    bench = json.loads(given.roofline.read_text(encoding="utf-8")) if given.roofline else None
    floors = {n: w["floor"] for n, w in bench["workloads"].items()} if bench else {}
    noted = ["", *roof(bench)] if bench else []
    write(ROOT / "README.md", ["", *timed(results, {}), *started, ""])
    write(ROOT / "docs" / "performance.md", ["", *timed(results, floors), *noted, *started, ""])
    return 0


if __name__ == "__main__":
    sys.exit(main())
