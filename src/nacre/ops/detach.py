# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false, reportUnknownMemberType=false
"""`detach`: the same numbers without a derivative.

A plain tensor only loses its record.  A value of a transformation needs an equation, because its function may be
differentiated later.  Compiled programs contain no code for it.
"""

from __future__ import annotations

from nacre.ir.axes import own_axes
from nacre.ir.facts import same_type
from nacre.ir.primitive import Constant, Element, Primitive
from nacre.trace.bind import bind
from nacre.trace.value import Payload, Value, stripped

detach_p = Primitive(
    "detach",
    type_rule=lambda x: x,
    lowering=Element(lambda index, operands, types, result: operands[0](index), view=lambda layout, x, result: layout),
    derivative=Constant(),
    batch=lambda inputs, axes: (detach(inputs[0]), axes[0]),
    simplify=same_type,
    axis_map=own_axes,
    keeps_order=True,
)


def detach(x: Value) -> Value:
    """x as a constant for every derivative."""
    held = stripped(x)
    return bind(detach_p, held) if isinstance(held.content, Payload) else held
