"""Sums over the iterations of a scan, computed in one operation after the loop.

In reverse mode through a scan, the cotangent of an operand that all iterations read is a sum with one term for each
iteration.  If a term is a product or a reduction of the iteration's values, the sum is one product or reduction over
the stacked values, with the iterations as an extra contracted or reduced axis.  One large product replaces many small
ones, and no sum as large as the operand is updated in each iteration.  This defines the bits in every mode.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from nacre.base.records import dataclass
from nacre.ir.axes import permutation
from nacre.ir.graph import Atom, Builder, Equation, Var
from nacre.ir.primitive import operation
from nacre.ops.dot import is_plain_product
from nacre.ops.pointwise import add_p
from nacre.ops.shape import permute_p

NO_BATCH = ((), ())


@dataclass(frozen=True, eq=False)
class Term:
    """The contribution of one iteration: a product or reduction of its values, and a permutation of it."""

    equation: Equation
    permute: Equation | None

    @property
    def operands(self) -> tuple[Atom, ...]:
        """The values of the iteration that must be stacked."""
        return self.equation.inputs

    def whole(self, b: Builder, stacked: Sequence[Atom]) -> Atom:
        """Append the sum of the terms of all iterations, from the stacked operands."""
        e = self.equation
        if not e.primitive.product:
            axes: tuple[int, ...] = e.params["axes"]
            params: Mapping[str, Any] = {**e.params, "axes": _iteration_first(axes)}
        else:
            sides = [
                _adjacent(b, x, _iteration_first(axes)) for x, axes in zip(stacked, e.params["contract"], strict=True)
            ]
            stacked = [x for x, _ in sides]
            params = {**e.params, "contract": tuple(axes for _, axes in sides)}
        (found,) = b.add(e.primitive, stacked, params, e.source)
        if self.permute is not None:
            (found,) = b.add(self.permute.primitive, (found,), self.permute.params)
        return found


def _iteration_first(axes: Sequence[int]) -> tuple[int, ...]:
    """The axis of the iterations, then the given axes, which follow it."""
    return (0, *(k + 1 for k in axes))


def _adjacent(b: Builder, x: Atom, axes: tuple[int, ...]) -> tuple[Atom, tuple[int, ...]]:
    """A factor with its contracted axes adjacent and in order, as products read them, and these axes."""
    rank = x.type.rank
    if axes == tuple(range(len(axes))):
        return x, axes
    free = tuple(k for k in range(rank) if k not in axes)
    (moved,) = b.add(permute_p, (x,), {"axes": (*free, *axes)})
    return moved, tuple(range(len(free), rank))


def summands(
    equations: Sequence[Equation], total: Atom, before: Atom, stackable: Callable[[Term], bool]
) -> tuple[list[Atom], list[Term]]:
    """The summands that an iteration adds to `before` to give `total`: those that stay in the loop, and terms."""
    made: dict[Atom, Equation] = {v: e for e in equations for v in e.outputs}
    summands: list[Atom] = []
    while total is not before:
        e = made.get(total)
        if e is None or operation(e.primitive) != "add":
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
    if e is not None and permutation(e) is not None:
        e, permute = made.get(e.inputs[0]), e
    if e is None or not all(isinstance(a, Var) for a in e.inputs):
        return None
    if is_plain_product(e):
        return Term(e, permute) if tuple(e.params["batch"]) == NO_BATCH else None
    return Term(e, permute) if operation(e.primitive) == "sum" else None


def added(b: Builder, start: Atom | None, summands: Sequence[Atom]) -> Atom:
    """Append the sum of `start` and summands, in order."""
    total = start
    for x in summands:
        total = x if total is None else b.add(add_p, (total, x))[0]
    assert total is not None
    return total
