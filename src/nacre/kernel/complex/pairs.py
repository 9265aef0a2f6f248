"""A complex value as two real expressions, and the list of `Let` statements that a definition writes."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import NamedTuple

from nacre.kernel.ast import Apply, Expr, Let, Load, Local


class Pair(NamedTuple):
    """The real and the imaginary part of a complex value, of one floating-point dtype."""

    re: Expr
    im: Expr


class LetBlock:
    """The `Let` statements that compute values, in order, in one scope.

    `names` gives names that the kernel does not use otherwise.
    """

    def __init__(self, names: Iterator[str] | None = None) -> None:
        self.names = (f"z{k}" for k in count()) if names is None else names
        self.statements: list[Let] = []
        self._bound: dict[Apply, Local] = {}

    def let(self, value: Expr) -> Expr:
        """Bind a value to a fresh name, and return the `Local`.

        A constant, a local or an index is returned as it is.  An operation on those is bound once in the block.
        """
        if not isinstance(value, Apply | Load):
            return value
        known = self._bound.get(value) if isinstance(value, Apply) else None
        if known is not None:
            return known
        local = Local(next(self.names), value.dtype)
        self.statements.append(Let(local.name, value))
        if isinstance(value, Apply) and not any(isinstance(a, Apply | Load) for a in value.args):
            self._bound[value] = local
        return local
