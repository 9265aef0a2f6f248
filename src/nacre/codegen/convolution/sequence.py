"""The compiled form of a convolution or a window: kernels run in order, and their workspaces."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import field

import numpy as np

from nacre.base.records import dataclass
from nacre.codegen.units import separate_units
from nacre.kernel.order_convolution import CHANNEL_BLOCK
from nacre.native.isa import Isa
from nacre.native.llvm_types import bits_of
from nacre.native.llvm_values import Operand, Val
from nacre.native.text import Function, ModuleText
from nacre.runtime.executable import Unit

WIDEST_WINDOW = 8  # columns, and strides of columns, up to which a window's kernel unrolls its taps


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

    The slots are the addresses of `buffers`, then the batch and `sizes` as i64.
    """

    name: str
    text: str
    buffers: tuple[str, ...]
    writes: tuple[str, ...]
    items: Count
    scratch: int = 0
    grain: int = 1
    units: tuple[Unit, ...] = ()  # where they are not the text alone
    sizes: tuple[int, ...] = ()


Fill = Callable[[np.ndarray], np.ndarray | None]  # packs an operand as a kernel does; None for another type


@dataclass(frozen=True)
class Steps:
    """Kernels to run one after another, and the bytes of the workspaces between them.

    Some buffers may have memory for an operand's packed form (`packed`: name, operand, bytes); their address is null
    otherwise (see `pack.Room`).  `fills` may name, for such a buffer or for a workspace that only one kernel writes,
    the operand from which NumPy computes the same contents.
    """

    steps: tuple[ConvolutionStep, ...]
    workspaces: dict[str, Count] = field(default_factory=dict[str, Count])
    packed: dict[str, tuple[str, int]] = field(default_factory=dict[str, tuple[str, int]])
    fills: dict[str, tuple[str, Fill]] = field(default_factory=dict[str, tuple[str, Fill]])


@dataclass(frozen=True)
class Blocked:
    """Whether images are in blocks of channels, [N, C/16, H, W, 16], instead of planes: the source, the result."""

    source: bool = False
    result: bool = False


PLANES = Blocked()


ConvolutionEpilogue = Callable[[Function, Val, "ResultPlace"], Val]


def read_along(epilogue: ConvolutionEpilogue | None) -> tuple[str, ...]:
    """The operands that an epilogue reads at the result's own index (`along`), if it declares any."""
    return tuple(getattr(epilogue, "along", ()))


def written_type(epilogue: ConvolutionEpilogue | None) -> str | None:
    """The LLVM type of the result that an epilogue writes, if it declares one (`written`)."""
    return getattr(epilogue, "written", None)


@dataclass(frozen=True)
class ResultPlace:
    """The place of a vector of finished results: its channel, and the index of its first element in the whole result.

    `mask` holds the lanes that are present, or is None where all are; other lanes must not be read from memory.
    `operands` are the addresses of the epilogue's extra buffers.  Lanes are pixels of one channel; in a `blocked`
    result, they are channels of one pixel, and `channel` is that of the first lane.
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
            name, "void", {"args": "ptr", "lo": "i64", "hi": "i64", "scratch": "ptr"}, isa=isa
        )
        f, args = self.f, self.f["args"]
        self.pointers = {b: f.load(f.gep(args, i, "ptr"), "ptr") for i, b in enumerate(buffers)}
        self.batch = f.load(f.gep(args, len(buffers), "ptr"), "i64")
        self.sizes: tuple[int, ...] = ()

    def read_sizes(self, count: int) -> list[Val]:
        """Numbers that the kernel reads behind the batch and the sizes."""
        f, first = self.f, len(self.buffers) + 1 + len(self.sizes)
        return [f.load(f.gep(f["args"], first + i, "ptr"), "i64") for i in range(count)]

    def read(self, sizes: Mapping[str, int]) -> dict[str, Val]:
        """Sizes as numbers that the kernel reads, by their names, so that its text serves other sizes, too."""
        found = self.read_sizes(len(sizes))
        self.sizes += tuple(sizes.values())
        return dict(zip(sizes, found, strict=True))

    def read_table(self, values: Sequence[int]) -> Val:
        """The address of numbers that the kernel reads, as `read` does."""
        first = len(self.buffers) + 1 + len(self.sizes)
        self.sizes += tuple(values)
        return self.f.gep(self.f["args"], first, "i64")

    def internal(self, name: str, params: dict[str, str]) -> Function:
        """Begin a function that only this module calls."""
        return self.module.function(name, "void", params, linkage="internal", attributes="noinline", isa=self.isa)

    def inside(self, f: Function) -> SequenceKernel:
        """The kernel with a function of its module in place of its own."""
        found = copy(self)
        found.f = f
        return found

    def table(self, name: str, values: Sequence[int]) -> Val:
        """A constant array of i64; returns its address."""
        inner = ", ".join(f"i64 {v}" for v in values)
        return self.module.constant(name, f"[{len(values)} x i64]", f"[{inner}]")

    def finish(self, writes: Sequence[str], items: Count, scratch: int = 0, grain: int = 1) -> ConvolutionStep:
        """End the kernel function and describe it; scratch is in bytes."""
        self.f.ret()
        text, units = self.module.text(), separate_units(self.module, self.name)
        return ConvolutionStep(self.name, text, self.buffers, tuple(writes), items, scratch, grain, units, self.sizes)


def split(f: Function, index: Operand, extent: Operand) -> tuple[Operand, Operand]:
    """(index div extent, index mod extent)."""
    if extent == 1:
        return index, 0
    return f.binary("udiv", index, extent), f.binary("urem", index, extent)


def product(f: Function, a: Operand, b: Operand) -> Operand:
    """a · b, folded if both are constants."""
    if isinstance(a, int) and isinstance(b, int):
        return a * b
    if (isinstance(a, int) and a == 0) or (isinstance(b, int) and b == 0):
        return 0
    return f.mul(a, b)


def total(f: Function, *terms: Operand) -> Operand:
    """The sum of the terms; constants are folded."""
    known = sum(t for t in terms if isinstance(t, int))
    result: Operand = known
    for term in terms:
        if isinstance(term, Val):
            result = f.add(term, result)
    return result


def in_block(f: Function, lane: Operand, plane: Operand, step: Operand = 1) -> Operand:
    """The index of a channel in blocks of channels with some pixels; channels of a block are `step` elements apart."""
    if isinstance(lane, int):
        block, within = lane // CHANNEL_BLOCK, lane % CHANNEL_BLOCK
        return total(f, product(f, block * CHANNEL_BLOCK, plane), product(f, within, step))
    whole = f.and_(lane, -CHANNEL_BLOCK)
    return f.add(f.mul(whole, plane), f.mul(f.sub(lane, whole), step))


def store_sums(f: Function, sums: Sequence[Val], places: Sequence[Val], first: Val) -> None:
    """Store the sums of the first chain, or add those of a later chain to the stored ones."""
    with f.when(first):
        for value, place in zip(sums, places, strict=True):
            f.store(value, place)
    with f.when(f.xor(first, f.const("i1", True))):
        for value, place in zip(sums, places, strict=True):
            f.store(f.fadd(f.load(place, value.ty), value), place)


def panel_vectors(channels: int, lanes: int) -> int:
    """Vectors of a panel of channels: two, or one where the second would often be empty."""
    return 1 if ceil_div(channels, lanes) in (1, 3, 5) else 2


def ceil_div(a: int, b: int) -> int:
    """⌈a / b⌉ of non-negative integers."""
    return -(-a // b)


def round_up(a: int, multiple: int) -> int:
    """The least multiple that is not below a."""
    return ceil_div(a, multiple) * multiple
