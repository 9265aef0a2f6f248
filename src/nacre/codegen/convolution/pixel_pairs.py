"""Pairs of pixels for the gradient of bfloat16 weights, whose chains take the pixels of a result row one by one.

A tap of the kernel reads pixels at a distance from the result's, which may be odd.  So a line of an image becomes runs
of pairs that begin at even and at odd columns, and each tap reads from one of them.  Pixels outside the image are −0,
those outside the result 0: their products are zeros, which change no sum, if all numbers are finite.
"""

from __future__ import annotations

from collections.abc import Sequence

from nacre.base.records import dataclass
from nacre.codegen.bfloat_pairs import INFINITY, MINUS_ZERO, least_of, lesser, no_least, swapped
from nacre.codegen.convolution.sequence import ConvolutionStep, Count, SequenceKernel, ceil_div
from nacre.kernel.order_convolution import Axis
from nacre.native.isa import Isa
from nacre.native.llvm_types import vec
from nacre.native.llvm_values import Val


@dataclass(frozen=True)
class PairRun:
    """Successive pairs of a line; the first one begins at a column, which may be before the line."""

    column: int
    pairs: int


@dataclass(frozen=True)
class PixelPairs:
    """The lines of an image and of a result as pairs; the stride is 1."""

    columns: Axis

    @property
    def results(self) -> int:
        """The pairs of a result row."""
        return ceil_div(self.columns.out, 2)

    def distance(self, kw: int) -> int:
        """The distance of the column that a tap reads from the result's."""
        return kw * self.columns.dilation - self.columns.low

    @property
    def runs(self) -> tuple[PairRun, ...]:
        """The runs of a line of the image: from even columns and from odd ones, where taps read them."""
        distances = [self.distance(kw) for kw in range(self.columns.kernel)]
        found: list[PairRun] = []
        for odd in (0, 1):
            same = [d for d in distances if d % 2 == odd]
            if same:
                found.append(PairRun(min(same), self.results + (max(same) - min(same)) // 2))
        return tuple(found)

    @property
    def line(self) -> int:
        """The pairs of a line of the image."""
        return sum(run.pairs for run in self.runs)

    def place(self, kw: int) -> int:
        """The place in a line of a tap's pair of the first result pixels."""
        start = 0
        for run in self.runs:
            steps = self.distance(kw) - run.column
            if steps % 2 == 0:
                return start + steps // 2
            start += run.pairs
        raise AssertionError(f"no run has the pairs of tap {kw}")


@dataclass(frozen=True)
class Lines:
    """Planes of lines in a buffer that become runs of pairs; `absent` is the number outside of lines."""

    name: str
    planes: int  # of an image
    rows: int
    size: int
    runs: tuple[PairRun, ...]
    absent: int

    @property
    def spaces(self) -> dict[str, Count]:
        """The bytes of the pairs, and of the least magnitudes of each plane."""
        pairs = sum(run.pairs for run in self.runs)
        return {
            f"{self.name}_pairs": Count(0, 4 * self.planes * self.rows * pairs),
            f"{self.name}_least": Count(0, 8 * self.planes),
        }


def image_lines(pairs: PixelPairs, planes: int, rows: int) -> Lines:
    """The lines of the image."""
    return Lines("x", planes, rows, pairs.columns.size, pairs.runs, MINUS_ZERO)


def result_lines(pairs: PixelPairs, planes: int, rows: int) -> Lines:
    """The lines of the result's cotangent."""
    return Lines("dy", planes, rows, pairs.columns.out, (PairRun(0, pairs.results),), 0)


def pack_lines(isa: Isa, lines: Lines) -> ConvolutionStep:
    """The kernel that packs lines; a work item is a plane.  The least magnitude of one with infinities or NaN is 0."""
    k = SequenceKernel(isa, "float", f"pack_{lines.name}", (lines.name, f"{lines.name}_pairs", f"{lines.name}_least"))
    f, pairs = k.f, sum(run.pairs for run in lines.runs)
    greatest = f.zero(vec("i16", 2 * k.lanes))
    with f.loop("plane", f["lo"], f["hi"]) as plane:
        source = f.gep(k.pointers[lines.name], f.mul(plane.index, lines.rows * lines.size), "i16")
        target = f.gep(k.pointers[f"{lines.name}_pairs"], f.mul(plane.index, lines.rows * pairs), k.scalar)
        with f.loop("row", 0, lines.rows, carry=[*no_least(f, k.lanes), greatest]) as row:
            line, to = (
                f.gep(source, f.mul(row.index, lines.size), "i16"),
                f.gep(target, f.mul(row.index, pairs), k.scalar),
            )
            state = row.carried
            for run in lines.runs:
                state = _run(k, lines, run, line, to, state)
                to = f.gep(to, run.pairs, k.scalar)
            row.next(*state)
        least, greatest = row.results
        most = f.intrinsic("vector.reduce.umax", "i16", [greatest], overload=[greatest.ty])
        finite = f.icmp("ult", most, f.const("i16", INFINITY))
        found = f.select(finite, least_of(f, least), f.i64(0))
        f.store(found, f.gep(k.pointers[f"{lines.name}_least"], plane.index, "i64"))
    grain = max(1, 2048 // max(1, lines.rows * pairs))
    return k.finish([f"{lines.name}_pairs", f"{lines.name}_least"], Count(0, lines.planes), grain=grain)


def _run(k: SequenceKernel, lines: Lines, run: PairRun, line: Val, to: Val, state: Sequence[Val]) -> list[Val]:
    """Write one run of a line; vectors of which all pixels are inside are a loop."""
    f, vectors = k.f, ceil_div(run.pairs, k.lanes)

    def inside(v: int) -> bool:
        first = run.column + 2 * v * k.lanes
        return first >= 0 and first + 2 * k.lanes <= lines.size and (v + 1) * k.lanes <= run.pairs

    at, current = 0, list(state)
    while at < vectors:
        end = at
        while end < vectors and inside(end):
            end += 1
        if end - at > 1:
            with f.loop("v", at, end, carry=current) as v:
                first = f.mul(v.index, k.lanes)
                pixels = f.load(f.gep(line, f.add(f.mul(first, 2), run.column), "i16"), vec("i16", 2 * k.lanes))
                v.next(*_put(k, pixels, f.gep(to, first, k.scalar), None, v.carried))
            at, current = end, v.results
            continue
        current = _edge(k, lines, run, at, line, to, current)
        at += 1
    return current


def _edge(k: SequenceKernel, lines: Lines, run: PairRun, v: int, line: Val, to: Val, state: Sequence[Val]) -> list[Val]:
    """Write one vector of pairs, some of which may be outside of the line or of the run."""
    f, ty = k.f, vec("i16", 2 * k.lanes)
    first = run.column + 2 * v * k.lanes
    there = [0 <= first + lane < lines.size for lane in range(2 * k.lanes)]
    pixels = f.masked_load(f.gep(line, first, "i16"), f.vector("i1", there), ty, f.const(ty, lines.absent))
    left = run.pairs - v * k.lanes
    mask = None if left >= k.lanes else f.vector("i1", [lane < left for lane in range(k.lanes)])
    return _put(k, pixels, f.gep(to, v * k.lanes, k.scalar), mask, state)


def _put(k: SequenceKernel, pixels: Val, to: Val, mask: Val | None, state: Sequence[Val]) -> list[Val]:
    """Store pixels as pairs, and return the least and the greatest magnitudes after them."""
    f, (least, greatest) = k.f, state
    size = f.and_(pixels, f.const(pixels.ty, 0x7FFF))
    pairs = swapped(f, f.bitcast(pixels, vec("i32", k.lanes)))
    if mask is None:
        f.store(pairs, to)
    else:
        f.masked_store(pairs, to, mask)
    return [*lesser(f, [least], pixels), f.minmax("umax", greatest, size)]
