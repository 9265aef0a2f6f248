"""Writes the results of the side-by-side benchmark into docs/performance.md, and draws the chart of the front page.

    python benchmarks/report.py RESULTS.json ... --processor NAME [--roofline BENCH.json]
    python benchmarks/report.py             # the page and the chart once more, from docs/figures/speed.json

Each RESULTS.json comes from the benchmark: timed cases, or fresh processes.  BENCH.json comes from `nacre bench
--json` on the same machine.  What they hold of a processor is kept in docs/figures/speed.json.  The tables of all
processors go between the `measured` markers of docs/performance.md.  With a roofline each case also has its floor:
the least time that its floating-point operations, inputs and outputs take.  The chart, docs/figures/speed.svg, shows
how much faster Nacre is than the best other framework, on the first processor.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
FIGURES = ROOT / "docs" / "figures"
GROUPS = {  # tables, their unit, and their columns
    "Training steps": (
        "ms",
        {
            "W1": "784-512-512-10 MLP, batch 128, Adam",
            "W2": "small convnet, batch 64",
            "W4": "6-layer GPT, 8 × 256 tokens, AdamW",
        },
    ),
    "ResNet-18, inference": ("ms", {"W3.b1": "batch 1", "W3.b8": "batch 8"}),
    "GPT-2-small, inference": (
        "ms",
        {"W5": "prefill, 256 tokens", "W6.f32": "one token after 256", "W6.int8": "the same, int8 weights"},
    ),
    "Operations that move memory": (
        "ms",
        {
            "W7.chain": "ten pointwise operations, 10 M elements",
            "W7.softmax": "softmax, 4096 × 1024",
            "W7.layernorm": "layer norm, 4096 × 768",
        },
    ),
    "Matrix products and attention": (
        "ms",
        {
            "W8.mm1024": "product 1024³",
            "W8.mm2048": "product 2048³",
            "W8.attn": "causal attention, 8 × 6 heads, 256 × 64",
            "W8.attn_bwd": "the same, forward and backward",
        },
    ),
    "Calls": (
        "µs",
        {
            "W9.add": "eager addition of 4 elements",
            "W9.add_grad": "the same, recording gradients",
            "W9.jit": "call of a tiny compiled function",
        },
    ),
}
STEPS = {"W1": "MLP step", "W4": "GPT step"}  # what fresh processes run
OURS = "nacre"  # how the names of our own contenders begin
BUILT_IN = {  # the workloads of `nacre bench` that do the same work
    "W1": "mlp",
    "W2": "convnet",
    "W3.b1": "resnet18",
    "W3.b8": "resnet18-8",
    "W4": "gpt",
    "W5": "prefill",
    "W6.f32": "decode",
    "W6.int8": "decode-int8",
    "W7.chain": "chain",
    "W7.softmax": "softmax",
    "W7.layernorm": "layernorm",
    "W8.mm1024": "matmul-1024",
    "W8.mm2048": "matmul-2048",
    "W8.attn": "attention",
    "W8.attn_bwd": "attention-gradient",
}
CHART = {  # the bars of the chart
    "W1": "MLP, training step",
    "W2": "convnet, training step",
    "W4": "GPT, training step",
    "W3.b1": "ResNet-18, batch 1",
    "W3.b8": "ResNet-18, batch 8",
    "W5": "GPT-2, prefill",
    "W6.f32": "GPT-2, one token",
    "W6.int8": "GPT-2, one token, int8",
}
NAMES = {
    "torch": "PyTorch",
    "jax": "JAX",
    "ort": "onnxruntime",
    "openvino": "OpenVINO",
    "iree": "IREE",
    "torch+keepmem": "PyTorch, memory kept",
    "torch.compile+keepmem": "torch.compile, memory kept",
}
STYLE = """\
text { font: 14px system-ui, sans-serif; fill: #24292f; } .small { font-size: 12px; fill: #57606a; }
.title { font-size: 16px; font-weight: 600; } .page { fill: #ffffff; } .bar { fill: #2f6db5; }
.mark { stroke: #57606a; stroke-dasharray: 4 3; }
@media (prefers-color-scheme: dark) {
text { fill: #d6dce3; } .small { fill: #9aa4af; } .page { fill: #161b22; } .bar { fill: #5b9be6; }
.mark { stroke: #9aa4af; }
}"""
WIDTH, LEFT, TOP, ROW = 720, 180, 78, 30  # of the chart
LONGEST = 300  # the longest bar


def short(name: str) -> str:
    """The name of a contender without its place."""
    return name.partition("@")[0]


def figure(x: float) -> str:
    """Three digits, without an exponent."""
    return f"{x:.0f}" if x >= 100 else f"{x:.3g}"


# ---- what is kept of results


def kept(results: dict[str, Any], bench: dict[str, Any] | None) -> dict[str, Any]:
    """What speed.json keeps of a processor's results; with a `nacre bench` report also floors."""
    versions = {
        short(n): v.partition("-")[0]
        for n, v in sorted(results["versions"].items(), key=lambda item: short(item[0]).startswith(OURS))
    }
    found: dict[str, Any] = {"versions": versions, "cases": {}, "speeds": {}, "floors": {}, "fresh": {}}
    for case, row in results["cases"].items():
        good = {short(n): r for n, r in row.items() if "min" in r and r["ok"]}
        found["cases"][case] = {short(n): times(r) if r["ok"] else "wrong" for n, r in row.items() if "min" in r}
        found["speeds"][case] = {n: speed(good, n) for n in versions if n.startswith(OURS) and n in good}
        floor = bench["workloads"].get(BUILT_IN.get(case, ""), {}).get("floor") if bench else None
        if floor is not None and OURS in good:
            found["floors"][case] = [float(figure(floor * 1e3)), round(floor * 1e3 / good[OURS]["min"], 2)]
    found["limits"] = limits(bench) if bench else ""
    found["fresh"] = {short(n): first(r) for n, r in results["fresh"].items()}
    return found


def times(result: dict[str, Any]) -> list[float]:
    """The least time and the median."""
    return [float(figure(result[key])) for key in ("min", "median")]


def speed(good: dict[str, dict[str, Any]], name: str) -> list[Any]:
    """How much faster one of ours is than the best other, by the least time and the median; which one by the median."""
    others = {n: r for n, r in good.items() if not n.startswith(OURS)}
    if not others:
        return []
    best = [round(min(r[k] for r in others.values()) / good[name][k], 2) for k in ("min", "median")]
    return [*best, min(others, key=lambda n: others[n]["median"])]


def limits(bench: dict[str, Any]) -> str:
    """What the floors were computed from."""
    found = bench["ceilings"]
    rates = ", ".join(
        f"{n >> 20} MiB {r / 1e9:.0f}" if n >= 1 << 20 else f"{n >> 10} KiB {r / 1e9:.0f}"
        for n, r in found["bandwidths"]
    )
    return f"{found['flops']['f32'] / 1e9:.0f} GFLOP/s in float32; by the bytes that move, in GB/s: {rates}"


def first(found: dict[str, Any]) -> dict[str, Any]:
    """Of a framework in fresh processes: import, first results of training steps, most memory of a process."""
    row: dict[str, Any] = {"import": least(found.get("import_s", []))}
    for case in STEPS:
        runs = {t: [r for r in found.get(f"{case}.{t}", []) if "time_to_first" in r] for t in ("cold", "warm")}
        peaks = [r["peak_mib"] for r in runs["cold"] + runs["warm"]]
        firsts = [least([r["time_to_first"] for r in ran]) for ran in runs.values()]
        row[case] = [*firsts, round(max(peaks)) if peaks else None]
    return row


def least(seconds: list[float]) -> float | None:
    """The least time, in hundredths; None where nothing was timed."""
    return round(min(seconds), 2) if seconds else None


# ---- the page


def tables(found: dict[str, Any]) -> Iterator[str]:
    """The tables of a processor, in Markdown."""
    for title, (unit, columns) in GROUPS.items():
        cases = [c for c in columns if c in found["cases"]]
        if cases:
            yield from [
                "",
                f"**{title}**, {unit}",
                "",
                f"| least / median | {' | '.join(columns[c] for c in cases)} |",
                "|---|" + "---|" * len(cases),
                *rows(found, cases),
            ]
    if found["limits"]:
        yield from ["", f"Floors: {found['limits']}."]
    if found["fresh"]:
        yield from ["", "**Fresh processes**", "", *fresh(found["fresh"])]


def rows(found: dict[str, Any], cases: list[str]) -> Iterator[str]:
    """The contenders that ran some of the cases, then how fast ours are beside the best other, and the floors."""
    for name, version in found["versions"].items():
        cells = [found["cases"][c].get(name, "–") for c in cases]
        if any(cell != "–" for cell in cells):
            told = [cell if isinstance(cell, str) else " / ".join(map(figure, cell)) for cell in cells]
            yield f"| {' '.join(filter(None, (name, version)))} | {' | '.join(told)} |"
    for name in (n for n in found["versions"] if n.startswith(OURS)):
        ratios = [found["speeds"][c].get(name) for c in cases]
        if any(ratios):
            told = [f"{r[0]:.2f} ({r[1]:.2f})" if r else "–" for r in ratios]
            yield f"| **{name}, times as fast as the best other** | {' | '.join(told)} |"
    floors = [found["floors"].get(c) for c in cases]
    if any(floors):
        told = [f"{figure(f[0])} ({f[1]:.0%})" if f else "–" for f in floors]
        yield f"| floor (share of the roof that nacre reaches) | {' | '.join(told)} |"


def fresh(found: dict[str, Any]) -> Iterator[str]:
    """The table of fresh processes."""
    yield f"| | {' | '.join(found)} |"
    yield "|---|" + "---|" * len(found)
    yield f"| import, s | {' | '.join(shown(row['import']) for row in found.values())} |"
    for case, title in STEPS.items():
        firsts = [f"{shown(row[case][0])} / {shown(row[case][1])}" for row in found.values()]
        yield f"| first result of the {title}, nothing cached / cached, s | {' | '.join(firsts)} |"
        yield f"| most memory of the {title}, MiB | {' | '.join(shown(row[case][2]) for row in found.values())} |"


def shown(number: float | None) -> str:
    """A number of hundredths, or a whole one; a dash for None."""
    return "–" if number is None else f"{number:.2f}" if isinstance(number, float) else str(number)


def page(text: str, data: dict[str, Any]) -> str:
    """The performance page with the tables of all processors between its markers."""
    lines = [line for processor, found in data.items() for line in ("", f"### {processor}", *tables(found))]
    return re.sub(
        r"(<!-- measured -->\n).*?(<!-- end -->)", lambda m: m[1] + "\n".join([*lines, "", m[2]]), text, flags=re.DOTALL
    )


# ---- the chart


def chart(processor: str, found: dict[str, Any]) -> str:
    """Bars of how much faster Nacre is than the best other, by medians, as SVG."""
    speeds = {title: found["speeds"].get(case, {}).get(OURS) for case, title in CHART.items()}
    bars = [(title, *told[1:]) for title, told in speeds.items() if told]
    unit = LONGEST / max(ratio for _, ratio, _ in bars)
    bottom, equal = TOP + ROW * len(bars), f"{LEFT + unit:.1f}"
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {bottom + 34}" role="img" '
        'aria-label="speed of Nacre over the fastest other framework">',
        f"<style>\n{STYLE}\n</style>",
        f'<rect class="page" width="{WIDTH}" height="{bottom + 34}" rx="8"/>',
        '<text class="title" x="20" y="30">Speed of Nacre over the fastest other framework</text>',
        f'<text class="small" x="20" y="52">median times; {escape(processor)}</text>',
        f'<line class="mark" x1="{equal}" y1="{TOP - 6}" x2="{equal}" y2="{bottom}"/>',
        f'<text class="small" x="{equal}" y="{bottom + 18}" text-anchor="middle">equally fast</text>',
    ]
    for k, (title, ratio, other) in enumerate(bars):
        y = TOP + ROW * k
        lines += [
            f'<text x="{LEFT - 10}" y="{y + 15}" text-anchor="end">{escape(title)}</text>',
            f'<rect class="bar" x="{LEFT}" y="{y}" width="{ratio * unit:.1f}" height="20" rx="2"/>',
            f'<text x="{LEFT + max(ratio, 1) * unit + 8:.1f}" y="{y + 15}">{ratio:.2f} × '
            f"{escape(NAMES.get(other, other))}</text>",
        ]
    return "\n".join([*lines, "</svg>", ""])


# ---- files


def as_json(data: dict[str, Any]) -> str:
    """The data, each case and framework on a line of its own."""
    return re.sub(r"\n {4,}|\n {3}(?=[\]}])", " ", json.dumps(data, indent=1, ensure_ascii=False)) + "\n"


def gathered(paths: list[Path]) -> dict[str, Any]:
    """The results of several files as one."""
    results: dict[str, Any] = {"cases": {}, "versions": {}, "fresh": {}}
    for path in paths:
        for key, found in json.loads(path.read_text(encoding="utf-8")).items():
            results[key] |= found
    return results


def main() -> int:
    """Keep the given results, and write the page and the chart."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path, nargs="*")
    parser.add_argument("--processor", help="what was measured, such as 'Two Zen 5 cores (AVX-512), two threads'")
    parser.add_argument("--roofline", type=Path)
    given = parser.parse_args()
    if given.results and not given.processor:
        parser.error("results need --processor NAME, which says what they were measured on")
    data = json.loads((FIGURES / "speed.json").read_text(encoding="utf-8"))
    if given.results:
        bench = json.loads(given.roofline.read_text(encoding="utf-8")) if given.roofline else None
        data[given.processor] = kept(gathered(given.results), bench)
        (FIGURES / "speed.json").write_text(as_json(data), encoding="utf-8")
    path = ROOT / "docs" / "performance.md"
    path.write_text(page(path.read_text(encoding="utf-8"), data), encoding="utf-8")
    (FIGURES / "speed.svg").write_text(chart(*next(iter(data.items()))), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
