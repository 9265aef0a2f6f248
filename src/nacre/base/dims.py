"""Sizes of axes: a plain int, or a `Dim`, a polynomial in named symbols with bounds.

>>> batch = Dim.symbol("batch", max=512)
>>> str(2 * batch + 1)
'2*batch + 1'
>>> (2 * batch + 1).evaluate({"batch": 3})
7
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from contextlib import contextmanager
from numbers import Integral
from typing import Any, Final, Union

from nacre.base.errors import KindError, ShapeError
from nacre.base.places import is_users_frame
from nacre.base.records import dataclass
from nacre.base.state import STATE

LIMIT = 1 << 48  # larger than any size that fits in memory
LONGEST = 1 << 31  # larger than axes are whose product with another one fits in memory
OBJECT: Final = "object"
POWER: Final = "power"
EXACTLY: Final = "compile without dynamic_shapes for this axis, give nc.placeholder its number"


class Needs(threading.local):
    """`note`, if there is one, is called with each size of which Python needs the number, before that is an error.

    The second argument is "<" or "<=" where only the comparison with 0 is needed, OBJECT for a size that an object
    refers to after a trace, and POWER for a power that is no size.
    """

    def __init__(self) -> None:
        self.note: Callable[[Dim, str], None] | None = None
        self.symbols: Collection[str] = ()  # the names of sizes that have become symbols because they changed


NEEDS = Needs()


@contextmanager
def noted_needs() -> Generator[list[Dim]]:
    """Collect the sizes of which Python needs the number in the block."""
    found: list[Dim] = []
    before = NEEDS.note

    def note(size: Dim, sign: str) -> None:
        """Add a size."""
        found.append(size)

    NEEDS.note = note
    try:
        yield found
    finally:
        NEEDS.note = before


def _need(size: Size, sign: str = "") -> None:
    if NEEDS.note is not None and isinstance(size, Dim):
        NEEDS.note(size, sign)


def _is_asked() -> bool:
    """Whether code of the user or of an installed package asks while a function is traced, or needs are noted."""
    frame: Any = sys._getframe(2)  # pyright: ignore[reportPrivateUsage]
    return (STATE.word != 0 or NEEDS.note is not None) and is_users_frame(frame)


def _from_outside() -> bool:
    """Whether the caller of a method of sizes is code of the user, or of an installed package."""
    return is_users_frame(sys._getframe(2))  # pyright: ignore[reportPrivateUsage]


@dataclass(frozen=True)
class Symbol:
    """A named size that is known when a program is called; `low` ≤ size ≤ `high`."""

    name: str
    low: int = 0
    high: int = LIMIT

    def value(self, sizes: Mapping[str, int]) -> int:
        """The size of the symbol in `sizes`; raises ShapeError if it is missing."""
        found = sizes.get(self.name)
        if found is None:
            raise ShapeError(
                f"dimension: the size of {self.name} must be known; got none, as {self.name} is not in any axis of an "
                "argument; use the Dim in a function that has it in dynamic_shapes, or write a number"
            )
        return found

    def substitute(self, sizes: Mapping[str, Size]) -> Size:
        """The size, possibly symbolic, of the symbol in `sizes`."""
        return sizes[self.name]

    def bounds(self) -> tuple[int, int]:
        """The least and the greatest size."""
        return self.low, self.high

    def symbols(self) -> frozenset[Symbol]:
        """The symbol itself."""
        return frozenset((self,))

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Quotient:
    """⌊dim / divisor⌋ for a positive divisor that does not divide the polynomial."""

    dim: Dim
    divisor: int

    def value(self, sizes: Mapping[str, int]) -> int:
        """The quotient, rounded down, for the symbols' values."""
        return self.dim.evaluate(sizes) // self.divisor

    def substitute(self, sizes: Mapping[str, Size]) -> Size:
        """The quotient with its symbols replaced by sizes."""
        return self.dim.substitute(sizes) // self.divisor

    def bounds(self) -> tuple[int, int]:
        """The least and the greatest quotient."""
        low, high = self.dim.bounds()
        return low // self.divisor, high // self.divisor

    def symbols(self) -> frozenset[Symbol]:
        """The symbols of the dividend."""
        return self.dim.symbols()

    def __str__(self) -> str:
        return f"(({self.dim._shown()})//{self.divisor})"  # pyright: ignore[reportPrivateUsage]


Atom = Symbol | Quotient
Monomial = tuple[tuple[Atom, int], ...]  # atoms with their powers, sorted by text
Size = Union[int, "Dim"]


@dataclass(frozen=True, eq=False)
class Dim:
    """A polynomial with integer coefficients in symbols.  Arithmetic with a constant result gives an int.

    Equal polynomials are equal.  While a function is traced or needs are noted, code outside of the package may not ask
    whether others that may have equal numbers are equal: that raises ShapeError.
    """

    terms: tuple[tuple[Monomial, int], ...]

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Dim) and self.terms == other.terms:
            return True
        if isinstance(other, float) and other.is_integer():
            other = int(other)
        if isinstance(other, int | Dim) and _is_asked():
            low, high = _bounds(self - other)
            if low <= 0 <= high:
                _need(self - other)
                raise ShapeError(f"dimension: whether {self} == {other} depends on the size; {EXACTLY}")
        return False

    def __hash__(self) -> int:
        if _is_asked():  # as a key it would not be equal to its number
            _need(self)
            raise ShapeError(f"dimension: a key must be a number while a function is traced; got {self}; {EXACTLY}")
        return hash(self.terms)

    @property
    def __class__(self) -> type:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The class; for `isinstance` in code that is traced for sizes that changed, that of the number."""
        own = sys._getframe(1).f_code.co_filename == __file__  # pyright: ignore[reportPrivateUsage]
        if NEEDS.note is not None and not own and _from_outside():
            NEEDS.note(self, "")
            return int
        return Dim

    @staticmethod
    def symbol(name: str, min: int = 0, max: int | None = None) -> Dim:
        """A new symbolic size with bounds (both inclusive).

        >>> n = nc.Dim("n", min=1, max=64)
        >>> print(2 * n + 1, (2 * n + 1).bounds(), 2 * n + 1 > 2)
        2*n + 1 (3, 129) True
        """
        given: list[object] = [name, min, 0 if max is None else max]
        if not isinstance(given[0], str) or any(isinstance(v, bool) or not isinstance(v, Integral) for v in given[1:]):
            raise KindError(f"Dim: the name must be a string and the bounds integers; got {name!r}, {min!r}, {max!r}")
        min, max = int(min), None if max is None else int(max)
        if not name.isidentifier():
            raise ShapeError(f"Dim: the name must be an identifier such as 'batch'; got {name!r}")
        high = LIMIT if max is None else max
        if not 0 <= min <= high:
            raise ShapeError(f"Dim: bounds must satisfy 0 <= min <= max; got min={min}, max={max}")
        return Dim(((((Symbol(name, min, high), 1),), 1),))

    # ---- arithmetic

    def _map(self) -> dict[Monomial, int]:
        return dict(self.terms)

    def __add__(self, other: object) -> Size:
        if not isinstance(other, int | Dim):
            return self._needed(f"{self} + {other}") if isinstance(other, float) else NotImplemented
        total = self._map()
        for monomial, c in _terms(other).items():
            total[monomial] = total.get(monomial, 0) + c
        return _collect(total)

    __radd__ = __add__

    def __mul__(self, other: object) -> Size:
        if not isinstance(other, int | Dim):
            return self._needed(f"{self} * {other}") if isinstance(other, float) else NotImplemented
        total: dict[Monomial, int] = {}
        for a, x in self.terms:
            for b, y in _terms(other).items():
                m = _join(a, b)
                total[m] = total.get(m, 0) + x * y
        return _collect(total)

    __rmul__ = __mul__

    def __neg__(self) -> Size:
        return self * -1

    def __sub__(self, other: Size) -> Size:
        return self + (-other)

    def __rsub__(self, other: Size) -> Size:
        return -self + other

    def __floordiv__(self, other: Size) -> Size:
        exact = _divide(self, other)
        if exact is not None:
            return exact
        if isinstance(other, int) and other > 0:
            return _quotient(self, other)
        _need(self)
        _need(other)
        raise ShapeError(f"dimension: {self} is not divisible by {other} for every size")

    def __rfloordiv__(self, other: int) -> Size:
        if other == 0:
            return 0
        _need(self)
        raise ShapeError(f"dimension: {other} is not divisible by {self} for every size")

    def __mod__(self, other: Size) -> Size:
        exact = _divide(self, other)
        return 0 if exact is not None else self - (self // other) * other

    def __pow__(self, power: float) -> Size:
        if not isinstance(power, int) or power < 0:
            return self._needed(f"{self} ** {power}", POWER)
        return product([self] * power)

    def __truediv__(self, other: object) -> int:
        return self._needed(f"{self} / {other}") if isinstance(other, int | float | Dim) else NotImplemented

    def __rtruediv__(self, other: object) -> int:
        return self._needed(f"{other} / {self}") if isinstance(other, int | float) else NotImplemented

    def _needed(self, what: str, sign: str = "") -> int:
        """Raise ShapeError for arithmetic that no size can be the result of."""
        _need(self, sign)
        raise ShapeError(f"dimension: {what} needs the number of a size; divide a tensor by it, or give the number")

    # ---- meaning

    def __bool__(self) -> bool:
        return self > 0

    def evaluate(self, sizes: Mapping[str, int]) -> int:
        """The number for given sizes of the symbols."""
        total = 0
        for monomial, c in self.terms:
            for atom, power in monomial:
                c *= atom.value(sizes) ** power
            total += c
        return total

    def substitute(self, sizes: Mapping[str, Size]) -> Size:
        """The size with its symbols replaced by other sizes."""
        total: Size = 0
        for monomial, c in self.terms:
            term: Size = c
            for atom, power in monomial:
                for _ in range(power):
                    term = term * atom.substitute(sizes)
            total = total + term
        return total

    def bounds(self) -> tuple[int, int]:
        """The least and greatest value, from the symbols' bounds (atoms are non-negative)."""
        low = high = 0
        for monomial, c in self.terms:
            a = b = 1
            for atom, power in monomial:
                lo, hi = atom.bounds()
                a, b = a * lo**power, min(LIMIT, b * hi**power)
            low, high = low + min(a * c, b * c), high + max(a * c, b * c)
        if len(self.terms) > 2 and any(len(m) > 1 and c * d < 0 for m, c in self.terms for _, d in self.terms):
            a, b = self._from_least()  # as for (n - 1)·(m - 1)
            low, high = max(low, a), min(high, b)
        for monomial, c in self.terms:
            (atom, power), *others = monomial or [(None, 0)]
            if isinstance(atom, Quotient) and power == 1 and not others:  # k·⌊d/k⌋ is from d − k + 1 to d
                rest, k = (self - Dim(((monomial, c),))) * atom.divisor, atom.divisor
                ends = _bounds(rest + (atom.dim - (k - 1)) * c), _bounds(rest + atom.dim * c)
                low = max(low, -(-min(ends[0][0], ends[1][0]) // k))
                high = min(high, max(ends[0][1], ends[1][1]) // k)
        return low, high

    def _from_least(self) -> tuple[int, int]:
        """The bounds of the polynomial in the differences of symbols and their least values."""
        if not any(s.low for s in self.symbols()):
            return -LIMIT, LIMIT
        return _bounds(self.substitute({s.name: Dim.symbol(s.name, 0, s.high - s.low) + s.low for s in self.symbols()}))

    def symbols(self) -> frozenset[Symbol]:
        """The symbols of the polynomial."""
        return frozenset(s for m, _ in self.terms for atom, _ in m for s in atom.symbols())

    def __lt__(self, other: Size) -> bool:
        return _decide(self - other, "<", lambda lo, hi: True if hi < 0 else False if lo >= 0 else None)

    def __le__(self, other: Size) -> bool:
        return _decide(self - other, "<=", lambda lo, hi: True if hi <= 0 else False if lo > 0 else None)

    def __gt__(self, other: Size) -> bool:
        return not self <= other

    def __ge__(self, other: Size) -> bool:
        return not self < other

    def __index__(self) -> int:
        _need(self)
        raise ShapeError(f"dimension: the size must be fixed here; got {self}; {EXACTLY}, or use shapes symbolically")

    def __str__(self) -> str:
        if NEEDS.note is not None and _from_outside():
            NEEDS.note(self, "")
        return self._shown()

    def _shown(self) -> str:
        parts: list[str] = []
        for monomial, c in self.terms:
            factors = [str(a) if p == 1 else f"{a}^{p}" for a, p in monomial]
            if abs(c) != 1 or not factors:
                factors.insert(0, str(abs(c)))
            sign = "-" if c < 0 else "+"
            parts.append(f" {sign} " + "*".join(factors) if parts else ("-" if c < 0 else "") + "*".join(factors))
        return "".join(parts) or "0"

    def __repr__(self) -> str:
        if NEEDS.note is not None and _from_outside():
            NEEDS.note(self, "")
        return f"Dim({self._shown()})"


def _decide(difference: Size, sign: str, answer: Callable[[int, int], bool | None]) -> bool:
    known = answer(*_bounds(difference))
    if known is None:
        frame: Any = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
        while frame.f_code.co_filename == __file__:
            frame = frame.f_back
        _need(difference, "" if is_users_frame(frame) else sign)
        raise ShapeError(f"dimension: whether {difference} {sign} 0 depends on the size; give it tighter bounds")
    return known


def note_kept(size: Dim) -> None:
    """Note that the number of a size is needed that has become a symbol, and that an object refers to after a trace."""
    if NEEDS.note is not None and any(s.name in NEEDS.symbols for s in size.symbols()):
        NEEDS.note(size, OBJECT)


def require_known(*sizes: Size) -> None:
    """Where needs are noted: note symbolic sizes whose numbers decide the bits of a result, and raise ShapeError."""
    for size in sizes:
        if isinstance(size, Dim) and NEEDS.note is not None:
            NEEDS.note(size, "")
            raise ShapeError(f"dimension: {size} must have a number here, because it decides an order of sums")


def require_fitting(size: Size, least: int, greatest: int) -> None:
    """Note that the number of a size is needed, if that may be out of bounds, and raise ShapeError.

    An exact number that does not fit the dtype of an operation raises an error, and a symbol cannot.
    """
    if isinstance(size, Dim) and NEEDS.note is not None:
        low = high = 0
        for monomial, c in size.terms:
            a = b = c
            for atom, power in monomial:
                lo, hi = atom.bounds()
                a, b = a * lo**power, b * min(hi, LONGEST) ** power
            low, high = low + min(a, b), high + max(a, b)
        if low < least or high > greatest:
            NEEDS.note(size, "")
            raise ShapeError(f"dimension: {size} must have a number here, because it may not fit its dtype")


def _bounds(size: Size) -> tuple[int, int]:
    """The least and the greatest value of a size."""
    return (size, size) if isinstance(size, int) else size.bounds()


def _terms(size: Size) -> dict[Monomial, int]:
    return dict(size.terms) if isinstance(size, Dim) else {(): size} if size else {}


def _join(a: Monomial, b: Monomial) -> Monomial:
    powers = dict(a)
    for atom, p in b:
        powers[atom] = powers.get(atom, 0) + p
    return tuple(sorted(powers.items(), key=lambda item: str(item[0])))


def _collect(total: Mapping[Monomial, int]) -> Size:
    kept = {m: c for m, c in total.items() if c}
    if not kept:
        return 0
    if set(kept) == {()}:
        return kept[()]
    order = sorted(kept.items(), key=lambda t: (-sum(p for _, p in t[0]), [(str(a), p) for a, p in t[0]]))
    return Dim(tuple(order))


def _divide(a: Dim, b: Size) -> Size | None:
    """a / b if b is one monomial that divides every term, else None."""
    (monomial, c), *rest = _terms(b).items() or [((), 0)]
    if isinstance(b, Dim) and a.terms == b.terms:
        return 1
    if rest or c == 0:
        return None
    total: dict[Monomial, int] = {}
    for m, x in a.terms:
        powers = dict(m)
        for atom, p in monomial:
            if powers.get(atom, 0) < p:
                return None
            powers[atom] -= p
        if x % c:
            return None
        total[tuple((atom, p) for atom, p in powers.items() if p)] = x // c
    return _collect(total)


def _quotient(a: Dim, divisor: int) -> Size:
    """⌊a / divisor⌋, with divisible terms outside of the quotient.

    >>> print((2 * Dim.symbol("n") + 3) // 2, (Dim.symbol("n") - 1) // 2 + 1)
    n + 1 ((n + 1)//2)
    """
    whole = _collect({m: c // divisor for m, c in a.terms if not m or c % divisor == 0})
    rest = _collect({m: c % divisor if not m else c for m, c in a.terms if not m or c % divisor})
    return whole if isinstance(rest, int) else whole + Dim(((((Quotient(rest, divisor), 1),), 1),))


def evaluate(size: Size, sizes: Mapping[str, int]) -> int:
    """The number of an int or Dim."""
    return size if isinstance(size, int) else size.evaluate(sizes)


def product(sizes: Sequence[Size]) -> Size:
    """The product of sizes; 1 for none."""
    total: Size = 1
    for s in sizes:
        total = total * s
    return total


def at_most_one(size: Size) -> Size:
    """1 for a positive size, 0 for size 0.

    >>> print(at_most_one(Dim.symbol("n", max=8)), at_most_one(Dim.symbol("n", min=1)), at_most_one(0))
    ((n + 7)//8) 1 0
    """
    if isinstance(size, int):
        return min(size, 1)
    low, high = size.bounds()
    return 1 if low > 0 else (size + (high - 1)) // max(high, 1)


def lower(size: Size) -> int:
    """The least value a size can take."""
    return size if isinstance(size, int) else size.bounds()[0]


def upper(size: Size) -> int:
    """The greatest value a size can take."""
    return size if isinstance(size, int) else size.bounds()[1]
