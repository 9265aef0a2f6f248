"""Graph rewriting: substitution, uses, dead code elimination, inlining, and a driver for local patterns.

Graphs are immutable.  Every function returns a new graph, or the same one if nothing changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from nacre.base.cached_property import cached_property
from nacre.base.dims import Dim, Size
from nacre.base.errors import GraphError
from nacre.base.types import TensorType
from nacre.ir.graph import Atom, Builder, Equation, Graph, Literal, Var
from nacre.ir.primitive import Primitive, ProcessParameter

Substitution = Mapping[Var, Atom]

# (rewriter, equation) -> the atoms that replace its results, or None to leave it; the rewriter has the definitions
Rule = Callable[["Rewriter", Equation], Sequence[Atom] | None]


def substitute(graph: Graph, known: Substitution) -> Graph:
    """Replace values by atoms in every equation and in the outputs; replaced inputs are removed."""
    for v, a in known.items():
        if v.type is not a.type:
            raise GraphError(f"substitute: the value must have type {v.type}; got {a.type}")

    def atom(a: Atom) -> Atom:
        """The replacement of the atom, or the atom itself."""
        return known.get(a, a) if isinstance(a, Var) else a

    equations = tuple(
        Equation(e.primitive, tuple(map(atom, e.inputs)), e.params, e.outputs, e.source) for e in graph.equations
    )
    inputs = tuple(v for v in graph.inputs if v not in known)
    return Graph(inputs, equations, tuple(map(atom, graph.outputs)), graph.name)


def uses(graph: Graph) -> dict[Var, list[Equation]]:
    """The equations that read each value, in order; a value read twice by one is listed twice."""
    found: dict[Var, list[Equation]] = {}
    for e in graph.equations:
        for a in e.inputs:
            if isinstance(a, Var):
                found.setdefault(a, []).append(e)
    return found


def live_equations(equations: Sequence[Equation], outputs: Iterable[Atom]) -> tuple[list[Equation], set[Var]]:
    """The equations that outputs need or that have effects, in order, and every value that is read."""
    live = {a for a in outputs if isinstance(a, Var)}
    kept: list[Equation] = []
    for e in reversed(equations):
        if not live.isdisjoint(e.outputs) or e.has_effects:
            kept.append(e)
            live.update(a for a in e.inputs if isinstance(a, Var))
    kept.reverse()
    return kept, live


def without_dead_code(graph: Graph) -> Graph:
    """The graph without equations whose results are unused; the inputs stay."""
    kept, _ = live_equations(graph.equations, graph.outputs)
    if len(kept) == len(graph.equations):
        return graph
    return Graph(graph.inputs, tuple(kept), graph.outputs, graph.name)


def inline(builder: Builder, graph: Graph, inputs: Sequence[Atom], source: str = "") -> list[Atom]:
    """Append a graph's equations to a builder, on the given inputs; returns its outputs there."""
    known: dict[Var, Atom] = dict(zip(graph.inputs, inputs, strict=True))
    for e in graph.equations:
        fresh = tuple(Var(v.type) for v in e.outputs)
        atoms = tuple(known[a] if isinstance(a, Var) else a for a in e.inputs)
        builder.equations.append(Equation(e.primitive, atoms, e.params, fresh, e.source or source))
        known.update(zip(e.outputs, fresh, strict=True))
    return [known[a] if isinstance(a, Var) else a for a in graph.outputs]


def specialised(graph: Graph, sizes: Mapping[str, Size]) -> Graph:
    """The graph with its symbolic sizes replaced by others, or by numbers."""

    def fixed(p: object) -> Any:
        """A parameter with its symbols replaced by sizes."""
        if isinstance(p, Dim):
            return p.substitute(sizes)
        if isinstance(p, tuple):
            return tuple(map(fixed, p))  # type: ignore[arg-type]
        if isinstance(p, ProcessParameter):
            return p.with_sizes(sizes)
        return specialised(p, sizes) if isinstance(p, Graph) else p

    builder = Builder(graph.name)
    known: dict[Var, Atom] = {v: builder.input(v.type.with_shape(fixed(v.type.shape))) for v in graph.inputs}
    for e in graph.equations:
        inputs = [known[a] if isinstance(a, Var) else a for a in e.inputs]
        params = {k: fixed(p) for k, p in e.params.items()}
        known.update(zip(e.outputs, builder.add(e.primitive, inputs, params, e.source), strict=True))
    return builder.finish([known[a] if isinstance(a, Var) else a for a in graph.outputs])


class FixedGraph(Graph):
    """A graph whose symbolic sizes have numbers.  Its equations are written when they are first read."""

    def __init__(self, whole: Graph, sizes: Mapping[str, int]) -> None:
        self.__dict__.update(whole=whole, sizes=sizes, name=whole.name)

    whole: Graph
    sizes: Mapping[str, int]

    @cached_property
    def written(self) -> Graph:
        """The graph itself."""
        return specialised(self.whole, self.sizes)

    @property
    def inputs(self) -> tuple[Var, ...]:  # type: ignore[override]
        """The inputs, with numbers for sizes."""
        return self.written.inputs

    @property
    def equations(self) -> tuple[Equation, ...]:  # type: ignore[override]
        """The equations, with numbers for sizes."""
        return self.written.equations

    @property
    def outputs(self) -> tuple[Atom, ...]:  # type: ignore[override]
        """The outputs, with numbers for sizes."""
        return self.written.outputs

    @cached_property
    def input_types(self) -> tuple[TensorType, ...]:
        """The types of the inputs, in order."""
        return tuple(t.at(self.sizes) for t in self.whole.input_types)

    @cached_property
    def output_types(self) -> tuple[TensorType, ...]:
        """The types of the outputs, in order."""
        return tuple(t.at(self.sizes) for t in self.whole.output_types)

    @cached_property
    def has_effects(self) -> bool:
        """Whether an equation of it has effects, or one of a graph within it."""
        return self.whole.has_effects

    @cached_property
    def calls_host(self) -> bool:
        """Whether an equation of it calls a Python function, or one of a graph within it."""
        return self.whole.calls_host


def without_calls(graph: Graph, kept: Callable[[Equation], bool] | None = None) -> Graph:
    """The graph with every equation that has an expansion inlined, except where `kept` is true."""

    def expand(rewriter: Rewriter, e: Equation) -> Sequence[Atom] | None:
        """The outputs of an inlined expansion; None for other equations."""
        inner = None if e.primitive.expansion is None else e.primitive.expansion(e.params)
        if inner is None or (kept is not None and kept(e)):
            return None
        return inline(rewriter.builder, without_calls(inner, kept), e.inputs, e.source)

    return rewrite(graph, expand)


class Rewriter:
    """A graph under reconstruction.  Rules append equations with `add` and look operands up in `definition`."""

    def __init__(self, graph: Graph) -> None:
        self.builder = Builder(graph.name)
        self.builder.inputs = list(graph.inputs)
        self.known: dict[Var, Atom] = {}
        self.defined: dict[Var, Equation] = {}

    def atom(self, a: Atom) -> Atom:
        """The replacement of an atom of the old graph."""
        return self.known.get(a, a) if isinstance(a, Var) else a

    def definition(self, a: Atom) -> Equation | None:
        """The new equation that defines an atom; None for inputs and literals."""
        return self.defined.get(a) if isinstance(a, Var) else None

    def add(self, primitive: Primitive, *inputs: Atom, source: str = "", **params: object) -> Var:
        """Append an equation with one result."""
        (v,) = self.builder.add(primitive, inputs, params, source)
        self.defined[v] = self.builder.equations[-1]
        return v

    def keep(self, e: Equation) -> None:
        """Append an equation unchanged."""
        self.builder.equations.append(e)
        self.defined.update(dict.fromkeys(e.outputs, e))


def rewrite(graph: Graph, *rules: Rule) -> Graph:
    """Apply the first matching rule to each equation, in order, once.

    A rule sees the equation with operands already rewritten.  It returns the atoms that replace the results (of equal
    types), or None.  Dead equations are left for `without_dead_code`.
    """
    rewriter = Rewriter(graph)
    changed = False
    for old in graph.equations:
        e = Equation(
            old.primitive,
            tuple(map(rewriter.atom, old.inputs)),
            old.params,
            old.outputs,
            old.source,
        )
        replaced = next((r for rule in rules if (r := rule(rewriter, e)) is not None), None)
        if replaced is None:
            rewriter.keep(e)
            continue
        changed = True
        for v, a in zip(old.outputs, replaced, strict=True):
            if v.type is not a.type:
                raise GraphError(
                    f"rewrite: the result of {old.primitive.name} must have type {v.type}; a rule gave {a.type}"
                )
            rewriter.known[v] = a
    if not changed:
        return graph
    outputs = tuple(map(rewriter.atom, graph.outputs))
    return Graph(graph.inputs, tuple(rewriter.builder.equations), outputs, graph.name)


def literals(graph: Graph) -> list[Literal]:
    """The constants of a graph, in order of appearance, without those of nested graphs."""
    atoms = [a for e in graph.equations for a in e.inputs] + list(graph.outputs)
    return [a for a in atoms if isinstance(a, Literal)]
