"""Square tiles of a nest in which some buffers run along one loop and some along another (transposed copies).

The vector loop of such a nest would gather.  Instead a work item is a tile of as many rounds of both loops as a
vector has lanes: what runs along the other loop is loaded along it, transposed in registers into a small row-major
tile on the stack, and read from there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nacre.base.dtypes import bool_
from nacre.codegen.nest_loop import Statements
from nacre.codegen.nest_operate import memory
from nacre.kernel.affine import Scope
from nacre.kernel.ast import Expr, For, If, Load, Local, Stmt, While, children, expressions
from nacre.kernel.dependence import stride
from nacre.native.text import Function, Val, lanes_of, vec

LEAST = 16  # loops known to be shorter are not worth a tile
MOST = 4  # loads that are worth the registers of a tile


@dataclass(frozen=True)
class Tiling:
    """The loop along which some loads run, and those loads."""

    along: For
    loads: tuple[Load, ...]
    lanes: int


class Tiles(Statements):
    """Tiles of one kernel function."""

    def tiling(self, loops: Sequence[For], last: For) -> Tiling | None:
        """How to tile a pointwise nest; None where its vector loop is good as it is."""
        if any(isinstance(s, For | While | If) for s in last.body):
            return None
        scope = Scope({**self.known().extents, **{s.index: s.extent for s in (*loops, last)}}, self.lets)
        lanes = self.widths(last)[-1]
        for along in reversed(loops):
            runs = [e for e in loads(last.body) if self._runs_along(e, along, last, scope)]
            short = any(isinstance(s.extent, int) and s.extent < LEAST for s in (along, last))
            if runs and not short and len(runs) <= MOST and 4 <= lanes <= 32:
                return Tiling(along, tuple(runs), lanes)
        return None

    def _runs_along(self, e: Load, along: For, last: For, scope: Scope) -> bool:
        buffer = self.storage[e.buffer].buffer
        narrow = memory(e.dtype) in ("i8", "i16") and not self.isa.masks
        if e.dtype is bool_ or narrow or any(map(has_local, e.index)):
            return False
        there = stride(buffer, e.index, along.index, scope)
        return there == 1 and stride(buffer, e.index, last.index, scope) not in (0, 1, -1)

    def tile(self, tiling: Tiling, last: For, rows: tuple[Val, Val], columns: tuple[Val, Val]) -> None:
        """Write a tile: rounds `rows` (start, end) of the loop along, `columns` of the vector loop."""
        f, n = self.f, tiling.lanes
        mask = f.lane_mask(f.sub(rows[1], rows[0]), n)
        final = f.sub(columns[1], 1)
        for e in tiling.loads:
            vectors: list[Val] = []
            for k in range(n):
                place = f.smin(f.add(columns[0], k), final)
                with self.index(last.index, place, last.extent), \
                        self.lanes_are(tiling.along.index, n, rows[0], tiling.along.extent, mask):
                    vectors.append(self.value(e))
            room = f.alloca(vec(memory(e.dtype), n), n)
            for k, v in enumerate(transposed(f, vectors)):
                f.store(v, f.gep(room, k * n, memory(e.dtype)))
            self.tiles[e.buffer, e.index] = room, rows[0], columns[0]
        along = tiling.along
        with f.loop(along.index, *rows) as loop, self.index(along.index, loop.index, along.extent):
            self.tile_row = loop.index, last.index, n
            self.strips(last, *columns)
        self.tiles.clear()


def transposed(f: Function, rows: Sequence[Val]) -> list[Val]:
    """The transpose of a square of as many vectors as each has lanes: blocks are swapped in ever larger sizes."""
    values, n = list(rows), lanes_of(rows[0].ty)
    step = 1
    while step < n:
        first = [k if not k & step else n + k - step for k in range(n)]
        second = [k + step if not k & step else n + k for k in range(n)]
        for k in range(n):
            if not k & step:
                a, b = values[k], values[k + step]
                values[k], values[k + step] = f.shuffle(a, b, first), f.shuffle(a, b, second)
        step *= 2
    return values


def has_local(e: Expr) -> bool:
    """Whether an expression reads a name or a buffer."""
    return isinstance(e, Local | Load) or any(map(has_local, children(e)))


def loads(body: Sequence[Stmt]) -> list[Load]:
    """The distinct loads of a body."""
    found: dict[tuple[str, tuple[Expr, ...]], Load] = {}
    seen: set[int] = set()

    def visit(e: Expr) -> None:
        """Note the loads in an expression, each once."""
        if id(e) not in seen:
            seen.add(id(e))
            if isinstance(e, Load):
                found[e.buffer, e.index] = e
            for c in children(e):
                visit(c)

    for s in body:
        for e in expressions(s):
            visit(e)
    return list(found.values())
