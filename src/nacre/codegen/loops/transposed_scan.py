"""Loops along rows inside a vector loop over rows (cumulative sums), in squares that are transposed in registers.

The lanes are rows, so that each iteration would gather an element of every row and scatter another.  Instead, as many
iterations as there are lanes run together: their elements are loaded along the rows and transposed, as are results.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager

from nacre.base.dtypes import bool_
from nacre.codegen.loops.analysis import distinct_loads, has_local
from nacre.codegen.loops.expressions import Values
from nacre.codegen.loops.licm import LoopInvariants
from nacre.codegen.loops.transpose import transposed
from nacre.kernel.affine import Scope
from nacre.kernel.ast import Expr, For, Let, Load, Stmt, Store
from nacre.kernel.dependence import loaded, stride
from nacre.native.llvm_values import Val

MOST = 2  # most loads, and stores, whose squares fit into registers


Stretch = Callable[[For, Sequence[str], Val, Val], None]  # a loop, its carries, its first iteration, its end


class TransposedScans:
    """Loops along rows of one kernel function; `block` writes a body's statements, `stretch` single iterations."""

    def __init__(
        self, values: Values, invariants: LoopInvariants, block: Callable[[Sequence[Stmt]], None], stretch: Stretch
    ) -> None:
        self.values, self.f, self.accumulators = values, values.f, values.accumulators
        self.invariants, self.block, self.stretch = invariants, block, stretch
        self.results: dict[tuple[str, tuple[Expr, ...]], list[Val]] | None = (
            None  # values that the iterations of a square store
        )

    def inside(self, s: For, lanes: int) -> bool:
        """Whether the only loop inside a vector loop of `lanes` lanes is along rows."""
        inner = [t for t in s.body if isinstance(t, For)]
        scope = Scope({**self.values.known().extents, s.index: s.extent}, self.values.lets)
        return len(inner) == 1 and self.along_rows(inner[0], s.index, scope, lanes) is not None

    def along_rows(self, s: For, vector: str, scope: Scope, lanes: int) -> tuple[list[Load], list[Store]] | None:
        """The loads and stores of a loop that run along rows; None where squares are not applicable."""
        if s.vector or not 4 <= lanes <= 16 or not all(isinstance(t, Let | Store) for t in s.body):
            return None
        inside = Scope({**scope.extents, s.index: s.extent}, scope.lets)

        def runs(access: Load | Store) -> bool:
            """Whether an access is contiguous along the loop, and strided in the lanes."""
            storage = self.values.storage.get(access.buffer)
            if storage is None or storage.lanes > 1 or any(map(has_local, access.index)):
                return False
            dtype = storage.buffer.dtype
            steps = [stride(storage.buffer, access.index, name, inside) for name in (s.index, vector)]
            return steps[0] == 1 and steps[1] not in (0, 1) and dtype is not bool_ and dtype.bits >= 32

        read = [e for e in distinct_loads(s.body) if runs(e)]
        written = [t for t in s.body if isinstance(t, Store) and t.buffer in self.values.storage]
        known = loaded(s.body)
        apart = len({t.buffer for t in written}) == len(written) and not any(t.buffer in known for t in written)
        few = len(read) <= MOST and 1 <= len(written) <= MOST
        return (read, written) if apart and few and all(map(runs, written)) else None

    def rounds(self, s: For) -> bool:
        """Emit a loop along rows in squares, then the remaining iterations; returns whether it is such a loop."""
        found = None
        if self.values.vector is not None and self.values.mask is None:
            found = self.along_rows(s, self.values.vector, self.values.known(), self.values.lanes)
        if found is None:
            return False
        f, kept = self.f, self.accumulators.carried(s.body)
        self.invariants.hoist(s)
        extent = self.values.size(s.extent)
        whole = f.and_(extent, -self.values.lanes)
        with f.loop(s.index, f.i64(0), whole, self.values.lanes, carry=self.accumulators.current(kept)) as loop:
            self.values.take(kept, loop.carried)
            self.values.forget(s.body)
            self.square(s, loop.index, *found)
            loop.next(*self.accumulators.current(kept))
        self.values.take(kept, loop.results)
        self.stretch(s, kept, whole, extent)
        self.values.forget(s.body)
        return True

    def square(self, s: For, first: Val, read: Sequence[Load], written: Sequence[Store]) -> None:
        """Emit as many iterations as there are lanes."""
        f, n = self.f, self.values.lanes
        columns: list[list[Val]] = []
        for e in read:
            rows: list[Val] = []
            for k in range(n):
                with self.row_of_lane(s, first, k):
                    rows.append(self.values.value(e))
            columns.append(transposed(f, rows))
        self.results = {(t.buffer, t.index): [] for t in written}
        for k in range(n):
            with self.values.index(s.index, f.add(first, k), s.extent):
                self.values.scopes[-1].update((self.values.number(e), c[k]) for e, c in zip(read, columns, strict=True))
                self.block(s.body)
        results, self.results = self.results, None
        for (buffer, index), values in results.items():
            for k, row in enumerate(transposed(f, values)):
                with self.row_of_lane(s, first, k):
                    f.store(row, self.values.place(self.values.storage[buffer], index).pointer)

    @contextmanager
    def row_of_lane(self, s: For, first: Val, lane: int) -> Generator[None]:
        """Inside, lanes are iterations of the loop from `first`, in the row that is a lane of the outer loop."""
        vector = self.values.vector
        assert vector is not None
        with self.values.moved(vector, lane), self.values.lanes_are(s.index, self.values.lanes, first, s.extent):
            yield

    def holds_back(self, s: Store) -> bool:
        """Record a store whose square is not complete; returns whether it is such a store."""
        waiting = None if self.results is None else self.results.get((s.buffer, tuple(s.index)))
        if waiting is None:
            return False
        waiting.append(self.values.row(s.value))
        return True
