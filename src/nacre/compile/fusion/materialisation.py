"""Materialisation: which values of a partitioned graph are stored, and the places of their views.

Outputs, operands of opaque nodes, and values that another cluster reads are stored.  A value that is cheap to compute
from stored ones is computed again by its readers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from typing import Any

from nacre.base.dims import Size
from nacre.base.records import dataclass
from nacre.base.types import row_major
from nacre.compile.fusion.graph import Node
from nacre.compile.fusion.pointwise import is_pointwise
from nacre.ir.axes import spreads
from nacre.ir.graph import Atom, Equation, Graph, Literal, Var
from nacre.ir.primitive import Element, Layout

INLINE_COST = 4  # a value this cheap, made of values in memory, is computed again rather than stored
INLINE_READS = 3  # the most values that it may be made of


@dataclass(frozen=True)
class View:
    """The place of a value in memory: a layout over a base value that has a buffer."""

    base: Atom
    offset: Size
    strides: tuple[Size, ...]


@dataclass
class Fusion:
    """A fused graph: its nodes in order, the stored values, and the places of values in memory.

    The readers of other values compute them again.
    """

    graph: Graph
    nodes: list[Node]
    views: dict[Atom, View]
    producer: dict[Var, Equation]
    inside: dict[Var, Node]  # the cluster that computes a value
    stored: set[Var]
    flat: dict[Var, Atom]  # values that are copies of another one's elements in order, over the other's axes
    lowered: dict[Any, Any] = field(default_factory=dict[Any, Any])  # by forms of nodes (see `compile/lowering/cache`)

    def in_memory(self, atom: Atom) -> bool:
        """Whether the atom can be read from a buffer."""
        return atom in self.views


def roots(atoms: Iterable[Atom], inline: Mapping[Var, int], producer: Mapping[Var, Equation]) -> Iterator[Atom]:
    """The values that are read where atoms are: inlined equations are replaced by their operands."""
    for x in atoms:
        if isinstance(x, Var) and x in inline:
            yield from roots(producer[x].inputs, inline, producer)
        else:
            yield x


def dense_strides(x: Atom, chosen: Mapping[Atom, tuple[Size, ...]]) -> tuple[Size, ...]:
    """The strides of a value with its own memory: the given or chosen ones, otherwise row-major."""
    return chosen.get(x) or row_major(x.type.shape)


@dataclass(frozen=True, eq=False)
class Partition:
    """A graph whose equations are divided into nodes, views and inlined values."""

    graph: Graph
    nodes: list[Node]
    node_of: Mapping[Var, Node]  # the computing node, also for views of its values
    producer: dict[Var, Equation]
    source: dict[Var, Var]  # view -> the value it is a view of
    inline: Mapping[Var, int]  # values that are computed wherever they are read
    flat: dict[Var, Atom]
    strides: Mapping[Atom, tuple[Size, ...]]  # given or chosen ones

    def materialise(self) -> Fusion:
        """The fusion, with the stored values and the views of values in memory."""
        views: dict[Atom, View] = {}
        stored: set[Var] = set()
        inside = {v: n for v, n in self.node_of.items() if v not in self.source and not n.opaque}
        fusion = Fusion(self.graph, self.nodes, views, self.producer, inside, stored, self.flat)
        for v in self.graph.inputs:
            views[v] = View(v, 0, self.strides[v])
        for e in self.graph.equations:
            for x in e.inputs:
                if isinstance(x, Literal) and (x.type.shape or not isinstance(e.primitive.lowering, Element)):
                    views[x] = View(x, 0, row_major(x.type.shape))
        for node in self.nodes:
            if node.opaque:
                for e in node.equations:
                    stored.update(e.outputs)
        self.mark(stored, inside)
        for v in stored:
            views[v] = View(v, 0, dense_strides(v, self.strides))
        for e in self.graph.equations:
            v = e.outputs[0] if e.outputs else None
            if v in self.source:
                self.add_view(e, v, views)
        return fusion

    def add_view(self, e: Equation, v: Var, views: dict[Atom, View]) -> None:
        """Record the place of a view operation's result in the buffer of its operand."""
        x = views[self.source[v]]
        low = e.primitive.lowering
        assert isinstance(low, Element) and low.view is not None
        layout = low.view(Layout(x.offset, x.strides), e.inputs[0].type, v.type, **e.params)  # type: ignore[arg-type]
        assert layout is not None
        views[v] = View(x.base, layout.offset, tuple(layout.strides))

    def mark(self, stored: set[Var], inside: dict[Var, Node]) -> None:
        """Find the values that must be in memory; readers compute cheap ones again."""

        def need(x: Atom) -> None:
            """Mark the variable of which an atom is a view as stored."""
            while isinstance(x, Var) and x in self.source:
                x = self.source[x]
            if isinstance(x, Var) and x in self.producer:
                stored.add(x)

        for x in self.graph.outputs:
            need(x)
        for e in self.graph.equations:
            v = e.outputs[0] if e.outputs else None
            if v is not None and v in self.inline:
                continue
            if v in self.source:
                need(self.source[v])  # type: ignore[index]
                continue
            reader = self.node_of.get(v) if v is not None else None
            opaque = reader is None or reader.opaque
            for x in e.inputs if opaque else roots(e.inputs, self.inline, self.producer):
                if not isinstance(x, Var):
                    continue
                elsewhere = inside.get(x) not in (None, reader)
                if opaque or x in self.source:
                    need(x)
                elif elsewhere:
                    for y in self.leaves(x, stored) or (x,):
                        need(y)

    def leaves(self, x: Var, stored: set[Var]) -> set[Var] | None:
        """The values that x is made of, if computing it again from them costs less than a store and a load; or None.

        Such a value is in memory in any case, and is no larger than x (a mask is stored).  Or it has fewer axes than x;
        then it is stored.
        """
        found: set[Var] = set()
        seen: set[Var] = set()
        cost, todo = 0, [x]
        while todo:
            y = todo.pop()
            if y in seen:
                continue
            seen.add(y)
            if y is not x and (self.resident(y, stored) or y.type.rank < x.type.rank):
                if y.type.rank == x.type.rank and y.type.dtype.itemsize > x.type.dtype.itemsize:
                    return None
                found.add(y)
                continue
            e = self.producer[y]
            low = e.primitive.lowering
            free = spreads(e)
            if y in stored or not isinstance(low, Element) or not (free or (low.cost <= 1 and is_pointwise(e))):
                return None
            cost += 0 if free else low.cost
            todo += [z for z in roots(e.inputs, self.inline, self.producer) if isinstance(z, Var)]
        return found if cost <= INLINE_COST and len(found) <= INLINE_READS else None

    def resident(self, x: Var, stored: set[Var]) -> bool:
        """Whether x is in memory in any case."""
        while x in self.source:
            x = self.source[x]
        node = self.node_of.get(x)
        return node is None or node.opaque or x in stored
