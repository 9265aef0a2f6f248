"""One line of code on its way to the processor: graph, fused graph, kernel, LLVM text, assembly."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from drawing import box, code, text

import nacre as nc
from nacre.inspect.explain import explain
from nacre.inspect.plot import document, footnote, heading

BY_NAME = False
ISA = "avx512"
SHAPE = (64, 100)
LEFT, WIDTH, LINE, GAP = 16, 560, 16, 30
WIDE = 74  # characters of a line


def bell(x: nc.Tensor) -> nc.Tensor:
    """The line."""
    return nc.exp(-x * x)


def collect() -> dict[str, Any]:
    """The text of each stage; of the long ones, the lines that load x and compute -x * x."""
    told = explain(bell, nc.ones(SHAPE))
    llvm, assembly = told.llvm(0, ISA).splitlines(), told.assembly(0, ISA).splitlines()
    stages = [
        ("Python", ["y = nc.exp(-x * x)"], 1),
        ("Graph of primitives", [line.split("  #")[0] for line in told.graph.splitlines()], 0),
        ("Fusion: one kernel", told.clusters.splitlines(), 0),
        ("Kernel IR", told.kernel(0).replace(" -> ", "\n    -> ", 1).splitlines(), 0),
        (f"LLVM text ({ISA})", excerpt(llvm, "load <64 x float>", 5), len(llvm)),
        (f"Assembly ({ISA})", excerpt(assembly, "vmovups", 12), len(assembly)),
    ]
    return {
        "shape": list(SHAPE),
        "isa": ISA,
        "stages": [{"name": name, "lines": lines, "of": total or len(lines)} for name, lines, total in stages],
    }


def excerpt(lines: Sequence[str], mark: str, count: int) -> list[str]:
    """Some lines from the first with a mark on, vectors of one constant written once, without indentation."""
    at = next(k for k, line in enumerate(lines) if mark in line)
    short = (
        re.sub(r"<(\w+ [\w.]+)(?:, \1)+>", r"<\1, …>", line.strip().replace("\t", " "))
        for line in lines[at : at + count]
    )
    return [line if len(line) <= WIDE else line[: WIDE - 2] + " …" for line in short]


def draw(data: Mapping[str, Any]) -> str:
    """The stages, one below the other."""
    body = [heading("What one line of code becomes")]
    y = 42.0
    for k, stage in enumerate(data["stages"]):
        lines = stage["lines"]
        part = "" if stage["of"] == len(lines) else f", {len(lines)} of {stage['of']} lines"
        height = LINE * len(lines) + 14
        if k:
            body.append(
                f'<path d="M{LEFT + 12} {y - 2}v14m-4 -5l4 5l4 -5" fill="none" stroke-width="1.6" class="s-faint"/>'
            )
        body += [
            text(LEFT + (26 if k else 0), y + 10, stage["name"], "0", bold=True),
            text(WIDTH - LEFT, y + 10, part.removeprefix(", "), "faint", "end", 11.5),
            box(LEFT, y + 18, WIDTH - 2 * LEFT, height, "panel"),
        ]
        body += [code(LEFT + 10, y + 36 + LINE * n, line) for n, line in enumerate(lines)]
        y += 18 + height + GAP - 16
    shape = " × ".join(map(str, data["shape"]))
    body.append(footnote(f"x is {shape}, float32.  LLVM text and assembly: the lines that compute -x * x.", y + 8))
    return document("The stages of one line of code", WIDTH, y + 22, body)
