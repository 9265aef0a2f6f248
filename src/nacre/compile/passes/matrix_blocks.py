"""Linear algebra on large matrices, as kernels for blocks of them and products of the blocks.

`kernel.order_linalg` defines the order, so the division does not depend on the machine.
"""

from __future__ import annotations

from collections.abc import Sequence

from nacre.compile.passes.simplify import simplify
from nacre.interpret.stage import derived
from nacre.ir.graph import Atom, Equation, Graph
from nacre.ir.rewrite import Rewriter, inline, rewrite
from nacre.ops.rules import BLOCKS
from nacre.trace.value import Value


def divide_matrices(graph: Graph) -> Graph:
    """The graph in which operations on large matrices are several equations."""
    if not any(BLOCKS.of(e.primitive) for e in graph.equations):
        return graph
    return simplify(rewrite(graph, _divided))


def _divided(rewriter: Rewriter, e: Equation) -> Sequence[Atom] | None:
    """The results of an equation by blocks; None for one that stays."""
    rule = BLOCKS.of(e.primitive)
    if rule is None:
        return None

    def blocked(*xs: Value) -> Sequence[Value]:
        """The results by blocks."""
        found = rule(*xs, **e.params)
        return found if e.primitive.multiple else (found,)

    inner = derived(blocked, tuple(a.type for a in e.inputs), e.primitive.name)
    return None if len(inner.equations) == 1 else inline(rewriter.builder, inner, e.inputs, e.source)
