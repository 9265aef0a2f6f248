"""The graph of a timeline: the equations of each run, with fences before those that run again."""

from __future__ import annotations

from collections.abc import Mapping

from nacre.compile.recomputation.timeline import Timeline, UnitRun
from nacre.ir.graph import Atom, Equation, Graph, Literal, Var
from nacre.ir.rewrite import without_dead_code
from nacre.ops.identity import fence_p


def graph_of(line: Timeline) -> Graph:
    """The graph that runs as a timeline says."""
    return _Writer(line).write()


class _Writer:
    def __init__(self, line: Timeline) -> None:
        self.line, self.program = line, line.program
        graph = self.program.graph
        self.producer = {v: e for e in graph.equations for v in e.outputs}
        self.number: dict[Atom, int] = {v: k for k, v in enumerate(self.program.values)}
        self.copies: list[Var | None] = [None] * len(line.values)
        for k in range(len(graph.inputs)):
            self.copies[k] = self.program.values[k]
        self.fences: dict[tuple[int, int], Var] = {}  # (event, copy) -> the fence before it
        self.between: dict[object, Var] = {}  # values in no memory, by the copies that they are made of
        self.used: set[Var] = set()  # variables of the old graph that are defined
        self.equations: list[Equation] = []

    def write(self) -> Graph:
        """The graph."""
        graph = self.program.graph
        for run in self.line.runs:
            self.run(run)
        own = {v: self.copies[k] for k, v in enumerate(self.program.values)}
        outputs = tuple(own.get(a) or a if isinstance(a, Var) else a for a in graph.outputs)
        return without_dead_code(Graph(graph.inputs, tuple(self.equations), outputs, graph.name))

    def run(self, run: UnitRun) -> None:
        """Append the equations of a run."""
        unit, values = self.program.units[run.unit], self.line.values
        bound = {values[c]: c for c in (*run.reads, *run.writes)}
        for e in unit.equations:
            inputs = tuple([self.atom(a, bound, run.event) for a in e.inputs])
            outputs = tuple(map(self.variable, e.outputs))
            self.equations.append(Equation(e.primitive, inputs, e.params, outputs, e.source))
            for old, new in zip(e.outputs, outputs, strict=True):
                if old in self.number:
                    self.copies[bound[self.number[old]]] = new
                else:
                    self.between[self.key(old, bound, run.event)] = new

    def variable(self, old: Var) -> Var:
        """The variable of the old graph where it is first defined, then new ones."""
        if old not in self.used:
            self.used.add(old)
            return old
        return Var(old.type)

    def key(self, a: Var, bound: Mapping[int, int], event: int) -> object:
        """What a value in no memory is made of."""
        roots = self.program.roots.get(a, ())
        copies = tuple([bound[r] for r in roots])
        again = event >= 0 and bool(copies)
        return a, copies, event if again else -1

    def atom(self, a: Atom, bound: Mapping[int, int], event: int) -> Atom:
        """The operand of a run: the copy of a value, behind a fence if the copy is older than a run again."""
        if isinstance(a, Literal):
            return a
        if a in self.number:
            return self.copy(bound[self.number[a]], event)
        key = self.key(a, bound, event)
        if key not in self.between:
            e = self.producer[a]
            inputs = tuple([self.atom(x, bound, event) for x in e.inputs])
            outputs = tuple(map(self.variable, e.outputs))
            self.equations.append(Equation(e.primitive, inputs, e.params, outputs, e.source))
            for old, new in zip(e.outputs, outputs, strict=True):
                self.between[self.key(old, bound, event)] = new
        return self.between[key]

    def copy(self, copy: int, event: int) -> Var:
        """The variable of a copy, for runs of an event."""
        x = self.copies[copy]
        assert x is not None
        made = self.line.made[copy]
        if event < 0 or (made >= 0 and self.line.runs[made].event == event):
            return x
        known = self.fences.get((event, copy))
        if known is None:
            known = self.fences[event, copy] = Var(x.type)
            self.equations.append(Equation(fence_p, (x,), {}, (known,)))
        return known
