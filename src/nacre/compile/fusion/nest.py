"""Nests with pointwise clusters: a cluster that only a nest reads is computed where the nest reads it, and one that
reads a result is computed where the nest stores it.

The kernel IR of the nest decides, whoever wrote it.  A cluster before a nest needs inputs of which each
element is read once, or a few times if it is cheap.  A cluster behind it needs a result of which each element is
stored once.  Each element is computed as without fusion, but without a pass through memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import field, replace
from typing import Final

from nacre.base.records import dataclass
from nacre.base.types import row_major
from nacre.compile.fusion.gemm_epilogue import Finishing, readers
from nacre.compile.fusion.graph import Node, current
from nacre.compile.fusion.materialisation import INLINE_COST, INLINE_READS, Fusion, View
from nacre.compile.lowering.cache import lower_apart
from nacre.compile.lowering.cost import scalar_cost, work
from nacre.compile.lowering.kernel_registry import RegisteredKernel, kernel_for
from nacre.compile.lowering.lower import Lowered
from nacre.ir.graph import Equation, Var
from nacre.ir.primitive import Nest
from nacre.kernel.ast import Buffer, Kernel, Let
from nacre.kernel.dependence import loaded
from nacre.kernel.inlining.accesses import places, reads_of_each, stored_once
from nacre.kernel.inlining.inline import (
    ElementCode,
    FreshNames,
    computed_where_read,
    computed_where_stored,
)
from nacre.native.isa import Isa

WIDEST: Final = 16  # buffers of a nest with clusters
SCALAR_COST: Final = 4  # instructions of a cluster's element that cost less than a pass through memory, one by one
VECTOR_COST: Final = 32  # the same in vectors of a loop that runs on one thread
SMALL_PART: Final = 16  # the part of a nest's own instructions that a cluster may always add
MOST_READS: Final = 8  # of an element of a cheap cluster
FAR: Final = 64  # nodes between a nest and a cluster behind it, if the nest's result is needed, too


@dataclass(frozen=True)
class FusedNest:
    """A nest over the views of its operands, and the clusters that it computes, too.

    Each element of the results in `complete` is stored.
    """

    equation: Equation
    nest: Nest
    kernel: Kernel
    reads: tuple[View, ...]
    writes: tuple[Var, ...]
    before: tuple[Node, ...] = ()
    behind: tuple[Node, ...] = ()
    complete: frozenset[Var] = frozenset()

    @property
    def equations(self) -> list[Equation]:
        """The equations that it computes, in order."""
        clusters = [[e for node in nodes for e in node.equations] for nodes in (self.before, self.behind)]
        return [*clusters[0], self.equation, *clusters[1]]

    @property
    def label(self) -> str:
        """The names of the operations that it computes, the first of each cluster."""
        clusters = [
            [e.primitive.name for node in nodes for e in node.equations][:5] for nodes in (self.before, self.behind)
        ]
        return "+".join([*clusters[0], self.equation.primitive.name, *clusters[1]])

    # ---- behind

    def with_behind(self, fusion: Fusion, node: Node, keeps: Set[Var]) -> FusedNest | None:
        """The nest with a cluster behind it, and the results that others read; None if it cannot compute the two."""
        lowered = _code(fusion, node)
        if lowered is None:
            return None
        mine = dict(zip(self.writes, self.kernel.outputs, strict=True))
        inputs = list(zip(lowered.reads, lowered.kernel.inputs, strict=True))
        sources = {b.name: mine[v.base] for v, b in inputs if v.base in mine}  # type: ignore[index]
        plain = ElementCode.of(lowered.kernel)
        if plain is None or not sources or any(b.shape != node.domain for b in sources.values()):
            return None
        if not all(v == fusion.views[v.base] and plain.reads_own(b.name) for v, b in inputs if b.name in sources):
            return None
        names = frozenset(b.name for b in sources.values())
        if not stored_once(self.kernel, names) or not self._affords(_cost(plain.lets), names):
            return None
        fresh = FreshNames(self.kernel)
        given, reads, new = self._joined(lowered, sources.keys(), fresh)
        made = {b.name: fresh(b.name) for b in lowered.kernel.outputs}
        code = plain.with_buffers({**new, **made})
        kept = {v for v, b in mine.items() if b.name not in names or v in keeps or b.name in loaded(self.kernel.body)}
        held = {mine[v].name for v in kept}
        body = computed_where_stored(
            self.kernel, code, {new.get(n, n): b.name for n, b in sources.items()}, held, fresh
        )
        outputs = [*((v, b) for v, b in mine.items() if v in kept)]
        outputs += [
            (v, replace(b, name=made[b.name])) for v, b in zip(lowered.writes, lowered.kernel.outputs, strict=True)
        ]
        return self._made(
            Kernel(self.kernel.name, given, tuple(b for _, b in outputs), body),
            reads,
            tuple(v for v, _ in outputs),
            behind=(*self.behind, node),
            complete=self.complete.union(lowered.writes),
        )

    # ---- before

    def with_before(self, fusion: Fusion, node: Node) -> FusedNest | None:
        """The nest with a cluster before it, all of whose results it reads; None if it cannot compute the two."""
        lowered = _code(fusion, node)
        if lowered is None:
            return None
        made: dict[str, str] = {}  # for each input that the cluster computes, the cluster's output
        results = {v: b.name for v, b in zip(lowered.writes, lowered.kernel.outputs, strict=True)}
        for view, b in zip(self.reads, self.kernel.inputs, strict=True):
            if view.base in results:
                if view != fusion.views[view.base] or b.shape != node.domain:
                    return None
                made[b.name] = results[view.base]  # type: ignore[index]
        code = ElementCode.of(lowered.kernel)
        if code is None or not self._pays_before(lowered, code, made):
            return None
        fresh = FreshNames(self.kernel)
        given, reads, new = self._joined(lowered, frozenset(), fresh)
        kernel = computed_where_read(replace(self.kernel, inputs=given), code.with_buffers(new), made, fresh)
        left = tuple(v for v, b in zip(reads, given, strict=True) if b.name not in made)
        return self._made(kernel, left, self.writes, before=(*self.before, node))

    def _pays_before(self, lowered: Lowered, code: ElementCode, made: Mapping[str, str]) -> bool:
        """Whether to compute inputs where they are read costs less than to store and load them."""
        if not made:
            return False
        for name, output in made.items():
            times = reads_of_each(self.kernel, name)
            if times is None or times > MOST_READS:
                return False
            cost = _cost(code.needed({output}))
            if times > 1 and (cost > INLINE_COST or len(lowered.kernel.inputs) > INLINE_READS):
                return False
            if not self._affords(cost, frozenset((name,))):
                return False
        return True

    # ---- both

    def _affords(self, cost: int, names: frozenset[str]) -> bool:
        """Whether instructions are cheap at the accesses of some buffers.

        They are where they run in vectors and threads, or are few, or a small part of the nest's own.
        """
        for place in places(self.kernel, names):
            limit = VECTOR_COST if place.in_vectors else SCALAR_COST
            free = place.in_vectors and place.in_threads
            if not free and cost > limit and cost * SMALL_PART > scalar_cost(place.iteration):
                return False
        return True

    def _joined(
        self, lowered: Lowered, without: Set[str], fresh: FreshNames
    ) -> tuple[tuple[Buffer, ...], tuple[View, ...], dict[str, str]]:
        """The inputs of the nest and of a cluster, their views, and new names for the cluster's.

        An input that both read is one.
        """
        known = {(v, b.shape, b.dtype): b.name for v, b in zip(self.reads, self.kernel.inputs, strict=True)}
        inputs, reads, new = list(self.kernel.inputs), list(self.reads), dict[str, str]()
        for view, b in zip(lowered.reads, lowered.kernel.inputs, strict=True):
            key = view, b.shape, b.dtype
            if b.name in without:
                continue
            if key in known and b.strides == view.strides:
                new[b.name] = known[key]
                continue
            new[b.name] = fresh(b.name)
            inputs.append(replace(b, name=new[b.name]))
            reads.append(view)
        return tuple(inputs), tuple(reads), new

    def _made(
        self, kernel: Kernel, reads: tuple[View, ...], writes: tuple[Var, ...], **changes: object
    ) -> FusedNest | None:
        if len(kernel.buffers) > WIDEST:
            return None
        return replace(self, kernel=kernel, reads=reads, writes=writes, **changes)  # type: ignore[arg-type]


def _cost(lets: Sequence[Let]) -> int:
    """Instructions that compute some names, without accesses of memory."""
    return sum(work(s.value, 0) for s in lets)


def _code(fusion: Fusion, node: Node) -> Lowered | None:
    """The kernel of a cluster over the axes of its domain; None for one that copies over other axes, or is stored."""
    if any(v in fusion.flat for e in node.equations for v in e.outputs):
        return None
    lowered = lower_apart(fusion, node, "cluster")
    stored = any(b.dtype.is_storage for b in lowered.kernel.buffers)
    return None if stored or not lowered.writes else lowered


def nest_of(fusion: Fusion, e: Equation, low: Nest) -> FusedNest:
    """An equation with a nest, alone; its operands are read where they are."""
    kernel = low.rule(tuple(x.type for x in e.inputs), tuple(v.type for v in e.outputs), **e.params)
    views = [fusion.views[x] for x in e.inputs]
    if low.onto is not None:
        views.pop(low.onto)
    inputs = tuple(Buffer(b.name, b.dtype, b.shape, v.strides) for b, v in zip(kernel.inputs, views, strict=True))
    outputs = tuple(Buffer(b.name, b.dtype, b.shape, b.strides or row_major(b.shape)) for b in kernel.outputs)
    return FusedNest(e, low, Kernel(kernel.name, inputs, outputs, kernel.body), tuple(views), e.outputs)


def by_generators(isa: Isa, finishing: Finishing) -> Finishing:
    """The clusters behind equations that a generator writes; where a nest is chosen, its kernel IR decides."""
    return {
        cluster: (node, keeps)
        for cluster, (node, keeps) in finishing.items()
        if not isinstance(node.equations[0].primitive.lowering, Nest)
        or chosen_nest(node.equations[0], kernel_for(isa, node.equations[0])) is None
    }


def chosen_nest(e: Equation, kernel: RegisteredKernel | None) -> Nest | None:
    """The nest that computes an equation: that of a registered kernel, or its own; None for another kernel."""
    low = e.primitive.lowering if kernel is None else kernel.build
    return low if isinstance(low, Nest) else None


# ---- the choice


@dataclass
class NestClusters:
    """The nests of a graph with clusters, and those clusters.

    A cluster in `computed` is computed where its nest is.  A nest in `later` is where the cluster behind it is.
    """

    made: dict[Node, FusedNest] = field(default_factory=dict[Node, FusedNest])
    computed: set[Node] = field(default_factory=set[Node])
    later: dict[Node, tuple[Node, bool]] = field(default_factory=dict[Node, tuple[Node, bool]])


def nest_clusters(fusion: Fusion, isa: Isa, finishing: Finishing, taken: Set[Node]) -> NestClusters:
    """The clusters that nests compute; those that are `taken` are not among them."""
    nests = [n for n in fusion.nodes if n.opaque and isinstance(n.equations[0].primitive.lowering, Nest)]
    if not nests:
        return NestClusters()
    choice = _Choice(fusion, {*taken, *finishing}, {n: k for k, n in enumerate(fusion.nodes)})
    choice.at.update(choice.place)
    choice.at.update({product: choice.place[cluster] for cluster, (product, _) in finishing.items()})
    for node in nests:
        low = chosen_nest(node.equations[0], kernel_for(isa, node.equations[0]))
        if low is not None and low.onto is None:
            choice.visit(node, low)
    return choice.found


@dataclass
class _Choice:
    """Chooses clusters for one nest after another, in the order of nodes."""

    fusion: Fusion
    taken: set[Node]
    place: Mapping[Node, int]
    at: dict[Node, int] = field(default_factory=dict[Node, int])  # the last place where a node may be computed
    found: NestClusters = field(default_factory=NestClusters)

    def __post_init__(self) -> None:
        self.read = readers(self.fusion)

    def visit(self, node: Node, low: Nest) -> None:
        """Choose the clusters of a nest, those behind it first."""
        (e,) = node.equations
        behind = sorted(self.clusters_behind(e), key=self.place.__getitem__)
        before = dict.fromkeys(c for x in e.inputs if (c := self.cluster_of(x)) is not None and self.is_free(c))
        if not behind and not before:
            return
        nest = nest_of(self.fusion, e, low)
        for cluster in behind:
            nest = self.behind(node, nest, cluster) or nest
        if not nest.behind:
            nest = next((n for c in behind if (n := self.later(node, nest, c)) is not None), nest)
        for cluster in before:
            nest = self.before(node, nest, cluster) or nest
        self.found.made[node] = nest

    def clusters_behind(self, e: Equation) -> set[Node]:
        """The clusters that read an equation's results, and that no kernel computes yet."""
        return {n for v in e.outputs for n in self.read.get(v, ()) if n is not None and self.is_free(n)}

    def is_free(self, node: Node) -> bool:
        """Whether a node is a pointwise cluster that no kernel computes yet."""
        return not node.opaque and node.axes is None and node not in self.taken

    def cluster_of(self, x: object) -> Node | None:
        """The cluster that computes a value."""
        return self.fusion.inside.get(x) if isinstance(x, Var) else None

    def wanted(self, nest: FusedNest, cluster: Node) -> set[Var]:
        """The nest's results that others than its clusters read."""
        own = {*nest.behind, cluster}
        return {v for v in nest.equation.outputs if self.read.get(v, set[Node | None]()) - own}

    def behind(self, node: Node, nest: FusedNest, cluster: Node) -> FusedNest | None:
        """The nest with a cluster behind it whose other operands are computed before the nest."""
        if any(self.at[m] >= self.place[node] for m in current(cluster.before) if m is not node):
            return None
        keeps = self.wanted(nest, cluster)
        if keeps and self.place[cluster] - self.place[node] > FAR:
            return None
        made = nest.with_behind(self.fusion, cluster, keeps)
        if made is not None:
            self.taken.add(cluster)
            self.found.computed.add(cluster)
        return made

    def later(self, node: Node, nest: FusedNest, cluster: Node) -> FusedNest | None:
        """The nest where a cluster behind it is, which comes before all other readers of the nest's results."""
        others = {n for v in nest.equation.outputs for n in self.read.get(v, ())} - {cluster}
        if any(n is not None and self.place[n] <= self.place[cluster] for n in others):
            return None
        keeps = self.wanted(nest, cluster)
        made = nest.with_behind(self.fusion, cluster, keeps)
        if made is not None:
            self.taken.add(cluster)
            self.found.later[cluster] = node, bool(keeps)
            self.at[node] = self.place[cluster]
        return made

    def before(self, node: Node, nest: FusedNest, cluster: Node) -> FusedNest | None:
        """The nest with a cluster before it that nothing else reads."""
        own = {node, *nest.behind}
        stored = {v for e in cluster.equations for v in e.outputs if v in self.fusion.stored}
        if not all(self.read[v] <= own for v in stored):
            return None
        made = nest.with_before(self.fusion, cluster)
        if made is not None:
            self.taken.add(cluster)
            self.found.computed.add(cluster)
        return made
