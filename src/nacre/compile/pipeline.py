"""The pipeline: the readable list of a graph's stages on its way to machine code, and the executor.

simplify    calls inlined, equal equations merged, dead ones removed, outputs copied apart, control flow simplified
attend      softmax between two products becomes one equation, and its derivative another
bands       large products that are only reduced row by row become loops over bands of rows
remake      large factors that are cheap to compute are recomputed where they are read late
blocked     images between convolutions are stored in blocks of channels where that pays
layout      values that are only read permuted, and then copied, are written permuted
fuse        equations become clusters, one kernel each; matrix products and convolutions stay separate
sequence    a cluster that can end a product or a window joins it when the inputs of both are ready
lower       a cluster becomes a kernel-IR nest, with a case for each stretch of a loop; its sizes become symbols
generate    nests become LLVM text (templates write theirs directly), compiled once per text and cached
control     bodies of loops and branches take the same path; they become nodes of the plan
plan        launches in an order with few barriers, the arena
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import lru_cache
from itertools import count
from math import prod

import numpy as np

from nacre.base.dims import Dim, Size
from nacre.base.errors import CompileError
from nacre.base.identity_cache import cached_by_identity
from nacre.base.progress import progress
from nacre.base.records import dataclass
from nacre.base.types import TensorType, row_major
from nacre.codegen.convolution.sequence import Fill
from nacre.codegen.entry.driver import driver_text
from nacre.codegen.loops.kernel import Generated, generate
from nacre.codegen.loops.non_temporal import large_results
from nacre.compile.buffers.reuse import Carry, overwritable, plan_memory
from nacre.compile.fusion.fuse import Fusion, View, fuse
from nacre.compile.fusion.gemm_epilogue import epilogues
from nacre.compile.fusion.graph import Node
from nacre.compile.fusion.window import prologues
from nacre.compile.lowering import attention as attention  # registers its kernels
from nacre.compile.lowering.cache import lower
from nacre.compile.lowering.constants_to_operands import literal
from nacre.compile.lowering.cost import round_cost
from nacre.compile.lowering.kernel_registry import Builder, kernel_for
from nacre.compile.lowering.lower import Lowered, copy_kernel
from nacre.compile.lowering.symbolic_shapes import with_symbolic_shapes
from nacre.compile.lowering.template_step import ArgSlot, PrepackedOperand, Scratch, TemplateStep
from nacre.compile.passes.attention import fuse_attention
from nacre.compile.passes.nchwc import choose_nchwc
from nacre.compile.passes.rematerialise import rematerialise
from nacre.compile.passes.simplify import simplify
from nacre.compile.passes.strip_mining import strip_mine
from nacre.compile.program.control import Place, write_flow
from nacre.compile.scheduling.barriers import barrier_order, better
from nacre.compile.scheduling.sequence import sequence
from nacre.ir.graph import Atom, Equation, Graph, Literal, Var
from nacre.ir.primitive import Flow, Nest, Template
from nacre.kernel.ast import Const, For, Kernel
from nacre.kernel.row_storage import kept_in_results
from nacre.kernel.split import split
from nacre.native.engine import Target, host_target, isa_of
from nacre.native.isa import Isa
from nacre.runtime.executable import Code, Executable
from nacre.runtime.flow import Node as Step
from nacre.runtime.plan import READY, Launch, Number, Plan, PlannedValue, Pointer, Slot

FEW_ROWS = 16  # results of a reduction below which its loop is split


@dataclass(frozen=True)
class Stage:
    """What one launch came from, for those who want to look: its kernel IR, or the template's name."""

    label: str
    kernel: Kernel | None
    equations: tuple[Equation, ...]


@dataclass
class Compiled:
    """An executable and the stages it came through."""

    graph: Graph
    simplified: Graph
    fusion: Fusion
    stages: list[Stage]
    executable: Executable


@dataclass
class _Planner:
    """Numbers the values, codes and launches of a program while it is written.

    The bodies of loops and branches have planners of their own, which share everything but the graph and its values.
    """

    fusion: Fusion
    isa: Isa
    numbers: dict[Atom, int] = field(default_factory=dict[Atom, int])
    values: list[PlannedValue] = field(default_factory=list[PlannedValue])
    codes: dict[Code, int] = field(default_factory=dict[Code, int])
    launches: list[Launch] = field(default_factory=list[Launch])
    stages: list[Stage] = field(default_factory=list[Stage])
    constants: list[np.ndarray] = field(default_factory=list[np.ndarray])
    scalars: dict[Const, Literal] = field(default_factory=dict[Const, Literal])
    literals: dict[Literal, int] = field(default_factory=dict[Literal, int])
    tree: list[Step] = field(default_factory=list[Step])
    carries: list[Carry] = field(default_factory=list[Carry])
    loops: Iterator[int] = field(default_factory=count)
    begin: Callable[[str], None] | None = None  # takes the text of each new kernel
    sure: bool = True  # whether the graph runs at least once in each call

    # ---- control flow

    def within(self, graph: Graph, places: Mapping[Var, Place], sure: bool) -> _Planner:
        """A planner for the body of a loop or a side of a branch, simplified, whose inputs lie at places.

        `sure`: it runs whenever what is around it runs.
        """
        fusion = fuse(graph, [places[v][1] for v in graph.inputs])  # type: ignore[misc]
        numbers: dict[Atom, int] = {v: places[v][0] for v in graph.inputs}
        return replace(self, fusion=fusion, numbers=numbers, tree=[], sure=self.sure and sure)

    def next_loop(self) -> int:
        """The number of a new loop."""
        return next(self.loops)

    def write(self) -> None:
        """Write the launches of the graph, in order."""
        finishing = epilogues(self.fusion)
        beginning = prologues(self.fusion, self.isa, finishing)
        early = set(beginning.values())
        nodes = sequence(self.fusion, finishing)
        for k, node in enumerate(nodes):
            progress("writing kernel", k, len(nodes))
            if node in finishing:
                product, keeps = finishing[node]
                self.fused(product, beginning.get(product), node, keeps)
                continue
            if not node.opaque:
                if node not in early:
                    self.cluster(node)
                continue
            (e,) = node.equations
            if node in beginning:
                self.fused(node, beginning[node])
            elif isinstance(e.primitive.lowering, Flow):
                write_flow(self, e)
            else:
                self.kernel(e)

    def launch(self, launch: Launch, stage: Stage) -> None:
        """Append a launch."""
        self.tree.append(len(self.launches))
        self.launches.append(launch)
        self.stages.append(stage)

    # ---- values

    def declare(self, graph: Graph) -> None:
        for v in graph.inputs:
            self.numbers[v] = self.new(PlannedValue("input", v.type.nbytes))
        for v in graph.outputs:
            self.numbers[v] = self.new(PlannedValue("output", v.type.nbytes))

    def new(self, storage: PlannedValue) -> int:
        self.values.append(storage)
        return len(self.values) - 1

    def number(self, atom: Atom) -> int:
        if isinstance(atom, Literal):
            found = self.literals.get(atom)
            if found is None:
                self.constants.append(atom.array)
                found = self.literals[atom] = self.new(PlannedValue("constant", atom.type.nbytes))
            return found
        found = self.numbers.get(atom)
        if found is None:
            found = self.numbers[atom] = self.new(PlannedValue("temporary", atom.type.nbytes))
        return found

    def code(self, code: Code) -> int:
        """The number of a kernel; a new one is passed on at once."""
        if code not in self.codes and self.begin is not None:
            for text in code.texts:
                self.begin(text)
        return self.codes.setdefault(code, len(self.codes))

    def scalar(self, number: Const) -> Literal:
        """The constant in memory that a number became, one for equal numbers."""
        return self.scalars.setdefault(number, literal(number))

    # ---- the order

    def plan(self) -> Plan:
        """The launches as they were written, or in an order with fewer barriers; the stages follow."""
        ends = len(self.fusion.graph.inputs), len(self.fusion.graph.outputs)
        if not all(isinstance(n, int) for n in self.tree):
            return plan_memory(self.values, self.launches, *ends, tuple(self.tree), self.carries)
        written = plan_memory(self.values, self.launches, *ends)
        order = barrier_order(self.launches)
        if order == list(self.tree):
            return written
        found = plan_memory(self.values, [self.launches[k] for k in order], *ends)
        if not better(found, written):
            return written
        self.stages = [self.stages[k] for k in order]
        return found

    # ---- nests

    def nest(
        self,
        kernel: Kernel,
        reads: Sequence[View],
        writes: Sequence[int],
        cost: int,
        label: str,
        equations: Sequence[Equation],
        idle: bool = False,
    ) -> None:
        """Launch a kernel-IR nest over views and values; an `idle` one is a copy, left out where nothing moves."""
        large, pairs = large_results(kernel), overwritable(kernel)
        kernel = kept_in_results(kernel, large.union(kernel.outputs[o].name for _, o in pairs))
        general = with_symbolic_shapes(kernel)
        made = generated(general.kernel, self.isa, large)
        slots: list[Slot] = []
        for buffer, view in zip(kernel.inputs, reads, strict=True):
            slots.append(Pointer(self.number(view.base), view.offset * buffer.dtype.itemsize))
        slots += [Pointer(self.number(self.scalar(c))) for c in general.scalars]
        slots += [Pointer(w) for w in writes]
        slots += [Number(substitute(s, general.sizes)) for s in made.sizes]
        extent = substitute(made.extent, general.sizes)
        bases = [self.number(v.base) for v in reads]
        over = tuple((bases[i], writes[o]) for i, o in pairs if reads[i].offset == 0 and bases.count(bases[i]) == 1)
        self.launch(
            Launch(
                self.code(Code(made.text, made.name)),
                label,
                tuple(slots),
                extent,
                self.per_item(kernel, cost, extent),
                substitute(made.scratch, general.sizes),
                tuple(bases),
                tuple(writes),
                over=over,
                idle=idle and bool(over),
            ),
            Stage(label, kernel, tuple(equations)),
        )

    def per_item(self, kernel: Kernel, cost: int, extent: Size) -> int:
        """Work of one item of the parallel extent, in vector instructions."""
        rounds: Size = 1
        body = kernel.body
        while body and isinstance(body[0], For) and body[0].parallel:
            rounds = rounds * body[0].extent
            body = body[0].body
        lanes = self.isa.lanes("float")
        if isinstance(rounds, Dim) or isinstance(extent, Dim) or not extent:
            return max(1, cost * 4 // lanes)
        return max(1, cost * rounds // (extent * lanes))

    def cluster(self, node: Node) -> None:
        label = "+".join(e.primitive.name for e in node.equations[:6]) + ("…" if len(node.equations) > 6 else "")
        lowered = lower(self.fusion, node, label)
        if not lowered.writes:
            return
        writes = [self.number(v) for v in lowered.writes]
        halves = split(lowered.kernel) if _few_rows(node) else None
        if halves is not None:
            self.halves(*halves, lowered, writes, label, node)
            return
        self.nest(lowered.kernel, lowered.reads, writes, lowered.cost, label, node.equations)

    def halves(
        self, blocks: Kernel, rest: Kernel, lowered: Lowered, writes: Sequence[int], label: str, node: Node
    ) -> None:
        """A long reduction to few results: blocks of it side by side, then the tree of the blocks."""
        partial: list[View] = []
        for b in blocks.outputs:
            held = Var(TensorType(b.shape, b.dtype))
            self.number(held)
            partial.append(View(held, 0, row_major(b.shape)))
        numbers = [self.number(v.base) for v in partial]
        self.nest(blocks, lowered.reads, numbers, lowered.cost, label + " (blocks)", node.equations)
        self.nest(rest, [*lowered.reads, *partial], writes, lowered.cost, label, node.equations)

    def explicit(self, e: Equation, low: Nest) -> None:
        """An equation that brings its own nest, which reads operands as they lie."""
        types = tuple(x.type for x in e.inputs)
        kernel = low.rule(types, tuple(v.type for v in e.outputs), **e.params)
        views = [self.fusion.views[x] for x in e.inputs]
        if low.onto is not None:
            held, start = e.inputs[low.onto].type, views.pop(low.onto)
            copy = copy_kernel(held, start.strides, held.dtype, "copy")
            self.nest(copy, [start], [self.number(e.outputs[0])], 2, "copy", [e], idle=True)
        inputs = tuple(type(b)(b.name, b.dtype, b.shape, v.strides) for b, v in zip(kernel.inputs, views, strict=True))
        outputs = tuple(type(b)(b.name, b.dtype, b.shape, b.strides or row_major(b.shape)) for b in kernel.outputs)
        kernel = Kernel(kernel.name, inputs, outputs, kernel.body)
        cost = round_cost(kernel, self.isa.lanes("float"))
        self.nest(kernel, views, [self.number(v) for v in e.outputs], cost, e.primitive.name, [e])

    # ---- registered kernels

    def kernel(self, e: Equation) -> None:
        """An equation with a kernel of its own: a registered one, or its nest."""
        found, low = kernel_for(self.isa, e), e.primitive.lowering
        if found is not None:
            self.attempt(e, found.build, _label(e))
        elif isinstance(low, Nest):
            self.explicit(e, low)
        else:
            raise CompileError(f"compile: no kernel is registered that serves {e.primitive.name} on {self.isa.name}")

    def fused(self, node: Node, before: Node | None, behind: Node | None = None, keeps: bool = False) -> None:
        """An equation with the clusters before and behind it: launched together where they fit."""
        (e,) = node.equations
        kernel = kernel_for(self.isa, e)
        fuse = None if kernel is None else kernel.fuse
        found = None if fuse is None else fuse(self.fusion, self.isa, e, before, behind, keeps)
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
        """Launch what a builder writes for an equation, over dense copies where it asks for them."""
        views = [self.fusion.views[x] for x in e.inputs]
        result = self.fusion.views[e.outputs[0]]
        steps = build(self.isa, e, views, result)
        if steps and isinstance(steps[0], int):
            for k in steps:
                assert isinstance(k, int)
                views[k] = self.dense(e.inputs[k], views[k])
            steps = build(self.isa, e, views, result)
        scratch: dict[Scratch, int] = {}
        for s in steps:
            assert isinstance(s, TemplateStep)
            self.template_step(s, scratch, label, e)

    def template_step(self, s: TemplateStep, scratch: dict[Scratch, int], label: str, e: Equation) -> None:
        def value(place: object) -> int:
            if isinstance(place, Scratch):
                if place not in scratch:
                    of, fill = self.filling(place.of, place.fill)
                    scratch[place] = self.new(PlannedValue("temporary", place.nbytes, of=of, fill=fill))
                return scratch[place]
            return self.number(place.base if isinstance(place, View) else place)  # type: ignore[arg-type]

        def slot(given: ArgSlot) -> Slot:
            if not isinstance(given, tuple):
                return Number(given)
            if isinstance(given[0], PrepackedOperand):
                return self.packed(given[0])
            return Pointer(value(given[0]), given[1])

        slots = tuple(map(slot, s.slots))
        self.launch(
            Launch(
                self.code(s.code),
                label,
                slots,
                s.extent,
                s.cost,
                s.scratch,
                tuple(map(value, s.reads)),
                tuple(map(value, s.writes)),
                s.grain,
                s.flops,
                s.cut,
                s.cut_sizes,
                tuple((value(x), value(y)) for x, y in s.over),
            ),
            Stage(label, None, (e,)),
        )

    def packed(self, place: PrepackedOperand) -> Slot:
        """The memory in which an operand stays packed; null for one that the program computes, or may not pack."""
        of = self.number(place.of.base)
        if not self.sure or self.values[of].kind not in ("input", "constant"):
            return Number(0)
        _, fill = self.filling(place.of, place.fill)
        return Pointer(self.new(PlannedValue("packed", READY + place.nbytes, of=of, fill=fill)))

    def filling(self, view: View | None, fill: Fill | None) -> tuple[int, Fill | None]:
        """The constant of which something is made, and how; -1 and None for other operands."""
        of = -1 if view is None or view.offset != 0 else self.number(view.base)
        return (of, fill) if of >= 0 and self.values[of].kind == "constant" else (-1, None)

    def dense(self, x: Atom, view: View) -> View:
        """Launch a copy of a strided view into dense memory."""
        kernel = copy_kernel(x.type, view.strides, x.type.dtype, "copy")
        copied = self.new(PlannedValue("temporary", x.type.nbytes))
        base = Var(x.type)
        self.numbers[base] = copied
        self.nest(kernel, [view], [copied], 2, "copy", [])
        return View(base, 0, row_major(x.type.shape))


def _label(e: Equation) -> str:
    """The name of an equation's kernel: of its family, if it is of one."""
    low = e.primitive.lowering
    return low.name if isinstance(low, Template) else e.primitive.name


def _few_rows(node: Node) -> bool:
    """Whether a cluster reduces to so few values that their loops alone would leave threads idle."""
    rows = node.row_shape
    return rows is not None and all(isinstance(n, int) for n in rows) and prod(rows) < FEW_ROWS  # type: ignore[arg-type]


@cached_by_identity
@lru_cache(maxsize=1024)
def generated(kernel: Kernel, isa: Isa, streams: frozenset[str] = frozenset()) -> Generated:
    """The LLVM text of a general kernel; the same kernel is written once."""
    return generate(kernel, isa, streams)


def substitute(size: Size, sizes: dict[str, Size]) -> Size:
    """A size over a general kernel's symbols, in the program's own sizes."""
    if isinstance(size, int):
        return size
    if all(isinstance(sizes[s.name], int) for s in size.symbols()):
        return size.evaluate({s.name: sizes[s.name] for s in size.symbols()})  # type: ignore[misc]
    return size.substitute(sizes)


def compile_graph(
    graph: Graph,
    layouts: Sequence[tuple[int, ...]] | None = None,
    target: Target | None = None,
    begin: Callable[[str], None] | None = None,
) -> Compiled:
    """Take a graph through the pipeline.  `layouts` are the inputs' strides where they are not dense.

    A program for another `target` cannot run here.  `begin` gets the text of each kernel when
    it is written, so that it may be compiled while the others are.
    """
    simplified = choose_nchwc(rematerialise(strip_mine(fuse_attention(simplify(graph)))))
    fusion = fuse(simplified, layouts)
    target = target or host_target()
    planner = _Planner(fusion, isa_of(target), begin=begin)
    planner.declare(simplified)
    planner.write()
    plan = planner.plan()
    executable = Executable(
        tuple(planner.codes),
        plan,
        tuple(planner.constants),
        graph.input_types,
        graph.output_types,
        driver_text(),
        target,
    )
    return Compiled(graph, simplified, fusion, planner.stages, executable)
