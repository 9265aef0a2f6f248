"""Sizes as LLVM text: integer arithmetic with constants folded, polynomials, and symbols solved from shapes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nacre.base.dims import LIMIT, Dim, Quotient, Size, Symbol, evaluate
from nacre.base.errors import CompileError
from nacre.base.size_binding import size_axes
from nacre.base.types import TensorType
from nacre.native.llvm_values import Operand, Val
from nacre.native.text import Function
from nacre.runtime.plan import ALIGN

MOST_BYTES = 1 << 50  # of one value; thousands of them fit in 64 bits


class SizeArithmetic:
    """64-bit integer arithmetic in a function; known numbers stay Python numbers."""

    def __init__(self, f: Function, symbols: Mapping[str, Val]) -> None:
        self.f, self.symbols = f, symbols
        self.known: dict[object, Operand] = {}

    def value(self, x: Operand) -> Val:
        """An operand as an LLVM value."""
        return self.f.i64(x)

    def add(self, a: Operand, b: Operand) -> Operand:
        """a + b"""
        return a + b if isinstance(a, int) and isinstance(b, int) else self.f.add(a, b)

    def sub(self, a: Operand, b: Operand) -> Operand:
        """a - b"""
        return a - b if isinstance(a, int) and isinstance(b, int) else self.f.sub(a, b)

    def mul(self, a: Operand, b: Operand) -> Operand:
        """a · b"""
        return a * b if isinstance(a, int) and isinstance(b, int) else self.f.mul(a, b)

    def floor(self, a: Operand, b: Operand) -> Operand:
        """⌊a / b⌋ of a non-negative dividend and a positive divisor."""
        return a // b if isinstance(a, int) and isinstance(b, int) else self.f.binary("udiv", a, b)

    def ceil(self, a: Operand, b: Operand) -> Operand:
        """⌈a / b⌉, as `floor`."""
        return self.floor(self.add(a, self.sub(b, 1)), b)

    def max(self, a: Operand, b: Operand) -> Operand:
        """The greater one."""
        return max(a, b) if isinstance(a, int) and isinstance(b, int) else self.f.smax(a, b)

    def aligned(self, a: Operand) -> Operand:
        """a rounded up to the alignment of buffers."""
        return self.f.and_(self.f.add(a, ALIGN - 1), -ALIGN) if isinstance(a, Val) else -(-a // ALIGN) * ALIGN

    def choose(self, cond: Val, yes: Operand, no: Operand) -> Operand:
        """The select of two numbers by a condition."""
        return yes if yes == no else self.f.select(cond, self.value(yes), self.value(no))

    def size(self, size: Size) -> Operand:
        """A size for the values of its symbols; each is computed once."""
        if isinstance(size, int):
            return size
        found = self.known.get(size)
        if found is None:
            total: Operand = 0
            for monomial, coefficient in size.terms:
                term: Operand = coefficient
                for atom, power in monomial:
                    for _ in range(power):
                        term = self.mul(term, self.atom(atom))
                total = self.add(total, term)
            found = self.known[size] = total
        return found

    def atom(self, atom: Symbol | Quotient) -> Operand:
        """The value of a symbol or of a quotient."""
        if isinstance(atom, Symbol):
            return self.symbols[atom.name]
        if atom.dim.bounds()[0] < 0:
            raise CompileError(f"deploy: sizes must never be negative; got {atom.dim}; raise the minima of its symbols")
        return self.floor(self.size(atom.dim), atom.divisor)


def symbols_of(types: Sequence[TensorType]) -> tuple[Symbol, ...]:
    """The symbols of types, by name."""
    found = {s for t in types for n in t.shape if isinstance(n, Dim) for s in n.symbols()}
    return tuple(sorted(found, key=lambda s: s.name))


def solvers(types: Sequence[TensorType]) -> dict[Symbol, tuple[int, int, int]]:
    """For each symbol: an axis, among the axes of all types, that determines it, and its factor and offset.

    Raises CompileError if no axis determines a symbol.
    """
    found: dict[Symbol, tuple[int, int, int]] = {}
    place = 0
    for t in types:
        for a in size_axes(t):
            if a.factor > 0:
                found.setdefault(a.symbol, (place + a.axis, a.factor, a.offset))
        place += t.rank
    missing = [s.name for s in symbols_of(types) if s not in found]
    if missing:
        raise CompileError(
            f"deploy: a size of an input must determine {missing[0]}, as a multiple of it plus a number; got "
            f"{', '.join(map(str, types))}"
        )
    return found


def ceiling(types: Sequence[TensorType]) -> int:
    """The largest power of two for sizes such that no value exceeds MOST_BYTES."""
    symbols = symbols_of(types)
    found = LIMIT
    while found > 1:
        sizes = {s.name: max(s.low, min(s.high, found)) for s in symbols}
        if all(evaluate(t.nbytes, sizes) <= MOST_BYTES for t in types):
            break
        found //= 2
    return found
