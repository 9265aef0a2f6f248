"""Convolution of one channel for each result channel, for images of any size: pixels are in vector lanes.

A work item is a row of a plane of the result.  Its vectors of pixels are adjacent in the source, because neighbours
read neighbours.  Vectors at the edges of a row have masks for each tap.
"""

from __future__ import annotations

from collections.abc import Sequence

from nacre.codegen.convolution.general import BATCH, RESULT_HEIGHT, RESULT_WIDTH, AxisTaps, GeneralStep, read_sizes
from nacre.codegen.convolution.sequence import SequenceKernel, product, split, total
from nacre.native.isa import Isa
from nacre.native.llvm_values import Val

TOGETHER = 4  # vectors whose sums are independent of each other


def has_adjacent_pixels(columns: AxisTaps) -> bool:
    """Whether neighbours of a result read neighbours of the source."""
    return columns.phases == 1 and columns.reach == 1


class GeneralDepthwiseKernel:
    """Writes the kernel; `outputs` are the result channels for each channel of the source."""

    def __init__(
        self,
        isa: Isa,
        scalar: str,
        channels: int,
        outputs: int,
        axes: tuple[AxisTaps, AxisTaps],
        buffers: tuple[str, str],
    ) -> None:
        source, self.out = buffers
        self.rows, self.columns = axes
        self.channels, self.outputs = channels, outputs
        self.k = SequenceKernel(isa, scalar, f"conv_{self.out}", (source, "w", self.out))
        self.source = self.k.pointers[source]
        self.height, self.width, self.result_rows, self.result_columns = read_sizes(self.k)

    def write(self) -> GeneralStep:
        """Write the whole kernel."""
        k, f, rows, columns = self.k, self.k.f, self.rows, self.columns
        table = rows.table(k, "row_phases")
        self.first_tap, self.count, self.place = columns.entries[0]
        low, high = columns.inner(f, f.i64(self.place), self.count, self.width)
        with f.loop("item", f["lo"], f["hi"]) as item:
            plane, row = f.binary("udiv", item.index, self.result_rows), f.binary("urem", item.index, self.result_rows)
            _, channel = split(f, plane, self.channels * self.outputs)
            image, _ = split(f, plane, self.outputs)
            position, phase = rows.split(f, row)
            first, count, place = rows.entry(k, table, phase)
            base = f.i64(total(f, product(f, position, rows.reach), place))
            begin, end = rows.present(f, base, count, self.height)
            line = f.add(f.mul(f.i64(image), self.height), f.add(base, f.mul(begin, rows.source_step)))
            self.line = f.gep(self.source, f.mul(line, self.width), k.scalar)
            tap = total(f, product(f, begin, rows.tap_step), first)
            weight = total(f, product(f, channel, rows.kernel), tap)
            self.weights = f.gep(k.pointers["w"], product(f, weight, columns.kernel), k.scalar)
            self.count_rows = f.sub(end, begin)
            self.target = f.gep(k.pointers[self.out], f.mul(item.index, self.result_columns), k.scalar)
            start = f.smin(f.and_(f.add(low, k.lanes - 1), -k.lanes), self.result_columns)
            self._edge(f.i64(0), start)
            done = start
            for vectors in (TOGETHER, 1):
                size = vectors * k.lanes
                behind = f.add(done, f.and_(f.smax(f.sub(high, done), 0), -size))
                with f.loop("at", done, behind, size) as at:
                    self._whole(at.index, vectors)
                done = behind
            self._edge(done, self.result_columns)
        f.ret()
        cost = max(1, rows.kernel * columns.kernel) * (RESULT_WIDTH // k.lanes + 1)
        items = BATCH * self.channels * self.outputs * RESULT_HEIGHT
        return GeneralStep(k.name, k.module.text(), k.buffers, items, cost)

    def _taps(self, at: Val, zeros: Sequence[Val], masked: Val | None = None) -> list[Val]:
        """The sums of vectors of pixels from a result column on; `masked` has the columns of an edge's lanes."""
        k, f, columns = self.k, self.k.f, self.columns
        with f.loop("kh", 0, self.count_rows, carry=zeros) as kh:
            line = f.gep(self.line, f.mul(f.mul(kh.index, self.rows.source_step), self.width), k.scalar)
            weights = f.gep(self.weights, f.mul(kh.index, self.rows.tap_step * columns.kernel), k.scalar)
            current = list(kh.carried)
            for j in range(self.count):
                tap = self.first_tap + j * columns.tap_step
                weight = f.splat(f.load(f.gep(weights, tap, k.scalar), k.scalar), k.lanes)
                offset = self.place + j * columns.source_step
                source = f.gep(line, f.add(at, offset), k.scalar)
                for v, before in enumerate(current):
                    if masked is None:
                        value = f.load(f.gep(source, v * k.lanes, k.scalar), k.vector)
                        current[v] = f.fma(value, weight, before)
                    else:
                        here = f.add(masked, f.splat(f.i64(offset), k.lanes))
                        inside = f.icmp("ult", here, f.splat(self.width, k.lanes))
                        value = f.masked_load(source, inside, k.vector, f.zero(k.vector))
                        current[v] = f.select(inside, f.fma(value, weight, before), before)
            kh.next(*current)
        return kh.results

    def _whole(self, at: Val, vectors: int) -> None:
        """Compute vectors of pixels that have all taps of their row."""
        k, f = self.k, self.k.f
        for v, value in enumerate(self._taps(at, [f.zero(k.vector)] * vectors)):
            f.store(value, f.gep(self.target, f.add(at, v * k.lanes), k.scalar))

    def _edge(self, start: Val, end: Val) -> None:
        """Compute the pixels from one column to another, some of which may not have all taps of their row."""
        k, f = self.k, self.k.f
        numbers = f.vector("i64", range(k.lanes))
        with f.loop("edge", start, end, k.lanes) as at:
            columns = f.add(f.splat(at.index, k.lanes), numbers)
            (value,) = self._taps(at.index, [f.zero(k.vector)], columns)
            present = f.lane_mask(f.sub(end, at.index), k.lanes)
            f.masked_store(value, f.gep(self.target, at.index, k.scalar), present)
