"""Loops along rows inside a vector loop over rows (cumulative sums), in squares that are transposed in registers.

The lanes are rows, so each iteration would gather an element of every row and scatter another.  Instead, as many
iterations as there are lanes run together: their elements are loaded along the rows and transposed, and so are results.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager

from nacre.base.dtypes import bool_
from nacre.codegen.loops.analysis import lanes_for
from nacre.codegen.loops.transposed_copy import Tiles, has_local, loads, transposed
from nacre.kernel.affine import Scope
from nacre.kernel.ast import Expr, For, Let, Load, Store
from nacre.kernel.dependence import loaded, stride
from nacre.native.text import Val

MOST = 2  # loads, and stores, whose squares there are registers for


class TransposedScans(Tiles):
    """Loops along rows of one kernel function."""

    results: dict[tuple[str, tuple[Expr, ...]], list[Val]] | None = None  # what the rounds of a square store

    def widths(self, s: For) -> list[int]:
        """One vector where a loop inside goes along rows."""
        inner = [t for t in s.body if isinstance(t, For)]
        scope = Scope({**self.known().extents, s.index: s.extent}, self.lets)
        lanes = lanes_for(s.body, self.known_buffers(), self.isa)
        if len(inner) == 1 and self.along_rows(inner[0], s.index, scope, lanes) is not None:
            return [lanes]
        return super().widths(s)

    def along_rows(self, s: For, vector: str, scope: Scope, lanes: int) -> tuple[list[Load], list[Store]] | None:
        """The loads and stores of a loop that run along rows; None where it is not done in squares."""
        if s.vector or not 4 <= lanes <= 16 or not all(isinstance(t, Let | Store) for t in s.body):
            return None
        inside = Scope({**scope.extents, s.index: s.extent}, scope.lets)

        def runs(access: Load | Store) -> bool:
            """Whether an access is along the loop, and apart in different lanes."""
            storage = self.storage.get(access.buffer)
            if storage is None or storage.lanes > 1 or any(map(has_local, access.index)):
                return False
            dtype = storage.buffer.dtype
            steps = [stride(storage.buffer, access.index, name, inside) for name in (s.index, vector)]
            return steps[0] == 1 and steps[1] not in (0, 1) and dtype is not bool_ and dtype.bits >= 32

        read = [e for e in loads(s.body) if runs(e)]
        written = [t for t in s.body if isinstance(t, Store) and t.buffer in self.storage]
        known = loaded(s.body)
        apart = len({t.buffer for t in written}) == len(written) and not any(t.buffer in known for t in written)
        few = len(read) <= MOST and 1 <= len(written) <= MOST
        return (read, written) if apart and few and all(map(runs, written)) else None

    def rounds(self, s: For) -> None:
        """A loop along rows in squares, then the rounds that are left."""
        found = None
        if self.vector is not None and self.mask is None:
            found = self.along_rows(s, self.vector, self.known(), self.lanes)
        if found is None:
            super().rounds(s)
            return
        f, kept = self.f, self.carried(s.body)
        self.hoist(s)
        extent = self.size(s.extent)
        whole = f.and_(extent, -self.lanes)
        with f.loop(s.index, f.i64(0), whole, self.lanes, carry=self.current(kept)) as loop:
            self.take(kept, loop.carried)
            self.forget(s.body)
            self.square(s, loop.index, *found)
            loop.next(*self.current(kept))
        self.take(kept, loop.results)
        self.stretch(s, kept, whole, extent, 1)
        self.forget(s.body)

    def square(self, s: For, first: Val, read: Sequence[Load], written: Sequence[Store]) -> None:
        """As many rounds as there are lanes."""
        f, n = self.f, self.lanes
        columns: list[list[Val]] = []
        for e in read:
            rows: list[Val] = []
            for k in range(n):
                with self.row_of_lane(s, first, k):
                    rows.append(self.value(e))
            columns.append(transposed(f, rows))
        self.results = {(t.buffer, t.index): [] for t in written}
        for k in range(n):
            with self.index(s.index, f.add(first, k), s.extent):
                self.scopes[-1].update((self.number(e), c[k]) for e, c in zip(read, columns, strict=True))
                self.block(s.body)
        results, self.results = self.results, None
        for (buffer, index), values in results.items():
            for k, row in enumerate(transposed(f, values)):
                with self.row_of_lane(s, first, k):
                    f.store(row, self.place(self.storage[buffer], index).pointer)

    @contextmanager
    def row_of_lane(self, s: For, first: Val, lane: int) -> Generator[None]:
        """Inside, lanes count the rounds of the loop from `first`, in the row that is a lane around."""
        vector = self.vector
        assert vector is not None
        before = self.indices[vector]
        self._serial += 1
        self.indices[vector] = self._serial, self.f.add(before[1], lane)
        with self.lanes_are(s.index, self.lanes, first, s.extent):
            yield
        self.indices[vector] = before
        self._seen.clear()

    def store(self, buffer: str, index: Sequence[Expr], value: Expr) -> None:
        """A store, which waits where its square is not complete."""
        waiting = None if self.results is None else self.results.get((buffer, tuple(index)))
        if waiting is None:
            super().store(buffer, index, value)
        else:
            waiting.append(self.row(value))
