"""`Compilation`: a program while it is compiled, and the three kinds of passes that take it on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field

from nacre.base.records import dataclass
from nacre.compile import verification
from nacre.compile.fusion.materialisation import Fusion
from nacre.compile.lowering.symbolic_shapes import SymbolicKernel
from nacre.compile.program.launches import KernelForms, LaunchWriter
from nacre.compile.program.settings import is_verified
from nacre.ir.graph import Equation, Graph
from nacre.kernel.ast import Kernel
from nacre.native.engine import Target, isa_of
from nacre.native.isa import Isa
from nacre.runtime.executable import Executable
from nacre.runtime.plan import Plan


@dataclass(frozen=True)
class GraphPass:
    """A pass from graph to graph.

    One with `bodies` also runs on the body of each loop and each side of a branch, when that is lowered.
    """

    name: str
    contract: str
    run: Callable[[Graph], Graph]
    bodies: bool = False

    def apply(self, graph: Graph, verify: bool) -> Graph:
        """The graph behind the pass, verified if `verify` is true."""
        found = self.run(graph)
        if verify and found is not graph:
            verification.graph_behind(self.name, found)
        return found


@dataclass(frozen=True)
class KernelPass:
    """A pass from kernel to kernel, which runs on each nest while the graph is lowered.

    Behind one with `symbolic`, the kernel has symbols for the program's own sizes.
    """

    name: str
    contract: str
    run: Callable[[SymbolicKernel], SymbolicKernel]
    symbolic: bool = False


@dataclass(frozen=True)
class ProgramPass:
    """A pass that adds to the program: its clusters, its launches, its plan, or its executable."""

    name: str
    contract: str
    run: Callable[[Compilation], None]


Pass = GraphPass | KernelPass | ProgramPass


@dataclass
class Compilation:
    """A program while it is compiled: where it came from, and what the passes have made of it."""

    source: Graph
    graph: Graph  # the source behind the graph passes that have run
    layouts: Sequence[tuple[int, ...]] | None  # the inputs' strides where they are not dense
    target: Target
    passes: Sequence[Pass]
    begin: Callable[[str], None] | None = None  # takes the text of each new kernel
    verify: bool = field(default_factory=is_verified)
    fusion: Fusion | None = None
    launches: LaunchWriter | None = None
    plan: Plan | None = None
    executable: Executable | None = None
    forms: dict[int, tuple[Kernel, KernelForms]] = field(default_factory=dict[int, tuple[Kernel, KernelForms]])

    @property
    def isa(self) -> Isa:
        """The instruction set of the target."""
        return isa_of(self.target)

    def run(self, last: str | None = None, first: str | None = None) -> Compilation:
        """Run the passes in order, from the first one up to the last one, both included."""
        names = [p.name for p in self.passes]
        for each in self.passes[0 if first is None else names.index(first) :]:
            if isinstance(each, GraphPass):
                self.graph = each.apply(self.graph, self.verify)
            elif isinstance(each, ProgramPass):
                before = self.plan
                each.run(self)
                if self.verify and self.plan is not None and self.plan is not before:
                    verification.plan_behind(each.name, self.plan)
            if each.name == last:
                break
        return self

    def simplify_body(self, graph: Graph, last: str | None = None) -> Graph:
        """The body of a loop or a side of a branch, behind the graph passes that run on those, up to the last one."""
        for each in self.passes:
            if isinstance(each, GraphPass) and each.bodies:
                graph = each.apply(graph, self.verify)
            if each.name == last:
                break
        return graph

    def with_bodies(self, graph: Graph, last: str) -> Graph:
        """The graph with the bodies of its loops and branches, at any depth, behind the passes up to the last one."""

        def behind(p: object) -> object:
            """A parameter behind the passes, if it is a body."""
            return self.with_bodies(self.simplify_body(p, last), last) if isinstance(p, Graph) else p

        equations = [
            Equation(e.primitive, e.inputs, {k: behind(p) for k, p in e.params.items()}, e.outputs, e.source)
            for e in graph.equations
        ]
        return Graph(graph.inputs, tuple(equations), graph.outputs, graph.name)

    def kernel_forms(self, kernel: Kernel) -> KernelForms:
        """A nest behind each kernel pass; the passes run once for a nest that several clusters share."""
        found = self.forms.get(id(kernel))
        if found is None:
            found = self.forms[id(kernel)] = kernel, self._behind_passes(kernel)
        return found[1]

    def _behind_passes(self, kernel: Kernel) -> KernelForms:
        form, concrete = SymbolicKernel(kernel, {}, ()), kernel
        behind = {"lowering": form}
        if self.verify:
            verification.kernel_behind("lowering", kernel)
        for each in self.passes:
            if isinstance(each, KernelPass):
                form = behind[each.name] = each.run(form)
                concrete = concrete if each.symbolic else form.kernel
                if self.verify:
                    verification.kernel_behind(each.name, form.kernel)
        return KernelForms(behind, concrete)
