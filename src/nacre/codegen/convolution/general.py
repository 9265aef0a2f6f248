"""The taps of a convolution whose images have any size, and the values that its kernels compute from the sizes.

An axis of a correlation is described without its size: result positions at the distance `phases` have the same taps of
the kernel, before those outside the source are left out.  Such taps are evenly spaced, and so are the places that they
read.  Forward convolution has one phase; the gradient of the image has one for each position between two windows.
"""

from __future__ import annotations

from math import gcd

from nacre.base.dims import Dim, Size
from nacre.base.records import dataclass
from nacre.codegen.convolution.sequence import SequenceKernel, split
from nacre.native.llvm_values import Operand, Val
from nacre.native.text import Function

BATCH, HEIGHT, WIDTH, RESULT_HEIGHT, RESULT_WIDTH = SIZES = tuple(
    Dim.symbol(name) for name in ("n", "height", "width", "result_height", "result_width")
)


@dataclass(frozen=True)
class GeneralStep:
    """One kernel for images of any size; `items`, `cost` and `scratch` are sizes over the symbols `SIZES`.

    The slots are the addresses of `buffers`, then the numbers of `SIZES`.
    """

    name: str
    text: str
    buffers: tuple[str, ...]
    items: Size
    cost: Size  # instructions of an item, roughly
    scratch: Size = 0


@dataclass(frozen=True)
class GeneralAxis:
    """One spatial axis of a convolution of images of any size."""

    kernel: int
    stride: int = 1
    low: int = 0
    dilation: int = 1

    def taps(self, backward: bool) -> AxisTaps:
        """The taps of result positions, or those of image positions for the gradient of the image."""
        if not backward:
            return AxisTaps(self.kernel, self.stride, 1, self.dilation, ((0, self.kernel, -self.low),))
        shared = gcd(self.stride, self.dilation)
        entries: list[tuple[int, int, int]] = []
        for phase in range(self.stride):
            hits = [k for k in range(self.kernel) if (phase + self.low - k * self.dilation) % self.stride == 0]
            first = hits[0] if hits else 0
            entries.append((first, len(hits), (phase + self.low - first * self.dilation) // self.stride))
        return AxisTaps(self.kernel, 1, self.stride // shared, -(self.dilation // shared), tuple(entries))


@dataclass(frozen=True)
class AxisTaps:
    """The taps of the positions of a result: for each phase the first tap, their number, the place that it reads.

    Another tap is `tap_step` taps and `source_step` places further.  From one position of a phase to the next, the
    places move by `reach`.
    """

    kernel: int
    reach: int
    tap_step: int
    source_step: int
    entries: tuple[tuple[int, int, int], ...]

    @property
    def phases(self) -> int:
        """The number of phases."""
        return len(self.entries)

    def entry(self, k: SequenceKernel, table: Val | None, phase: Operand) -> tuple[Operand, Operand, Operand]:
        """The entry of a phase; `table` has all of them."""
        if table is None:
            return self.entries[0]
        at = k.f.gep(table, k.f.mul(k.f.i64(phase), 3), "i64")
        first, count, place = (k.f.load(k.f.gep(at, i, "i64"), "i64") for i in range(3))
        return first, count, place

    def table(self, k: SequenceKernel, name: str) -> Val | None:
        """The entries of several phases in memory."""
        return k.table(name, [n for entry in self.entries for n in entry]) if self.phases > 1 else None

    def split(self, f: Function, position: Operand) -> tuple[Operand, Operand]:
        """The number of a position in its phase, and the phase."""
        return split(f, position, self.phases)

    def present(self, f: Function, base: Val, count: Operand, size: Val) -> tuple[Val, Val]:
        """Which of `count` taps, the first of which is at `base`, are inside the source: the first one, the end."""
        step = abs(self.source_step)
        before, within = (f.sub(0, base), f.sub(size, base)) if self.source_step > 0 else (
            f.add(f.sub(base, size), 1),
            f.add(base, 1),
        )  # fmt: skip
        first, end = (f.smin(steps(f, n, step), count) for n in (before, within))
        return first, f.smax(first, end)

    def inner(self, f: Function, base: Operand, count: Operand, size: Val) -> tuple[Val, Val]:
        """The positions of a phase, the first of which has its first tap at `base`, whose taps are all inside."""
        spread = f.mul(f.smax(f.sub(f.i64(count), 1), 0), self.source_step)
        low, high = f.add(f.smin(spread, 0), base), f.add(f.smax(spread, 0), base)
        return steps(f, f.sub(0, low), self.reach), steps(f, f.sub(size, high), self.reach)


def steps(f: Function, distance: Val, step: int) -> Val:
    """⌈distance / step⌉, or 0 for a negative distance."""
    forward = f.smax(distance, 0)
    return forward if step == 1 else f.binary("udiv", f.add(forward, step - 1), step)


def read_sizes(k: SequenceKernel) -> tuple[Val, Val, Val, Val]:
    """The numbers behind the batch: height and width of the source, and of the result."""
    height, width, rows, columns = k.read_sizes(4)
    return height, width, rows, columns
