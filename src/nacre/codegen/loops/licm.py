"""Loop-invariant code motion: values that are equal in all iterations are computed before the loop."""

from __future__ import annotations

from collections.abc import Sequence

from nacre.base.dims import Size
from nacre.base.dtypes import int64
from nacre.codegen.loops.expressions import Values
from nacre.kernel.affine import any_of, names, offset
from nacre.kernel.ast import (
    Apply,
    Const,
    Expr,
    Extent,
    For,
    If,
    Index,
    Let,
    Load,
    Local,
    Stmt,
    Store,
    While,
    children,
    expressions,
)
from nacre.kernel.dependence import varying


class LoopInvariants:
    """Values that move out of loops."""

    def __init__(self, values: Values) -> None:
        self.values, self.accumulators = values, values.accumulators

    def hoist(self, s: For) -> set[str]:
        """Compute loop-invariant values before a loop; returns the names that vary."""
        changing = varying(s.body, s.index)
        self._hoist(s.body, changing, {}, guarded=False)
        return changing

    def _hoist(self, body: Sequence[Stmt], changing: set[str], seen: dict[int, frozenset[str]], guarded: bool) -> None:
        for s in body:
            if isinstance(s, Let) and s.name not in changing:
                self._early(s.value, changing, seen, guarded)
                if not names(s.value, seen) & changing and self._may_move(s.value, guarded):
                    self.values.bind(s.name, s.value)
                else:
                    changing.add(s.name)
                continue
            for e in expressions(s):
                self._early(e, changing, seen, guarded)
            if isinstance(s, Store) and s.buffer in self.values.storage:
                self._address(s.buffer, s.index, changing, seen)
            if isinstance(s, For):
                self._hoist(s.body, changing, seen, guarded)
            elif isinstance(s, If | While):
                self._hoist(s.body, changing, seen, True)
                self._hoist(s.orelse if isinstance(s, If) else (), changing, seen, True)

    def spread(self, s: For, changing: set[str], lanes: int) -> None:
        """Broadcast the invariant values of a vector loop to all its lanes before the loop."""
        seen: dict[int, frozenset[str]] = {}

        def visit(e: Expr) -> None:
            """Widen the largest parts of an expression that are the same in all iterations."""
            if isinstance(e, Const | Extent | Index) or e.dtype is int64:
                return
            if names(e, seen) & changing:
                for c in children(e) if isinstance(e, Apply) else ():
                    visit(c)
            elif (v := self.values.find(self.values.number(e))) is not None:
                self.values.widened(v)

        before, self.values.lanes = self.values.lanes, lanes
        for t in s.body:
            for e in expressions(t):
                visit(e)
        self.values.lanes = before

    def _early(self, e: Expr, changing: set[str], seen: dict[int, frozenset[str]], guarded: bool) -> None:
        if isinstance(e, Const | Index | Local):
            return
        if not names(e, seen) & changing and self._may_move(e, guarded):
            self.values.value(e)
            return
        if isinstance(e, Load) and e.buffer in self.values.storage:
            self._address(e.buffer, e.index, changing, seen)
        for c in children(e):
            self._early(c, changing, seen, guarded)

    def _may_move(self, e: Expr, guarded: bool) -> bool:
        """Whether an expression can be evaluated although its statement may not be reached."""

        def reads_unsafely(x: Expr) -> bool:
            """Whether x is a load that might be outside its buffer if moved."""
            if not isinstance(x, Load) or x.buffer in self.accumulators.states:
                return False
            form = offset(self.values.storage[x.buffer].buffer, x.index, self.values.known())
            plain = all(isinstance(a, Index) for a, _ in form.terms)
            return guarded or not plain or form.constant != 0

        return not any_of(e, reads_unsafely)

    def _address(self, buffer: str, index: Sequence[Expr], changing: set[str], seen: dict[int, frozenset[str]]) -> None:
        """Compute the part of an address that is known already."""
        storage = self.values.storage[buffer]
        if storage.lanes > 1:
            return
        form = offset(storage.buffer, index, self.values.known())
        pointer = storage.pointer
        if not isinstance(form.constant, int):
            pointer = self.values.displaced(pointer, storage.element, form.constant)
        parts = [t for t in self.terms_known(form.terms) if isinstance(t[0], Index)]
        self.values.advance(pointer, storage.element, [t for t in parts if not names(t[0], seen) & changing])

    def terms_known(self, terms: Sequence[tuple[Expr, Size]]) -> list[tuple[Expr, Size]]:
        """The terms in indices of enclosing loops, outer ones first, except the vector index."""
        order = list(self.values.indices)
        known = [t for t in terms if isinstance(t[0], Index) and t[0].name in order and t[0].name != self.values.vector]
        return sorted(known, key=lambda t: order.index(t[0].name) if isinstance(t[0], Index) else 0)
