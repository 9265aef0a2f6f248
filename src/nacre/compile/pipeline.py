"""The pipeline: `PASSES`, the list of all compiler passes in the order in which they run, and `compile_graph`.

`NACRE_VERIFY=1` has the graph, each kernel and the plan verified behind each pass (see `verification`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from nacre.base.lazy import LateModule
from nacre.base.records import dataclass
from nacre.codegen.loops.non_temporal import large_results
from nacre.compile.buffers.reuse import overwritable, plan_memory
from nacre.compile.compilation import Compilation, GraphPass, KernelPass, Pass, ProgramPass
from nacre.compile.extensions import PASSES as OUTSIDE
from nacre.compile.fusion.fuse import fuse
from nacre.compile.fusion.materialisation import Fusion
from nacre.compile.lowering.selection import KernelSelection
from nacre.compile.lowering.symbolic_shapes import SymbolicKernel, with_symbolic_shapes
from nacre.compile.passes.attention import fuse_attention
from nacre.compile.passes.checks import place_checks
from nacre.compile.passes.grouped_products import group_products
from nacre.compile.passes.matrix_blocks import divide_matrices
from nacre.compile.passes.nchwc import choose_nchwc
from nacre.compile.passes.products import narrow_halves
from nacre.compile.passes.rematerialise import rematerialise
from nacre.compile.passes.scalar_loops import fuse_scalar_loops
from nacre.compile.passes.simplify import simplify
from nacre.compile.passes.strip_mining import strip_mine
from nacre.compile.passes.winograd import divide_winograd
from nacre.compile.program.launches import LaunchWriter, Stage
from nacre.compile.program.values import ValueNumbers
from nacre.compile.scheduling.barriers import barrier_order, better
from nacre.ir.graph import Graph
from nacre.kernel.complex.parts import in_parts
from nacre.kernel.row_storage import kept_in_results
from nacre.native.engine import Target, host_target
from nacre.runtime.executable import Executable

if TYPE_CHECKING:
    from nacre.compile.recomputation import budget
else:
    budget = LateModule("nacre.compile.recomputation.budget")  # few programs have one


def _fuse(c: Compilation) -> None:
    c.fusion = fuse(c.graph, c.layouts)


def _lower(c: Compilation) -> None:
    assert c.fusion is not None
    values = ValueNumbers()
    values.declare(c.graph)
    c.launches = LaunchWriter(values, c.isa, c.target, c.kernel_forms, begin=c.begin)
    KernelSelection(c.fusion, values, c.launches, c.simplify_body).write()


def _store_rows(form: SymbolicKernel) -> SymbolicKernel:
    kernel = form.kernel
    spared = large_results(kernel).union(kernel.outputs[o].name for _, o in overwritable(kernel))
    return SymbolicKernel(kept_in_results(kernel, spared), form.sizes, form.scalars)


def _symbolic(form: SymbolicKernel) -> SymbolicKernel:
    return with_symbolic_shapes(form.kernel)


def _in_parts(form: SymbolicKernel) -> SymbolicKernel:
    return SymbolicKernel(in_parts(form.kernel), form.sizes, form.scalars)


def _assign_buffers(c: Compilation) -> None:
    assert c.launches is not None
    w, ends = c.launches, (len(c.graph.inputs), len(c.graph.outputs))
    c.plan = plan_memory(w.values.storage, w.steps, *ends, () if _straight(w) else tuple(w.tree), w.carries)


def _schedule(c: Compilation) -> None:
    assert c.launches is not None and c.plan is not None
    w, order = c.launches, barrier_order(c.launches.steps) if _straight(c.launches) else []
    if not order or order == list(range(len(order))):
        return
    found = plan_memory(w.values.storage, [w.steps[k] for k in order], c.plan.inputs, c.plan.outputs)
    if better(found, c.plan):
        c.plan, w.stages = found, [w.stages[k] for k in order]


def _straight(w: LaunchWriter) -> bool:
    """Whether a program has neither loops nor branches."""
    return all(isinstance(n, int) for n in w.tree)


def _link(c: Compilation) -> None:
    assert c.launches is not None and c.plan is not None
    c.executable = Executable(
        tuple(c.launches.codes),
        c.plan,
        tuple(c.launches.values.constants),
        c.source.input_types,
        c.source.output_types,
        c.target,
    )


PASSES: tuple[Pass, ...] = (
    GraphPass(
        "simplification",
        "calls are inlined; equal and dead equations are gone; each output is a value of its own",
        simplify,
        bodies=True,
    ),
    GraphPass(
        "checks",
        "checks that may fail find the first failure's position; steps in their order end the program there",
        place_checks,
        bodies=True,
    ),
    GraphPass(
        "attention-fusion",
        "softmax between two products is one equation, and its derivative another",
        fuse_attention,
        bodies=True,
    ),
    GraphPass(
        "scalar-loops",
        "iterations of a loop over scalars are one kernel, which has the carry in registers",
        fuse_scalar_loops,
        bodies=True,
    ),
    GraphPass(
        "grouped-products",
        "rows of products with matrices that indices select are grouped by matrix",
        group_products,
        bodies=True,
    ),
    GraphPass("strip-mining", "a large product that is only reduced is a loop over strips of it", strip_mine),
    GraphPass(
        "rematerialisation",
        "a large factor that is cheap to compute is computed again where it is read late",
        rematerialise,
    ),
    GraphPass(
        "winograd-parts",
        "Winograd convolutions of symbolic sizes are transforms and products",
        divide_winograd,
        bodies=True,
    ),
    GraphPass(
        "matrix-blocks",
        "linear algebra on large matrices is kernels for their blocks, and products of these",
        divide_matrices,
        bodies=True,
    ),
    GraphPass(
        "half-factors",
        "products of two converted factors of a half type, and convolutions of bfloat16, read these as they are",
        narrow_halves,
        bodies=True,
    ),
    GraphPass("nchwc-layout", "images between convolutions are in blocks of channels where that pays", choose_nchwc),
    ProgramPass("fusion", "each equation is in one cluster, or is a node alone; each value has its place", _fuse),
    ProgramPass("lowering", "each node is launches of kernels: nests of kernel IR, or templates' LLVM text", _lower),
    KernelPass("row-storage", "a row that a nest keeps between its loops is in the result made of it", _store_rows),
    KernelPass("symbolic-shapes", "sizes and strides are symbols, constants are operands", _symbolic, symbolic=True),
    KernelPass("complex-parts", "complex numbers are pairs of real ones", _in_parts, symbolic=True),
    ProgramPass("buffer-assignment", "live values that overlap in time never share memory", _assign_buffers),
    ProgramPass("scheduling", "launches are in an order with few barriers, if it takes no more memory", _schedule),
    ProgramPass("linking", "the kernels, the plan and the constants are one executable", _link),
)


def passes() -> tuple[Pass, ...]:
    """`PASSES`, and behind simplification those from outside the package, each followed by another simplification."""
    outside = (GraphPass(p.name, p.contract, partial(_simplified, p.run), bodies=True) for p in OUTSIDE.values())
    return (PASSES[0], *outside, *PASSES[1:])


def _simplified(run: Callable[[Graph], Graph], graph: Graph) -> Graph:
    found = run(graph)
    return graph if found is graph else simplify(found)


@dataclass
class Compiled:
    """An executable and the stages it came through."""

    graph: Graph
    simplified: Graph
    fusion: Fusion
    stages: list[Stage]
    executable: Executable


def compile_graph(
    graph: Graph,
    layouts: Sequence[tuple[int, ...]] | None = None,
    target: Target | None = None,
    begin: Callable[[str], None] | None = None,
) -> Compiled:
    """Take a graph through the passes.  `layouts` are the inputs' strides where they are not dense.

    If the graph has a memory budget, the passes from fusion on run for several programs, of which one fits.

    A program for another `target` cannot run here.  `begin` gets the text of each kernel when
    it is written, so that it may be compiled while the others are.
    """
    c = Compilation(graph, graph, layouts, target or host_target(), passes(), begin)
    c = c.run() if graph.memory_budget is None else budget.compile_within(c, graph.memory_budget)
    assert c.fusion is not None and c.launches is not None and c.executable is not None
    return Compiled(graph, c.graph, c.fusion, c.launches.stages, c.executable)
