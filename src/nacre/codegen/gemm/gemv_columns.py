"""GEMV with contiguous columns of B: square blocks of B are transposed in registers.

Columns advance in strips of a vector's width, several short strips at a time.  Each product of a chain depends on the
product before it, so one strip alone would leave the multipliers idle.
"""

from __future__ import annotations

from nacre.base.dtypes import int32
from nacre.base.records import dataclass
from nacre.codegen.gemm.element_types import Numbers, numbers
from nacre.codegen.gemm.gemv import LINE, add_chain, blocks, clear, factors_of, gemv_function
from nacre.codegen.gemm.pack import Transposer
from nacre.codegen.gemm.plan import BLOCK, STRIPS
from nacre.native.llvm_types import bits_of, vec
from nacre.native.llvm_values import Val
from nacre.native.text import Function, ModuleText

ADVANCING = 24 * 1024  # bytes of strips that advance together; the same amount behind them is being prefetched


def emit_gemv_columns(module: ModuleText, arithmetic: Numbers, matrix: Numbers) -> None:
    """Write @dots: columns of B are contiguous; groups of strips prefetch the next group.  Parameters are @sweep's."""
    _GemvColumns(gemv_function(module, matrix, "dots"), arithmetic, matrix).write()


class _TransposedBlocks:
    """Reads some elements of each of `lanes` columns of B as vectors, one for each k.

    Elements narrower than the sums are loaded as integers of several, which are transposed first and unpacked
    afterwards.
    """

    def __init__(self, f: Function, matrix: Numbers) -> None:
        self.f, self.matrix = f, matrix
        self.packed = 8 * matrix.bytes // bits_of(matrix.stored)  # elements of such an integer
        elements, integer = (matrix, matrix.stored) if self.packed == 1 else (numbers(matrix.isa, int32), "i32")
        self.table = f.alloca("ptr", STRIPS * matrix.lanes)
        self.transposer = Transposer(f, elements, integer, starts=self.table, align=matrix.stored_bytes)

    @property
    def steps(self) -> tuple[int, ...]:
        """The numbers of k that can be read at once, greatest first."""
        piece = self.transposer.piece
        return tuple(
            sorted({max(piece, self.matrix.lanes // self.packed) * self.packed, piece * self.packed}, reverse=True)
        )

    def strip(self, index: Val) -> None:
        """Select a strip; strips that are read together are numbered from 0."""
        self.transposer.starts = self.f.gep(self.table, self.f.mul(index, self.matrix.lanes), "ptr")

    def read(self, k: Val, step: int) -> list[Val]:
        """The elements k to k + step of the strip's columns."""
        columns = self.transposer.columns(self.f.lshr(k, self.packed.bit_length() - 1), step // self.packed)
        return columns if self.packed == 1 else [self._part(w, n) for w in columns for n in range(self.packed)]

    def _part(self, integer: Val, number: int) -> Val:
        """An element of each integer."""
        f, bits = self.f, bits_of(self.matrix.stored)
        moved = f.lshr(integer, f.const(integer.ty, number * bits)) if number else integer
        part = f.bitcast(f.cast("trunc", moved, f"i{bits}"), vec(self.matrix.stored, self.matrix.lanes))
        return self.matrix.widen(f, part)


@dataclass(frozen=True)
class _Group:
    """Strips that advance together."""

    first: Val  # column
    count: Val
    follow: Val  # whether another group follows
    next: Val  # where the next group begins in B


class _GemvColumns:
    """Writes the function."""

    def __init__(self, f: Function, arithmetic: Numbers, matrix: Numbers) -> None:
        self.f, self.numbers, self.matrix = f, arithmetic, matrix
        self.lanes, self.width = arithmetic.lanes, arithmetic.lanes * arithmetic.bytes
        self.squares = _TransposedBlocks(f, matrix)
        self.spare = f.alloca(arithmetic.vector, self.squares.steps[-1])
        self.strip_bytes = f.mul(f["b_step"], self.lanes)
        self.dense = f.icmp("eq", f["b_step"], f.mul(f["k"], matrix.stored_bytes))

    def write(self) -> None:
        """Write the loops over groups of strips, and over their blocks of k."""
        f = self.f
        clear(f, self.numbers)
        side = f.smax(f.smin(f.binary("udiv", f.i64(ADVANCING), f.smax(self.strip_bytes, 1)), STRIPS), 1)
        step = f.mul(side, self.lanes)
        with f.loop("j", 0, f["columns"], step) as loop:
            left = f.sub(f["columns"], loop.index)
            follow = f.icmp("sgt", left, step)
            count = f.lshr(f.add(f.smin(left, step), self.lanes - 1), self.lanes.bit_length() - 1)
            after = f.gep(f["b"], f.mul(f.add(loop.index, step), f["b_step"]))
            group = _Group(loop.index, count, follow, after)
            with f.loop("strip", 0, count) as strip:
                first, present = self._columns(group, strip.index)
                self.squares.strip(strip.index)
                self.squares.transposer.begin(first, f["b_step"], present)
            with f.loop("block", 0, blocks(f)) as block:
                self._block(group, f.mul(block.index, BLOCK))
        f.ret()

    def _columns(self, group: _Group, strip: Val) -> tuple[Val, Val]:
        """Where a strip's first column is, and the number of its columns."""
        f, column = self.f, self.f.add(group.first, self.f.mul(strip, self.lanes))
        return f.gep(f["b"], f.mul(column, f["b_step"])), f.smin(f.sub(f["columns"], column), self.lanes)

    def _block(self, group: _Group, start: Val) -> None:
        """Write one block of k for a group: square blocks, smaller blocks, then the remaining k."""
        f, first = self.f, self.squares.steps[0]
        end = f.smin(f.add(start, BLOCK), f["k"])
        for many in self.squares.steps:
            stop = f.add(start, f.and_(f.sub(end, start), -many))
            with f.loop("k", start, stop, many) as k, f.loop("strip", 0, group.count) as strip:
                if many == first:
                    with f.when(group.follow):
                        self._prefetch(group, k.index, strip.index)
                self.squares.strip(strip.index)
                self._advance(self.squares.read(k.index, many), k.index, self._at(group, strip.index))
            start = stop
        with f.loop("strip", 0, group.count) as strip:
            at = self._at(group, strip.index)
            with f.when(f.icmp("slt", start, end)):
                self._rest(group, strip.index, start, end)
            with f.loop("row", 0, f["rows"], carry=[at]) as row:
                add_chain(f, self.numbers, row.carried[0])
                row.next(f.add(row.carried[0], f["row"]))

    def _at(self, group: _Group, strip: Val) -> Val:
        """The offset of a strip in a row of sums, in bytes."""
        return self.f.add(self.f.mul(group.first, self.numbers.bytes), self.f.mul(strip, self.width))

    def _prefetch(self, group: _Group, k: Val, strip: Val) -> None:
        """Prefetch as many cache lines of the next group as a square block has.

        The order is that of memory if the columns are adjacent; else the same k of its columns, a share of lines at a
        time.
        """
        f, size, step = self.f, self.matrix.stored_bytes, self.squares.steps[0]
        lines = max(1, self.lanes * step * size // LINE)
        through = f.mul(f.add(f.mul(k, group.count), f.mul(strip, step)), self.lanes * size)
        offset = f.mul(k, size)
        turn = f.mul(f.lshr(f.and_(offset, LINE - 1), (step * size).bit_length() - 1), lines)
        column = f.add(f.mul(strip, self.lanes), turn)
        across = f.add(f.mul(column, f["b_step"]), f.and_(offset, -LINE))
        place = f.gep(group.next, f.select(self.dense, through, across))
        line_step = f.select(self.dense, f.i64(LINE), f["b_step"])
        for _ in range(lines):
            f.prefetch(place, level=1)
            place = f.gep(place, line_step)

    def _advance(self, columns: list[Val], k: Val, at: Val) -> None:
        """Add the products of some k to the chains of each row."""
        f = self.f
        a = f.gep(f["a"], f.mul(k, f["a_k"]))
        with f.loop("row", 0, f["rows"], carry=[a, f.gep(f["chains"], at)]) as loop:
            a, place = loop.carried
            chain = f.load(place, self.numbers.vector)
            for factor, column in zip(factors_of(f, self.numbers, a, len(columns)), columns, strict=True):
                chain = self.numbers.multiply_add(f, factor, column, chain)
            f.store(chain, place)
            loop.next(f.gep(a, f["a_row"]), f.gep(place, f["row"]))

    def _rest(self, group: _Group, strip: Val, start: Val, end: Val) -> None:
        """Add the products of the remaining k, gathered element by element."""
        f, size, width = self.f, self.f.i64(self.matrix.stored_bytes), self.f.i64(self.width)
        first, count = self._columns(group, strip)
        f.call(self.matrix.part("gather"), "void", [
            f.gep(first, f.mul(start, size)), size, f["b_step"], self.spare, width, f.sub(end, start), count,
        ])  # fmt: skip
        with f.loop("k", start, end, carry=[self.spare]) as loop:
            self._advance([f.load(loop.carried[0], self.numbers.vector)], loop.index, self._at(group, strip))
            loop.next(f.gep(loop.carried[0], width))
