"""`Explanation`: every stage of a function's compilation, as text."""

from __future__ import annotations

from nacre.base.errors import ArgumentError
from nacre.base.hints import closest
from nacre.base.records import dataclass
from nacre.codegen.loops.non_temporal import large_results
from nacre.compile.compilation import Compilation, GraphPass, KernelPass
from nacre.compile.fusion.materialisation import Fusion
from nacre.compile.lowering.symbolic_shapes import SymbolicKernel
from nacre.compile.pipeline import Compiled, passes
from nacre.compile.program.launches import Stage, generated
from nacre.ir.primitive import Element, Host
from nacre.kernel.text import show, show_expression
from nacre.native.engine import cross_target, emit_assembly
from nacre.native.isa import BY_NAME
from nacre.runtime.plan_text import show_plan


@dataclass(frozen=True)
class Explanation:
    """The stages of one concrete function; each attribute is text, `str()` is all of it."""

    signature: str
    compiled: Compiled
    sizes: dict[str, int]

    @property
    def graph(self) -> str:
        """The graph that the function was traced to."""
        return str(self.compiled.graph)

    @property
    def simplified(self) -> str:
        """The graph after simplification."""
        return str(self.compiled.simplified)

    @property
    def clusters(self) -> str:
        """What fusion made: a line for each node, its primitives, its domain and the axes it reduces."""
        return _clusters(self.compiled.fusion)

    def after(self, name: str) -> str:
        """What a compiler pass of this name leaves: the graph, the clusters, the kernels, or the plan.

        Bodies of loops and branches are behind the passes that run on them, too.
        Raises ArgumentError, with the names of all passes, for another name.
        """
        known = {p.name: p for p in passes()}
        if name not in known:
            raise ArgumentError(f"explain: after must be one of {', '.join(known)}; got {name!r}{closest(name, known)}")
        graph = self.compiled.graph
        last = "lowering" if isinstance(known[name], KernelPass) else name
        first = None
        if graph.memory_budget is not None and not isinstance(known[name], GraphPass):
            graph, first = self.compiled.simplified, "fusion"
        c = Compilation(graph, graph, None, self.compiled.executable.target, passes()).run(last, first)
        if c.executable is not None:
            return "\n".join(code.text for code in c.executable.codes).rstrip()
        if c.plan is not None:
            return show_plan(c.plan, self.sizes)
        if c.launches is not None:
            return "\n\n".join(_behind(stage, name) for stage in c.launches.stages)
        return str(c.with_bodies(c.graph, name)) if c.fusion is None else _clusters(c.fusion)

    @property
    def stages(self) -> list[Stage]:
        """The kernels in launch order, with their kernel IR where they have one."""
        return self.compiled.stages

    def kernel(self, step: int) -> str:
        """The kernel IR of a step; a sentence for a step that a template writes."""
        stage = self._stage(step)
        return _template(stage) if stage.kernel is None else show(stage.kernel).rstrip()

    def general(self, step: int) -> str:
        """The kernel for any size that a step shares with others of its form, and the sizes in this program."""
        stage = self._stage(step)
        if stage.forms is None:
            return _template(stage)
        made = stage.forms.last
        return show(made.kernel).rstrip() + "\n" + _sizes(made)

    def llvm(self, step: int, isa: str | None = None) -> str:
        """The LLVM text of a step: what runs here, or what a nest becomes for another instruction set."""
        stage = self._stage(step)
        executable = self.compiled.executable
        if isa is None or isa == executable.target.isa:
            return executable.codes[executable.plan.steps[step].code].text.rstrip()
        if stage.forms is None:
            raise ArgumentError(
                f"llvm: for another instruction set the step must have a kernel nest; step {step} "
                f"is the template {stage.label}; set NACRE_ISA={isa} and compile again"
            )
        if isa not in BY_NAME:
            raise ArgumentError(f"llvm: isa must be one of {', '.join(BY_NAME)}; got {isa!r}")
        streams = large_results(stage.forms.concrete)
        return generated(stage.forms.last.kernel, BY_NAME[isa], streams).text.rstrip()

    def assembly(self, step: int, isa: str | None = None) -> str:
        """The assembly of a step: for this machine, or for a portable machine of another instruction set."""
        target = self.compiled.executable.target if isa is None else cross_target(isa)
        return emit_assembly(self.llvm(step, isa), target).rstrip()

    @property
    def plan(self) -> str:
        """The steps in order, with barriers, their operands and results, and the places of these in memory."""
        return show_plan(self.compiled.executable.plan, self.sizes)

    def _stage(self, step: int) -> Stage:
        if not 0 <= step < len(self.stages):
            raise ArgumentError(f"explain: step must be from 0 to {len(self.stages) - 1}; got {step}")
        return self.stages[step]

    def __str__(self) -> str:
        kernels = "\n\n".join(self.kernel(k) for k in range(len(self.stages)))
        parts = {
            "signature": self.signature,
            "graph": self.graph,
            "simplified": self.simplified,
            "clusters": self.clusters,
            "kernels": kernels,
            "plan": self.plan,
        }
        return "\n\n".join(f"== {name} ==\n{text.rstrip()}" for name, text in parts.items())


def _clusters(fusion: Fusion) -> str:
    lines: list[str] = []
    for k, node in enumerate(fusion.nodes, 1):
        named = [e.primitive.name for e in node.equations if not _is_view(e.primitive.lowering)]
        over = "" if node.domain is None else f"  over {list(node.domain)}"
        reduced = f", reducing axes {list(node.axes)}" if node.axes else ""
        lines.append(f"{k}  {', '.join(named)}{over}{reduced}")
    return "\n".join(lines)


def _behind(stage: Stage, name: str) -> str:
    """The kernel of a stage behind a kernel pass, or behind lowering."""
    if stage.forms is None:
        return _template(stage)
    form = stage.forms.behind[name]
    return show(form.kernel).rstrip() + ("\n" + _sizes(form) if form.sizes or form.scalars else "")


def _is_view(lowering: object) -> bool:
    return isinstance(lowering, Element) and lowering.view is not None


def _template(stage: Stage) -> str:
    if any(isinstance(e.primitive.lowering, Host) for e in stage.equations):
        return f"({stage.label}: it calls a Python function)"
    return f"(template {stage.label}: it writes its LLVM text itself)"


def _sizes(made: SymbolicKernel) -> str:
    scalars = zip(made.kernel.inputs[len(made.kernel.inputs) - len(made.scalars) :], made.scalars, strict=True)
    known = [f"{name} = {size}" for name, size in made.sizes.items()]
    return "where " + ", ".join([*known, *(f"{b.name} = {show_expression(c)}" for b, c in scalars)])
