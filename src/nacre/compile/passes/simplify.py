"""Graph simplification: calls inlined, common subexpressions merged, dead code removed, outputs in separate memory.

All rewrites preserve every bit: no x + 0 (it changes -0), no x · 0, no division turned into multiplication.
"""

from __future__ import annotations

from collections.abc import Hashable

from nacre.compile.passes.loop_simplification import simplify_loops
from nacre.compile.passes.products import narrow_matrices, swap_factors
from nacre.ir.facts import SMALL, Facts
from nacre.ir.graph import Atom, Equation, Graph, Literal, Var, params_key
from nacre.ir.primitive import Element, Reduce, copies
from nacre.ir.rewrite import without_calls, without_dead_code
from nacre.ops.identity import copy_p


def simplify(graph: Graph) -> Graph:
    """The same function with fewer equations; every output is a separate value."""
    return own_outputs(
        own_constants(
            without_dead_code(
                narrow_matrices(swap_factors(without_dead_code(share(simplify_loops(without_calls(graph))))))
            )
        )
    )


def share(graph: Graph) -> Graph:
    """Compute equal equations once, and replace equations by what their primitives' rules say (`ir.facts`)."""
    known: dict[Var, Atom] = {}
    seen: dict[Hashable, tuple[Var, ...]] = {}
    literals: dict[Hashable, Literal] = {}
    facts = Facts()
    equations: list[Equation] = []

    def atom(a: Atom) -> Atom:
        """The atom that replaces a; small literals of the same value are merged."""
        if isinstance(a, Var):
            return known.get(a, a)
        return literals.setdefault(a.key, a) if a.array.nbytes <= SMALL else a

    for e in graph.equations:
        e = Equation(e.primitive, tuple(map(atom, e.inputs)), e.params, e.outputs, e.source)
        if e.primitive.simplify is not None:
            found = e.primitive.simplify(e, facts)
            if not isinstance(found, Equation):
                known[e.outputs[0]] = found
                continue
            e = found
        key = (e.primitive, tuple(map(id, e.inputs)), params_key(e.params))
        if key in seen and not e.has_effects:
            known.update(zip(e.outputs, seen[key], strict=True))
            continue
        seen[key] = e.outputs
        facts.add(e)
        equations.append(e)
    return Graph(graph.inputs, tuple(equations), tuple(map(atom, graph.outputs)), graph.name)


def own_constants(graph: Graph) -> Graph:
    """Store values computed from constants alone where an equation reads them that cannot compute them itself."""
    made = _made_of_constants(graph)
    copies: dict[Var, Var] = {}
    equations: list[Equation] = []
    for e in graph.equations:
        if isinstance(e.primitive.lowering, Element):
            equations.append(e)
            continue
        inputs: list[Atom] = []
        for a in e.inputs:
            if isinstance(a, Var) and a in made and not isinstance(e.primitive.lowering, Reduce):
                if a not in copies:
                    copies[a] = Var(a.type)
                    equations.append(Equation(copy_p, (a,), {}, (copies[a],), e.source))
                a = copies[a]
            inputs.append(a)
        equations.append(Equation(e.primitive, tuple(inputs), e.params, e.outputs, e.source))
    return Graph(graph.inputs, tuple(equations), graph.outputs, graph.name)


def _made_of_constants(graph: Graph) -> set[Var]:
    """Values computed from constants alone, which have no memory unless a copy gives it to them."""
    made: set[Var] = set()
    for e in graph.equations:
        if (
            isinstance(e.primitive.lowering, Element)
            and not copies(e.primitive)
            and all(isinstance(a, Literal) or a in made for a in e.inputs)
        ):
            made.update(e.outputs)
    return made


def own_outputs(graph: Graph) -> Graph:
    """Copy outputs that are inputs, constants, views, or listed twice."""
    computed = {v: e for e in graph.equations for v in e.outputs}
    constant = _made_of_constants(graph)
    equations = list(graph.equations)
    outputs: list[Atom] = []
    used: set[Var] = set()
    for a in graph.outputs:
        own = isinstance(a, Var) and a in computed and a not in used and a not in constant
        if own and getattr(computed[a].primitive.lowering, "view", None) is None:  # type: ignore[index]
            used.add(a)  # type: ignore[arg-type]
            outputs.append(a)
            continue
        v = Var(a.type)
        equations.append(Equation(copy_p, (a,), {}, (v,)))
        outputs.append(v)
    return Graph(graph.inputs, tuple(equations), tuple(outputs), graph.name)
