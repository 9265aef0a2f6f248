"""Matrix products with epilogues: a pointwise cluster that reads a product is computed as the product finishes.

The cluster's kernel is lowered over the product's three axes (batch, row, column).  The product's generator inserts its
straight-line body at the end of each row of a tile.  Each element is computed as without fusion, but without a pass
through memory.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from nacre.base.dims import Size
from nacre.base.dtypes import DType, float32, float64, int32
from nacre.base.records import dataclass
from nacre.codegen.loops.operations import memory
from nacre.compile.buffers.reuse import same_layout
from nacre.compile.fusion.graph import Node
from nacre.compile.fusion.materialisation import Fusion, View
from nacre.compile.lowering.cache import lower_over
from nacre.compile.lowering.constants_to_operands import literal, split_constants
from nacre.compile.lowering.inline_emission import computed, inline_body
from nacre.compile.lowering.kernel_registry import FusedClusters, always, register_kernel
from nacre.compile.lowering.kernel_selection import (
    Factor,
    Form,
    gemm_steps,
    product_code,
    product_form,
    product_step,
    readings,
)
from nacre.compile.lowering.lower import Lowered
from nacre.compile.lowering.template_step import TemplateStep
from nacre.compile.passes.layout import result_groups, result_strides
from nacre.ir.graph import Atom, Equation, Var
from nacre.kernel.ast import Buffer, Kernel, Stmt
from nacre.native.isa import Isa
from nacre.native.llvm_types import lanes_of, scalar_of, vec
from nacre.native.llvm_values import Val
from nacre.native.text import Function
from nacre.ops.dot import dot_p, widened_dot_p
from nacre.runtime.executable import Code

if TYPE_CHECKING:
    from nacre.codegen.gemm.kernel import Gemm

WIDEST = 12  # buffers that a cluster may read and write: an optimiser's update has nine or so


Finishing = Mapping[Node, tuple[Node, bool]]  # cluster → the product it is fused to, and whether that is stored too


@dataclass(frozen=True)
class FusedGemm:
    """A product, the cluster that is its epilogue, and the cluster's kernel over batch, rows and columns."""

    product: Equation
    lowered: Lowered
    keeps: tuple[Size, ...] | None  # the raw product's strides, if it is stored too
    over: tuple[tuple[View, Var], ...]  # operands, and the results that may overwrite them


def epilogues(fusion: Fusion) -> Finishing:
    """For each cluster that can be an epilogue: its product or window, and whether the raw result is stored too."""
    place = {n: k for k, n in enumerate(fusion.nodes)}
    read = readers(fusion)
    found: dict[Node, tuple[Node, bool]] = {}
    taken: set[Node] = set()
    for node in fusion.nodes:
        if node.domain is None or node.axes is not None:
            continue
        for other in sorted(node.before, key=lambda n: (_is_window(n), -place.get(n, -1))):
            if other in taken or not (_is_product(other, node) or _is_window(other)):
                continue
            v = other.equations[0].outputs[0]
            if not any(x in fusion.views and fusion.views[x].base is v for e in node.equations for x in e.inputs):
                continue
            others = read[v] - {node}
            if all(n is None or place[n] > place[node] for n in others):
                found[node] = other, bool(others)
                taken.add(other)
                break
    return found


def _is_product(node: Node, cluster: Node) -> bool:
    if node.domain is not None or len(node.equations) != 1:
        return False
    e = node.equations[0]
    return (
        e.primitive.takes_epilogue
        and not e.primitive.takes_prologue
        and e.outputs[0].type.shape == cluster.domain
        and e.outputs[0].type.dtype in (float32, float64, int32)
    )


def _is_window(node: Node) -> bool:
    return node.opaque and node.equations[0].primitive.takes_prologue


def readers(fusion: Fusion) -> dict[Var, set[Node | None]]:
    """The nodes that read each value, through views and inlined equations too; None stands for the graph's outputs."""
    node_of = {e.outputs: n for n in fusion.nodes for e in n.equations}  # a copy may read a reshape's operand
    found: dict[Var, set[Node | None]] = {}
    for v in fusion.graph.outputs:
        if isinstance(v, Var):
            found.setdefault(v, set()).add(None)
    for e in reversed(fusion.graph.equations):
        node = node_of.get(e.outputs)
        who: set[Node | None] = set() if node is None else {node}
        if not any(y in fusion.stored for y in e.outputs):  # computed by its readers
            who = who.union(*(found.get(y, set()) for y in e.outputs))
        for x in e.inputs:
            if isinstance(x, Var):
                found.setdefault(x, set()).update(who)
    return found


def fuse_product(
    fusion: Fusion, isa: Isa, e: Equation, before: Node | None, behind: Node | None, keeps: bool
) -> FusedClusters | None:
    """A product with the cluster that is its epilogue, or None if the two cannot be fused."""
    step = None if behind is None else _build(fusion, isa, behind, e, keeps)
    if step is None:
        return None

    def build(isa: Isa, e: Equation, views: list[View], result: View) -> list[TemplateStep] | list[int]:
        """The launch of both."""
        return [step]

    return FusedClusters(build, before=False, behind=True)


def _build(fusion: Fusion, isa: Isa, node: Node, e: Equation, keeps: bool) -> TemplateStep | None:
    """The launch of a product with its cluster, or None if the two cannot be fused."""
    views = [fusion.views[x] for x in e.inputs]
    for split, a, b in readings(e, views):
        lowered = lower_over(fusion, node, "epilogue", result_groups(e, split))
        raw = result_strides(e, fusion.views[e.outputs[0]].strides, split)
        form = product_form(isa, e, a, b)
        if lowered is not None and raw is not None and form is not None and _in_place(lowered, e.outputs[0], raw):
            over = _over(lowered, views, frozenset(fusion.graph.inputs))
            return _finished(isa, form, FusedGemm(e, lowered, raw if keeps else None, over), a, b, views)
    return None


def _in_place(lowered: Lowered, result: Var, strides: tuple[Size, ...]) -> bool:
    """Whether each element of a cluster reads a product's element at the same place, not one of a flip, for example."""
    found = [b for v, b in zip(lowered.reads, lowered.kernel.inputs, strict=True) if v.base is result]
    return all(
        b.strides is not None
        and all(n == 1 or s == raw for n, s, raw in zip(b.shape, b.strides, (*strides, 1), strict=True))
        for b in found
    )


def _finished(
    isa: Isa, form: Form, fused: FusedGemm, a: Factor, b: Factor, views: Sequence[View]
) -> TemplateStep | None:
    """The launch of a product with its cluster's kernel, or None where the generator cannot write the kernel."""
    given, raw = fused.lowered.kernel, fused.product.outputs[0]
    kernel, numbers = split_constants(given)
    if len(given.buffers) > WIDEST:
        return None
    mine = [k for k, v in enumerate(fused.lowered.reads) if v.base is raw]
    places = [*fused.lowered.reads, *(View(literal(c), 0, ()) for c in numbers)]
    operands = [(k, _kind(b)) for k, b in enumerate(kernel.inputs) if k not in mine]
    body = inline_body(kernel)
    if len(mine) != 1 or body is None or any(kind is None for _, kind in operands):
        return None
    kinds = tuple((kernel.inputs[k].name, str(kind), kernel.inputs[k].dtype) for k, kind in operands)
    results = tuple((b.name, b.dtype) for b in kernel.outputs)
    code, plan = _contraction(
        isa,
        form,
        body,
        kernel.inputs[mine[0]].name,
        kinds,
        results,
        fused.keeps is not None,
        bool(fused.over),
        _level(kernel, operands, fused.keeps),
    )
    written = [(v, b.strides) for v, b in zip(fused.lowered.writes, kernel.outputs, strict=True) if b.strides]
    if any(strides[3] != 1 and b.shape[3] != 1 for (_, strides), b in zip(written, kernel.outputs, strict=True)):
        return None
    if fused.keeps is not None:
        written.append((raw, fused.keeps))
    read = [(places[k], kernel.inputs[k]) for k, _ in operands]
    return product_step(fused.product, code, plan, a, b, views, written, read, fused.over)


def _over(lowered: Lowered, views: Sequence[View], given: Collection[Atom]) -> tuple[tuple[View, Var], ...]:
    """The results that may overwrite an operand: new values of the graph's inputs, as of an optimiser's step.

    The work item that writes an element of the result reads the same element of the operand before.
    """
    bases = [v.base for v in (*views, *lowered.reads)]
    return tuple(
        (view, v)
        for view, x in zip(lowered.reads, lowered.kernel.inputs, strict=True)
        for v, y in zip(lowered.writes, lowered.kernel.outputs, strict=True)
        if view.base in given and view.offset == 0 and bases.count(view.base) == 1 and same_layout(x, y)
    )


def _level(kernel: Kernel, operands: Sequence[tuple[int, str | None]], raw: tuple[Size, ...] | None) -> bool:
    """Whether the rows of all results, and of all operands as large as these, have the same stride."""
    rows = [b.strides for k, kind in operands if kind == "full" for b in [kernel.inputs[k]]]
    rows += [b.strides for b in kernel.outputs]
    steps: set[Size] = {strides[2] for strides in rows if strides}
    if raw is not None:
        steps.add(raw[2])
    return len(steps) == 1


def _kind(b: Buffer) -> str | None:
    """How an operand over (outer and inner batch, row, column) is read by a row of a tile."""
    if not b.strides:
        return "scalar"
    *_, down, across = b.strides
    if across == 1 or (b.shape[-1] == 1 and down != 1):
        return "row" if down == 0 else "full"
    if across == 0:
        return "column" if any(b.strides) else "scalar"
    return None


@lru_cache(maxsize=512)
def _contraction(
    isa: Isa,
    form: Form,
    body: tuple[Stmt, ...],
    mine: str,
    operands: tuple[tuple[str, str, DType], ...],
    results: tuple[tuple[str, DType], ...],
    keeps: bool,
    over: bool,
    level: bool,
) -> tuple[Code, Gemm]:
    from nacre.codegen.gemm.kernel import EpilogueOperand  # noqa: PLC0415 - few programs have products

    def epilogue(f: Function, sums: Val, loads: list[Val]) -> list[Val]:
        values = {mine: sums}
        for (name, _, dtype), x in zip(operands, loads, strict=True):
            values[name] = f.cast("trunc", x, "i1") if dtype.is_bool else _as(f, x, memory(dtype))
        finished = computed(f, body, values, lanes_of(sums.ty))
        found = [_as(f, finished[name], dtype.memory) for name, dtype in results]
        return [*found, sums] if keeps else found

    return product_code(
        isa,
        form,
        outputs=[*(d for _, d in results), *([form.result] if keeps else [])],
        operands=[EpilogueOperand(kind, dtype) for _, kind, dtype in operands],
        epilogue=epilogue,
        over=over,
        level=level,
    )


def _as(f: Function, x: Val, scalar: str) -> Val:
    """The bits of a vector as elements of another type: kernel IR has those of bfloat16 as integers."""
    return x if scalar_of(x.ty) == scalar else f.bitcast(x, vec(scalar, lanes_of(x.ty)))


register_kernel(dot_p, "*", always, gemm_steps, fuse_product)
register_kernel(widened_dot_p, "*", always, gemm_steps, fuse_product)
