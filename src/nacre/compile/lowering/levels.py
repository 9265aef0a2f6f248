"""Levels: the pass over its domain in which a cluster computes each value.

A full value that depends on the row values of p reductions is computed in pass p.  Between two passes are the row
values.  A full value that is expensive and read in a later pass is saved in scratch memory.
"""

from __future__ import annotations

from dataclasses import field

from nacre.base.records import dataclass
from nacre.compile.fusion.graph import Node
from nacre.compile.fusion.materialisation import Fusion
from nacre.ir.graph import Atom, Equation, Var
from nacre.ir.primitive import Element, Reduce

RECOMPUTE_COST = 4  # a full value with a higher cost is saved for later passes rather than computed again


@dataclass
class DomainPass:
    """One pass over the reduced axes, or over the domain: its reductions, stored values and saved values."""

    reductions: list[Equation] = field(default_factory=list[Equation])
    roots: list[Var] = field(default_factory=list[Var])
    saved: list[Var] = field(default_factory=list[Var])


class Levels:
    """The pass of each full value of a cluster, and the pass before which each row value is known."""

    def __init__(self, fusion: Fusion, node: Node) -> None:
        self.fusion, self.node = fusion, node
        self.members = {v for e in node.equations for v in e.outputs}
        self.full: dict[Var, int] = {}
        self.row: dict[Var, int] = {}
        for e in node.equations:
            v = e.outputs[0]
            if isinstance(e.primitive.lowering, Reduce):
                self.row[v] = self.of(e.inputs[0]) + 1
            elif self.is_row_equation(e):
                self.row[v] = max((self.of(x) for x in e.inputs), default=0)
            else:
                self.full[v] = max((self.of(x) for x in e.inputs), default=0)
        self.last = max([*self.full.values(), *(level - 1 for level in self.row.values()), 0])

    def is_row_equation(self, e: Equation) -> bool:
        """Whether the equation is computed once per row, not per element."""
        v = e.outputs[0]
        return bool(self.node.axes) and v.type.shape == self.node.row_shape and v.type.shape != self.node.domain

    def of(self, x: Atom) -> int:
        """The pass of an operand; 0 for a value that is read from memory."""
        if isinstance(x, Var) and x in self.members:
            return self.full[x] if x in self.full else self.row[x]
        if isinstance(x, Var) and not self.fusion.in_memory(x) and x in self.fusion.producer:
            return max((self.of(y) for y in self.fusion.producer[x].inputs), default=0)
        return 0

    def passes(self) -> list[DomainPass]:
        """The passes over the domain, each with its reductions, stored values and saved values."""
        found = [DomainPass() for _ in range(self.last + 1)]
        for e in self.node.equations:
            v = e.outputs[0]
            if isinstance(e.primitive.lowering, Reduce):
                found[self.of(e.inputs[0])].reductions.append(e)
            elif v in self.full and v in self.fusion.stored:
                found[self.full[v]].roots.append(v)
        for v, level in self.full.items():
            if v not in self.fusion.stored and self.is_expensive(v) and self.is_read_after(v, level):
                found[level].saved.append(v)
        return found

    def is_read_after(self, v: Var, level: int) -> bool:
        """Whether a pass after `level` reads v."""
        return any(v in e.inputs and (self.full.get(e.outputs[0], level) > level) for e in self.node.equations)

    def is_expensive(self, v: Var) -> bool:
        """Whether it costs more to compute v again than to read it."""
        seen: set[Atom] = set()
        todo: list[Atom] = [v]
        total = 0
        while todo and total <= RECOMPUTE_COST:
            x = todo.pop()
            if x in self.full and x not in seen:
                seen.add(x)
                e = self.fusion.producer[x]  # type: ignore[index]
                total += e.primitive.lowering.cost if isinstance(e.primitive.lowering, Element) else 1
                todo += e.inputs
        return total > RECOMPUTE_COST
