"""Kernel selection: which kernels compute each node of a fused graph, and which nodes are computed together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod

from nacre.base.errors import CompileError
from nacre.base.progress import progress
from nacre.base.records import dataclass
from nacre.base.types import TensorType, row_major
from nacre.compile.fusion.fuse import fuse
from nacre.compile.fusion.gemm_epilogue import epilogues
from nacre.compile.fusion.graph import Node
from nacre.compile.fusion.materialisation import Fusion, View
from nacre.compile.fusion.nest import FusedNest, by_generators, chosen_nest, nest_clusters, nest_of
from nacre.compile.fusion.window import prologues
from nacre.compile.lowering import attention as attention  # registers its kernels
from nacre.compile.lowering import sized_convolution as sized_convolution  # registers its kernels
from nacre.compile.lowering.cache import lower
from nacre.compile.lowering.cost import round_cost
from nacre.compile.lowering.kernel_registry import Builder, kernel_for
from nacre.compile.lowering.lower import Lowered, copy_kernel
from nacre.compile.lowering.template_step import Scratch, TemplateStep
from nacre.compile.lowering.zeros import zeros_before
from nacre.compile.program.control import Place, write_flow
from nacre.compile.program.launches import LaunchWriter, NestForm
from nacre.compile.program.values import ValueNumbers
from nacre.compile.scheduling.sequence import sequence
from nacre.ir.graph import Equation, Graph, Var
from nacre.ir.primitive import Flow, Host, Nest, RangeCheck, Template
from nacre.kernel.ast import Kernel
from nacre.kernel.split import split

FEW_ROWS = 16  # results of a reduction below which its loop is split


@dataclass(frozen=True)
class KernelSelection:
    """Chooses the kernels of a graph's nodes and writes their launches.

    The bodies of loops and branches are separate graphs, which share everything but the graph and its values.
    """

    fusion: Fusion
    values: ValueNumbers
    launches: LaunchWriter
    simplify_body: Callable[[Graph], Graph]  # the graph passes for bodies

    def within(self, graph: Graph, places: Mapping[Var, Place], sure: bool) -> KernelSelection:
        """The selection for the simplified body of a loop or side of a branch, whose inputs have the given places.

        `sure`: it runs whenever the code around it runs.
        """
        fusion = fuse(graph, [places[v][1] for v in graph.inputs])  # type: ignore[misc]
        values = self.values.within({v: places[v][0] for v in graph.inputs})
        return KernelSelection(fusion, values, self.launches.within(values, sure), self.simplify_body)

    def write(self) -> None:
        """Write the launches of the graph, in order."""
        finishing = by_generators(self.launches.isa, epilogues(self.fusion))
        prologue_of = prologues(self.fusion, self.launches.isa, finishing)
        early = set(prologue_of.values())
        nests = nest_clusters(self.fusion, self.launches.isa, finishing, early)
        nodes = sequence(self.fusion, {**finishing, **nests.later})
        for k, node in enumerate(nodes):
            progress("writing kernel", k, len(nodes))
            if node in finishing:
                product, keeps = finishing[node]
                self.fused(product, prologue_of.get(product), node, keeps)
                continue
            if node in nests.later:
                self.nest(nests.made[nests.later[node][0]])
                continue
            if not node.opaque:
                if node not in early and node not in nests.computed:
                    self.cluster(node)
                continue
            (e,) = node.equations
            if node in prologue_of:
                self.fused(node, prologue_of[node])
            elif node in nests.made:
                self.nest(nests.made[node])
            elif isinstance(e.primitive.lowering, Flow):
                write_flow(self, e)
            elif isinstance(e.primitive.lowering, Host):
                self.launches.host_call(e, [self.fusion.views[x] for x in e.inputs])
            elif isinstance(e.primitive.lowering, RangeCheck):
                self.launches.checks(e, [self.fusion.views[x] for x in e.inputs])
            else:
                self.kernel(e)

    # ---- nests

    def cluster(self, node: Node) -> None:
        """Launch the nest of a cluster; one that reduces many elements to few values is split in two."""
        label = "+".join(e.primitive.name for e in node.equations[:6]) + ("…" if len(node.equations) > 6 else "")
        lowered = lower(self.fusion, node, label)
        if not lowered.writes:
            return
        writes = [self.values.number(v) for v in lowered.writes]
        halves = split(lowered.kernel) if _few_rows(node) else None
        if halves is not None:
            self.halves(*halves, lowered, writes, label, node)
            return
        self.launches.nest(lowered.kernel, lowered.reads, writes, lowered.cost, label, node.equations)

    def halves(
        self, blocks: Kernel, rest: Kernel, lowered: Lowered, writes: Sequence[int], label: str, node: Node
    ) -> None:
        """A long reduction to few results: its blocks in parallel, then the tree over the blocks."""
        partial: list[View] = []
        for b in blocks.outputs:
            base = Var(TensorType(b.shape, b.dtype))
            self.values.number(base)
            partial.append(View(base, 0, row_major(b.shape)))
        numbers = [self.values.number(v.base) for v in partial]
        self.launches.nest(blocks, lowered.reads, numbers, lowered.cost, label + " (blocks)", node.equations)
        self.launches.nest(rest, [*lowered.reads, *partial], writes, lowered.cost, label, node.equations)

    def nest(self, n: FusedNest) -> None:
        """Launch an equation that has its own nest, which reads operands in place, with the clusters around it."""
        e, low = n.equation, n.nest
        if low.onto is not None:
            held, start = e.inputs[low.onto].type, self.fusion.views[e.inputs[low.onto]]
            copy = copy_kernel(held, start.strides, held.dtype, "copy")
            self.launches.nest(copy, [start], [self.values.number(e.outputs[0])], 2, "copy", [e], idle=True)
        partial = low.partial
        results = zip(n.writes, n.kernel.outputs, strict=True)
        before = [(v, zeros_before(n.kernel, b)) for v, b in results if partial and v not in n.complete]
        for v, zeros in before:
            if zeros is not None:
                self.launches.nest(zeros, [], [self.values.number(v)], 2, "zeros", [e])
        cost = round_cost(n.kernel, self.launches.isa.lanes("float"))
        writes = [self.values.number(v) for v in n.writes]
        form = NestForm(in_place=not any(zeros for _, zeros in before), optimised=low.optimised)
        self.launches.nest(n.kernel, n.reads, writes, cost, n.label, n.equations, form=form)

    # ---- registered kernels

    def kernel(self, e: Equation) -> None:
        """Launch an equation with its own kernel: a registered one, or its nest."""
        found = kernel_for(self.launches.isa, e)
        nest = chosen_nest(e, found)
        if found is not None and not isinstance(found.build, Nest):
            self.attempt(e, found.build, _label(e))
        elif nest is not None:
            self.nest(nest_of(self.fusion, e, nest))
        else:
            isa = self.launches.isa.name
            raise CompileError(f"compile: no kernel is registered that serves {e.primitive.name} on {isa}")

    def fused(self, node: Node, before: Node | None, behind: Node | None = None, keeps: bool = False) -> None:
        """Launch an equation with the clusters before and after it, as one where the kernel supports that."""
        (e,) = node.equations
        kernel = kernel_for(self.launches.isa, e)
        fuse = None if kernel is None else kernel.fuse
        found = None if fuse is None else fuse(self.fusion, self.launches.isa, e, before, behind, keeps)
        if before is not None and (found is None or not found.before):
            self.cluster(before)
        if found is None:
            self.kernel(e)
        else:
            names = [q.primitive.name for q in before.equations[:5]] if before and found.before else []
            names += [_label(e), *(q.primitive.name for q in (behind.equations[:5] if behind and found.behind else ()))]
            self.attempt(e, found.build, "+".join(names))
        if behind is not None and (found is None or not found.behind):
            self.cluster(behind)

    def attempt(self, e: Equation, build: Builder, label: str) -> None:
        """Launch the steps that a builder writes for an equation, over dense copies where it requires them."""
        views = [self.fusion.views[x] for x in e.inputs]
        result = self.fusion.views[e.outputs[0]]
        steps = build(self.launches.isa, e, views, result)
        if steps and isinstance(steps[0], int):
            for k in steps:
                assert isinstance(k, int)
                views[k] = self.launches.dense(e.inputs[k], views[k])
            steps = build(self.launches.isa, e, views, result)
        scratch: dict[Scratch, int] = {}
        for s in steps:
            if not isinstance(s, TemplateStep):  # it requires dense operands again, which symbolic sizes may not show
                types = ", ".join(str(x.type) for x in e.inputs)
                raise CompileError(f"compile: a kernel must serve {e.primitive.name} of dense operands; got {types}")
            self.launches.template_step(s, scratch, label, e)


def _label(e: Equation) -> str:
    """The name of an equation's kernel: that of its template, if it has one."""
    low = e.primitive.lowering
    return low.name if isinstance(low, Template) else e.primitive.name


def _few_rows(node: Node) -> bool:
    """Whether a cluster reduces to so few values that their loops alone would leave threads idle."""
    rows = node.row_shape
    return rows is not None and all(isinstance(n, int) for n in rows) and prod(rows) < FEW_ROWS  # type: ignore[arg-type]
