"""Convolutions with endings: a pointwise cluster that reads a convolution is computed as its pixels are finished.

A normalisation by running statistics, a bias, a residual and an activation then cost no pass through memory.  What is
computed is the same, element by element.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nacre.base.dims import Size
from nacre.base.dtypes import DType
from nacre.base.types import row_major
from nacre.codegen.convolve_steps import Place
from nacre.codegen.nest_operate import memory
from nacre.compile.cluster import Node
from nacre.compile.fuse import Fusion, View
from nacre.compile.lower import lower_over
from nacre.compile.straight import computed, straight
from nacre.ir.graph import Equation, Var
from nacre.kernel.ast import Buffer, Stmt
from nacre.native.text import Function, Val, lanes_of, vec

FORMS = ("convolve", "convolve_input_grad", "winograd", "winograd_input_grad")
WIDEST = 8  # buffers that a cluster may read and write
GROUPS = ((0,), (1,), (2, 3))  # image, channel, pixel


@dataclass(frozen=True)
class Operand:
    """A buffer that an ending reads: whole like the result, or one number for each `step`-th channel."""

    name: str
    dtype: DType
    step: int | None


@dataclass(frozen=True)
class Ending:
    """The straight code of a cluster over a convolution's result, and what it reads beside that."""

    body: tuple[Stmt, ...]
    raw: str
    operands: tuple[Operand, ...]
    output: str

    @property
    def names(self) -> tuple[str, ...]:
        """The operands' buffers."""
        return tuple(o.name for o in self.operands)

    def __call__(self, f: Function, value: Val, place: Place) -> Val:
        """Write the code for a vector of the convolution's results."""
        lanes = lanes_of(value.ty)
        loaded = {self.raw: value}
        for operand, pointer in zip(self.operands, place.operands, strict=True):
            loaded[operand.name] = _load(f, operand, pointer, place, lanes)
        return computed(f, self.body, loaded, lanes)[self.output]


def _load(f: Function, operand: Operand, pointer: Val, place: Place, lanes: int) -> Val:
    """A vector of an operand."""
    element = memory(operand.dtype)
    if operand.step is None:
        at, ty = f.gep(pointer, place.offset, element), vec(element, lanes)
        found = f.load(at, ty) if place.mask is None else f.masked_load(at, place.mask, ty)
    else:
        at = f.gep(pointer, f.mul(place.channel, operand.step), element)
        found = f.splat(f.load(at, element), lanes)
    return f.cast("trunc", found, "i1") if operand.dtype.kind == "b" else found


@dataclass(frozen=True)
class Ended:
    """An ending, the views that it reads, and the value that it writes."""

    ending: Ending
    reads: tuple[View, ...]
    result: Var


def ended(fusion: Fusion, node: Node, e: Equation) -> Ended | None:
    """How a cluster ends a convolution, or None where the generator cannot write it."""
    raw, dtype = e.outputs[0], e.outputs[0].type.dtype
    lowered = lower_over(fusion, node, "ending", GROUPS)
    if lowered is None or len(lowered.kernel.buffers) > WIDEST or len(lowered.writes) != 1:
        return None
    kernel = lowered.kernel
    (output,) = kernel.outputs
    mine = [k for k, v in enumerate(lowered.reads) if v.base is raw]
    if len(mine) != 1 or output.dtype is not dtype or not (_is_whole(output) and _is_whole(kernel.inputs[mine[0]])):
        return None
    others = [k for k in range(len(kernel.inputs)) if k not in mine]
    operands = [_operand(kernel.inputs[k]) for k in others]
    if any(o is None for o in operands):
        return None
    ending = Ending(straight(kernel), kernel.inputs[mine[0]].name, tuple(o for o in operands if o), output.name)
    return Ended(ending, tuple(lowered.reads[k] for k in others), lowered.writes[0])


def _apparent(sizes: Sequence[Size], strides: Sequence[Size]) -> list[Size]:
    """Strides, 0 along axes of one element."""
    return [0 if n == 1 else s for n, s in zip(sizes, strides, strict=True)]


def _is_whole(b: Buffer) -> bool:
    strides = row_major(b.shape) if b.strides is None else b.strides
    return _apparent(b.shape, strides) == _apparent(b.shape, row_major(b.shape))


def _operand(b: Buffer) -> Operand | None:
    """How a buffer over (image, channel, pixel) is read, if it is."""
    if b.dtype.is_float and b.dtype.bits == 16:
        return None
    if _is_whole(b):
        return Operand(b.name, b.dtype, None)
    assert b.strides is not None
    image, channel, pixel = _apparent(b.shape, b.strides)
    if image == 0 and pixel == 0 and isinstance(channel, int):
        return Operand(b.name, b.dtype, channel)
    return None
