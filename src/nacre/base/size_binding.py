"""The binding of symbolic sizes: which axes of the arguments determine a size, for calls and for deployed programs.

An axis determines a symbol if its size is a multiple of the symbol plus a number, as `n`, `2*n` and `n + 1` are.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from nacre.base.dims import Dim, Size, Symbol
from nacre.base.errors import ShapeError
from nacre.base.types import TensorType


class SizeAxis(NamedTuple):
    """An axis whose size is factor · symbol + offset."""

    axis: int
    symbol: Symbol
    factor: int
    offset: int

    def value(self, actual: Any) -> Any:
        """The symbol for an actual size of the axis; None if that size has none.

        The symbol may be a symbolic size itself, but only where it is the whole size of the axis.
        """
        if self.factor == 1 and self.offset == 0:
            return actual
        left = actual - self.offset
        return left // self.factor if isinstance(actual, int) and left % self.factor == 0 else None


def linear(size: Size) -> tuple[Symbol, int, int] | None:
    """(s, a, b) of a size a·s + b of one symbol; None for others.

    >>> n = Dim.symbol("n")
    >>> str(linear(2 * n + 1)[0]), linear(2 * n + 1)[1:], linear(n * n), linear(n // 2)
    ('n', (2, 1), None, None)
    """
    if isinstance(size, int):
        return None
    terms = dict(size.terms)
    offset = terms.pop((), 0)
    if len(terms) != 1:
        return None
    ((monomial, factor),) = terms.items()
    atom, power = monomial[0]
    return (atom, factor, offset) if len(monomial) == 1 and power == 1 and isinstance(atom, Symbol) else None


@lru_cache(maxsize=1024)
def size_axes(type: TensorType) -> tuple[SizeAxis, ...]:
    """The axes of a type that determine a symbol, in order."""
    found = [(k, linear(n)) for k, n in enumerate(type.shape)]
    return tuple([SizeAxis(k, *known) for k, known in found if known is not None])


def solve(types: Sequence[TensorType], shapes: Sequence[Sequence[Any]]) -> dict[str, Any]:
    """The values of the symbols of types from actual shapes; the first axis that determines a symbol gives its value.

    Raises ShapeError if the shapes contradict each other or leave a symbol undetermined.

    >>> from nacre.base.dtypes import float32
    >>> n = Dim.symbol("n")
    >>> solve([TensorType((2 * n, 3), float32)], [(8, 3)])
    {'n': 4}
    """
    found: dict[str, Any] = {}
    symbolic: list[tuple[Dim, Any]] = []
    for type, shape in zip(types, shapes, strict=True):
        if type.static:
            continue
        symbolic += [(d, n) for d, n in zip(type.shape, shape, strict=True) if not isinstance(d, int)]
        for a in size_axes(type):
            if a.symbol.name not in found and (value := a.value(shape[a.axis])) is not None:
                found[a.symbol.name] = value
    for size, actual in symbolic:
        if any(s.name not in found for s in size.symbols()) or size.substitute(found) != actual:
            shown = ", ".join(f"{name} = {n}" for name, n in found.items()) or "nothing known"
            raise ShapeError(
                f"sizes: shapes must agree on each size; got {actual} for {size}, with {shown}; "
                f"shapes are {[list(s) for s in shapes]}"
            )
    return found
