"""Rows of Fourier transforms in scratch memory, and how they are read from operands and written to results.

A `RowGroup` has one transform, or as many as a vector has lanes.  Their numbers are interleaved: those at one index are
adjacent.  Loops over the indices of one transform take vectors of them.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager

from nacre.base.records import dataclass
from nacre.codegen.fft.pairs import load_pairs, store_pairs
from nacre.codegen.loops.transpose import transposed
from nacre.kernel.order_fft import Complex
from nacre.native.llvm_values import Operand, Val
from nacre.native.text import Function

Row = Complex[Val]  # the addresses of real and imaginary parts


@dataclass(frozen=True)
class RowGroup:
    """Transforms that are computed together, and how their rows are accessed."""

    f: Function
    scalar: str
    lanes: int
    together: bool  # as many transforms as lanes; else one

    @property
    def size(self) -> int:
        """The number of transforms."""
        return self.lanes if self.together else 1

    @property
    def vector(self) -> str:
        """The type of a register of numbers."""
        return f"<{self.lanes} x {self.scalar}>"

    def at(self, row: Val, index: Operand) -> Val:
        """The address of the numbers at an index of a row in scratch memory."""
        return self.f.gep(
            row, self.f.mul(index, self.size) if isinstance(index, Val) else index * self.size, self.scalar
        )

    @contextmanager
    def each(self, start: Operand, end: Operand) -> Generator[Val]:
        """A loop over indices; a vector may begin at the last ones, and then reaches beyond the end."""
        with self.f.loop("t", start, end, 1 if self.together else self.lanes) as t:
            yield t.index

    def load(self, row: Row, index: Operand) -> Complex[Val]:
        """The numbers from an index on."""
        re, im = (self.f.load(self.at(part, index), self.vector) for part in row)
        return re, im

    def load_back(self, row: Row, index: Val) -> Complex[Val]:
        """The numbers from an index on towards the beginning."""
        if self.together:
            return self.load(row, index)
        back = range(self.lanes - 1, -1, -1)
        re, im = (self.f.shuffle(x, x, back) for x in self.load(row, self.f.sub(index, self.lanes - 1)))
        return re, im

    def store(self, value: Complex[Val], row: Row, index: Operand) -> None:
        """Store numbers from an index on."""
        for x, part in zip(value, row, strict=True):
            self.f.store(x, self.at(part, index))

    def constants(self, row: Row, index: Val) -> Complex[Val]:
        """The constants of a table for these indices."""
        places = [self.f.gep(part, index, self.scalar) for part in row]
        if self.together:
            re, im = (self.f.splat(self.f.load(place, self.scalar), self.lanes) for place in places)
        else:
            re, im = (self.f.load(place, self.vector) for place in places)
        return re, im

    def set(self, row: Val, index: Operand, value: Callable[[str], Val]) -> None:
        """Store a number at one index of each transform; `value` makes it for a type."""
        type = self.vector if self.together else self.scalar
        self.f.store(value(type), self.at(row, index))

    def get(self, row: Val, index: Operand) -> Val:
        """The number at one index of each transform."""
        return self.f.load(self.at(row, index), self.vector if self.together else self.scalar)

    # ---- operands and results: rows of numbers, in which a complex number is a pair

    def read(self, sources: Sequence[Val], count: Val, row: Sequence[Val]) -> None:
        """Copy `count` numbers of each source: `row` has one address for real numbers, two for pairs."""
        (self._read_together if self.together else self._read_one)(sources, self.f.mul(count, len(row)), row)

    def write(self, row: Sequence[Val], count: Val, targets: Sequence[Val]) -> None:
        """Copy `count` numbers or pairs to each target."""
        (self._write_together if self.together else self._write_one)(row, self.f.mul(count, len(row)), targets)

    def write_rest(self, row: Row, start: Val, end: Val, target: Val) -> None:
        """Copy the pairs between two indices to a target, each part by itself."""
        f = self.f
        with f.loop("u", f.mul(start, 2), f.mul(end, 2)) as u:
            f.store(f.load(self._place(row, u.index), self.scalar), f.gep(target, u.index, self.scalar))

    def _place(self, row: Sequence[Val], number: Val) -> Val:
        """The address in scratch memory of one number of a source."""
        if len(row) == 1:
            return self.at(row[0], number)
        odd = self.f.icmp("ne", self.f.and_(number, 1), 0)
        part = self.f.select(odd, row[1], row[0])
        return self.at(part, self.f.lshr(number, 1))

    def _whole(self, count: Val, width: int) -> Val:
        return self.f.and_(count, -width)

    def _read_one(self, sources: Sequence[Val], count: Val, row: Sequence[Val]) -> None:
        f, (source,), width = self.f, sources, self.lanes * len(row)
        whole = self._whole(count, width)
        with f.loop("u", 0, whole, width) as u:
            place = f.gep(source, u.index, self.scalar)
            x = (f.load(place, self.vector),) if len(row) == 1 else load_pairs(f, place, self.vector)
            for value, part in zip(x, row, strict=True):
                f.store(value, f.gep(part, f.lshr(u.index, len(row) - 1), self.scalar))
        with f.loop("u", whole, count) as u:
            f.store(f.load(f.gep(source, u.index, self.scalar), self.scalar), self._place(row, u.index))

    def _write_one(self, row: Sequence[Val], count: Val, targets: Sequence[Val]) -> None:
        f, (target,), width = self.f, targets, self.lanes * len(row)
        whole = self._whole(count, width)
        with f.loop("u", 0, whole, width) as u:
            place = f.gep(target, u.index, self.scalar)
            x = [f.load(f.gep(part, f.lshr(u.index, len(row) - 1), self.scalar), self.vector) for part in row]
            if len(row) == 2:
                store_pairs(f, (x[0], x[1]), place)
            else:
                f.store(x[0], place)
        with f.loop("u", whole, count) as u:
            f.store(f.load(self._place(row, u.index), self.scalar), f.gep(target, u.index, self.scalar))

    def _read_together(self, sources: Sequence[Val], count: Val, row: Sequence[Val]) -> None:
        f, n, parts = self.f, self.lanes, len(row)
        whole = self._whole(count, n)
        with f.loop("u", 0, whole, n) as u:
            x = transposed(f, [f.load(f.gep(source, u.index, self.scalar), self.vector) for source in sources])
            start = f.lshr(u.index, parts - 1)
            places = [self.at(part, start) for part in row]
            for k, value in enumerate(x):
                f.store(value, f.gep(places[k % parts], k // parts * n, self.scalar))
        with f.loop("u", whole, count) as u:
            place = self._place(row, u.index)
            for lane, source in enumerate(sources):
                value = f.load(f.gep(source, u.index, self.scalar), self.scalar)
                f.store(value, f.gep(place, lane, self.scalar))

    def _write_together(self, row: Sequence[Val], count: Val, targets: Sequence[Val]) -> None:
        f, n, parts = self.f, self.lanes, len(row)
        whole = self._whole(count, n)
        with f.loop("u", 0, whole, n) as u:
            start = f.lshr(u.index, parts - 1)
            places = [self.at(part, start) for part in row]
            x = [f.load(f.gep(places[k % parts], k // parts * n, self.scalar), self.vector) for k in range(n)]
            for value, target in zip(transposed(f, x), targets, strict=True):
                f.store(value, f.gep(target, u.index, self.scalar))
        with f.loop("u", whole, count) as u:
            place = self._place(row, u.index)
            for lane, target in enumerate(targets):
                value = f.load(f.gep(place, lane, self.scalar), self.scalar)
                f.store(value, f.gep(target, u.index, self.scalar))
