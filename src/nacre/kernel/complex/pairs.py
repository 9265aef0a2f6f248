"""A complex value as two real expressions, and the list of `Let` statements that a definition writes."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import NamedTuple

from nacre.kernel.ast import Const, Expr, Extent, Index, Let, Local


class Pair(NamedTuple):
    """The real and the imaginary part of a complex value, of one floating-point dtype."""

    re: Expr
    im: Expr


class LetBlock:
    """The `Let` statements that compute a value, in order.

    `names` gives names that the kernel does not use otherwise.
    """

    def __init__(self, names: Iterator[str] | None = None) -> None:
        self.names = (f"z{k}" for k in count()) if names is None else names
        self.statements: list[Let] = []

    def let(self, value: Expr) -> Expr:
        """Bind a value to a fresh name, and return the `Local`; a constant, a local or an index is its own name."""
        if isinstance(value, Const | Local | Index | Extent):
            return value
        name = next(self.names)
        self.statements.append(Let(name, value))
        return Local(name, value.dtype)
