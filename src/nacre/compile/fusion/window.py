"""Windows as launches: native kernels for most of them, fused with pointwise clusters before and after.

A primitive of windows has a nest for every type and size.  `NATIVE` has builders of faster kernels for some cases, and
returns None for others; both give the same bits.  Native kernels fuse a cluster that only the window reads, and one
that reads its results.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import lru_cache

from nacre.base.dims import product
from nacre.base.records import dataclass
from nacre.codegen.convolution.sequence import ResultPlace, Steps
from nacre.codegen.window import kernel as kernels
from nacre.codegen.window.prologue import Prologue
from nacre.compile.fusion import convolution_epilogue
from nacre.compile.fusion.convolution_epilogue import (
    WIDEST,
    EpilogueCode,
    FusedEpilogue,
    Operand,
    grouped,
    is_whole,
    load,
    operand,
)
from nacre.compile.fusion.fuse import Fusion, View
from nacre.compile.fusion.gemm_epilogue import readers
from nacre.compile.fusion.graph import WINDOWS, Node
from nacre.compile.lowering.cache import lower_over
from nacre.compile.lowering.inline_emission import computed, inline_body
from nacre.compile.lowering.kernel_selection import Attempt, Builder, TemplateStep, launches, strided, written_beside
from nacre.compile.lowering.kernel_selection import Place as Where
from nacre.compile.passes.layout import is_dense
from nacre.compile.passes.nchwc import in_planes
from nacre.ir.graph import Equation, Var
from nacre.kernel.ast import Stmt
from nacre.kernel.order_window import Window, window
from nacre.native.isa import Isa
from nacre.native.text import Function, Val

_FORMS = {
    "window_max": (kernels.max_forward, ("x",), "y"),
    "window_max_grad": (kernels.max_grad, ("dy", "x"), "dx"),
    "window_sum": (kernels.sum_forward, ("x",), "y"),
    "window_sum_grad": (kernels.sum_grad, ("dy",), "dx"),
}


def window_of(e: Equation) -> Window | None:
    """An equation's window where kernels are written for it: of floats, narrow, every size but the batch known."""
    image = in_planes(e.outputs[0].type if e.primitive.name.endswith("grad") else e.inputs[0].type)
    dtype, p = image.dtype, e.params
    if not dtype.is_float or (dtype.is_widened and e.primitive.name == "window_max_grad"):
        return None
    if not all(isinstance(n, int) and n > 0 for n in image.shape[1:]):
        return None
    if p["size"][1] > kernels.WIDEST or p["stride"][1] > kernels.WIDEST:
        return None
    channels, height, width = map(int, image.shape[1:])  # type: ignore[arg-type]
    about = window(
        channels, height, width, p["size"], stride=p["stride"], padding=p["padding"], dilation=p.get("dilation", (1, 1))
    )
    if about.columns.out == 1 and e.primitive.name not in ("window_sum_grad", "window_max_blocked"):
        return None  # a nest has planes in its vectors
    return about


# ---- what comes before


@dataclass(frozen=True)
class PrologueCode:
    """The straight code of a cluster that computes what a window reads, and what it reads itself."""

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
    """A beginning, the views that it reads, and the instructions of an element, roughly."""

    beginning: PrologueCode
    reads: tuple[View, ...]
    cost: int


def prologues(fusion: Fusion, finishing: Collection[Node]) -> Mapping[Node, Node]:
    """For windows the pointwise clusters that compute what they alone read, and finish nothing else."""
    nodes = [n for n in fusion.nodes if n.opaque and n.equations[0].primitive.name in WINDOWS]
    if not nodes:
        return {}
    read = readers(fusion)
    found = {node: _before(fusion, node, read) for node in nodes}
    return {node: cluster for node, cluster in found.items() if cluster is not None and cluster not in finishing}


def _before(fusion: Fusion, node: Node, read: Mapping[Var, set[Node | None]]) -> Node | None:
    """The cluster that computes a window's operand, if it computes nothing else and has no other reader."""
    (e,) = node.equations
    v, *others = (fusion.views[x].base for x in e.inputs)
    cluster = fusion.inside.get(v) if isinstance(v, Var) else None
    if cluster is None or cluster.axes is not None or v in others or v in fusion.flat or window_of(e) is None:
        return None
    stored = {y for q in cluster.equations for y in q.outputs if y in fusion.stored}
    return cluster if stored == {v} and read[v] == {node} else None  # type: ignore[index]


def fused_prologue(fusion: Fusion, cluster: Node, e: Equation) -> FusedPrologue | None:
    """How a cluster begins a window; None where the generator cannot write it."""
    type, view = e.inputs[0].type, fusion.views[e.inputs[0]]
    assert cluster.domain is not None
    groups = grouped(cluster.domain, type.shape)
    if type.dtype.is_widened or groups is None or view.offset != 0 or not is_dense(type.shape, view.strides):
        return None
    lowered = lower_over(fusion, cluster, "beginning", groups)
    if lowered is None or len(lowered.kernel.buffers) > WIDEST:
        return None
    (output,), inputs = lowered.kernel.outputs, lowered.kernel.inputs
    operands = [operand(b) for b in inputs]
    if not is_whole(output) or any(o is None for o in operands):
        return None
    beginning = PrologueCode(inline_body(lowered.kernel), tuple(o for o in operands if o), output.name)
    return FusedPrologue(beginning, lowered.reads, lowered.cost)


def fused_epilogue(fusion: Fusion, cluster: Node, e: Equation, keeps: bool) -> FusedEpilogue | None:
    """How a cluster ends a window; None where the generator cannot write it."""
    return (
        None if e.outputs[0].type.dtype.is_widened else convolution_epilogue.fused_epilogue(fusion, cluster, e, keeps)
    )


# ---- steps


@lru_cache(maxsize=256)
def _steps(
    isa: Isa, name: str, scalar: str, about: Window, beginning: PrologueCode | None, ending: EpilogueCode | None
) -> Steps:
    before = None if beginning is None else Prologue(beginning, beginning.names)
    around = kernels.Fused(before, ending, ending.names if ending is not None else ())
    return _FORMS[name][0](isa, scalar, about, around)


def window_steps(
    isa: Isa,
    e: Equation,
    views: list[View],
    result: View,
    before: FusedPrologue | None = None,
    behind: FusedEpilogue | None = None,
) -> list[TemplateStep] | list[int] | None:
    """The launch of a window's maximum or sum or of its gradient, and of clusters around it; None for the nest."""
    about = window_of(e)
    if about is None:
        return None
    missing = [k for k in strided(e, views) if k > 0 or before is None]
    if missing:
        return missing
    _, names, name = _FORMS[e.primitive.name]
    places: dict[str, Where] = {**dict(zip(names, views, strict=True)), name: result}
    beginning, ending = before and before.beginning, behind and behind.ending
    cost = 4 * about.channels * about.rows.out * about.columns.out * about.rows.kernel * about.columns.kernel
    if before is not None:
        places |= zip(before.beginning.names, before.reads, strict=True)
        cost += before.cost * product(e.inputs[0].type.shape[1:])
    others: tuple[Var, ...] = ()
    if behind is not None:
        places[name], *rest = behind.writes
        others = tuple(rest)
        places |= zip(behind.ending.names, (*behind.reads, *others), strict=True)
        cost += behind.cost * product(e.outputs[0].type.shape[1:])
    steps = _steps(isa, e.primitive.name, e.outputs[0].type.dtype.memory, about, beginning, ending)
    batch = e.inputs[0].type.shape[0]
    return written_beside(launches(steps, places, batch, 0, batch * cost), others)


@lru_cache(maxsize=64)
def _blocked(isa: Isa, scalar: str, about: Window) -> Steps:
    return kernels.blocked_max_forward(isa, scalar, about)


def blocked_steps(isa: Isa, e: Equation, views: list[View], result: View) -> list[TemplateStep] | list[int]:
    """The launch of a maximum of windows over images in blocks, which no nest serves."""
    about = window_of(e)
    assert about is not None
    if missing := strided(e, views):
        return missing
    steps = _blocked(isa, e.outputs[0].type.dtype.memory, about)
    cost = 4 * about.channels * about.rows.out * about.columns.out * about.rows.kernel * about.columns.kernel
    batch = e.inputs[0].type.shape[0]
    return launches(steps, {"x": views[0], "y": result}, batch, 0, batch * cost)


BLOCKED: dict[str, Builder] = {"window_max_blocked": blocked_steps}
NATIVE: dict[str, Attempt] = dict.fromkeys(_FORMS, window_steps)
