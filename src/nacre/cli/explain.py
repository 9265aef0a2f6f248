"""`nacre explain`: every stage of a function that a file defines, for arguments given by their types."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import asdict
from functools import cached_property
from typing import Any

from rich.console import Console

from nacre.base.records import dataclass
from nacre.cli.source import TYPES, Given, example, load
from nacre.inspect.explain import Explanation
from nacre.inspect.work import Step, steps
from nacre.runtime.buffer import readable
from nacre.transform.concrete import Memory
from nacre.transform.jit import Jitted, jit


@dataclass
class Told:
    """A function compiled for its arguments, with what is counted of it."""

    explanation: Explanation
    memory: Memory

    @cached_property
    def steps(self) -> list[Step]:
        """The kernels with their operations and bytes."""
        return steps(self.explanation.compiled, self.explanation.sizes)


PARTS: dict[str, Callable[[Told], str]] = {
    "graph": lambda t: t.explanation.graph,
    "simplified": lambda t: t.explanation.simplified,
    "clusters": lambda t: t.explanation.clusters,
    "kernels": lambda t: _each(t, t.explanation.kernel),
    "general": lambda t: _each(t, t.explanation.general),
    "llvm": lambda t: _each(t, t.explanation.llvm),
    "assembly": lambda t: _each(t, t.explanation.assembly),
    "work": lambda t: _work(t.steps),
    "plan": lambda t: f"{t.explanation.plan}\n{_memory(t.memory)}",
}
USUAL = ("graph", "simplified", "clusters", "kernels", "work", "plan")
ABOUT = """parts: graph (as traced, with your lines), simplified (after the passes), clusters (what is fused), kernels
(the loops, with operations and bytes), general (the kernel for every size), llvm, assembly, work (a table of all
kernels; a loop whose end is not known counts one round), plan (launches, barriers, memory)"""


def arguments(command: argparse.ArgumentParser) -> None:
    """Add this command's arguments."""
    command.description = f"{command.description} The {ABOUT}."
    command.add_argument("function", metavar="FILE.py:FUNCTION", help="a function or model of a file, jitted or not")
    command.add_argument("types", nargs="*", metavar="TYPE", help=f"its arguments' types, such as {TYPES}")
    command.add_argument("--show", metavar="PART", action="append", choices=[*PARTS, "all"],
                         help=f"one of {', '.join(PARTS)}, all; may be repeated (default: {', '.join(USUAL)})")
    command.add_argument("--json", action="store_true", help="tell it all as JSON: the parts as text, the work and "
                         "the memory as numbers")


def run(line: argparse.Namespace, console: Console) -> int:
    """Print the parts that are asked for."""
    function = load(line.function, "explain")
    told = compiled(function, example(function, line.types, "explain"))
    asked = line.show or USUAL
    chosen = {name: part for name, part in PARTS.items() if name in asked or "all" in asked}
    if line.json:
        print(json.dumps(document(told, chosen), indent=2))
        return 0
    for name, part in chosen.items():
        console.print(f"[bold]== {name} ==[/]")
        console.print(part(told), markup=False, soft_wrap=True)
        console.print()
    return 0


def compiled(function: Any, on: Given) -> Told:
    """Compile a function for arguments, without running it."""
    jitted = function if isinstance(function, Jitted) else jit(function)
    if on.dynamic_shapes:
        jitted = jit(jitted.function, dynamic_shapes=on.dynamic_shapes)
    return Told(jitted.explain(*on.values), jitted.memory(*on.values))


def document(told: Told, parts: dict[str, Callable[[Told], str]]) -> dict[str, Any]:
    """What was asked for, as JSON has it."""
    return {"function": told.explanation.compiled.graph.name, "signature": told.explanation.signature,
            "sizes": told.explanation.sizes, "parts": {name: part(told) for name, part in parts.items()},
            "steps": [asdict(s) for s in told.steps], "flops": sum(s.flops for s in told.steps),
            "bytes": sum(s.bytes for s in told.steps), "memory": {**asdict(told.memory), "peak": told.memory.peak}}


def _each(told: Told, part: Callable[[int], str]) -> str:
    """A part of each launch, under a line that names it and, where its kernel begins, the kernel's work."""
    counted = {s.first: f"; {s.flops:,} operations, {s.bytes:,} bytes" for s in told.steps}
    return "\n\n".join(f"# step {k}: {s.label}{counted.get(k, '')}\n{part(k)}"
                       for k, s in enumerate(told.explanation.stages))


def _work(found: list[Step]) -> str:
    """A line for each kernel: where it begins, launches, operations, bytes, operations for each byte."""
    rows = [("step", "launches", "operations", "bytes", "op/byte", "kernel")]
    rows += [(str(s.first), str(s.launches), f"{s.flops:,}", f"{s.bytes:,}", _ratio(s.flops, s.bytes),
              f"{s.label} ({s.dtype})") for s in found]
    flops, moved = sum(s.flops for s in found), sum(s.bytes for s in found)
    rows.append(("all", str(sum(s.launches for s in found)), f"{flops:,}", f"{moved:,}", _ratio(flops, moved), ""))
    widths = [max(len(row[k]) for row in rows) for k in range(5)]
    return "\n".join("  ".join([*(cell.rjust(w) for cell, w in zip(row, widths, strict=False)), row[5]]).rstrip()
                     for row in rows)


def _ratio(flops: int, moved: int) -> str:
    return f"{flops / moved:.2f}" if moved else "–"


def _memory(memory: Memory) -> str:
    return (f"memory of a call: {memory.peak:,} bytes ({readable(memory.peak)}): inputs {memory.inputs:,}, "
            f"results {memory.outputs:,}, workspace {memory.workspace:,}")
