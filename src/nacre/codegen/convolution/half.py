"""Half types by float32: operands are widened to workspaces, the result is rounded once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from nacre.base.dtypes import DType, bfloat16, float16, float32
from nacre.base.errors import ArgumentError
from nacre.base.records import dataclass
from nacre.codegen.convolution.sequence import ConvolutionStep, Count, SequenceKernel, Steps
from nacre.codegen.emitter import LlvmEmitter
from nacre.kernel.elementary import convert
from nacre.native.isa import Isa
from nacre.native.llvm_types import vec
from nacre.native.llvm_values import Operand

HALF_TYPES = {"half": float16, "bfloat": bfloat16}


@dataclass(frozen=True)
class HalfTensor:
    """A dense tensor as rows of elements; the rows may grow with the batch."""

    name: str
    rows: Count
    length: int

    @property
    def bytes(self) -> Count:
        """The size of the tensor in float32."""
        return Count(4 * self.rows.fixed * self.length, 4 * self.rows.per_image * self.length)


def through_float(
    isa: Isa,
    scalar: str,
    steps: Callable[[str], Steps],
    inputs: tuple[HalfTensor, ...],
    output: HalfTensor,
    *,
    epilogue: bool = False,
    result: str | None = None,
) -> Steps:
    """The steps of an operation on a half type, made from its float32 steps; the result may be `result`, float32.

    Raises ArgumentError with an epilogue of half results, which would receive results that are not rounded yet.
    """
    wide_result = result == "float"
    if epilogue and not wide_result:
        raise ArgumentError(
            "convolve: the results of an epilogue must be float32 or float64; got "
            f"{HALF_TYPES[scalar].name}; run it as a separate kernel"
        )
    half, wide = HALF_TYPES[scalar], steps("float")
    halves = inputs if wide_result else (*inputs, output)
    renamed = {t.name: f"{t.name}_wide" for t in halves}
    inner = [
        replace(
            s, buffers=tuple(renamed.get(b, b) for b in s.buffers), writes=tuple(renamed.get(b, b) for b in s.writes)
        )
        for s in wide.steps
    ]
    widen = [_convert(isa, t, half, float32, t.name, renamed[t.name]) for t in inputs]
    last = [] if wide_result else [_convert(isa, output, float32, half, renamed[output.name], output.name)]
    spaces = {renamed[t.name]: t.bytes for t in halves}
    return Steps((*widen, *inner, *last), wide.workspaces | spaces, wide.packed)


def _convert(isa: Isa, tensor: HalfTensor, source: DType, target: DType, a: str, b: str) -> ConvolutionStep:
    """The kernel that converts a tensor; each row is a work item."""
    k = SequenceKernel(isa, "float", f"convert_{a}", (a, b))
    f, whole = k.f, tensor.length // k.lanes * k.lanes

    def move(at: Operand, lanes: int) -> None:
        """Convert `lanes` elements at an index."""
        place = f.gep(k.pointers[a], at, source.memory)
        value = f.load(place, vec(source.memory, lanes))
        f.store(convert(LlvmEmitter(f), value, source, target), f.gep(k.pointers[b], at, target.memory))

    with f.loop("row", f["lo"], f["hi"]) as row:
        start = f.mul(row.index, tensor.length)
        with f.loop("at", 0, whole, k.lanes) as at:
            move(f.add(start, at.index), k.lanes)
        with f.loop("tail", whole, tensor.length) as at:
            move(f.add(start, at.index), 1)
    return k.finish([b], tensor.rows, grain=max(1, 4096 // max(1, tensor.length)))
