"""The passes of Fourier transforms as functions, one for each radix; `kernel.order_fft` defines their arithmetic.

Real and imaginary parts are in rows of their own.  The first pass may also read pairs from an operand, and the last
one write pairs to a result, with or without an exchange of the parts.

A vector has adjacent q of one p, or adjacent p where s is 1.  A vector beyond the last element overlaps the one before.
In a row shorter than a vector, further lanes compute numbers without a use, which later stores overwrite.  Rows have
room for them behind the last element (`behind`).
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Any, Final

from nacre.base.dtypes import DType
from nacre.codegen.fft.general_radix import STRAIGHT, GeneralButterfly
from nacre.codegen.fft.pairs import load_pairs, store_pairs
from nacre.codegen.loops.transpose import transposed
from nacre.kernel.order_fft import Complex, butterfly, even_of_eight, odd_of_eight, times, turned
from nacre.kernel.roots_of_unity import root
from nacre.native.isa import Isa
from nacre.native.llvm_types import lanes_of
from nacre.native.llvm_values import Val
from nacre.native.text import Function, ModuleText


class Pairs(Enum):
    """How a pass reads its operand or writes its result: in rows, or as pairs, perhaps with the parts exchanged."""

    ROWS = "rows"
    PAIRS = "pairs"
    EXCHANGED = "exchanged"


ROWS, EXCHANGED = Pairs.ROWS, Pairs.EXCHANGED
FEW_REGISTERS: Final = 16
STEP_FIELDS: Final = ("radix", "m", "s", "start", "step", "apart")  # of a pass in the table of passes
KINDS: Final = ("first", "later", "last", "source", "target")
FIRST, LATER, LAST, SOURCE, TARGET = range(len(KINDS))
PARAMS: Final = {
    **dict.fromkeys(("re", "im", "to_re", "to_im", "table"), "ptr"),
    **dict.fromkeys(("m", "s", "step", "apart"), "i64"),
}


def behind(radices: Sequence[int], lanes: int) -> int:
    """The elements behind a row that loads and stores of the passes may touch."""
    return lanes * (max(radices, default=1) + 1)  # a first pass stores the results of each lane in a row of its radix


class Registers:
    """Arithmetic on LLVM values of one type."""

    def __init__(self, f: Function, type: str, dtype: DType) -> None:
        self.f, self.type, self.dtype = f, type, dtype

    def add(self, a: Val, b: Val) -> Val:
        """a + b."""
        return self.f.fadd(a, b)

    def sub(self, a: Val, b: Val) -> Val:
        """a − b."""
        return self.f.fsub(a, b)

    def mul(self, a: Val, b: Val) -> Val:
        """a · b."""
        return self.f.fmul(a, b)

    def fma(self, a: Val, b: Val, c: Val) -> Val:
        """a · b + c, rounded once."""
        return self.f.fma(a, b, c)

    def neg(self, a: Val) -> Val:
        """−a."""
        return self.f.fneg(a)

    def number(self, value: float) -> Val:
        """A constant."""
        return self.f.const(self.type, value)

    def root(self, n: int, k: int) -> Complex[Val]:
        """cos(2πk/n) and sin(2πk/n)."""
        cos, sin = root(n, k, self.dtype.numpy)
        return self.number(float(cos)), self.number(float(sin))


class Passes:
    """Writes the passes of some radices into a module, and `passes`, which runs those that a table lists.

    `source` and `target` are the forms of pairs that the first pass reads and the last one writes, if they may.
    """

    def __init__(
        self, module: ModuleText, isa: Isa, dtype: DType, radices: Sequence[int], source: Pairs, target: Pairs
    ) -> None:
        self.module, self.isa, self.dtype, self.radices = module, isa, dtype, radices
        self.source, self.target = source, target
        self.scalar = dtype.memory
        self.lanes = isa.lanes(self.scalar)
        self.vector = isa.vector(self.scalar)

    def write(self) -> None:
        """Write all functions."""
        for r in self.radices:
            self._first(r, ROWS)
            self._later(r, False, ROWS)
            self._later(r, True, ROWS)
            if self.source is not ROWS:
                self._first(r, self.source)
            if self.target is not ROWS:
                self._later(r, True, self.target)
        self._sequence()

    def _function(self, radix: int, kind: str) -> Function:
        return self.module.function(f"pass_{radix}_{kind}", "void", PARAMS, linkage="internal", isa=self.isa)

    def _at(self, f: Function, row: str, index: Any) -> Val:
        return f.gep(f[row], index, self.scalar)

    def _apart(self, f: Function, pointer: Val, steps: Sequence[Any]) -> list[Val]:
        return [f.gep(pointer, step, self.scalar) for step in steps]

    def _multiples(self, f: Function, value: Val, count: int) -> list[Any]:
        return [0, value, *(f.mul(value, k) for k in range(2, count))][:count]

    def _first(self, r: int, source: Pairs) -> None:
        """The pass with s = 1, and m > 1: vectors of adjacent p; the results for all k of a p are adjacent."""
        f = self._function(r, "first" if source is ROWS else "source")
        m, last = f["m"], f.smax(f.sub(f["m"], self.lanes), 0)
        between, apart = self._multiples(f, m, r), self._multiples(f, m, 2 * r - 2)
        if r > STRAIGHT:
            self._first_general(f, r, source, last)
            return
        with f.loop("p", 0, m, self.lanes) as p:
            at = f.smin(p.index, last)
            x = [self._read(f, at, b) if source is ROWS else self._read_pairs(f, at, b, source) for b in between]
            places = self._apart(f, self._at(f, "table", at), apart)
            w = [f.load(place, self.vector) for place in places]
            k = Registers(f, self.vector, self.dtype)
            y = turned(k, butterfly(k, x), list(zip(w[::2], w[1::2], strict=True)))
            to = f.mul(at, r)
            for part, row in enumerate(("to_re", "to_im")):
                self._adjacent(f, [pair[part] for pair in y], self._at(f, row, to))
        f.ret()

    def _first_general(self, f: Function, r: int, source: Pairs, last: Val) -> None:
        """The first pass of a large radix."""
        general, k = GeneralButterfly(f, self.vector, self.dtype, r), Registers(f, self.vector, self.dtype)
        with f.loop("p", 0, f["m"], self.lanes) as p:
            at = f.smin(p.index, last)

            def read(j: Val, at: Val = at) -> Complex[Val]:
                """The numbers at j."""
                between = f.mul(f["m"], j)
                return self._read(f, at, between) if source is ROWS else self._read_pairs(f, at, between, source)

            def store(y: Complex[Val], number: Val, at: Val = at) -> None:
                """Store the results of one k."""
                for x, row in zip(y, ("to_re", "to_im"), strict=True):
                    to = self._at(f, row, f.add(f.mul(at, r), number))
                    for lane in range(self.lanes):
                        f.store(f.extract(x, lane), f.gep(to, lane * r, self.scalar))

            general.write(read)
            store(general.result(0), f.i64(0))
            with f.loop("k", 1, r) as number:
                place = f.mul(f.sub(number.index, 1), f.mul(f["m"], 2))
                places = self._apart(f, self._at(f, "table", f.add(at, place)), (0, f["m"]))
                re, im = (f.load(part, self.vector) for part in places)
                store(times(k, general.result(number.index), (re, im)), number.index)
        f.ret()

    def _read(self, f: Function, at: Val, between: Any) -> Complex[Val]:
        re, im = (f.load(f.gep(self._at(f, row, at), between, self.scalar), self.vector) for row in ("re", "im"))
        return re, im

    def _read_pairs(self, f: Function, at: Val, between: Any, form: Pairs) -> Complex[Val]:
        start = f.gep(self._at(f, "re", f.mul(at, 2)), f.mul(between, 2), self.scalar)
        re, im = load_pairs(f, start, self.vector)
        return (im, re) if form is EXCHANGED else (re, im)

    def _adjacent(self, f: Function, values: Sequence[Val], to: Val) -> None:
        """Store vectors so that the first lanes of all are followed by the second ones."""
        r, lanes = len(values), self.lanes
        if r % lanes == 0:
            for first in range(0, r, lanes):
                for lane, v in enumerate(transposed(f, values[first : first + lanes])):
                    f.store(v, f.gep(to, lane * r + first, self.scalar))
        elif r & (r - 1) == 0:
            (whole,) = _interleaved(f, values)
            for first in range(0, r * lanes, lanes):
                f.store(f.shuffle(whole, whole, range(first, first + lanes)), f.gep(to, first, self.scalar))
        else:
            for lane in range(lanes):
                for k, v in enumerate(values):
                    f.store(f.extract(v, lane), f.gep(to, lane * r + k, self.scalar))

    def _later(self, r: int, is_last: bool, target: Pairs) -> None:
        """A pass with vectors of adjacent q; the last one has m = 1 and no roots.

        With few registers, an eighth root's butterfly reads its operands twice: for its even results, and for the odd
        ones.  The stores are then out of order, so all lanes must have a use.
        """
        f = self._function(r, "target" if target is not ROWS else "last" if is_last else "later")
        s = f["s"]
        if r > STRAIGHT:
            self._later_general(f, r, is_last, target)
            return
        between = self._multiples(f, s if is_last else f.mul(s, f["m"]), r)
        apart = self._multiples(f, f["apart"], 2 * r - 2)
        with f.loop("p", 0, f.i64(1) if is_last else f["m"]) as p:
            start = f.mul(s, p.index)
            places = [] if is_last else self._apart(f, self._at(f, "table", f.mul(p.index, f["step"])), apart)
            to = f.mul(start, r)
            if r == 8 and self.isa.registers <= FEW_REGISTERS:
                wide = f.icmp("sge", s, self.lanes)
                with f.when(wide):
                    halves = [(even_of_eight, 0), (odd_of_eight, 1)]
                    self._adjacent_q(f, (start, to), between, places, halves, target)
                with f.when(f.xor(wide, f.const("i1", True))):
                    self._adjacent_q(f, (start, to), between, places, [(butterfly, 0)], target)
            else:
                self._adjacent_q(f, (start, to), between, places, [(butterfly, 0)], target)
        f.ret()

    def _later_general(self, f: Function, r: int, is_last: bool, target: Pairs) -> None:
        """A later pass of a large radix."""
        general, k = GeneralButterfly(f, self.vector, self.dtype, r), Registers(f, self.vector, self.dtype)
        s, last = f["s"], f.smax(f.sub(f["s"], self.lanes), 0)
        step = s if is_last else f.mul(s, f["m"])
        with f.loop("p", 0, f.i64(1) if is_last else f["m"]) as p, f.loop("q", 0, s, self.lanes) as q:
            at, start = f.smin(q.index, last), f.mul(s, p.index)
            here, there = f.add(start, at), f.add(f.mul(start, r), at)
            general.write(lambda j: self._read(f, here, f.mul(step, j)))
            self._store(f, general.result(0), there, f.i64(0), target)
            with f.loop("k", 1, r) as number:
                y = general.result(number.index)
                if not is_last:
                    place = f.add(f.mul(p.index, f["step"]), f.mul(f.sub(number.index, 1), f.mul(f["apart"], 2)))
                    places = self._apart(f, self._at(f, "table", place), (0, f["apart"]))
                    y = times(k, y, self._spread(f, (places[0], places[1])))
                self._store(f, y, there, f.mul(s, number.index), target)
        f.ret()

    def _store(self, f: Function, value: Complex[Val], at: Val, behind: Any, target: Pairs) -> None:
        """Store results of a later pass in rows, or as pairs."""
        if target is not ROWS:
            to = f.gep(self._at(f, "to_re", f.mul(at, 2)), f.mul(behind, 2), self.scalar)
            store_pairs(f, (value[1], value[0]) if target is EXCHANGED else value, to)
            return
        for x, row in zip(value, ("to_re", "to_im"), strict=True):
            f.store(x, f.gep(self._at(f, row, at), behind, self.scalar))

    def _spread(self, f: Function, places: tuple[Val, Val]) -> Complex[Val]:
        """A root in all lanes; read where it is used, as registers are few."""
        re, im = (f.splat(f.load(place, self.scalar), self.lanes) for place in places)
        return re, im

    def _adjacent_q(
        self,
        f: Function,
        starts: tuple[Val, Val],
        between: Sequence[Any],
        places: Sequence[Val],
        parts: Sequence[tuple[Any, int]],
        target: Pairs,
    ) -> None:
        """The vectors of a p; each of the parts computes every result, or every second one."""
        r, s = len(between), f["s"]
        behind, last = self._multiples(f, s, r), f.smax(f.sub(s, self.lanes), 0)
        k = Registers(f, self.vector, self.dtype)
        pairs = list(zip(places[::2], places[1::2], strict=True))
        with f.loop("q", 0, s, self.lanes) as q:
            at = f.smin(q.index, last)
            here, there = f.add(starts[0], at), f.add(starts[1], at)
            for part, first in parts:
                y = part(k, [self._read(f, here, b) for b in between])
                numbers = range(first, r, len(parts))
                for number, value in zip(numbers, y, strict=True):
                    found = times(k, value, self._spread(f, pairs[number - 1])) if pairs and number else value
                    self._store(f, found, there, behind[number], target)

    def _sequence(self) -> None:
        """All passes of a table: `unit` transforms are interleaved; the result is in the other rows if they are odd.

        The first pass reads pairs from `source`, and the last one writes pairs to `target`, if these are not null.
        """
        params = dict.fromkeys(("re", "im", "to_re", "to_im", "table", "steps", "source", "target"), "ptr")
        f = self.module.function(
            "passes", "void", {**params, "count": "i64", "unit": "i64"}, linkage="internal", isa=self.isa
        )
        rows = [f[name] for name in ("re", "im", "to_re", "to_im")]
        reads, writes = (f.icmp("ne", f[name], Val("null", "ptr")) for name in ("source", "target"))
        end = f.sub(f["count"], 1)
        with f.loop("pass", 0, f["count"], carry=rows) as loop:
            line = f.gep(f["steps"], f.mul(loop.index, len(STEP_FIELDS)), "i64")
            radix, m, s, start, step, apart = (f.load(f.gep(line, k, "i64"), "i64") for k in range(len(STEP_FIELDS)))
            s = f.mul(s, f["unit"])
            re, im, to_re, to_im = loop.carried
            from_source = f.and_(reads, f.icmp("eq", loop.index, 0))
            into_target = f.and_(writes, f.icmp("eq", loop.index, end))
            is_last, is_first = f.icmp("eq", m, 1), f.icmp("eq", s, 1)
            kind = f.select(is_last, f.i64(LAST), f.select(is_first, f.i64(FIRST), f.i64(LATER)))
            kind = f.select(from_source, f.i64(SOURCE), f.select(into_target, f.i64(TARGET), kind))
            arguments = [
                f.select(from_source, f["source"], re),
                im,
                f.select(into_target, f["target"], to_re),
                to_im,
                f.gep(f["table"], start, self.scalar),
                *(m, s, step, apart),
            ]
            for r in self.radices:
                with f.when(f.icmp("eq", radix, r)):
                    for number, name in enumerate(KINDS):
                        if f"pass_{r}_{name}" in self.module.functions:
                            with f.when(f.icmp("eq", kind, number)):
                                f.call(f"pass_{r}_{name}", "void", arguments)
            loop.next(to_re, to_im, re, im)
        f.ret()


def _interleaved(f: Function, values: Sequence[Val]) -> list[Val]:
    """One vector of the first lanes of a power of two of vectors, then the second lanes, and so on."""
    found = list(values)
    while len(found) > 1:
        half = len(found) // 2
        lanes = lanes_of(found[0].ty)
        order = [k for lane in range(lanes) for k in (lane, lanes + lane)]
        found = [f.shuffle(found[k], found[k + half], order) for k in range(half)]
    return found
