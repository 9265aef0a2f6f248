# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false, reportUnknownMemberType=false
"""`copy`: the value in new, dense memory."""

from __future__ import annotations

from typing import Any

from nacre.ir.axes import own_axes
from nacre.ir.facts import same_type
from nacre.ir.primitive import Element, Linear, Primitive
from nacre.trace.bind import bind
from nacre.trace.value import Value

# above the cost up to which an element is computed twice, so that the result is always stored
COPY_COST = 5

copy_p = Primitive(
    "copy",
    type_rule=lambda x: x,
    lowering=Element(lambda index, operands, types, result: operands[0](index), cost=COPY_COST),
    derivative=Linear((lambda g, x: g,)),
    batch=lambda inputs, axes: (copy(inputs[0]), axes[0]),
    simplify=same_type,
    axis_map=own_axes,
    keeps_order=True,
)


def copy(x: Value) -> Any:
    """x in new, dense memory."""
    return bind(copy_p, x)
