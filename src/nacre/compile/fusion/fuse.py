"""Fusion: which equations become one kernel.

Every equation that computes elements or reduces joins a *cluster*: a set of equations over one domain, the index space
of its full-sized values, with at most one set of reduced axes.  A cluster has full values (of the domain's shape) and
row values (of the shape after the reduction).  A row value returns to the domain by a broadcast.  So a chain of
pointwise operations is a cluster, and so is a softmax, a normalisation, or an optimiser's update.

Matrix products, convolutions, explicit nests and control flow are opaque: each is a separate node.  Views of values in
memory cost nothing and belong to no node.  `materialisation` then decides which values are stored.  Fusion never
changes the bits of values.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from nacre.base.dims import Size
from nacre.base.progress import progress
from nacre.base.types import Shape, row_major
from nacre.compile.fusion.graph import Node, current, ordered
from nacre.compile.fusion.materialisation import INLINE_COST, Fusion, Partition, dense_strides, roots
from nacre.compile.fusion.pointwise import is_pointwise
from nacre.compile.passes.layout import layouts as chosen
from nacre.ir.axes import spreads
from nacre.ir.graph import Atom, Equation, Graph, Literal, Var
from nacre.ir.primitive import Element, Layout, Reduce, Template, copies

INLINE_STEPS = 8  # a value made of constants in more equations than this is computed once
MOST_EQUATIONS = 128  # of a cluster, so that compile time is proportional to the size of the graph
MOST_REDUCTIONS = 8  # of a cluster
MOST_BESIDE = 8  # clusters that are tried because they read the same value
FAR = 64  # equations between an operand's cluster and an equation with a large result, which then does not join it
LARGE = 1 << 20  # bytes


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
        self.inline: dict[Var, int] = {}  # values that are computed wherever they are read, and the number of steps
        self.readers: dict[Atom, dict[Node, None]] = {}  # nodes that read a value, in order
        self.flat: dict[Var, Atom] = {}
        self.moved: dict[Var, Equation] = {}  # reshapes whose only reader is a copy, which does their work
        self.uses = Counter(x for e in graph.equations for x in e.inputs)
        self.copied = {e.inputs[0] for e in graph.equations if copies(e.primitive) and e.outputs[0] not in self.strides}
        self.factors = {x for e in graph.equations if isinstance(e.primitive.lowering, Template) for x in e.inputs}
        self.effects: list[Node] = []  # nodes with effects, in order; they may have no results
        self.count = 0
        self.at = 0  # the equation that is visited
        self.latest: dict[Node, int] = {}  # the last equation that was put into a node

    # ---- nodes

    def node(self, v: Atom) -> Node | None:
        """The node that computes the atom, after merges; None for inputs and literals."""
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
        """Put the equation into the node, with its dependences."""
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
        """The values that are read where atoms are: inlined equations are replaced by their operands."""
        return roots(atoms, self.inline, self.producer)

    # ---- the walk

    def run(self) -> Fusion:
        """Visit every equation in order, then materialise."""
        for e in self.graph.equations:
            self.visit(e)
            self.at += 1
            progress("fusing operation", self.at, len(self.graph.equations))
        node_of = {v: n for v in self.node_of if (n := self.node(v)) is not None}
        nodes = ordered({*node_of.values(), *self.effects})
        whole = Partition(self.graph, nodes, node_of, self.producer, self.source, self.inline, self.flat, self.strides)
        return whole.materialise()

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
            node = self.new(e, None)
            if e.has_effects:
                if self.effects:
                    node.follow(self.effects[-1])
                self.effects.append(node)

    def is_inline(self, e: Equation) -> bool:
        """Whether the result is cheap and made only of constants: it costs less to compute than to read."""
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
        """The number of equations to compute for e: itself, and those inlined into it."""
        return 1 + sum(self.inline.get(x, 0) for x in e.inputs)  # type: ignore[call-overload]

    def visit_view(self, e: Equation, low: Element) -> bool:
        """Make the result of a view operation an alias of its operand, if possible."""
        x = e.inputs[0]
        if isinstance(x, Var) and x in self.inline:
            if self.steps(e) > INLINE_STEPS:
                return False
            self.inline[e.outputs[0]] = self.steps(e)
            return True
        node = self.node(x)
        if node is not None and not node.opaque and self.broadcast_of_row(e, node):
            return False
        base = Layout(0, dense_strides(x, self.strides))  # type: ignore[arg-type]
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
        """Write a reshape that cannot be a view as a copy over the axes of its operand: no index is divided.

        The operand must be in memory or in a node; an inlined operand is in neither.  If the only reader of the result
        is a copy, that copy does the work.
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
        """Put the equation into the best node that fits, or into a new one."""
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
        """The nodes that e may join.  A large result does not join a node far back, long before the result is read.

        So values of the derivative that depend on values of the function are computed with the derivative.
        """
        if not (large(e.outputs[0]) and is_pointwise(e)):
            return needed
        return [n for n in needed if self.at - self.latest[n] <= FAR]

    def candidates(self, e: Equation, near: list[Node], axes: tuple[int, ...] | None) -> list[Node]:
        """Clusters of operands, the latest first; then those that read the same values."""
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
        """Whether the loops of the node can also compute the equation, and the node is not too large."""
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
        """Whether a pointwise node should rather be the epilogue of a product or a window.

        The value that e reduces is stored in any case, because it is also a factor of other products.  The gradient of
        a bias is such a reduction.
        """
        return (
            node.axes is None
            and self.converted(reduction.inputs[0]) in self.factors
            and any(
                isinstance(x, Var)
                and x in self.producer
                and x.type.shape == node.domain
                and self.producer[x].primitive.takes_epilogue
                for e in node.equations
                for x in e.inputs
            )
        )

    def converted(self, x: Atom) -> Atom:
        """The factor of products from which a value is converted, or the value itself."""
        e = self.producer.get(x) if isinstance(x, Var) else None
        return e.inputs[0] if e is not None and e.primitive.converts and e.inputs[0] in self.factors else x

    def reads_full(self, e: Equation, node: Node) -> bool:
        """Whether the values that the node computes are read at the index of its domain."""
        assert node.domain is not None
        return self.reads_shape(e, node, node.domain)

    def reads_shape(self, e: Equation, node: Node, shape: Shape) -> bool:
        """Whether every operand that the cluster computes is read at the index of the result."""
        if isinstance(e.primitive.lowering, Element) and not is_pointwise(e):
            return not any(self.node(x) is node for x in self.roots(e.inputs))
        return all(x.type.shape == shape and x not in self.source for x in self.roots(e.inputs) if self.node(x) is node)

    def join(self, e: Equation, node: Node, axes: tuple[int, ...] | None) -> None:
        """Put the equation into the node, which takes its reduced axes."""
        if axes is not None:
            node.axes = axes
        self.place(e, node)

    def absorb(self, node: Node, others: list[Node]) -> None:
        """Merge the operands' clusters into the node if domains agree and no cycle arises."""
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
        """Whether e reads the other cluster's values at its own index, or broadcasts a row of it."""
        mine = [x for x in self.roots(e.inputs) if self.node(x) is other]
        if not mine:
            return True
        if self.broadcast_of_row(e, other):
            return True
        if isinstance(e.primitive.lowering, Reduce):
            return all(x.type.shape == other.domain and x not in self.source for x in mine)
        shape = e.outputs[0].type.shape
        return is_pointwise(e) and all(x.type.shape == shape and x not in self.source for x in mine)


def _layout_through(fuser: _Fuser, v: Var) -> Layout | None:
    """The layout of a view of a view, over its dense source."""
    chain: list[Equation] = []
    while v in fuser.source:
        chain.append(fuser.producer[v])
        v = fuser.source[v]
    layout = Layout(0, dense_strides(v, fuser.strides))  # type: ignore[arg-type]
    for e in reversed(chain):
        low = e.primitive.lowering
        assert isinstance(low, Element) and low.view is not None
        found = low.view(layout, e.inputs[0].type, e.outputs[0].type, **e.params)
        if found is None:
            return None
        layout = found
    return layout


def large(v: Var) -> bool:
    """Whether a value takes so much memory that it should be read soon after it is written."""
    return isinstance(v.type.nbytes, int) and v.type.nbytes >= LARGE


def fuse(graph: Graph, layouts: Sequence[tuple[int, ...]] | None = None) -> Fusion:
    """Divide a graph's equations into nodes and decide which values are stored.

    `layouts` are the strides of the inputs; by default inputs are dense.
    """
    return _Fuser(graph, layouts).run()
