"""Units: the nodes of a fused program, with the values in memory that each reads and writes, its work and its order.

Recomputation is decided between units.  Values that are in no memory, as views and the inside of kernels, belong to the
units that read them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from nacre.base.cached_property import cached_property
from nacre.base.dims import evaluate
from nacre.base.records import dataclass
from nacre.compile.compilation import Compilation
from nacre.compile.fusion.graph import Node
from nacre.ir.graph import Atom, Equation, Graph, Var
from nacre.ir.primitive import Host, RangeCheck
from nacre.runtime.plan import aligned, holder

LITTLE: Final = 4096  # the share of all bytes below which a value stays in memory in any case


@dataclass(frozen=True, eq=False)
class ProgramUnit:
    """Equations that run together: the numbers of the values that they read and write, and their work."""

    equations: tuple[Equation, ...]
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    work: int
    repeatable: bool  # whether it may run again: it has no effects, and calls nothing outside of the program
    pointwise: bool  # whether it may write a result over an operand


@dataclass(frozen=True, eq=False)
class UnitProgram:
    """The units of a program in order, and its values by number; `nbytes` is 0 for inputs and for results."""

    graph: Graph
    units: tuple[ProgramUnit, ...]
    values: tuple[Var, ...]
    nbytes: tuple[int, ...]
    results: frozenset[int]
    roots: dict[Atom, tuple[int, ...]]  # for values in no memory, those of which they are made

    @cached_property
    def little(self) -> int:
        """The bytes below which a value stays in memory in any case: all of these together take little memory."""
        return 1 + sum(self.nbytes) // LITTLE

    @cached_property
    def lasting(self) -> frozenset[int]:
        """The units that run in any case: they compute results of the program, or have effects."""
        return frozenset(
            k for k, u in enumerate(self.units) if not u.repeatable or not self.results.isdisjoint(u.writes)
        )


def program_of(c: Compilation) -> UnitProgram:
    """The units of a compiled program, whose sizes are numbers."""
    return _Reader(c).read()


class _Reader:
    def __init__(self, c: Compilation) -> None:
        assert c.fusion is not None and c.launches is not None and c.plan is not None
        self.graph, self.fusion, self.plan, self.stages = c.graph, c.fusion, c.plan, c.launches.stages
        self.numbers = c.launches.values.numbers
        self.node_of: dict[int, Node] = {id(e): n for n in self.fusion.nodes for e in n.equations}
        self.steps: dict[Node, list[int]] = {}
        written = self.written()
        made = [v for e in self.graph.equations for v in e.outputs if self.numbers.get(v) in written]
        self.values: tuple[Var, ...] = (*self.graph.inputs, *made)
        self.index: dict[Atom, int] = {v: k for k, v in enumerate(self.values)}
        self.roots: dict[Atom, tuple[int, ...]] = {}

    def written(self) -> set[int]:
        """The numbers of all values that a step writes; the steps of each node are noted."""
        found: set[int] = set()
        writers: dict[int, list[int]] = {}
        for k, step in enumerate(self.plan.steps):
            for v in step.writes:
                whole = holder(self.plan.values, v)
                found.add(whole)
                writers.setdefault(whole, []).append(k)
            for e in self.stages[k].equations:
                if id(e) in self.node_of:
                    self.steps.setdefault(self.node_of[id(e)], []).append(k)
        for n in self.fusion.nodes:
            mine = self.steps.setdefault(n, [])
            for e in n.equations:
                for v in e.outputs:
                    mine += writers.get(self.numbers.get(v, -1), ())
        return found

    def read(self) -> UnitProgram:
        """The program: nodes that share a step are one unit."""
        times = self.plan.times({})
        works = [
            n * evaluate(s.extent, {}) * max(1, evaluate(s.cost, {}))
            for s, n in zip(self.plan.steps, times, strict=True)
        ]
        groups = _together(self.fusion.nodes, self.steps)
        place = {id(e): k for k, e in enumerate(self.graph.equations)}
        for e in self.graph.equations:
            for v in e.outputs:
                self.root(v, e)
        units: list[tuple[int, ProgramUnit]] = []
        before = -1
        for nodes in groups:
            steps = sorted({k for n in nodes for k in self.steps[n]})
            before = steps[-1] if steps else before
            equations = sorted((e for n in nodes for e in n.equations), key=lambda e: place[id(e)])
            units.append((before, self.unit(equations, sum(works[k] for k in steps))))
        units.sort(key=lambda unit: unit[0])
        results = frozenset(self.index[v] for v in self.graph.outputs if v in self.index)
        given = len(self.graph.inputs)
        nbytes = [
            0 if k < given or k in results else aligned(evaluate(v.type.nbytes, {})) for k, v in enumerate(self.values)
        ]
        return UnitProgram(self.graph, tuple(u for _, u in units), self.values, tuple(nbytes), results, self.roots)

    def root(self, v: Var, e: Equation) -> None:
        """Note the values in memory from which the result of an equation is read or computed by its readers."""
        if v in self.index:
            return
        self.roots[v] = tuple(dict.fromkeys(r for x in e.inputs for r in self.of(x)))

    def of(self, x: Atom) -> tuple[int, ...]:
        """The values in memory behind an atom."""
        known = self.index.get(x)
        return (known,) if known is not None else self.roots.get(x, ())

    def unit(self, equations: Sequence[Equation], work: int) -> ProgramUnit:
        """The unit of some equations."""
        writes = tuple(self.index[v] for e in equations for v in e.outputs if v in self.index)
        reads = dict.fromkeys(r for e in equations for x in e.inputs for r in self.of(x))
        repeatable = not any(e.has_effects or isinstance(e.primitive.lowering, Host | RangeCheck) for e in equations)
        repeatable = repeatable and not any(e.needs_python for e in equations)
        pointwise = not self.node_of[id(equations[-1])].opaque
        operands = tuple(r for r in reads if r not in set(writes))
        return ProgramUnit(tuple(equations), operands, writes, work, repeatable, pointwise)


def _together(nodes: Sequence[Node], steps: dict[Node, list[int]]) -> list[list[Node]]:
    """The nodes in groups of those that share a step, as a product and its epilogue."""
    group_of: dict[int, list[Node]] = {}
    groups: list[list[Node]] = []
    for n in nodes:
        shared = [group_of[k] for k in steps[n] if k in group_of]
        group = shared[0] if shared else []
        for other in shared[1:]:
            if other is not group and other:
                group += other
                group_of.update((k, group) for m in other for k in steps[m])
                groups = [g for g in groups if g is not other]
        if not shared:
            groups.append(group)
        group.append(n)
        group_of.update((k, group) for k in steps[n])
    return groups
