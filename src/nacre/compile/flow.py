"""Control flow in compiled graphs: straight parts are programs; conditions and loops go between them.

A graph with control flow is cut at those equations.  Bodies and branches are graphs of their own, compiled once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from nacre.base.errors import CompileError
from nacre.base.types import TensorType
from nacre.compile.simplify import share
from nacre.interpret.evaluate import from_numpy, to_numpy
from nacre.ir.graph import Atom, Equation, Graph, Var
from nacre.ir.primitive import Flow, Primitive
from nacre.ir.rewrite import without_calls, without_dead_code
from nacre.ops.view import reshape, slice_
from nacre.trace.value import Value


class Runs(Protocol):
    """What runs graphs."""

    def execute(self, graph: Graph, inputs: Sequence[Value]) -> list[Value]:
        """Run a graph on its inputs."""
        ...


def run_flow(executor: Runs, primitive: Primitive, inputs: Sequence[Value], params: Mapping[str, Any]) -> list[Value]:
    """Run a control-flow primitive on values."""
    match primitive.name:
        case "call":
            return executor.execute(params["graph"], inputs)
        case "cond":
            taken = params["then"] if bool(to_numpy(inputs[0])) else params["orelse"]
            return executor.execute(taken, inputs[1:])
        case "while":
            return _while(executor, params["cond"], params["body"], inputs)
        case "scan":
            return _scan(executor, params["body"], inputs, params["carries"], params["length"], params["reverse"])
        case _:
            raise CompileError(f"control flow: call, cond, while or scan is required; got {primitive.name}")


def _while(executor: Runs, cond: Graph, body: Graph, carry: Sequence[Value]) -> list[Value]:
    state = list(carry)
    while bool(to_numpy(executor.execute(cond, state)[0])):
        state = executor.execute(body, state)
    return state


def _scan(executor: Runs, body: Graph, inputs: Sequence[Value], carries: int, length: int,
          reverse: bool) -> list[Value]:
    state, xs = list(inputs[:carries]), inputs[carries:]
    collected: list[list[np.ndarray]] = []
    order = range(length)
    for k in reversed(order) if reverse else order:
        results = executor.execute(body, [*state, *(_row(x, k) for x in xs)])
        state = results[:carries]
        collected.append([to_numpy(y) for y in results[carries:]])
    if reverse:
        collected.reverse()
    stacked = [from_numpy(np.stack(ys)) for ys in zip(*collected, strict=True)]
    if not length:
        stacked = [_empty(t) for t in body.output_types[carries:]]
    return [*state, *stacked]


def _empty(type: TensorType) -> Value:
    return from_numpy(np.zeros((0, *type.shape), type.dtype.numpy))  # type: ignore[arg-type]


def _row(x: Value, k: int) -> Value:
    shape = x.type.shape
    starts = (k, *(0 for _ in shape[1:]))
    row = slice_(x, starts, (k + 1, *shape[1:]), (1,) * len(shape))
    return reshape(row, shape[1:])


@dataclass
class _Part:
    """A straight graph or one control-flow equation, and the values it reads and gives."""

    reads: tuple[Atom, ...]
    gives: tuple[Var, ...]
    graph: Graph | None
    equation: Equation | None


@dataclass
class Segments:
    """A graph cut at its control flow."""

    graph: Graph
    parts: list[_Part]

    def run(self, executor: Runs, inputs: Sequence[Value]) -> list[Value]:
        """Run the parts in order and return the graph's outputs."""
        known: dict[Var, Value] = dict(zip(self.graph.inputs, inputs, strict=True))

        def value(a: Atom) -> Value:
            """The value of an atom computed so far, or of a literal."""
            return known[a] if isinstance(a, Var) else from_numpy(a.array)

        for part in self.parts:
            values = [value(a) for a in part.reads]
            if part.graph is not None:
                results = executor.execute(part.graph, values)
            else:
                e = part.equation
                assert e is not None
                results = run_flow(executor, e.primitive, values, e.params)
            known.update(zip(part.gives, results, strict=True))
        return [value(a) for a in self.graph.outputs]


def segments(graph: Graph) -> Segments | None:
    """The graph cut at its control flow, or None if it has none (calls are inlined)."""
    if "segments" not in graph.kept:
        graph.kept["segments"] = _cut(graph)
    return graph.kept["segments"]


def _is_flow(e: Equation) -> bool:
    return isinstance(e.primitive.lowering, Flow) and e.primitive.name != "call"


def _cut(graph: Graph) -> Segments | None:
    if not any(_is_flow(e) or e.primitive.name == "call" for e in graph.equations):
        return None
    whole = without_dead_code(share(without_calls(graph)))
    if not any(map(_is_flow, whole.equations)):
        return None
    needed_after: list[set[Var]] = []
    wanted = {a for a in whole.outputs if isinstance(a, Var)}
    for e in reversed(whole.equations):
        needed_after.append(set(wanted))
        wanted |= {a for a in e.inputs if isinstance(a, Var)}
    needed_after.reverse()
    parts: list[_Part] = []
    run: list[Equation] = []
    for k, e in enumerate(whole.equations):
        if _is_flow(e):
            parts += _straight(run, needed_after[k - 1] if k else set())
            parts.append(_Part(e.inputs, e.outputs, None, e))
            run = []
        else:
            run.append(e)
    parts += _straight(run, {a for a in whole.outputs if isinstance(a, Var)})
    return Segments(whole, parts)


def _straight(run: list[Equation], needed: set[Var]) -> list[_Part]:
    if not run:
        return []
    made = [v for e in run for v in e.outputs]
    inside = set(made)
    reads = list(dict.fromkeys(a for e in run for a in e.inputs if isinstance(a, Var) and a not in inside))
    gives = tuple(v for v in made if v in needed)
    return [_Part(tuple(reads), gives, Graph(tuple(reads), tuple(run), gives, "part"), None)]

