"""Fusion: which equations become one kernel.

Every equation that computes elements or reduces joins a *cluster*: a set of equations over one domain, the index space
of its full-sized values, with at most one set of reduced axes.  A cluster holds full values (of the domain's shape) and
row values (of the shape after the reduction); a row value returns to the domain by a broadcast.  So a chain of
pointwise operations is a cluster, and so is a softmax, a normalisation, or an optimiser's update.

Matrix products, convolutions, explicit nests and control flow are opaque: each is a separate node.  Views of values in
memory cost nothing and belong to no node.  Fusion decides where values are stored, never their bits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field
from itertools import islice
from typing import Any

from nacre.base.dims import Size
from nacre.base.progress import progress
from nacre.base.records import dataclass
from nacre.base.types import Shape, row_major
from nacre.compile.fusion.graph import Node, current, ordered
from nacre.compile.passes.layout import layouts as chosen
from nacre.ir.axes import spreads
from nacre.ir.graph import Atom, Equation, Graph, Literal, Var
from nacre.ir.primitive import Element, Layout, Operand, Primitive, Reduce, Template, copies
from nacre.kernel.ast import Expr, Index, Load

INLINE_STEPS = 8  # a value made of constants in more equations than this is computed once
INLINE_COST = 4  # a value this cheap, made of values in memory, is computed again rather than stored
INLINE_READS = 3  # from so many values at most
MOST_EQUATIONS = 128  # of a cluster, so that the compiler's time stays proportional to the graph
MOST_REDUCTIONS = 8
MOST_BESIDE = 8  # clusters that are tried because they read the same value
FAR = 64  # equations between two that are not to be one kernel, where the later one's result is large
LARGE = 1 << 20  # bytes


@dataclass(frozen=True)
class View:
    """Where a value lies in memory: a layout over a base value that has a buffer of its own."""

    base: Atom
    offset: Size
    strides: tuple[Size, ...]


@dataclass
class Fusion:
    """The result: nodes in order, where values lie, and which are computed in place by their readers."""

    graph: Graph
    nodes: list[Node]
    views: dict[Atom, View]
    producer: dict[Var, Equation]
    inside: dict[Var, Node]  # the cluster that computes a value
    stored: set[Var]
    flat: dict[Var, Atom]  # a value that is another one's elements in order, computed over the other's axes
    lowered: dict[Any, Any] = field(
        default_factory=dict[Any, Any]
    )  # by the forms of nodes (see `compile/lowering/cache`)

    def in_memory(self, atom: Atom) -> bool:
        """Whether the atom can be read from a buffer."""
        return atom in self.views


class _Fuser:
    def __init__(self, graph: Graph, layouts: Sequence[tuple[int, ...]] | None) -> None:
        self.graph = graph
        self.strides: dict[Atom, tuple[Size, ...]] = {v: row_major(v.type.shape) for v in graph.inputs}
        if layouts is not None:
            self.strides.update(zip(graph.inputs, layouts, strict=True))
        self.strides.update(chosen(graph).items())
        self.producer = {v: e for e in graph.equations for v in e.outputs}
        self.node_of: dict[Var, Node] = {}  # computing node, also for views of its values
        self.source: dict[Var, Var] = {}  # view -> the value it is a view of
        self.inline: dict[Var, int] = {}  # constants, index patterns: computed wherever they are read, in so many steps
        self.readers: dict[Atom, dict[Node, None]] = {}  # nodes that read a value, in order
        self.flat: dict[Var, Atom] = {}
        self.moved: dict[Var, Equation] = {}  # reshapes that are done by the copy that alone reads them
        self.uses = Counter(x for e in graph.equations for x in e.inputs)
        self.copied = {e.inputs[0] for e in graph.equations if copies(e.primitive) and e.outputs[0] not in self.strides}
        self.factors = {x for e in graph.equations if isinstance(e.primitive.lowering, Template) for x in e.inputs}
        self.count = 0
        self.at = 0  # the equation that is visited
        self.latest: dict[Node, int] = {}  # the last equation that was put into a node

    # ---- nodes

    def node(self, v: Atom) -> Node | None:
        """The node, after merges, that computes the atom; None for inputs and literals."""
        n = self.node_of.get(v) if isinstance(v, Var) else None
        while n is not None and n.merged is not None:
            n = n.merged
        return n

    def new(self, e: Equation, domain: Shape | None, axes: tuple[int, ...] | None = None) -> Node:
        """A new node that begins with the equation e."""
        self.count += 1
        node = Node(self.count, [], domain, axes)
        return self.place(e, node)

    def place(self, e: Equation, node: Node) -> Node:
        """Put the equation into the node and note what it depends on."""
        node.equations.append(e)
        self.latest[node] = self.at
        node.reductions += isinstance(e.primitive.lowering, Reduce)
        for x in self.roots(e.inputs):
            n = self.node(x)
            if n is not None and n is not node:
                node.follow(n)
            self.readers.setdefault(x, {})[node] = None
        for v in e.outputs:
            self.node_of[v] = node
        return node

    def roots(self, atoms: Iterable[Atom]) -> Iterator[Atom]:
        """The values that are read when atoms are: through inlined equations."""
        for x in atoms:
            if isinstance(x, Var) and x in self.inline:
                yield from self.roots(self.producer[x].inputs)
            else:
                yield x

    # ---- the walk

    def run(self) -> Fusion:
        """Visit every equation in order, then fix views and what is stored."""
        for e in self.graph.equations:
            self.visit(e)
            self.at += 1
            progress("fusing operation", self.at, len(self.graph.equations))
        nodes = ordered({n for v in self.node_of if (n := self.node(v)) is not None})
        return self.finish(nodes)

    def visit(self, e: Equation) -> None:
        """Decide where one equation goes: inline, a view, a cluster or a node of its own."""
        low = e.primitive.lowering
        if isinstance(low, Element):
            if self.is_inline(e):
                self.inline[e.outputs[0]] = self.steps(e)
                return
            if low.view is not None and self.visit_view(e, low):
                return
            if (
                e.inputs
                and e.inputs[0] not in self.inline
                and ((e.primitive.keeps_order and low.view is not None) or e.inputs[0] in self.moved)
            ):
                self.flatten(e)
                return
            self.cluster(e, e.outputs[0].type.shape, None)
        elif isinstance(low, Reduce):
            axes = e.params["axes"]
            self.cluster(e, e.inputs[0].type.shape, tuple(axes))
        else:
            self.new(e, None)

    def is_inline(self, e: Equation) -> bool:
        """Values made only of constants cost less to compute than to read."""
        low = e.primitive.lowering
        assert isinstance(low, Element)
        small = low.cost <= INLINE_COST
        return (
            small
            and self.steps(e) <= INLINE_STEPS
            and all(
                (isinstance(x, Literal) and not x.type.shape) or (isinstance(x, Var) and x in self.inline)
                for x in e.inputs
            )
        )

    def steps(self, e: Equation) -> int:
        """Equations to compute where e is: itself, and those inlined into it."""
        return 1 + sum(self.inline.get(x, 0) for x in e.inputs)  # type: ignore[call-overload]

    def visit_view(self, e: Equation, low: Element) -> bool:
        """Make the result of a view operation an alias of its operand, where it can be."""
        x = e.inputs[0]
        if isinstance(x, Var) and x in self.inline:
            if self.steps(e) > INLINE_STEPS:
                return False
            self.inline[e.outputs[0]] = self.steps(e)
            return True
        node = self.node(x)
        if node is not None and not node.opaque and self.broadcast_of_row(e, node):
            return False
        base = Layout(0, self.dense_strides(x))  # type: ignore[arg-type]
        if isinstance(x, Var) and x in self.source:
            known = _layout_through(self, x)
            if known is None:
                return False
            base = known
        assert low.view is not None
        if low.view(base, x.type, e.outputs[0].type, **e.params) is None:
            return False
        v = e.outputs[0]
        self.source[v] = x  # type: ignore[assignment]
        if node is not None:
            self.node_of[v] = node
        return True

    def flatten(self, e: Equation) -> None:
        """Copy, over the operand's axes, what a reshape cannot be a view of: no index is divided.

        The operand has to be in memory, or in a node: one that is inlined is in neither.
        Where another copy is all that reads the result, that is the one.
        """
        v = e.outputs[0]
        if v in self.copied and self.uses[v] == 1:
            self.moved[v] = e
            return
        moved = self.moved.get(e.inputs[0])  # type: ignore[call-overload]
        if moved is not None:
            e = self.producer[v] = Equation(e.primitive, moved.inputs, e.params, e.outputs, e.source)
        self.flat[v] = e.inputs[0]
        self.new(e, e.inputs[0].type.shape)

    def dense_strides(self, x: Atom) -> tuple[Size, ...]:
        """The strides of a value that has memory of its own: given, chosen, or row-major."""
        return self.strides.get(x) or row_major(x.type.shape)

    def broadcast_of_row(self, e: Equation, node: Node) -> bool:
        """Whether e brings a row value of a cluster back into its domain."""
        if not spreads(e) or node.axes is None or node.domain is None:
            return False
        x = e.inputs[0]
        kept = tuple(k for k in range(len(node.domain)) if k not in node.axes)
        return (
            x.type.shape == node.row_shape
            and e.outputs[0].type.shape == node.domain
            and tuple(e.params["axes"]) == kept
            and x not in self.source
        )

    # ---- clusters

    def cluster(self, e: Equation, domain: Shape, axes: tuple[int, ...] | None) -> None:
        """Put the equation into the best node that may take it, or into a new one."""
        needed = [n for x in self.roots(e.inputs) if (n := self.node(x)) is not None]
        near = self.near(e, needed) if axes is None else needed
        for node in self.candidates(e, near, axes):
            if not self.fits(e, node, domain, axes):
                continue
            if any(n is not node and n.needs(node) for n in needed):
                continue
            self.join(e, node, axes)
            self.absorb(node, [n for n in near if n is not node])
            return
        node = self.new(e, domain, axes)
        self.absorb(node, near)

    def near(self, e: Equation, needed: list[Node]) -> list[Node]:
        """The nodes that e may become a part of: not those far back, where its result would wait until it is read.

        What a derivative makes of the function's values is so computed with the derivative, and takes no memory before.
        """
        if not (large(e.outputs[0]) and is_pointwise(e)):
            return needed
        return [n for n in needed if self.at - self.latest[n] <= FAR]

    def candidates(self, e: Equation, near: list[Node], axes: tuple[int, ...] | None) -> list[Node]:
        """Clusters of operands, the youngest first; then those that read the same values."""
        direct = sorted({n for n in near if not n.opaque}, key=lambda n: -n.number)
        beside: set[Node] = set()
        if axes is not None or (not direct and large(e.outputs[0])):
            for x in e.inputs:
                latest = islice(reversed(self.readers.get(x, {})), MOST_BESIDE)
                beside |= {m for m in current(latest) if not m.opaque}
        if axes is None:
            beside = set(self.near(e, list(beside)))
        return direct + sorted(beside - set(direct), key=lambda n: -n.number)

    def fits(self, e: Equation, node: Node, domain: Shape, axes: tuple[int, ...] | None) -> bool:
        """Whether the node's loops can compute the equation too, and do not do too much already."""
        if len(node.equations) >= MOST_EQUATIONS or (axes is not None and node.reductions >= MOST_REDUCTIONS):
            return False
        if axes is not None:  # a reduction
            return (
                node.domain == domain
                and node.axes in (None, axes)
                and self.reads_full(e, node)
                and not self.ends(node, e)
            )
        if self.broadcast_of_row(e, node):
            return True
        if domain == node.domain:
            return self.reads_full(e, node)
        return node.row_shape is not None and domain == node.row_shape and self.reads_shape(e, node, domain)

    def ends(self, node: Node, reduction: Equation) -> bool:
        """Whether a pointwise node should rather end a product or a window: what e reduces of it is stored anyway.

        That is how a bias's gradient is made: of what is also a factor of other products.
        """
        return (
            node.axes is None
            and reduction.inputs[0] in self.factors
            and any(
                isinstance(x, Var)
                and x in self.producer
                and x.type.shape == node.domain
                and self.producer[x].primitive.takes_epilogue
                for e in node.equations
                for x in e.inputs
            )
        )

    def reads_full(self, e: Equation, node: Node) -> bool:
        """Whether what the node computes is read at the index of its domain."""
        assert node.domain is not None
        return self.reads_shape(e, node, node.domain)

    def reads_shape(self, e: Equation, node: Node, shape: Shape) -> bool:
        """Whether every operand that the cluster computes is read at the index of the result."""
        if isinstance(e.primitive.lowering, Element) and not is_pointwise(e):
            return not any(self.node(x) is node for x in self.roots(e.inputs))
        return all(x.type.shape == shape and x not in self.source for x in self.roots(e.inputs) if self.node(x) is node)

    def join(self, e: Equation, node: Node, axes: tuple[int, ...] | None) -> None:
        """Put the equation into the node, which takes on its reduced axes."""
        if axes is not None:
            node.axes = axes
        self.place(e, node)

    def absorb(self, node: Node, others: list[Node]) -> None:
        """Merge the operands' clusters into the node where domains agree and no cycle arises."""
        for other in others:
            while other.merged is not None:
                other = other.merged
            if other is node or other.opaque or not self.compatible(node, other):
                continue
            if any(self.ends(other, e) for e in node.equations if isinstance(e.primitive.lowering, Reduce)):
                continue
            if any(n is not other and n.needs(other) for n in current(node.before)) or other.needs(node):
                continue
            if not all(self.mergeable_read(e, other) for e in node.equations):
                continue
            axes = node.axes if node.axes is not None else other.axes
            node.equations = other.equations + node.equations
            node.reductions += other.reductions
            node.domain = other.domain if self.is_row_of(node, other) else node.domain
            node.axes = axes
            node.adopt(other)

    def compatible(self, node: Node, other: Node) -> bool:
        """Whether the loops of two nodes can be one nest, and not too large a one."""
        if len(node.equations) + len(other.equations) > MOST_EQUATIONS:
            return False
        if node.reductions + other.reductions > MOST_REDUCTIONS:
            return False
        if node.domain == other.domain:
            return node.axes is None or other.axes is None or node.axes == other.axes
        return self.is_row_of(other, node) or self.is_row_of(node, other)

    @staticmethod
    def is_row_of(small: Node, big: Node) -> bool:
        """Whether the small node's domain is one element per row of the big one."""
        return small.axes is None and big.axes is not None and small.domain == big.row_shape

    def mergeable_read(self, e: Equation, other: Node) -> bool:
        """Whether e reads the other cluster's values at its own index (or as a row coming back)."""
        mine = [x for x in self.roots(e.inputs) if self.node(x) is other]
        if not mine:
            return True
        if self.broadcast_of_row(e, other):
            return True
        if isinstance(e.primitive.lowering, Reduce):
            return all(x.type.shape == other.domain and x not in self.source for x in mine)
        shape = e.outputs[0].type.shape
        return is_pointwise(e) and all(x.type.shape == shape and x not in self.source for x in mine)

    # ---- where values live

    def finish(self, nodes: list[Node]) -> Fusion:
        """The fusion: views of what is in memory, and which variables are stored."""
        views: dict[Atom, View] = {}
        stored: set[Var] = set()
        inside = {v: n for v in self.node_of if v not in self.source and (n := self.node(v)) and not n.opaque}
        fusion = Fusion(self.graph, nodes, views, self.producer, inside, stored, self.flat)
        for v in self.graph.inputs:
            views[v] = View(v, 0, self.strides[v])
        for e in self.graph.equations:
            for x in e.inputs:
                if isinstance(x, Literal) and (x.type.shape or not isinstance(e.primitive.lowering, Element)):
                    views[x] = View(x, 0, row_major(x.type.shape))
        for node in nodes:
            if node.opaque:
                for e in node.equations:
                    stored.update(e.outputs)
        self.mark(stored, inside)
        for v in stored:
            views[v] = View(v, 0, self.dense_strides(v))
        for e in self.graph.equations:
            v = e.outputs[0] if e.outputs else None
            if v in self.source:
                self.add_view(e, v, views)
        return fusion

    def add_view(self, e: Equation, v: Var, views: dict[Atom, View]) -> None:
        """Record where the result of a view operation lies in its operand's buffer."""
        x = views[self.source[v]]
        low = e.primitive.lowering
        assert isinstance(low, Element) and low.view is not None
        layout = low.view(Layout(x.offset, x.strides), e.inputs[0].type, v.type, **e.params)  # type: ignore[arg-type]
        assert layout is not None
        views[v] = View(x.base, layout.offset, tuple(layout.strides))

    def mark(self, stored: set[Var], inside: dict[Var, Node]) -> None:
        """Find the values that must be in memory; cheap ones are left to their readers."""

        def need(x: Atom) -> None:
            """Mark the variable behind an atom, through its views, as stored."""
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
            reader = self.node(v) if v is not None else None
            opaque = reader is None or reader.opaque
            for x in e.inputs if opaque else self.roots(e.inputs):
                if not isinstance(x, Var):
                    continue
                elsewhere = inside.get(x) not in (None, reader)
                if opaque or x in self.source:
                    need(x)
                elif elsewhere:
                    for y in self.leaves(x, stored) or (x,):
                        need(y)

    def leaves(self, x: Var, stored: set[Var]) -> set[Var] | None:
        """What x is made of, where computing it again from that costs less than a store and a load.

        That is in memory anyway and takes no more of it than x would (a mask is stored), or has fewer axes than x and
        is put there.
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
            todo += [z for z in self.roots(e.inputs) if isinstance(z, Var)]
        return found if cost <= INLINE_COST and len(found) <= INLINE_READS else None

    def resident(self, x: Var, stored: set[Var]) -> bool:
        """Whether x is in memory anyway."""
        while x in self.source:
            x = self.source[x]
        node = self.node(x)
        return node is None or node.opaque or x in stored


def _layout_through(fuser: _Fuser, v: Var) -> Layout | None:
    """The layout of a view of a view, over its dense source."""
    chain: list[Equation] = []
    while v in fuser.source:
        chain.append(fuser.producer[v])
        v = fuser.source[v]
    layout = Layout(0, fuser.dense_strides(v))  # type: ignore[arg-type]
    for e in reversed(chain):
        low = e.primitive.lowering
        assert isinstance(low, Element) and low.view is not None
        found = low.view(layout, e.inputs[0].type, e.outputs[0].type, **e.params)
        if found is None:
            return None
        layout = found
    return layout


_pointwise: dict[Primitive, bool] = {}


def is_pointwise(e: Equation) -> bool:
    """Whether each element of the result is made of the operands' elements at the same index.

    What an equation with parameters reads is asked of each: nothing is cut off by a slice of all there is.
    """
    if any(x.type.shape != e.outputs[0].type.shape for x in e.inputs):
        return False
    if e.params:
        return _reads_own_index(e)
    known = _pointwise.get(e.primitive)
    if known is None:
        known = _pointwise[e.primitive] = _reads_own_index(e)
    return known


def _reads_own_index(e: Equation) -> bool:
    """Run the element rule once and watch at which indices it reads its operands."""
    low = e.primitive.lowering
    if not isinstance(low, Element) or low.view is not None:
        return False
    result = e.outputs[0].type
    index = tuple(Index(f"i{k}") for k in range(result.rank))
    reads: list[bool] = []

    def operand(k: int) -> Operand:
        """An operand that notes whether it is read at the loop's own index."""

        def read(at: tuple[Expr, ...]) -> Expr:
            """A load of the operand at an index, which is noted."""
            reads.append(at == index)
            return Load(f"x{k}", at, e.inputs[k].type.dtype)

        return read

    low.rule(
        index, tuple(operand(k) for k in range(len(e.inputs))), tuple(x.type for x in e.inputs), result, **e.params
    )
    return all(reads)


def large(v: Var) -> bool:
    """Whether a value takes so much memory that it should not wait there for long."""
    return isinstance(v.type.nbytes, int) and v.type.nbytes >= LARGE


def fuse(graph: Graph, layouts: Sequence[tuple[int, ...]] | None = None) -> Fusion:
    """Partition a graph's equations into nodes and decide which values are stored.

    `layouts` are the inputs' strides where they are not dense.
    """
    return _Fuser(graph, layouts).run()
