"""Fused epilogues of convolutions and windows: a pointwise cluster is computed on pixels as soon as they are complete.

A normalisation by running statistics, a bias, a residual and an activation then need no separate pass through memory,
nor do the masks and sums of the backward pass.  Each element is computed as without fusion.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from nacre.base.dims import Size, product
from nacre.base.dtypes import DType
from nacre.base.records import dataclass
from nacre.base.types import Shape, row_major
from nacre.codegen.convolution.sequence import ResultPlace
from nacre.codegen.loops.operations import memory
from nacre.compile.fusion.graph import Node
from nacre.compile.fusion.materialisation import Fusion, View
from nacre.compile.lowering.cache import lower_over
from nacre.compile.lowering.inline_emission import computed, inline_body
from nacre.ir.graph import Equation, Var
from nacre.kernel.ast import Buffer, Stmt, Store
from nacre.native.llvm_types import lanes_of, scalar_of, vec
from nacre.native.llvm_values import Val
from nacre.native.text import Function

WIDEST = 12  # buffers that a cluster may read and write: two normalised images that are added take nine
GROUPS = ((0,), (1,), (2, 3))  # image, channel, pixel
BLOCKS = ((0,), (1,), (2, 3), (4,))  # image, block, pixel, channel of the block


@dataclass(frozen=True)
class Operand:
    """A buffer of an epilogue: as large as the result ("whole"), or a run of elements that is repeated ("run").

    Or it has one number for each channel ("channel") or run ("each"), `step` elements apart.  With channels in vector
    lanes the step is 1, or 0 for a single number.
    """

    name: str
    dtype: DType
    kind: Literal["whole", "run", "channel", "each"]
    step: int = 1
    run: int = 0


@dataclass(frozen=True)
class EpilogueCode:
    """The straight-line code of a cluster over a convolution's result, its other operands, and its results.

    `output` replaces the convolution's result; `others` are written too, and with `keeps`, so is the convolution's own
    result.
    """

    body: tuple[Stmt, ...]
    raw: str
    operands: tuple[Operand, ...]
    output: str
    others: tuple[Operand, ...]
    keeps: bool

    @property
    def names(self) -> tuple[str, ...]:
        """The buffers other than the convolution's own; those that are written come last."""
        return (*(o.name for o in (*self.operands, *self.others)), *((self.raw,) if self.keeps else ()))

    @property
    def along(self) -> tuple[str, ...]:
        """The operands with the layout and the dtype of the result."""
        return tuple(o.name for o in self.operands if o.kind == "whole" and o.dtype is self._result)

    @property
    def written(self) -> str:
        """The LLVM type of the result that replaces the convolution's."""
        return memory(self._result)

    @property
    def _result(self) -> DType:
        return next(b.value.dtype for b in self.body if isinstance(b, Store) and b.buffer == self.output)

    def __call__(self, f: Function, value: Val, place: ResultPlace) -> Val:
        """Write the code for a vector of the convolution's results."""
        lanes = lanes_of(value.ty)
        loaded = {self.raw: value}
        pointers = dict(zip(self.names, place.operands, strict=True))
        for operand in self.operands:
            loaded[operand.name] = load(f, operand, pointers[operand.name], place, lanes)
        found = computed(f, self.body, loaded, lanes)
        for other in self.others:
            _store(f, found[other.name], pointers[other.name], place)
        if self.keeps:
            _store(f, value, pointers[self.raw], place)
        return found[self.output]


def load(f: Function, operand: Operand, pointer: Val, place: ResultPlace, lanes: int) -> Val:
    """A vector of an operand."""
    element = memory(operand.dtype)
    if operand.kind in ("whole", "run"):
        first = place.offset if operand.kind == "whole" else f.binary("urem", place.offset, operand.run)
        at, ty = f.gep(pointer, first, element), vec(element, lanes)
        found = f.load(at, ty) if place.mask is None else f.masked_load(at, place.mask, ty)
    elif operand.step == 1 and place.blocked:
        found = f.load(f.gep(pointer, place.channel, element), vec(element, lanes))
    else:
        number = place.channel if operand.kind == "channel" else f.binary("udiv", place.offset, operand.run)
        found = f.splat(f.load(f.gep(pointer, f.mul(number, operand.step), element), element), lanes)
    return f.cast("trunc", found, "i1") if operand.dtype.is_bool else found


def _store(f: Function, value: Val, pointer: Val, place: ResultPlace) -> None:
    """Write a vector of another result."""
    to = f.gep(pointer, place.offset, scalar_of(value.ty))
    if place.mask is None:
        f.store(value, to)
    else:
        f.masked_store(value, to, place.mask)


@dataclass(frozen=True)
class FusedEpilogue:
    """An epilogue, the views that it reads, and the values that it writes; the convolution's replacement comes first.

    `cost` is the approximate number of instructions for an element.
    """

    code: EpilogueCode
    reads: tuple[View, ...]
    writes: tuple[Var, ...]
    cost: int


def fused_epilogue(fusion: Fusion, node: Node, e: Equation, keeps: bool) -> FusedEpilogue | None:
    """A cluster as the epilogue of a convolution; with `keeps`, the convolution's own result is stored too.

    None if the generator does not support it.
    """
    raw, dtype = e.outputs[0], e.outputs[0].type.dtype
    assert node.domain is not None
    groups = grouped(node.domain, raw.type.shape)
    lowered = None if groups is None else lower_over(fusion, node, "ending", groups)
    if lowered is None or len(lowered.kernel.buffers) > WIDEST:
        return None
    kernel = lowered.kernel
    mine = [k for k, v in enumerate(lowered.reads) if v.base is raw]
    floats = [k for k, b in enumerate(kernel.outputs) if b.dtype.is_float]
    main = [k for k in floats if kernel.outputs[k].dtype is dtype] or floats
    if len(mine) != 1 or not main or not all(map(is_whole, (kernel.inputs[mine[0]], *kernel.outputs))):
        return None
    read = [k for k in range(len(kernel.inputs)) if k not in mine]
    beside = [k for k in range(len(kernel.outputs)) if k != main[0]]
    operands, others = [operand(kernel.inputs[k]) for k in read], [operand(kernel.outputs[k]) for k in beside]
    body = inline_body(kernel)
    if body is None or any(o is None for o in (*operands, *others)):
        return None
    code = EpilogueCode(
        body,
        kernel.inputs[mine[0]].name,
        tuple(o for o in operands if o),
        kernel.outputs[main[0]].name,
        tuple(o for o in others if o),
        keeps,
    )
    written = [lowered.writes[main[0]], *(lowered.writes[k] for k in beside), *([raw] if keeps else [])]
    return FusedEpilogue(code, tuple(lowered.reads[k] for k in read), tuple(written), lowered.cost)


def grouped(domain: Shape, shape: Shape) -> tuple[tuple[int, ...], ...] | None:
    """The axes of a domain in three groups: image, channel and pixel of [N, C, H, W]; None if there are no such groups.

    For a domain in blocks, the groups are image, block, pixel and channel of the block.
    """
    if domain == shape:
        return GROUPS if len(shape) == 4 else BLOCKS
    if len(shape) != 4:
        return None
    found: list[tuple[int, ...]] = []
    at = 0
    for size in shape[:2]:
        end = next((k for k in (*range(at + 1, len(domain) + 1), at) if product(domain[at:k]) == size), None)
        if end is None:
            return None
        found.append(tuple(range(at, end)))
        at = end
    return (*found, tuple(range(at, len(domain)))) if product(domain[at:]) == product(shape[2:]) else None


def _apparent(sizes: Sequence[Size], strides: Sequence[Size]) -> list[Size]:
    """The strides, with 0 along axes of one element."""
    return [0 if n == 1 else s for n, s in zip(sizes, strides, strict=True)]


def is_whole(b: Buffer) -> bool:
    """Whether a buffer over (image, channel, pixel) is row-major."""
    strides = row_major(b.shape) if b.strides is None else b.strides
    return _apparent(b.shape, strides) == _apparent(b.shape, row_major(b.shape))


def operand(b: Buffer) -> Operand | None:
    """How an epilogue reads a buffer over (image, channel, pixel); None if it cannot."""
    if is_whole(b):
        return Operand(b.name, b.dtype, "whole")
    if len(b.shape) == len(BLOCKS):
        return _of_blocks(b)
    assert b.strides is not None
    (images, channels, pixels), (image, channel, pixel) = b.shape, _apparent(b.shape, b.strides)
    if image == 0 and pixel == 0 and isinstance(channel, int):
        return Operand(b.name, b.dtype, "channel", channel)
    if not (isinstance(channels, int) and isinstance(pixels, int) and channels * pixels):
        return None
    if image == 0 and channel == 0 and pixel == 1:
        return Operand(b.name, b.dtype, "run", 1, pixels)
    if pixel == 0 and isinstance(channel, int) and (images == 1 or image == channel * channels):
        return Operand(b.name, b.dtype, "each", channel, pixels)
    if pixel == 0 and channel == 0 and isinstance(image, int):
        return Operand(b.name, b.dtype, "each", image, channels * pixels)
    return None


def _of_blocks(b: Buffer) -> Operand | None:
    """How an epilogue reads a blocked buffer (image, block, pixel, channel of the block) that is not whole, or None."""
    assert b.strides is not None
    image, block, pixel, step = _apparent(b.shape, b.strides)
    if image != 0 or pixel != 0 or step not in (0, 1) or (block != step * b.shape[3] and b.shape[1] != 1):
        return None
    return Operand(b.name, b.dtype, "channel", 1 if step == 1 else 0)
