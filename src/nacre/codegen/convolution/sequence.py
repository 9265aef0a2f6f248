"""What a convolution or a window compiles to: kernels run in order, and their workspaces."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field

import numpy as np

from nacre.base.records import dataclass
from nacre.codegen.isa import Isa
from nacre.kernel.order_convolution import CHANNEL_BLOCK
from nacre.native.text import Function, ModuleText, Operand, Val, bits_of


@dataclass(frozen=True)
class Count:
    """A number that grows linearly with the batch: `fixed + per_image · n`."""

    fixed: int = 0
    per_image: int = 0

    def __call__(self, batch: int) -> int:
        return self.fixed + self.per_image * batch


@dataclass(frozen=True)
class ConvolutionStep:
    """One kernel: its text, the buffers its argument slots point to, and its parallel extent.

    The slots are the addresses of `buffers`, then the batch as an i64.
    """

    name: str
    text: str
    buffers: tuple[str, ...]
    writes: tuple[str, ...]
    items: Count
    scratch: int = 0
    grain: int = 1


Fill = Callable[[np.ndarray], np.ndarray | None]  # what a kernel would make of an operand; None for one of another type


@dataclass(frozen=True)
class Steps:
    """Kernels to run one after another, and the bytes of the workspaces between them.

    Of some buffers there may be memory for what a kernel packs of an operand (`packed`: its name, the operand, bytes);
    its address is null where there is none (see `pack.Room`).  Of such buffers, and of workspaces that one
    kernel alone writes, `fills` may tell the operand of which NumPy can make the same.
    """

    steps: tuple[ConvolutionStep, ...]
    workspaces: dict[str, Count] = field(default_factory=dict[str, Count])
    packed: dict[str, tuple[str, int]] = field(default_factory=dict[str, tuple[str, int]])
    fills: dict[str, tuple[str, Fill]] = field(default_factory=dict[str, tuple[str, Fill]])


@dataclass(frozen=True)
class Blocked:
    """Whether images lie in blocks of channels, [N, C/16, H, W, 16], rather than in planes: the source, the result."""

    source: bool = False
    result: bool = False


PLANES = Blocked()


ConvolutionEpilogue = Callable[[Function, Val, "ResultPlace"], Val]


def read_along(epilogue: ConvolutionEpilogue | None) -> tuple[str, ...]:
    """The operands that an epilogue reads as the result is written, element by element, if it says so (`along`)."""
    return tuple(getattr(epilogue, "along", ()))


@dataclass(frozen=True)
class ResultPlace:
    """Where a vector of finished results lies: its channel, and the index of its first element.

    The index is that of the whole result, as it lies in memory.  `mask` holds the lanes that are present, or
    is None where all are; other lanes must not be read from memory.  `operands` are the addresses
    of the extra buffers that the epilogue asked for.  Lanes are pixels of one channel, or channels of
    one pixel where the result is `blocked`; `channel` is then that of the first lane.
    """

    channel: Val
    offset: Val
    mask: Val | None
    operands: tuple[Val, ...]
    blocked: bool = False


class SequenceKernel:
    """A kernel being written: module, function and the values that every kernel reads first."""

    def __init__(self, isa: Isa, scalar: str, name: str, buffers: Sequence[str]) -> None:
        self.isa, self.scalar, self.name = isa, scalar, name
        self.buffers = tuple(buffers)
        self.module = ModuleText(name)
        self.lanes = isa.lanes(scalar)
        self.vector = isa.vector(scalar)
        self.element = bits_of(scalar) // 8
        self.f = self.module.function(
            name, "void", {"args": "ptr", "lo": "i64", "hi": "i64", "scratch": "ptr"}, attributes=isa.attributes
        )
        f, args = self.f, self.f["args"]
        self.pointers = {b: f.load(f.gep(args, i, "ptr"), "ptr") for i, b in enumerate(buffers)}
        self.batch = f.load(f.gep(args, len(buffers), "ptr"), "i64")

    def internal(self, name: str, params: dict[str, str]) -> Function:
        """Begin a function that only this module calls."""
        return self.module.function(
            name, "void", params, linkage="internal", attributes="noinline " + self.isa.attributes
        )

    def table(self, name: str, values: Sequence[int]) -> Val:
        """A constant array of i64; returns its address."""
        inner = ", ".join(f"i64 {v}" for v in values)
        return self.module.constant(name, f"[{len(values)} x i64]", f"[{inner}]")

    def finish(self, writes: Sequence[str], items: Count, scratch: int = 0, grain: int = 1) -> ConvolutionStep:
        """End the kernel function and describe it; scratch is in bytes."""
        self.f.ret()
        text = self.module.text()
        return ConvolutionStep(self.name, text, self.buffers, tuple(writes), items, scratch, grain)


def split(f: Function, index: Operand, extent: int) -> tuple[Operand, Operand]:
    """(index div extent, index mod extent)."""
    if extent == 1:
        return index, 0
    return f.binary("udiv", index, extent), f.binary("urem", index, extent)


def product(f: Function, a: Operand, b: Operand) -> Operand:
    """a · b, folded where both are known."""
    if isinstance(a, int) and isinstance(b, int):
        return a * b
    if (isinstance(a, int) and a == 0) or (isinstance(b, int) and b == 0):
        return 0
    return f.mul(a, b)


def total(f: Function, *terms: Operand) -> Operand:
    """The sum of the terms, folded where they are known."""
    known = sum(t for t in terms if isinstance(t, int))
    result: Operand = known
    for term in terms:
        if isinstance(term, Val):
            result = f.add(term, result)
    return result


def in_block(f: Function, lane: Operand, plane: int, step: Operand = 1) -> Operand:
    """Where a channel is among blocks of channels of the given number of pixels; in a block they are a step apart."""
    if isinstance(lane, int):
        block, within = lane // CHANNEL_BLOCK, lane % CHANNEL_BLOCK
        return total(f, block * CHANNEL_BLOCK * plane, product(f, within, step))
    whole = f.and_(lane, -CHANNEL_BLOCK)
    return f.add(f.mul(whole, plane), f.mul(f.sub(lane, whole), step))


def store_sums(f: Function, sums: Sequence[Val], places: Sequence[Val], first: Val) -> None:
    """Store the sums of the first chain, or add those of a later one to what is there."""
    with f.when(first):
        for value, place in zip(sums, places, strict=True):
            f.store(value, place)
    with f.when(f.xor(first, f.const("i1", True))):
        for value, place in zip(sums, places, strict=True):
            f.store(f.fadd(f.load(place, value.ty), value), place)


def panel_vectors(channels: int, lanes: int) -> int:
    """Vectors of a panel of channels: two, or one where a second would often be empty."""
    return 1 if ceil_div(channels, lanes) in (1, 3, 5) else 2


def ceil_div(a: int, b: int) -> int:
    """⌈a / b⌉ of non-negative integers."""
    return -(-a // b)


def round_up(a: int, multiple: int) -> int:
    """The least multiple that is not below a."""
    return ceil_div(a, multiple) * multiple
