"""Writes the results of the side-by-side benchmark into the documents.

    python benchmarks/report.py RESULTS.json [FRESH.json]

RESULTS.json is what the benchmark left for its timed cases, FRESH.json for its fresh processes.  The tables go between
the `measured` markers of docs/performance.md and README.md, and say how often faster Nacre is than the best other.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
TITLES = {
    "W1": "training step of a 784-512-512-10 MLP, batch 128, Adam", "W2": "training step of a small convnet, batch 64",
    "W3.b1": "ResNet-18 inference, batch 1", "W3.b8": "ResNet-18 inference, batch 8",
    "W4": "training step of a 6-layer GPT, 8 × 256 tokens, AdamW", "W5": "GPT-2-small prefill, 256 tokens",
    "W7.chain": "ten pointwise operations on 10 M elements", "W7.softmax": "softmax 4096 × 1024",
    "W7.layernorm": "layer norm 4096 × 768", "W8.mm1024": "matrix product 1024³", "W8.mm2048": "matrix product 2048³",
    "W8.attn": "causal attention, 8 × 6 heads, 256 × 64", "W8.attn_bwd": "the same, forward and backward",
    "W9.add": "eager addition of 4 elements", "W9.add_grad": "the same, recording gradients",
    "W9.jit": "call of a tiny compiled function",
}
UNITS = {"W9": "µs"}


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


def timed(results: dict[str, Any]) -> list[str]:
    """The table of timed cases, min / median."""
    names = list(results["versions"])
    shown = [f"{short(n)} {v}" if (v := results["versions"][n]) else short(n) for n in names]
    head = "| case | " + " | ".join(shown) + " | speed over the best other, min (median) |"
    lines = [head, "|---|" + "---|" * (len(names) + 1)]
    for case, row in results["cases"].items():
        unit = UNITS.get(case.split(".")[0], "ms")
        good = {short(n): r for n, r in row.items() if "min" in r and r["ok"]}
        others = [r for n, r in good.items() if n != "nacre"]
        ratio = "–"
        if "nacre" in good and others:
            ratio = " (".join(f"{min(r[k] for r in others) / good['nacre'][k]:.2f}" for k in ("min", "median")) + ")"
        cells = [cell(row.get(n, {})) for n in names]
        lines.append(f"| {TITLES.get(case, case)}, {unit} | " + " | ".join(cells) + f" | {ratio} |")
    return lines


def fresh(results: dict[str, Any]) -> list[str]:
    """The table of fresh processes: import, first result, peak memory."""
    head = "| | import s | first result of the MLP step, s: nothing cached / cached | peak MiB |"
    lines = [head, "|---|---|---|---|"]
    for name, found in results["fresh"].items():
        low = {}
        for temperature in ("cold", "warm"):
            runs = [r for r in found.get(f"W1.{temperature}", []) if "time_to_first" in r]
            low[temperature] = min((r["time_to_first"] for r in runs), default=float("nan"))
            peak = min((r["peak_mib"] for r in runs), default=float("nan"))
        imported = min(found.get("import_s", [float("nan")]))
        lines.append(f"| {short(name)} | {imported:.2f} | {low['cold']:.2f} / {low['warm']:.2f} | {peak:.0f} |")
    return lines


def write(path: Path, lines: list[str]) -> None:
    """Replace what stands between a document's markers."""
    text = path.read_text()
    found = re.sub(r"(<!-- measured -->\n).*?(<!-- end -->)", lambda m: m[1] + "\n".join(lines) + "\n" + m[2], text,
                   flags=re.DOTALL)
    path.write_text(found)


def main() -> int:
    """Write the tables of the given result files."""
    if not 2 <= len(sys.argv) <= 3:
        print(__doc__)
        return 2
    lines = ["", *timed(json.loads(Path(sys.argv[1]).read_text())), ""]
    if len(sys.argv) == 3:
        lines += [*fresh(json.loads(Path(sys.argv[2]).read_text())), ""]
    for name in ("docs/performance.md", "README.md"):
        write(ROOT / name, lines)
    return 0


if __name__ == "__main__":
    sys.exit(main())
