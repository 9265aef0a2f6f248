"""Recomputation of large values for a product that reads them late, to save memory.

If a product's factor is cheap to compute from values that are in memory anyway, recomputing it costs no more traffic
than storing it.  Its memory is then free for most of a training step.  The same equations on the same values give the
same bits.
"""

from __future__ import annotations

from nacre.compile.fusion.fuse import FAR, large
from nacre.compile.fusion.materialisation import INLINE_COST
from nacre.compile.fusion.pointwise import is_pointwise
from nacre.ir.axes import spreads
from nacre.ir.graph import Atom, Equation, Graph, Var
from nacre.ir.primitive import Element, Reduce
from nacre.ir.rewrite import without_dead_code


def rematerialise(graph: Graph) -> Graph:
    """The graph in which such factors are recomputed just before they are read again."""
    rematerialiser = _Rematerialiser(graph)
    equations: list[Equation] = []
    for k, e in enumerate(graph.equations):
        if isinstance(e.primitive.lowering, Element | Reduce):
            equations.append(e)
            continue
        inputs = tuple([rematerialiser.factor(x, k, equations) for x in e.inputs])
        equations.append(Equation(e.primitive, inputs, e.params, e.outputs, e.source) if inputs != e.inputs else e)
    if not rematerialiser.made:
        return graph
    return without_dead_code(Graph(graph.inputs, tuple(equations), graph.outputs, graph.name))


class _Rematerialiser:
    def __init__(self, graph: Graph) -> None:
        self.producer = {v: (k, e) for k, e in enumerate(graph.equations) for v in e.outputs}
        self.last = {x: k for k, e in enumerate(graph.equations) for x in e.inputs}  # value → its last reader
        self.last.update(dict.fromkeys(graph.outputs, len(graph.equations)))
        self.made: dict[Var, tuple[int, Var]] = {}  # value → the place of its last copy, and the copy

    def factor(self, x: Atom, at: int, equations: list[Equation]) -> Atom:
        """The operand to read for x: x itself, or a recomputed copy, whose equations are appended."""
        if not isinstance(x, Var) or x not in self.producer or not large(x) or at - self.producer[x][0] <= FAR:
            return x
        place, known = self.made.get(x, (0, x))
        if known is not x and at - place <= FAR:
            return known
        chain = self.chain(x, at)
        if chain is None:
            return x
        again: dict[Atom, Var] = {}
        for e in chain:
            inputs = tuple([again.get(y, y) for y in e.inputs])
            again[e.outputs[0]] = Var(e.outputs[0].type)
            equations.append(Equation(e.primitive, inputs, e.params, (again[e.outputs[0]],), e.source))
        self.made[x] = at, again[x]
        return again[x]

    def chain(self, x: Var, at: int) -> list[Equation] | None:
        """The equations, in order, that recompute x from values that are in memory then; None if they cost too much."""
        found: dict[int, Equation] = {}
        cost, todo = 0, [x]
        while todo:
            place, e = self.producer[todo.pop()]
            low = e.primitive.lowering
            free = spreads(e)
            if not isinstance(low, Element) or not (free or (low.cost <= 1 and is_pointwise(e))):
                return None
            if place in found:
                continue
            found[place] = e
            cost += 0 if free else low.cost
            todo += [y for y in e.inputs if isinstance(y, Var) and y in self.producer and self.last[y] <= at - FAR]
        return [found[k] for k in sorted(found)] if cost <= INLINE_COST else None
