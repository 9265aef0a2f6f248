"""Equations without operands whose element rule gives one number, or the index along an axis."""

from __future__ import annotations

from nacre.ir.graph import Equation
from nacre.ir.primitive import Element
from nacre.kernel.ast import Apply, Const, Expr, Index


def number_of(e: Equation) -> Const | None:
    """The number that every element of the result equals; None if the rule gives no number."""
    found = _at_index(e)
    return found if isinstance(found, Const) else None


def counted_axis(e: Equation) -> int | None:
    """The axis along which the result counts from 0; None if there is none."""
    found = _at_index(e)
    while isinstance(found, Apply) and found.op == "cast":
        (found,) = found.args
    return int(found.name) if isinstance(found, Index) else None


def _at_index(e: Equation) -> Expr | None:
    """The element at an index, whose variables are named by their axes; None if the equation has operands."""
    low, result = e.primitive.lowering, e.outputs[0].type
    if e.inputs or not isinstance(low, Element):
        return None
    return low.rule(tuple(Index(str(k)) for k in range(result.rank)), (), (), result, **e.params)
