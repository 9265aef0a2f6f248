"""Pointwise equations, found by one run of their element rules."""

from __future__ import annotations

from nacre.ir.graph import Equation
from nacre.ir.primitive import Element, Operand, Primitive
from nacre.kernel.ast import Expr, Index, Load

_pointwise: dict[Primitive, bool] = {}


def is_pointwise(e: Equation) -> bool:
    """Whether each element of the result is made of the operands' elements at the same index.

    Equations with parameters are tested one by one: a slice may take the whole of its operand.
    """
    if not e.outputs or any(x.type.shape != e.outputs[0].type.shape for x in e.inputs):
        return False
    if e.params:
        return _reads_own_index(e)
    known = _pointwise.get(e.primitive)
    if known is None:
        known = _pointwise[e.primitive] = _reads_own_index(e)
    return known


def _reads_own_index(e: Equation) -> bool:
    """Run the element rule once, and compare the indices that it reads with the index of the result."""
    low = e.primitive.lowering
    if not isinstance(low, Element) or low.view is not None:
        return False
    result = e.outputs[0].type
    index = tuple(Index(f"i{k}") for k in range(result.rank))
    reads: list[bool] = []

    def operand(k: int) -> Operand:
        """An operand that notes whether it is read at the index of the result."""

        def read(at: tuple[Expr, ...]) -> Expr:
            """A load of the operand at an index."""
            reads.append(at == index)
            return Load(f"x{k}", at, e.inputs[k].type.dtype)

        return read

    low.rule(
        index, tuple(operand(k) for k in range(len(e.inputs))), tuple(x.type for x in e.inputs), result, **e.params
    )
    return all(reads)
