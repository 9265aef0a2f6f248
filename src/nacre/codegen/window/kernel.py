"""Maxima and sums of sliding windows and their gradients as native kernels, a work item a plane.

Tensors are row-major: x [N,C,H,W], y [N,C,OH,OW]; every size but the batch is baked into the code.
The scalar is an LLVM type: float, double, half or bfloat.  Each function returns the steps to run;
results have the bits of `nacre.kernel.order_window`.  Pointwise work `around` a window runs when its operand is loaded,
and when its results are complete.
"""

from __future__ import annotations

from collections.abc import Sequence

from nacre.base.dtypes import float32
from nacre.base.records import dataclass
from nacre.codegen.convolution.correlation import Correlation
from nacre.codegen.convolution.depthwise import DepthwiseKernel, Loader, TapReduction
from nacre.codegen.convolution.half import HALF_TYPES
from nacre.codegen.convolution.sequence import ConvolutionEpilogue, ResultPlace, SequenceKernel, Steps, product
from nacre.codegen.emitter import LlvmEmitter
from nacre.codegen.window.maximum import MaxKernel
from nacre.codegen.window.non_overlapping import (
    NonOverlappingMax,
    NonOverlappingMaxGrad,
    NonOverlappingSum,
    NonOverlappingSumGrad,
    is_non_overlapping,
)
from nacre.codegen.window.prologue import Prologue
from nacre.kernel.elementary import convert
from nacre.kernel.order_convolution import CHANNEL_BLOCK
from nacre.kernel.order_window import Window
from nacre.native.isa import Isa
from nacre.native.llvm_types import lanes_of, vec
from nacre.native.llvm_values import Operand, Val
from nacre.native.text import Function


@dataclass(frozen=True)
class Fused:
    """Pointwise work around a window: the prologue of its operand, and the epilogue with the buffers it reads."""

    prologue: Prologue | None = None
    epilogue: ConvolutionEpilogue | None = None
    operands: tuple[str, ...] = ()

    def kernel(self, isa: Isa, scalar: str, name: str, source: str, *buffers: str) -> SequenceKernel:
        """The kernel of a window, which reads `source` or the inputs of the prologue."""
        read = (source,) if self.prologue is None else self.prologue.names
        return SequenceKernel(isa, scalar, name, (*read, *buffers, *self.operands))

    def of_halves(self, scalar: str, source: str) -> Fused:
        """The work around a float32 window whose operand and result have a half type: it widens, and rounds once."""
        half, before, behind = HALF_TYPES[scalar], self.prologue, self.epilogue

        def widened(f: Function, place: ResultPlace, lanes: int) -> Val:
            """The operand, from memory or from the prologue."""
            if before is None:
                at, ty = f.gep(place.operands[0], place.offset, "i16"), vec("i16", lanes)
                value = f.load(at, ty) if place.mask is None else f.masked_load(at, place.mask, ty)
            else:
                value = before.compute(f, place, lanes)
            return convert(LlvmEmitter(f), f.bitcast(value, vec(scalar, lanes)), half, float32)

        def rounded(f: Function, value: Val, place: ResultPlace) -> Val:
            """The result, which the epilogue receives."""
            found = f.bitcast(convert(LlvmEmitter(f), value, float32, half), vec("i16", lanes_of(value.ty)))
            return found if behind is None else behind(f, found, place)

        names = (source,) if before is None else before.names
        return Fused(Prologue(widened, names), rounded, self.operands)


ALONE = Fused()


def max_forward(isa: Isa, scalar: str, window: Window, around: Fused = ALONE) -> Steps:
    """y = the largest tap of every window; buffers x, y."""
    if scalar in HALF_TYPES:
        return max_forward(isa, "float", window, around.of_halves(scalar, "x"))
    k = around.kernel(isa, scalar, "max_window", "x", "y")
    if is_non_overlapping(window):
        return Steps((NonOverlappingMax(k, window, around.epilogue, around.operands, around.prologue).write(),))
    return Steps((MaxKernel(k, window, around.epilogue, around.operands, around.prologue).write(),))


def blocked_max_forward(isa: Isa, scalar: str, window: Window) -> Steps:
    """The same for images in blocks of channels, with vectors no longer than a block."""
    k = SequenceKernel(isa, scalar, "max_window", ("x", "y"))
    return Steps((MaxKernel(k, window, block=CHANNEL_BLOCK).write(),))


def max_grad(isa: Isa, scalar: str, window: Window, around: Fused = ALONE) -> Steps:
    """dx = dy where each window's first maximum was; buffers dy, x, dx; no half types."""
    k = around.kernel(isa, scalar, "max_window_dx", "dy", "x", "dx")
    if is_non_overlapping(window):
        return Steps((NonOverlappingMaxGrad(k, window, around.epilogue, around.operands, around.prologue).write(),))
    index = DepthwiseKernel(k, _forward(window), MaxIndexReduction(window))
    size = window.rows.out * window.columns.out * k.element
    kernel = _plane_kernel(k, _gradient(window), MaxGradReduction(window, index), around, descending=True, scratch=size)
    return Steps((kernel.write("dx", window.channels),))


def sum_forward(isa: Isa, scalar: str, window: Window, around: Fused = ALONE) -> Steps:
    """y = the sum of every window; buffers x, y."""
    if scalar in HALF_TYPES:
        return sum_forward(isa, "float", window, around.of_halves(scalar, "x"))
    k = around.kernel(isa, scalar, "sum_window", "x", "y")
    if is_non_overlapping(window):
        return Steps((NonOverlappingSum(k, window, around.epilogue, around.operands, around.prologue).write(),))
    kernel = _plane_kernel(k, _forward(window), SumReduction("x", (window.rows.size, window.columns.size)), around)
    return Steps((kernel.write("y", window.channels),))


def sum_grad(isa: Isa, scalar: str, window: Window, around: Fused = ALONE) -> Steps:
    """dx = the sum of dy over the windows that hold a pixel; buffers dy, dx."""
    if scalar in HALF_TYPES:
        return sum_grad(isa, "float", window, around.of_halves(scalar, "dy"))
    k = around.kernel(isa, scalar, "sum_window_dx", "dy", "dx")
    if is_non_overlapping(window):
        return Steps((NonOverlappingSumGrad(k, window, around.epilogue, around.operands, around.prologue).write(),))
    reduction = SumReduction("dy", (window.rows.out, window.columns.out))
    return Steps(
        (_plane_kernel(k, _gradient(window), reduction, around, descending=True).write("dx", window.channels),)
    )


def _plane_kernel(
    k: SequenceKernel,
    c: Correlation,
    reduction: TapReduction,
    around: Fused,
    *,
    descending: bool = False,
    scratch: int = 0,
) -> DepthwiseKernel:
    return DepthwiseKernel(
        k,
        c,
        reduction,
        descending=descending,
        scratch=scratch,
        epilogue=around.epilogue,
        operands=around.operands,
        prologue=around.prologue,
    )


def _forward(w: Window) -> Correlation:
    """The taps of every output pixel."""
    rows, columns = w.rows, w.columns
    return Correlation(
        w.channels,
        1,
        1,
        (rows.size, columns.size),
        (rows.kernel, columns.kernel),
        tuple(rows.taps(i) for i in range(rows.out)),
        tuple(columns.taps(i) for i in range(columns.out)),
        1,
        columns.stride,
    )


def _gradient(w: Window) -> Correlation:
    """The windows of every input pixel."""
    rows, columns = w.rows, w.columns
    return Correlation(
        w.channels,
        1,
        1,
        (rows.out, columns.out),
        (rows.kernel, columns.kernel),
        tuple(rows.hits(i) for i in range(rows.size)),
        tuple(columns.hits(i) for i in range(columns.size)),
        columns.stride,
        1,
    )


def _plane(k: SequenceKernel, name: str, plane: Val, rows: int, columns: int) -> Val:
    """The address of a plane of a buffer."""
    return k.f.gep(k.pointers[name], product(k.f, plane, rows * columns), k.scalar)


class MaxIndexReduction:
    """The number of the first tap that is a maximum, as a floating-point value; -1 without taps."""

    def __init__(self, window: Window) -> None:
        self.window = window

    def begin(self, k: SequenceKernel, plane: Val, scratch: Val) -> None:
        self.k = k
        self.read_from(_plane(k, "x", plane, self.window.rows.size, self.window.columns.size))

    def read_from(self, plane: Val) -> None:
        self.x = plane

    def start(self, f: Function, vector: str) -> list[Val]:
        return [f.const(vector, float("-inf")), f.const(vector, -1.0)]

    def step(self, f: Function, state: Sequence[Val], load: Loader, mask: Val | None, tap: Operand) -> list[Val]:
        best, index = state
        value = load(self.x)
        greater = f.and_(f.fcmp("ugt", value, best), f.fcmp("ord", best, best))
        better = f.or_(greater, f.fcmp("olt", index, f.zero(index.ty)))
        if mask is not None:
            better = f.and_(better, mask)
        return [f.select(better, value, best), f.select(better, tap_number(self.k, f, tap), index)]

    def finish(self, state: Sequence[Val]) -> Val:
        return state[1]


class MaxGradReduction:
    """The gradients of the windows whose first maximum is at this pixel."""

    def __init__(self, window: Window, index: DepthwiseKernel) -> None:
        self.window, self.index = window, index

    def begin(self, k: SequenceKernel, plane: Val, scratch: Val) -> None:
        self.k, self.chosen = k, scratch
        if "dy" in k.pointers:
            self.read_from(_plane(k, "dy", plane, self.window.rows.out, self.window.columns.out))
        self.index.reduction.begin(k, plane, scratch)
        self.index.plane(scratch, 0)

    def read_from(self, plane: Val) -> None:
        self.dy = plane

    def start(self, f: Function, vector: str) -> list[Val]:
        return [f.zero(vector)]

    def step(self, f: Function, state: Sequence[Val], load: Loader, mask: Val | None, tap: Operand) -> list[Val]:
        here = f.fcmp("oeq", load(self.chosen), tap_number(self.k, f, tap))
        if mask is not None:
            here = f.and_(here, mask)
        return [f.select(here, f.fadd(state[0], load(self.dy)), state[0])]

    def finish(self, state: Sequence[Val]) -> Val:
        return state[0]


class SumReduction:
    """The sum of the taps, from +0."""

    def __init__(self, source: str, shape: tuple[int, int]) -> None:
        self.source, self.shape = source, shape

    def begin(self, k: SequenceKernel, plane: Val, scratch: Val) -> None:
        if self.source in k.pointers:  # otherwise a prologue computes it
            self.read_from(_plane(k, self.source, plane, *self.shape))

    def read_from(self, plane: Val) -> None:
        self.x = plane

    def start(self, f: Function, vector: str) -> list[Val]:
        return [f.zero(vector)]

    def step(self, f: Function, state: Sequence[Val], load: Loader, mask: Val | None, tap: Operand) -> list[Val]:
        result = f.fadd(state[0], load(self.x))
        return [result if mask is None else f.select(mask, result, state[0])]

    def finish(self, state: Sequence[Val]) -> Val:
        return state[0]


def tap_number(k: SequenceKernel, f: Function, tap: Operand) -> Val:
    """A tap's number in every lane, as a floating-point value."""
    return f.splat(f.cast("sitofp", f.i64(tap), k.scalar), k.lanes)
