"""Sums over the rounds of a scan that are taken at once behind it.

Going back through a scan, the cotangent of an operand that all rounds read is a sum of one term for
each round.  Where a term is a product or a sum of values of its round, the sum of all terms is one
product or sum over the stacked values, with the rounds as a further axis that is contracted or
reduced: one large product in place of many small ones, and nothing as large as the operand is added
up round by round.  It is what defines the bits, however a program runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from nacre.base.records import dataclass
from nacre.ir.graph import Atom, Builder, Equation, Var
from nacre.ir.primitive import primitive_named
from nacre.ops import view as view  # makes the primitives that are named below

NO_BATCH = ((), ())


@dataclass(frozen=True, eq=False)
class Term:
    """What each round adds: a product or sum of values of the round, and a permutation of it."""

    equation: Equation
    permute: Equation | None

    @property
    def operands(self) -> tuple[Atom, ...]:
        """The values of the round that must be stacked."""
        return self.equation.inputs

    def whole(self, b: Builder, stacked: Sequence[Atom]) -> Atom:
        """Append the sum of the terms of all rounds, from the stacked operands."""
        e = self.equation
        if e.primitive.name == "sum":
            axes: tuple[int, ...] = e.params["axes"]
            params: Mapping[str, Any] = {**e.params, "axes": _after_rounds(axes)}
        else:
            sides = [_side_by_side(b, x, _after_rounds(axes))
                     for x, axes in zip(stacked, e.params["contract"], strict=True)]
            stacked = [x for x, _ in sides]
            params = {**e.params, "contract": tuple(axes for _, axes in sides)}
        (found,) = b.add(e.primitive, stacked, params, e.source)
        if self.permute is not None:
            (found,) = b.add(self.permute.primitive, (found,), self.permute.params)
        return found


def _after_rounds(axes: Sequence[int]) -> tuple[int, ...]:
    """The axis of the rounds, then axes that follow it."""
    return (0, *(k + 1 for k in axes))


def _side_by_side(b: Builder, x: Atom, axes: tuple[int, ...]) -> tuple[Atom, tuple[int, ...]]:
    """A factor whose contracted axes are neighbours in order, as products read them, and these axes."""
    rank = x.type.rank
    if axes == tuple(range(len(axes))):
        return x, axes
    free = tuple(k for k in range(rank) if k not in axes)
    (moved,) = b.add(PERMUTE, (x,), {"axes": (*free, *axes)})
    return moved, tuple(range(len(free), rank))


def apart(
    equations: Sequence[Equation], total: Atom, before: Atom, stackable: Callable[[Term], bool]
) -> tuple[list[Atom], list[Term]]:
    """The summands that a round adds to `before` to give `total`: those that stay, and terms."""
    made: dict[Atom, Equation] = {v: e for e in equations for v in e.outputs}
    summands: list[Atom] = []
    while total is not before:
        e = made.get(total)
        if e is None or e.primitive.name != "add":
            return [], []
        total, summand = e.inputs
        summands.append(summand)
    stay: list[Atom] = []
    terms: list[Term] = []
    for x in reversed(summands):
        term = _term(made, x)
        if term is not None and stackable(term):
            terms.append(term)
        else:
            stay.append(x)
    return stay, terms


def _term(made: Mapping[Atom, Equation], x: Atom) -> Term | None:
    e, permute = made.get(x), None
    if e is not None and e.primitive.name == "permute":
        e, permute = made.get(e.inputs[0]), e
    if e is None or not all(isinstance(a, Var) for a in e.inputs):
        return None
    if e.primitive.name == "dot":
        return Term(e, permute) if tuple(e.params["batch"]) == NO_BATCH else None
    return Term(e, permute) if e.primitive.name == "sum" else None


ADD, PERMUTE = primitive_named("add"), primitive_named("permute")


def added(b: Builder, start: Atom | None, summands: Sequence[Atom]) -> Atom:
    """Append the sum of `start` and summands, in order."""
    total = start
    for x in summands:
        total = x if total is None else b.add(ADD, (total, x))[0]
    assert total is not None
    return total
