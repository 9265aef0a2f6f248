"""Fourier transforms: one kernel for all lengths with the same radices, which reads the passes from a table.

A work item is one transform, or as many together as a vector has lanes where these fit the caches.  Its rows are in
scratch memory.  `kernel.order_fft` defines the arithmetic.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache
from typing import Final

import numpy as np

from nacre.base.dims import Size
from nacre.base.dtypes import DType
from nacre.base.records import dataclass
from nacre.codegen.fft.pairs import store_pairs
from nacre.codegen.fft.passes import STEP_FIELDS, Pairs, Passes, Registers, behind
from nacre.codegen.fft.rows import Row, RowGroup
from nacre.kernel.order_fft import PADDING, Complex, FourierPlan, merged, plan, split, times
from nacre.native.isa import Isa
from nacre.native.llvm_values import Val
from nacre.native.text import ModuleText

NULL: Final = Val("null", "ptr")
NAME: Final = "nacre_kernel"
BEFORE: Final = 64  # elements before a row that loads may touch
TOGETHER: Final = 1 << 15  # the most bytes of rows of transforms that are computed together
HEADER: Final = ("count", "n", "length", "chirp", "filter", "halves", "row", "source", "target", "bins", "wide")
START: Final = 16  # the first word of the passes in their table


@dataclass(frozen=True)
class FourierForm:
    """What a transform's code depends on: all of its kernel's text, but nothing that its table of passes has."""

    kind: str  # "fft", "rfft" or "irfft"
    inverse: bool  # of "fft"
    odd: bool  # whether real numbers are of odd length
    is_convolution: bool
    radices: tuple[int, ...]
    together: bool

    @property
    def source(self) -> Pairs:
        """The form in which a first pass may read its operand."""
        if self.is_convolution or self.odd or self.kind == "irfft":
            return Pairs.ROWS
        return Pairs.EXCHANGED if self.inverse else Pairs.PAIRS

    @property
    def target(self) -> Pairs:
        """The form in which a last pass may write the result."""
        if self.is_convolution or self.odd or self.kind == "rfft":
            return Pairs.ROWS
        return Pairs.EXCHANGED if self.inverse or self.kind == "irfft" else Pairs.PAIRS


@dataclass(frozen=True)
class FourierKernel:
    """A kernel: its module, which includes the one of its passes; the transforms of a work item; bytes of scratch."""

    module: ModuleText
    passes: ModuleText
    rows: int
    scratch: int


def complex_length(kind: str, n: int) -> int:
    """The length of the complex transform that computes one of n numbers, or of n real numbers."""
    return n // 2 if kind != "fft" and n % 2 == 0 else n


def steps(kind: str, n: int, isa: Isa, dtype: DType) -> np.ndarray:
    """The table of passes, behind the sizes and places that `HEADER` lists."""
    p = plan(complex_length(kind, n))
    bins = n if kind == "fft" else n // 2 + 1
    numbers = {"fft": (2 * n, 2 * n), "rfft": (n, 2 * bins), "irfft": (2 * bins, n)}[kind]
    form = form_of(kind, n, False, isa, dtype)
    header = (
        len(p.passes),
        p.n,
        p.passes_length,
        p.chirp,
        p.filter,
        p.halves,
        _row(p, isa, dtype, form),
        *numbers,
        bins,
    )
    lanes = isa.lanes(dtype.memory)
    wide = len(p.passes) > 1 and p.passes[0].m >= lanes and p.passes[-1].s >= lanes
    header = (*header, int(wide))
    rows = [[getattr(each, field) for field in STEP_FIELDS] for each in p.passes]
    return np.array([*header, *[0] * (START - len(header)), *(x for row in rows for x in row)], np.int64)


def form_of(kind: str, n: int, inverse: bool, isa: Isa, dtype: DType) -> FourierForm:
    """The form of a transform of n numbers, or of n real numbers."""
    p = plan(complex_length(kind, n))
    together = 4 * p.passes_length * isa.vector_bits // 8 <= TOGETHER
    odd = kind != "fft" and n % 2 == 1
    return FourierForm(kind, inverse, odd, p.is_convolution, tuple(sorted(set(p.radices))), together)


def _row(p: FourierPlan, isa: Isa, dtype: DType, form: FourierForm) -> int:
    """The elements of a row in scratch memory."""
    lanes = isa.lanes(dtype.memory)
    found = BEFORE + (p.passes_length + 1) * (lanes if form.together else 1) + behind(p.radices, lanes)
    return -(-found // 64) * 64


def fourier_kernel(kind: str, n: int, inverse: bool, isa: Isa, dtype: DType) -> FourierKernel:
    """The kernel of a transform."""
    form = form_of(kind, n, inverse, isa, dtype)
    writer = _written(form, isa, dtype)
    scratch = 4 * _row(plan(complex_length(kind, n)), isa, dtype, form) * dtype.itemsize
    rows = isa.lanes(dtype.memory) if form.together else 1
    return FourierKernel(writer.module, writer.passes, rows, scratch)


def items(rows: Size, kernel: FourierKernel) -> Size:
    """The work items of a number of transforms."""
    return (rows + (kernel.rows - 1)) // kernel.rows


@lru_cache(maxsize=256)
def _passes(radices: tuple[int, ...], isa: Isa, dtype: DType, source: Pairs, target: Pairs) -> ModuleText:
    """The passes of some radices, which many kernels share."""
    module = ModuleText("fourier_passes")
    Passes(module, isa, dtype, radices, source, target).write()
    return module


@lru_cache(maxsize=256)
def _written(form: FourierForm, isa: Isa, dtype: DType) -> _Writer:
    writer = _Writer(form, isa, dtype)
    writer.write()
    return writer


class _Writer:
    """Writes the kernel of a form.  Its arguments are the operand, the constants, the passes, the result, the rows."""

    def __init__(self, form: FourierForm, isa: Isa, dtype: DType) -> None:
        self.form, self.dtype = form, dtype
        self.module, self.passes = ModuleText(NAME), _passes(form.radices, isa, dtype, form.source, form.target)
        self.module.include(self.passes)
        params = {"args": "ptr", "lo": "i64", "hi": "i64", "scratch": "ptr"}
        f = self.f = self.module.function(NAME, "void", params, isa=isa)
        self.scalar, self.lanes = dtype.memory, isa.lanes(dtype.memory)
        self.source, self.table, self.steps, self.target = (f.load(f.gep(f["args"], k, "ptr"), "ptr") for k in range(4))
        self.rows = f.load(f.gep(f["args"], 4, "ptr"), "i64")
        self.header = {name: f.load(f.gep(self.steps, k, "i64"), "i64") for k, name in enumerate(HEADER)}
        parts = [f.gep(f["scratch"], f.add(f.mul(self.header["row"], k), BEFORE), self.scalar) for k in range(4)]
        self.first, self.second = (parts[0], parts[1]), (parts[2], parts[3])

    def write(self) -> None:
        """Write the kernel."""
        f = self.f
        one = RowGroup(f, self.scalar, self.lanes, False)
        with f.loop("item", f["lo"], f["hi"]) as item:
            if not self.form.together:
                self._transform(one, item.index)
            else:
                first = f.mul(item.index, self.lanes)
                end = f.smin(f.add(first, self.lanes), self.rows)
                whole = f.icmp("eq", f.sub(end, first), self.lanes)
                with f.when(whole):
                    self._transform(RowGroup(f, self.scalar, self.lanes, True), first)
                rest = f.select(whole, end, first)
                with f.loop("row", rest, end) as row:
                    self._transform(one, row.index)
        f.ret()

    def _numbers(self, array: Val, size: str, unit: RowGroup, row: Val) -> list[Val]:
        """The addresses of the rows of an operand or result."""
        f = self.f
        first = f.gep(array, f.mul(row, self.header[size]), self.scalar)
        return [f.gep(first, f.mul(self.header[size], k) if k else 0, self.scalar) for k in range(unit.size)]

    def _transform(self, unit: RowGroup, row: Val) -> None:
        """The transform of a unit of rows."""
        sources = self._numbers(self.source, "source", unit, row)
        targets = self._numbers(self.target, "target", unit, row)
        {"fft": self._complex, "rfft": self._of_real, "irfft": self._to_real}[self.form.kind](unit, sources, targets)

    def _is_direct(self, unit: RowGroup) -> bool:
        """Whether passes may read operands and write results, if all lanes of their vectors are within them."""
        return not (unit.together or self.form.is_convolution or self.form.odd)

    def _unless_wide(self, unit: RowGroup) -> AbstractContextManager[None]:
        """The instructions for operands and results that passes do not access themselves."""
        return self.f.when(self.f.icmp("eq", self.header["wide"], 0)) if self._is_direct(unit) else nullcontext()

    def _place(self, unit: RowGroup, numbers: Sequence[Val]) -> Val:
        """The address that passes access, or null."""
        wide = self.f.icmp("ne", self.header["wide"], 0)
        return self.f.select(wide, numbers[0], NULL) if self._is_direct(unit) else NULL

    def _complex(self, unit: RowGroup, sources: Sequence[Val], targets: Sequence[Val]) -> None:
        n, swapped = self.header["n"], self.form.inverse
        with self._unless_wide(unit):
            unit.read(sources, n, _exchanged(self.first) if swapped else self.first)
        places = self._place(unit, sources), self._place(unit, targets)
        found, _ = self._run(unit, self.first, self.second, *places)
        with self._unless_wide(unit):
            unit.write(_exchanged(found) if swapped else found, n, targets)

    def _of_real(self, unit: RowGroup, sources: Sequence[Val], targets: Sequence[Val]) -> None:
        f, n, bins = self.f, self.header["n"], self.header["bins"]
        if self.form.odd:
            unit.read(sources, n, self.first[:1])
            with unit.each(0, n) as t:
                f.store(f.zero(unit.vector), unit.at(self.first[1], t))
            found, _ = self._run(unit, self.first, self.second)
            unit.set(found[1], 0, f.zero)
            unit.write(found, bins, targets)
            return
        with self._unless_wide(unit):
            unit.read(sources, n, self.first)
        found, free = self._run(unit, self.first, self.second, self._place(unit, sources))
        for part in found:
            value = unit.get(part, 0)
            unit.set(part, n, lambda _, value=value: value)
        k, w = self._registers(unit), self._constants("halves", f.add(n, 1))

        def number(t: Val) -> Complex[Val]:
            """The results from an index on."""
            return split(k, unit.load(found, t), unit.load_back(found, f.sub(n, t)), unit.constants(w, t))

        if unit.together:
            with unit.each(0, bins) as t:
                unit.store(number(t), free, t)
            unit.write(free, bins, targets)
            return
        whole = f.and_(bins, -unit.lanes)
        with unit.each(0, whole) as t:
            store_pairs(f, number(t), f.gep(targets[0], f.mul(t, 2), self.scalar))
        with unit.each(whole, bins) as t:
            unit.store(number(t), free, t)
        unit.write_rest(free, whole, bins, targets[0])

    def _to_real(self, unit: RowGroup, sources: Sequence[Val], targets: Sequence[Val]) -> None:
        f, n, bins = self.f, self.header["n"], self.header["bins"]
        unit.read(sources, bins, self.first)
        unit.set(self.first[1], 0, f.zero)
        if self.form.odd:
            with f.loop("k", 1, bins) as t:
                for part, row in enumerate(self.first):
                    value = unit.get(row, t.index)
                    value = f.fneg(value) if part else value
                    unit.set(row, f.sub(n, t.index), lambda _, value=value: value)
            found, _ = self._run(unit, _exchanged(self.first), _exchanged(self.second))
            unit.write(found[1:], n, targets)
            return
        unit.set(self.first[1], n, f.zero)
        k, w = self._registers(unit), self._constants("halves", f.add(n, 1))
        with unit.each(0, n) as t:
            a, b = unit.load(self.first, t), unit.load_back(self.first, f.sub(n, t))
            unit.store(merged(k, a, b, unit.constants(w, t)), self.second, t)
        place = self._place(unit, targets)
        found, _ = self._run(unit, _exchanged(self.second), _exchanged(self.first), NULL, place)
        with self._unless_wide(unit):
            unit.write(_exchanged(found), n, targets)

    def _run(self, unit: RowGroup, row: Row, free: Row, source: Val = NULL, target: Val = NULL) -> tuple[Row, Row]:
        """The forward transform of a row: where it is, and the other row.  It may be read and written elsewhere."""
        if not self.form.is_convolution:
            return self._passes(unit, row, free, source, target)
        f, n, length = self.f, self.header["n"], self.header["length"]
        chirp = self._constants("chirp", n)
        self._times(unit, row, n, chirp)
        with unit.each(n, length) as t:
            zero = f.zero(unit.vector)
            unit.store((zero, zero), row, t)
        row, free = self._passes(unit, row, free)
        self._times(unit, row, length, self._constants("filter", length))
        row, free = (_exchanged(x) for x in self._passes(unit, _exchanged(row), _exchanged(free)))
        self._times(unit, row, n, chirp)
        return row, free

    def _times(self, unit: RowGroup, row: Row, count: Val, constants: Row) -> None:
        """Multiply a row by constants."""
        k = self._registers(unit)
        with unit.each(0, count) as t:
            unit.store(times(k, unit.load(row, t), unit.constants(constants, t)), row, t)

    def _passes(self, unit: RowGroup, row: Row, free: Row, source: Val = NULL, target: Val = NULL) -> tuple[Row, Row]:
        f, count = self.f, self.header["count"]
        rest = (self.table, f.gep(self.steps, START, "i64"), source, target, count, f.i64(unit.size))
        f.call("passes", "void", [*row, *free, *rest])
        moved = f.icmp("ne", f.and_(count, 1), 0)
        found = [f.select(moved, b, a) for a, b in zip(row, free, strict=True)]
        other = [f.select(moved, a, b) for a, b in zip(row, free, strict=True)]
        return (found[0], found[1]), (other[0], other[1])

    def _registers(self, unit: RowGroup) -> Registers:
        return Registers(self.f, unit.vector, self.dtype)

    def _constants(self, name: str, count: Val) -> Row:
        """The addresses of the real and the imaginary parts of constants."""
        f = self.f
        re = f.gep(self.table, self.header[name], self.scalar)
        return re, f.gep(re, f.add(count, PADDING), self.scalar)


def _exchanged(row: Row) -> Row:
    return row[1], row[0]
