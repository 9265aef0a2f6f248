"""Windows as launches: native kernels for most of them, fused with pointwise clusters before and after.

A primitive of windows has a nest for every type and size.  The kernels that are registered here are faster and support
some cases; both give the same bits.  They fuse a cluster that only the window reads, and one that reads its results.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import lru_cache

from nacre.base.dims import product
from nacre.base.records import dataclass
from nacre.codegen.convolution.sequence import WIDEST_WINDOW, ResultPlace, Steps
from nacre.compile.fusion.convolution_epilogue import (
    WIDEST,
    EpilogueCode,
    FusedEpilogue,
    Operand,
    fused_epilogue,
    grouped,
    is_whole,
    load,
    operand,
)
from nacre.compile.fusion.gemm_epilogue import readers
from nacre.compile.fusion.graph import Node
from nacre.compile.fusion.materialisation import Fusion, View
from nacre.compile.lowering.cache import lower_over
from nacre.compile.lowering.inline_emission import computed, inline_body
from nacre.compile.lowering.kernel_registry import FusedClusters, kernel_for, register_kernel
from nacre.compile.lowering.kernel_selection import launches, strided, written_beside
from nacre.compile.lowering.template_step import Place as Where
from nacre.compile.lowering.template_step import TemplateStep
from nacre.compile.passes.layout import is_dense
from nacre.compile.primitives import in_planes, window_max_blocked_p
from nacre.ir.graph import Equation, Var
from nacre.kernel.ast import Stmt
from nacre.kernel.order_window import Window, window
from nacre.native.isa import Isa
from nacre.native.llvm_values import Val
from nacre.native.text import Function
from nacre.ops.window import WindowGeometry, window_max_grad_p, window_max_p, window_sum_grad_p, window_sum_p


@dataclass(frozen=True)
class WindowFamily:
    """A generator of window kernels (a name there), its operands' and result's names, and the cases it supports."""

    generator: str
    operands: tuple[str, ...]
    result: str
    backward: bool = False  # the result is the image
    halves: bool = True  # images of half types
    columns: bool = False  # results of one column, for which a nest vectorises over planes
    fuses: bool = True  # clusters before and after it
    single: bool = True  # one window over the whole image

    def match(self, isa: Isa, e: Equation) -> bool:
        """Whether the generator writes the kernels of an equation."""
        return window_of(self, e) is not None

    def build(self, isa: Isa, e: Equation, views: list[View], result: View) -> list[TemplateStep] | list[int]:
        """The launch of a window's maximum or sum or of its gradient."""
        return window_steps(self, isa, e, views, result)

    def fuse(
        self, fusion: Fusion, isa: Isa, e: Equation, before: Node | None, behind: Node | None, keeps: bool
    ) -> FusedClusters | None:
        """A window with the clusters before and after it that the generator can write; None for neither."""
        first = None if before is None else fused_prologue(fusion, before, e)
        last = None if behind is None else fused_epilogue(fusion, behind, e, keeps)
        if first is None and last is None:
            return None

        def build(isa: Isa, e: Equation, views: list[View], result: View) -> list[TemplateStep] | list[int]:
            """The launch of the window and its clusters."""
            return window_steps(self, isa, e, views, result, first, last)

        return FusedClusters(build, first is not None, last is not None)


def window_of(family: WindowFamily, e: Equation) -> Window | None:
    """An equation's window if kernels support it: floats, narrow windows, and all sizes but the batch known."""
    image = in_planes(e.outputs[0].type if family.backward else e.inputs[0].type)
    dtype, p = image.dtype, e.params
    if not dtype.is_float or (dtype.is_widened and not family.halves):
        return None
    if not all(isinstance(n, int) and n > 0 for n in image.shape[1:]):
        return None
    if max(p["size"][1], p["stride"][1]) > WIDEST_WINDOW:
        return None
    channels, height, width = map(int, image.shape[1:])  # type: ignore[arg-type]
    about = window(
        channels, height, width, p["size"], stride=p["stride"], padding=p["padding"], dilation=p.get("dilation", (1, 1))
    )
    over = WindowGeometry(image.shape, p["size"], p["stride"], p["padding"], p.get("dilation", (1, 1)))
    if not family.single and over.covers(0) and over.covers(1):
        return None
    return None if about.columns.out == 1 and not family.columns else about


# ---- prologues


@dataclass(frozen=True)
class PrologueCode:
    """The straight-line code of a cluster that computes a window's operand, and the operands of the cluster."""

    body: tuple[Stmt, ...]
    operands: tuple[Operand, ...]
    output: str

    @property
    def names(self) -> tuple[str, ...]:
        """The buffers that it reads."""
        return tuple(f"before.{o.name}" for o in self.operands)

    def __call__(self, f: Function, place: ResultPlace, lanes: int) -> Val:
        """Write the code for a vector of elements."""
        loaded = {
            o.name: load(f, o, pointer, place, lanes) for o, pointer in zip(self.operands, place.operands, strict=True)
        }
        return computed(f, self.body, loaded, lanes)[self.output]


@dataclass(frozen=True)
class FusedPrologue:
    """A prologue, the views that it reads, and the approximate number of instructions for an element."""

    code: PrologueCode
    reads: tuple[View, ...]
    cost: int


def prologues(fusion: Fusion, isa: Isa, finishing: Collection[Node]) -> Mapping[Node, Node]:
    """For each window, the pointwise cluster that computes an operand for it alone, and is not itself an epilogue."""
    nodes = [n for n in fusion.nodes if n.opaque and n.equations[0].primitive.takes_prologue]
    if not nodes:
        return {}
    read = readers(fusion)
    found = {node: _before(fusion, isa, node, read) for node in nodes}
    return {node: cluster for node, cluster in found.items() if cluster is not None and cluster not in finishing}


def _before(fusion: Fusion, isa: Isa, node: Node, read: Mapping[Var, set[Node | None]]) -> Node | None:
    """The cluster that computes a window's operand, if it computes nothing else and has no other reader."""
    (e,) = node.equations
    v, *others = (fusion.views[x].base for x in e.inputs)
    cluster = fusion.inside.get(v) if isinstance(v, Var) else None
    if cluster is None or cluster.axes is not None or v in others or v in fusion.flat or kernel_for(isa, e) is None:
        return None
    stored = {y for q in cluster.equations for y in q.outputs if y in fusion.stored}
    return cluster if stored == {v} and read[v] == {node} else None  # type: ignore[index]


def fused_prologue(fusion: Fusion, cluster: Node, e: Equation) -> FusedPrologue | None:
    """A cluster as the prologue of a window; None where the generator cannot write it."""
    type, view = e.inputs[0].type, fusion.views[e.inputs[0]]
    assert cluster.domain is not None
    groups = grouped(cluster.domain, type.shape)
    if groups is None or view.offset != 0 or not is_dense(type.shape, view.strides):
        return None
    lowered = lower_over(fusion, cluster, "beginning", groups)
    if lowered is None or len(lowered.kernel.buffers) > WIDEST:
        return None
    (output,), inputs = lowered.kernel.outputs, lowered.kernel.inputs
    operands, body = [operand(b) for b in inputs], inline_body(lowered.kernel)
    if body is None or not is_whole(output) or any(o is None for o in operands):
        return None
    code = PrologueCode(body, tuple(o for o in operands if o), output.name)
    return FusedPrologue(code, lowered.reads, lowered.cost)


# ---- steps


@lru_cache(maxsize=256)
def _steps(
    isa: Isa,
    family: WindowFamily,
    scalar: str,
    about: Window,
    prologue: PrologueCode | None,
    epilogue: EpilogueCode | None,
) -> Steps:
    from nacre.codegen.window import kernel as kernels  # noqa: PLC0415 - few programs have windows

    generator: Callable[..., Steps] = getattr(kernels, family.generator)
    if not family.fuses:
        return generator(isa, scalar, about)
    before = None if prologue is None else kernels.Prologue(prologue, prologue.names)
    around = kernels.Fused(before, epilogue, epilogue.names if epilogue is not None else ())
    return generator(isa, scalar, about, around)


def window_steps(
    family: WindowFamily,
    isa: Isa,
    e: Equation,
    views: list[View],
    result: View,
    before: FusedPrologue | None = None,
    behind: FusedEpilogue | None = None,
) -> list[TemplateStep] | list[int]:
    """The launch of a window's maximum or sum or of its gradient, with the clusters around it."""
    about = window_of(family, e)
    assert about is not None
    missing = [k for k in strided(e, views) if k > 0 or before is None]
    if missing:
        return missing
    places: dict[str, Where] = {**dict(zip(family.operands, views, strict=True)), family.result: result}
    prologue, epilogue = before and before.code, behind and behind.code
    cost = 4 * about.channels * about.rows.out * about.columns.out * about.rows.kernel * about.columns.kernel
    if before is not None:
        places |= zip(before.code.names, before.reads, strict=True)
        cost += before.cost * product(e.inputs[0].type.shape[1:])
    others: tuple[Var, ...] = ()
    if behind is not None:
        places[family.result], *rest = behind.writes
        others = tuple(rest)
        places |= zip(behind.code.names, (*behind.reads, *others), strict=True)
        cost += behind.cost * product(e.outputs[0].type.shape[1:])
    steps = _steps(isa, family, e.outputs[0].type.dtype.memory, about, prologue, epilogue)
    batch = e.inputs[0].type.shape[0]
    return written_beside(launches(steps, places, batch, 0, batch * cost), others)


MAX = WindowFamily("max_forward", ("x",), "y")
MAX_GRAD = WindowFamily("max_grad", ("dy", "x"), "dx", backward=True, halves=False)
MAX_BLOCKED = WindowFamily("blocked_max_forward", ("x",), "y", columns=True, fuses=False)  # which no nest serves
SUM = WindowFamily("sum_forward", ("x",), "y")
# One number for the whole image is repeated by a nest.
SUM_GRAD = WindowFamily("sum_grad", ("dy",), "dx", backward=True, columns=True, single=False)

register_kernel(window_max_p, "*", MAX.match, MAX.build, MAX.fuse)
register_kernel(window_max_grad_p, "*", MAX_GRAD.match, MAX_GRAD.build, MAX_GRAD.fuse)
register_kernel(window_sum_p, "*", SUM.match, SUM.build, SUM.fuse)
register_kernel(window_sum_grad_p, "*", SUM_GRAD.match, SUM_GRAD.build, SUM_GRAD.fuse)
register_kernel(window_max_blocked_p, "*", MAX_BLOCKED.match, MAX_BLOCKED.build)
