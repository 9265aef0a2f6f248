"""What element rules say of equations without operands: a number at every index, or the index along an axis."""

from __future__ import annotations

from nacre.ir.graph import Equation
from nacre.ir.primitive import Element
from nacre.kernel.ast import Apply, Const, Expr, Index


def number_of(e: Equation) -> Const | None:
    """The number that all elements of the result are; None if the rule does not say so."""
    found = _at_index(e)
    return found if isinstance(found, Const) else None


def counted_axis(e: Equation) -> int | None:
    """The axis along which the result counts from 0; None if it does not."""
    found = _at_index(e)
    while isinstance(found, Apply) and found.op == "cast":
        (found,) = found.args
    return int(found.name) if isinstance(found, Index) else None


def _at_index(e: Equation) -> Expr | None:
    """The element at an index, whose variables are named by their axes; None for equations with operands."""
    low, result = e.primitive.lowering, e.outputs[0].type
    if e.inputs or not isinstance(low, Element):
        return None
    return low.rule(tuple(Index(str(k)) for k in range(result.rank)), (), (), result, **e.params)
