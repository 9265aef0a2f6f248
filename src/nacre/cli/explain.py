"""`nacre explain`: every stage of a function that a file defines, for arguments of given types."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any, cast

from rich.console import Console

from nacre.base.cached_property import cached_property
from nacre.base.records import dataclass
from nacre.cli import layout
from nacre.cli.grammar import OpenChoices, Parser
from nacre.cli.source import TYPES, ExampleArguments, given, load
from nacre.cli.tables import Table
from nacre.compile.pipeline import PASSES
from nacre.inspect.explain import Explanation
from nacre.inspect.work import KernelWork, steps
from nacre.runtime.buffer import readable
from nacre.transform.concrete import Memory
from nacre.transform.jit import Jitted, jit


@dataclass
class ExplainedFunction:
    """A function compiled for its arguments, with its operation counts and memory."""

    explanation: Explanation
    memory: Memory

    @cached_property
    def steps(self) -> list[KernelWork]:
        """The kernels with their operations and bytes."""
        return steps(self.explanation.compiled, self.explanation.sizes)


PARTS: dict[str, Callable[[ExplainedFunction], str]] = {
    "graph": lambda t: t.explanation.graph,
    "simplified": lambda t: t.explanation.simplified,
    "clusters": lambda t: t.explanation.clusters,
    "kernels": lambda t: _each(t, t.explanation.kernel),
    "general": lambda t: _each(t, t.explanation.general),
    "llvm": lambda t: _each(t, t.explanation.llvm),
    "assembly": lambda t: _each(t, t.explanation.assembly),
    "work": lambda t: "\n".join(work(t.steps).lines(layout.WIDEST)),
    "plan": lambda t: f"{t.explanation.plan}\n{_memory(t.memory)}",
}
USUAL = ("graph", "simplified", "clusters", "kernels", "work", "plan")
ABOUT = (
    ("graph", "the graph as traced, with your source lines"),
    ("simplified", "the graph after the passes"),
    ("clusters", "which operations are fused into one kernel"),
    ("kernels", "the loops of each kernel, with operations and bytes"),
    ("general", "each kernel as it is for every size"),
    ("llvm", "each kernel as LLVM text"),
    ("assembly", "each kernel as assembly"),
    (
        "work",
        "a table of all kernels: operations of products, and of kernels without one; what is fused behind a "
        "product is not counted; a loop whose end is not known counts as one round",
    ),
    ("plan", "launches, barriers and memory"),
)
EXAMPLES = (
    ("nacre explain model.py:affine 'f32[4, 3]' 'f32[3, 2]'", "show the usual parts for these argument types"),
    ("nacre explain model.py:model 'f32[batch:512, 6]' --show graph", "show the graph for any batch size up to 512"),
    ("nacre explain model.py:model 'f32[8, 6]' --show assembly", "show the assembly of each kernel"),
    ("nacre explain model.py:model 'f32[8, 6]' --after fusion", "show what the pass named fusion leaves"),
)
COUNTED = {"kernels", "general", "llvm", "assembly", "work", "plan"}  # parts with numbers that depend on the sizes
LISTINGS = {"clusters", "plan"}  # lists in words, which wrap; the other parts are code or tables


def arguments(command: Parser) -> None:
    """Add this command's arguments."""
    command.add_argument("function", metavar="FILE.py:FUNCTION", help="a function or model of a file")
    command.add_argument(
        "types", nargs="*", default=[], metavar="TYPE", help=f"the type of each argument, such as {TYPES}"
    )
    command.add_argument(
        "--show",
        metavar="PART",
        action="append",
        choices=[*PARTS, "all"],
        help=f"a part, or all; may be repeated (default: {', '.join(USUAL)})",
    )
    command.add_argument(
        "--after",
        metavar="PASS",
        action="append",
        choices=OpenChoices(p.name for p in PASSES),
        help="what a compiler pass leaves; may be repeated, and replaces the usual parts",
    )
    command.add_argument(
        "--json", action="store_true", help="print JSON: the parts as text, the work and the memory as numbers"
    )
    command.sections.append(("parts", ABOUT))
    command.sections.append(("passes, in order", tuple((p.name, p.contract) for p in PASSES)))


def run(line: argparse.Namespace, console: Console) -> int:
    """Print the requested parts."""
    function = load(line.function, "explain")
    explained = compiled(function, given(function, line.types, "explain"))
    asked = line.show or (() if line.after else USUAL)
    chosen = {name: part for name, part in PARTS.items() if name in asked or "all" in asked}
    chosen.update({f"after {name}": partial(_after, name=name) for name in line.after or ()})
    if line.json:
        print(json.dumps(document(explained, chosen), indent=2))
        return 0
    for name, part in chosen.items():
        layout.show(console, f"== {name} ==", "bold")
        if name in COUNTED and explained.explanation.sizes:
            layout.show(console, layout.wrapped(sized(explained), console.width))
        if name == "work":
            layout.show(console, work(explained.steps).lines(console.width))
        else:
            layout.show(
                console,
                fitted(part(explained), console.width) if name in LISTINGS or console.is_terminal else part(explained),
            )
        console.print()
    return 0


def sized(explained: ExplainedFunction) -> str:
    """The sizes of its symbols for which a program's numbers are valid."""
    sizes = ", ".join(f"{name} = {size}" for name, size in explained.explanation.sizes.items())
    return f"operations and bytes for {sizes}; the code is for all sizes"


def fitted(text: str, width: int) -> list[str]:
    """The lines, with those that are wider than the terminal broken at blanks and indented."""
    lines: list[str] = []
    for line in text.splitlines():
        indent = len(line) - len(line.lstrip())
        lines += [line] if len(line) <= width else layout.wrapped(line, width, 0, indent + 4)
    return lines


def compiled(function: Any, on: ExampleArguments) -> ExplainedFunction:
    """Compile a function for arguments, without running it."""
    jitted: Jitted[..., Any] = cast("Any", function) if isinstance(function, Jitted) else jit(function)
    if on.dynamic_shapes:
        jitted = jit(jitted.function, dynamic_shapes=on.dynamic_shapes)
    return ExplainedFunction(jitted.explain(*on.values), jitted.memory(*on.values))


def document(explained: ExplainedFunction, parts: dict[str, Callable[[ExplainedFunction], str]]) -> dict[str, Any]:
    """The requested parts, as JSON."""
    return {
        "function": explained.explanation.compiled.graph.name,
        "signature": explained.explanation.signature,
        "sizes": explained.explanation.sizes,
        "parts": {name: part(explained) for name, part in parts.items()},
        "steps": [asdict(s) for s in explained.steps],
        "flops": sum(s.flops for s in explained.steps),
        "bytes": sum(s.bytes for s in explained.steps),
        "memory": {**asdict(explained.memory), "peak": explained.memory.peak},
    }


def _each(explained: ExplainedFunction, part: Callable[[int], str]) -> str:
    """A part of each launch under a line with its name and, at the first launch of a kernel, the kernel's work."""
    counted = {s.first: f"; {s.flops:,} operations, {s.bytes:,} bytes" for s in explained.steps}
    return "\n\n".join(
        f"# step {k}: {s.label}{counted.get(k, '')}\n{part(k)}" for k, s in enumerate(explained.explanation.stages)
    )


def work(found: Sequence[KernelWork]) -> Table:
    """A row for each kernel: the step where it begins, launches, operations, bytes, operations for each byte."""
    made = Table("work", "kernel", ("step", "launches", "operations", "bytes", "op/byte"))
    for s in found:
        made.add(
            f"{s.label} ({s.dtype})",
            str(s.first),
            str(s.launches),
            f"{s.flops:,}",
            f"{s.bytes:,}",
            _ratio(s.flops, s.bytes),
        )
    flops, moved = sum(s.flops for s in found), sum(s.bytes for s in found)
    made.rule()
    made.add("all", "", str(sum(s.launches for s in found)), f"{flops:,}", f"{moved:,}", _ratio(flops, moved))
    return made


def _ratio(flops: int, moved: int) -> str:
    return f"{flops / moved:.2f}" if moved else "–"


def _after(explained: ExplainedFunction, name: str) -> str:
    """The program after a pass."""
    return explained.explanation.after(name)


def _memory(memory: Memory) -> str:
    return (
        f"memory of a call: {memory.peak:,} bytes ({readable(memory.peak)}): inputs {memory.inputs:,}, "
        f"results {memory.outputs:,}, workspace {memory.workspace:,}"
    )
