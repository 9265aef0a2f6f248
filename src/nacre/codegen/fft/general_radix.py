"""The butterfly of a large prime radix as loops, whose code does not grow with the radix."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from nacre.base.dtypes import DType
from nacre.kernel.order_fft import Complex
from nacre.kernel.roots_of_unity import roots
from nacre.native.llvm_types import lanes_of, scalar_of
from nacre.native.llvm_values import Operand, Val, literal
from nacre.native.text import Function

STRAIGHT: Final = 13  # the largest radix whose butterfly is straight code


class GeneralButterfly:
    """Sums and differences of the numbers j and r − j, and the results, in memory on the stack."""

    def __init__(self, f: Function, vector: str, dtype: DType, radix: int) -> None:
        self.f, self.vector, self.radix, self.half = f, vector, radix, radix // 2
        scalar = scalar_of(vector)
        cos, sin = roots(radix, np.arange(radix), dtype.numpy)
        inner = ", ".join(f"{scalar} {literal(scalar, float(x))}" for x in (*cos, *sin))
        self.roots = f.module.constant(f"roots_{radix}", f"[{2 * radix} x {scalar}]", f"[{inner}]")
        self.sums, self.differences = (self._rows(self.half + 1) for _ in range(2))
        self.results = self._rows(radix)

    def _rows(self, count: int) -> Complex[Val]:
        return self.f.alloca(self.vector, count), self.f.alloca(self.vector, count)

    def _store(self, value: Complex[Val], rows: Complex[Val], at: Operand) -> None:
        for x, row in zip(value, rows, strict=True):
            self.f.store(x, self.f.gep(row, at, self.vector))

    def _load(self, rows: Complex[Val], at: Operand) -> Complex[Val]:
        re, im = (self.f.load(self.f.gep(row, at, self.vector), self.vector) for row in rows)
        return re, im

    def result(self, at: Operand) -> Complex[Val]:
        """A result behind `write`."""
        return self._load(self.results, at)

    def write(self, read: Callable[[Val], Complex[Val]]) -> None:
        """Compute the results of the numbers that `read` loads, in the order of `kernel.order_fft.butterfly`."""
        f = self.f
        x = read(f.i64(0))
        with f.loop("j", 1, self.half + 1, carry=x) as j:
            a, b = read(j.index), read(f.sub(f.i64(self.radix), j.index))
            total = f.fadd(a[0], b[0]), f.fadd(a[1], b[1])
            self._store(total, self.sums, j.index)
            self._store((f.fsub(a[0], b[0]), f.fsub(a[1], b[1])), self.differences, j.index)
            j.next(f.fadd(j.carried[0], total[0]), f.fadd(j.carried[1], total[1]))
        self._store((j.results[0], j.results[1]), self.results, 0)
        with f.loop("i", 1, self.half + 1) as i:
            even, odd = self._chains(x, i.index)
            self._store((f.fadd(even[0], odd[1]), f.fsub(even[1], odd[0])), self.results, i.index)
            other = f.sub(f.i64(self.radix), i.index)
            self._store((f.fsub(even[0], odd[1]), f.fadd(even[1], odd[0])), self.results, other)

    def _chains(self, x: Complex[Val], i: Val) -> tuple[Complex[Val], Complex[Val]]:
        """The sums over j of the sums times cosines, from x on, and of the differences times sines."""
        f = self.f
        (a, b), (c, s) = (self._load(rows, 1) for rows in (self.sums, self.differences)), self._root(i)
        even = f.fma(a[0], c, x[0]), f.fma(a[1], c, x[1])
        odd = f.fmul(b[0], s), f.fmul(b[1], s)
        with f.loop("j", 2, self.half + 1, carry=(*even, *odd, i)) as j:
            at = f.add(j.carried[4], i)
            at = f.select(f.icmp("sge", at, self.radix), f.sub(at, self.radix), at)
            (a, b), (c, s) = (self._load(rows, j.index) for rows in (self.sums, self.differences)), self._root(at)
            e, o = j.carried[:2], j.carried[2:4]
            chains = f.fma(a[0], c, e[0]), f.fma(a[1], c, e[1]), f.fma(b[0], s, o[0]), f.fma(b[1], s, o[1])
            j.next(*chains, at)
        return (j.results[0], j.results[1]), (j.results[2], j.results[3])

    def _root(self, at: Val) -> Complex[Val]:
        f, scalar = self.f, scalar_of(self.vector)
        cos, sin = f.gep(self.roots, at, scalar), f.gep(self.roots, f.add(at, self.radix), scalar)
        c, s = (f.splat(f.load(place, scalar), lanes_of(self.vector)) for place in (cos, sin))
        return c, s
