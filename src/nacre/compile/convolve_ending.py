"""Convolutions with endings: a pointwise cluster that reads a convolution is computed as its pixels are finished.

A normalisation by running statistics, a bias, a residual and an activation then cost no pass through memory, nor do
the masks and sums that a backward pass will read.  What is computed is the same, element by element.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nacre.base.dims import Size
from nacre.base.dtypes import DType
from nacre.base.types import row_major
from nacre.codegen.convolve_steps import Place
from nacre.codegen.nest_operate import memory
from nacre.compile.alike import lower_over
from nacre.compile.cluster import Node
from nacre.compile.fuse import Fusion, View
from nacre.compile.straight import computed, straight
from nacre.ir.graph import Equation, Var
from nacre.kernel.ast import Buffer, Stmt, Store
from nacre.native.text import Function, Val, lanes_of, scalar_of, vec

WIDEST = 8  # buffers that a cluster may read and write
PLANES = ((0,), (1,), (2, 3))  # image, channel, pixel
BLOCKS = ((0,), (1,), (2, 3), (4,))  # image, block, pixel, channel of the block


@dataclass(frozen=True)
class Operand:
    """A buffer of an ending: whole like the result, or read a number for each channel, `step` apart.

    Where lanes are channels, the step is 1, or 0 for one number.
    """

    name: str
    dtype: DType
    step: int | None


@dataclass(frozen=True)
class Ending:
    """The straight code of a cluster over a convolution's result, what it reads beside that, and what it writes.

    `output` takes the place of the convolution's result; `others` are written beside it, and where it `keeps` that, the
    convolution's own result too.
    """

    body: tuple[Stmt, ...]
    raw: str
    operands: tuple[Operand, ...]
    output: str
    others: tuple[Operand, ...]
    keeps: bool

    @property
    def names(self) -> tuple[str, ...]:
        """The buffers beside the convolution's own, those that are written last."""
        return (*(o.name for o in (*self.operands, *self.others)), *((self.raw,) if self.keeps else ()))

    @property
    def along(self) -> tuple[str, ...]:
        """The operands that are read as the result is written, and are as wide."""
        wide = {b.buffer: b.value.dtype for b in self.body if isinstance(b, Store)}[self.output]
        return tuple(o.name for o in self.operands if o.step is None and o.dtype is wide)

    def __call__(self, f: Function, value: Val, place: Place) -> Val:
        """Write the code for a vector of the convolution's results."""
        lanes = lanes_of(value.ty)
        loaded = {self.raw: value}
        pointers = dict(zip(self.names, place.operands, strict=True))
        for operand in self.operands:
            loaded[operand.name] = _load(f, operand, pointers[operand.name], place, lanes)
        found = computed(f, self.body, loaded, lanes)
        for other in self.others:
            _store(f, found[other.name], pointers[other.name], place)
        if self.keeps:
            _store(f, value, pointers[self.raw], place)
        return found[self.output]


def _load(f: Function, operand: Operand, pointer: Val, place: Place, lanes: int) -> Val:
    """A vector of an operand."""
    element = memory(operand.dtype)
    if operand.step == 1 and place.blocked:
        found = f.load(f.gep(pointer, place.channel, element), vec(element, lanes))
    elif operand.step is None:
        at, ty = f.gep(pointer, place.offset, element), vec(element, lanes)
        found = f.load(at, ty) if place.mask is None else f.masked_load(at, place.mask, ty)
    else:
        at = f.gep(pointer, f.mul(place.channel, operand.step), element)
        found = f.splat(f.load(at, element), lanes)
    return f.cast("trunc", found, "i1") if operand.dtype.kind == "b" else found


def _store(f: Function, value: Val, pointer: Val, place: Place) -> None:
    """Write a vector of another result."""
    to = f.gep(pointer, place.offset, scalar_of(value.ty))
    if place.mask is None:
        f.store(value, to)
    else:
        f.masked_store(value, to, place.mask)


@dataclass(frozen=True)
class Ended:
    """An ending, the views that it reads, and the values that it writes, that in the convolution's place first."""

    ending: Ending
    reads: tuple[View, ...]
    writes: tuple[Var, ...]


def ended(fusion: Fusion, node: Node, e: Equation, keeps: bool) -> Ended | None:
    """How a cluster ends a convolution, whose own result others read if it `keeps` that.

    None where the generator cannot write it.
    """
    raw, dtype = e.outputs[0], e.outputs[0].type.dtype
    lowered = lower_over(fusion, node, "ending", PLANES if raw.type.rank == 4 else BLOCKS)
    if lowered is None or len(lowered.kernel.buffers) > WIDEST:
        return None
    kernel = lowered.kernel
    mine = [k for k, v in enumerate(lowered.reads) if v.base is raw]
    main = [k for k, b in enumerate(kernel.outputs) if b.dtype is dtype]
    if len(mine) != 1 or not main or not all(map(_is_whole, (kernel.inputs[mine[0]], *kernel.outputs))):
        return None
    read = [k for k in range(len(kernel.inputs)) if k not in mine]
    beside = [k for k in range(len(kernel.outputs)) if k != main[0]]
    operands, others = [_operand(kernel.inputs[k]) for k in read], [_operand(kernel.outputs[k]) for k in beside]
    if any(o is None for o in (*operands, *others)):
        return None
    ending = Ending(straight(kernel), kernel.inputs[mine[0]].name, tuple(o for o in operands if o),
                    kernel.outputs[main[0]].name, tuple(o for o in others if o), keeps)
    written = [lowered.writes[main[0]], *(lowered.writes[k] for k in beside), *([raw] if keeps else [])]
    return Ended(ending, tuple(lowered.reads[k] for k in read), tuple(written))


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
    image, channel, pixel, *within = _apparent(b.shape, b.strides)
    if within:  # a block of channels, and a channel of it
        size, (step,) = b.shape[3], within
        if step not in (0, 1) or (channel != step * size and b.shape[1] != 1):
            return None
        channel = step
    if image == 0 and pixel == 0 and isinstance(channel, int):
        return Operand(b.name, b.dtype, channel)
    return None
