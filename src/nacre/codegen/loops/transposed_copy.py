"""Square tiles of a nest in which some buffers run along one loop and some along another (transposed copies).

The vector loop of such a nest would gather.  Instead, a work item is a tile of both loops, as large as a few cache
lines.  Buffers along the other loop are loaded along it, transposed in registers into a small row-major tile in scratch
memory, and read from there.  A tile's lines are far apart, and processors do not predict the next ones, so each tile
prefetches those of the next.
"""

from __future__ import annotations

from collections.abc import Sequence

from nacre.base.dims import Size
from nacre.base.records import dataclass
from nacre.codegen.loops.analysis import distinct_loads, has_local
from nacre.codegen.loops.expressions import Values
from nacre.codegen.loops.operations import memory
from nacre.codegen.loops.statements import Statements
from nacre.codegen.loops.transpose import transposed
from nacre.kernel.affine import Scope
from nacre.kernel.ast import For, If, Load, While
from nacre.kernel.dependence import stride
from nacre.native.llvm_types import vec
from nacre.native.llvm_values import Val

LEAST = 16  # loops known to be shorter are not worth a tile
MOST = 4  # loads that are worth the memory of a tile
SIDE = 16  # most lanes of a square that is transposed in registers
RUN = 256  # bytes of a tile's row
LINE = 64


@dataclass(frozen=True)
class Tiling:
    """The loop along which some loads run, those loads with their steps along the vector loop, lanes of a square."""

    along: For
    loads: tuple[tuple[Load, Size], ...]
    lanes: int

    @property
    def side(self) -> int:
        """The iterations of each of the two loops in a tile."""
        return max(self.lanes, RUN // max(e.dtype.itemsize for e, _ in self.loads))


class Tiles:
    """Tiles of one kernel function."""

    def __init__(self, values: Values, statements: Statements) -> None:
        self.values, self.f, self.isa, self.statements = values, values.f, values.isa, statements

    def tiling(self, loops: Sequence[For], last: For) -> Tiling | None:
        """The tiling of a pointwise nest; None where its vector loop is better without one."""
        if any(isinstance(s, For | While | If) for s in last.body):
            return None
        scope = Scope({**self.values.known().extents, **{s.index: s.extent for s in (*loops, last)}}, self.values.lets)
        lanes = min(self.statements.widths(last)[-1], SIDE)
        for along in reversed(loops):
            steps = [(e, self._step(e, along, last, scope)) for e in distinct_loads(last.body)]
            runs = [(e, step) for e, step in steps if step is not None]
            short = any(isinstance(s.extent, int) and s.extent < LEAST for s in (along, last))
            if runs and not short and len(runs) <= MOST and lanes >= 4:
                return Tiling(along, tuple(runs), lanes)
        return None

    def _step(self, e: Load, along: For, last: For, scope: Scope) -> Size | None:
        """The stride of a load along the vector loop if it is contiguous along the other loop; None otherwise."""
        buffer = self.values.storage[e.buffer].buffer
        if any(map(has_local, e.index)) or stride(buffer, e.index, along.index, scope) != 1:
            return None
        step = stride(buffer, e.index, last.index, scope)
        return None if step in (0, 1, -1) else step

    def tile(
        self, tiling: Tiling, last: For, rows: tuple[Val, Val], columns: tuple[Val, Val], following: Sequence[Val]
    ) -> None:
        """Write a tile: rounds `rows` (start, end) of the loop along, `columns` of the vector loop.

        `following` are the addresses at which the loads of the next tile begin.
        """
        f, side = self.f, tiling.side
        rooms: list[Val] = []
        for e, _ in tiling.loads:
            rooms.append(self.values.room(side * side * e.dtype.itemsize))
        with (
            f.loop("across", *columns, tiling.lanes) as across,
            f.loop("down", *rows, tiling.lanes) as down,
            self.values.scope(),
        ):
            begun = self.beginnings(tiling, last, down.index, across.index)
            row, column = f.sub(down.index, rows[0]), f.sub(across.index, columns[0])
            ends = f.sub(rows[1], down.index), f.sub(columns[1], across.index)
            for (e, step), room, start, ahead in zip(tiling.loads, rooms, begun, following, strict=True):
                element = memory(e.dtype)
                self.prefetch(
                    tiling, e, step, row, f.gep(ahead, f.add(row, f.mul(column, self.values.size(step))), element)
                )
                self.square_of(tiling, e, step, start, ends, f.gep(room, f.add(f.mul(row, side), column), element))
        for (e, _), room in zip(tiling.loads, rooms, strict=True):
            self.values.tiles[e.buffer, e.index] = room, rows[0], columns[0]
        along = tiling.along
        with f.loop(along.index, *rows) as loop, self.values.index(along.index, loop.index, along.extent):
            self.values.tile_row = loop.index, last.index, side
            self.statements.strips(last, *columns)
        self.values.tiles.clear()

    def beginnings(self, tiling: Tiling, last: For, row: Val, column: Val) -> list[Val]:
        """The addresses at which a tile's loads begin."""
        along = tiling.along
        with self.values.index(along.index, row, along.extent), self.values.index(last.index, column, last.extent):
            return [self.values.place(self.values.storage[e.buffer], e.index).pointer for e, _ in tiling.loads]

    def prefetch(self, tiling: Tiling, e: Load, step: Size, row: Val, pointer: Val) -> None:
        """Prefetch the lines of a square of the next tile; of squares that share lines, the first one does."""
        f, width = self.f, tiling.lanes * e.dtype.itemsize
        first = f.icmp("eq", f.and_(f.mul(row, e.dtype.itemsize), max(LINE, width) - 1), 0)
        with f.when(first):
            for _ in range(tiling.lanes):
                for line in range(0, width, LINE):
                    f.prefetch(f.gep(pointer, line))
                pointer = f.gep(pointer, self.values.size(step), memory(e.dtype))

    def square_of(self, tiling: Tiling, e: Load, step: Size, start: Val, ends: tuple[Val, Val], to: Val) -> None:
        """Transpose a square of a load into the tile; `ends` are the remaining iterations of both loops."""
        f, n, element, apart = self.f, tiling.lanes, memory(e.dtype), self.values.size(step)
        whole = f.and_(f.icmp("sge", ends[0], n), f.icmp("sge", ends[1], n))
        stem = f.fresh("square")
        f.branch(whole, f"{stem}.whole", f"{stem}.part")
        f.label(f"{stem}.whole")
        pointer, vectors = start, list[Val]()
        for _ in range(n):
            vectors.append(f.load(pointer, vec(element, n)))
            pointer = f.gep(pointer, apart, element)
        self.put(transposed(f, vectors), to, tiling.side, element)
        f.jump(f"{stem}.end")
        f.label(f"{stem}.part")
        if self.isa.masks or e.dtype.bits >= 32:
            self.put(transposed(f, self.part(start, apart, ends, n, element)), to, tiling.side, element)
        else:
            with f.loop("row", 0, f.smin(ends[0], n)) as i, f.loop("column", 0, f.smin(ends[1], n)) as j:
                x = f.load(f.gep(start, f.add(f.mul(j.index, apart), i.index), element), element)
                f.store(x, f.gep(to, f.add(f.mul(i.index, tiling.side), j.index), element))
        f.jump(f"{stem}.end")
        f.label(f"{stem}.end")

    def part(self, pointer: Val, apart: Val, ends: tuple[Val, Val], n: int, element: str) -> list[Val]:
        """The vectors of a square across an end of the loops; absent rows are read again, absent lanes are masked."""
        f = self.f
        mask, vectors = f.lane_mask(ends[0], n), list[Val]()
        for k in range(n):
            vectors.append(f.masked_load(pointer, mask, vec(element, n)))
            pointer = f.select(f.icmp("sgt", ends[1], k + 1), f.gep(pointer, apart, element), pointer)
        return vectors

    def put(self, vectors: Sequence[Val], to: Val, side: int, element: str) -> None:
        """Write the rows of a square into a tile."""
        for k, v in enumerate(vectors):
            self.f.store(v, self.f.gep(to, k * side, element))
